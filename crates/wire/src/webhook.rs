//! Webhooks to the producer: what became of notifications, told to a URL of yours.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookCreate {
    /// https, on port 443 or 8443, at a public address, unless the operator allows more (`outbound.allow`).
    pub url: String,
    /// notification.sent, .delivered, .failed, .suppressed, .expired, .cancelled, .unconfirmed for named users;
    /// notification.progress and notification.summary for followers and subscribers. All of them if left out.
    #[serde(default)]
    pub events: Vec<String>,
    /// `shared`: signed with a secret that both sides have (`v1`). `public`: signed with a key that only this server has, checked
    /// with a public one (`v1a`, Ed25519). `shared` if left out.
    #[serde(default)]
    pub signature: SignatureKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SignatureKind {
    #[default]
    Shared,
    Public,
}

/// The body of `POST webhooks/{webhook}/rotate`. An empty body is an empty object.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookRotate {
    #[serde(default)]
    pub signature: SignatureKind,
    /// For how many seconds messages are signed with the old secret as well, at most 2,592,000. A day if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_seconds: Option<u64>,
}

/// A webhook with a new secret, which is shown this once.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookCreated {
    pub webhook: Webhook,
    /// `whsec_` and base64 (`shared`) to check signatures with as Standard Webhooks describes, or `whpk_` and the public key (`public`).
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
    /// Since when its receiver takes nothing. Left out while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub failing_since: Option<String>,
    /// When it was tried last since the server started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_attempt_at: Option<String>,
    /// Why the last attempt failed: `forbidden` (the server may not connect there), `no_connection`, `timeout`, `deadline`,
    /// `reset`, `protocol`, `resting`, `no_room`, or the status that the receiver answered. Left out if it did not fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_detail: Option<String>,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub next_attempt_at: Option<String>,
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
