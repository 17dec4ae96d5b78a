//! Links by which recipients change what they want without logging in.

use crate::event::Channel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PreferenceLinkAsk {
    #[serde(default)]
    pub purpose: LinkPurpose,
    /// What is left by an unsubscription: this channel (push, email, sms or webhook), or all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// The category, or all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// When the link ends; without it, when the setting `links.days` says (400 days), and never later than the user goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub expires_at: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LinkPurpose {
    /// A page with all preferences.
    #[default]
    Preferences,
    /// The way out, and nothing else.
    Unsubscribe,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreferenceLink {
    pub url: String,
    /// What a mail with this link says in its head, for `unsubscribe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail_headers: Option<UnsubscribeHeaders>,
}

/// As RFC 8058 wants them; both are to be signed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UnsubscribeHeaders {
    #[serde(rename = "List-Unsubscribe")]
    pub list_unsubscribe: String,
    #[serde(rename = "List-Unsubscribe-Post")]
    pub list_unsubscribe_post: String,
}
