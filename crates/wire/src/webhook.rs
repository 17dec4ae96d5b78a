//! Webhooks to the producer: what became of notifications, told to a URL of yours.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookCreate {
    pub url: String,
    /// notification.sent, .delivered, .failed, .suppressed, .expired, .cancelled, .unconfirmed for named users;
    /// notification.progress and notification.summary for followers and subscribers. All of them if left out.
    #[serde(default)]
    pub events: Vec<String>,
}

/// A new webhook. `secret` is shown this once.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookCreated {
    pub webhook: Webhook,
    /// `whsec_` and base64: signs every message as Standard Webhooks describes.
    pub secret: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    pub webhook_id: String,
    pub url: String,
    pub events: Vec<String>,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    pub enabled: bool,
    /// Why it was switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub disabled_at: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhooks {
    pub webhooks: Vec<Webhook>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookReplay {
    /// Everything since then is told again, as far as the journal goes back (a day at least).
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
}
