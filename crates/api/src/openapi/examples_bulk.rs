//! Examples about bulk sends.

use super::Example;
use super::examples::{examples, text};
use fantail_wire::bulk::{
    Bulk, BulkAccepted, BulkEstimate, BulkPatch, BulkSend, BulkStatus, Bulks, ChannelEstimate, OffPeak,
    RecipientQuery,
};
use fantail_wire::event::{Channel, Content, Priority};
use fantail_wire::notification::{ChannelStatus, SendOptions};
use serde_json::Map;

const EVENT: &str = "01KG9V7W0R0000000000000001";
const TIME: &str = "2026-01-31T12:00:00.000Z";

fn send() -> BulkSend {
    BulkSend {
        notification_id: Some(text("spring-sale")),
        recipient_query: RecipientQuery { segment: text("vips"), exclude_opted_out: Some(true) },
        category: Some(text("marketing")),
        priority: Some(Priority::Low),
        channels: vec![Channel::Push],
        content: Some(Content {
            title: text("Spring sale"),
            body: None,
            data: None,
            image_url: None,
            actions: Vec::new(),
        }),
        template_id: None,
        template_version: None,
        variables: Map::new(),
        rate_per_second: Some(500),
        spread_over_minutes: None,
        respect_quiet_hours: Some(true),
        off_peak: Some(OffPeak {
            start: text("20:00"),
            end: text("06:00"),
            timezone: Some(text("Europe/Vienna")),
        }),
        options: SendOptions::default(),
    }
}

fn counted(pairs: &[(&str, u64)]) -> std::collections::BTreeMap<String, u64> {
    pairs.iter().map(|(name, count)| (text(name), *count)).collect()
}

fn bulk() -> Bulk {
    Bulk {
        event_id: text(EVENT),
        notification_id: Some(text("spring-sale")),
        segment: text("vips"),
        status: BulkStatus::Running,
        waits_for: Some(text("rate")),
        created_at: text(TIME),
        scheduled_at: Some(text(TIME)),
        users: 40_000,
        looked_at: 20_000,
        members: 12_000,
        entries: 0,
        skipped: counted(&[("no_consent", 300), ("no_endpoint", 1_200)]),
        channels: vec![ChannelStatus {
            channel: Channel::Push,
            counts: counted(&[("sent", 11_800)]),
            unreached: 0,
            done: false,
        }],
    }
}

examples! {
    BulkSend => send();
    BulkAccepted => BulkAccepted {
        request_id: text("01KG9V7W0R00000000000000RQ"),
        notification_id: text("spring-sale"),
        event_id: text(EVENT),
    };
    BulkPatch => BulkPatch { rate_per_second: Some(2_000), spread_over_minutes: None };
    Bulk => bulk();
    Bulks => Bulks { bulks: vec![bulk()], next_cursor: Some(text("AQMAAAAA")) };
    BulkEstimate => BulkEstimate {
        users: 40_000,
        audience: 27_000,
        exact: true,
        channels: [(text("push"), ChannelEstimate {
            recipients: 24_000,
            suppressed: counted(&[("no_consent", 600), ("no_endpoint", 2_400)]),
        })].into_iter().collect(),
        finishes_at: text(TIME),
    };
}
