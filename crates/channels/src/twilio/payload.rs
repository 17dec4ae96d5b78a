//! One message as a form: the rendered body, who it is from, and how long it may wait.
//!
//! What must never happen: a text that is cut without saying so, or one that Twilio may deliver after it has expired.

use super::form;
use super::limits::{BODY_CHARACTERS_MAX, VALIDITY_S};
use super::settings::{Identity, Sender};
use fantail_rules::ids::Millis;
use fantail_rules::sms::{plainer, segments};
use serde_json::Value;
use std::borrow::Cow;

/// A text, and what it costs its sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text {
    pub body: String,
    pub segments: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TextError {
    #[error("the content is not an object with a body")]
    NoBody,
    #[error("the body is empty")]
    Empty,
    #[error("the body has more than {BODY_CHARACTERS_MAX} characters")]
    TooLong,
}

/// The body of rendered content.
pub fn text(content: &[u8], smart_encoding: bool) -> Result<Text, TextError> {
    let content: Value = serde_json::from_slice(content).map_err(|_| TextError::NoBody)?;
    // Content that was written for no channel may have a title only.
    let found = ["body", "title"].iter().find_map(|name| content.get(*name).and_then(Value::as_str));
    let body = found.ok_or(TextError::NoBody)?;
    let body = if smart_encoding { plainer(body) } else { Cow::Borrowed(body) };
    if body.trim().is_empty() {
        return Err(TextError::Empty);
    }
    if body.chars().map(char::len_utf16).sum::<usize>() > BODY_CHARACTERS_MAX {
        return Err(TextError::TooLong);
    }
    Ok(Text { segments: segments(&body).segments, body: body.into_owned() })
}

/// Seconds that the message may wait at Twilio, or none if it has expired. Its longest is what it does by itself.
#[must_use]
pub fn validity_s(now: Millis, expires_at: Millis) -> Option<u64> {
    let left_s = expires_at.since(now) / 1_000;
    VALIDITY_S.contains(&left_s.min(*VALIDITY_S.end())).then(|| left_s.min(*VALIDITY_S.end()))
}

/// The form that is posted.
#[must_use]
pub fn fields(sender: &Sender, to: &str, text: &Text, validity_s: u64, callback: Option<&str>) -> String {
    let (name, value) = match &sender.identity {
        Identity::From(from) => ("From", from),
        Identity::MessagingService(sid) => ("MessagingServiceSid", sid),
    };
    let validity = validity_s.to_string();
    let mut fields = vec![("To", to), (name, value), ("Body", &text.body)];
    if validity_s < *VALIDITY_S.end() {
        fields.push(("ValidityPeriod", &validity));
    }
    fields.extend(callback.map(|url| ("StatusCallback", url)));
    form::write(&fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twilio::settings::Kind;

    fn sender(identity: Identity) -> Sender {
        Sender { identity, kind: Kind::LongCode, prefixes: Vec::new(), per_second: 1 }
    }

    #[test]
    fn a_form_says_who_to_what_and_how_long() {
        let text = text(br#"{"body":"Hi & bye"}"#, false).expect("a text");
        let from = sender(Identity::From("+12025550100".into()));
        let form = fields(&from, "+12025550199", &text, 60, Some("https://a.b/c"));
        let expected = "To=%2B12025550199&From=%2B12025550100&Body=Hi%20%26%20bye&ValidityPeriod=60\
            &StatusCallback=https%3A%2F%2Fa.b%2Fc";
        assert_eq!(form, expected);
        let service = sender(Identity::MessagingService("MG1".into()));
        assert_eq!(
            fields(&service, "+1", &text, 36_000, None),
            "To=%2B1&MessagingServiceSid=MG1&Body=Hi%20%26%20bye"
        );
    }

    // proves: SMS-02
    #[test]
    fn texts_are_counted_and_made_plain_if_wanted() {
        let curly = "It\u{2019}s ".repeat(20);
        let content = serde_json::json!({"body": curly}).to_string();
        assert_eq!(text(content.as_bytes(), false).map(|text| text.segments), Ok(2));
        assert_eq!(text(content.as_bytes(), true).map(|text| text.segments), Ok(1));
        for (content, expected) in [
            ("[]", TextError::NoBody),
            ("{", TextError::NoBody),
            (r#"{"body":1}"#, TextError::NoBody),
            (r#"{"body":"  "}"#, TextError::Empty),
        ] {
            assert_eq!(text(content.as_bytes(), false), Err(expected), "{content}");
        }
        let long = |count| serde_json::json!({"body": "a".repeat(count)}).to_string();
        assert!(text(long(1_600).as_bytes(), false).is_ok());
        assert_eq!(text(long(1_601).as_bytes(), false), Err(TextError::TooLong));
    }

    #[test]
    fn what_expires_soon_says_so() {
        let now = Millis(1_000_000);
        for (left_ms, expected) in
            [(0, None), (999, None), (1_000, Some(1)), (90_500, Some(90)), (u64::MAX / 2, Some(36_000))]
        {
            assert_eq!(validity_s(now, now.plus(left_ms)), expected, "{left_ms}");
        }
        assert_eq!(validity_s(now, Millis(1)), None);
    }
}
