//! What an answer of Twilio means: its error code first, else the status.
//!
//! | codes | answer |
//! |---|---|
//! | 2xx | accepted |
//! | 429, 20429 | later, the whole account: too many requests at once |
//! | 401, 403, 20003, 20404, 30002 … | later, this credential: an operator has to do something |
//! | 21610 | unwanted: the recipient said STOP |
//! | 21211, 21612, 21614, 30005, 30006 | the number is dead |
//! | 21611, 30001 | later, this sender: its queue is full |
//! | 21606, 21603, 21212 | later, this sender: it cannot send |
//! | 21408, 21608, 30004, 30007 | refused for good, the number stays |
//! | 21602, 21617, 21604, 21605 | malformed |
//! | 30003, 30008 | later, twice and once; then refused |
//! | 5xx with a code of Twilio | later |
//! | other 5xx, 408 | unknown: a gateway in front may have lost the answer, and a text must not go out twice |
//!
//! Texts of Twilio quote numbers: none gets any further than here.

use super::limits::{BUSY_MS, CODE_BYTES_MAX, CREDENTIAL_PAUSE_MS, RETRY_AFTER_MS_MAX, SENDER_PAUSE_MS};
use fantail_outbound::pool::Reply;
use fantail_ports::channel::{Answer, Refusal, Scope};
use serde_json::Value;

/// What one answer says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub answer: Answer,
    /// The sender is to be left alone for so long.
    pub sender_rests_ms: Option<u64>,
    /// Nothing gets better until an operator changes something at Twilio or here.
    pub needs_operator: bool,
}

/// `attempt` is 1 for the first.
#[must_use]
pub fn answer(reply: &Reply, attempt: u8) -> Verdict {
    let body: Option<Value> = serde_json::from_slice(&reply.body).ok();
    let field = |name: &str| body.as_ref().and_then(|body| body.get(name)).unwrap_or(&Value::Null);
    if reply.status.is_success() {
        // A message that was made and failed at once says so inside.
        return match code(field("error_code")) {
            Some(number) => of_code(number, attempt),
            None => plain(Answer::Accepted { provider_id: field("sid").as_str().map(shortened) }),
        };
    }
    let after_ms = retry_after_ms(reply);
    match code(field("code")) {
        Some(number) if MEANINGS.iter().any(|meaning| meaning.0.contains(&number)) => {
            let verdict = of_code(number, attempt);
            if number == 20_429 { busy(number.to_string(), after_ms) } else { verdict }
        }
        found => of_status(reply.status.as_u16(), found, after_ms),
    }
}

/// What follows from a code, whether it came as an answer or in a callback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    Busy,
    Credential,
    /// The recipient said STOP.
    Unwanted,
    /// The number cannot be reached at all.
    Dead,
    SenderFull,
    SenderUnable,
    Refused,
    /// Refused, and others like it will be until an operator changes something.
    RefusedUntilFixed,
    Malformed,
    /// May be better later; so many attempts are worth it.
    Passing {
        attempts: u8,
    },
}

type Row = (&'static [u32], Meaning, &'static str);

pub(super) const MEANINGS: &[Row] = &[
    (&[20_429], Meaning::Busy, "too many requests at once"),
    (&[20_003, 20_005, 20_403, 20_404], Meaning::Credential, "the account or its credential is refused"),
    (&[30_002], Meaning::Credential, "the account is suspended"),
    (&[21_610], Meaning::Unwanted, "the recipient said STOP"),
    (&[21_211, 21_614, 30_005], Meaning::Dead, "the number cannot receive texts"),
    (&[21_612, 30_006], Meaning::Dead, "the number cannot be reached by text"),
    (&[21_611, 30_001], Meaning::SenderFull, "the queue of the sender is full"),
    (&[21_212, 21_603, 21_606], Meaning::SenderUnable, "the sender cannot send texts"),
    (&[21_408], Meaning::RefusedUntilFixed, "the account may not send to this region"),
    (&[21_608], Meaning::RefusedUntilFixed, "a trial account sends to verified numbers only"),
    (&[30_007], Meaning::RefusedUntilFixed, "a carrier filtered it"),
    (&[30_004], Meaning::Refused, "the recipient or carrier blocks it"),
    (&[21_602, 21_604, 21_605, 21_617], Meaning::Malformed, "the message is malformed"),
    (&[30_003], Meaning::Passing { attempts: 2 }, "the phone is off or out of reach"),
    (&[30_008], Meaning::Passing { attempts: 1 }, "delivery failed for an unknown reason"),
];

fn of_code(number: u32, attempt: u8) -> Verdict {
    let code = number.to_string();
    let Some((_, meaning, message)) = MEANINGS.iter().find(|meaning| meaning.0.contains(&number)) else {
        return plain(rejected(Refusal::Message, code, "refused"));
    };
    match *meaning {
        Meaning::Busy => busy(code, None),
        Meaning::Credential => operator(later(Some(CREDENTIAL_PAUSE_MS), Scope::Credential, code, message)),
        Meaning::Unwanted => plain(rejected(Refusal::Unwanted, code, message)),
        Meaning::Dead => plain(rejected(Refusal::DeadEndpoint, code, message)),
        Meaning::SenderFull => {
            let answer = later(Some(SENDER_PAUSE_MS), Scope::Origin, code, message);
            Verdict { sender_rests_ms: Some(SENDER_PAUSE_MS), ..plain(answer) }
        }
        Meaning::SenderUnable => {
            let answer = later(Some(SENDER_PAUSE_MS), Scope::Origin, code, message);
            Verdict { sender_rests_ms: Some(SENDER_PAUSE_MS), ..operator(answer) }
        }
        Meaning::Refused => plain(rejected(Refusal::Message, code, message)),
        Meaning::RefusedUntilFixed => operator(rejected(Refusal::Message, code, message)),
        Meaning::Malformed => operator(rejected(Refusal::Malformed, code, message)),
        Meaning::Passing { attempts } if attempt <= attempts => {
            plain(later(None, Scope::Message, code, message))
        }
        Meaning::Passing { .. } => plain(rejected(Refusal::Message, code, message)),
    }
}

fn of_status(status: u16, number: Option<u32>, after_ms: Option<u64>) -> Verdict {
    let code = number.unwrap_or(u32::from(status)).to_string();
    match status {
        429 => busy(code, after_ms),
        401 | 403 | 404 => operator(later(
            Some(CREDENTIAL_PAUSE_MS),
            Scope::Credential,
            code,
            "the account or its credential is refused",
        )),
        500.. if number.is_some() => plain(later(after_ms, Scope::Message, code, "Twilio failed")),
        408 | 500.. => {
            let message = "no answer of Twilio's own came back".to_owned();
            plain(Answer::Unknown { code, message })
        }
        _ => plain(rejected(Refusal::Message, code, "refused")),
    }
}

fn busy(code: String, after_ms: Option<u64>) -> Verdict {
    plain(later(Some(after_ms.unwrap_or(BUSY_MS)), Scope::Origin, code, "too many requests at once"))
}

fn plain(answer: Answer) -> Verdict {
    Verdict { answer, sender_rests_ms: None, needs_operator: false }
}

fn operator(answer: Answer) -> Verdict {
    Verdict { needs_operator: true, ..plain(answer) }
}

fn later(after_ms: Option<u64>, scope: Scope, code: String, message: &str) -> Answer {
    Answer::Later { after_ms, scope, code, message: message.to_owned() }
}

fn rejected(refusal: Refusal, code: String, message: &str) -> Answer {
    Answer::Rejected { refusal, code, message: message.to_owned() }
}

/// A number, or a number as text as in callbacks; zero is none.
pub(super) fn code(value: &Value) -> Option<u32> {
    let number = match value {
        Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.filter(|number| *number > 0)
}

fn shortened(text: &str) -> String {
    text.chars().take(2 * CODE_BYTES_MAX).collect()
}

/// Seconds; Twilio sends no dates.
fn retry_after_ms(reply: &Reply) -> Option<u64> {
    let text = reply.headers.get("retry-after")?.to_str().ok()?;
    let seconds: u64 = text.trim().parse().ok()?;
    Some(seconds.saturating_mul(1_000).min(RETRY_AFTER_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hyper::http::{HeaderMap, HeaderValue, StatusCode};

    fn told(status: u16, body: &str, attempt: u8, retry_after: Option<&str>) -> String {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert("retry-after", HeaderValue::from_str(value).expect("a header value"));
        }
        let body = Bytes::copy_from_slice(body.as_bytes());
        let status = StatusCode::from_u16(status).expect("a status");
        let verdict = answer(&Reply { status, headers, body }, attempt);
        let told = match verdict.answer {
            Answer::Accepted { provider_id } => format!("accepted {}", provider_id.unwrap_or_default()),
            Answer::Rejected { refusal, code, .. } => format!("rejected {refusal:?} {code}"),
            Answer::Later { after_ms, scope, code, .. } => {
                format!("later {} {scope:?} {code}", after_ms.unwrap_or_default())
            }
            Answer::NotSent { proof, .. } => format!("not sent {proof:?}"),
            Answer::Unknown { code, .. } => format!("unknown {code}"),
        };
        let rests = if verdict.sender_rests_ms.is_some() { ", sender rests" } else { "" };
        let operator = if verdict.needs_operator { ", operator" } else { "" };
        format!("{told}{rests}{operator}")
    }

    fn check(status: u16, code: u32, expected: &str) {
        let body = format!(r#"{{"code":{code},"message":"The 'To' number +1202 is bad","status":{status}}}"#);
        assert_eq!(told(status, &body, 1, None), expected, "{status} {code}");
    }

    // proves: DEL-13
    #[test]
    fn every_code_has_its_action() {
        check(429, 20_429, "later 1000 Origin 20429");
        check(401, 20_003, "later 300000 Credential 20003, operator");
        check(404, 20_404, "later 300000 Credential 20404, operator");
        check(400, 21_610, "rejected Unwanted 21610");
        for number in [21_211, 21_612, 21_614, 30_005, 30_006] {
            check(400, number, &format!("rejected DeadEndpoint {number}"));
        }
        check(400, 21_408, "rejected Message 21408, operator");
        check(400, 21_608, "rejected Message 21608, operator");
        for number in [21_212, 21_603, 21_606] {
            check(400, number, &format!("later 600000 Origin {number}, sender rests, operator"));
        }
        check(429, 21_611, "later 600000 Origin 21611, sender rests");
        check(400, 30_001, "later 600000 Origin 30001, sender rests");
        check(403, 30_002, "later 300000 Credential 30002, operator");
        check(400, 30_003, "later 0 Message 30003");
        check(400, 30_004, "rejected Message 30004");
        check(400, 30_007, "rejected Message 30007, operator");
        check(400, 30_008, "later 0 Message 30008");
        for number in [21_602, 21_604, 21_605, 21_617] {
            check(400, number, &format!("rejected Malformed {number}, operator"));
        }
    }

    #[test]
    fn unknown_codes_keep_their_name_and_go_by_the_status() {
        check(400, 21_999, "rejected Message 21999");
        check(500, 20_500, "later 0 Message 20500");
        check(503, 20_503, "later 0 Message 20503");
        check(403, 12_345, "later 300000 Credential 12345, operator");
        for (status, body, expected) in [
            (201, r#"{"sid":"SM1","status":"queued","error_code":null}"#, "accepted SM1"),
            (201, "", "accepted "),
            (
                201,
                r#"{"sid":"SM1","status":"failed","error_code":30007}"#,
                "rejected Message 30007, operator",
            ),
            (429, "slow down", "later 1000 Origin 429"),
            (401, "<html>", "later 300000 Credential 401, operator"),
            (404, "", "later 300000 Credential 404, operator"),
            (400, "{}", "rejected Message 400"),
            (302, "", "rejected Message 302"),
            (408, "", "unknown 408"),
            (500, "<html>", "unknown 500"),
            (502, "<html>", "unknown 502"),
            (504, "", "unknown 504"),
        ] {
            assert_eq!(told(status, body, 1, None), expected, "{status} {body}");
        }
    }

    #[test]
    fn what_may_pass_is_tried_so_often_and_no_more() {
        for (number, attempt, expected) in [
            (30_003, 2, "later 0 Message 30003"),
            (30_003, 3, "rejected Message 30003"),
            (30_008, 1, "later 0 Message 30008"),
            (30_008, 2, "rejected Message 30008"),
        ] {
            let body = format!(r#"{{"code":{number}}}"#);
            assert_eq!(told(400, &body, attempt, None), expected, "{number} {attempt}");
        }
    }

    #[test]
    fn a_wait_that_is_asked_for_is_kept() {
        assert_eq!(told(429, r#"{"code":20429}"#, 1, Some("7")), "later 7000 Origin 20429");
        assert_eq!(told(429, "", 1, Some("99999999")), "later 86400000 Origin 429");
        assert_eq!(told(429, "", 1, Some("soon")), "later 1000 Origin 429");
    }
}
