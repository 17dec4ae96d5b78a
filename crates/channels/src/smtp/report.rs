//! What mail servers and mailbox providers send back: reports of deliveries (RFC 3464) and of complaints (RFC 5965).
//!
//! What must never happen: a panic, whatever the bytes are; an outcome that was read out of prose. Only the fields of
//! `message/delivery-status` and `message/feedback-report` count. Whose mail it was about says the address that the report came
//! to, or the message id of the mail in it; both carry the sealed reference.

use super::limits::{REPORT_BYTES_MAX, REPORT_RECIPIENTS_MAX, TEXT_BYTES_MAX};
use super::payload::reference_of_return_path;
use super::reply::Enhanced;
use crate::receipt::{Event, Outcome};
use fantail_rules::ids::Millis;
use mail_parser::{Message, MessageParser, MessagePart, MimeHeaders, PartType};

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReportError {
    #[error("a report has at most {REPORT_BYTES_MAX} bytes")]
    TooLarge,
    #[error("this is no mail")]
    NotAMail,
    #[error("this mail is no report")]
    NotAReport,
    #[error("the report does not say which mail it is about")]
    NoReference,
}

/// A whole mail, and the address of the envelope that it came to, if that is known.
pub fn read(mail: &[u8], sent_to: Option<&str>) -> Result<Vec<Event>, ReportError> {
    if mail.len() > REPORT_BYTES_MAX {
        return Err(ReportError::TooLarge);
    }
    let report = MessageParser::default().parse(mail).ok_or(ReportError::NotAMail)?;
    let events = match (part(&report, "delivery-status"), part(&report, "feedback-report")) {
        (Some(status), _) => deliveries(status.contents()),
        (None, Some(feedback)) => complaint(feedback.contents()),
        (None, None) => return Err(ReportError::NotAReport),
    };
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let reference = reference(&report, sent_to).ok_or(ReportError::NoReference)?;
    let at = report.date().and_then(|date| u64::try_from(date.to_timestamp()).ok());
    let at = at.map(|seconds| Millis(seconds.saturating_mul(1_000)));
    let event = |(outcome, code)| Event { reference: reference.clone(), outcome, code, at };
    Ok(events.into_iter().map(event).collect())
}

fn part<'a>(report: &'a Message<'a>, subtype: &str) -> Option<&'a MessagePart<'a>> {
    report.parts.iter().find(|part| {
        part.content_type().is_some_and(|kind| {
            kind.ctype().eq_ignore_ascii_case("message")
                && kind.subtype().is_some_and(|found| found.eq_ignore_ascii_case(subtype))
        })
    })
}

/// The first group of fields is about the mail, each further one about a recipient.
fn deliveries(status: &[u8]) -> Vec<(Outcome, String)> {
    let text = String::from_utf8_lossy(status);
    let groups = groups(&text);
    groups.iter().take(REPORT_RECIPIENTS_MAX + 1).filter_map(|group| delivery(group)).collect()
}

fn delivery(group: &[(&str, String)]) -> Option<(Outcome, String)> {
    field(group, "Final-Recipient").or_else(|| field(group, "Original-Recipient"))?;
    let action = word(field(group, "Action")?).to_ascii_lowercase();
    let status = field(group, "Status").map(word).and_then(Enhanced::read);
    let diagnosed = field(group, "Diagnostic-Code").and_then(diagnosed);
    // `5.0.0` says nothing; what the other server answered may say more.
    let says_something = |status: &Enhanced| (status.subject, status.detail) != (0, 0);
    let status = status.filter(says_something).or(diagnosed).or(status);
    let code = status.map_or_else(|| action.clone(), |status| status.to_string());
    let outcome = match action.as_str() {
        "failed" => Outcome::Bounced { hard: status.is_some_and(is_dead) },
        "delayed" => Outcome::Delayed,
        "delivered" => Outcome::Delivered,
        // Handed on to where nobody reports, or to a list: no more is known than before.
        _ => return None,
    };
    Some((outcome, code))
}

/// The same three that count in a conversation.
fn is_dead(status: Enhanced) -> bool {
    status.class == 5 && matches!((status.subject, status.detail), (1, 1 | 10) | (2, 1))
}

/// `smtp; 550 5.1.1 no such user`.
fn diagnosed(value: &str) -> Option<Enhanced> {
    let (kind, reply) = value.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("smtp") {
        return None;
    }
    let mut words = reply.split([' ', '-']).filter(|word| !word.is_empty());
    words.next().filter(|code| code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit()))?;
    words.next().and_then(Enhanced::read)
}

fn complaint(feedback: &[u8]) -> Vec<(Outcome, String)> {
    let text = String::from_utf8_lossy(feedback);
    let groups = groups(&text);
    let kind = groups.first().and_then(|group| field(group, "Feedback-Type")).map(word);
    match kind.map(str::to_ascii_lowercase).as_deref() {
        Some(kind @ ("abuse" | "fraud" | "opt-out" | "opt-out-list" | "virus" | "other")) => {
            vec![(Outcome::Complained, kind.to_owned())]
        }
        // `not-spam` takes a complaint back, and authentication reports are not about a recipient.
        Some(_) | None => Vec::new(),
    }
}

fn reference(report: &Message<'_>, sent_to: Option<&str>) -> Option<String> {
    let of_address = |address: &str| reference_of_return_path(address).and_then(plain);
    sent_to
        .and_then(of_address)
        .or_else(|| of_headers(report, &of_address))
        .or_else(|| of_original(report))
        .or_else(|| of_feedback(report, &of_address))
}

/// Where the report says that it went.
fn of_headers(report: &Message<'_>, of_address: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let to = report.to()?.iter().filter_map(|to| to.address()).find_map(of_address);
    to.or_else(|| {
        ["Delivered-To", "X-Original-To"]
            .into_iter()
            .filter_map(|name| report.header_raw(name))
            .find_map(|value| of_address(value.trim()))
    })
}

/// The mail that came back, whole or as its headers alone.
fn of_original(report: &Message<'_>) -> Option<String> {
    let of_id = |id: &str| id.split_once('@').and_then(|(reference, _)| plain(reference));
    report.parts.iter().find_map(|part| match &part.body {
        PartType::Message(original) => original.message_id().and_then(of_id),
        PartType::Text(headers) if is_headers(part) => {
            let groups = groups(headers);
            let id = field(groups.first()?, "Message-ID")?;
            of_id(id.trim().trim_start_matches('<'))
        }
        PartType::Text(_)
        | PartType::Html(_)
        | PartType::Binary(_)
        | PartType::InlineBinary(_)
        | PartType::Multipart(_) => None,
    })
}

fn is_headers(part: &MessagePart<'_>) -> bool {
    let kind = part.content_type();
    kind.and_then(|kind| kind.subtype()).is_some_and(|subtype| subtype.eq_ignore_ascii_case("rfc822-headers"))
}

fn of_feedback(report: &Message<'_>, of_address: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let feedback = part(report, "feedback-report")?;
    let text = String::from_utf8_lossy(feedback.contents());
    let groups = groups(&text);
    let from = field(groups.first()?, "Original-Mail-From")?;
    of_address(from.trim().trim_matches(['<', '>']))
}

/// What can be a reference at all; its seal is checked by whoever knows the key.
fn plain(reference: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let fits = (1..=TEXT_BYTES_MAX).contains(&reference.len()) && reference.bytes().all(is_plain);
    fits.then(|| reference.to_owned())
}

type Group<'a> = Vec<(&'a str, String)>;

/// Fields like those of headers, in groups between empty lines; folded ones are put together.
fn groups(text: &str) -> Vec<Group<'_>> {
    let mut groups = vec![Group::new()];
    for line in text.lines() {
        let last = groups.last_mut().expect("there is always one");
        if line.trim().is_empty() {
            if !last.is_empty() && groups.len() <= REPORT_RECIPIENTS_MAX {
                groups.push(Group::new());
            }
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = last.last_mut() {
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            last.push((name.trim(), value.trim().to_owned()));
        }
    }
    groups
}

fn field<'a>(group: &'a [(&str, String)], name: &str) -> Option<&'a str> {
    group.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// Without the comment that some put behind it.
fn word(value: &str) -> &str {
    value.split([' ', '\t', '(']).find(|word| !word.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
