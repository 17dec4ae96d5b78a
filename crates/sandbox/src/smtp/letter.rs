//! A mail that arrived, as the viewer shows it: its headers, texts and envelope.

use crate::record::Contents;
use mail_parser::{Message, MessageParser};
use serde_json::{Value, json};

pub struct Letter {
    pub from: String,
    pub to: String,
    pub bytes: Vec<u8>,
}

impl Contents for Letter {
    fn show(&self) -> Value {
        let mut value = show_mail(&self.bytes);
        value["envelope"] = json!({"from": self.from, "to": self.to});
        value
    }

    fn bytes(&self) -> usize {
        self.bytes.len() + self.from.len() + self.to.len()
    }
}

/// Headers as they stand, texts as they are read.
pub fn show_mail(bytes: &[u8]) -> Value {
    let Some(mail) = MessageParser::default().parse(bytes) else { return json!({"bytes": bytes.len()}) };
    let header = |(name, value): (&str, &str)| json!([name, value.trim()]);
    json!({
        "subject": mail.subject(),
        "from": address(mail.from()),
        "text": part(&mail, Message::body_text),
        "html": part(&mail, Message::body_html),
        "headers": mail.headers_raw().map(header).collect::<Vec<_>>(),
        "bytes": bytes.len(),
    })
}

fn part<'a>(
    mail: &'a Message<'a>,
    read: impl Fn(&'a Message<'a>, usize) -> Option<std::borrow::Cow<'a, str>>,
) -> Option<String> {
    read(mail, 0).map(|text| text.into_owned())
}

fn address(address: Option<&mail_parser::Address<'_>>) -> Option<String> {
    address?.first()?.address().map(str::to_owned)
}

/// What the sender repeats when it sends again: the message id up to its `@`.
pub fn id(bytes: &[u8]) -> Option<String> {
    let mail = MessageParser::default().parse(bytes)?;
    let id = mail.message_id()?;
    Some(id.split('@').next().unwrap_or(id).to_owned())
}
