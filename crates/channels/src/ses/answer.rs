//! What SES says, by the type of its error; a type that is not known is judged by its status and kept as it is.
//!
//! | error | answer |
//! |---|---|
//! | TooManyRequests, Throttling, 429 | later; the account sends more slowly |
//! | a text about the daily quota | later, the account rests for an hour |
//! | SendingPaused, AccountSuspended | later, the account rests; another one may take it |
//! | MailFromDomainNotVerified, NotFound, LimitExceeded | later, the account rests, an operator is told |
//! | 401, 403: keys, signatures, rights | the same |
//! | MessageRejected, 413, other 4xx | refused |
//! | BadRequest | malformed |
//! | 5xx with a type, 503 | later |
//! | other 5xx | unknown: a gateway answered, and SES may have taken it |

use super::limits::{CREDENTIAL_REST_MS, DAY_REST_MS, PAUSED_REST_MS, TEXT_BYTES_MAX};
use fantail_ports::channel::{Answer, Refusal, Scope};
use hyper::StatusCode;
use hyper::header::HeaderMap;
use serde_json::Value;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub answer: Answer,
    pub news: News,
}

/// What follows for the account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    Nothing,
    Works,
    /// It sends too fast.
    Throttled,
    /// Its 24 hours are used up.
    DayIsOver,
    /// Somebody has to change something.
    NeedsOperator,
}

#[must_use]
pub fn answer(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Verdict {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    if status.is_success() {
        let id = value.get("MessageId").and_then(Value::as_str).map(|id| shortened(id.to_owned()));
        return Verdict { answer: Answer::Accepted { provider_id: id }, news: News::Works };
    }
    let kind = kind(headers, &value);
    let code = if kind.is_empty() { status.as_str().to_owned() } else { kind.clone() };
    let later = |scope, after_ms, news, message: &str| Verdict {
        answer: Answer::Later { after_ms, scope, code: code.clone(), message: message.to_owned() },
        news,
    };
    let rejected = |refusal, message: &str| Verdict {
        answer: Answer::Rejected { refusal, code: code.clone(), message: message.to_owned() },
        news: News::Works,
    };
    let operator =
        |message: &str| later(Scope::Credential, Some(CREDENTIAL_REST_MS), News::NeedsOperator, message);
    let is_throttled =
        kind.starts_with("Throttling") || kind.starts_with("TooManyRequests") || status.as_u16() == 429;
    if is_throttled && says_day(&value) {
        let text = "the account has used up its 24 hours";
        return later(Scope::Credential, Some(DAY_REST_MS), News::DayIsOver, text);
    }
    match kind.trim_end_matches("Exception") {
        _ if is_throttled => later(Scope::Message, None, News::Throttled, "the account sends too fast"),
        "SendingPaused" | "AccountSuspended" => {
            let text = "the account may not send now";
            later(Scope::Credential, Some(PAUSED_REST_MS), News::NeedsOperator, text)
        }
        "MailFromDomainNotVerified" | "NotFound" | "LimitExceeded" => {
            operator("the account is not set up for it")
        }
        "MessageRejected" => rejected(Refusal::Message, "the provider refuses it"),
        "BadRequest" => rejected(Refusal::Malformed, "the provider does not understand it"),
        _ => match status.as_u16() {
            401 | 403 => operator("the provider does not let us in"),
            400..=407 | 409..=499 => rejected(Refusal::Message, "the provider refuses it"),
            503 => later(Scope::Message, None, News::Nothing, "the provider has a problem of its own"),
            _ if !kind.is_empty() => {
                later(Scope::Message, None, News::Nothing, "the provider has a problem of its own")
            }
            _ => {
                let message = "something between us and the provider failed".to_owned();
                Verdict { answer: Answer::Unknown { code, message }, news: News::Nothing }
            }
        },
    }
}

/// What came of each entry of a bulk call. A call that was refused was refused for each; if it does not say what became of each,
/// nothing is known of any.
#[must_use]
pub fn bulk_answers(status: StatusCode, headers: &HeaderMap, body: &[u8], entries: usize) -> Vec<Verdict> {
    if !status.is_success() {
        return vec![answer(status, headers, body); entries];
    }
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    match value.get("BulkEmailEntryResults").and_then(Value::as_array) {
        Some(results) if results.len() == entries => results.iter().map(entry_answer).collect(),
        Some(_) | None => {
            let message = "the provider does not say what became of each".to_owned();
            let answer = Answer::Unknown { code: "results".to_owned(), message };
            vec![Verdict { answer, news: News::Nothing }; entries]
        }
    }
}

fn entry_answer(result: &Value) -> Verdict {
    let text = |name: &str| result.get(name).and_then(Value::as_str).map(|text| shortened(text.to_owned()));
    let code = text("Status").unwrap_or_default();
    let later = |after_ms: Option<u64>, news, message: &str| {
        let scope = if after_ms.is_some() { Scope::Credential } else { Scope::Message };
        let answer = Answer::Later { after_ms, scope, code: code.clone(), message: message.to_owned() };
        Verdict { answer, news }
    };
    let rejected = |refusal, message: &str| Verdict {
        answer: Answer::Rejected { refusal, code: code.clone(), message: message.to_owned() },
        news: News::Works,
    };
    match code.as_str() {
        "SUCCESS" => {
            Verdict { answer: Answer::Accepted { provider_id: text("MessageId") }, news: News::Works }
        }
        "MESSAGE_REJECTED" => rejected(Refusal::Message, "the provider refuses it"),
        "INVALID_PARAMETER" => rejected(Refusal::Malformed, "the provider does not understand it"),
        "ACCOUNT_THROTTLED" => later(None, News::Throttled, "the account sends too fast"),
        "ACCOUNT_DAILY_QUOTA_EXCEEDED" => {
            later(Some(DAY_REST_MS), News::DayIsOver, "the account has used up its 24 hours")
        }
        "ACCOUNT_SUSPENDED" | "ACCOUNT_SENDING_PAUSED" | "CONFIGURATION_SET_SENDING_PAUSED" => {
            later(Some(PAUSED_REST_MS), News::NeedsOperator, "the account may not send now")
        }
        "MAIL_FROM_DOMAIN_NOT_VERIFIED"
        | "CONFIGURATION_SET_NOT_FOUND"
        | "TEMPLATE_NOT_FOUND"
        | "INVALID_SENDING_POOL_NAME" => {
            later(Some(CREDENTIAL_REST_MS), News::NeedsOperator, "the account is not set up for it")
        }
        "TRANSIENT_FAILURE" | "FAILED" => later(None, News::Nothing, "the provider has a problem of its own"),
        _ => {
            let message = "the provider answers with a status that is not known".to_owned();
            Verdict { answer: Answer::Unknown { code: "status".to_owned(), message }, news: News::Nothing }
        }
    }
}

/// Where AWS names the error: a header, or the body, with things around the name that nobody needs.
fn kind(headers: &HeaderMap, value: &Value) -> String {
    let header = headers.get("x-amzn-errortype").and_then(|value| value.to_str().ok());
    let written =
        header.or_else(|| value.get("__type").or_else(|| value.get("code")).and_then(Value::as_str));
    let name = written.unwrap_or_default();
    let name = name.rsplit('#').next().unwrap_or_default();
    let name = name.split(':').next().unwrap_or_default();
    let is_name = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
    name.chars().filter(is_name).take(TEXT_BYTES_MAX).collect()
}

/// The one error that is told from others by its text alone.
fn says_day(value: &Value) -> bool {
    let text = value.get("message").or_else(|| value.get("Message")).and_then(Value::as_str);
    text.is_some_and(|text| text.to_ascii_lowercase().contains("daily message quota exceeded"))
}

fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn told(status: u16, kind: &str, body: &str) -> String {
        let mut headers = HeaderMap::new();
        if !kind.is_empty() {
            headers.insert("x-amzn-errortype", HeaderValue::from_str(kind).expect("a header"));
        }
        let status = StatusCode::from_u16(status).expect("a status");
        show(answer(status, &headers, body.as_bytes()))
    }

    fn show(Verdict { answer, news }: Verdict) -> String {
        let told = match answer {
            Answer::Accepted { provider_id } => format!("accepted {}", provider_id.unwrap_or_default()),
            Answer::Rejected { refusal, code, .. } => format!("{refusal:?} {code}"),
            Answer::Later { after_ms, scope, code, .. } => {
                format!("later {scope:?} {} {code}", after_ms.unwrap_or_default() / 1_000)
            }
            Answer::Unknown { code, .. } => format!("unknown {code}"),
            Answer::NotSent { .. } => panic!("a reply is an answer"),
        };
        format!("{told}, {news:?}")
    }

    const RATE: &str = r#"{"message":"Maximum sending rate exceeded."}"#;
    const DAY: &str = r#"{"message":"Daily message quota exceeded."}"#;
    const TYPED: &str = r#"{"__type":"com.amazonaws.sesv2#MessageRejected","message":"x"}"#;

    /// Status, type, body, and what is told.
    const TABLE: &[(u16, &str, &str, &str)] = &[
        (200, "", r#"{"MessageId":"0100"}"#, "accepted 0100, Works"),
        (200, "", "", "accepted , Works"),
        (429, "TooManyRequestsException", "", "later Message 0 TooManyRequestsException, Throttled"),
        (400, "ThrottlingException", RATE, "later Message 0 ThrottlingException, Throttled"),
        (400, "Throttling", RATE, "later Message 0 Throttling, Throttled"),
        (429, "", "", "later Message 0 429, Throttled"),
        (400, "ThrottlingException", DAY, "later Credential 3600 ThrottlingException, DayIsOver"),
        (429, "TooManyRequestsException", DAY, "later Credential 3600 TooManyRequestsException, DayIsOver"),
        (400, "SendingPausedException", "", "later Credential 600 SendingPausedException, NeedsOperator"),
        (
            400,
            "AccountSuspendedException",
            "",
            "later Credential 600 AccountSuspendedException, NeedsOperator",
        ),
        (
            400,
            "MailFromDomainNotVerifiedException",
            "",
            "later Credential 300 MailFromDomainNotVerifiedException, NeedsOperator",
        ),
        (404, "NotFoundException", "", "later Credential 300 NotFoundException, NeedsOperator"),
        (400, "LimitExceededException", "", "later Credential 300 LimitExceededException, NeedsOperator"),
        (400, "MessageRejected", "", "Message MessageRejected, Works"),
        (400, "", TYPED, "Message MessageRejected, Works"),
        (
            400,
            "BadRequestException:http://internal.amazon.com/x/",
            "",
            "Malformed BadRequestException, Works",
        ),
        (403, "SignatureDoesNotMatch", "", "later Credential 300 SignatureDoesNotMatch, NeedsOperator"),
        (403, "AccessDeniedException", "", "later Credential 300 AccessDeniedException, NeedsOperator"),
        (401, "", "", "later Credential 300 401, NeedsOperator"),
        (413, "", "", "Message 413, Works"),
        (409, "SomethingNew", "", "Message SomethingNew, Works"),
        (500, "InternalServiceErrorException", "", "later Message 0 InternalServiceErrorException, Nothing"),
        (503, "", "", "later Message 0 503, Nothing"),
    ];

    // proves: DEL-13
    #[test]
    fn every_error_has_its_answer() {
        for (status, kind, body, expected) in TABLE {
            assert_eq!(told(*status, kind, body), *expected, "{status} {kind} {body}");
        }
    }

    /// The status of an entry, and what is told.
    const ENTRIES: &[(&str, &str)] = &[
        ("SUCCESS", "accepted 0100, Works"),
        ("MESSAGE_REJECTED", "Message MESSAGE_REJECTED, Works"),
        ("INVALID_PARAMETER", "Malformed INVALID_PARAMETER, Works"),
        ("ACCOUNT_THROTTLED", "later Message 0 ACCOUNT_THROTTLED, Throttled"),
        ("ACCOUNT_DAILY_QUOTA_EXCEEDED", "later Credential 3600 ACCOUNT_DAILY_QUOTA_EXCEEDED, DayIsOver"),
        ("ACCOUNT_SUSPENDED", "later Credential 600 ACCOUNT_SUSPENDED, NeedsOperator"),
        ("ACCOUNT_SENDING_PAUSED", "later Credential 600 ACCOUNT_SENDING_PAUSED, NeedsOperator"),
        (
            "CONFIGURATION_SET_SENDING_PAUSED",
            "later Credential 600 CONFIGURATION_SET_SENDING_PAUSED, NeedsOperator",
        ),
        (
            "MAIL_FROM_DOMAIN_NOT_VERIFIED",
            "later Credential 300 MAIL_FROM_DOMAIN_NOT_VERIFIED, NeedsOperator",
        ),
        ("CONFIGURATION_SET_NOT_FOUND", "later Credential 300 CONFIGURATION_SET_NOT_FOUND, NeedsOperator"),
        ("TEMPLATE_NOT_FOUND", "later Credential 300 TEMPLATE_NOT_FOUND, NeedsOperator"),
        ("INVALID_SENDING_POOL_NAME", "later Credential 300 INVALID_SENDING_POOL_NAME, NeedsOperator"),
        ("TRANSIENT_FAILURE", "later Message 0 TRANSIENT_FAILURE, Nothing"),
        ("FAILED", "later Message 0 FAILED, Nothing"),
        ("SOMETHING_NEW", "unknown status, Nothing"),
        ("", "unknown status, Nothing"),
    ];

    fn bulk_told(status: u16, body: &str, entries: usize) -> Vec<String> {
        let status = StatusCode::from_u16(status).expect("a status");
        let verdicts = bulk_answers(status, &HeaderMap::new(), body.as_bytes(), entries);
        verdicts.into_iter().map(show).collect()
    }

    // proves: DEL-13
    #[test]
    fn every_entry_has_its_own_answer() {
        let result = |(status, _): &(&str, &str)| serde_json::json!({"Status": status, "MessageId": "0100"});
        let results: Vec<Value> = ENTRIES.iter().map(result).collect();
        let body = serde_json::json!({"BulkEmailEntryResults": results}).to_string();
        let expected: Vec<&str> = ENTRIES.iter().map(|(_, expected)| *expected).collect();
        assert_eq!(bulk_told(200, &body, ENTRIES.len()), expected);
    }

    #[test]
    fn a_bulk_answer_that_does_not_tell_all_tells_nothing() {
        let one = r#"{"BulkEmailEntryResults":[{"Status":"SUCCESS","MessageId":"0100"}]}"#;
        for body in [one, "", "{}", r#"{"BulkEmailEntryResults":[]}"#, "<html>"] {
            assert_eq!(bulk_told(200, body, 2), ["unknown results, Nothing"; 2], "{body}");
        }
        assert_eq!(bulk_told(503, "", 2), ["later Message 0 503, Nothing"; 2]);
        assert_eq!(bulk_told(400, TYPED, 2), ["Message MessageRejected, Works"; 2]);
    }

    // fixes: correctness B1
    #[test]
    fn a_timeout_of_a_gateway_proves_nothing() {
        for status in [408, 500, 502, 504] {
            assert_eq!(told(status, "", "<html>"), format!("unknown {status}, Nothing"));
        }
        assert_eq!(bulk_told(504, "", 2), ["unknown 504, Nothing"; 2]);
    }

    #[test]
    fn what_is_no_json_is_judged_by_its_status() {
        let page = b"<html>Bad Gateway</html>";
        let Verdict { answer, .. } = answer(StatusCode::BAD_GATEWAY, &HeaderMap::new(), page);
        assert!(matches!(answer, Answer::Unknown { code, .. } if code == "502"));
    }
}
