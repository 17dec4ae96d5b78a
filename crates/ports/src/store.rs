//! The store keeps everything derived from the journal: each partition's tables and, for shards, its lists and
//! inbox. It can be deleted and rebuilt from a snapshot and the journal.
//!
//! What must never happen: a sync point that holds part of a commit, or a reader that sees part of one.

use crate::BoxFuture;
use crate::blobs::{BlobError, Blobs};
use crate::inbox::{Forget, Inbox, Window};
use crate::lists::{ListEdit, Lists};
use crate::tables::{Changes, Tables, TablesError};
use fantail_rules::ids::{PartitionId, Position};
use std::collections::BTreeMap;
use thiserror::Error;

pub trait Store: Send + Sync {
    /// The last position of each partition that the store opened with: the newest durable sync point.
    /// A partition that never committed is absent.
    fn marks(&self) -> BTreeMap<PartitionId, Position>;

    /// Folds one batch of durable facts into a partition: all of it becomes visible to readers at once, none of
    /// it is durable before the next [`sync`](Store::sync) (the journal is). `through` ascends per partition.
    fn commit(&self, partition: PartitionId, commit: Commit) -> Result<(), StoreError>;

    /// Runs `with` on one consistent state of a partition. Holds up commits to that partition meanwhile, so
    /// keep it short and never block in it.
    fn read(&self, partition: PartitionId, with: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError>;

    /// Makes everything committed so far durable: on return, reopening gives at least these marks, and always
    /// each partition whole at its mark. Commits and reads go on meanwhile.
    fn sync(&self) -> BoxFuture<'_, Result<Synced, StoreError>>;

    /// One bounded slice of background work (turning inbox windows into runs, dropping expired rows). Never
    /// changes what a reader sees. Returns whether more is waiting.
    fn tend(&self) -> Result<Tended, StoreError>;

    /// Writes a full, verified copy of a sync point to `blobs` under `name`, and returns its marks.
    fn snapshot(&self, blobs: &dyn Blobs, name: &str) -> Result<BTreeMap<PartitionId, Position>, StoreError>;

    /// Fills an empty store from a snapshot; marks become the snapshot's. Refuses a damaged snapshot whole.
    fn restore(&self, blobs: &dyn Blobs, name: &str) -> Result<(), StoreError>;

    /// Sizes and backlogs for metrics and back-pressure.
    fn gauges(&self) -> Gauges;
}

/// One state of one partition.
pub trait View {
    /// The last position folded into this state.
    fn position(&self) -> Position;
    fn tables(&self) -> &dyn Tables;
    fn lists(&self) -> &dyn Lists;
    fn inbox(&self) -> &dyn Inbox;
}

/// What a batch of records changes in a partition. Lists, windows and forgets stay empty outside of shards.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Position of the last record of the batch.
    pub through: Position,
    pub changes: Changes,
    /// In the order of the records.
    pub edits: Vec<ListEdit>,
    /// Events that got their arrival in this batch, ascending per tenant.
    pub windows: Vec<Window>,
    pub forgets: Vec<Forget>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Synced {
    pub rows: u64,
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tended {
    Idle,
    MoreWaiting,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gauges {
    /// Bytes committed since the last sync point.
    pub unsynced_bytes: u64,
    /// Events whose entries are not yet materialised.
    pub window_events: u64,
    /// Those of them that background work could materialise now: it is behind by so many.
    pub backlog_events: u64,
    /// Entries materialised since start.
    pub entries_written: u64,
    /// Of the inbox index: its runs, their entries and bytes, and the bytes written for them since start.
    pub runs: u64,
    pub run_entries: u64,
    pub run_bytes: u64,
    pub run_bytes_written: u64,
    /// How often background work had to wait for room on the disk, since start.
    pub stalls: u64,
    /// Tables of rows that were not merged with older ones yet: every read looks into each of them.
    pub unmerged_tables: u64,
    /// Everything the store has on disk.
    pub disk_bytes: u64,
}

#[derive(Debug, Error)]
pub enum StoreError {
    #[error(transparent)]
    Tables(#[from] TablesError),
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// Refuse to start: what is stored is not what was written.
    #[error("store is damaged: {what}: {reason}")]
    Damaged { what: String, reason: String },
    #[error("only an empty store can be filled from a snapshot")]
    NotEmpty,
    #[error("store {what} has format {found}, this build reads up to {known}")]
    NewerFormat { what: String, found: u32, known: u32 },
    /// What was asked was not done, and nothing is lost: it can be asked again when there is room.
    #[error("no room on the disk: {reason}")]
    Full { reason: String },
    #[error("store input/output failed: {reason}")]
    Io { reason: String },
}
