//! What callers may ask of the node, what they get, and why they are refused. Plain values: HTTP, JSON and
//! problem documents are `api`'s; sealing, hashing and sharding are `accept`'s.

mod deliveries;
mod endpoints;
mod marks;
mod options;
pub mod templates;
mod tenants;

pub use deliveries::{
    ChannelStatus, DeadLetter, DeliveryNote, DeliveryView, Explanation, NotificationStatus, Outcome, Phase,
    ReceiptAsk, RecipientPage, RecipientStatus, RenderedView,
};
pub use endpoints::{Channel, DeviceAsk, DeviceView, Registered, SuppressionAsk, SuppressionView};
pub use marks::{Counts, MarkAsk, MarkResult, MarkTarget};
pub use options::{Called, OptionsAsk};
pub use tenants::{Amounts, KeyAsk, KeyView, Quota, Rate, Resource, TenantAsk, TenantPatch, TenantView};

pub use crate::dead_letters::Which;
pub use crate::deliveries::Place;
use crate::respect::ConsentAsk;
pub use fantail_machine::shard::collect::{COLLECTED, SINGLY};
pub use fantail_machine::shard::intend::ADDRESS_SUPPRESSED;
pub use fantail_machine::shard::redrive::REDRIVEN;
pub use fantail_machine::shard::redrive::Wish;
pub use fantail_machine::shard::users::PutCondition;
pub use fantail_machine::tables::ledger::ParcelId;
pub use fantail_machine::tables::work::Halt;
pub use fantail_rules::attempt::{Class, State as DeliveryState};
pub use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::endpoint::Platform;
use fantail_rules::ids::{Arrival, KeyNo, Millis, ShardNo, UserNo};
use fantail_rules::marks::State;
pub use fantail_rules::priority::Priority;
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;
use fantail_wire::template::Problem;
use std::sync::Arc;
use thiserror::Error;

/// One event to accept.
#[derive(Clone, Debug)]
pub struct EventAsk {
    /// CloudEvents `source` and `id`: together the idempotency key.
    pub source: String,
    pub id: String,
    /// CloudEvents `type`.
    pub kind: String,
    pub actor: Option<String>,
    pub audience: AudienceAsk,
    pub category: String,
    pub priority: Priority,
    /// The content as canonical JSON; stored once, sealed under the tenant's key.
    pub content: Vec<u8>,
    /// By which channels it leaves the house; none: for inboxes alone.
    pub channels: ChannelSet,
    /// Nothing of it is sent after so long.
    pub ttl_ms: u64,
    pub options: OptionsAsk,
    /// Hash of the decoded request: a repeat must say the same.
    pub body_hash: [u8; 16],
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AudienceAsk {
    Users(Vec<String>),
    /// The actor's own list.
    FollowersOf(String),
    Topic(String),
    /// Whoever it chooses, when a walk passes.
    Segment(String),
}

/// A list by the name its tenant gave it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListAsk {
    FollowersOf(String),
    Topic(String),
}

/// A notification to named users.
#[derive(Clone, Debug)]
pub struct NotifyAsk {
    /// The idempotency key.
    pub id: String,
    pub kind: String,
    pub category: String,
    pub priority: Priority,
    pub channels: ChannelSet,
    pub ttl_ms: u64,
    /// What everybody is told, packed by channel; see `content`.
    pub content: Vec<u8>,
    /// Each with what it alone is told.
    pub recipients: Vec<(Recipient, Option<Vec<u8>>)>,
    pub options: OptionsAsk,
    pub body_hash: [u8; 16],
}

/// Somebody to tell.
#[derive(Clone, Debug)]
pub enum Who {
    User(String),
    /// An address as `rules::address` reads it: its owner, or a user without a name.
    Address {
        kind: ChannelKind,
        /// What the channel needs to send there.
        address: Vec<u8>,
        /// Equal for all spellings of the same address.
        identity: String,
        /// For push.
        platform: Platform,
        /// What whoever has it said about being told there.
        consent: Option<ConsentAsk>,
    },
}

/// A user as the accept path knows it.
#[derive(Clone, Debug)]
pub struct Recipient {
    pub(crate) shard: ShardNo,
    pub(crate) user: UserNo,
    pub(crate) key: KeyNo,
    pub locale: String,
    pub zone: ZoneNo,
    /// JSON; empty if its key was destroyed.
    pub attributes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accepted {
    pub event: Ulid,
    /// The same request was accepted before; this is its first answer.
    pub replayed: bool,
}

#[derive(Clone, Debug)]
pub struct UserAsk {
    pub user: String,
    /// A JSON object, at most `ATTRIBUTES_BYTES_MAX`.
    pub attributes: Vec<u8>,
    pub profile: ProfileAsk,
}

/// What gates and channels need to know of a user. All of it is replaced.
#[derive(Clone, Debug, Default)]
pub struct ProfileAsk {
    /// Empty if not known.
    pub locale: String,
    pub zone: ZoneNo,
    /// At most one address per channel.
    pub contacts: Vec<ContactAsk>,
    /// Channels whose address stays as it is, whoever it belongs to by now.
    pub kept: ChannelSet,
}

/// An address as `rules::address` reads it.
#[derive(Clone, Debug)]
pub struct ContactAsk {
    pub kind: ChannelKind,
    pub address: String,
    /// Equal for all spellings of the same address.
    pub identity: String,
}

#[derive(Clone, Debug)]
pub struct UserView {
    pub user: String,
    pub attributes: Vec<u8>,
    pub locale: String,
    pub zone: ZoneNo,
    pub channels: Vec<Channel>,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// Names the write that left the user so. `None` if the user has gone since.
    pub write: Option<[u8; 12]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Upserted {
    Created,
    Updated,
}

/// One edge between a user and a list.
#[derive(Clone, Debug)]
pub struct EdgeAsk {
    pub user: String,
    pub list: ListAsk,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EdgeChange {
    Join,
    Leave,
}

/// A page of names with an opaque cursor for the next one.
#[derive(Clone, Debug)]
pub struct Names {
    pub names: Vec<String>,
    pub next: Option<String>,
}

#[derive(Clone, Debug)]
pub struct InboxAsk {
    pub user: String,
    pub limit: usize,
    pub from: InboxFrom,
    pub state: State,
}

/// Where a page begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InboxFrom {
    Newest,
    /// Newest first, older than this.
    Before(Arrival),
    /// Oldest first, everything that arrived after this: a client that polls with it misses nothing.
    Since(Arrival),
}

#[derive(Clone, Debug)]
pub struct InboxPage {
    pub notifications: Vec<NotificationView>,
    /// The next page of the same direction, if there may be more.
    pub next: Option<InboxFrom>,
    /// Everything up to here was considered: `since` this finds what comes later.
    pub horizon: Arrival,
    pub unread: u64,
    pub unseen: u64,
}

/// An event as one user sees it.
#[derive(Clone, Debug)]
pub struct NotificationView {
    pub event: Ulid,
    pub arrival: Arrival,
    pub post: Arc<EventView>,
    /// What this user alone is shown, instead of the post's content.
    pub content: Option<Vec<u8>>,
    pub seen: bool,
    pub read: bool,
    pub archived: bool,
    pub snoozed_until: Option<Millis>,
}

/// What all users see of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventView {
    pub created_at: Millis,
    pub kind: String,
    pub category: String,
    pub priority: Priority,
    pub actor: Option<String>,
    /// As it was accepted, for all channels. Empty if its key was destroyed.
    pub content: Vec<u8>,
    /// Some recipients have content of their own instead.
    pub is_personal: bool,
    pub collapse_key: Option<String>,
    /// Channels carry a generic text.
    pub is_sensitive: bool,
    /// What its producer calls it. `None` for events, and if its key was destroyed.
    pub name: Option<String>,
}

/// Why an ask was not done. `api` turns each into one problem document.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    #[error("no such tenant")]
    UnknownTenant,
    #[error("tenant {slug} exists")]
    TenantExists { slug: String },
    #[error("no more can be made: limit {limit}")]
    TooMany { limit: usize },
    #[error("no such key")]
    UnknownKey,
    #[error("no such user: {user}")]
    UnknownUser { user: String },
    #[error("unknown recipients: {}", users.join(", "))]
    UnknownRecipients { users: Vec<String> },
    /// Places in the request.
    #[error("recipients {first} and {second} are one")]
    SameRecipient { first: usize, second: usize },
    #[error("the user has no such notification: {event}")]
    UnknownNotification { event: Ulid },
    #[error("this cursor is not one of ours")]
    BadCursor,
    #[error("no such webhook: {webhook}")]
    UnknownWebhook { webhook: String },
    #[error("no such provider: {provider}")]
    UnknownProvider { provider: String },
    #[error("the provider is not what the caller expects; it has version {current:?} now")]
    ProviderConflict { current: Option<u32> },
    #[error("provider {provider} is of another kind; delete it first")]
    ProviderKind { provider: String },
    #[error(
        "{limit} replaced secrets are still believed, the most there can be; with keepSeconds 0 they end at once"
    )]
    TooManySecrets { limit: usize },
    #[error("bulk send {event} was called off")]
    BulkEnded { event: Ulid },
    #[error("no such segment: {segment}")]
    UnknownSegment { segment: String },
    #[error("no such schedule: {schedule}")]
    UnknownSchedule { schedule: String },
    #[error("no such event: {event}")]
    UnknownEvent { event: Ulid },
    /// Also if somebody made the reference up.
    #[error("no delivery has this reference")]
    UnknownDelivery,
    #[error("this id was used for another event")]
    OtherBody,
    #[error("no such template: {template}")]
    UnknownTemplate { template: String },
    #[error("{template} has no version {version}")]
    UnknownTemplateVersion { template: String, version: u32 },
    /// Something else is in force than the caller said; `None` if there is no such template.
    #[error("{}", conflict(*current))]
    TemplateConflict { current: Option<u32> },
    #[error("revision {current} of it is in force")]
    RespectConflict { current: u32 },
    /// The condition of a put does not hold.
    #[error("the user was changed meanwhile")]
    UserChanged,
    #[error("no such category: {category}")]
    UnknownCategory { category: String },
    /// As of a template.
    #[error("{}", conflict(*current))]
    PolicyConflict { current: Option<u32> },
    #[error("{template} is switched off")]
    TemplateInactive { template: String },
    #[error("the template has {} problems", problems.len())]
    InvalidTemplate { problems: Vec<Problem> },
    #[error("{user} is on {limit} lists, the most there can be")]
    TooManyFollows { user: String, limit: usize },
    #[error("{user} has {limit} devices and addresses, the most there can be")]
    TooManyEndpoints { user: String, limit: usize },
    #[error("the user has no such device: {device}")]
    UnknownDevice { device: String },
    #[error("the address is not suppressed")]
    NotSuppressed,
    #[error("{limit} notifications and events are scheduled, the most there can be")]
    TooManyScheduled { limit: u64 },
    /// The tenant has as much as it may.
    #[error("the tenant may have at most {limit} {}", resource.noun())]
    OverQuota { resource: Resource, limit: u64 },
    #[error("{limit} notifications are snoozed, the most there can be")]
    TooManySnoozed { limit: usize },
    /// The producer asks faster than it may.
    #[error("more is asked for than may be, try again in {retry_after_ms} ms")]
    TooFast { retry_after_ms: u64 },
    /// Try again: queues are full.
    #[error("busy, try again in {retry_after_ms} ms")]
    Busy { retry_after_ms: u64 },
    /// What it comes to is larger than the journal takes at once. It will not fit later either.
    #[error("a {what} of {bytes} bytes does not fit, at most {max} do")]
    TooLarge { what: &'static str, bytes: usize, max: usize },
    /// Try again later: the disk is nearly full.
    #[error("no room to store this")]
    NoRoom,
    /// A read, a decoding or a key failed for this request. Others, and a repeat of this one, may succeed.
    #[error("failed: {reason}")]
    Internal { reason: String },
    /// The leader is gone, because the process is stopping or the journal failed: nothing more is promised.
    #[error("not serving: {reason}")]
    Stopped { reason: String },
}

fn conflict(current: Option<u32>) -> String {
    match current {
        Some(version) => format!("version {version} is in force"),
        None => "there is nothing yet".to_owned(),
    }
}
