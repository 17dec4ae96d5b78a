//! Sending one mail: simple, raw or by a template in the request.

use super::events::{self, Fate, Sent};
use super::template::fill;
use super::{NAME, Ses, errors};
use crate::emulator::{Answer, Call, Reply};
use crate::ids;
use crate::record::{Arrival, Channel, Contents, Ticket, hex, sha256};
use crate::smtp::letter::{id, show_mail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::http::StatusCode;
use mail_parser::MessageParser;
use serde_json::{Value, json};

/// A recipient that begins so has the outcome that follows.
const MAGIC: &str = "sandbox-";
/// What senders name the tag by which they know a mail again.
const ID_TAGS: &[&str] = &["fantail-reference", "reference", "id"];
const RECIPIENTS_MAX: usize = 50;

/// A mail as the viewer shows it.
struct Shown {
    from: String,
    to: Vec<String>,
    raw: Option<Vec<u8>>,
    content: Value,
    tags: Value,
}

impl Contents for Shown {
    fn show(&self) -> Value {
        let mut value = self.raw.as_deref().map_or_else(|| self.content.clone(), show_mail);
        value["envelope"] = json!({"from": self.from, "to": self.to});
        value["tags"] = self.tags.clone();
        value
    }

    fn bytes(&self) -> usize {
        self.raw.as_ref().map_or_else(|| self.content.to_string().len(), Vec::len) + 200
    }
}

/// A mail that was read and may be sent.
pub(super) struct Mail {
    from: String,
    pub(super) to: Vec<String>,
    raw: Option<Vec<u8>>,
    content: Value,
    tags: Value,
    headers: Value,
}

pub(super) type Wrong = (&'static str, String);

impl Ses {
    pub(super) fn send_one(&self, call: &Call, body: &Value) -> Answer {
        let mail = match read(body) {
            Ok(mail) => mail,
            Err((kind, message)) => return errors::named(kind, &message).into(),
        };
        match wish(&mail.to) {
            Some("black-hole") => return Answer::Silence,
            Some("lose-connection") => {
                self.arrive(call, &mail, None);
                return Answer::CloseConnection;
            }
            Some("lose-answer") => {
                self.arrive(call, &mail, None);
                return Answer::Silence;
            }
            Some(_) | None => {}
        }
        match self.take(call, &mail) {
            Ok((message_id, ticket)) => {
                Reply::json(StatusCode::OK, &json!({"MessageId": message_id})).arrival(ticket).into()
            }
            Err((kind, message)) => {
                let ticket = self.arrive(call, &mail, Some(kind));
                errors::named(kind, &message).arrival(ticket).into()
            }
        }
    }

    /// The id of SES, and the place on the record.
    pub(super) fn take(&self, call: &Call, mail: &Mail) -> Result<(String, Ticket), Wrong> {
        if let Some(kind) = wish(&mail.to).and_then(errors::known) {
            return Err((kind, "as the sandbox was asked".to_owned()));
        }
        {
            let mut account = self.account();
            if !account.is_verified(&mail.from) {
                let message = format!(
                    "Email address is not verified. The following identities failed the check in region SANDBOX: {}",
                    mail.from
                );
                return Err(("MessageRejected", message));
            }
            let count = mail.to.len() as u64;
            account.take(count, call.now_ms).map_err(|(kind, message)| (kind, message.to_owned()))?;
        }
        let message_id = format!("0100{}-{}-000000", hex(&ids::bytes::<6>()), ids::uuid());
        let ticket = self.arrive(call, mail, None);
        for to in &mail.to {
            self.tell(mail, to, &message_id, call.now_ms);
        }
        Ok((message_id, ticket))
    }

    fn tell(&self, mail: &Mail, to: &str, message_id: &str, now_ms: u64) {
        let mut fate = events::fate(to);
        {
            let mut account = self.account();
            let address = to.to_ascii_lowercase();
            if account.suppressed.contains_key(&address) {
                fate = Fate::Bounced { sub_type: "OnAccountSuppressionList" };
            } else if fate == (Fate::Bounced { sub_type: "General" }) {
                account.suppress(&address, "BOUNCE", now_ms);
            } else if fate == Fate::Complained {
                account.suppress(&address, "COMPLAINT", now_ms);
            }
            // Addresses of the simulator are never kept, or they would work only once.
            account.suppressed.retain(|address, _| !address.ends_with("@simulator.amazonses.com"));
        }
        let sent = Sent {
            message_id,
            source: &mail.from,
            to,
            tags: &mail.tags,
            headers: &mail.headers,
            time: &self.time(),
        };
        events::events(&sent, fate).iter().for_each(|event| self.publish(event));
    }

    pub(super) fn arrive(&self, call: &Call, mail: &Mail, refused: Option<&str>) -> Ticket {
        let tag = |name: &&str| {
            let tags = mail.tags.as_array()?;
            tags.iter().find(|tag| tag["Name"] == **name)?["Value"].as_str().map(str::to_owned)
        };
        let known = ID_TAGS.iter().find_map(tag).or_else(|| mail.raw.as_deref().and_then(id));
        self.world.arrived(Arrival {
            emulator: NAME,
            channel: Channel::Email,
            id: known.unwrap_or_else(ids::uuid),
            recipient: mail.to.join(","),
            sha256: sha256(mail.raw.as_deref().unwrap_or(mail.content.to_string().as_bytes())),
            at_ms: call.now_ms,
            connection: call.connection.number,
            refused: refused.map(str::to_owned),
            contents: Box::new(Shown {
                from: mail.from.clone(),
                to: mail.to.clone(),
                raw: mail.raw.clone(),
                content: mail.content.clone(),
                tags: mail.tags.clone(),
            }),
        })
    }
}

pub(super) fn read(body: &Value) -> Result<Mail, Wrong> {
    let bad = |message: &str| ("BadRequestException", message.to_owned());
    let content = &body["Content"];
    let raw = match content["Raw"]["Data"].as_str() {
        None => None,
        Some(data) => Some(STANDARD.decode(data).map_err(|_| bad("Raw.Data is not base64"))?),
    };
    let lists = ["ToAddresses", "CcAddresses", "BccAddresses"];
    let mut to: Vec<String> = lists
        .iter()
        .filter_map(|name| body["Destination"][name].as_array())
        .flatten()
        .filter_map(Value::as_str)
        .map(address)
        .collect();
    let parsed = raw.as_deref().and_then(|raw| MessageParser::default().parse(raw));
    let header = |header: Option<&mail_parser::Address<'_>>| -> Vec<String> {
        header
            .into_iter()
            .flat_map(|list| list.iter())
            .filter_map(|one| one.address())
            .map(str::to_owned)
            .collect()
    };
    if raw.is_some() && parsed.is_none() {
        return Err(bad("Raw.Data is no mail"));
    }
    if let (true, Some(parsed)) = (to.is_empty(), &parsed) {
        to = header(parsed.to());
    }
    let from = body["FromEmailAddress"].as_str().map(address);
    let from = from.or_else(|| parsed.as_ref().and_then(|parsed| header(parsed.from()).into_iter().next()));
    let from =
        from.filter(|from| from.contains('@')).ok_or_else(|| bad("Missing required FromEmailAddress"))?;
    if to.is_empty() || to.len() > RECIPIENTS_MAX || to.iter().any(|to| !to.contains('@')) {
        return Err(bad("1 to 50 recipients"));
    }
    let shown = simple(content);
    if raw.is_none() && shown.is_null() {
        return Err(bad("Content has neither Simple nor Raw nor Template with its content"));
    }
    let headers = parsed.as_ref().map_or_else(
        || added(content),
        |mail| mail.headers_raw().map(|(name, value)| json!({"name": name, "value": value.trim()})).collect(),
    );
    Ok(Mail { from, to, content: shown, tags: body["EmailTags"].clone(), headers, raw })
}

/// Subject and texts of what is not raw.
fn simple(content: &Value) -> Value {
    let simple = &content["Simple"];
    if !simple.is_null() {
        return json!({
            "subject": simple["Subject"]["Data"],
            "text": simple["Body"]["Text"]["Data"],
            "html": simple["Body"]["Html"]["Data"],
        });
    }
    let template = &content["Template"]["TemplateContent"];
    if template.is_null() {
        return Value::Null;
    }
    let data: Value = serde_json::from_str(content["Template"]["TemplateData"].as_str().unwrap_or("{}"))
        .unwrap_or_default();
    let filled = |name: &str| template[name].as_str().map(|text| fill(text, &data));
    json!({
        "subject": filled("Subject"),
        "text": filled("Text"),
        "html": filled("Html"),
        "headers": pairs(&content["Template"]["Headers"]).map(|(name, value)| json!([name, value])).collect::<Vec<_>>(),
    })
}

/// Headers beside those that SES writes, as events tell of them.
fn added(content: &Value) -> Value {
    pairs(&content["Template"]["Headers"])
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect()
}

fn pairs(headers: &Value) -> impl Iterator<Item = (&str, &str)> {
    let headers = headers.as_array().into_iter().flatten();
    headers.filter_map(|header| Some((header["Name"].as_str()?, header["Value"].as_str()?)))
}

/// Of `Name <address>`.
fn address(text: &str) -> String {
    let inside = text.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(inside, _)| inside);
    inside.unwrap_or(text).trim().to_owned()
}

pub(super) fn wish(to: &[String]) -> Option<&str> {
    let local = to.first()?.split('@').next()?;
    local.strip_prefix(MAGIC)?.split('+').next()
}
