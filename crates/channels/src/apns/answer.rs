//! What Apple's answers mean.
//!
//! | answer | becomes |
//! |---|---|
//! | 200 | accepted |
//! | 410 | the endpoint is dead, unless the app registered the token after Apple last saw it alive |
//! | 410 otherwise | later, this endpoint alone |
//! | 400 BadDeviceToken, DeviceTokenNotForTopic | doubt: the endpoint is dead if only a few are |
//! | 400 about the request, 404, 405, 413 | malformed, and somebody is called |
//! | 400 IdleTimeout, 429 TooManyRequests, 500 InternalServerError, 503 | later, this message alone |
//! | other 5xx, 408 | unknown: a gateway answered, and Apple may have taken it |
//! | 403, 400 TopicDisallowed | later, all of the credential, and somebody is called |
//! | 403 ExpiredProviderToken, 429 TooManyProviderTokenUpdates | the client looks after its token first |
//!
//! A reason that nobody knows keeps its name and is what its status is.

use crate::retry_after::retry_after_ms;
use fantail_ports::channel::{Answer, Refusal, Scope};
use fantail_rules::ids::Millis;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use serde_json::Value;

/// What follows beside the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    Nothing,
    /// Only an operator can mend it.
    Alert,
    /// The endpoint may be dead; or the account is wrong.
    Doubt,
    /// The same, and a token of the other environment looks like this.
    WrongEnvironment,
    /// The provider token has expired.
    Expired,
    /// Apple has heard of too many provider tokens.
    TooManyTokens,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    pub answer: Answer,
    pub note: Note,
}

/// What an answer is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Wall time: `Retry-After` may be a date.
    pub now: Millis,
    /// When the app last said that the token is its own.
    pub registered_at: Millis,
}

/// How long a credential rests that Apple does not take.
const CREDENTIAL_REST_MS: u64 = 60_000;
/// Of a reason that nobody knows.
const REASON_BYTES_MAX: usize = 64;

#[must_use]
pub fn read(status: StatusCode, headers: &HeaderMap, body: &[u8], context: Context) -> Read {
    if status.is_success() {
        let id = headers.get("apns-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        return Read { answer: Answer::Accepted { provider_id: id }, note: Note::Nothing };
    }
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let code = match said["reason"].as_str().filter(|reason| !reason.is_empty()) {
        Some(reason) => reason.chars().filter(|letter| !letter.is_control()).take(REASON_BYTES_MAX).collect(),
        None => status.as_str().to_owned(),
    };
    let kind = kind(status, &code);
    let answer = match kind {
        Kind::Gone => gone(&code, said["timestamp"].as_u64(), context.registered_at),
        Kind::Doubt | Kind::WrongEnvironment => {
            rejected(Refusal::DeadEndpoint, &code, "the token is not one of this app or environment")
        }
        Kind::Malformed => rejected(Refusal::Malformed, &code, "Apple does not understand the request"),
        Kind::Credential => {
            let after_ms = Some(CREDENTIAL_REST_MS);
            later(&code, Scope::Credential, after_ms, "Apple does not take the credential")
        }
        Kind::Expired => later(&code, Scope::Credential, None, "the provider token has expired"),
        Kind::TooManyTokens => later(&code, Scope::Credential, None, "there were too many provider tokens"),
        Kind::Later => {
            later(&code, Scope::Message, retry_after_ms(headers, context.now), "Apple cannot take it now")
        }
        Kind::Unknown => {
            let message = "something between us and Apple failed".to_owned();
            Answer::Unknown { code, message }
        }
        Kind::Strange => rejected(Refusal::Message, &code, "Apple gave an answer that is none of its own"),
    };
    Read { answer, note: note(kind) }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Gone,
    Doubt,
    WrongEnvironment,
    Malformed,
    Credential,
    Expired,
    TooManyTokens,
    Later,
    Unknown,
    Strange,
}

fn kind(status: StatusCode, reason: &str) -> Kind {
    match (status.as_u16(), reason) {
        (400, "BadDeviceToken") => Kind::WrongEnvironment,
        (400, "DeviceTokenNotForTopic") => Kind::Doubt,
        (400, "IdleTimeout") => Kind::Later,
        (400, "TopicDisallowed") => Kind::Credential,
        (403, "ExpiredProviderToken") => Kind::Expired,
        (429, "TooManyProviderTokenUpdates") => Kind::TooManyTokens,
        (400 | 404 | 405 | 413, _) => Kind::Malformed,
        (401 | 403, _) => Kind::Credential,
        (410, _) => Kind::Gone,
        (429 | 503, _) | (500, "InternalServerError") => Kind::Later,
        (408 | 500.., _) => Kind::Unknown,
        (_, _) => Kind::Strange,
    }
}

fn note(kind: Kind) -> Note {
    match kind {
        Kind::Gone | Kind::Later | Kind::Unknown => Note::Nothing,
        Kind::Doubt => Note::Doubt,
        Kind::WrongEnvironment => Note::WrongEnvironment,
        Kind::Malformed | Kind::Credential | Kind::Strange => Note::Alert,
        Kind::Expired => Note::Expired,
        Kind::TooManyTokens => Note::TooManyTokens,
    }
}

/// `seen_until_ms` is when Apple last knew the token to be alive. What was registered later is not what Apple speaks of.
fn gone(code: &str, seen_until_ms: Option<u64>, registered_at: Millis) -> Answer {
    match seen_until_ms {
        Some(until) if registered_at.0 > until => {
            later(code, Scope::Endpoint, None, "Apple speaks of a registration that was renewed since")
        }
        Some(_) | None => rejected(Refusal::DeadEndpoint, code, "the app is not on the device any more"),
    }
}

fn rejected(refusal: Refusal, code: &str, message: &str) -> Answer {
    Answer::Rejected { refusal, code: code.to_owned(), message: message.to_owned() }
}

fn later(code: &str, scope: Scope, after_ms: Option<u64>, message: &str) -> Answer {
    Answer::Later { after_ms, scope, code: code.to_owned(), message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderValue, RETRY_AFTER};

    const CONTEXT: Context = Context { now: Millis(2_000_000), registered_at: Millis(1_000_000) };

    fn told(status: u16, body: &str) -> String {
        told_with(status, &HeaderMap::new(), body)
    }

    fn told_with(status: u16, headers: &HeaderMap, body: &str) -> String {
        let status = StatusCode::from_u16(status).expect("a status");
        let Read { answer, note } = read(status, headers, body.as_bytes(), CONTEXT);
        match answer {
            Answer::Accepted { provider_id } => format!("accepted {provider_id:?} {note:?}"),
            Answer::Rejected { refusal, code, .. } => format!("rejected {refusal:?} {code} {note:?}"),
            Answer::Later { after_ms, scope, code, .. } => {
                format!("later {after_ms:?} {scope:?} {code} {note:?}")
            }
            Answer::Unknown { code, .. } => format!("unknown {code} {note:?}"),
            Answer::NotSent { .. } => panic!("a reply is an answer"),
        }
    }

    // proves: DEL-13
    #[test]
    fn every_reason_has_its_answer() {
        for (status, reason, expected) in [
            (410, "Unregistered", "rejected DeadEndpoint * Nothing"),
            (410, "ExpiredToken", "rejected DeadEndpoint * Nothing"),
            (400, "BadDeviceToken", "rejected DeadEndpoint * WrongEnvironment"),
            (400, "DeviceTokenNotForTopic", "rejected DeadEndpoint * Doubt"),
            (400, "BadCollapseId", "rejected Malformed * Alert"),
            (400, "BadExpirationDate", "rejected Malformed * Alert"),
            (400, "BadMessageId", "rejected Malformed * Alert"),
            (400, "BadPriority", "rejected Malformed * Alert"),
            (400, "BadTopic", "rejected Malformed * Alert"),
            (400, "DuplicateHeaders", "rejected Malformed * Alert"),
            (400, "InvalidPushType", "rejected Malformed * Alert"),
            (400, "MissingDeviceToken", "rejected Malformed * Alert"),
            (400, "MissingTopic", "rejected Malformed * Alert"),
            (400, "PayloadEmpty", "rejected Malformed * Alert"),
            (404, "BadPath", "rejected Malformed * Alert"),
            (405, "MethodNotAllowed", "rejected Malformed * Alert"),
            (413, "PayloadTooLarge", "rejected Malformed * Alert"),
            (400, "IdleTimeout", "later None Message * Nothing"),
            (503, "Shutdown", "later None Message * Nothing"),
            (403, "ExpiredProviderToken", "later None Credential * Expired"),
            (403, "InvalidProviderToken", "later Some(60000) Credential * Alert"),
            (403, "MissingProviderToken", "later Some(60000) Credential * Alert"),
            (403, "UnrelatedKeyIdInToken", "later Some(60000) Credential * Alert"),
            (403, "BadEnvironmentKeyIdInToken", "later Some(60000) Credential * Alert"),
            (403, "BadCertificate", "later Some(60000) Credential * Alert"),
            (403, "BadCertificateEnvironment", "later Some(60000) Credential * Alert"),
            (403, "Forbidden", "later Some(60000) Credential * Alert"),
            (400, "TopicDisallowed", "later Some(60000) Credential * Alert"),
            (429, "TooManyProviderTokenUpdates", "later None Credential * TooManyTokens"),
            (429, "TooManyRequests", "later None Message * Nothing"),
            (500, "InternalServerError", "later None Message * Nothing"),
            (503, "ServiceUnavailable", "later None Message * Nothing"),
            // Reasons that nobody knows are what their status is.
            (400, "MoonIsFull", "rejected Malformed * Alert"),
            (401, "MoonIsFull", "later Some(60000) Credential * Alert"),
            (403, "MoonIsFull", "later Some(60000) Credential * Alert"),
            (410, "MoonIsFull", "rejected DeadEndpoint * Nothing"),
            (418, "MoonIsFull", "rejected Message * Alert"),
            (429, "MoonIsFull", "later None Message * Nothing"),
            (502, "MoonIsFull", "unknown * Nothing"),
        ] {
            let body = format!(r#"{{"reason":"{reason}"}}"#);
            assert_eq!(told(status, &body), expected.replace('*', reason), "{status} {reason}");
        }
    }

    // fixes: correctness B1
    #[test]
    fn a_timeout_of_a_gateway_proves_nothing() {
        for status in [408, 500, 502, 504] {
            assert_eq!(told(status, "<html>"), format!("unknown {status} Nothing"));
        }
    }

    #[test]
    fn bodies_that_are_none_leave_the_status() {
        for body in ["", "<html>", "{}", r#"{"reason":7}"#, r#"{"reason":""}"#] {
            assert_eq!(told(503, body), "later None Message 503 Nothing", "{body}");
            assert_eq!(told(400, body), "rejected Malformed 400 Alert", "{body}");
            assert_eq!(told(410, body), "rejected DeadEndpoint 410 Nothing", "{body}");
        }
        let long = format!(r#"{{"reason":"{}\n"}}"#, "x".repeat(100));
        assert_eq!(told(400, &long), format!("rejected Malformed {} Alert", "x".repeat(64)));
    }

    #[test]
    fn a_token_that_was_registered_again_survives() {
        for (timestamp, expected) in [
            ("1000000", "rejected DeadEndpoint Unregistered Nothing"),
            ("1000001", "rejected DeadEndpoint Unregistered Nothing"),
            ("999999", "later None Endpoint Unregistered Nothing"),
            ("\"x\"", "rejected DeadEndpoint Unregistered Nothing"),
        ] {
            let body = format!(r#"{{"reason":"Unregistered","timestamp":{timestamp}}}"#);
            assert_eq!(told(410, &body), expected, "{timestamp}");
        }
    }

    #[test]
    fn headers_say_which_message_and_when_again() {
        let mut headers = HeaderMap::new();
        headers.insert("apns-id", HeaderValue::from_static("11111111-2222"));
        assert_eq!(told_with(200, &headers, ""), r#"accepted Some("11111111-2222") Nothing"#);
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
        let busy = r#"{"reason":"TooManyRequests"}"#;
        assert_eq!(told_with(429, &headers, busy), "later Some(7000) Message TooManyRequests Nothing");
    }
}
