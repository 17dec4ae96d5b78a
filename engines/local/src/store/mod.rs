//! The local store: fjall under an in-memory overlay per partition.
//!
//! A commit is folded into memory and visible at once. A sync point freezes the overlays and writes them, with
//! the positions they stand for, as one atomic write; that is the only way anything gets into the database.
//! Fan-out writes runs of the inbox index on its own (see `inbox`). What must never happen: a sync point that holds
//! part of a commit; an entry that is seen twice, or not at all, because background work ran.

use crate::disk::{Disk, RealDisk};
use crate::inbox::InboxIndex;
use crate::inbox::hot::Hot;
use crate::inbox::pairs::Spares;
use crate::inbox::tier::TierOptions;
use fantail_ports::BoxFuture;
use fantail_ports::blobs::Blobs;
use fantail_ports::store::{Commit, Gauges, Store, StoreError, Synced, Tended, View};
use fantail_rules::ids::{PartitionId, Position};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

mod partition;

mod overlay;

mod columns;
mod kept;
mod lists;
mod page;

mod inbox;

mod recent;
mod windows;

mod sync_point;
mod sync_thread;

mod load;
mod snapshot;

mod tend;

mod erase;
mod materialise;

mod keys;
mod pack;
mod relief;
mod rows;
mod torn_log;

use partition::{Partition, PartitionView};
use relief::Relief;
use rows::Rows;
use sync_point::Marks;
use sync_thread::SyncThread;
use tend::Tending;
pub use torn_log::TornLog;

#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Belongs to the store alone.
    pub directory: PathBuf,
    /// Blocks of the database that are kept in memory.
    pub cache_bytes: u64,
    /// Memory for the columns of users, once they were read: about 34 bytes each.
    pub column_bytes: usize,
    /// Memory for the lists that fan-out goes through most.
    pub kept_list_bytes: usize,
    /// Recent events of a partition that make a run worth writing. Fewer are found through the lists, which costs
    /// a reader a few nanoseconds for each list it is on.
    pub window_events_min: usize,
    /// Explicit recipients in them that make it worth a write, because they cost memory: about 100 bytes each.
    pub window_pairs_min: usize,
    /// About how many entries a run may begin with; more events wait for the next one.
    pub window_pairs_max: usize,
    /// Pairs that are transposed at once, in all partitions together: about eight bytes each.
    pub transpose_pairs_max: usize,
    /// Partitions that fan out at the same time.
    pub fan_outs_max: usize,
    /// When runs are merged.
    pub tiers: TierOptions,
    /// Memory for the newest entries of users who read often.
    pub hot_bytes: usize,
    /// Rows from which a write becomes sorted tables at once instead of log, memtable and flush: about three
    /// times faster at a million rows, and still not slower at ten thousand.
    pub ingest_rows_min: usize,
}

impl StoreOptions {
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            cache_bytes: 256 << 20,
            column_bytes: 512 << 20,
            kept_list_bytes: 32 << 20,
            window_events_min: 4_096,
            window_pairs_min: 131_072,
            window_pairs_max: 64 << 20,
            transpose_pairs_max: 16 << 20,
            fan_outs_max: std::thread::available_parallelism().map_or(1, usize::from),
            tiers: TierOptions::default(),
            hot_bytes: 16 << 20,
            ingest_rows_min: 4_096,
        }
    }
}

pub struct LocalStore {
    shared: Arc<Shared>,
    sync_thread: SyncThread,
    _relief: Relief,
    tending: Mutex<Tending>,
}

/// What the store's threads share.
struct Shared {
    rows: Rows,
    index: InboxIndex,
    hot: Hot,
    spares: Spares,
    options: StoreOptions,
    partitions: RwLock<BTreeMap<PartitionId, Arc<Locked>>>,
    opened_with: Mutex<Marks>,
    /// The marks of the newest sync point.
    synced: Mutex<Marks>,
    entries_written: AtomicU64,
    /// How often background work waited for room on the disk.
    stalls: AtomicU64,
    /// Set by the first write that failed: from then on the database is not to be trusted with more.
    failed: OnceLock<String>,
}

/// A partition and its lock.
struct Locked(RwLock<Partition>);

impl Locked {
    fn read(&self) -> RwLockReadGuard<'_, Partition> {
        self.0.read().expect("a commit that panicked left no partition worth reading")
    }

    fn write(&self) -> RwLockWriteGuard<'_, Partition> {
        self.0.write().expect("a commit that panicked left no partition worth writing")
    }
}

impl LocalStore {
    /// Opens the store, or creates it in an empty directory.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        Self::open_on(Arc::new(RealDisk), options)
    }

    /// Opens the store with the inbox index on another disk.
    pub fn open_on(disk: Arc<dyn Disk>, options: StoreOptions) -> Result<Self, StoreError> {
        let rows = Rows::open(&options)?;
        let index = InboxIndex::open(disk, options.directory.join("inbox"), options.tiers)?;
        let shared = Arc::new(Shared {
            rows,
            index,
            hot: Hot::new(options.hot_bytes),
            spares: Spares::default(),
            options,
            partitions: RwLock::default(),
            opened_with: Mutex::default(),
            synced: Mutex::default(),
            entries_written: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            failed: OnceLock::new(),
        });
        shared.load()?;
        let sync_thread = SyncThread::start(Arc::clone(&shared))?;
        let relief = Relief::start(Arc::clone(&shared))?;
        Ok(Self { shared, sync_thread, _relief: relief, tending: Mutex::default() })
    }

    /// What a power cut had left of a sync point, and was cut off.
    #[must_use]
    pub fn torn_log(&self) -> Option<&TornLog> {
        self.shared.rows.torn.as_ref()
    }
}

impl Shared {
    fn load(&self) -> Result<(), StoreError> {
        let loaded = load::load(&self.rows, &self.index)?;
        let locked = |(id, partition)| (id, Arc::new(Locked(RwLock::new(partition))));
        *self.partitions_mut() = loaded.partitions.into_iter().map(locked).collect();
        *lock(&self.opened_with) = loaded.marks.clone();
        *lock(&self.synced) = loaded.marks;
        Ok(())
    }

    fn partitions_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<PartitionId, Arc<Locked>>> {
        self.partitions.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// All partitions, in the order of their numbers.
    fn all_partitions(&self) -> Vec<Arc<Locked>> {
        self.partitions.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn partition(&self, id: PartitionId) -> Option<Arc<Locked>> {
        self.partitions.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn partition_or_new(&self, id: PartitionId) -> Arc<Locked> {
        if let Some(partition) = self.partition(id) {
            return partition;
        }
        let mut partitions = self.partitions_mut();
        Arc::clone(partitions.entry(id).or_insert_with(|| Arc::new(Locked(RwLock::new(Partition::new(id))))))
    }

    fn synced_marks(&self) -> MutexGuard<'_, Marks> {
        lock(&self.synced)
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.failed.get() {
            None => Ok(()),
            Some(reason) => Err(StoreError::Io { reason: format!("an earlier write failed: {reason}") }),
        }
    }

    fn fail(&self, error: &StoreError) {
        // Only the first failure says why.
        let _first = self.failed.set(error.to_string());
    }
}

/// What these locks guard is replaced whole, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for LocalStore {
    fn marks(&self) -> BTreeMap<PartitionId, Position> {
        lock(&self.shared.opened_with).clone()
    }

    fn commit(&self, partition: PartitionId, commit: Commit) -> Result<(), StoreError> {
        self.shared.check()?;
        let partition = self.shared.partition_or_new(partition);
        partition.write().fold(&self.shared.rows, commit)
    }

    fn read(&self, partition: PartitionId, with: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError> {
        let Shared { rows, hot, .. } = &*self.shared;
        // Also a partition without commits is read under its lock: its first sync must not land in between.
        let partition = self.shared.partition_or_new(partition);
        with(&PartitionView { partition: &partition.read(), rows, hot });
        Ok(())
    }

    fn sync(&self) -> BoxFuture<'_, Result<Synced, StoreError>> {
        let answer = self.sync_thread.ask();
        Box::pin(async move {
            match answer.await {
                Ok(synced) => synced.map_err(|reason| StoreError::Io { reason }),
                Err(_gone) => Err(StoreError::Io { reason: "the sync thread is gone".to_owned() }),
            }
        })
    }

    fn tend(&self) -> Result<Tended, StoreError> {
        self.shared.check()?;
        let tended = lock(&self.tending).run(&self.shared);
        tended.inspect_err(|error| self.shared.fail(error))
    }

    fn snapshot(&self, blobs: &dyn Blobs, name: &str) -> Result<BTreeMap<PartitionId, Position>, StoreError> {
        snapshot::write(&self.shared.rows, &self.shared.index, blobs, name)
    }

    fn restore(&self, blobs: &dyn Blobs, name: &str) -> Result<(), StoreError> {
        let mut tending = lock(&self.tending);
        if self.shared.all_partitions().iter().any(|one| one.read().position > Position::START) {
            return Err(StoreError::NotEmpty);
        }
        snapshot::restore(&self.shared.rows, &self.shared.index, blobs, name)?;
        *tending = Tending::default();
        self.shared.load()
    }

    fn gauges(&self) -> Gauges {
        let (mut unsynced_bytes, mut window_events, mut backlog_events) = (0, 0, 0);
        for partition in self.shared.all_partitions() {
            let partition = partition.read();
            unsynced_bytes += partition.unsynced_bytes();
            let waiting = partition.waiting;
            window_events += waiting.events as u64;
            backlog_events += if waiting.is_due(&self.shared.options) { waiting.events as u64 } else { 0 };
        }
        let index = self.shared.index.gauges();
        Gauges {
            unsynced_bytes,
            window_events,
            backlog_events,
            entries_written: self.shared.entries_written.load(Ordering::Relaxed),
            runs: index.runs,
            run_entries: index.entries,
            run_bytes: index.bytes,
            run_bytes_written: index.bytes_written,
            stalls: self.shared.stalls.load(Ordering::Relaxed),
            unmerged_tables: self.shared.rows.unmerged_tables() as u64,
            disk_bytes: self.shared.rows.disk_bytes() + index.bytes,
        }
    }
}

#[cfg(test)]
mod tests;
