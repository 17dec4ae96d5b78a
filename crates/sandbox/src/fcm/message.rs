//! What FCM checks about a message. Pure.

use serde_json::{Map, Value};

const PAYLOAD_BYTES_MAX: usize = 4_096;
const PAYLOAD_BYTES_MAX_TOPIC: usize = 2_048;
const TTL_SECONDS_MAX: f64 = 2_419_200.0;
const TARGETS: &[&str] = &["token", "fid", "topic", "condition"];

/// To whom, in the words of the recipient list: a token, a fid, `topic:…` or `condition:…`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    pub kind: &'static str,
    pub value: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// 400 with this field.
    Field(&'static str, &'static str),
    /// 400 without any details.
    TooBig,
}

impl Target {
    #[must_use]
    pub fn recipient(&self) -> String {
        match self.kind {
            "token" | "fid" => self.value.clone(),
            kind => format!("{kind}:{}", self.value),
        }
    }
}

pub fn check(body: &Value) -> Result<Target, Refusal> {
    let message = body.get("message").and_then(Value::as_object);
    let message = message.ok_or(Refusal::Field("message", "is missing"))?;
    let target = target(message)?;
    if let Some(data) = message.get("data") {
        check_data(data)?;
    }
    if let Some(android) = message.get("android") {
        check_android(android)?;
    }
    let most = if target.kind == "topic" || target.kind == "condition" {
        PAYLOAD_BYTES_MAX_TOPIC
    } else {
        PAYLOAD_BYTES_MAX
    };
    if payload_bytes(message) > most { Err(Refusal::TooBig) } else { Ok(target) }
}

fn target(message: &Map<String, Value>) -> Result<Target, Refusal> {
    let given: Vec<&'static str> = TARGETS
        .iter()
        .copied()
        .filter(|kind| message.get(*kind).is_some_and(|value| !value.is_null()))
        .collect();
    let [kind] = given[..] else { return Err(Refusal::Field("message", "has not exactly one target")) };
    let value = message[kind].as_str().unwrap_or_default().to_owned();
    let is_good = match kind {
        "topic" => is_topic(&value),
        _ => {
            !value.is_empty() && value.len() <= 4_096 && !value.contains(char::is_whitespace)
                || kind == "condition"
        }
    };
    match (is_good, kind) {
        (true, _) => Ok(Target { kind, value }),
        (false, "topic") => Err(Refusal::Field("message.topic", "is no topic name")),
        (false, "fid") => Err(Refusal::Field("message.fid", "is no installation id")),
        (false, _) => Err(Refusal::Field("message.token", "is no registration token")),
    }
}

#[must_use]
pub fn is_topic(topic: &str) -> bool {
    !topic.is_empty() && topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~%".contains(&byte))
}

fn check_data(data: &Value) -> Result<(), Refusal> {
    let data = data.as_object().ok_or(Refusal::Field("message.data", "must be an object"))?;
    if data.values().any(|value| !value.is_string()) {
        return Err(Refusal::Field("message.data", "values must be strings"));
    }
    let is_reserved = |key: &String| {
        matches!(key.as_str(), "from" | "message_type") || key.starts_with("google") || key.starts_with("gcm")
    };
    if data.keys().any(is_reserved) {
        return Err(Refusal::Field("message.data", "a key is reserved"));
    }
    Ok(())
}

fn check_android(android: &Value) -> Result<(), Refusal> {
    if let Some(ttl) = android.get("ttl") {
        let seconds =
            ttl.as_str().and_then(|ttl| ttl.strip_suffix('s')).and_then(|ttl| ttl.parse::<f64>().ok());
        if !seconds.is_some_and(|seconds| (0.0..=TTL_SECONDS_MAX).contains(&seconds)) {
            return Err(Refusal::Field("message.android.ttl", "must be seconds, up to four weeks"));
        }
    }
    match android.get("priority").and_then(Value::as_str).map(str::to_ascii_lowercase).as_deref() {
        None | Some("normal" | "high") => Ok(()),
        Some(_) => Err(Refusal::Field("message.android.priority", "must be NORMAL or HIGH")),
    }
}

/// The greatest of what the platforms would get: what is common, and their own part.
fn payload_bytes(message: &Map<String, Value>) -> usize {
    let size = |value: Option<&Value>| value.map_or(0, |value| value.to_string().len());
    let common = size(message.get("data")) + size(message.get("notification"));
    let android = size(message.get("android").and_then(|android| android.get("data")))
        + size(message.get("android").and_then(|android| android.get("notification")));
    let apns = size(message.get("apns").and_then(|apns| apns.get("payload")));
    let webpush = size(message.get("webpush").and_then(|webpush| webpush.get("data")))
        + size(message.get("webpush").and_then(|webpush| webpush.get("notification")));
    common.max(common + android).max(apns).max(common + webpush)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_judged_field_by_field() {
        let long = "x".repeat(4_097);
        let middle = "x".repeat(2_100);
        for (message, expected) in [
            (json!({"token": "t"}), Ok("t")),
            (json!({"fid": "f", "data": {"a": "b"}}), Ok("f")),
            (json!({"topic": "news"}), Ok("topic:news")),
            (json!({"condition": "'a' in topics"}), Ok("condition:'a' in topics")),
            (json!({}), Err(Some("message"))),
            (json!({"token": "t", "topic": "news"}), Err(Some("message"))),
            (json!({"token": ""}), Err(Some("message.token"))),
            (json!({"token": "a b"}), Err(Some("message.token"))),
            (json!({"topic": "/topics/x"}), Err(Some("message.topic"))),
            (json!({"token": "t", "data": {"a": 1}}), Err(Some("message.data"))),
            (json!({"token": "t", "data": {"google.x": "1"}}), Err(Some("message.data"))),
            (json!({"token": "t", "android": {"ttl": "60s", "priority": "HIGH"}}), Ok("t")),
            (json!({"token": "t", "android": {"ttl": "2419201s"}}), Err(Some("message.android.ttl"))),
            (json!({"token": "t", "android": {"ttl": 60}}), Err(Some("message.android.ttl"))),
            (json!({"token": "t", "android": {"priority": "loud"}}), Err(Some("message.android.priority"))),
            (json!({"token": "t", "data": {"a": long}}), Err(None)),
            (json!({"token": "t", "data": {"a": middle}}), Ok("t")),
            (json!({"topic": "news", "data": {"a": middle}}), Err(None)),
            (json!({"token": "t", "apns": {"payload": {"a": long}}}), Err(None)),
        ] {
            let found = match check(&json!({"message": message})) {
                Ok(target) => Ok(target.recipient()),
                Err(Refusal::Field(field, _)) => Err(Some(field)),
                Err(Refusal::TooBig) => Err(None),
            };
            assert_eq!(found, expected.map(str::to_owned), "{message}");
        }
        assert_eq!(check(&json!([])), Err(Refusal::Field("message", "is missing")));
    }
}
