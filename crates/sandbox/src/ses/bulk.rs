//! Sending many by one template. The whole is 200 whatever becomes of its entries, and each has a result of its own; only what no
//! entry could be read from is refused as a whole.

use super::send::{Mail, read, wish};
use super::{Ses, errors};
use crate::emulator::{Answer, Call, Reply};
use hyper::http::StatusCode;
use serde_json::{Value, json};

const DESTINATIONS_MAX: usize = 50;
/// A request whose template stands in it has at most so many bytes.
const REQUEST_BYTES_MAX: usize = 1_000_000;
const DATA_BYTES_MAX: usize = 262_144;
const HEADER_BYTES_MAX: usize = 995;
const HEADERS_MAX: usize = 15;

/// What became of an entry before anybody tried to send it.
type Read = Result<Mail, (&'static str, String)>;

impl Ses {
    pub(super) fn send_bulk(&self, call: &Call, body: &Value) -> Answer {
        if let Err(message) = check(call, body) {
            return errors::named("BadRequestException", message).into();
        }
        let entries: Vec<Read> = body["BulkEmailEntries"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|entry| mail(body, entry))
            .collect();
        let wishes = entries.iter().flatten().filter_map(|mail| wish(&mail.to));
        let lost =
            wishes.into_iter().find(|wish| matches!(*wish, "black-hole" | "lose-connection" | "lose-answer"));
        if let Some(wish) = lost {
            if wish != "black-hole" {
                for mail in entries.iter().flatten() {
                    self.arrive(call, mail, None);
                }
            }
            return if wish == "lose-connection" { Answer::CloseConnection } else { Answer::Silence };
        }
        let results: Vec<Value> = entries.into_iter().map(|entry| self.result(call, entry)).collect();
        Reply::json(StatusCode::OK, &json!({"BulkEmailEntryResults": results})).into()
    }

    fn result(&self, call: &Call, entry: Read) -> Value {
        let failed = |status: &str, message: &str| json!({"Status": status, "Error": message});
        let mail = match entry {
            Ok(mail) => mail,
            Err((status, message)) => return failed(status, &message),
        };
        match self.take(call, &mail) {
            Ok((message_id, ticket)) => {
                self.world.record().answered(ticket);
                json!({"Status": "SUCCESS", "MessageId": message_id})
            }
            Err((kind, message)) => {
                self.arrive(call, &mail, Some(kind));
                failed(status(kind, &message), &message)
            }
        }
    }
}

/// What makes the whole unreadable.
fn check(call: &Call, body: &Value) -> Result<(), &'static str> {
    let entries = body["BulkEmailEntries"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !(1..=DESTINATIONS_MAX).contains(&entries.len()) {
        return Err("1 to 50 BulkEmailEntries");
    }
    let template = &body["DefaultContent"]["Template"];
    if template["TemplateName"].is_null() && template["TemplateContent"].is_null() {
        return Err("DefaultContent has no Template");
    }
    if !template["TemplateContent"].is_null() && call.body.len() > REQUEST_BYTES_MAX {
        return Err("a request with its template has at most 1 MB");
    }
    for entry in entries {
        if data(entry).is_some_and(|data| data.len() > DATA_BYTES_MAX) {
            return Err("ReplacementTemplateData has at most 262144 characters");
        }
        let headers = entry["ReplacementHeaders"].as_array().map(Vec::as_slice).unwrap_or_default();
        let fits = |header: &Value| {
            let value = header["Value"].as_str().unwrap_or_default();
            let is_plain = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
            header["Name"].is_string() && (1..=HEADER_BYTES_MAX).contains(&value.len()) && is_plain
        };
        if headers.len() > HEADERS_MAX || !headers.iter().all(fits) {
            return Err("at most 15 ReplacementHeaders, each of 1 to 995 ASCII characters");
        }
    }
    Ok(())
}

fn data(entry: &Value) -> Option<&str> {
    entry["ReplacementEmailContent"]["ReplacementTemplate"]["ReplacementTemplateData"].as_str()
}

fn mail(body: &Value, entry: &Value) -> Read {
    let template = &body["DefaultContent"]["Template"];
    if template["TemplateContent"].is_null() {
        let message = "the sandbox stores no templates: send TemplateContent";
        return Err(("TEMPLATE_NOT_FOUND", message.to_owned()));
    }
    let data = data(entry).or(template["TemplateData"].as_str()).unwrap_or("{}");
    if !serde_json::from_str::<Value>(data).is_ok_and(|data| data.is_object()) {
        return Err(("INVALID_PARAMETER", "the data of a template is a JSON object".to_owned()));
    }
    let whole = json!({
        "FromEmailAddress": body["FromEmailAddress"],
        "Destination": entry["Destination"],
        "EmailTags": entry.get("ReplacementTags").or(body.get("DefaultEmailTags")),
        "Content": {"Template": {
            "TemplateContent": template["TemplateContent"],
            "TemplateData": data,
            "Headers": entry.get("ReplacementHeaders").or(template.get("Headers")),
        }},
    });
    read(&whole).map_err(|(_, message)| ("INVALID_PARAMETER", message))
}

/// What an error of a single mail is called here.
fn status(kind: &str, message: &str) -> &'static str {
    match kind {
        "TooManyRequestsException" if message.starts_with("Daily") => "ACCOUNT_DAILY_QUOTA_EXCEEDED",
        "TooManyRequestsException" | "ThrottlingException" => "ACCOUNT_THROTTLED",
        "SendingPausedException" => "ACCOUNT_SENDING_PAUSED",
        "AccountSuspendedException" => "ACCOUNT_SUSPENDED",
        "MailFromDomainNotVerifiedException" => "MAIL_FROM_DOMAIN_NOT_VERIFIED",
        "MessageRejected" => "MESSAGE_REJECTED",
        "NotFoundException" => "CONFIGURATION_SET_NOT_FOUND",
        "BadRequestException" => "INVALID_PARAMETER",
        "InternalServiceErrorException" | "ServiceUnavailable" => "TRANSIENT_FAILURE",
        _ => "FAILED",
    }
}
