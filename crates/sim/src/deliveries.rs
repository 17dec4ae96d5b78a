//! Deliveries as the durable journal tells them, folded a second time and beside the tables: who was allowed to be sent
//! what, and what came of it. Every call of the provider is held against it, and at the end the tables are too.
//!
//! `fold`, `digests` and `walks` read records and say which of them must not be, with `schedule` for what is held back and
//! `chains` for what waits for other channels; `check` is about calls
//! and about the end.

mod allowed;
mod chains;
mod check;
mod digests;
mod fold;
mod obeyed;
mod schedule;
mod walks;

use fantail_machine::records::erasure::{Erasure, Step};
use fantail_machine::records::front::{Delivery as Leaving, FrontRecord};
use fantail_machine::tables::ledger::ParcelId;
use fantail_machine::tables::window::WindowNo;
use fantail_machine::tables::work::{Terms, WorkId};
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{
    Arrival, ClaimNo, DeviceNo, FrontNo, Lookup, PartitionId, Position, ShardNo, TenantId, UserNo,
};
use fantail_rules::reference::Reference;
use fantail_rules::ulid::Ulid;
use std::collections::{BTreeMap, BTreeSet};

pub use check::Meant;
pub use obeyed::Withdrawal;
pub use schedule::News;
use schedule::Schedule;
use walks::Walk;

/// One delivery, among all. In the order of the ledgers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    pub shard: ShardNo,
    pub tenant: TenantId,
    pub arrival: Arrival,
    pub channel: ChannelKind,
    pub user: UserNo,
    pub device: DeviceNo,
}

impl Key {
    fn of(reference: &Reference) -> Self {
        let Reference { tenant, shard, arrival, channel, user, device } = *reference;
        Self { shard, tenant, arrival, channel, user, device }
    }

    fn reference(self) -> Reference {
        let Self { tenant, shard, arrival, channel, user, device } = self;
        Reference { tenant, shard, arrival, channel, user, device }
    }

    fn work(self) -> WorkId {
        WorkId { tenant: self.tenant, arrival: self.arrival, channel: self.channel }
    }
}

/// Where it stands, and how often it could and did leave.
#[derive(Clone, Debug)]
struct Delivery {
    state: State,
    terms: Terms,
    resends: u8,
    /// Times that a durable record allowed it to be sent.
    intents: u64,
    /// Times that the provider was called.
    calls: u64,
    /// Somebody said what became of it: nothing that was decided since makes that untrue.
    is_heard: bool,
    /// Its ledger is past the guard and gone.
    is_swept: bool,
    /// It was held back before it was first allowed: others may have overtaken it.
    has_waited: bool,
    /// The digest that tells of it.
    digest: Option<Ulid>,
}

/// An event of one shard.
#[derive(Clone, Debug)]
struct Event {
    leaving: Option<Leaving>,
    /// Who was named; nobody for lists.
    named: Vec<UserNo>,
    is_halted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Endpoint {
    kind: ChannelKind,
    claim: ClaimNo,
    status: Status,
    /// The last event that arrived before it came to be as it is.
    since: Arrival,
}

impl Endpoint {
    fn is_used(&self) -> bool {
        self.status == Status::Active
    }
}

#[derive(Default)]
struct Shard {
    last: BTreeMap<TenantId, Arrival>,
    events: BTreeMap<(TenantId, Arrival), Event>,
    arrivals: BTreeMap<(TenantId, Ulid), Arrival>,
    users: BTreeMap<(TenantId, Lookup), UserNo>,
    endpoints: BTreeMap<(TenantId, UserNo, DeviceNo), Endpoint>,
    /// Who has agreed to push.
    agreed: BTreeSet<(TenantId, UserNo)>,
    /// Who wants at most so many pushes in an hour.
    limits: BTreeMap<(TenantId, UserNo), u16>,
    /// What may have been pushed to whom.
    authorised: BTreeSet<(TenantId, UserNo, Arrival)>,
    /// How many of them counted, in which hour since 1970.
    got: BTreeMap<(TenantId, UserNo, u64), u16>,
    /// Work that is open, and where its next parcel begins.
    works: BTreeMap<WorkId, UserNo>,
    /// Work that was closed before everybody was looked at.
    closed: BTreeSet<WorkId>,
    parcels: BTreeMap<ParcelId, Vec<Key>>,
    windows: BTreeMap<(TenantId, WindowNo), Collecting>,
    /// Digests that were written, and how many deliveries each was said to tell of.
    digests: BTreeMap<(TenantId, Ulid), usize>,
    walks: BTreeMap<(TenantId, Arrival), Walk>,
    /// How far each front was taken.
    taken: BTreeMap<FrontNo, Position>,
}

/// What is collected for one user.
#[derive(Clone, Debug)]
struct Collecting {
    user: UserNo,
    channel: ChannelKind,
    terms: Terms,
    digest: Option<Ulid>,
    /// Events that the digest has taken.
    events: usize,
}

/// What the journal says.
#[derive(Default)]
pub struct Deliveries {
    read: BTreeMap<PartitionId, Position>,
    fronts: BTreeMap<(FrontNo, Position), FrontRecord>,
    shards: BTreeMap<ShardNo, Shard>,
    all: BTreeMap<Key, Delivery>,
    /// The event that each device was sent last, for the first time, in each lane.
    started: BTreeMap<Line, Arrival>,
    schedule: Schedule,
    /// Where fronts have recorded that an event was called off, and how.
    halts: BTreeMap<(TenantId, Ulid, Withdrawal), (FrontNo, Position)>,
    /// Who has no name, and is chosen by no segment.
    pub nameless: BTreeSet<(TenantId, Lookup)>,
    /// Steps of walks.
    steps: u64,
    /// Whether they are over.
    erasures: BTreeMap<(TenantId, Ulid), bool>,
}

/// What starts in order: a device by one channel in one lane.
type Line = (ShardNo, TenantId, ChannelKind, UserNo, DeviceNo, u8);

impl Deliveries {
    /// Nothing is left to be looked at, tried or waited for.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.schedule.is_empty()
            && self.erasures.values().all(|is_done| *is_done)
            && self.shards.values().all(|shard| shard.works.is_empty() && !shard.is_walking())
            && self.all.values().all(|delivery| delivery.state.is_terminal())
    }

    fn erasure(&mut self, erasure: &Erasure) {
        self.erasures.insert((erasure.tenant, erasure.erasure), erasure.step == Step::Done);
    }

    /// Some of what has not ended.
    #[must_use]
    pub fn open(&self) -> String {
        let works = self.shards.values().flat_map(|shard| shard.works.keys()).take(3);
        let open = self.all.iter().filter(|(_, one)| !one.state.is_terminal()).take(3);
        format!("{:?} {:?}", works.collect::<Vec<_>>(), open.collect::<Vec<_>>())
    }

    /// How many there are, and how many ended so.
    #[must_use]
    pub fn count(&self, state: Option<State>) -> u64 {
        self.all.values().filter(|one| state.is_none_or(|state| one.state == state)).count() as u64
    }

    /// Copies that were sent because nobody knew of the first.
    #[must_use]
    pub fn resends(&self) -> u64 {
        self.all.values().map(|one| u64::from(one.resends)).sum()
    }
}
