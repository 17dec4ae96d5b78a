//! What can be asked of a shard, and what it answers.
//!
//! Comes from: the node, for callers and for the house itself. Decides: nothing, these are words. Goes to: `plan`, and
//! back to whoever asked.

use super::{
    ReplanPlace, SweepNext, edges, endpoints, expire, mark, outcome, redrive, respect, serve, users, walk,
};
use crate::front::fact::FrontFact;
use crate::records::erasure::{ErasurePlace, Store};
use crate::records::front::Size;
use crate::records::respect::Consent;
use crate::records::webhook::Told;
use crate::tables::ledger::ParcelId;
use crate::tables::window::{WindowEnd, WindowNo};
use crate::wipe::Wiped;
use fantail_ports::keyring::Sealed;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{
    Arrival, DeviceHash, DeviceNo, FrontNo, KeyNo, Lookup, Millis, Position, TenantId, UserNo,
};
use fantail_rules::ulid::Ulid;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum ShardAsk {
    PutUsers {
        tenant: TenantId,
        users: Vec<users::Put>,
    },
    DeleteUser {
        tenant: TenantId,
        lookup: Lookup,
    },
    /// Remove a user from everything; so many entries were in its inbox.
    Erase {
        tenant: TenantId,
        lookup: Lookup,
        erasure: Ulid,
        entries: u64,
    },
    /// Go on with it, behind this event.
    Purge {
        tenant: TenantId,
        erasure: Ulid,
        behind: Arrival,
    },
    /// It is so far elsewhere.
    Reached {
        tenant: TenantId,
        erasure: Ulid,
        place: ErasurePlace,
    },
    /// So much was removed elsewhere.
    Removed {
        tenant: TenantId,
        erasure: Ulid,
        removed: Vec<(Store, u64)>,
        is_done: bool,
    },
    Edit {
        tenant: TenantId,
        edit: edges::Edit,
    },
    /// The next facts of a front, in order.
    Take {
        front: FrontNo,
        facts: Arc<[FrontFact]>,
    },
    Mark {
        tenant: TenantId,
        user: UserNo,
        mark: mark::Ask,
    },
    Reported {
        sizes: Vec<Size>,
    },
    Shredded {
        keys: Vec<(TenantId, KeyNo)>,
    },
    Walk(walk::Ask),
    /// See `told`.
    Told {
        told: Told,
        from: Option<Position>,
    },
    /// The webhook is gone.
    Untell {
        tenant: TenantId,
        webhook: String,
    },
    Expire {
        tenant: TenantId,
        retention_days: u32,
        swept: Option<expire::Place>,
    },
    /// Drop what is kept about deliveries and past the guard, of events above this arrival.
    Sweep {
        tenant: TenantId,
        behind: Arrival,
        guard_ms: u64,
    },
    Register {
        tenant: TenantId,
        user: Lookup,
        registration: Box<endpoints::Registration>,
    },
    Unregister {
        tenant: TenantId,
        user: Lookup,
        device: DeviceHash,
    },
    Prefer {
        tenant: TenantId,
        user: Lookup,
        prefer: Box<respect::Prefer>,
    },
    Consent {
        tenant: TenantId,
        user: Lookup,
        channel: ChannelKind,
        consent: Consent,
    },
    /// End what waits of an event that is halted, of ledgers behind this one.
    EndHalted {
        tenant: TenantId,
        arrival: Arrival,
        behind: Option<ParcelId>,
    },
    /// Close those of these windows that are over: `StepSizes::closed_windows` at most.
    CloseWindows {
        ends: Vec<WindowEnd>,
    },
    /// Take what waits in a window that is over.
    Fold {
        tenant: TenantId,
        window: WindowNo,
    },
    /// The digest of a window, or that nobody is there to be told.
    Digested {
        tenant: TenantId,
        window: WindowNo,
        content: Option<Sealed>,
    },
    /// The user wants something else: make its waiting deliveries due, from this place on.
    Replan {
        tenant: TenantId,
        user: UserNo,
        from: Option<ReplanPlace>,
    },
    /// What was heard of endpoints' claims.
    Hear {
        tenant: TenantId,
        heard: Vec<endpoints::Heard>,
    },
    /// Look for devices that were silent for long, on some pages from this one on.
    Age {
        tenant: TenantId,
        page: u64,
    },
    /// What these jobs allow, in order, of at most so many deliveries.
    Serve {
        jobs: Vec<serve::Job>,
        deliveries_max: u32,
    },
    Outcome {
        parcel: ParcelId,
        /// Shared with the one who asks, and asks again if the journal has no room.
        told: Arc<Vec<outcome::Told>>,
    },
    /// Whoever led before may have sent what is marked as Intent.
    Orphans {
        parcel: ParcelId,
    },
    Redrive {
        parcel: ParcelId,
        wish: redrive::Wish,
        users: Option<Vec<UserNo>>,
    },
    Receipt {
        /// `first` does not matter.
        parcel: ParcelId,
        heard: redrive::Heard,
    },
    /// Remove rows of a deleted tenant, some from this key on.
    Wipe {
        tenant: TenantId,
        from: Option<Vec<u8>>,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShardAnswer {
    Users(Vec<users::PutAnswer>),
    UserGone {
        key: KeyNo,
    },
    UnknownUser,
    /// The user is gone: this erasure removed it.
    Erased {
        erasure: Ulid,
    },
    Edges(Vec<edges::EdgeAnswer>),
    Took,
    Marked,
    TooManySnoozed,
    Noted,
    Expired(expire::Progress),
    Swept(SweepNext),
    Registered {
        device: DeviceNo,
        status: Status,
        created: bool,
    },
    /// The user has another key than the one this was sealed under.
    Reseal(KeyNo),
    TooManyEndpoints,
    /// What the user wants has this revision now.
    Respected {
        revision: u32,
    },
    /// Where to go on, if there may be more.
    Purged {
        next: Option<Arrival>,
    },
    /// More may wait of a halted event, behind this ledger.
    HaltGoesOn {
        behind: Option<ParcelId>,
    },
    HaltEnded,
    /// Where to go on, if there may be more.
    Replanned {
        next: Option<ReplanPlace>,
    },
    /// It was changed meanwhile and has another one.
    Changed {
        revision: u32,
    },
    /// So many windows were closed, by the leader's time: no window that is opened later ends earlier.
    Closed {
        count: usize,
        now: Millis,
    },
    /// Whether more waits.
    Folded {
        more: bool,
    },
    Unregistered,
    UnknownDevice,
    /// The page to go on from, if there is one.
    Aged {
        next: Option<u64>,
    },
    /// Of the first so many jobs; the others were not looked at.
    Served(Vec<serve::Served>),
    /// So many dead letters.
    Redriven(u64),
    Walk(walk::Answer),
    UnknownDelivery,
    /// A receipt that says nothing new.
    Known,
    Wiped(Wiped),
}
