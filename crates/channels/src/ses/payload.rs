//! Requests to SES: the mail as we wrote it, and the question what the account may.

use super::limits::{BULK_DATA_BYTES_MAX, BULK_HEADER_BYTES_MAX};
use super::settings::Settings;
use crate::email::encode::mailbox;
use crate::email::{Mail, Parts};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::Request;
use serde_json::{Value, json};

/// Under this name events carry the reference back.
pub const REFERENCE_TAG: &str = "fantail-reference";

/// `SendEmail` with the whole mail, not yet signed. SES replaces the message id; the tag is what remains of us.
#[must_use]
pub fn send_email(settings: &Settings, mail: &Mail, reference: &str) -> Request<Bytes> {
    let mut body = json!({
        "FromEmailAddress": settings.sender.from_address,
        "Destination": {"ToAddresses": [mail.to]},
        "Content": {"Raw": {"Data": STANDARD.encode(&mail.bytes)}},
        "EmailTags": [{"Name": REFERENCE_TAG, "Value": reference}],
    });
    if let Some(name) = &settings.configuration_set {
        body["ConfigurationSetName"] = Value::from(name.as_str());
    }
    request("POST", "/v2/email/outbound-emails", Bytes::from(body.to_string()))
}

/// One mail of a bulk call, as JSON: its finished texts are the data of a template that says nothing of its own. `None` if it
/// does not fit, and has to go alone.
#[must_use]
pub fn bulk_entry(parts: &Parts, reference: &str) -> Option<String> {
    let mut data = json!({"subject": parts.subject, "text": parts.text});
    if let Some(html) = &parts.html {
        data["html"] = Value::from(html.as_str());
    }
    let data = data.to_string();
    let fits = parts.headers.iter().all(|(_, value)| value.len() <= BULK_HEADER_BYTES_MAX);
    if !fits || data.len() > BULK_DATA_BYTES_MAX {
        return None;
    }
    let header = |(name, value): &(&str, String)| json!({"Name": name, "Value": value});
    let mut entry = json!({
        "Destination": {"ToAddresses": [parts.to]},
        "ReplacementEmailContent": {"ReplacementTemplate": {"ReplacementTemplateData": data}},
        "ReplacementTags": [{"Name": REFERENCE_TAG, "Value": reference}],
    });
    if !parts.headers.is_empty() {
        entry["ReplacementHeaders"] = parts.headers.iter().map(header).collect();
    }
    Some(entry.to_string())
}

/// `SendBulkEmail` with these entries, not yet signed. SES escapes nothing that it puts into a template.
#[must_use]
pub fn send_bulk_email(settings: &Settings, has_html: bool, entries: &[&str]) -> Request<Bytes> {
    let mut template = json!({"Subject": "{{subject}}", "Text": "{{text}}"});
    if has_html {
        template["Html"] = Value::from("{{html}}");
    }
    let sender = &settings.sender;
    // A header may be folded; this is none.
    let from = mailbox(sender.from_name.as_deref(), &sender.from_address, 0).replace("\r\n", "");
    let mut body = json!({
        "FromEmailAddress": from,
        "DefaultContent": {"Template": {"TemplateContent": template, "TemplateData": "{}"}},
    });
    if let Some(address) = &sender.reply_to {
        body["ReplyToAddresses"] = json!([address]);
    }
    if let Some(name) = &settings.configuration_set {
        body["ConfigurationSetName"] = Value::from(name.as_str());
    }
    let mut body = body.to_string();
    body.pop();
    body.push_str(&format!(",\"BulkEmailEntries\":[{}]}}", entries.join(",")));
    request("POST", "/v2/email/outbound-bulk-emails", Bytes::from(body))
}

#[must_use]
pub fn get_account() -> Request<Bytes> {
    request("GET", "/v2/email/account", Bytes::new())
}

fn request(method: &str, path: &str, body: Bytes) -> Request<Bytes> {
    let request = Request::builder().method(method).uri(path);
    let request = if body.is_empty() { request } else { request.header("content-type", "application/json") };
    request.body(body).expect("a fixed path and headers")
}

/// What an account may.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Account {
    pub per_second: f64,
    /// What is left of its 24 hours; `None` if there is no end to it.
    pub left_today: Option<u64>,
    pub may_send: bool,
}

impl Account {
    /// The answer of `GetAccount`. `None` if it says nothing of a quota.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(body).ok()?;
        let quota = value.get("SendQuota")?;
        let number = |name: &str| quota.get(name).and_then(Value::as_f64);
        let per_second = number("MaxSendRate").filter(|rate| *rate > 0.0)?;
        let a_day = number("Max24HourSend")?;
        let sent = number("SentLast24Hours").unwrap_or(0.0);
        // -1 is no limit.
        let left_today = (a_day >= 0.0).then(|| (a_day - sent).max(0.0) as u64);
        let may_send = value.get("SendingEnabled").and_then(Value::as_bool).unwrap_or(true);
        Some(Self { per_second, left_today, may_send })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mail_goes_as_it_is() {
        let settings = json!({
            "fromAddress": "news@shop.example", "region": "eu-west-1", "configurationSet": "events",
        });
        let settings = Settings::read(&settings).expect("settings");
        let mail = Mail {
            to: "ann@a.example".into(),
            message_id: "r1@shop.example".into(),
            bytes: b"mail".to_vec(),
        };
        let request = send_email(&settings, &mail, "r1");
        assert_eq!(request.uri(), "/v2/email/outbound-emails");
        let body: Value = serde_json::from_slice(request.body()).expect("JSON");
        assert_eq!(
            body,
            json!({
                "FromEmailAddress": "news@shop.example",
                "Destination": {"ToAddresses": ["ann@a.example"]},
                "Content": {"Raw": {"Data": "bWFpbA=="}},
                "EmailTags": [{"Name": "fantail-reference", "Value": "r1"}],
                "ConfigurationSetName": "events",
            })
        );
    }

    // proves: EML-05
    #[test]
    fn quotas_are_read() {
        let read = |value: Value| Account::read(value.to_string().as_bytes());
        let quota = json!({"MaxSendRate": 14.0, "Max24HourSend": 50_000.0, "SentLast24Hours": 10.0});
        let account = Account { per_second: 14.0, left_today: Some(49_990), may_send: true };
        assert_eq!(read(json!({"SendQuota": quota, "SendingEnabled": true})), Some(account));
        let free = json!({"MaxSendRate": 14.0, "Max24HourSend": -1.0, "SentLast24Hours": 10.0});
        let expected = Account { left_today: None, may_send: false, ..account };
        assert_eq!(read(json!({"SendQuota": free, "SendingEnabled": false})), Some(expected));
        for nothing in [json!({}), json!([]), json!({"SendQuota": {"MaxSendRate": 0}})] {
            assert_eq!(read(nothing.clone()), None, "{nothing}");
        }
    }
}
