//! Bulk sends: one message to everybody whom a segment chooses.

use crate::event::{Channel, Content, Priority};
use crate::notification::{ChannelStatus, SendOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BulkSend {
    /// Your name for it: the same one again gives the first answer. Made up if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification_id: Option<String>,
    pub recipient_query: RecipientQuery,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// `low` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// `inApp`, `push`, `email`, `sms` and `webhook`. The template's if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<Channel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_version: Option<u32>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub variables: Map<String, Value>,
    /// So many recipients in a second, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<u32>,
    /// Evenly over so many minutes. Either this or `ratePerSecond`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_over_minutes: Option<u32>,
    /// Whoever is in quiet hours is told when they end. True if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub respect_quiet_hours: Option<bool>,
    /// It goes on only at these times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_peak: Option<OffPeak>,
    #[serde(default)]
    pub options: SendOptions,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecipientQuery {
    pub segment: String,
    /// Whoever wants none of it, or cannot be reached, is counted and left out. True if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_opted_out: Option<bool>,
}

/// A window of the day.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OffPeak {
    /// `HH:MM`
    pub start: String,
    /// `HH:MM`; before `start` it is of the next day.
    pub end: String,
    /// An IANA name. UTC if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkAccepted {
    pub request_id: String,
    /// As you named it, or a name that was made up.
    pub notification_id: String,
    /// The platform's id. Everything takes either of the two.
    pub event_id: String,
}

/// Another pace. One of them; neither means as fast as possible.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BulkPatch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_over_minutes: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bulk {
    /// The platform's id.
    pub event_id: String,
    /// As its producer named it. An event for a segment has no such name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification_id: Option<String>,
    pub segment: String,
    pub status: BulkStatus,
    /// `window`, `rate` or `deliveries`: what it waits for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub scheduled_at: Option<String>,
    /// Users there were when it began, or there are until then.
    pub users: u64,
    /// Those of them who were looked at.
    pub looked_at: u64,
    /// Whoever was chosen and is told.
    pub members: u64,
    /// Those of them whose inbox shows it.
    pub entries: u64,
    /// Whoever was chosen and left out, by reason.
    pub skipped: BTreeMap<String, u64>,
    pub channels: Vec<ChannelStatus>,
}

/// The newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bulks {
    pub bulks: Vec<Bulk>,
    /// There may be more; with a `status`, a page can have fewer than it was asked for, and be followed by others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BulkStatus {
    Scheduled,
    Running,
    Paused,
    /// Everybody was looked at, and some deliveries are under way.
    Sending,
    Done,
    Cancelled,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkEstimate {
    pub users: u64,
    /// Whoever the segment chooses.
    pub audience: u64,
    /// Everybody was looked at; otherwise it is what a sample comes to.
    pub exact: bool,
    pub channels: BTreeMap<String, ChannelEstimate>,
    #[schemars(extend("format" = "date-time"))]
    pub finishes_at: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelEstimate {
    pub recipients: u64,
    pub suppressed: BTreeMap<String, u64>,
}
