//! The reference store: maps, and the inbox evaluated from all windows on every read. What another engine
//! answers is right if it equals what this one answers.
//!
//! Faults: [`MemoryStore::crash`] loses every commit since the last sync, as a process that dies does. No
//! threads, no clock, no chance, so that a simulation repeats.

use fantail_ports::BoxFuture;
use fantail_ports::blobs::Blobs;
use fantail_ports::inbox::Inbox;
use fantail_ports::lists::Lists;
use fantail_ports::store::{Commit, Gauges, Store, StoreError, Synced, Tended, View};
use fantail_ports::tables::{KeyRange, Order, Read, Tables, TablesError, Visit};
use fantail_rules::ids::{PartitionId, Position};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

mod partition;
mod snapshot;

use partition::Partition;

#[derive(Debug, Default)]
pub struct MemoryStore {
    state: RwLock<State>,
    rows_read: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// What readers see.
    live: BTreeMap<PartitionId, Partition>,
    /// What a crash leaves: the newest sync point.
    durable: BTreeMap<PartitionId, Partition>,
    /// The difference between the two.
    unsynced: Vec<(PartitionId, Commit)>,
    unsynced_bytes: u64,
    opened_with: BTreeMap<PartitionId, Position>,
}

impl MemoryStore {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Dies and comes back: everything since the last sync is gone, and `marks` are those of that sync.
    pub fn crash(&self) {
        let mut state = self.write();
        state.unsynced.clear();
        state.unsynced_bytes = 0;
        state.live = state.durable.clone();
        state.opened_with = marks_of(&state.durable);
    }

    /// The sum of the hashes of all table rows of a partition: equal on replicas at equal positions. Zero for a
    /// partition without rows.
    #[must_use]
    pub fn digest(&self, partition: PartitionId) -> u128 {
        self.read_lock().live.get(&partition).map_or(0, Partition::digest)
    }

    /// The last position folded into a partition.
    #[must_use]
    pub fn position(&self, partition: PartitionId) -> Position {
        self.read_lock().live.get(&partition).map_or(Position::START, View::position)
    }

    /// Rows of tables that were read so far, so that tests can tell what an operation costs.
    #[must_use]
    pub fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    fn read_lock(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("a commit that panicked left no state worth reading")
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().expect("a commit that panicked left no state worth writing")
    }
}

/// A partition that counts which rows of its tables are read.
struct CountingView<'a> {
    partition: &'a Partition,
    rows_read: &'a AtomicU64,
}

impl View for CountingView<'_> {
    fn position(&self) -> Position {
        self.partition.position
    }

    fn tables(&self) -> &dyn Tables {
        self
    }

    fn lists(&self) -> &dyn Lists {
        self.partition
    }

    fn inbox(&self) -> &dyn Inbox {
        self.partition
    }
}

impl Tables for CountingView<'_> {
    fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
        self.rows_read.fetch_add(1, Ordering::Relaxed);
        self.partition.read(key, visit)
    }

    fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError> {
        self.partition.scan(range, order, &mut |key, value| {
            self.rows_read.fetch_add(1, Ordering::Relaxed);
            visit(key, value)
        })
    }
}

impl State {
    fn sync(&mut self) -> Synced {
        let mut synced = Synced { rows: 0, bytes: std::mem::take(&mut self.unsynced_bytes) };
        for (partition, commit) in std::mem::take(&mut self.unsynced) {
            synced.rows += commit.changes.len() as u64;
            self.durable.entry(partition).or_default().fold(commit);
        }
        synced
    }
}

impl Store for MemoryStore {
    fn marks(&self) -> BTreeMap<PartitionId, Position> {
        self.read_lock().opened_with.clone()
    }

    fn commit(&self, partition: PartitionId, commit: Commit) -> Result<(), StoreError> {
        let mut state = self.write();
        state.unsynced_bytes += bytes_of(&commit);
        state.live.entry(partition).or_default().fold(commit.clone());
        state.unsynced.push((partition, commit));
        Ok(())
    }

    fn read(&self, partition: PartitionId, with: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError> {
        let state = self.read_lock();
        let nothing = Partition::default();
        let partition = state.live.get(&partition).unwrap_or(&nothing);
        with(&CountingView { partition, rows_read: &self.rows_read });
        Ok(())
    }

    fn sync(&self) -> BoxFuture<'_, Result<Synced, StoreError>> {
        Box::pin(async { Ok(self.write().sync()) })
    }

    fn tend(&self) -> Result<Tended, StoreError> {
        Ok(Tended::Idle)
    }

    fn snapshot(&self, blobs: &dyn Blobs, name: &str) -> Result<BTreeMap<PartitionId, Position>, StoreError> {
        let (bytes, marks) = {
            let state = self.read_lock();
            (snapshot::encode(&state.durable), marks_of(&state.durable))
        };
        blobs.put(name, &mut bytes.as_slice())?;
        snapshot::read(blobs, name)?;
        Ok(marks)
    }

    fn restore(&self, blobs: &dyn Blobs, name: &str) -> Result<(), StoreError> {
        let restored = snapshot::read(blobs, name)?;
        let mut state = self.write();
        if !state.live.is_empty() {
            return Err(StoreError::NotEmpty);
        }
        state.opened_with = marks_of(&restored);
        state.live = restored.clone();
        state.durable = restored;
        Ok(())
    }

    fn gauges(&self) -> Gauges {
        Gauges { unsynced_bytes: self.read_lock().unsynced_bytes, ..Gauges::default() }
    }
}

impl View for Partition {
    fn position(&self) -> Position {
        self.position
    }

    fn tables(&self) -> &dyn Tables {
        self
    }

    fn lists(&self) -> &dyn Lists {
        self
    }

    fn inbox(&self) -> &dyn Inbox {
        self
    }
}

fn marks_of(partitions: &BTreeMap<PartitionId, Partition>) -> BTreeMap<PartitionId, Position> {
    partitions.iter().map(|(id, partition)| (*id, partition.position)).collect()
}

fn bytes_of(commit: &Commit) -> u64 {
    let rows: usize =
        commit.changes.iter().map(|(key, to)| key.len() + to.as_ref().map_or(0, Vec::len)).sum();
    let events: usize = commit.windows.iter().map(|window| window.events.len()).sum();
    (rows + 64 * commit.edits.len() + 32 * events) as u64
}
