//! What users want: preferences, consents, and the history of both.

use crate::event::Channel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a user wants. Whatever is absent was not said.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserPreferences {
    pub user_id: String,
    /// Also the `ETag`. Changes of preferences and consents count together.
    pub version: u32,
    #[serde(flatten)]
    pub preferences: Preferences,
}

/// A merge patch (RFC 7396) of this: what is `null` is not said any more.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preferences {
    /// `false`: nothing at all, except what is critical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_enabled: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_hours: Option<QuietHours>,
    /// By channel: push, email, sms or webhook.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub channels: BTreeMap<Channel, ChannelPreference>,
    /// By category.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub categories: BTreeMap<String, CategoryPreference>,
}

/// When nothing rings but what is critical. What comes meanwhile waits for the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuietHours {
    pub enabled: bool,
    /// `HH:MM` on the user's clock.
    pub start: String,
    /// `HH:MM`; at or before the start it is of the next day.
    pub end: String,
    /// An IANA zone; without it that of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// On which days it starts; without it on every day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<Vec<Day>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl Day {
    /// From Monday on.
    pub const ALL: [Self; 7] = [Self::Mon, Self::Tue, Self::Wed, Self::Thu, Self::Fri, Self::Sat, Self::Sun];
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChannelPreference {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Frequency>,
}

/// How much at most. What is critical passes and counts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Frequency {
    /// In an hour of the clock: 1 to 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_per_hour: Option<u16>,
    /// In a day of the user's own: 1 to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_per_day: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
}

/// So many at once, and one more after each rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Burst {
    /// 1 to 1,000.
    pub size: u16,
    /// 1 to 86,400.
    pub refill_seconds: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CategoryPreference {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Where this category may come, whatever `channels` says elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<Channel>>,
    /// How often: as it comes, or together once a day or once a week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency: Option<CategoryFrequency>,
}

/// How often a user wants to hear of a category.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CategoryFrequency {
    Immediate,
    DailyDigest,
    WeeklyDigest,
}

/// What a user said about being told by a channel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConsentPut {
    pub granted: bool,
    /// Of the text that the user agreed to.
    pub version: String,
    /// Where the user said so; the name of the API key if nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// When; now if nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub granted_at: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Consent {
    pub granted: bool,
    pub version: String,
    pub source: String,
    pub granted_at: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Consents {
    pub user_id: String,
    /// By channel. Push needs one; email and SMS may be used until one is withdrawn, but marketing by SMS needs one.
    pub consents: BTreeMap<Channel, Consent>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreferenceHistory {
    /// Newest first.
    pub changes: Vec<PreferenceChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One change, of preferences or of a consent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreferenceChange {
    pub version: u32,
    pub at: String,
    pub kind: ChangeKind,
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_preferences: Option<Preferences>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_preferences: Option<Preferences>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_consent: Option<Consent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_consent: Option<Consent>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    OptIn,
    OptOut,
    Update,
}
