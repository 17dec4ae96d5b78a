//! What a deserializer says about a value, in the words of the API: what is wanted there, not which type of ours did not fit.
//!
//! Comes from: `body`, where a body is no value of its shape. Goes to: the `detail` of a field error.
//! Invariant: lists of words are whole, or end with how many are left out.

use std::fmt::Write;

/// Bytes of a list of words: all scopes fit.
const LIST_BYTES_MAX: usize = 600;
/// Other messages may quote what the caller sent.
const TEXT_CHARS_MAX: usize = 300;
const DECODED: &str = "decoded: ";

/// A message of serde as a rule for the field.
pub fn worded(message: &str) -> String {
    // serde_json appends the place, which the pointer says already.
    let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
    if let Some(inner) = message.strip_prefix(DECODED) {
        return format!("as JSON: {}", worded(inner));
    }
    if message.starts_with("missing field `") {
        return "is required".to_owned();
    }
    if message.starts_with("duplicate field `") {
        return "is given twice".to_owned();
    }
    if message.starts_with("unknown field `") {
        return match known_words(message) {
            words if words.is_empty() => "is not a field here".to_owned(),
            words => format!("is not a field here; there are {}", listed(&words)),
        };
    }
    if message.starts_with("unknown variant `") {
        return format!("must be one of {}", listed(&known_words(message)));
    }
    if let Some(rest) = message.strip_prefix("invalid type: ").or(message.strip_prefix("invalid value: "))
        && let Some((given, wanted)) = rest.rsplit_once(", expected ")
    {
        return format!("must be {}, not {}", wanted_in_words(wanted), given_in_words(given));
    }
    if message.starts_with("invalid length ") {
        return "has the wrong number of items".to_owned();
    }
    match message {
        "expected value" => "must be a string".to_owned(),
        "number out of range" => "is out of range".to_owned(),
        other => other.chars().take(TEXT_CHARS_MAX).collect(),
    }
}

/// The words behind `expected`, each in backticks.
fn known_words(message: &str) -> Vec<&str> {
    let Some((_, words)) = message.rsplit_once("`, expected ") else { return Vec::new() };
    words.split('`').skip(1).step_by(2).collect()
}

fn listed(words: &[&str]) -> String {
    let mut list = String::new();
    for (index, word) in words.iter().enumerate() {
        if list.len() + word.len() > LIST_BYTES_MAX {
            write!(list, " and {} more", words.len() - index).expect("a string takes everything");
            break;
        }
        let is_last = index + 1 == words.len();
        list.push_str(match index {
            0 => "",
            _ if is_last => " and ",
            _ => ", ",
        });
        list.push_str(word);
    }
    list
}

fn wanted_in_words(wanted: &str) -> String {
    let number = |max: u64| format!("a whole number from 0 to {max}");
    match wanted {
        "u8" => number(u8::MAX.into()),
        "u16" => number(u16::MAX.into()),
        "u32" => number(u32::MAX.into()),
        "u64" | "usize" => "a whole number that is not negative".to_owned(),
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a map" => "an object".to_owned(),
        "string" | "a borrowed string" | "string or map" | "variant identifier" => "a string".to_owned(),
        _ if wanted.starts_with("struct ") => "an object".to_owned(),
        _ if wanted.starts_with("enum ") => "a string".to_owned(),
        // A fixed sequence: there is none in our shapes but the pairs of tests.
        _ if wanted.starts_with("tuple ") => "an array".to_owned(),
        other => other.chars().take(TEXT_CHARS_MAX).collect(),
    }
}

/// The value that was found: numbers as they are, others by their kind.
fn given_in_words(given: &str) -> String {
    let quoted = given.split('`').nth(1);
    match given.split([' ', '`']).next() {
        Some("integer" | "floating" | "boolean") => quoted.unwrap_or("this").to_owned(),
        Some("string" | "character" | "byte") => "a string".to_owned(),
        Some("sequence") => "an array".to_owned(),
        Some("map") => "an object".to_owned(),
        Some("null" | "unit" | "Option") => "null".to_owned(),
        Some(_) | None => "this".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body;
    use fantail_wire::event::CloudEvent;
    use fantail_wire::notification::NotificationSend;
    use fantail_wire::preference::Preferences;
    use fantail_wire::tenant::{KeyCreate, Scope};
    use serde::de::DeserializeOwned;

    fn check<T: DeserializeOwned>(body: &str, pointer: &str, detail: &str) {
        let problem =
            body::parse::<T>(body.as_bytes()).err().unwrap_or_else(|| panic!("{body} was accepted"));
        let found: Vec<(&str, &str)> =
            problem.errors.iter().map(|error| (error.pointer.as_str(), error.detail.as_str())).collect();
        assert_eq!(found, [(pointer, detail)], "{body}");
    }

    // fixes: usability §3.15
    #[test]
    fn no_type_of_ours_is_named() {
        let send = |more: &str| format!(r#"{{"recipients":[{{"userId":"ann"}}],{more}}}"#);
        check::<NotificationSend>(
            &send(r#""options":{"ttl":-1}"#),
            "/options/ttl",
            "must be a whole number that is not negative, not -1",
        );
        check::<NotificationSend>(
            &send(r#""options":{"ttl":"soon"}"#),
            "/options/ttl",
            "must be a whole number that is not negative, not a string",
        );
        check::<NotificationSend>(
            &send(r#""templateVersion":4294967296"#),
            "/templateVersion",
            "must be a whole number from 0 to 4294967295, not 4294967296",
        );
        check::<NotificationSend>(&send(r#""content":[]"#), "/content", "must be an object, not an array");
        check::<NotificationSend>(&send(r#""content":{}"#), "/content/title", "is required");
        check::<NotificationSend>(
            &send(r#""channels":"push""#),
            "/channels",
            "must be an array, not a string",
        );
        check::<NotificationSend>(&send(r#""priority":1"#), "/priority", "must be a string");
        check::<NotificationSend>(
            &send(r#""options":{"sensitive":"yes"}"#),
            "/options/sensitive",
            "must be true or false, not a string",
        );
        check::<NotificationSend>(
            &send(r#""channels":["pigeon"]"#),
            "/channels/0",
            "must be one of inApp, push, email, sms and webhook",
        );
        check::<NotificationSend>(
            &send(r#""options":{"tll":60}"#),
            "/options/tll",
            "is not a field here; there are ttl, scheduledAt, sendAtLocal, offPeak, cancellationKey, collapseKey and sensitive",
        );
        check::<NotificationSend>(&send(r#""category":"a","category":"b""#), "/category", "is given twice");
        let event =
            |data: &str| format!(r#"{{"specversion":"1.0","id":"1","source":"s","type":"t","data":{data}}}"#);
        check::<CloudEvent>(&event("[]"), "/data", "must be an object, not an array");
        check::<CloudEvent>(
            &event(r#"{"audience":{}}"#),
            "/data/audience",
            "must have exactly one of users, followersOf, topic, segment",
        );
        check::<Preferences>(
            r#"{"channels":{"push":{"frequency":{"maxPerHour":70000}}}}"#,
            "/channels/push/frequency/maxPerHour",
            "must be a whole number from 0 to 65535, not 70000",
        );
    }

    // fixes: usability §3.10
    #[test]
    fn lists_of_words_are_whole() {
        let problem = body::parse::<KeyCreate>(br#"{"scopes":["everything"]}"#).expect_err("no such scope");
        let detail = &problem.errors[0].detail;
        for scope in Scope::ALL {
            assert!(detail.contains(scope.text()), "{detail}");
        }
        let words: Vec<String> = (0..200).map(|number| format!("word{number}")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let list = listed(&words);
        assert!(list.len() < LIST_BYTES_MAX + 40 && list.ends_with("more"), "{list}");
    }

    #[test]
    fn merged_documents_are_located_too() {
        let document = serde_json::json!({"quietHours": {"enabled": "yes"}});
        let problem = body::from_document::<Preferences>(document).expect_err("not a boolean");
        assert_eq!(problem.errors[0].pointer, "/quietHours/enabled");
        assert_eq!(problem.errors[0].detail, "must be true or false, not a string");
    }

    #[test]
    fn hostile_names_do_not_lead_astray() {
        for message in [
            "",
            "unknown field `a`, expected `",
            "unknown field `` ` `, expected one of `b`, `c`",
            "invalid type: ",
        ] {
            assert!(worded(message).len() < 400, "{message}");
        }
        assert_eq!(worded("unknown field `x`, there are no fields"), "is not a field here");
        assert_eq!(
            worded("unknown field `x`, expected `a` or `b`"),
            "is not a field here; there are a and b"
        );
    }
}
