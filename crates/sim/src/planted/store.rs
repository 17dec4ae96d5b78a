//! Stores that drop a part of what they are given, or mix tenants up.

use super::Bug;
use fantail_machine::shard::outcome::ORPHANED;
use fantail_machine::tables::ledger::{LedgerRow, Standing};
use fantail_machine::tables::tally::Tally;
use fantail_machine::tables::work::WorkRow;
use fantail_machine::tables::{Family, Row};
use fantail_memory::store::MemoryStore;
use fantail_ports::BoxFuture;
use fantail_ports::blobs::Blobs;
use fantail_ports::inbox::Inbox;
use fantail_ports::lists::Lists;
use fantail_ports::store::{Commit, Gauges, Store, StoreError, Synced, Tended, View};
use fantail_ports::tables::{Changes, KeyRange, Order, Read, Tables, TablesError, Visit};
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{PartitionId, Position, UserNo};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every so many windows, one is dropped.
const WINDOWS_BETWEEN_LOSSES: u64 = 7;

pub struct Forgetful {
    bug: Bug,
    store: Arc<MemoryStore>,
    windows: AtomicU64,
}

impl Forgetful {
    pub fn new(bug: Bug, store: Arc<MemoryStore>) -> Self {
        Self { bug, store, windows: AtomicU64::new(0) }
    }

    fn is_turn(&self) -> bool {
        self.windows.fetch_add(1, Ordering::SeqCst) % WINDOWS_BETWEEN_LOSSES == 3
    }

    fn forgets(&self, key: &[u8]) -> bool {
        let families: &[Family] = match self.bug {
            Bug::ForgetsRetractions => &[Family::Retracted, Family::RetractedByList],
            Bug::ForgetsKeys => &[Family::Idempotency],
            Bug::ForgetsFlags => &[Family::Flags],
            Bug::ForgetsTakes => &[Family::TakenFrom],
            Bug::ForgetsOwners => &[Family::Address],
            Bug::ForgetsSchedule => &[Family::Scheduled],
            Bug::ForgetsCancellationKeys => &[Family::CancellationKey],
            Bug::ForgetsCounts => &[Family::Counts],
            Bug::ForgetsParts => &[Family::WalkPart],
            Bug::AcksBeforeDurable
            | Bug::TearsBatches
            | Bug::LosesListEdits
            | Bug::LosesWindows
            | Bug::MixesTenants
            | Bug::SendsBeforeDurable
            | Bug::TrustsOrphans
            | Bug::RetriesAccepted
            | Bug::ForgetsOutcomes
            | Bug::OverlooksPushes
            | Bug::AnswersEarly
            | Bug::RepeatsSteps
            | Bug::RepeatsWork
            | Bug::QuitsLoops
            | Bug::ForgetsLooks
            | Bug::StopsAtOnce
            | Bug::OutgrowsRecords
            | Bug::ForgetsOverflow
            | Bug::SweepsSlowly
            | Bug::CountsThings => &[],
        };
        families.iter().any(|family| key.first() == Some(&(*family as u8)))
    }
}

impl Store for Forgetful {
    fn marks(&self) -> BTreeMap<PartitionId, Position> {
        self.store.marks()
    }

    fn commit(&self, partition: PartitionId, mut commit: Commit) -> Result<(), StoreError> {
        commit.changes.retain(|key, _| !self.forgets(key));
        match self.bug {
            Bug::LosesListEdits => commit.edits.clear(),
            Bug::LosesWindows if !commit.windows.is_empty() && self.is_turn() => commit.windows.clear(),
            Bug::TrustsOrphans => trust_orphans(&mut commit.changes),
            Bug::ForgetsOutcomes if ends_parcel(&commit.changes) && self.is_turn() => {
                commit.changes.retain(|key, _| !is_of(key, &BOOKS));
            }
            Bug::RepeatsWork if is_moved(&commit.changes) && self.is_turn() => {
                commit.changes.retain(|key, to| !is_of(key, &[Family::Work]) || is_new(to.as_deref()));
            }
            Bug::RepeatsSteps if is_passed(&commit.changes) && self.is_turn() => {
                commit.changes.retain(|key, _| !is_of(key, &[Family::Walk]));
            }
            Bug::MixesTenants => {
                let changes = std::mem::take(&mut commit.changes);
                commit.changes =
                    changes.into_iter().map(|(key, to)| (without_tenant(&key), to)).collect::<Changes>();
            }
            _ => {}
        }
        self.store.commit(partition, commit)
    }

    fn read(&self, partition: PartitionId, with: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError> {
        self.store.read(partition, &mut |view| match self.bug {
            Bug::MixesTenants => with(&Mixed(view)),
            Bug::OverlooksPushes => with(&Blind(view)),
            _ => with(view),
        })
    }

    fn sync(&self) -> BoxFuture<'_, Result<Synced, StoreError>> {
        self.store.sync()
    }

    fn tend(&self) -> Result<Tended, StoreError> {
        self.store.tend()
    }

    fn snapshot(&self, blobs: &dyn Blobs, name: &str) -> Result<BTreeMap<PartitionId, Position>, StoreError> {
        self.store.snapshot(blobs, name)
    }

    fn restore(&self, blobs: &dyn Blobs, name: &str) -> Result<(), StoreError> {
        self.store.restore(blobs, name)
    }

    fn gauges(&self) -> Gauges {
        self.store.gauges()
    }
}

/// Everything that says what became of a delivery.
const BOOKS: [Family; 6] =
    [Family::Ledger, Family::Timer, Family::UnderWay, Family::Dead, Family::Tally, Family::LaneTally];

fn is_of(key: &[u8], families: &[Family]) -> bool {
    families.iter().any(|family| key.first() == Some(&(*family as u8)))
}

fn ends_parcel(changes: &Changes) -> bool {
    changes.iter().any(|(key, to)| to.is_none() && is_of(key, &[Family::UnderWay]))
}

fn is_new(to: Option<&[u8]>) -> bool {
    to.and_then(|to| WorkRow::decode(to).ok()).is_some_and(|row| row.next == UserNo(0))
}

fn is_moved(changes: &Changes) -> bool {
    changes.iter().any(|(key, to)| is_of(key, &[Family::Work]) && !is_new(to.as_deref()))
}

/// A step of a walk has found somebody, and there will be another one.
fn is_passed(changes: &Changes) -> bool {
    let finds = changes.iter().any(|(key, to)| to.is_some() && is_of(key, &[Family::WalkPart]));
    finds && !changes.keys().any(|key| is_of(key, &[Family::WalkOpen]))
}

/// What an earlier leader may have sent becomes what was certainly not sent, in the ledger and in the counters.
fn trust_orphans(changes: &mut Changes) {
    let (mut ledgers, mut tallies) = (Changes::new(), BTreeMap::<Vec<u8>, u64>::new());
    let rows = changes.iter().filter(|(key, _)| is_of(key, &[Family::Ledger]));
    for (key, mut row) in rows.filter_map(|(key, to)| Some((key, LedgerRow::decode(to.as_ref()?).ok()?))) {
        let is_orphan = |one: &Standing| one.state == State::Unknown && one.code == ORPHANED;
        let orphans = row.standings.iter().filter(|one| is_orphan(one)).count() as u64;
        for one in row.standings.words.iter_mut().filter(|one| is_orphan(one)) {
            (one.state, one.code) = (State::Deferred, "not_sent".to_owned());
        }
        let of_event = [&[Family::Tally as u8], &key[1..14]].concat();
        let of_lane = [&[Family::LaneTally as u8], &key[1..5], &[row.terms.lane as u8]].concat();
        *tallies.entry(of_event).or_default() += orphans;
        *tallies.entry(of_lane).or_default() += orphans;
        ledgers.insert(key.clone(), Some(row.encode()));
    }
    for (key, orphans) in tallies {
        let tally = changes.get_mut(&key).and_then(|to| to.as_mut());
        if let Some((to, mut tally)) = tally.and_then(|to| Tally::decode(to).ok().map(|tally| (to, tally))) {
            tally.leave(State::Unknown, orphans);
            tally.enter(State::Deferred, orphans);
            *to = tally.encode();
        }
    }
    changes.extend(ledgers);
}

/// Keys that find a user by name lose their tenant.
fn without_tenant(key: &[u8]) -> Vec<u8> {
    let mut key = key.to_vec();
    if key.first() == Some(&(Family::UserByLookup as u8)) && key.len() >= 5 {
        key[1..5].fill(0);
    }
    key
}

/// Does not find the parcel of pushes that holds somebody: who does looks downwards.
struct Blind<'a>(&'a dyn View);

impl View for Blind<'_> {
    fn position(&self) -> Position {
        self.0.position()
    }

    fn tables(&self) -> &dyn Tables {
        self
    }

    fn lists(&self) -> &dyn Lists {
        self.0.lists()
    }

    fn inbox(&self) -> &dyn Inbox {
        self.0.inbox()
    }
}

impl Tables for Blind<'_> {
    fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
        self.0.tables().read(key, visit)
    }

    fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError> {
        let is_push = range.from.get(13) == Some(&(ChannelKind::Push as u8));
        if is_push && order == Order::Descending && is_of(range.from, &[Family::Ledger]) {
            return Ok(());
        }
        self.0.tables().scan(range, order, visit)
    }
}

struct Mixed<'a>(&'a dyn View);

impl View for Mixed<'_> {
    fn position(&self) -> Position {
        self.0.position()
    }

    fn tables(&self) -> &dyn Tables {
        self
    }

    fn lists(&self) -> &dyn Lists {
        self.0.lists()
    }

    fn inbox(&self) -> &dyn Inbox {
        self.0.inbox()
    }
}

impl Tables for Mixed<'_> {
    fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
        self.0.tables().read(&without_tenant(key), visit)
    }

    fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError> {
        self.0.tables().scan(range, order, visit)
    }
}
