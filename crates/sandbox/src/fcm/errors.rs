//! The shapes in which FCM says no. They differ more than its reference suggests: a 400 may come with violations, with an
//! error code, or with no details at all, and a 502 comes as a page.

use crate::emulator::Reply;
use hyper::http::StatusCode;
use serde_json::{Value, json};

/// Everything that can be asked for, by a check, a magic target or a fault profile.
pub const KINDS: &[&str] = &[
    "unregistered",
    "sender-id-mismatch",
    "invalid-token",
    "invalid-argument",
    "too-big",
    "third-party-auth",
    "unauthenticated",
    "permission-denied",
    "quota",
    "internal",
    "unavailable",
    "bad-gateway",
];

/// What FCM waits for when it does not say it exactly.
const RETRY_AFTER_MS: u64 = 60_000;

#[must_use]
pub fn reply(kind: &str, retry_after_ms: Option<u64>) -> Option<Reply> {
    let reply = match kind {
        "unregistered" => {
            error(404, "NOT_FOUND", "Requested entity was not found.", vec![code("UNREGISTERED")])
        }
        "sender-id-mismatch" => {
            error(403, "PERMISSION_DENIED", "SenderId mismatch", vec![code("SENDER_ID_MISMATCH")])
        }
        "invalid-token" => {
            let text = "The registration token is not a valid FCM registration token";
            error(
                400,
                "INVALID_ARGUMENT",
                text,
                vec![code("INVALID_ARGUMENT"), violation("message.token", text)],
            )
        }
        "invalid-argument" => return Some(violated("message.data", "a value of the message is not valid")),
        "too-big" => error(400, "INVALID_ARGUMENT", "Request contains an invalid argument.", Vec::new()),
        "third-party-auth" => {
            let text = "the key for the push service behind this target is not valid";
            error(401, "UNAUTHENTICATED", text, vec![code("THIRD_PARTY_AUTH_ERROR")])
        }
        "unauthenticated" => {
            let text = "the access token is missing, not valid or expired";
            error(401, "UNAUTHENTICATED", text, vec![info("ACCESS_TOKEN_EXPIRED")])
        }
        "permission-denied" => {
            let text = "the account may not send for this project";
            error(403, "PERMISSION_DENIED", text, vec![info("SERVICE_DISABLED")])
        }
        "quota" => {
            let quota = json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
                {"subject": "project", "description": "messages per minute"}
            ]});
            let text = "Quota exceeded for messages per minute.";
            let details = vec![code("QUOTA_EXCEEDED"), quota];
            waiting(error(429, "RESOURCE_EXHAUSTED", text, details), retry_after_ms)
        }
        "internal" => error(500, "INTERNAL", "Internal error encountered.", vec![code("INTERNAL")]),
        "unavailable" => {
            let text = "The service is currently unavailable.";
            waiting(error(503, "UNAVAILABLE", text, vec![code("UNAVAILABLE")]), retry_after_ms)
        }
        "bad-gateway" => Reply::new(StatusCode::BAD_GATEWAY)
            .with("content-type", "text/html; charset=UTF-8")
            .body("<!DOCTYPE html>\n<html><title>502</title><p>The server met a temporary error.</html>\n"),
        _ => return None,
    };
    Some(reply)
}

/// 400 that names the field.
#[must_use]
pub fn violated(field: &str, description: &str) -> Reply {
    let details = vec![code("INVALID_ARGUMENT"), violation(field, description)];
    error(400, "INVALID_ARGUMENT", &format!("Invalid value at '{field}': {description}"), details)
}

#[must_use]
pub fn not_found() -> Reply {
    error(404, "NOT_FOUND", "there is no such method", Vec::new())
}

fn error(http: u16, status: &str, message: &str, details: Vec<Value>) -> Reply {
    let mut error = json!({"code": http, "message": message, "status": status});
    if !details.is_empty() {
        error["details"] = details.into();
    }
    let http = StatusCode::from_u16(http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let pretty = serde_json::to_string_pretty(&json!({"error": error})).unwrap_or_default();
    Reply::new(http).with("content-type", "application/json; charset=UTF-8").body(pretty)
}

fn waiting(reply: Reply, retry_after_ms: Option<u64>) -> Reply {
    let seconds = retry_after_ms.unwrap_or(RETRY_AFTER_MS).div_ceil(1_000);
    reply.with("retry-after", &seconds.to_string())
}

fn code(code: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code})
}

fn violation(field: &str, description: &str) -> Value {
    json!({
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": field, "description": description}],
    })
}

fn info(reason: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_shape() {
        for (kind, status, code, details) in [
            ("unregistered", 404, Some("UNREGISTERED"), 1),
            ("sender-id-mismatch", 403, Some("SENDER_ID_MISMATCH"), 1),
            ("invalid-token", 400, Some("INVALID_ARGUMENT"), 2),
            ("invalid-argument", 400, Some("INVALID_ARGUMENT"), 2),
            ("too-big", 400, None, 0),
            ("third-party-auth", 401, Some("THIRD_PARTY_AUTH_ERROR"), 1),
            ("unauthenticated", 401, None, 1),
            ("permission-denied", 403, None, 1),
            ("quota", 429, Some("QUOTA_EXCEEDED"), 2),
            ("internal", 500, Some("INTERNAL"), 1),
            ("unavailable", 503, Some("UNAVAILABLE"), 1),
        ] {
            let reply = super::reply(kind, None).expect("a shape");
            let body: Value = serde_json::from_slice(&reply.body).expect("JSON");
            assert_eq!((reply.status.as_u16(), &body["error"]["code"]), (status, &json!(status)), "{kind}");
            let found = body["error"]["details"].as_array().map_or(0, Vec::len);
            assert_eq!(found, details, "{kind}");
            assert_eq!(body["error"]["details"][0]["errorCode"].as_str(), code, "{kind}");
        }
        assert!(KINDS.iter().all(|kind| super::reply(kind, None).is_some()));
        assert_eq!(super::reply("nothing", None), None);
        let page = super::reply("bad-gateway", None).expect("a page");
        assert!(page.body.starts_with(b"<!DOCTYPE html>"));
    }

    #[test]
    fn a_quota_says_when_to_come_again() {
        let reply = super::reply("quota", Some(12_001)).expect("a shape");
        assert!(reply.headers.iter().any(|(name, value)| name == "retry-after" && value == "13"));
    }
}
