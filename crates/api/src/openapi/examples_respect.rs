//! Examples about what users want.

use super::Example;
use super::examples::{FAR_AHEAD, examples, text};
use fantail_wire::erasure::{Erasure, ErasureAsk, ErasureState};
use fantail_wire::event::Channel;
use fantail_wire::link::{LinkPurpose, PreferenceLink, PreferenceLinkAsk, UnsubscribeHeaders};
use fantail_wire::preference::{
    Burst, CategoryFrequency, CategoryPreference, ChangeKind, ChannelPreference, Consent, ConsentPut,
    Consents, Day, Frequency, PreferenceChange, PreferenceHistory, Preferences, QuietHours, UserPreferences,
};

const TIME: &str = "2026-01-31T12:00:00.000Z";

fn preferences() -> Preferences {
    let likes = CategoryPreference {
        enabled: Some(true),
        channels: Some(vec![Channel::InApp, Channel::Push]),
        frequency: Some(CategoryFrequency::DailyDigest),
    };
    Preferences {
        global_enabled: Some(true),
        quiet_hours: Some(QuietHours {
            enabled: true,
            start: text("22:00"),
            end: text("07:00"),
            timezone: Some(text("Europe/Vienna")),
            days: Some(vec![Day::Mon, Day::Tue, Day::Wed, Day::Thu, Day::Sun]),
        }),
        channels: [(Channel::Email, ChannelPreference { enabled: Some(true), frequency: Some(frequency()) })]
            .into_iter()
            .collect(),
        categories: [(text("likes"), likes)].into_iter().collect(),
    }
}

fn frequency() -> Frequency {
    let burst = Some(Burst { size: 3, refill_seconds: 600 });
    Frequency { max_per_hour: Some(5), max_per_day: Some(20), burst }
}

fn consent() -> Consent {
    Consent { granted: true, version: text("2026-01"), source: text("ios-app"), granted_at: text(TIME) }
}

const LINK: &str = "https://notify.example.com/u/04g5w7r0kd2vd3xq8hcy0a9mzp";

examples! {
    ErasureAsk => ErasureAsk { user_id: text("ann") };
    Erasure => Erasure {
        erasure_id: text("01KG9V7W0R0000000000000001"),
        state: ErasureState::Completed,
        requested_at: text(TIME),
        completed_at: Some(text("2026-01-31T12:00:02.000Z")),
        removed: [("profile", 1), ("devicesAndAddresses", 2), ("pendingDeliveries", 3), ("key", 1)]
            .map(|(store, count)| (text(store), count))
            .into(),
    };
    PreferenceLinkAsk => PreferenceLinkAsk {
        purpose: LinkPurpose::Unsubscribe,
        channel: Some(Channel::Email),
        category: Some(text("newsletter")),
        expires_at: Some(text(FAR_AHEAD)),
    };
    PreferenceLink => PreferenceLink {
        url: text(LINK),
        mail_headers: Some(UnsubscribeHeaders {
            list_unsubscribe: format!("<{LINK}>"),
            list_unsubscribe_post: text("List-Unsubscribe=One-Click"),
        }),
    };
    Preferences => preferences();
    UserPreferences => UserPreferences { user_id: text("ann"), version: 4, preferences: preferences() };
    ConsentPut => ConsentPut {
        granted: true,
        version: text("2026-01"),
        source: Some(text("ios-app")),
        granted_at: Some(text(TIME)),
    };
    Consents => Consents {
        user_id: text("ann"),
        consents: [(Channel::Push, consent())].into_iter().collect(),
    };
    PreferenceHistory => PreferenceHistory {
        changes: vec![PreferenceChange {
            version: 4,
            at: text(TIME),
            kind: ChangeKind::OptOut,
            source: text("settings page"),
            old_preferences: Some(Preferences::default()),
            new_preferences: Some(preferences()),
            channel: Some(Channel::Push),
            old_consent: Some(consent()),
            new_consent: Some(consent()),
        }],
        next_cursor: Some(text("AQMk3w8AAAAAAAAABw")),
    };
}
