//! What comes back from links and receipts: references of deliveries, links to preferences, links that are tracked.

use fantail_fuzz::{Corpus, fuzz};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, DeviceNo, KeyNo, Millis, ShardNo, TenantId, UserNo};
use fantail_rules::link::{Envelope, Link, Purpose};
use fantail_rules::reference::Reference;
use fantail_rules::tracked_link;

const KEY: [u8; 16] = [7; 16];
const BYTES: &[&str] = &["\0", "\u{1}", "\u{7f}", "\u{ff}", "0", "z"];

fn references() -> Vec<Reference> {
    let one = |tenant, arrival, user, device| Reference {
        tenant: TenantId(tenant),
        shard: ShardNo(3),
        arrival: Arrival(arrival),
        channel: ChannelKind::Email,
        user: UserNo(user),
        device: DeviceNo(device),
    };
    vec![one(1, 2, 3, 4), one(u32::MAX, 1 << 60, 1 << 62, u16::MAX)]
}

#[test]
fn references_are_read_or_refused() {
    let corpus = references().iter().map(|reference| reference.write(&KEY).into_bytes()).collect();
    fuzz("reference", &Corpus::new(corpus, BYTES), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        if let Some(read) = Reference::read(text, |_| Some(KEY)) {
            assert!(references().contains(&read), "{text} was never given out");
        }
    });
}

#[test]
fn links_are_read_or_refused() {
    let link = |channel, category: Option<&str>, until| Link {
        shard: ShardNo(3),
        user: UserNo(1 << 40),
        purpose: Purpose::Unsubscribe,
        channel,
        category: category.map(str::to_owned),
        until,
    };
    let inputs = vec![
        link(None, None, None).write(),
        link(Some(ChannelKind::Sms), Some("news"), Some(Millis(1_800_000_000_000))).write(),
    ];
    fuzz("link", &Corpus::new(inputs, BYTES), |input| {
        if let Some(read) = Link::read(input) {
            assert_eq!(Link::read(&read.write()), Some(read), "what is sealed is what was read");
        }
    });
    let envelope = Envelope { tenant: TenantId(1), key: KeyNo(70_000), nonce: [9; 12], sealed: vec![5; 40] };
    fuzz("envelope of a link", &Corpus::new(vec![envelope.write().into_bytes()], BYTES), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        if let Some(read) = Envelope::read(text) {
            assert_eq!(Envelope::read(&read.write()), Some(read), "what is sent is what was read");
        }
    });
}

/// Nothing that we did not seal leads anywhere.
#[test]
fn tracked_links_lead_where_they_led() {
    let url = "https://shop.example/sale?x=1";
    let click = tracked_link::click("https://notify.example", "r1", url, &KEY).expect("a link");
    let tail =
        click.strip_prefix("https://notify.example/t/c/r1/").expect("a link of ours").as_bytes().to_vec();
    fuzz("tracked link", &Corpus::new(vec![tail], &["/", "_", "-", "A", "="]), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let Some((encoded, seal)) = text.split_once('/') else { return };
        if let Some(target) = tracked_link::target("r1", encoded, seal, &KEY) {
            assert_eq!(target, url);
        }
        // A header can have it, whatever was sealed once.
        assert!(tracked_link::location(text).bytes().all(|byte| byte.is_ascii_graphic()));
    });
}
