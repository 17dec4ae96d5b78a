//! The journal: durable, ordered, fenced. The only port whose loss loses facts.
//!
//! What must never happen: an append that returned `Ok` and is gone after a crash; a record of an older epoch
//! behind one of a newer epoch; a reader that sees a record which a crash could still take away.

use crate::BoxFuture;
use fantail_rules::ids::{Epoch, PartitionId, Position};
use thiserror::Error;

/// Many partitions, each an ordered sequence of records at positions 1, 2, 3, …
pub trait Journal: Send + Sync {
    /// Takes the leadership of a partition and returns its new epoch, larger than every earlier one. Durable on
    /// return; from then on appends with an older epoch fail with [`AppendError::Fenced`].
    fn fence(&self, partition: PartitionId) -> BoxFuture<'_, Result<Epoch, JournalError>>;

    /// Appends the records at positions `first`, `first + 1`, … and returns the last one once all are durable.
    /// All or nothing: after a crash either every record of a batch is there or none. Appends to one partition
    /// become durable in the order of the calls (the call itself takes the place in the order, not the first
    /// poll), so the next one may be made before the first has returned. If an append fails, every later one
    /// in flight on that partition fails too. An append that is larger than `APPEND_BYTES_MAX` with its headers, or has a
    /// record larger than `RECORD_BYTES_MAX`, is refused whole ([`AppendError::TooLarge`]) and the partition stays as it
    /// is. An empty batch is a caller's bug.
    fn append(&self, append: Append) -> BoxFuture<'static, Result<Position, AppendError>>;

    /// Records at `from` and after, in order, only durable ones, at most `limit` of them, and at least one if
    /// there is any. Empty at the end. Reading below the first kept position is [`JournalError::Trimmed`].
    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        limit: ReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Record>, JournalError>>;

    /// First kept and next position of a partition, counting durable records only.
    fn bounds(&self, partition: PartitionId) -> Result<Bounds, JournalError>;

    /// Says that no reader needs the records before `before` any more. The engine may keep more (whole segments,
    /// other partitions in them). Trimming beyond the end, or again, is a no-op.
    fn trim(&self, partition: PartitionId, before: Position) -> BoxFuture<'_, Result<(), JournalError>>;
}

/// A batch for one partition.
#[derive(Clone, Debug)]
pub struct Append {
    pub partition: PartitionId,
    pub epoch: Epoch,
    /// The position of the first record: exactly one after the last appended one.
    pub first: Position,
    pub records: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub position: Position,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub struct ReadLimit {
    pub records: usize,
    pub bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The first position that can still be read; equals `next` if nothing is kept.
    pub first: Position,
    /// The position that the next durable record will have.
    pub next: Position,
}

/// Why an append did not happen, or may not have.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AppendError {
    /// Give up: another leader took over.
    #[error("fenced: epoch {ours} is older than {current}")]
    Fenced { ours: Epoch, current: Epoch },
    /// A bug of the caller: the positions do not continue the partition.
    #[error("append at {first} does not continue {partition}, which is at {expected}")]
    OutOfOrder { partition: PartitionId, first: Position, expected: Position },
    /// Retry later: nothing was written, the disk is nearly full.
    #[error("journal has no room: {free_bytes} bytes free, {needed_bytes} needed")]
    NoRoom { free_bytes: u64, needed_bytes: u64 },
    /// Give up: nothing was written, and the same append will not fit later.
    #[error("{what} of {bytes} bytes is above the limit of {max}")]
    TooLarge { what: &'static str, bytes: usize, max: usize },
    /// Nothing more may be promised: the write or its sync failed, the process must stop and recover.
    #[error("journal failed: {reason}")]
    Failed { reason: String },
}

/// Why the journal could not be opened, read or fenced.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum JournalError {
    #[error("{partition} was trimmed up to {first}, {asked} is gone")]
    Trimmed { partition: PartitionId, asked: Position, first: Position },
    /// Refuse to start, or stop: what is stored is not what was written.
    #[error("journal is damaged: {file} at offset {offset}: {reason}")]
    Damaged { file: String, offset: u64, reason: String },
    #[error("journal {file} has format {found}, this build reads up to {known}")]
    NewerFormat { file: String, found: u32, known: u32 },
    #[error("journal is in use by another process: {file}")]
    Locked { file: String },
    #[error("journal input/output failed: {file}: {reason}")]
    Io { file: String, reason: String },
}
