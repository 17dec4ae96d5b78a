//! Notifications and events as a list shows them.

use crate::event::Priority;
use crate::notification::{ChannelStatus, Phase};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of notifications and events, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SentNotifications {
    pub notifications: Vec<SentNotification>,
    /// There may be more, also behind an empty page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A notification or an event, and how far it is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SentNotification {
    /// The platform's id.
    pub event_id: String,
    /// As its producer named it. Events have no such name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification_id: Option<String>,
    /// The event's type; `notification` for what was sent as one.
    #[serde(rename = "type")]
    pub kind: String,
    pub category: String,
    pub priority: Priority,
    /// Absent once what was kept about its deliveries is gone, as are `channels`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Phase>,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// When it was, or is, to be sent, if that was not at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub scheduled_at: Option<String>,
    pub cancelled: bool,
    pub retracted: bool,
    /// How many were named; 0 for followers, subscribers and segments.
    pub recipient_count: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelStatus>,
}
