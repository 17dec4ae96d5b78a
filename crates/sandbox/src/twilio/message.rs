//! A message as Twilio keeps and shows it.

use crate::record::Contents;
use serde_json::{Value, json};
use std::time::{Duration, UNIX_EPOCH};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub sid: String,
    pub account: String,
    pub to: String,
    /// Empty until a messaging service has chosen.
    pub from: Option<String>,
    pub service: Option<String>,
    pub body: String,
    pub segments: usize,
    pub status: Status,
    pub error_code: Option<u32>,
    pub status_callback: Option<String>,
    pub validity_s: Option<u64>,
    pub created_ms: u64,
    pub sent_ms: Option<u64>,
}

/// In the order in which a message goes through them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Status {
    Accepted,
    Queued,
    Sent,
    Delivered,
    Undelivered,
    Failed,
}

impl Status {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Queued => "queued",
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Undelivered => "undelivered",
            Self::Failed => "failed",
        }
    }
}

impl Message {
    /// The whole resource, as the API answers it.
    #[must_use]
    pub fn resource(&self) -> Value {
        let uri = format!("/2010-04-01/Accounts/{}/Messages/{}", self.account, self.sid);
        let error_message = self.error_code.map(|code| format!("error {code}"));
        json!({
            "account_sid": self.account,
            "api_version": "2010-04-01",
            "body": self.body,
            "date_created": date(self.created_ms),
            "date_sent": self.sent_ms.map(date),
            "date_updated": date(self.sent_ms.unwrap_or(self.created_ms)),
            "direction": "outbound-api",
            "error_code": self.error_code,
            "error_message": error_message,
            "from": self.from,
            "messaging_service_sid": self.service,
            "num_media": "0",
            // Unknown to a messaging service until a number was chosen.
            "num_segments": if self.status == Status::Accepted { "0".to_owned() } else { self.segments.to_string() },
            "price": null,
            "price_unit": if self.status == Status::Accepted { Value::Null } else { "USD".into() },
            "sid": self.sid,
            "status": self.status.name(),
            "subresource_uris": {"media": format!("{uri}/Media.json")},
            "to": self.to,
            "uri": format!("{uri}.json"),
        })
    }

    /// What a repeat of it has in common with it: the reference that its callback carries, if there is one.
    #[must_use]
    pub fn repeated_id(&self) -> &str {
        let path = self.status_callback.as_deref().and_then(|url| url.split(['?', '#']).next());
        path.and_then(|path| path.rsplit('/').next()).filter(|last| !last.is_empty()).unwrap_or(&self.sid)
    }
}

impl Contents for Message {
    fn show(&self) -> Value {
        let mut shown = self.resource();
        shown["statusCallback"] = json!(self.status_callback);
        shown["validityPeriod"] = json!(self.validity_s);
        shown
    }

    fn bytes(&self) -> usize {
        self.body.len() + 1_000
    }
}

/// `Mon, 16 Nov 2026 07:30:00 +0000`.
fn date(ms: u64) -> String {
    let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(ms));
    text.replace("GMT", "+0000")
}
