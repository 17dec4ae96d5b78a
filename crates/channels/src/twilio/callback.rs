//! What a callback says: what became of a message, or what somebody wrote to one of our numbers.
//!
//! Callbacks come twice, late and in any order; whoever merges them lets a state move forward only. What is said on the
//! way (queued, sending, sent) is no news: the answer to the request said as much.

use super::answer::{MEANINGS, Meaning};
use super::limits::CODE_BYTES_MAX;
use crate::receipt::{Event, Outcome};

/// What became of the message that the reference in the URL names.
#[must_use]
pub fn event(reference: &str, parameters: &[(String, String)]) -> Option<Event> {
    let status = find(parameters, "MessageStatus").or_else(|| find(parameters, "SmsStatus"))?;
    let code = find(parameters, "ErrorCode").filter(|code| !code.is_empty());
    let (outcome, code) = match status {
        "delivered" | "read" => (Outcome::Delivered, status),
        "undelivered" | "failed" => (failed(code), code.unwrap_or(status)),
        "canceled" => (Outcome::Failed, code.unwrap_or(status)),
        _ => return None,
    };
    // `RawDlrDoneDate` has no zone and so says nothing; the time of arrival has to do.
    let code = code.chars().take(CODE_BYTES_MAX).collect();
    Some(Event { reference: reference.to_owned(), outcome, code, at: None })
}

fn failed(code: Option<&str>) -> Outcome {
    let number = code.and_then(|code| code.parse::<u32>().ok());
    let row = MEANINGS.iter().find(|(numbers, _, _)| number.is_some_and(|number| numbers.contains(&number)));
    match row.map(|(_, meaning, _)| *meaning) {
        Some(Meaning::Dead) => Outcome::Bounced { hard: true },
        Some(Meaning::Passing { .. }) => Outcome::Bounced { hard: false },
        Some(Meaning::Unwanted) => Outcome::Complained,
        Some(
            Meaning::Busy
            | Meaning::Credential
            | Meaning::SenderFull
            | Meaning::SenderUnable
            | Meaning::Refused
            | Meaning::RefusedUntilFixed
            | Meaning::Malformed,
        )
        | None => Outcome::Failed,
    }
}

/// What somebody wrote to one of our numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inbound {
    /// The recipient's number.
    pub from: String,
    /// Ours: consent is given and withdrawn towards it.
    pub to: String,
    pub keyword: Keyword,
    /// Twilio's name for the message.
    pub message_id: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keyword {
    /// Nothing more. Twilio stops sending from this number by itself.
    Stop,
    /// Again.
    Start,
    Help,
    /// Anything else: a text to a person.
    Other,
}

/// Words as Twilio knows them, in English. Not YES, which answers any question: it counts only if Twilio takes it for an opt-in,
/// which is then said by `OptOutType`.
const KEYWORDS: &[(Keyword, &[&str])] = &[
    (Keyword::Stop, &["STOP", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT", "REVOKE", "OPTOUT"]),
    (Keyword::Start, &["START", "UNSTOP"]),
    (Keyword::Help, &["HELP", "INFO"]),
];

/// An inbound message, or none if these parameters are about something else.
#[must_use]
pub fn inbound(parameters: &[(String, String)]) -> Option<Inbound> {
    let from = find(parameters, "From")?;
    let to = find(parameters, "To")?;
    let body = find(parameters, "Body")?;
    if find(parameters, "MessageStatus").is_some() {
        return None;
    }
    // With its advanced handling of opt-outs, in any language, Twilio says itself what it understood.
    let keyword = find(parameters, "OptOutType").map_or_else(|| keyword(body), keyword);
    let message_id = find(parameters, "MessageSid").map(str::to_owned);
    Some(Inbound { from: from.to_owned(), to: to.to_owned(), keyword, message_id })
}

/// The whole text must be the word: "please stop by" is no STOP.
fn keyword(body: &str) -> Keyword {
    let word = body.trim_matches(|letter: char| !letter.is_alphanumeric()).to_uppercase();
    let found = KEYWORDS.iter().find(|(_, words)| words.contains(&word.as_str()));
    found.map_or(Keyword::Other, |(keyword, _)| *keyword)
}

fn find<'a>(parameters: &'a [(String, String)], name: &str) -> Option<&'a str> {
    parameters.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twilio::form;
    use proptest::prelude::*;

    fn parameters(text: &str) -> Vec<(String, String)> {
        form::read(text.as_bytes()).expect("a form")
    }

    // proves: TRK-05
    #[test]
    fn statuses_become_outcomes_and_keep_their_code() {
        for (form, expected) in [
            ("MessageStatus=queued", None),
            ("MessageStatus=sending", None),
            ("MessageStatus=sent", None),
            ("MessageStatus=something", None),
            ("MessageStatus=delivered", Some((Outcome::Delivered, "delivered"))),
            ("MessageStatus=read", Some((Outcome::Delivered, "read"))),
            ("SmsStatus=delivered", Some((Outcome::Delivered, "delivered"))),
            ("MessageStatus=canceled", Some((Outcome::Failed, "canceled"))),
            ("MessageStatus=undelivered&ErrorCode=30003", Some((Outcome::Bounced { hard: false }, "30003"))),
            ("MessageStatus=undelivered&ErrorCode=30004", Some((Outcome::Failed, "30004"))),
            ("MessageStatus=undelivered&ErrorCode=30005", Some((Outcome::Bounced { hard: true }, "30005"))),
            ("MessageStatus=undelivered&ErrorCode=30006", Some((Outcome::Bounced { hard: true }, "30006"))),
            ("MessageStatus=undelivered&ErrorCode=30007", Some((Outcome::Failed, "30007"))),
            ("MessageStatus=undelivered&ErrorCode=30008", Some((Outcome::Bounced { hard: false }, "30008"))),
            ("MessageStatus=failed&ErrorCode=21610", Some((Outcome::Complained, "21610"))),
            ("MessageStatus=failed&ErrorCode=30001", Some((Outcome::Failed, "30001"))),
            ("MessageStatus=failed&ErrorCode=99999", Some((Outcome::Failed, "99999"))),
            ("MessageStatus=failed&ErrorCode=", Some((Outcome::Failed, "failed"))),
            ("MessageStatus=failed", Some((Outcome::Failed, "failed"))),
        ] {
            let event = event("ref", &parameters(form));
            let told = event.as_ref().map(|event| (event.outcome, event.code.as_str()));
            assert_eq!(told, expected, "{form}");
        }
    }

    // proves: SMS-03
    // fixes: security M3, proved M3
    #[test]
    fn words_to_our_numbers_are_understood() {
        for (body, expected) in [
            ("STOP", Keyword::Stop),
            (" stop. ", Keyword::Stop),
            ("Stopall", Keyword::Stop),
            ("unsubscribe", Keyword::Stop),
            ("CANCEL", Keyword::Stop),
            ("end", Keyword::Stop),
            ("Quit!", Keyword::Stop),
            ("start", Keyword::Start),
            ("YES", Keyword::Other),
            ("unstop", Keyword::Start),
            ("help", Keyword::Help),
            ("please stop by", Keyword::Other),
            ("", Keyword::Other),
        ] {
            let form = form::write(&[("From", "+1"), ("To", "+2"), ("Body", body)]);
            let expected =
                Inbound { from: "+1".into(), to: "+2".into(), keyword: expected, message_id: None };
            assert_eq!(inbound(&parameters(&form)), Some(expected), "{body}");
        }
        let told = inbound(&parameters("From=%2B1&To=%2B2&Body=ARRET&OptOutType=STOP"));
        assert_eq!(told.map(|inbound| inbound.keyword), Some(Keyword::Stop));
        let told = inbound(&parameters("From=%2B1&To=%2B2&Body=Yes&OptOutType=START&MessageSid=SM1"));
        let told = told.map(|inbound| (inbound.keyword, inbound.message_id));
        assert_eq!(told, Some((Keyword::Start, Some("SM1".to_owned()))));
        assert_eq!(inbound(&parameters("From=%2B1&To=%2B2&MessageStatus=sent&Body=x")), None);
        assert_eq!(inbound(&parameters("From=%2B1&Body=STOP")), None);
    }

    proptest! {
        #[test]
        fn any_parameters_are_bounded(parameters: Vec<(String, String)>) {
            if let Some(event) = event("ref", &parameters) {
                prop_assert!(event.code.chars().count() <= CODE_BYTES_MAX);
            }
            let _inbound = inbound(&parameters);
        }
    }
}
