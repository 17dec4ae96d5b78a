//! Notifications to named users: what is sent, what became of it, and what could not be delivered.

use crate::delivery::Delivery;
use crate::device::{Platform, PushEnvironment};
use crate::event::{Channel, Content, Priority};
use crate::preference::{ConsentPut, Day};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A notification to up to 1,000 users.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NotificationSend {
    /// Your name for it: sent again it is accepted once. The header `Idempotency-Key` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification_id: Option<String>,
    /// What is told, the same on every channel. Either this or `templateId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// The template that is rendered for every recipient, once, when this is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_id: Option<String>,
    /// The version in force if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_version: Option<u32>,
    /// For the template; a recipient's own come before these.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub variables: Map<String, Value>,
    pub recipients: Vec<RecipientSend>,
    /// The template's, or `general`, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// By category if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Those of the template, or `inApp`, if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<Channel>,
    #[serde(default)]
    pub options: SendOptions,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecipientSend {
    /// One of your users. Either this, or one of the addresses below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// A mail address. If it belongs to a user of yours, that user is meant; else somebody without a name and an inbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// A phone number, as `email`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phone: Option<String>,
    /// Where to call, as `email`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookAddress>,
    /// A device by what its push service calls it, as `email`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_token: Option<PushAddress>,
    /// Instead of `content`, for this user alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// For the template.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub variables: Map<String, Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookAddress {
    pub url: String,
    /// What calls are signed with: `whsec_` and base64.
    pub secret: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PushAddress {
    pub platform: Platform,
    /// As the push service gave it to the app. A browser cannot be named so: register it as a device.
    pub token: String,
    /// Of APNs: a build for development has tokens of the sandbox. `production` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<PushEnvironment>,
    /// The app that the token belongs to: a bundle id (APNs) or a project id (FCM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// What whoever has the device said about push; without a grant, here or earlier, nothing is pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<ConsentPut>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SendOptions {
    /// Seconds after which nothing of it is sent any more: 60 to 2,592,000. 86,400 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
    /// Nothing is sent, and nothing is in an inbox, before this; at most 366 days ahead. The time to live begins then. A
    /// time that has passed means now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub scheduled_at: Option<String>,
    /// When each recipient is told, on that user's own clock: `2026-12-24T18:00`, or `18:00` for the next time that the clock
    /// shows it. Whoever has no time zone has UTC. The time to live begins then: what has passed is told at once, unless that is
    /// over. Not for inboxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_at_local: Option<String>,
    /// Only at these hours of each recipient's day. The time to live begins with the first of them. Not for inboxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_peak: Option<OffPeakHours>,
    /// Everything that you send with the same key can be called off together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancellation_key: Option<String>,
    /// On a device, a later one takes the place of an earlier one with the same key: 1 to 64 visible ASCII characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapse_key: Option<String>,
    /// Channels other than `inApp` carry a generic text and the reference of the delivery, not the content.
    #[serde(default)]
    pub sensitive: bool,
}

/// Hours of a recipient's day.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OffPeakHours {
    /// `HH:MM`
    pub start: String,
    /// `HH:MM`; at or before the start it is of the next day.
    pub end: String,
    /// On which days they start; without it on every day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<Vec<Day>>,
}

/// What to call off.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelByKey {
    pub cancellation_key: String,
}

/// What was called off, and what could not be any more.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelResult {
    /// Notifications of which something was still to be sent: it stays unsent.
    pub cancelled: u64,
    /// Notifications of which everything had been sent or decided.
    pub too_late: u64,
    /// Deliveries of all of them that had left before.
    pub deliveries_sent: u64,
    /// It is recorded, but not all of the server has taken it yet: until then something may still be sent. The status is 202
    /// then. Asking again waits again.
    pub pending: bool,
}

/// The notification is durable.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationAccepted {
    pub request_id: String,
    /// As you named it, or the id of the request if you did not.
    pub notification_id: String,
    /// The platform's id. Everything takes either of the two.
    pub event_id: String,
    pub status: SendStatus,
    pub recipient_count: u64,
    /// When the first attempts are expected to be over.
    #[schemars(extend("format" = "date-time"))]
    pub estimated_delivery: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SendStatus {
    Accepted,
    /// Held back until `scheduledAt`, or until the first time zone comes to `sendAtLocal`.
    Scheduled,
}

/// How far a notification has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Held back until `scheduledAt`.
    Scheduled,
    Sending,
    /// Nothing more will happen on its own.
    Done,
}

/// What became of a notification.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationStatus {
    /// The platform's id.
    pub event_id: String,
    /// As its producer named it. Events have no such name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification_id: Option<String>,
    pub status: Phase,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// When it was, or is, to be sent, if that was not at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub scheduled_at: Option<String>,
    pub category: String,
    pub cancelled: bool,
    pub retracted: bool,
    /// How many were named; 0 for followers and subscribers.
    pub recipient_count: u64,
    pub channels: Vec<ChannelStatus>,
    /// Deliveries one by one: 100, or as many as `limit` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deliveries: Vec<Delivery>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelStatus {
    pub channel: Channel,
    /// Deliveries by state: queued, sending, sent, delivered, failed, suppressed, deferred, expired, cancelled,
    /// digested, superseded, unknown, unconfirmed, dead. States that nothing is in are left out.
    pub counts: BTreeMap<String, u64>,
    /// Members of the list who have no endpoint there.
    pub unreached: u64,
    /// Nothing more will happen on its own.
    pub done: bool,
}

/// Every decision about one recipient, in order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The platform's id.
    pub event_id: String,
    /// As its producer named it. Events have no such name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification_id: Option<String>,
    /// Or what may be shown of an address.
    pub user_id: String,
    pub steps: Vec<Step>,
    /// The same, to be read.
    pub text: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// accepted, rendered, scheduled, appointment, collapse, sensitive, held, taken, halted, gate, parcel, attempt, state.
    pub step: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub at: Option<String>,
    pub text: String,
    /// What it was decided from.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
}

/// What was done for one recipient, as spans of the event's trace.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// 32 hexadecimal digits: the bytes of the event's id.
    pub trace_id: String,
    /// The platform's id.
    pub event_id: String,
    /// As its producer named it. Events have no such name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification_id: Option<String>,
    /// Or what may be shown of an address.
    pub user_id: String,
    pub spans: Vec<TraceSpan>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceSpan {
    /// 16 hexadecimal digits.
    pub span_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
    /// accept, delivery, attempt.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// The number of the endpoint; 0 if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<u16>,
    #[schemars(extend("format" = "date-time"))]
    pub started_at: String,
    /// The same, for what only its moment is known of.
    #[schemars(extend("format" = "date-time"))]
    pub ended_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
}

/// What could not be delivered and will not be tried again on its own.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetters {
    pub dead_letters: Vec<DeadLetter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The platform's id.
    pub event_id: String,
    /// As its producer named it. Events have no such name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification_id: Option<String>,
    /// Empty if the user is gone, or has no name.
    pub user_id: String,
    /// Of somebody without a name, in part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    pub channel: Channel,
    pub endpoint: u16,
    pub priority: Priority,
    pub code: String,
    pub attempts: u8,
    #[schemars(extend("format" = "date-time"))]
    pub begun_at: String,
}

/// Which dead letters: all that fit everything that is said; all of the tenant if nothing is said.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeadLetterChoice {
    /// Of one notification or event, by the platform's id or by that of its producer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// As `eventId`; one of them at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<String>>,
    /// Only count.
    #[serde(default)]
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLettersChanged {
    pub count: u64,
    pub dry_run: bool,
}
