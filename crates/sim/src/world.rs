//! One node on the memory engines, and everything that can happen to its machine.
//!
//! A crash drops every task, keeps any prefix of the appends that were not synced, and forgets what the store did not
//! sync. What must never happen: something of the dead node that the next one can see besides journal, store, blobs
//! and keyring.

use crate::broken::{Broken, Invariant};
use crate::chance::{Chance, stream};
use crate::executor::{Executor, at_once};
use crate::faults::{FaultyAudit, FaultyJournal, FaultyKeyring, FaultyStore, PortFaults};
use crate::planted::Bug;
use crate::planted::pages::PagesSeen;
use crate::provider::Provider;
use crate::swarm::Swarm;
use fantail_audit::key::Signer;
use fantail_machine::tables::ledger::{self, ParcelId};
use fantail_memory::audit::MemoryAudit;
use fantail_memory::blobs::MemoryBlobs;
use fantail_memory::clock::ManualClock;
use fantail_memory::entropy::SeededEntropy;
use fantail_memory::journal::{Durability, MemoryJournal};
use fantail_memory::keyring::MemoryKeyring;
use fantail_memory::store::MemoryStore;
use fantail_node::Node;
use fantail_node::ports::{Audit, Points, Ports, Stop};
use fantail_node::spans::Spans;
use fantail_node::start::Options;
use fantail_node::supervise::Supervisor;
use fantail_ports::accounts::NoAccounts;
use fantail_ports::clock::Clock;
use fantail_ports::journal::{Journal, ReadLimit};
use fantail_ports::store::Store;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::{DirectoryNo, FrontNo, Millis, PartitionId, Position, ShardNo};
use fantail_rules::knobs::Knobs;
use fantail_rules::limits::{CLOCK_JUMP_MS_MAX, CLOCK_SETTLE_MS};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Some day in 2024.
const EPOCH: Millis = Millis(1_714_521_600_000);
/// Five years.
const FAR_MS: u64 = 5 * 365 * 86_400_000;
const CHECKPOINT_EVERY_MS: u64 = 60_000;
const SNAPSHOT: &str = "snapshots/newest";

type Started = Arc<Mutex<Option<Result<Node, String>>>>;

pub struct World {
    seed: u64,
    bug: Option<Bug>,
    options: Options,
    /// What the node has to keep to, whatever it takes for its limits.
    knobs: Knobs,
    pub executor: Executor,
    pub clock: Arc<ManualClock>,
    pub journal: MemoryJournal,
    pub store: Arc<MemoryStore>,
    blobs: Arc<MemoryBlobs>,
    pub audit: MemoryAudit,
    pub keyring: Arc<MemoryKeyring>,
    pub erasure_list: Arc<fantail_memory::erasure_list::MemoryErasureList>,
    pub provider: Arc<Provider>,
    starts: u32,
    starting: Option<Started>,
    pub node: Option<Node>,
    /// The journal has failed: the node may refuse everything until it is restarted.
    pub failing: bool,
    pub full: bool,
    has_snapshot: bool,
    /// The latest time that a node went by. A jump of the wall clock is not in it until a node starts under it.
    latest: Millis,
    pub faults: PortFaults,
    /// Parcels that were under way when this node was started.
    orphans: BTreeSet<(ShardNo, ParcelId)>,
    /// What was accepted until then may have been kept back by a node that was started with a clock years ahead.
    held_through: Millis,
    /// The machine's clock is years ahead; what the last node went by.
    far_ahead: Option<Millis>,
}

impl World {
    #[must_use]
    pub fn new(seed: u64, swarm: &Swarm, bug: Option<Bug>) -> Self {
        let clock = Arc::new(ManualClock::new(EPOCH));
        let executor = Executor::new(clock.clone());
        Self {
            seed,
            bug,
            options: Options {
                shards: swarm.shards,
                fronts: swarm.fronts,
                directories: swarm.directories,
                may_have_fronts: true,
                knobs: Bug::knobs(bug, swarm.knobs),
                ..Options::default()
            },
            knobs: swarm.knobs,
            provider: Provider::new((seed, swarm.long_answers), executor.clone(), clock.clone()),
            faults: PortFaults::new(bug, executor.clone(), clock.clone()),
            orphans: BTreeSet::new(),
            held_through: Millis(0),
            far_ahead: None,
            executor,
            clock,
            journal: MemoryJournal::new(Durability::OnFlush),
            store: Arc::new(MemoryStore::new()),
            blobs: Arc::new(MemoryBlobs::new()),
            audit: MemoryAudit::new(),
            keyring: Arc::new(MemoryKeyring::new(stream(seed, "keyring"))),
            erasure_list: Arc::default(),
            starts: 0,
            starting: None,
            node: None,
            failing: false,
            full: false,
            has_snapshot: false,
            latest: EPOCH,
        }
    }

    /// Whether a clean stop waits for deliveries, as it should.
    #[must_use]
    pub fn drains(&self) -> bool {
        self.bug != Some(Bug::StopsAtOnce)
    }

    /// What a node that crashed left under way is unknown already, until the next one comes to it.
    pub fn note_orphans(&mut self) -> Result<(), Broken> {
        self.orphans = self.under_way()?;
        Ok(())
    }

    /// Parcels that a node which stops now would leave unknown.
    pub fn would_be_unknown(&self) -> Result<BTreeSet<(ShardNo, ParcelId)>, Broken> {
        Ok(self.under_way()?.difference(&self.orphans).copied().collect())
    }

    /// Forgets what is not under way any more of what earlier nodes left.
    pub fn tidy_orphans(&mut self) -> Result<(), Broken> {
        if !self.orphans.is_empty() {
            let under_way = self.under_way()?;
            self.orphans.retain(|one| under_way.contains(one));
        }
        Ok(())
    }

    /// Parcels that are under way, by the tables.
    fn under_way(&self) -> Result<BTreeSet<(ShardNo, ParcelId)>, Broken> {
        let mut all = BTreeSet::new();
        for no in 0..self.options.shards {
            let mut found = Ok(Vec::new());
            let read = self.store.read(PartitionId::Shard(ShardNo(no)), &mut |view| {
                found = ledger::under_way(view.tables(), None, usize::MAX);
            });
            match (read, found) {
                (Ok(()), Ok(found)) => {
                    all.extend(found.into_iter().map(|(parcel, _)| (ShardNo(no), parcel)));
                }
                (read, found) => {
                    return Invariant::Serves.broken(format!("cannot read: {read:?} {found:?}"));
                }
            }
        }
        Ok(all)
    }

    /// Nothing that waits in memory holds more bytes than it may.
    pub fn check_bounded(&self) -> Result<(), Broken> {
        let Some(node) = &self.node else { return Ok(()) };
        let Knobs { queue_bytes, tail_bytes, .. } = self.knobs;
        for (partition, held) in node.queued() {
            // One item gets through, whatever its size.
            let fits = held.bytes <= queue_bytes || held.items <= 1;
            Invariant::Bounded.holds(fits, || format!("{partition} has {held:?} in its queue"))?;
        }
        for (front, held) in node.tails() {
            let fits = held.bytes <= tail_bytes;
            Invariant::Bounded.holds(fits, || format!("{front} has {held:?} in its tail"))?;
        }
        Ok(())
    }

    #[must_use]
    pub fn held_through(&self) -> Millis {
        self.held_through
    }

    #[must_use]
    pub(crate) fn bug(&self) -> Option<Bug> {
        self.bug
    }

    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Begins to start a node; `started` says when it is there.
    pub fn boot(&mut self) {
        self.starts += 1;
        self.latest = self.latest.max(self.wall());
        if self.far_ahead.is_some() {
            self.held_through = self.latest;
        }
        let entropy = SeededEntropy::new(stream(self.seed, &format!("node {}", self.starts)));
        let (stop, faults) = (Arc::<Stop>::default(), self.faults.clone());
        let tasks = Bug::tasks(self.bug, Arc::new(self.executor.clone()), self.clock.clone());
        let audit = FaultyAudit { faults: self.faults.clone(), audit: Arc::new(self.audit.clone()) };
        let keyring = Bug::keyring(self.bug, self.keyring.clone());
        let keyring = FaultyKeyring { faults: self.faults.clone(), keyring };
        let ports = Ports {
            journal: Arc::new(FaultyJournal {
                faults,
                journal: Bug::journal(self.bug, self.journal.clone(), self.knobs),
            }),
            store: Arc::new(FaultyStore {
                faults: self.faults.clone(),
                store: Bug::store(self.bug, self.store.clone()),
                pages_seen: PagesSeen::default(),
            }),
            blobs: self.blobs.clone(),
            keyring: Arc::new(keyring),
            erasure_list: self.erasure_list.clone(),
            clock: self.clock.clone(),
            entropy: Arc::new(entropy),
            tasks: Supervisor::new(tasks, stop.clone()),
            channels: Bug::channels(self.bug, &self.provider),
            audit: Audit {
                log: Arc::new(audit),
                signer: Signer::from_seed(&[7; 32]),
                checkpoint_every_ms: CHECKPOINT_EVERY_MS,
            },
            accounts: Arc::new(NoAccounts),
            public_url: Arc::default(),
            webhook_patience_ms: 86_400_000,
            stop,
            points: Points::default(),
            spans: Spans::default(),
        };
        let (slot, options) = (Started::default(), self.options);
        self.starting = Some(slot.clone());
        let start = async move {
            let started = Node::start(ports, options).await;
            let started = started.map(|(node, _)| node).map_err(|failed| failed.to_string());
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
        };
        self.executor.spawn("start", Box::pin(start));
    }

    /// Whether the node is there. One that cannot start has lost what it promised.
    pub fn started(&mut self) -> Result<bool, Broken> {
        let Some(slot) = &self.starting else { return Ok(self.node.is_some()) };
        let started = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        match started {
            None => Ok(false),
            Some(Ok(node)) => {
                self.node = Some(node);
                self.starting = None;
                Ok(true)
            }
            Some(Err(_)) if self.failing => Ok(false),
            Some(Err(failed)) => Invariant::Serves.broken(format!("the node does not start: {failed}")),
        }
    }

    /// The process dies.
    pub fn crash(&mut self, chance: &Chance) {
        self.far_ahead = self.far_ahead.map(|_| self.latest);
        (self.node, self.starting) = (None, None);
        self.executor.clear();
        let kept = chance.index(self.journal.waiting() + 1);
        self.journal = self.journal.crash(kept);
        self.store.crash();
        (self.failing, self.full) = (false, false);
    }

    /// A write or sync of the journal fails.
    pub fn fail_sync(&mut self) {
        self.journal.fail("sync failed");
        self.failing = true;
    }

    pub fn set_full(&mut self, full: bool) {
        self.full = full;
        self.journal.set_full(full);
    }

    /// The wall clock jumps. A node that runs does not follow it too far.
    pub fn step_clock(&mut self, chance: &Chance) -> Result<(), Broken> {
        let span = *chance.pick(&[5_000, 59_000, 61_000, 600_000, 7_200_000]).unwrap_or(&5_000);
        let wall = self.clock.wall();
        let to = if chance.percent(50) { wall.plus(span) } else { Millis(wall.0.saturating_sub(span)) };
        let before = self.wall();
        self.clock.set_wall(to);
        self.pass(0);
        let (now, far) = (self.wall(), to.0.abs_diff(before.0) > CLOCK_JUMP_MS_MAX);
        Invariant::Time.holds(self.node.is_none() || !far || now == before, || {
            format!("the wall clock jumped to {to}, and the node from {before} to {now}")
        })
    }

    /// The machine is suspended: its clocks go on, and nothing runs. A node goes by the right time again at once. If the wall
    /// clock had jumped ahead before, it may have stayed there for long enough to be adopted.
    pub fn suspend(&mut self, span_ms: u64) -> Result<(), Broken> {
        let before = self.wall();
        let was_ahead = self.clock.wall().since(before) > CLOCK_JUMP_MS_MAX;
        self.clock.suspend(span_ms);
        self.pass(0);
        let now = self.wall();
        let is_adopted = was_ahead && span_ms >= CLOCK_SETTLE_MS && now == self.clock.wall();
        Invariant::Time.holds(now == before.plus(span_ms) || is_adopted, || {
            format!("suspended for {span_ms} ms, and the node went from {before} to {now}")
        })
    }

    /// The machine's clock is years ahead for the next start.
    pub fn set_far_ahead(&mut self) {
        self.far_ahead.get_or_insert(self.latest);
        self.clock.set_wall(self.clock.wall().plus(FAR_MS));
    }

    /// The clock is right again, if it was years ahead.
    pub fn mend_clock(&mut self) {
        if self.far_ahead.is_some() {
            self.clock.set_wall(self.wall());
            self.far_ahead = None;
        }
    }

    /// Time passes.
    pub fn pass(&mut self, span_ms: u64) {
        self.executor.advance(span_ms);
        self.latest = self.latest.max(self.wall());
    }

    /// The time that the node goes by, or would start with.
    #[must_use]
    pub fn wall(&self) -> Millis {
        let machine = || self.far_ahead.unwrap_or_else(|| self.clock.wall());
        self.node.as_ref().map_or_else(machine, Node::wall)
    }

    #[must_use]
    pub fn latest(&self) -> Millis {
        self.latest
    }

    pub fn sync_store(&self) {
        let synced = at_once(self.store.sync());
        assert!(matches!(synced, Some(Ok(_))), "the memory store syncs at once");
    }

    pub fn snapshot(&mut self) {
        if let Some(node) = &self.node {
            self.has_snapshot |= node.snapshot(SNAPSHOT).is_ok();
        }
    }

    /// The store is gone: what is left is the journal, and a snapshot if there is one and it is wanted.
    pub fn lose_store(&mut self, use_snapshot: bool) -> Result<(), Broken> {
        self.store = Arc::new(MemoryStore::new());
        if use_snapshot && self.has_snapshot {
            let restored = self.store.restore(&*self.blobs, SNAPSHOT);
            return restored.or_else(|failed| Invariant::Serves.broken(format!("snapshot: {failed}")));
        }
        Ok(())
    }

    /// Facts of the fronts that the slowest shard has not taken; none while there is no node.
    #[must_use]
    pub fn take_lag(&self) -> Option<u64> {
        self.node.as_ref().map(|node| node.health().take_lag)
    }

    #[must_use]
    pub fn partitions(&self) -> Vec<PartitionId> {
        let fronts = (0..self.options.fronts).map(|no| PartitionId::Front(FrontNo(no)));
        let shards = (0..self.options.shards).map(|no| PartitionId::Shard(ShardNo(no)));
        let directories = (0..self.options.directories).map(|no| PartitionId::Directory(DirectoryNo(no)));
        [PartitionId::Root].into_iter().chain(fronts).chain(directories).chain(shards).collect()
    }

    /// Position and digest of every partition's tables.
    #[must_use]
    pub fn digests(&self) -> Vec<(PartitionId, Position, u128)> {
        let digest = |id: PartitionId| (id, self.store.position(id), self.store.digest(id));
        self.partitions().into_iter().map(digest).collect()
    }

    /// All durable records of a partition.
    #[must_use]
    pub fn records(&self, partition: PartitionId) -> Vec<Vec<u8>> {
        let limit = ReadLimit { records: usize::MAX, bytes: usize::MAX };
        let read = at_once(self.journal.read(partition, Position(1), limit));
        let records = read.and_then(Result::ok).unwrap_or_default();
        records.into_iter().map(|record| record.bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knobs::Draw;

    // fixes: correctness C7
    /// One idempotency key under two actors would be accepted by both fronts: only the simulator may have several.
    #[test]
    fn a_node_with_two_fronts_does_not_start() {
        for (fronts, starts) in [(1, true), (2, false)] {
            let order = Chance::of(7, "order");
            let mut world = World::new(7, &Swarm { fronts, ..Swarm::of(7, false, Draw::Today) }, None);
            world.options.may_have_fronts = false;
            world.boot();
            let started = loop {
                match world.started() {
                    Ok(false) => {}
                    Ok(true) => break Ok(()),
                    Err(broken) => break Err(broken.what),
                }
                world.journal.flush_next();
                world.executor.run_one(&order);
            };
            assert_eq!(started.is_ok(), starts, "{fronts} fronts: {started:?}");
            assert!(started.err().is_none_or(|failed| failed.contains("2 fronts")));
        }
    }
}
