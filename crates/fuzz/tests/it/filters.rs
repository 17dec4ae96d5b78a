//! Small languages: filters of segments, and times of schedules.

use fantail_fuzz::{Corpus, fuzz};
use fantail_rules::channel_kind::ChannelSet;
use fantail_rules::ids::Millis;
use fantail_rules::schedule::Cron;
use fantail_rules::segment::{Filter, Person, Value};
use fantail_rules::zone::ZoneNo;

const FILTER_WORDS: &[&str] = &[
    "and",
    "or",
    "not",
    "(",
    ")",
    "in [",
    "topic(\"",
    "attributes.",
    "locale",
    "ago(30d)",
    "date(\"2026-01-31\")",
    "everyone",
    "lastSeenAt",
    "<",
    "<=",
    "==",
    "!=",
    "\"",
    "\\n",
    "true",
    "null",
    "consented(\"push\")",
    "wants(\"x\")",
    "1e308",
    "\u{e9}",
    "30w",
];

#[test]
fn filters_are_read_or_refused() {
    let good = [
        "everyone",
        "attributes.plan == \"pro\" and (locale in [\"en\", \"de\"] or not attributes.age < 18)",
        "topic(\"news\") and lastSeenAt > ago(30d)",
        "reachable(\"push\") and consented(\"email\") and enabled(\"sms\") and wants(\"offers\")",
        "createdAt >= date(\"2026-01-01T00:00:00Z\") or attributes.a[\"b c\"].d != null",
    ];
    for text in good {
        assert!(Filter::parse(text).is_ok(), "the corpus has good filters: {text}");
    }
    let inputs: Vec<Vec<u8>> = good.iter().map(|text| text.as_bytes().to_vec()).collect();
    fuzz("filter of a segment", &Corpus::new(inputs, FILTER_WORDS), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        match Filter::parse(text) {
            Ok(filter) => {
                let person = Person {
                    locale: "en",
                    zone: ZoneNo::from_stored(0).expect("the first zone"),
                    created: Millis(0),
                    updated: Millis(u64::MAX),
                    last_seen: None,
                    reachable: ChannelSet::EMPTY,
                    consented: ChannelSet::EMPTY,
                    enabled: ChannelSet::EMPTY,
                    unwanted: &[],
                    topics: &vec![false; filter.topics().len()],
                    attribute: &|_| Value::Null,
                };
                for now in [0, 1_800_000_000_000, u64::MAX] {
                    let _matches = filter.matches(&person, Millis(now));
                }
                assert_eq!(Filter::parse(text), Ok(filter));
            }
            Err(fault) => assert!(text.is_char_boundary(fault.at) && !fault.what.is_empty(), "{fault:?}"),
        }
    });
}

#[test]
fn schedules_are_read_or_refused() {
    let good = ["0 9 * * 1-5", "*/15 8-18 1,15 * *", "59 23 31 12 *", "0 0 29 2 *", "30 2 * * 0"];
    let inputs: Vec<Vec<u8>> = good.iter().map(|text| text.as_bytes().to_vec()).collect();
    let zones: Vec<ZoneNo> = ["UTC", "Europe/Berlin", "Pacific/Apia", "Asia/Kathmandu"]
        .map(|name| ZoneNo::find(name).expect("a zone"))
        .to_vec();
    fuzz(
        "schedule",
        &Corpus::new(inputs, &["*", "/", ",", "-", " ", "0", "59", "60", "L", "mon"]),
        |input| {
            let Ok(text) = std::str::from_utf8(input) else { return };
            let Ok(cron) = Cron::parse(text) else { return };
            assert!(cron.gap_minutes() >= 1);
            for zone in &zones {
                for now in [0, 1_800_000_000_000, 253_402_207_200_000, u64::MAX] {
                    let next = cron.next_after(*zone, Millis(now));
                    assert!(next.is_none_or(|next| next.0 > now), "{text} after {now}: {next:?}");
                }
            }
        },
    );
}
