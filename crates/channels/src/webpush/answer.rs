//! What push services' answers mean.
//!
//! | answer | what follows |
//! |---|---|
//! | 2xx | accepted; where the message can be called off is kept |
//! | 404, 410 | the subscription is dead: whoever goes on sending may be blocked |
//! | 401, 403 | the key is refused, or this subscription was made with another key; the client finds out which |
//! | 400, 413 | malformed |
//! | 429, 503 | everything to this push service waits, as `Retry-After` says |
//! | 500, 502 | later |
//! | other 5xx, 408 | unknown: a gateway gave up waiting, and the push service may have taken it |
//! | 3xx, other 4xx | refused for good |
//!
//! No text of a push service gets any further than here, but for a short code.

use crate::retry_after::retry_after_ms;
use fantail_outbound::pool::Reply;
use fantail_ports::channel::{Answer, Refusal, Scope};
use fantail_rules::ids::Millis;
use hyper::header::LOCATION;
use serde_json::Value;

/// An answer, and what only this client has to know about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    pub answer: Answer,
    pub note: Note,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    Nothing,
    /// Only an operator can mend it.
    Alert,
    /// The key was refused, for this subscription or for all.
    KeyRefused,
}

/// How long a push service is left alone that refuses the key.
pub const KEY_REFUSED_MS: u64 = 300_000;
const CODE_BYTES_MAX: usize = 64;
const LOCATION_BYTES_MAX: usize = 512;

/// `now` is the wall time.
#[must_use]
pub fn read(reply: &Reply, now: Millis) -> Read {
    let after_ms = retry_after_ms(&reply.headers, now);
    let code = code(reply);
    let rejected = |refusal, code: String, message: &str, note| Read {
        answer: Answer::Rejected { refusal, code, message: message.to_owned() },
        note,
    };
    let later = |after_ms, scope, code: String, message: &str, note| Read {
        answer: Answer::Later { after_ms, scope, code, message: message.to_owned() },
        note,
    };
    match reply.status.as_u16() {
        200..=299 => Read { answer: Answer::Accepted { provider_id: location(reply) }, note: Note::Nothing },
        404 | 410 => rejected(Refusal::DeadEndpoint, code, "the subscription is gone", Note::Nothing),
        401 | 403 => {
            let message = "the key of this server is refused";
            later(Some(KEY_REFUSED_MS), Scope::Origin, code, message, Note::KeyRefused)
        }
        400 | 413 => rejected(Refusal::Malformed, code, "the message is malformed or too large", Note::Alert),
        429 | 503 => later(after_ms, Scope::Origin, code, "the push service wants a rest", Note::Nothing),
        500 | 502 => later(after_ms, Scope::Message, code, "the push service failed", Note::Nothing),
        408 | 501..=599 => {
            let message = "something between us and the push service failed".to_owned();
            Read { answer: Answer::Unknown { code, message }, note: Note::Nothing }
        }
        300..=399 => rejected(Refusal::Message, code, "redirects are not followed", Note::Alert),
        402..=499 => rejected(Refusal::Message, code, "refused", Note::Alert),
        _ => {
            let message = "no answer of a push service".to_owned();
            Read { answer: Answer::Unknown { code, message }, note: Note::Alert }
        }
    }
}

/// The key works for others at the same push service: this subscription was made with another one.
#[must_use]
pub fn of_another_key(answer: Answer) -> Answer {
    match answer {
        Answer::Later { code, .. } => {
            let message = "the subscription was made with another key".to_owned();
            Answer::Rejected { refusal: Refusal::DeadEndpoint, code, message }
        }
        other => other,
    }
}

/// The name of the reason where there is one: `reason` of Apple, `errno` of Mozilla.
fn code(reply: &Reply) -> String {
    let value: Value = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
    let status = reply.status.as_str();
    let mut code = match (value["reason"].as_str(), value["errno"].as_u64()) {
        (Some(reason), _) if is_word(reason) => reason.to_owned(),
        (_, Some(errno)) => format!("{status} errno {errno}"),
        (Some(_) | None, None) => status.to_owned(),
    };
    code.truncate(code.floor_char_boundary(CODE_BYTES_MAX));
    code
}

/// Some services put a sentence there.
fn is_word(reason: &str) -> bool {
    !reason.is_empty() && reason.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn location(reply: &Reply) -> Option<String> {
    let text = reply.headers.get(LOCATION)?.to_str().ok()?;
    (text.len() <= LOCATION_BYTES_MAX).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hyper::StatusCode;
    use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER};

    fn told(status: u16, retry_after: Option<&str>, body: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_static("https://push.example/m/1"));
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from_str(value).expect("a header value"));
        }
        let status = StatusCode::from_u16(status).expect("a status");
        let reply = Reply { status, headers, body: Bytes::from(body.to_owned()) };
        let Read { answer, note } = read(&reply, Millis(0));
        let answer = match answer {
            Answer::Accepted { provider_id } => format!("accepted {}", provider_id.unwrap_or_default()),
            Answer::Rejected { refusal, code, .. } => format!("{refusal:?} {code}"),
            Answer::Later { after_ms, scope, code, .. } => {
                format!(
                    "later {} {scope:?} {code}",
                    after_ms.map_or("-".to_owned(), |after| after.to_string())
                )
            }
            Answer::NotSent { proof, .. } => format!("not sent {proof:?}"),
            Answer::Unknown { code, .. } => format!("unknown {code}"),
        };
        format!("{answer}, {note:?}")
    }

    // proves: PSH-09, DEL-13
    #[test]
    fn every_row_of_the_table() {
        for (status, expected) in [
            (201, "accepted https://push.example/m/1, Nothing"),
            (202, "accepted https://push.example/m/1, Nothing"),
            (200, "accepted https://push.example/m/1, Nothing"),
            (301, "Message 301, Alert"),
            (400, "Malformed 400, Alert"),
            (401, "later 300000 Origin 401, KeyRefused"),
            (403, "later 300000 Origin 403, KeyRefused"),
            (404, "DeadEndpoint 404, Nothing"),
            (408, "unknown 408, Nothing"),
            (410, "DeadEndpoint 410, Nothing"),
            (413, "Malformed 413, Alert"),
            (418, "Message 418, Alert"),
            (429, "later - Origin 429, Nothing"),
            (500, "later - Message 500, Nothing"),
            (502, "later - Message 502, Nothing"),
            (503, "later - Origin 503, Nothing"),
        ] {
            assert_eq!(told(status, None, "<html>"), expected, "{status}");
        }
        assert_eq!(told(503, Some("120"), ""), "later 120000 Origin 503, Nothing");
        assert_eq!(told(429, Some("Thu, 01 Jan 1970 00:00:07 GMT"), ""), "later 7000 Origin 429, Nothing");
    }

    // fixes: correctness B1
    #[test]
    fn a_timeout_of_a_gateway_proves_nothing() {
        for status in [408, 501, 504, 599] {
            assert_eq!(told(status, Some("7"), "<html>"), format!("unknown {status}, Nothing"));
        }
    }

    #[test]
    fn reasons_keep_their_names() {
        assert_eq!(
            told(403, None, r#"{"reason":"BadJwtToken"}"#),
            "later 300000 Origin BadJwtToken, KeyRefused"
        );
        assert_eq!(
            told(400, None, r#"{"code":400,"errno":111,"message":"x"}"#),
            "Malformed 400 errno 111, Alert"
        );
        assert_eq!(told(410, None, r#"{"reason":"It has ended."}"#), "DeadEndpoint 410, Nothing", "no name");
        let long = format!(r#"{{"reason":"{}"}}"#, "X".repeat(500));
        assert!(told(400, None, &long).len() < 100);
        let dead = of_another_key(Answer::Later {
            after_ms: None,
            scope: Scope::Origin,
            code: "403".to_owned(),
            message: String::new(),
        });
        assert!(
            matches!(dead, Answer::Rejected { refusal: Refusal::DeadEndpoint, code, .. } if code == "403")
        );
    }
}
