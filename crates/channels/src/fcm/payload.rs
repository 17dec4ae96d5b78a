//! A message as FCM takes it. What all recipients share is written once for a shipment; token and reference are put in
//! for each.
//!
//! ```text
//! {"message":{"token":"…","data":{"fantail.reference":"…" ─ shared ─►,"k":"v"},"notification":{…},"android":{…},…}}
//! ```
//! What must never happen: a payload above 4,096 bytes after encoding (the body is shortened, or the message refused), or a
//! value of `data` that is no string.

use crate::collapse::{collapse_id, topic};
use crate::push_content::PushContent;
use crate::shorten::fit;
use bytes::Bytes;
use fantail_rules::ids::Millis;
use fantail_rules::priority::Priority;
use fantail_rules::push_address::FcmKind;
use serde_json::{Map, Value, json};

/// Of everything but the target.
pub const PAYLOAD_BYTES_MAX: usize = 4_096;
/// 28 days.
const TTL_S_MAX: u64 = 2_419_200;
/// Under which an app finds the name of the delivery, and the buttons.
pub const REFERENCE_KEY: &str = "fantail.reference";
pub const ACTIONS_KEY: &str = "fantail.actions";

/// What a shipment says about its messages.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub lane: Priority,
    pub expires_at: Millis,
    pub collapse_key: Option<&'a str>,
    /// Android's channel for messages that name none.
    pub channel_id: Option<&'a str>,
    /// The longest reference that will be put in.
    pub reference_bytes: usize,
    /// Wall time.
    pub now: Millis,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PayloadError {
    /// The name is the template's, not the recipient's.
    #[error("the key `{key}` of data is reserved by FCM")]
    ReservedKey { key: String },
    #[error("the payload is larger than {PAYLOAD_BYTES_MAX} bytes even without its body")]
    TooLarge,
    #[error("its time is over")]
    Expired,
}

/// Everything but target and reference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prepared {
    rest: String,
}

impl Prepared {
    pub fn new(content: &PushContent, terms: &Terms<'_>) -> Result<Self, PayloadError> {
        if terms.expires_at <= terms.now {
            return Err(PayloadError::Expired);
        }
        let data = data(content)?;
        let rest = platforms(content, terms);
        let written = |rest: &Map<String, Value>, body: &str| {
            let mut rest = rest.clone();
            if let Some(notification) = notification(content, body) {
                rest.insert("notification".to_owned(), notification);
            }
            join(&data, &rest)
        };
        let around = PREFIX.len() + terms.reference_bytes + 2;
        let measure = |body: &str| around + written(&rest, body).len();
        let body = content.body.as_deref().unwrap_or_default();
        let body = fit(body, PAYLOAD_BYTES_MAX, measure).ok_or(PayloadError::TooLarge)?;
        Ok(Self { rest: written(&rest, &body) })
    }

    /// The whole request.
    #[must_use]
    pub fn body(&self, kind: FcmKind, target: &str, reference: &str) -> Bytes {
        let length = PREFIX.len() + target.len() + reference.len() + self.rest.len() + 48;
        let mut out = String::with_capacity(length);
        out.push_str("{\"message\":{\"");
        out.push_str(kind.name());
        out.push_str("\":");
        out.push_str(&Value::from(target).to_string());
        out.push(',');
        out.push_str(PREFIX);
        out.push_str(&Value::from(reference).to_string());
        out.push_str(&self.rest);
        Bytes::from(out)
    }
}

const PREFIX: &str = "\"data\":{\"fantail.reference\":";

/// What follows the reference: the rest of the data, then the rest of the message.
fn join(data: &Map<String, Value>, rest: &Map<String, Value>) -> String {
    let inside = |map: &Map<String, Value>| {
        let text = Value::Object(map.clone()).to_string();
        text.get(1..text.len() - 1).filter(|inside| !inside.is_empty()).map(|inside| format!(",{inside}"))
    };
    format!("{}}}{}}}}}", inside(data).unwrap_or_default(), inside(rest).unwrap_or_default())
}

/// Strings as they are, all else as its JSON.
fn data(content: &PushContent) -> Result<Map<String, Value>, PayloadError> {
    let mut data = Map::new();
    for (key, value) in &content.data {
        if is_reserved(key) {
            return Err(PayloadError::ReservedKey { key: key.clone() });
        }
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                value.to_string()
            }
        };
        data.insert(key.clone(), text.into());
    }
    if !content.actions.is_empty() {
        data.insert(ACTIONS_KEY.to_owned(), content.actions_json().to_string().into());
    }
    Ok(data)
}

/// FCM refuses these, and the reference is ours.
fn is_reserved(key: &str) -> bool {
    ["from", "message_type", REFERENCE_KEY, ACTIONS_KEY].contains(&key)
        || key.starts_with("google")
        || key.starts_with("gcm")
}

fn notification(content: &PushContent, body: &str) -> Option<Value> {
    if content.is_silent() {
        return None;
    }
    let mut fields = Map::new();
    put(&mut fields, "title", content.title.as_deref());
    put(&mut fields, "body", Some(body).filter(|body| !body.is_empty()));
    put(&mut fields, "image", content.image.as_deref());
    Some(Value::Object(fields))
}

fn platforms(content: &PushContent, terms: &Terms<'_>) -> Map<String, Value> {
    let mut parts = Map::new();
    parts.insert("android".to_owned(), android(content, terms));
    parts.insert("apns".to_owned(), apns(content, terms));
    parts.insert("webpush".to_owned(), webpush(content, terms));
    parts
}

fn android(content: &PushContent, terms: &Terms<'_>) -> Value {
    let priority = match terms.lane {
        Priority::Critical | Priority::High => "HIGH",
        Priority::Normal | Priority::Low => "NORMAL",
    };
    let mut fields = Map::new();
    fields.insert("priority".to_owned(), priority.into());
    fields.insert("ttl".to_owned(), format!("{}s", ttl_s(terms)).into());
    if let Some(key) = terms.collapse_key {
        fields.insert("collapse_key".to_owned(), collapse_id(key).into());
    }
    if !content.is_silent() {
        let mut shown = Map::new();
        put(&mut shown, "channel_id", content.channel_id.as_deref().or(terms.channel_id));
        put(&mut shown, "click_action", content.click_action.as_deref());
        if let Some(key) = terms.collapse_key {
            // What is shown already is replaced as well.
            shown.insert("tag".to_owned(), collapse_id(key).into());
        }
        if !shown.is_empty() {
            fields.insert("notification".to_owned(), Value::Object(shown));
        }
    }
    Value::Object(fields)
}

fn apns(content: &PushContent, terms: &Terms<'_>) -> Value {
    let is_urgent = !content.is_silent() && terms.lane != Priority::Low;
    let mut headers = Map::new();
    headers.insert("apns-priority".to_owned(), if is_urgent { "10" } else { "5" }.into());
    let expires_s = terms.now.0 / 1_000 + ttl_s(terms);
    headers.insert("apns-expiration".to_owned(), expires_s.to_string().into());
    if let Some(key) = terms.collapse_key {
        headers.insert("apns-collapse-id".to_owned(), collapse_id(key).into());
    }
    let mut aps = Map::new();
    if content.is_silent() {
        headers.insert("apns-push-type".to_owned(), "background".into());
        aps.insert("content-available".to_owned(), 1.into());
    }
    put(&mut aps, "category", content.click_action.as_deref());
    let mut fields = Map::new();
    if content.image.is_some() || !content.actions.is_empty() {
        // An extension of the app fetches the picture and shows the buttons.
        aps.insert("mutable-content".to_owned(), 1.into());
    }
    if let Some(image) = &content.image {
        fields.insert("fcm_options".to_owned(), json!({"image": image}));
    }
    fields.insert("headers".to_owned(), Value::Object(headers));
    if !aps.is_empty() {
        fields.insert("payload".to_owned(), json!({"aps": aps}));
    }
    Value::Object(fields)
}

fn webpush(content: &PushContent, terms: &Terms<'_>) -> Value {
    let urgency = match terms.lane {
        Priority::Critical | Priority::High => "high",
        Priority::Normal => "normal",
        Priority::Low => "low",
    };
    let mut headers = Map::new();
    headers.insert("TTL".to_owned(), ttl_s(terms).to_string().into());
    headers.insert("Urgency".to_owned(), urgency.into());
    if let Some(key) = terms.collapse_key {
        headers.insert("Topic".to_owned(), topic(key).into());
    }
    let mut shown = Map::new();
    put(&mut shown, "icon", content.icon.as_deref());
    if !content.actions.is_empty() {
        let action =
            |action: &crate::push_content::Action| json!({"action": action.id, "title": action.title});
        shown.insert("actions".to_owned(), content.actions.iter().map(action).collect());
    }
    let mut fields = Map::new();
    fields.insert("headers".to_owned(), Value::Object(headers));
    if !shown.is_empty() {
        fields.insert("notification".to_owned(), Value::Object(shown));
    }
    if let Some(url) = content.url.as_deref().filter(|url| url.starts_with("https://")) {
        fields.insert("fcm_options".to_owned(), json!({"link": url}));
    }
    Value::Object(fields)
}

fn ttl_s(terms: &Terms<'_>) -> u64 {
    (terms.expires_at.since(terms.now) / 1_000).min(TTL_S_MAX)
}

fn put(fields: &mut Map<String, Value>, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        fields.insert(name.to_owned(), text.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Millis = Millis(1_700_000_000_000);

    fn terms() -> Terms<'static> {
        Terms {
            lane: Priority::Normal,
            expires_at: NOW.plus(60_000),
            collapse_key: None,
            channel_id: None,
            reference_bytes: 38,
            now: NOW,
        }
    }

    fn prepare(content: &str, terms: &Terms<'_>) -> Result<Value, PayloadError> {
        let content = PushContent::read(content.as_bytes()).expect("content");
        let prepared = Prepared::new(&content, terms)?;
        let body = prepared.body(FcmKind::Token, "tok\"en", "ref-1");
        Ok(serde_json::from_slice(&body).expect("JSON"))
    }

    #[test]
    fn data_is_strings_and_reserved_keys_are_refused() {
        let body = prepare(r#"{"title":"T","data":{"a":"x","b":{"c":[1,true]},"d":2.5,"e":null}}"#, &terms());
        let body = body.expect("a message");
        assert_eq!(
            body["message"]["data"],
            json!({"fantail.reference": "ref-1", "a": "x", "b": "{\"c\":[1,true]}", "d": "2.5", "e": "null"})
        );
        assert_eq!(body["message"]["token"], "tok\"en");
        for key in
            ["from", "message_type", "google.x", "gcm_y", "googlea", "fantail.reference", "fantail.actions"]
        {
            let refused = prepare(&format!(r#"{{"title":"T","data":{{"{key}":1}}}}"#), &terms());
            assert_eq!(refused, Err(PayloadError::ReservedKey { key: key.to_owned() }));
        }
    }

    // proves: PSH-07
    #[test]
    fn lanes_and_times_are_passed_on() {
        for (lane, expires_ms, priority, ttl) in [
            (Priority::Critical, 60_000, "HIGH", "60s"),
            (Priority::High, 1, "HIGH", "0s"),
            (Priority::Normal, 999_999, "NORMAL", "999s"),
            (Priority::Low, u64::MAX, "NORMAL", "2419200s"),
        ] {
            let terms = Terms { lane, expires_at: NOW.plus(expires_ms), ..terms() };
            let body = prepare(r#"{"title":"T"}"#, &terms).expect("a message");
            let android = &body["message"]["android"];
            assert_eq!((&android["priority"], &android["ttl"]), (&json!(priority), &json!(ttl)));
        }
        let late = Terms { expires_at: NOW, ..terms() };
        assert_eq!(prepare(r#"{"title":"T"}"#, &late), Err(PayloadError::Expired));
    }

    #[test]
    fn a_long_body_is_shortened_and_long_data_refused() {
        let body = prepare(&json!({"title": "T", "body": "é".repeat(4_000)}).to_string(), &terms());
        let body = body.expect("a message");
        let text = body["message"]["notification"]["body"].as_str().expect("a body");
        assert!(text.ends_with('…') && text.len() > 3_000, "{}", text.len());
        let large = json!({"title": "T", "data": {"a": "x".repeat(4_096)}}).to_string();
        assert_eq!(prepare(&large, &terms()), Err(PayloadError::TooLarge));
    }

    proptest! {
        /// Whatever the content, the payload fits or is refused, and the reference is in it.
        #[test]
        fn payloads_fit(
            title in "\\PC{0,40}", body in "\\PC{0,3000}", data in proptest::collection::btree_map("[a-d]{1,3}", "\\PC{0,900}", 0..5),
            collapse_key in proptest::option::of("\\PC{0,90}"),
        ) {
            let content = json!({"title": title, "body": body, "data": data}).to_string();
            let Ok(content) = PushContent::read(content.as_bytes()) else { return Ok(()) };
            let terms = Terms { collapse_key: collapse_key.as_deref(), ..terms() };
            match Prepared::new(&content, &terms) {
                Ok(prepared) => {
                    let (target, reference) = ("t".repeat(200), "r".repeat(38));
                    let whole = prepared.body(FcmKind::Fid, &target, &reference);
                    let around = "{\"message\":{\"fid\":\"\",}}".len() + target.len();
                    prop_assert!(whole.len() - around <= PAYLOAD_BYTES_MAX, "{}", whole.len() - around);
                    let read: Value = serde_json::from_slice(&whole).expect("JSON");
                    prop_assert_eq!(&read["message"]["data"][REFERENCE_KEY], &json!(reference));
                }
                Err(error) => prop_assert_eq!(error, PayloadError::TooLarge),
            }
        }
    }
}
