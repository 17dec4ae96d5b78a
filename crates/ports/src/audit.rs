//! The audit log: what was decided and done, in chains that cannot be rewritten unseen. It is derived from the journal
//! and says itself how far, so that after a crash it goes on without a gap and without saying anything twice.
//!
//! There is one chain per (tenant, partition): entries 1, 2, 3, …, each with the hash of the one before. What entries
//! and checkpoints hold, how they are hashed, signed and verified is in `fantail-audit`; engines only keep them.
//!
//! What must never happen: an entry that changes or goes after its append returned; entries without the mark that says
//! which records they were derived from, or the mark without them; one tenant's entry in an answer about another.

use crate::BoxFuture;
use crate::journal::ReadLimit;
use fantail_rules::ids::{Millis, PartitionId, Position, TenantId};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

pub trait AuditLog: Send + Sync {
    /// Chains the drafts in their order and stores them together with how far each partition is derived by then.
    /// Durable on return. All or nothing: after a crash all batches of a call are there or none. Calls take effect
    /// one after the other. A batch without drafts only moves its partition on; no batch at all is a no-op.
    ///
    /// A repeat is refused as [`AppendError::OutOfOrder`], because `after` is no longer where the partition is; so a
    /// caller that does not know what became of a call asks [`derived`](AuditLog::derived) and goes on from there.
    fn append(&self, batches: Vec<Batch>) -> BoxFuture<'_, Result<(), AppendError>>;

    /// Through which record each partition is derived, durably. One that never was is absent.
    fn derived(&self) -> BTreeMap<PartitionId, Position>;

    /// The last entry of every chain, ascending by chain. Durable ones only, all of one moment.
    fn heads(&self) -> Vec<Head>;

    /// Entries of one chain at `from` and after, in order, at most `limit` of them and at least one if there is any.
    /// Empty at the end, and for a chain that does not exist.
    fn read_chain(
        &self,
        chain: ChainId,
        from: Sequence,
        limit: ReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Entry>, AuditError>>;

    /// Entries of one tenant within a span of time, from all its chains, in the order in which they were appended.
    /// One call looks at a bounded part of the log: it may answer fewer than the limit, even none, and say where to
    /// go on. The answer is complete when `next` is `None`.
    fn search(&self, tenant: TenantId, search: Search) -> BoxFuture<'_, Result<Found, AuditError>>;

    /// Stores a checkpoint beside the entries. Durable on return. Numbers are 1, 2, 3, …; any other is refused as
    /// [`AppendError::OutOfOrder`], also a repeat.
    fn put_checkpoint(&self, checkpoint: StoredCheckpoint) -> BoxFuture<'_, Result<(), AppendError>>;

    /// Checkpoints with this number and after, in order, at most `limit` of them and at least one if there is any.
    fn checkpoints(
        &self,
        from: u64,
        limit: ReadLimit,
    ) -> BoxFuture<'_, Result<Vec<StoredCheckpoint>, AuditError>>;
}

/// SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What happened to one tenant in one partition of the journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChainId {
    pub tenant: TenantId,
    pub partition: PartitionId,
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tenant {} {}", self.tenant, self.partition)
    }
}

/// Place of an entry in its chain: 1, 2, 3, … without a gap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sequence(pub u64);

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What an entry is about. Frozen numbers, see `fantail_audit::fact`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Kind(pub u8);

/// An entry before it has its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    pub tenant: TenantId,
    /// The journal record that says so.
    pub position: Position,
    /// When the leader said so.
    pub at: Millis,
    pub kind: Kind,
    pub body: Vec<u8>,
}

/// What the records `after + 1 ..= through` of one partition have to say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    pub partition: PartitionId,
    /// Where the partition was derived to so far; [`Position::START`] if it never was.
    pub after: Position,
    pub through: Position,
    /// Ascending by position; a record may say several things, or nothing.
    pub drafts: Vec<Draft>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub chain: ChainId,
    pub sequence: Sequence,
    pub position: Position,
    pub at: Millis,
    pub kind: Kind,
    pub body: Vec<u8>,
    /// The hash of the entry before; zeros for the first.
    pub previous: Digest,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    pub chain: ChainId,
    pub sequence: Sequence,
    /// Of the whole entry, see `fantail_audit::entry`.
    pub hash: Digest,
}

#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Entries at this time and later.
    pub from: Millis,
    /// Entries before this time.
    pub until: Millis,
    /// `None` starts at the beginning; otherwise `next` of the answer before.
    pub after: Option<Cursor>,
    pub limit: ReadLimit,
}

/// A place in the log; means something to the engine that gave it, for ever.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cursor(pub u64);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    pub entries: Vec<Entry>,
    pub next: Option<Cursor>,
}

/// A checkpoint in its text form, see `fantail_audit::checkpoint`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredCheckpoint {
    pub number: u64,
    pub text: String,
}

/// Why nothing was appended, or perhaps not.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AppendError {
    /// A bug of the caller, or a repeat.
    #[error("append after {after} does not continue {what}, which is at {expected}")]
    OutOfOrder { what: String, after: u64, expected: u64 },
    /// A bug of the caller: more than `fantail_rules::limits` allows, so nothing was written.
    #[error("{what} has {found}, at most {max} are allowed")]
    TooLarge { what: &'static str, found: usize, max: usize },
    /// Retry later: nothing was written, the disk is nearly full.
    #[error("audit log has no room: {free_bytes} bytes free, {needed_bytes} needed")]
    NoRoom { free_bytes: u64, needed_bytes: u64 },
    /// Nothing more may be promised: the write or its sync failed, the process must stop and recover.
    #[error("audit log failed: {reason}")]
    Failed { reason: String },
}

/// Why the log could not be opened, read or copied.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AuditError {
    /// Refuse to start, or stop: what is stored is not what was written.
    #[error("audit log is damaged: {file} at offset {offset}: {reason}")]
    Damaged { file: String, offset: u64, reason: String },
    #[error("audit log {file} has format {found}, this build reads up to {known}")]
    NewerFormat { file: String, found: u32, known: u32 },
    #[error("audit log is in use by another process: {file}")]
    Locked { file: String },
    #[error("audit log input/output failed: {file}: {reason}")]
    Io { file: String, reason: String },
}
