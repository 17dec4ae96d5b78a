//! What Apple checks about a request besides who sends it: path, headers, payload. Pure.

use crate::ids::is_uuid;
use hyper::http::HeaderMap;
use serde_json::value::RawValue;

const PAYLOAD_BYTES_MAX: usize = 4_096;
const PAYLOAD_BYTES_MAX_VOIP: usize = 5_120;
const COLLAPSE_BYTES_MAX: usize = 64;
/// 32 bytes today; Apple says that it may grow.
const TOKEN_DIGITS: std::ops::RangeInclusive<usize> = 64..=200;

const PUSH_TYPES: &[&str] = &[
    "alert",
    "background",
    "location",
    "voip",
    "complication",
    "fileprovider",
    "mdm",
    "liveactivity",
    "pushtotalk",
    "widgets",
    "controls",
];
/// Headers that may come once only.
const SINGLE: &[&str] = &[
    "apns-id",
    "apns-topic",
    "apns-push-type",
    "apns-priority",
    "apns-expiration",
    "apns-collapse-id",
    "authorization",
];

/// The device that a path means.
pub fn device<'a>(method: &str, path: &'a str) -> Result<&'a str, &'static str> {
    let token = path.strip_prefix("/3/device/").or((path == "/3/device").then_some("")).ok_or("BadPath")?;
    if method != "POST" {
        return Err("MethodNotAllowed");
    }
    if token.is_empty() { Err("MissingDeviceToken") } else { Ok(token) }
}

#[must_use]
pub fn is_device_token(token: &str) -> bool {
    TOKEN_DIGITS.contains(&token.len())
        && token.len().is_multiple_of(2)
        && token.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// All headers but the authorization; the topic if they are good.
pub fn headers(headers: &HeaderMap) -> Result<&str, &'static str> {
    if SINGLE.iter().any(|name| headers.get_all(*name).iter().count() > 1) {
        return Err("DuplicateHeaders");
    }
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if text("apns-id").is_some_and(|id| !is_uuid(id)) {
        return Err("BadMessageId");
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if text("apns-expiration").is_some_and(|at| !is_number(at)) {
        return Err("BadExpirationDate");
    }
    let push_type = text("apns-push-type").unwrap_or("alert");
    if !PUSH_TYPES.contains(&push_type) {
        return Err("InvalidPushType");
    }
    match text("apns-priority") {
        None | Some("5") => {}
        Some("10" | "1") if push_type != "background" => {}
        Some(_) => return Err("BadPriority"),
    }
    if text("apns-collapse-id").is_some_and(|id| id.is_empty() || id.len() > COLLAPSE_BYTES_MAX) {
        return Err("BadCollapseId");
    }
    match text("apns-topic") {
        None | Some("") => Err("MissingTopic"),
        Some(topic) if is_topic(topic) => Ok(topic),
        Some(_) => Err("BadTopic"),
    }
}

/// A bundle identifier, perhaps with the suffix of a push type.
fn is_topic(topic: &str) -> bool {
    topic.len() <= 255 && topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

pub fn payload(headers: &HeaderMap, body: &[u8]) -> Result<(), &'static str> {
    let is_voip = headers.get("apns-push-type").is_some_and(|value| value == "voip");
    let most = if is_voip { PAYLOAD_BYTES_MAX_VOIP } else { PAYLOAD_BYTES_MAX };
    if body.is_empty() {
        return Err("PayloadEmpty");
    }
    if body.len() > most {
        return Err("PayloadTooLarge");
    }
    let is_object = serde_json::from_slice::<&RawValue>(body).is_ok_and(|raw| raw.get().starts_with('{'));
    if is_object { Ok(()) } else { Err("InvalidPayload") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::http::{HeaderName, HeaderValue};

    #[test]
    fn paths_name_a_device() {
        for (method, path, expected) in [
            ("POST", "/3/device/abc", Ok("abc")),
            ("POST", "/3/device/", Err("MissingDeviceToken")),
            ("POST", "/3/device", Err("MissingDeviceToken")),
            ("GET", "/3/device/abc", Err("MethodNotAllowed")),
            ("POST", "/2/device/abc", Err("BadPath")),
            ("POST", "/", Err("BadPath")),
        ] {
            assert_eq!(device(method, path), expected, "{method} {path}");
        }
        assert!(is_device_token(&"ab".repeat(32)));
        for bad in ["abc".to_owned(), "ab".repeat(31), "zz".repeat(32), format!("{}a", "ab".repeat(32))] {
            assert!(!is_device_token(&bad), "{bad}");
        }
    }

    fn map(given: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in given {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"));
        }
        map
    }

    #[test]
    fn headers_have_their_reasons() {
        let topic = ("apns-topic", "com.example.app");
        let long = "c".repeat(65);
        for (given, expected) in [
            (vec![topic], Ok("com.example.app")),
            (vec![], Err("MissingTopic")),
            (vec![("apns-topic", "")], Err("MissingTopic")),
            (vec![("apns-topic", "com example")], Err("BadTopic")),
            (vec![topic, topic], Err("DuplicateHeaders")),
            (vec![topic, ("apns-id", "5")], Err("BadMessageId")),
            (vec![topic, ("apns-id", "123e4567-e89b-12d3-a456-426614174000")], Ok("com.example.app")),
            (vec![topic, ("apns-expiration", "0")], Ok("com.example.app")),
            (vec![topic, ("apns-expiration", "1800000000")], Ok("com.example.app")),
            (vec![topic, ("apns-expiration", "-1")], Err("BadExpirationDate")),
            (vec![topic, ("apns-expiration", "soon")], Err("BadExpirationDate")),
            (vec![topic, ("apns-priority", "10")], Ok("com.example.app")),
            (vec![topic, ("apns-priority", "1")], Ok("com.example.app")),
            (vec![topic, ("apns-priority", "7")], Err("BadPriority")),
            (vec![topic, ("apns-push-type", "background"), ("apns-priority", "5")], Ok("com.example.app")),
            (vec![topic, ("apns-push-type", "background"), ("apns-priority", "10")], Err("BadPriority")),
            (vec![topic, ("apns-push-type", "loud")], Err("InvalidPushType")),
            (vec![topic, ("apns-collapse-id", &long[1..])], Ok("com.example.app")),
            (vec![topic, ("apns-collapse-id", &long)], Err("BadCollapseId")),
        ] {
            assert_eq!(headers(&map(&given)), expected, "{given:?}");
        }
    }

    #[test]
    fn payloads_have_their_limits() {
        let of = |length: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(length - 8));
        let voip = map(&[("apns-push-type", "voip")]);
        for (headers, body, expected) in [
            (&HeaderMap::new(), String::new(), Err("PayloadEmpty")),
            (&HeaderMap::new(), "[]".to_owned(), Err("InvalidPayload")),
            (&HeaderMap::new(), of(4_096), Ok(())),
            (&HeaderMap::new(), of(4_097), Err("PayloadTooLarge")),
            (&voip, of(5_120), Ok(())),
            (&voip, of(5_121), Err("PayloadTooLarge")),
        ] {
            assert_eq!(payload(headers, body.as_bytes()), expected, "{}", body.len());
        }
    }
}
