//! The inbox of one user.

use crate::event::{Content, Priority};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A page of an inbox: newest first, or with `since` oldest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Inbox<'a> {
    pub notifications: Vec<Notification<'a>>,
    /// Give it as `cursor` (or as `since`, if this page was asked for with `since`) for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Give it as `since` later: it finds everything that arrived after this page was read, and nothing else.
    pub since_cursor: String,
    pub unread: u64,
    pub unseen: u64,
}

/// An event as one user sees it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notification<'a> {
    /// The platform's id.
    pub event_id: String,
    /// As its producer named it. Events have no such name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notification_id: Option<&'a str>,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    #[serde(rename = "type")]
    pub kind: &'a str,
    pub category: &'a str,
    pub priority: Priority,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<&'a str>,
    /// As it was accepted. What a template says by push, mail or text message alone is shown as a title and a text. `null`
    /// if it was erased, or if the template speaks by webhook alone.
    #[schemars(with = "Option<Content>")]
    pub content: Option<Cow<'a, RawValue>>,
    pub seen: bool,
    pub read: bool,
    pub archived: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub snoozed_until: Option<String>,
}

/// Which notifications a page shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Neither archived nor snoozed.
    #[default]
    Inbox,
    Unread,
    Read,
    Archived,
    Snoozed,
    /// Everything but deleted ones.
    All,
}

/// Either `ids`, or `all`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Marks {
    /// Each is an `eventId` or a `notificationId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// Everything that has arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// With `all`: only what had arrived by then. An `eventId` or a `notificationId` (it included), or a `sinceCursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snooze {
    /// Each is an `eventId` or a `notificationId`.
    pub ids: Vec<String>,
    /// When they come back: in the future, at most a year ahead.
    #[schemars(extend("format" = "date-time"))]
    pub until: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unsnooze {
    /// Each is an `eventId` or a `notificationId`.
    pub ids: Vec<String>,
}

/// The counts after a mark.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarkResult {
    pub unread: u64,
    pub unseen: u64,
    /// Those of `ids` that are not in this inbox, as they were given. All others are marked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    pub unread: u64,
    pub unseen: u64,
}
