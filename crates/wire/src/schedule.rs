//! Recurring schedules: what is sent again and again.

use crate::bulk::BulkSend;
use crate::notification::NotificationSend;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SchedulePut {
    /// Minute, hour, day of month, month, day of week, as `30 8 * * mon-fri`: numbers, names, lists, ranges, steps and `*`. At
    /// least 5 minutes apart.
    pub cron: String,
    /// An IANA name, or `recipient` for everybody's own time. UTC if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// No run is before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub starts_at: Option<String>,
    /// No run is at or after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub ends_at: Option<String>,
    #[serde(default)]
    pub paused: bool,
    /// What each run sends, without a `notificationId`. Either this or `bulk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification: Option<NotificationSend>,
    /// What each run sends to a segment, without a `notificationId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<BulkSend>,
}

/// A JSON merge patch (RFC 7396) of a schedule: `{"paused": true}` pauses it. What is `null` is left out.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SchedulePatch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub starts_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub ends_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<serde_json::Map<String, serde_json::Value>>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    pub schedule_id: String,
    pub version: u32,
    #[serde(flatten)]
    pub definition: SchedulePut,
    /// The next runs; on the recipients' own clocks, when the first time zone comes to each of them.
    pub next_runs: Vec<String>,
    /// Who wrote it last: the id of a key, or `admin`. Runs have the rights of this key, and are refused once it is revoked or over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_as: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<ScheduleRun>,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
}

/// The latest run that was not left out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleRun {
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// How everything else calls what it sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The code of the problem, if nothing was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A schedule without what it sends.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleSummary {
    pub schedule_id: String,
    pub version: u32,
    pub cron: String,
    pub timezone: String,
    pub paused: bool,
    /// The id of the key that wrote it last, or `admin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_as: Option<String>,
    /// Left out if there is none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub next_run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<ScheduleRun>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Schedules {
    pub schedules: Vec<ScheduleSummary>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
