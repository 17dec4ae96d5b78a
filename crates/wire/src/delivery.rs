//! One delivery, as the status of its notification shows it.

use crate::event::Channel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One delivery: to one endpoint of one user.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// Empty if the user is gone, or has no name.
    pub user_id: String,
    /// Of somebody without a name, in part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    pub channel: Channel,
    /// The number of the endpoint; 0 if there is none.
    pub endpoint: u16,
    pub state: String,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// How often it was handed, or is being handed, to the provider; what the provider's own rest put off counts once, and what
    /// was put off before it was sent does not count.
    pub attempts: u8,
    /// When the delivery was planned, together with up to 1,000 others.
    #[schemars(extend("format" = "date-time"))]
    pub begun_at: String,
    /// When a provider took it, or when it was in the inbox. Not known for deliveries to followers, subscribers and segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub sent_at: Option<String>,
    /// When it arrived, as a receipt reported it; an open or a click counts as one. Known where `sentAt` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub delivered_at: Option<String>,
    /// When it was opened first; a click counts as one. Known where `sentAt` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub opened_at: Option<String>,
    /// When a link in it was followed first. Known where `sentAt` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub clicked_at: Option<String>,
}
