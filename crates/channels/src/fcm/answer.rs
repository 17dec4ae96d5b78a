//! What FCM's answers mean.
//!
//! | answer | what follows |
//! |---|---|
//! | 2xx | accepted, under its name |
//! | 404 UNREGISTERED | the endpoint is dead |
//! | 403 SENDER_ID_MISMATCH; 400 that names the token | the endpoint is dead, if few say so (`dead_guard`) |
//! | other 400, 413 | malformed: a template, never a device |
//! | 401 THIRD_PARTY_AUTH_ERROR | later: FCM's own key for that platform is bad; other platforms go on |
//! | other 401 | the token is renewed once, then the credential rests |
//! | other 403, other 404 | the credential rests: permission, API or project |
//! | 429 | the project rests: `Retry-After`, or a minute |
//! | 500 with a code of FCM, 502 (also as HTML), 503 | later, as `Retry-After` says |
//! | other 5xx, 408 | unknown: a gateway answered, and FCM may have taken it |
//!
//! Codes that are not known keep their name and are judged by their status. No text of FCM gets any further than here: it
//! may quote the token.

use super::token::TokenFailure;
use crate::retry_after::retry_after_ms;
use fantail_outbound::pool::Reply;
use fantail_ports::channel::{Answer, Proof, Refusal, Scope};
use fantail_rules::ids::Millis;
use hyper::StatusCode;
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
    /// It calls the endpoint dead, and can mean something else.
    Doubt,
    /// The access token was refused.
    Refresh,
}

/// Minutes of Google's quota are not aligned with anybody's clock: after a whole one there is room again.
const QUOTA_MS_DEFAULT: u64 = 60_000;
/// How long a credential rests that an operator has to mend.
const MEND_MS: u64 = 300_000;
/// How long after a renewed token was refused again.
const REFUSED_MS: u64 = 60_000;
const CODE_BYTES_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 256;

/// `now` is the wall time: `Retry-After` may be a date.
#[must_use]
pub fn read(reply: &Reply, now: Millis) -> Read {
    let Reply { status, headers, body } = reply;
    let after_ms = retry_after_ms(headers, now);
    let fault = Fault::read(*status, body);
    let code = fault.code.clone();
    match status.as_u16() {
        200..=299 => Read { answer: Answer::Accepted { provider_id: name(body) }, note: Note::Nothing },
        400 if fault.names_token => dead(code, Note::Doubt, "the token is malformed"),
        400 | 413 => rejected(Refusal::Malformed, code, "the message is malformed or too large"),
        401 if is_third_party(&code) => {
            let message = "the key that FCM has for this platform is refused";
            later(Some(MEND_MS), Scope::Message, code, message, Note::Alert)
        }
        401 => later(Some(REFUSED_MS), Scope::Credential, code, "the credential is refused", Note::Refresh),
        403 if code == "SENDER_ID_MISMATCH" => dead(code, Note::Doubt, "the token is of another project"),
        403 => later(Some(MEND_MS), Scope::Credential, code, "the project may not be sent with", Note::Alert),
        404 if code == "UNREGISTERED" => dead(code, Note::Nothing, "the app is not registered any more"),
        404 => later(Some(MEND_MS), Scope::Credential, code, "the project is not found", Note::Alert),
        429 => {
            let after_ms = after_ms.unwrap_or(QUOTA_MS_DEFAULT);
            later(Some(after_ms), Scope::Origin, code, "the quota of the project is used up", Note::Nothing)
        }
        500 if fault.is_named => later(after_ms, Scope::Message, code, "the service failed", Note::Nothing),
        502 | 503 => later(after_ms, Scope::Message, code, "the service failed", Note::Nothing),
        408 | 500..=599 => {
            let message = "something between us and the service failed".to_owned();
            Read { answer: Answer::Unknown { code, message }, note: Note::Nothing }
        }
        402..=499 => rejected(Refusal::Message, code, "refused"),
        _ => {
            let message = "no answer of this service".to_owned();
            Read { answer: Answer::Unknown { code, message }, note: Note::Alert }
        }
    }
}

/// No token, no message: it certainly was not taken.
#[must_use]
pub fn without_token(failure: &TokenFailure) -> Read {
    match failure {
        TokenFailure::Deadline => {
            let message = "the deadline passed before there was an access token".to_owned();
            Read { answer: Answer::NotSent { proof: Proof::Deadline, message }, note: Note::Nothing }
        }
        TokenFailure::Unreachable { message } => {
            let message = format!("no access token: {message}");
            Read { answer: Answer::NotSent { proof: Proof::NoConnection, message }, note: Note::Nothing }
        }
        TokenFailure::Busy { code, after_ms } => {
            let message = "the token service failed";
            later(Some(*after_ms), Scope::Credential, code.clone(), message, Note::Nothing)
        }
        TokenFailure::Refused { code, after_ms } => {
            let message = "the service account is refused";
            later(Some(*after_ms), Scope::Credential, code.clone(), message, Note::Alert)
        }
    }
}

fn later(after_ms: Option<u64>, scope: Scope, code: String, message: &str, note: Note) -> Read {
    Read { answer: Answer::Later { after_ms, scope, code, message: message.to_owned() }, note }
}

fn dead(code: String, note: Note, message: &str) -> Read {
    let refusal = Refusal::DeadEndpoint;
    Read { answer: Answer::Rejected { refusal, code, message: message.to_owned() }, note }
}

fn rejected(refusal: Refusal, code: String, message: &str) -> Read {
    Read { answer: Answer::Rejected { refusal, code, message: message.to_owned() }, note: Note::Alert }
}

fn is_third_party(code: &str) -> bool {
    code == "THIRD_PARTY_AUTH_ERROR" || code == "APNS_AUTH_ERROR"
}

fn name(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    value["name"].as_str().filter(|name| name.len() <= NAME_BYTES_MAX).map(str::to_owned)
}

/// An error as far as it can be read. Everything in it is optional; some answers are pages of HTML.
struct Fault {
    code: String,
    /// The code is one of FCM, not just the status.
    is_named: bool,
    names_token: bool,
}

impl Fault {
    fn read(status: StatusCode, body: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let error = &value["error"];
        let details = error["details"].as_array().map_or(&[][..], Vec::as_slice);
        let of_fcm = details.iter().find_map(|detail| detail["errorCode"].as_str());
        let code = of_fcm.or_else(|| error["status"].as_str()).filter(|code| !code.is_empty());
        let is_named = code.is_some();
        let mut code = code.unwrap_or(status.as_str()).to_owned();
        code.truncate(code.floor_char_boundary(CODE_BYTES_MAX));
        Self { code, is_named, names_token: names_token(error, details) }
    }
}

/// Violations decide where there are any; without them, the sentence by which FCM has always named the token.
fn names_token(error: &Value, details: &[Value]) -> bool {
    let violations: Vec<&str> = details
        .iter()
        .flat_map(|detail| detail["fieldViolations"].as_array().into_iter().flatten())
        .filter_map(|violation| violation["field"].as_str())
        .collect();
    if !violations.is_empty() {
        return violations.iter().all(|field| ["message.token", "message.fid"].contains(field));
    }
    let message = error["message"].as_str().unwrap_or_default().to_ascii_lowercase();
    message.contains("registration token")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER};
    use serde_json::json;

    const NOW: Millis = Millis(1_700_000_000_000);
    const FCM_ERROR: &str = "type.googleapis.com/google.firebase.fcm.v1.FcmError";
    const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";

    fn told(status: u16, retry_after: Option<&str>, body: &str) -> String {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from_str(value).expect("a header value"));
        }
        let status = StatusCode::from_u16(status).expect("a status");
        let Read { answer, note } = read(&Reply { status, headers, body: Bytes::from(body.to_owned()) }, NOW);
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

    fn fault(code: u16, status: &str, message: &str, details: &[Value]) -> String {
        json!({"error": {"code": code, "status": status, "message": message, "details": details}}).to_string()
    }

    fn of_fcm(code: &str) -> Value {
        json!({"@type": FCM_ERROR, "errorCode": code})
    }

    fn violation(field: &str) -> Value {
        json!({"@type": BAD_REQUEST, "fieldViolations": [{"field": field, "description": "Invalid value"}]})
    }

    // proves: DEL-13, DEV-04
    #[test]
    fn every_row_of_the_table() {
        let check = |status: u16, code: &str, expected: &str| {
            let body = fault(status, "X", "x", &[of_fcm(code)]);
            assert_eq!(told(status, None, &body), expected, "{status} {code}");
        };
        assert_eq!(
            told(200, None, r#"{"name":"projects/p/messages/1"}"#),
            "accepted projects/p/messages/1, Nothing"
        );
        check(404, "UNREGISTERED", "DeadEndpoint UNREGISTERED, Nothing");
        check(403, "SENDER_ID_MISMATCH", "DeadEndpoint SENDER_ID_MISMATCH, Doubt");
        check(401, "THIRD_PARTY_AUTH_ERROR", "later 300000 Message THIRD_PARTY_AUTH_ERROR, Alert");
        check(401, "APNS_AUTH_ERROR", "later 300000 Message APNS_AUTH_ERROR, Alert");
        check(401, "UNAUTHENTICATED", "later 60000 Credential UNAUTHENTICATED, Refresh");
        check(403, "PERMISSION_DENIED", "later 300000 Credential PERMISSION_DENIED, Alert");
        check(404, "NOT_FOUND", "later 300000 Credential NOT_FOUND, Alert");
        check(429, "QUOTA_EXCEEDED", "later 60000 Origin QUOTA_EXCEEDED, Nothing");
        check(429, "RESOURCE_EXHAUSTED", "later 60000 Origin RESOURCE_EXHAUSTED, Nothing");
        check(500, "INTERNAL", "later - Message INTERNAL, Nothing");
        check(503, "UNAVAILABLE", "later - Message UNAVAILABLE, Nothing");
        check(400, "INVALID_ARGUMENT", "Malformed INVALID_ARGUMENT, Alert");
        check(400, "SOMETHING_NEW", "Malformed SOMETHING_NEW, Alert");
        check(403, "SOMETHING_NEW", "later 300000 Credential SOMETHING_NEW, Alert");
        check(418, "SOMETHING_NEW", "Message SOMETHING_NEW, Alert");
        check(599, "SOMETHING_NEW", "unknown SOMETHING_NEW, Nothing");
        assert_eq!(told(302, None, ""), "unknown 302, Alert");
    }

    // fixes: correctness B1
    #[test]
    fn a_timeout_of_a_gateway_proves_nothing() {
        for status in [408, 500, 504, 599] {
            assert_eq!(told(status, None, "<html>"), format!("unknown {status}, Nothing"));
        }
    }

    #[test]
    fn a_wait_that_is_asked_for_is_kept() {
        let busy = fault(429, "RESOURCE_EXHAUSTED", "x", &[of_fcm("QUOTA_EXCEEDED")]);
        assert_eq!(told(429, Some("7"), &busy), "later 7000 Origin QUOTA_EXCEEDED, Nothing");
        assert_eq!(told(503, Some("30"), ""), "later 30000 Message 503, Nothing");
        assert_eq!(told(503, Some("soon"), ""), "later - Message 503, Nothing");
    }

    // proves: DEL-13
    #[test]
    fn only_a_400_that_names_the_token_doubts_the_device() {
        let text = "The registration token is not a valid FCM registration token";
        for (body, expected) in [
            // Its own code and the field.
            (
                fault(400, "INVALID_ARGUMENT", text, &[of_fcm("INVALID_ARGUMENT"), violation("message.token")]),
                "DeadEndpoint INVALID_ARGUMENT, Doubt",
            ),
            (
                fault(400, "INVALID_ARGUMENT", "x", &[violation("message.fid")]),
                "DeadEndpoint INVALID_ARGUMENT, Doubt",
            ),
            // Its own code and the sentence alone.
            (
                fault(400, "INVALID_ARGUMENT", text, &[of_fcm("INVALID_ARGUMENT")]),
                "DeadEndpoint INVALID_ARGUMENT, Doubt",
            ),
            // A field elsewhere, whatever the sentence says.
            (
                fault(400, "INVALID_ARGUMENT", text, &[violation("message.data[0].value")]),
                "Malformed INVALID_ARGUMENT, Alert",
            ),
            (
                fault(400, "INVALID_ARGUMENT", "x", &[violation("message.token"), violation("message.android.ttl")]),
                "Malformed INVALID_ARGUMENT, Alert",
            ),
            // No details at all: a payload that is too large.
            (
                r#"{"error":{"code":400,"message":"Request contains an invalid argument.","status":"INVALID_ARGUMENT"}}"#
                    .to_owned(),
                "Malformed INVALID_ARGUMENT, Alert",
            ),
        ] {
            assert_eq!(told(400, None, &body), expected, "{body}");
        }
    }

    #[test]
    fn what_is_no_json_is_judged_by_its_status() {
        let page = "<!DOCTYPE html><html lang=en><title>Error 502 (Server Error)!!1</title></html>";
        for (status, expected) in [
            (502, "later - Message 502, Nothing"),
            (404, "later 300000 Credential 404, Alert"),
            (401, "later 60000 Credential 401, Refresh"),
            (400, "Malformed 400, Alert"),
            (200, "accepted , Nothing"),
        ] {
            assert_eq!(told(status, None, page), expected, "{status}");
        }
        for body in ["", "[]", "null", r#"{"error":1}"#, r#"{"error":{"details":{}}}"#, "\u{0}"] {
            assert_eq!(told(500, None, body), "unknown 500, Nothing", "{body}");
        }
        let long = fault(500, &"X".repeat(1_000), "", &[]);
        assert!(told(500, None, &long).len() < 150);
    }

    #[test]
    fn without_a_token_nothing_was_sent() {
        let (code, after_ms) = ("invalid_grant".to_owned(), 60_000);
        for (failure, is_later) in [
            (TokenFailure::Deadline, false),
            (TokenFailure::Unreachable { message: "refused".to_owned() }, false),
            (TokenFailure::Busy { code: "503".to_owned(), after_ms: 1_000 }, true),
            (TokenFailure::Refused { code, after_ms }, true),
        ] {
            let answer = without_token(&failure).answer;
            let fits = match answer {
                Answer::NotSent { .. } => !is_later,
                Answer::Later { scope: Scope::Credential, .. } => is_later,
                Answer::Accepted { .. }
                | Answer::Rejected { .. }
                | Answer::Later { .. }
                | Answer::Unknown { .. } => false,
            };
            assert!(fits, "{failure:?}");
        }
    }
}
