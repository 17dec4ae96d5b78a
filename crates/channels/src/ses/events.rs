//! What SES tells about a mail later, as it comes inside a notification of SNS.
//!
//! | `eventType` or `notificationType` | outcome |
//! |---|---|
//! | Bounce, Permanent | bounced for good |
//! | Bounce, Transient or Undetermined | bounced |
//! | Complaint | complained |
//! | Delivery, DeliveryDelay, Open, Click | as they say |
//! | Reject, Rendering Failure | failed |
//! | Send, Subscription, anything else | nothing new |

use super::limits::TEXT_BYTES_MAX;
use super::payload::REFERENCE_TAG;
use crate::email::settings::day_of;
use crate::receipt::{Event, Outcome};
use fantail_rules::ids::Millis;
use fantail_rules::warm_up::DAY_MS;
use serde_json::Value;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EventError {
    #[error("the message is no event of SES")]
    NotAnEvent,
    #[error("the event does not say which mail it is about")]
    NoReference,
}

/// The text of a notification. Every mail of ours has one recipient, so there is one event or none.
pub fn read(message: &str) -> Result<Option<Event>, EventError> {
    let value: Value = serde_json::from_str(message).map_err(|_| EventError::NotAnEvent)?;
    let kind = value.get("eventType").or_else(|| value.get("notificationType")).and_then(Value::as_str);
    let kind = kind.ok_or(EventError::NotAnEvent)?;
    let Some((outcome, part, code)) = outcome(kind, &value) else { return Ok(None) };
    let reference = reference(&value).ok_or(EventError::NoReference)?;
    let at = value.get(part).and_then(|part| part.get("timestamp")).and_then(Value::as_str).and_then(time);
    Ok(Some(Event { reference, outcome, code: shortened(code), at }))
}

/// What it means, where it says more, and the provider's word for it.
fn outcome(kind: &str, value: &Value) -> Option<(Outcome, &'static str, String)> {
    let word = |part: &str, name: &str| value.get(part)?.get(name)?.as_str();
    let told = |outcome, part, code: &str| Some((outcome, part, code.to_owned()));
    match kind {
        "Bounce" => {
            let of = word("bounce", "bounceType").unwrap_or("Undetermined");
            let more = word("bounce", "bounceSubType").unwrap_or("Undetermined");
            Some((Outcome::Bounced { hard: of == "Permanent" }, "bounce", format!("{of}/{more}")))
        }
        "Complaint" => {
            let of = word("complaint", "complaintFeedbackType").unwrap_or("complaint");
            // Somebody who says that it was no junk does not complain.
            (of != "not-spam").then(|| (Outcome::Complained, "complaint", of.to_owned()))
        }
        "Delivery" => told(Outcome::Delivered, "delivery", "Delivery"),
        "DeliveryDelay" => {
            told(Outcome::Delayed, "deliveryDelay", word("deliveryDelay", "delayType").unwrap_or(kind))
        }
        "Open" => told(Outcome::Opened, "open", "Open"),
        "Click" => told(Outcome::Clicked, "click", "Click"),
        "Reject" => told(Outcome::Failed, "reject", word("reject", "reason").unwrap_or(kind)),
        "Rendering Failure" => told(Outcome::Failed, "failure", kind),
        _ => None,
    }
}

/// The tag that every mail of ours carries; or the message id, if headers are sent along.
fn reference(value: &Value) -> Option<String> {
    let mail = value.get("mail")?;
    let tag = mail.get("tags").and_then(|tags| tags.get(REFERENCE_TAG)).and_then(|values| values.get(0));
    if let Some(tag) = tag.and_then(Value::as_str) {
        return plain(tag);
    }
    let headers = mail.get("headers")?.as_array()?;
    headers.iter().find_map(|header| {
        let is_id = header.get("name")?.as_str()?.eq_ignore_ascii_case("Message-ID");
        let value = header.get("value")?.as_str().filter(|_| is_id)?;
        plain(value.trim().trim_start_matches('<').split('@').next()?)
    })
}

fn plain(reference: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let fits = (1..=TEXT_BYTES_MAX).contains(&reference.len()) && reference.bytes().all(is_plain);
    fits.then(|| reference.to_owned())
}

/// `2026-11-16T08:30:00.123Z`.
pub(super) fn time(text: &str) -> Option<Millis> {
    let (day, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.split(':').map(|part| part.parse::<u64>().ok().filter(|_| part.len() == 2));
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let millis: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let is_time = hours < 24 && minutes < 60 && seconds < 61 && parts.next().is_none();
    let of_day = ((hours * 60 + minutes) * 60 + seconds) * 1_000 + millis;
    is_time.then_some(Millis(day_of(day)? * DAY_MS + of_day))
}

fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn told(kind: &str, parts: Value) -> String {
        let mut value = json!({"mail": {"tags": {"fantail-reference": ["r1"]}}});
        for (name, part) in parts.as_object().expect("parts") {
            value[name] = part.clone();
        }
        let mut told = Vec::new();
        for name in ["eventType", "notificationType"] {
            let mut value = value.clone();
            value[name] = kind.into();
            told.push(match read(&value.to_string()).expect("an event") {
                Some(event) => format!("{:?} {}", event.outcome, event.code),
                None => String::new(),
            });
        }
        assert_eq!(told[0], told[1], "{kind}");
        told.remove(0)
    }

    // proves: EML-02, TRK-03
    #[test]
    fn every_event_has_its_outcome() {
        let bounce = |of: &str| json!({"bounce": {"bounceType": of, "bounceSubType": "General"}});
        for (kind, parts, expected) in [
            ("Bounce", bounce("Permanent"), "Bounced { hard: true } Permanent/General"),
            ("Bounce", bounce("Transient"), "Bounced { hard: false } Transient/General"),
            ("Bounce", bounce("Undetermined"), "Bounced { hard: false } Undetermined/General"),
            ("Bounce", json!({}), "Bounced { hard: false } Undetermined/Undetermined"),
            ("Complaint", json!({"complaint": {"complaintFeedbackType": "abuse"}}), "Complained abuse"),
            ("Complaint", json!({"complaint": {"complaintFeedbackType": "not-spam"}}), ""),
            ("Complaint", json!({}), "Complained complaint"),
            ("Delivery", json!({}), "Delivered Delivery"),
            ("DeliveryDelay", json!({"deliveryDelay": {"delayType": "MailboxFull"}}), "Delayed MailboxFull"),
            ("Open", json!({}), "Opened Open"),
            ("Click", json!({}), "Clicked Click"),
            ("Reject", json!({"reject": {"reason": "Bad content"}}), "Failed Bad content"),
            ("Rendering Failure", json!({}), "Failed Rendering Failure"),
            ("Send", json!({}), ""),
            ("Subscription", json!({}), ""),
            ("SomethingNew", json!({}), ""),
        ] {
            assert_eq!(told(kind, parts.clone()), expected, "{kind} {parts}");
        }
    }

    #[test]
    fn the_mail_is_named_by_tag_or_message_id() {
        let of = |mail: Value| {
            let value = json!({"eventType": "Delivery", "delivery": {"timestamp": "2026-11-16T08:30:00.250Z"}, "mail": mail});
            read(&value.to_string())
        };
        let event =
            of(json!({"tags": {"fantail-reference": ["r1"]}})).expect("an event").expect("an outcome");
        assert_eq!((event.reference.as_str(), event.at), ("r1", Some(Millis(1_794_817_800_250))));
        let headers = json!({"headers": [{"name": "Message-ID", "value": "<r2@shop.example>"}]});
        assert_eq!(of(headers).expect("an event").expect("an outcome").reference, "r2");
        assert_eq!(of(json!({})), Err(EventError::NoReference));
        assert_eq!(of(json!({"tags": {"fantail-reference": ["a b"]}})), Err(EventError::NoReference));
        assert_eq!(read("[]"), Err(EventError::NotAnEvent));
    }

    #[test]
    fn times_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-01-01T00:00:01.5Z", Some(1_500)),
            ("1970-01-01T00:00:01.123456Z", Some(1_123)),
            ("1970-01-01T24:00:00Z", None),
            ("1970-01-01 00:00:00Z", None),
            ("1970-01-01T00:00:00+01:00", None),
            ("1970-01-01T00:00:00.üZ", None),
        ] {
            assert_eq!(time(text), expected.map(Millis), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>(), time_text in any::<String>()) {
            prop_assert!(read(&text).is_err());
            time(&time_text);
        }
    }
}
