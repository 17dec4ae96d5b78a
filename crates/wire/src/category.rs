//! What a tenant says about its categories, and about users who say nothing.

use crate::event::{Channel, Priority};
use crate::preference::{Day, Preferences};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What holds for everything of one category. Whatever is left out is as if nothing was said.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CategoryPolicy {
    /// Where users cannot switch it off. Consent, quiet hours and caps are theirs all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandatory_channels: Vec<Channel>,
    /// Where it is never sent, however critical.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_channels: Vec<Channel>,
    /// What becomes of it when a user had enough.
    #[serde(default)]
    pub overflow: Overflow,
    /// Of what names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// How it is collected; left out: it is told one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<DigestPolicy>,
    /// When so much comes that it is collected all the same; 20 in a minute if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storm: Option<StormPolicy>,
    /// For users who want it once a day or once a week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<CalendarPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle: Option<ThrottlePolicy>,
    /// What is tried next if a channel does not reach the user, in this order: at most 4.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<FallbackStep>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Overflow {
    #[default]
    Drop,
    Digest,
}

/// The first `leading` go out at once; what comes in the window after them waits for its end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DigestPolicy {
    /// 1 to 86,400.
    pub window_seconds: u32,
    /// Fewer are told singly at the end; 2 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_count: Option<u16>,
    /// So many close the window before its end; 1,000 at most and if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_count: Option<u16>,
    /// 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leading: Option<u16>,
    /// What has the same key belongs together, like `{{ type }}:{{ object }}`; all of the category if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapse_key: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StormPolicy {
    /// 1 to 3,600.
    pub window_seconds: u32,
    /// So many for one user within the window are a storm; 0: never.
    pub threshold: u8,
}

/// On the user's own clock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CalendarPolicy {
    /// `HH:MM`; 08:00 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily: Option<String>,
    /// Mondays at 08:00 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weekly: Option<WeeklyTime>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WeeklyTime {
    pub day: Day,
    /// `HH:MM`.
    pub time: String,
}

/// One of a kind, then none for so long.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThrottlePolicy {
    /// 1 to 604,800.
    pub per_seconds: u32,
    /// What is of one kind for a user, like `{{ actor }}`; all of the category if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FallbackStep {
    /// Tried only then, if the notification has it among its channels.
    pub channel: Channel,
    pub when: FallbackWhen,
    /// How long the channels before it have: 1 to 86,400; not with `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seconds: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FallbackWhen {
    /// Nobody said that it arrived.
    NoReceipt,
    /// The user has neither seen nor read it.
    NotSeen,
    /// It failed for good, may not be sent, or nobody can be reached there.
    Failed,
}

/// A category with what is said about it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Category {
    pub name: String,
    /// Also the `ETag`.
    pub version: u32,
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
    #[serde(flatten)]
    pub policy: CategoryPolicy,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Categories {
    /// By name.
    pub categories: Vec<Category>,
}

/// What holds for users who have not said otherwise. Consent has no default.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefaultPreferences {
    /// Also the `ETag`; 0 if nothing was said.
    pub version: u32,
    #[serde(flatten)]
    pub preferences: Preferences,
}
