//! The database below the store: one fjall keyspace, and the one way to write to it.
//!
//! A write is either one write-ahead batch or, from a few thousand rows on, one ingestion of sorted tables; both
//! are atomic. What must never happen: an ingestion (durable at once) that takes back what
//! an earlier batch (durable later) replaced. So [`Rows::write_durable`] makes the log durable first. And what is in the log
//! is synced batch by batch: with two that are not, a power cut may tear the first and keep the second, which is what damage
//! looks like (`torn_log`).

use super::StoreOptions;
use super::columns::Columns;
use super::kept::KeptLists;
use super::keys;
use super::relief::Seen;
use super::torn_log::{LogError, TornLog, settle_logs};
use crate::disk::{Disk, RealDisk};
use fantail_ports::store::StoreError;
use fantail_ports::tables::TablesError;
use fjall::compaction::Leveled;
use fjall::config::{PartitioningPolicy, PinningPolicy};
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode, UserKey, UserValue};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Small enough that an idle server stays small, large enough that a flush is worth its fsync.
const MEMTABLE_BYTES: u64 = 8 << 20;
/// The least that fjall accepts; old logs only wait for their flush.
const LOG_BYTES_MAX: u64 = 64 << 20;
/// Of fjall: one only writes memtables out, the others merge. Every memtable that was written asks all of them to merge, and what
/// none of the others takes goes round and round through the first, which takes a whole core until a merge ends. Of three that
/// merge, one is always there in time to see that nothing is left to do.
const WORKERS: usize = 4;
/// A table of the database. Each is synced when it is written, and what the journal syncs meanwhile waits behind it:
/// with the usual 64 MB the slowest of a hundred requests waited 20 ms.
const TABLE_BYTES: u64 = 8 << 20;

/// With so many unmerged tables fjall slows writers down, and soon lets nobody write.
const SLOWED_TABLES: usize = 18;

/// Where the database lies below the store's directory.
const DATABASE: &str = "rows";

/// Put (`Some`) or deleted (`None`).
pub type Row = (UserKey, Option<UserValue>);

pub struct Rows {
    /// What was cut off its log when it was opened.
    pub torn: Option<TornLog>,
    database: Database,
    pub main: Keyspace,
    pub kept: KeptLists,
    pub columns: Columns,
    ingest_rows_min: usize,
    /// Whoever writes a batch to the log has it until the batch is synced.
    log: Mutex<()>,
    /// Rows since it was opened.
    written: AtomicU64,
}

impl Rows {
    pub fn open(options: &StoreOptions) -> Result<Self, StoreError> {
        let what = options.directory.display().to_string();
        // Some damage makes fjall panic instead of answering.
        let opened = std::panic::catch_unwind(|| Self::open_unguarded(options));
        opened.unwrap_or_else(|_| {
            Err(StoreError::Damaged { what, reason: "the database gave up while it was opened".into() })
        })
    }

    fn open_unguarded(options: &StoreOptions) -> Result<Self, StoreError> {
        let what = options.directory.display().to_string();
        let io = |cause: io::Error| StoreError::Io { reason: format!("{what}: {cause}") };
        let directory = options.directory.join(DATABASE);
        if !directory.try_exists().map_err(io)? {
            create(options, &directory)?;
        }
        // Whoever made it may have been killed before its name was durable.
        RealDisk.sync_dir(&options.directory).map_err(io)?;
        let locked = lock(&directory).map_err(io)?;
        let torn = settle_logs(&RealDisk, &directory).map_err(|cause| match cause {
            LogError::Io(cause) => io(cause),
            LogError::Damaged { file, offset } => StoreError::Damaged {
                what: file.display().to_string(),
                reason: format!("the batch at offset {offset} is damaged, and was synced"),
            },
        })?;
        drop(locked);
        let (database, main) = database_in(options, &directory)?;
        let kept = KeptLists::new(options.kept_list_bytes);
        let columns = Columns::new(options.column_bytes);
        Ok(Self {
            torn,
            database,
            main,
            kept,
            columns,
            ingest_rows_min: options.ingest_rows_min,
            log: Mutex::default(),
            written: AtomicU64::new(0),
        })
    }

    /// Writes rows with ascending keys, all or nothing; they, and every write before, are durable on return.
    /// `count` says about how many.
    pub fn write_durable(&self, count: usize, rows: impl Iterator<Item = Row>) -> Result<(), StoreError> {
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        if count < self.ingest_rows_min {
            return self.log_durable(|| self.write_batch(rows)).map_err(|cause| io_error(&cause));
        }
        self.log_durable(|| Ok(())).and_then(|()| ingest(&self.main, rows)).map_err(|cause| io_error(&cause))
    }

    /// The one way to write to the log.
    fn log_durable(&self, write_batch: impl FnOnce() -> fjall::Result<()>) -> fjall::Result<()> {
        let _until_synced = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        write_batch()?;
        self.database.persist(PersistMode::SyncAll)
    }

    fn write_batch(&self, rows: impl Iterator<Item = Row>) -> fjall::Result<()> {
        let mut batch = self.database.batch();
        for (key, to) in rows {
            match to {
                Some(value) => batch.insert(&self.main, key, value),
                None => batch.remove(&self.main, key),
            }
        }
        batch.commit()
    }

    pub fn unmerged_tables(&self) -> usize {
        self.main.tree.l0_run_count()
    }

    pub fn seen(&self) -> Seen {
        Seen {
            written: self.written.load(Ordering::Relaxed),
            unmerged_tables: self.unmerged_tables(),
            is_merging: self.database.active_compactions() > 0,
            merged_for: self.database.time_compacting(),
        }
    }

    /// Has fjall merge once more: it does so after it wrote out what it holds in memory, be it the deletion of nothing. When
    /// it lets nobody write any more, an empty ingestion is left; that leaves an empty file behind until the next start.
    pub fn ask_for_merge(&self) -> Result<(), StoreError> {
        let ask = || {
            if self.unmerged_tables() < SLOWED_TABLES {
                self.log_durable(|| self.main.remove(keys::NOTHING))?;
                return self.main.rotate_memtable().map(|_| ());
            }
            self.main.start_ingestion()?.finish()
        };
        ask().map_err(|cause| io_error(&cause))
    }

    /// One state of everything, for answers that need more than one read.
    pub fn snapshot(&self) -> fjall::Snapshot {
        self.database.snapshot()
    }

    pub fn disk_bytes(&self) -> u64 {
        // A size that cannot be told now is told next time; metrics alone read it.
        self.database.disk_space().unwrap_or_default()
    }
}

fn database_in(options: &StoreOptions, directory: &Path) -> Result<(Database, Keyspace), StoreError> {
    let what = options.directory.display().to_string();
    let database = Database::builder(directory)
        .cache_size(options.cache_bytes)
        .worker_threads(WORKERS)
        .max_journaling_size(LOG_BYTES_MAX)
        .open()
        .map_err(|cause| open_error(&what, &cause))?;
    let main = database
        .keyspace("main", || {
            let leveled = Leveled::default().with_table_target_size(TABLE_BYTES);
            KeyspaceCreateOptions::default()
                .max_memtable_size(MEMTABLE_BYTES)
                // Filters and indexes stay in memory whole: a search that finds them costs one look into the cache, for its
                // block of rows, instead of three.
                .filter_block_partitioning_policy(PartitioningPolicy::all(false))
                .index_block_partitioning_policy(PartitioningPolicy::all(false))
                .filter_block_pinning_policy(PinningPolicy::all(true))
                .index_block_pinning_policy(PinningPolicy::all(true))
                .compaction_strategy(Arc::new(leveled))
        })
        .map_err(|cause| open_error(&format!("{what}: main"), &cause))?;
    Ok((database, main))
}

/// The lock of fjall, which it takes after us: the log of a database that is in use ends in what is being written.
fn lock(directory: &Path) -> io::Result<File> {
    let file = File::options().read(true).write(true).open(directory.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(cause)) => Err(cause),
        Err(TryLockError::WouldBlock) => Err(io::Error::other("it is in use")),
    }
}

/// Makes the database under another name, and gives it its own once all of it is durable. fjall does not open one that it was
/// interrupted in making, and does not sync the names of its keyspaces: one that a power cut took would come back empty.
fn create(options: &StoreOptions, directory: &Path) -> Result<(), StoreError> {
    let beside = directory.with_extension("new");
    let io = |cause: io::Error| StoreError::Io { reason: format!("{}: {cause}", beside.display()) };
    RealDisk.create_dir(&options.directory).map_err(io)?;
    match fs::remove_dir_all(&beside) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(io(cause)),
        Err(_) | Ok(()) => {}
    }
    drop(database_in(options, &beside)?);
    for written in [&beside.join("keyspaces"), &beside] {
        RealDisk.sync_dir(written).map_err(io)?;
    }
    RealDisk.rename(&beside, directory).map_err(io)
}

fn ingest(keyspace: &Keyspace, rows: impl Iterator<Item = Row>) -> fjall::Result<()> {
    let mut ingestion = keyspace.start_ingestion()?;
    for (key, to) in rows {
        match to {
            Some(value) => ingestion.write(key, value)?,
            None => ingestion.write_tombstone(key)?,
        }
    }
    ingestion.finish()
}

/// Reads a row out of an iterator.
pub fn taken(guard: fjall::Guard) -> Result<(UserKey, UserValue), TablesError> {
    guard.into_inner().map_err(|cause| read_error(&cause))
}

pub fn read_error(cause: &fjall::Error) -> TablesError {
    TablesError::Io { reason: format!("tables/rows: {cause}") }
}

pub fn io_error(cause: &fjall::Error) -> StoreError {
    StoreError::Io { reason: format!("tables/rows: {cause}") }
}

/// What the operating system refused is `Io`; everything else says that the files are not as they were written.
fn open_error(what: &str, cause: &fjall::Error) -> StoreError {
    match cause {
        fjall::Error::Io(_) | fjall::Error::Locked => StoreError::Io { reason: format!("{what}: {cause}") },
        _ => StoreError::Damaged { what: what.to_owned(), reason: cause.to_string() },
    }
}
