//! Large immutable objects by name: snapshots, archives, exports.

use std::io::Read;
use thiserror::Error;

pub trait Blobs: Send + Sync {
    /// Stores all of `content` under `name`, replacing what was there. Durable on return; a crash in between
    /// leaves the old content or none, never a part. Names are `a-z 0-9 - _ . /`, without `..`.
    fn put(&self, name: &str, content: &mut dyn Read) -> Result<u64, BlobError>;

    /// Opens a blob for reading. Reading past a flipped bit is the reader's to detect: blobs carry checksums.
    fn get(&self, name: &str) -> Result<Box<dyn Read + Send>, BlobError>;

    /// Names that begin with `prefix`, ascending.
    fn list(&self, prefix: &str) -> Result<Vec<String>, BlobError>;

    /// Deletes a blob; deleting what is not there is a no-op.
    fn delete(&self, name: &str) -> Result<(), BlobError>;
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BlobError {
    #[error("no blob named {name}")]
    Missing { name: String },
    #[error("not a blob name: {name}")]
    BadName { name: String },
    #[error("blob input/output failed: {name}: {reason}")]
    Io { name: String, reason: String },
}
