//! The list of erasures: an entry for every user who was erased, kept apart from the data, so that a copy that is made from an older
//! backup can erase them again.

use thiserror::Error;

pub trait ErasureList: Send + Sync {
    /// Appends an entry of at most [`ENTRY_BYTES_MAX`] bytes. Durable on return. After an error it may be there or not; the same
    /// entry again is another one, which does no harm.
    fn append(&self, entry: &[u8]) -> Result<(), ErasureListError>;

    /// How many entries are durable. Never fewer than before.
    fn count(&self) -> u64;

    /// Entries from a place on, oldest first, `limit` at most; the first one has place 0. None: the list ends there.
    fn read(&self, from: u64, limit: usize) -> Result<Vec<Vec<u8>>, ErasureListError>;
}

/// An entry has some 70 bytes: a tenant, a sealed lookup and the id of an erasure. What is above that is room for longer seals.
pub const ENTRY_BYTES_MAX: usize = 111;

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ErasureListError {
    #[error("an entry of {bytes} bytes does not fit into the list of erasures")]
    TooLong { bytes: usize },
    #[error("the list of erasures {file} is damaged: {reason}")]
    Damaged { file: String, reason: String },
    #[error("the list of erasures {file} is in use by another process")]
    InUse { file: String },
    #[error("the list of erasures {file} has format {found}, this build reads up to {known}")]
    NewerFormat { file: String, found: u32, known: u32 },
    #[error("list of erasures, input/output failed: {file}: {reason}")]
    Io { file: String, reason: String },
}
