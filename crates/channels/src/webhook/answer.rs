//! What a status means. Standard Webhooks wants everything but 2xx tried again, and 410 to end the endpoint; so:
//!
//! | status | answer |
//! |---|---|
//! | 2xx | accepted |
//! | 410 | the endpoint is dead |
//! | 3xx, 413 | refused for good: redirects are not followed, and the same bytes will not get smaller |
//! | 429, 502, 503, 504 | later, and everything to that host with it |
//! | other 4xx, 5xx | later, this message alone: a deploy or a secret that was changed too early heals |
//! | 1xx as the last word | unknown |
//!
//! `Retry-After` is followed on every "later", up to a day. No text of the receiver gets any further than here.

use crate::retry_after::retry_after_ms;
use fantail_ports::channel::{Answer, Refusal, Scope};
use fantail_rules::ids::Millis;
use hyper::StatusCode;
use hyper::header::HeaderMap;

/// `now` is the wall time: `Retry-After` may be a date.
#[must_use]
pub fn answer(status: StatusCode, headers: &HeaderMap, now: Millis) -> Answer {
    let code = status.as_str().to_owned();
    let message = status.canonical_reason().unwrap_or("no known status").to_owned();
    match status {
        StatusCode::GONE => Answer::Rejected { refusal: Refusal::DeadEndpoint, code, message },
        StatusCode::PAYLOAD_TOO_LARGE => Answer::Rejected { refusal: Refusal::Message, code, message },
        _ if status.is_success() => Answer::Accepted { provider_id: None },
        _ if status.is_redirection() => {
            let message = "redirects are not followed".to_owned();
            Answer::Rejected { refusal: Refusal::Message, code, message }
        }
        _ if status.is_informational() => Answer::Unknown { code, message },
        _ => Answer::Later { after_ms: retry_after_ms(headers, now), scope: scope(status), code, message },
    }
}

fn scope(status: StatusCode) -> Scope {
    match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Scope::Origin,
        _ => Scope::Message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderValue, RETRY_AFTER};

    const NOW: Millis = Millis(784_111_777_000); // Sun, 06 Nov 1994 08:49:37 GMT

    fn told(status: u16, retry_after: Option<&str>) -> String {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from_str(value).expect("a header value"));
        }
        let status = StatusCode::from_u16(status).expect("a status");
        match answer(status, &headers, NOW) {
            Answer::Accepted { provider_id } => format!("accepted {provider_id:?}"),
            Answer::Rejected { refusal, code, .. } => format!("rejected {refusal:?} {code}"),
            Answer::Later { after_ms, scope, code, .. } => format!("later {after_ms:?} {scope:?} {code}"),
            Answer::NotSent { proof, .. } => format!("not sent {proof:?}"),
            Answer::Unknown { code, .. } => format!("unknown {code}"),
        }
    }

    #[test]
    fn every_status_has_its_answer() {
        for status in 100..=999 {
            let expected = match status {
                100..=199 => format!("unknown {status}"),
                200..=299 => "accepted None".to_owned(),
                300..=399 | 413 => format!("rejected Message {status}"),
                410 => "rejected DeadEndpoint 410".to_owned(),
                429 | 502 | 503 | 504 => format!("later None Origin {status}"),
                _ => format!("later None Message {status}"),
            };
            assert_eq!(told(status, None), expected);
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_has_a_limit() {
        for (value, expected) in [
            ("0", "Some(0)"),
            ("120", "Some(120000)"),
            (" 7 ", "Some(7000)"),
            ("86401", "Some(86400000)"),
            ("99999999999999999999999", "Some(86400000)"),
            ("Sun, 06 Nov 1994 08:50:37 GMT", "Some(60000)"),
            ("Sun, 06 Nov 1994 08:00:00 GMT", "Some(0)"),
            ("Sunday, 06-Nov-94 08:49:39 GMT", "Some(2000)"),
            ("Sun Nov  6 08:49:40 1994", "Some(3000)"),
            ("Fri, 31 Dec 2100 00:00:00 GMT", "Some(86400000)"),
            ("", "None"),
            ("-1", "None"),
            ("1.5", "None"),
            ("soon", "None"),
        ] {
            assert_eq!(told(429, Some(value)), format!("later {expected} Origin 429"), "{value}");
            assert_eq!(told(500, Some(value)), format!("later {expected} Message 500"), "{value}");
        }
        assert_eq!(told(410, Some("5")), "rejected DeadEndpoint 410");
        assert_eq!(told(200, Some("5")), "accepted None");
    }
}
