//! What APNs is given: the payload, written once for all messages that share their content, and the id of each.
//!
//! ```text
//! {"aps": {"alert": {"title", "subtitle", "body"}, "badge", "sound", "category", "thread-id", "mutable-content"},
//!  ...data, "fantail": {"image", "actions", "reference"}}
//! ```
//! What must never happen: a payload above Apple's limit, measured in the bytes that are sent; `data` that changes `aps`; or
//! an id that differs between attempts.

use crate::push_content::PushContent;
use crate::shorten::fit;
use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use fantail_rules::ids::Millis;
use fantail_rules::priority::Priority;
use serde_json::{Map, Value, json};

pub const PAYLOAD_BYTES_MAX: usize = 4_096;
pub const VOIP_BYTES_MAX: usize = 5_120;
/// Apple keeps nothing for longer.
const STORED_S_MAX: u64 = 30 * 86_400;
/// Fields of `data` that are not the app's to set.
const RESERVED: [&str; 2] = ["aps", "fantail"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushType {
    /// Shows something.
    Alert,
    /// Wakes the app, and nobody is shown anything.
    Background,
    /// A call, to the topic that apps have for them.
    Voip,
}

impl PushType {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Alert => "alert",
            Self::Background => "background",
            Self::Voip => "voip",
        }
    }

    /// Background pushes have no other; a call is no call later.
    #[must_use]
    pub fn priority(self, lane: Priority) -> &'static str {
        match (self, lane) {
            (Self::Background, _) | (Self::Alert, Priority::Low) => "5",
            (Self::Voip, _) | (Self::Alert, Priority::Critical | Priority::High | Priority::Normal) => "10",
        }
    }

    fn bytes_max(self) -> usize {
        match self {
            Self::Alert | Self::Background => PAYLOAD_BYTES_MAX,
            Self::Voip => VOIP_BYTES_MAX,
        }
    }
}

/// What is the same for all messages of a shipment and app.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The app's topic for calls.
    pub is_voip: bool,
    /// Of notifications that name none.
    pub sound: Option<&'a str>,
    /// The longest reference, as it is written.
    pub reference_bytes: usize,
}

/// A payload but for its reference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prepared {
    pub push_type: PushType,
    /// Not to be kept for a device that is not reached at once.
    pub is_now_or_never: bool,
    before: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PayloadError {
    #[error("the payload has more than {max} bytes, even without its text")]
    TooLarge { max: usize },
}

const AFTER: &str = "\"}}";

impl Prepared {
    pub fn new(content: &PushContent, terms: &Terms<'_>) -> Result<Self, PayloadError> {
        let shows = !content.is_silent() || content.apple.badge.is_some() || content.apple.sound.is_some();
        let push_type = match (terms.is_voip, shows) {
            (true, _) => PushType::Voip,
            (false, true) => PushType::Alert,
            (false, false) => PushType::Background,
        };
        let max = push_type.bytes_max();
        let write = |body: Option<&str>| before(content, body, push_type, terms.sound);
        let whole = |before: &str| before.len() + terms.reference_bytes + AFTER.len();
        let body = content.body.as_deref();
        let mut text = write(body);
        if whole(&text) > max {
            let measure = |body: &str| whole(&write(Some(body)));
            let short = body.and_then(|body| fit(body, max, measure));
            text = write(Some(&short.ok_or(PayloadError::TooLarge { max })?));
        }
        debug_assert!(whole(&text) <= max, "what was shortened fits");
        let is_now_or_never = content.apple.is_now_or_never || push_type == PushType::Voip;
        Ok(Self { push_type, is_now_or_never, before: text.into_bytes() })
    }

    #[must_use]
    pub fn body(&self, reference: &str) -> Bytes {
        let mut body = Vec::with_capacity(self.before.len() + reference.len() + AFTER.len());
        body.extend_from_slice(&self.before);
        match is_plain(reference) {
            true => body.extend_from_slice(reference.as_bytes()),
            false => body.extend_from_slice(escaped(reference).as_bytes()),
        }
        body.extend_from_slice(AFTER.as_bytes());
        Bytes::from(body)
    }
}

/// Everything up to the reference.
fn before(content: &PushContent, body: Option<&str>, push_type: PushType, sound: Option<&str>) -> String {
    let mut payload = content.data.clone();
    for name in RESERVED {
        payload.remove(name);
    }
    payload.insert("aps".to_owned(), aps(content, body, push_type, sound));
    let mut own = Map::new();
    if let Some(image) = &content.image {
        own.insert("image".to_owned(), image.clone().into());
    }
    if !content.actions.is_empty() {
        own.insert("actions".to_owned(), content.actions_json());
    }
    let mut text = Value::Object(payload).to_string();
    let mut own = Value::Object(own).to_string();
    // Both end in a brace, which what follows takes the place of.
    text.pop();
    own.pop();
    text.push_str(",\"fantail\":");
    text.push_str(&own);
    text.push_str(if own.len() > 1 { ",\"reference\":\"" } else { "\"reference\":\"" });
    text
}

fn aps(content: &PushContent, body: Option<&str>, push_type: PushType, sound: Option<&str>) -> Value {
    let apple = &content.apple;
    if push_type == PushType::Background {
        return json!({"content-available": 1});
    }
    let mut aps = Map::new();
    let mut alert = Map::new();
    let texts =
        [("title", content.title.as_deref()), ("subtitle", apple.subtitle.as_deref()), ("body", body)];
    for (name, text) in texts {
        alert.extend(text.map(|text| (name.to_owned(), text.into())));
    }
    if !alert.is_empty() {
        aps.insert("alert".to_owned(), Value::Object(alert));
    }
    for (name, text) in [
        ("sound", apple.sound.as_deref().or(sound)),
        ("category", apple.category.as_deref()),
        ("thread-id", apple.thread.as_deref()),
    ] {
        aps.extend(text.map(|text| (name.to_owned(), text.into())));
    }
    aps.extend(apple.badge.map(|badge| ("badge".to_owned(), badge.into())));
    if content.image.is_some() || !content.actions.is_empty() {
        // The app's extension fetches the picture and makes the buttons before anything is shown.
        aps.insert("mutable-content".to_owned(), 1.into());
    }
    Value::Object(aps)
}

fn is_plain(reference: &str) -> bool {
    reference.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
}

fn escaped(reference: &str) -> String {
    let quoted = Value::from(reference).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// How many bytes a reference takes in a payload.
#[must_use]
pub fn reference_bytes(reference: &str) -> usize {
    if is_plain(reference) { reference.len() } else { escaped(reference).len() }
}

/// A UUID in lower case (version 8: made by us), the same for every attempt: the first 16 bytes of SHA-256 over
/// `fantail apns-id` and the reference, but for the six bits that mark it as one. Whoever has a reference finds its id, not
/// the other way round; apps have the reference in the payload.
#[must_use]
pub fn apns_id(reference: &str) -> String {
    let mut context = Context::new(&SHA256);
    context.update(b"fantail apns-id");
    context.update(reference.as_bytes());
    let digest = context.finish();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_ref()[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Absolute seconds, as Apple wants them; 0 is "now or never". `now` is the wall time.
#[must_use]
pub fn expiration(expires_at: Millis, is_now_or_never: bool, now: Millis) -> u64 {
    match is_now_or_never {
        true => 0,
        false => (expires_at.0 / 1_000).min(now.0 / 1_000 + STORED_S_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TERMS: Terms<'static> = Terms { is_voip: false, sound: None, reference_bytes: 38 };
    const REFERENCE: &str = "0123456789abcdefghjkmnpqrstvwxyz012345";

    fn prepared(content: &Value, terms: &Terms<'_>) -> Result<Prepared, PayloadError> {
        let content = PushContent::read(content.to_string().as_bytes()).expect("good content");
        Prepared::new(&content, terms)
    }

    // proves: PSH-07
    #[test]
    fn lanes_and_kinds_have_their_priority() {
        for (push_type, lane, expected) in [
            (PushType::Alert, Priority::Critical, "10"),
            (PushType::Alert, Priority::High, "10"),
            (PushType::Alert, Priority::Normal, "10"),
            (PushType::Alert, Priority::Low, "5"),
            (PushType::Background, Priority::Critical, "5"),
            (PushType::Voip, Priority::Low, "10"),
        ] {
            assert_eq!(push_type.priority(lane), expected, "{push_type:?} {lane:?}");
        }
    }

    // proves: PSH-07
    #[test]
    fn expiry_is_absolute_and_at_most_a_month_away() {
        let now = Millis(1_700_000_000_000);
        for (expires_at, is_now_or_never, expected) in [
            (now.0 + 300_000, false, 1_700_000_300),
            (now.0 + 300_000, true, 0),
            (u64::MAX, false, 1_700_000_000 + 30 * 86_400),
            (now.0 - 1_000, false, 1_699_999_999),
        ] {
            assert_eq!(expiration(Millis(expires_at), is_now_or_never, now), expected);
        }
    }

    #[test]
    fn ids_are_lower_case_uuids_and_depend_on_the_reference_alone() {
        let id = apns_id("ref-1");
        assert_eq!(id, apns_id("ref-1"));
        assert_ne!(id, apns_id("ref-2"));
        let parts: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert!(
            id.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        );
        assert_eq!(
            (&id[14..15], id[19..20].parse().is_ok_and(|digit: u8| digit > 7) || "ab".contains(&id[19..20])),
            ("8", true)
        );
    }

    // proves: PSH-11
    #[test]
    fn payloads_are_as_written_down() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/apns");
        let mut files = 0;
        for file in std::fs::read_dir(directory).expect("golden files") {
            let path = file.expect("a file").path();
            let text = std::fs::read(&path).expect("a file");
            let golden: Value = serde_json::from_slice(&text).expect("JSON");
            let is_voip = golden["voip"] == true;
            let terms = Terms { is_voip, sound: golden["sound"].as_str(), ..TERMS };
            let made = prepared(&golden["content"], &terms).expect("small enough");
            let payload: Value = serde_json::from_slice(&made.body("ref-1")).expect("JSON");
            assert_eq!(payload, golden["payload"], "{}", path.display());
            assert_eq!(made.push_type.name(), golden["pushType"], "{}", path.display());
            files += 1;
        }
        assert!(files >= 9, "{files} golden files");
    }

    #[test]
    fn what_is_too_large_loses_its_end_or_is_refused() {
        let long = "ü".repeat(3_000);
        let short = prepared(&json!({"title": "T", "body": long}), &TERMS).expect("shortened");
        let body = short.body(REFERENCE);
        assert!((4_090..=4_096).contains(&body.len()), "{}", body.len());
        let value: Value = serde_json::from_slice(&body).expect("JSON");
        assert!(value["aps"]["alert"]["body"].as_str().is_some_and(|body| body.ends_with("ü…")));
        let data = json!({"title": "T", "body": "B", "data": {"a": "x".repeat(4_096)}});
        assert_eq!(prepared(&data, &TERMS), Err(PayloadError::TooLarge { max: 4_096 }));
        let voip = prepared(&data, &Terms { is_voip: true, ..TERMS }).expect("calls may be larger");
        assert_eq!((voip.push_type, voip.is_now_or_never), (PushType::Voip, true));
        let title = json!({"title": "x".repeat(4_100)});
        assert_eq!(prepared(&title, &TERMS), Err(PayloadError::TooLarge { max: 4_096 }));
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,200}".prop_map(Value::from),
            "[\\x00-\\x7f]{0,600}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-z]{1,8}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Any content gives a payload that is JSON, within the limit and with its reference, or a refusal.
        #[test]
        fn every_content_makes_a_good_payload_or_none(
            title in prop::option::of(json_value()),
            body in prop::option::of("\\PC{0,3000}|[\\x00-\\x7f]{0,5000}"),
            data in prop::option::of(json_value()),
            extra in prop::option::of(json_value()),
            reference in "[0-9a-z]{1,38}|\\PC{1,8}",
            is_voip in any::<bool>(),
        ) {
            let mut content = Map::new();
            content.extend(title.map(|title| ("title".to_owned(), title)));
            content.extend(body.map(|body| ("body".to_owned(), body.into())));
            content.extend(data.map(|data| ("data".to_owned(), data)));
            for name in ["badge", "sound", "category", "threadId", "imageUrl", "actions", "store"] {
                content.extend(extra.clone().map(|extra| (name.to_owned(), extra)));
            }
            let bytes = Value::Object(content).to_string();
            let Ok(content) = PushContent::read(bytes.as_bytes()) else { return Ok(()) };
            let terms = Terms { is_voip, sound: Some("default"), reference_bytes: reference_bytes(&reference) };
            let Ok(prepared) = Prepared::new(&content, &terms) else { return Ok(()) };
            let body = prepared.body(&reference);
            let max = if is_voip { VOIP_BYTES_MAX } else { PAYLOAD_BYTES_MAX };
            prop_assert!(body.len() <= max, "{} bytes", body.len());
            let value: Value = serde_json::from_slice(&body).expect("JSON");
            prop_assert_eq!(&value["fantail"]["reference"], &Value::from(reference));
            prop_assert!(value["aps"].is_object());
        }
    }
}
