//! Makes the mail of a delivery: headers, body, links of its own, signatures. Pure but for its keys.
//!
//! Comes from: a client with a shipment. Does: prepares what all its messages share once (texts, encodings, the hash of the
//! body), then writes each mail. Goes to: the client, which sends the bytes as they are.

use super::content::{Content, ContentError};
use super::dkim::{self, body_hash};
use super::encode::{header_text, mailbox};
use super::limits::{HEADER_URL_BYTES_MAX, REFERENCE_BYTES_MAX, WRITE_MS_MAX};
use super::links::Linked;
use super::mime::{Body, EncodedPart, Header, date, write};
use super::scribe::Scribe;
use super::settings::{Sender, SenderSecrets};
use super::text::text_of;
use crate::digest::Digest;
use crate::fields::SettingsError;
use fantail_ports::channel::{Answer, Callbacks, Message, Proof, Refusal};
use fantail_rules::address;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::Millis;
use std::sync::Arc;

const DIGEST_COUNT: &str = "Fantail-Digest-Count";
const DIGEST_EVENTS: &str = "Fantail-Digest-Events";

pub struct Composer {
    sender: Sender,
    keys: Vec<dkim::Key>,
    /// Who writes what is signed.
    pub(super) scribe: Arc<Scribe>,
}

/// What the messages of a shipment share.
pub struct Prepared {
    subject: String,
    /// Headers that say what a digest tells of.
    digest: Vec<Header>,
    form: Form,
    /// Of the content.
    bytes: usize,
}

impl Prepared {
    /// How large the content is: writing a mail takes longer with it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

enum Form {
    Same {
        body: Body,
        hash: String,
    },
    /// Links of its own for each.
    Own {
        text: EncodedPart,
        html: Linked,
    },
}

/// As it goes out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mail {
    pub to: String,
    /// Without its brackets.
    pub message_id: String,
    pub bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MailError {
    #[error("{0}")]
    Content(#[from] ContentError),
    #[error("the endpoint is no mail address")]
    Endpoint,
    #[error("the reference does not fit into a message id")]
    Reference,
    #[error("the link to unsubscribe does not fit into a header")]
    Unsubscribe,
    #[error("it takes more than {WRITE_MS_MAX} ms of a processor to write the mail")]
    TooSlow,
    #[error("the deadline passed before it was written")]
    TooLate,
}

impl MailError {
    /// A word for it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Content(_) => "content",
            Self::Endpoint => "endpoint",
            Self::Reference => "reference",
            Self::Unsubscribe => "unsubscribe",
            Self::TooSlow => "too_slow",
            Self::TooLate => "too_late",
        }
    }

    /// What the dispatcher is told.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let message = self.to_string();
        match self {
            Self::TooLate => Answer::NotSent { proof: Proof::Deadline, message },
            Self::Content(_) | Self::Endpoint | Self::Reference | Self::Unsubscribe | Self::TooSlow => {
                Answer::Rejected { refusal: Refusal::Malformed, code: self.code().to_owned(), message }
            }
        }
    }
}

impl Composer {
    pub fn new(sender: Sender, secrets: &SenderSecrets) -> Result<Self, SettingsError> {
        let keys = sender.keys(secrets)?;
        Ok(Self { sender, keys, scribe: Arc::default() })
    }

    #[must_use]
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Whether writing a mail takes the time of a signature.
    #[must_use]
    pub fn signs(&self) -> bool {
        !self.keys.is_empty()
    }

    /// What the messages of a content share; done once.
    pub fn prepare(&self, content: &[u8], callbacks: Option<&Callbacks>) -> Result<Prepared, MailError> {
        let Content { subject, html, text, digest } = Content::read(content)?;
        let subject = header_text(&subject, "Subject: ".len());
        let form = match (html, text) {
            (None, text) => same(Body::text(&text.unwrap_or_default())),
            (Some(html), text) => {
                let text = EncodedPart::new("plain", &text.unwrap_or_else(|| text_of(&html)));
                match callbacks.filter(|_| self.sender.tracking) {
                    None => same(Body::alternatives(&text, &EncodedPart::new("html", &html))),
                    Some(callbacks) => Form::Own { text, html: Linked::read(&html, callbacks) },
                }
            }
        };
        // One id a line: no line is long.
        let digest = digest.iter().flat_map(|digest| digest_headers(digest, "\r\n ")).collect();
        Ok(Prepared { subject, digest, form, bytes: content.len() })
    }

    /// `now` is wall time. `callbacks` are those that it was prepared with.
    pub fn mail(
        &self,
        prepared: &Prepared,
        message: &Message,
        callbacks: Option<&Callbacks>,
        now: Millis,
    ) -> Result<Mail, MailError> {
        let to = recipient(message)?;
        let reference = &message.reference;
        let own;
        let (body, hash) = match (&prepared.form, callbacks) {
            (Form::Same { body, hash }, _) => (body, hash),
            (Form::Own { text, html }, Some(callbacks)) => {
                let html = EncodedPart::new("html", &html.write(reference, callbacks));
                own = shared(Body::alternatives(text, &html));
                (&own.0, &own.1)
            }
            (Form::Own { .. }, None) => unreachable!("links of their own are prepared with callbacks"),
        };
        let message_id = format!("{reference}@{}", self.sender.domain());
        let mut headers = self.headers(prepared, &to, &message_id, body, now);
        let place = headers.len() - 3;
        headers.splice(place..place, self.ways_out(message)?);
        let signatures: Vec<Header> = self.keys.iter().map(|key| key.sign(&headers, hash, now)).collect();
        headers.splice(0..0, signatures);
        Ok(Mail { to, message_id, bytes: write(&headers, &body.bytes) })
    }

    fn headers(
        &self,
        prepared: &Prepared,
        to: &str,
        message_id: &str,
        body: &Body,
        now: Millis,
    ) -> Vec<Header> {
        let sender = &self.sender;
        let mut headers = Vec::with_capacity(14);
        headers.push(("From", mailbox(sender.from_name.as_deref(), &sender.from_address, "From: ".len())));
        headers.push(("To", to.to_owned()));
        headers.extend(sender.reply_to.iter().map(|address| ("Reply-To", address.clone())));
        headers.push(("Subject", prepared.subject.clone()));
        headers.push(("Date", date(now)));
        headers.push(("Message-ID", format!("<{message_id}>")));
        headers.extend(sender.feedback_id.iter().map(|id| ("Feedback-ID", id.clone())));
        headers.extend(prepared.digest.iter().cloned());
        headers.push(("MIME-Version", "1.0".to_owned()));
        headers.push(("Content-Type", body.content_type.clone()));
        headers.push(("Content-Transfer-Encoding", body.transfer_encoding.to_owned()));
        headers
    }

    /// RFC 2369 and 8058. Each on one line: a relay that folded it would break its signature.
    pub(super) fn ways_out(&self, message: &Message) -> Result<Vec<Header>, MailError> {
        let mut ways = Vec::new();
        if let Some(url) = &message.unsubscribe {
            let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>,".contains(&byte));
            let is_web = url.starts_with("https://") || url.starts_with("http://");
            if !is_plain || !is_web || url.len() > HEADER_URL_BYTES_MAX {
                return Err(MailError::Unsubscribe);
            }
            ways.push(format!("<{url}>"));
        }
        if let Some(mailbox) = &self.sender.unsubscribe_mailbox {
            ways.push(format!("<mailto:{mailbox}?subject=unsubscribe%20{}>", message.reference));
        }
        let mut headers = Vec::new();
        if !ways.is_empty() {
            headers.push(("List-Unsubscribe", ways.join(", ")));
        }
        if message.unsubscribe.as_ref().is_some_and(|url| url.starts_with("https://")) {
            headers.push(("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned()));
        }
        Ok(headers)
    }
}

/// How many events a digest tells of, and their ids.
pub(super) fn digest_headers(digest: &Digest, between: &str) -> Vec<Header> {
    let mut headers = vec![(DIGEST_COUNT, digest.count.to_string())];
    if !digest.event_ids.is_empty() {
        headers.push((DIGEST_EVENTS, digest.event_ids.join(between)));
    }
    headers
}

/// Whom it is for, if its reference can be written into a mail.
pub(super) fn recipient(message: &Message) -> Result<String, MailError> {
    let to = std::str::from_utf8(&message.endpoint).map_err(|_| MailError::Endpoint)?;
    let to = address::read(ChannelKind::Email, to).map_err(|_| MailError::Endpoint)?.text;
    if is_reference(&message.reference) { Ok(to) } else { Err(MailError::Reference) }
}

fn shared(body: Body) -> (Body, String) {
    let hash = body_hash(&body.bytes);
    (body, hash)
}

fn same(body: Body) -> Form {
    let (body, hash) = shared(body);
    Form::Same { body, hash }
}

/// What may stand in a message id and in the local part of an address.
fn is_reference(reference: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=REFERENCE_BYTES_MAX).contains(&reference.len()) && reference.bytes().all(is_plain)
}
