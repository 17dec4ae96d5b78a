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

/// A name becomes a file name or an object key, so it stays well below what those allow.
pub const BLOB_NAME_BYTES_MAX: usize = 200;

/// Whether a name is one of a blob; every engine refuses the others before it does anything.
pub fn check_name(name: &str) -> Result<(), BlobError> {
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/');
    let whole = name.len() <= BLOB_NAME_BYTES_MAX
        && name.bytes().all(allowed)
        && name.split('/').all(|part| !part.is_empty() && part != "." && !part.contains(".."));
    if whole { Ok(()) } else { Err(BlobError::BadName { name: name.to_owned() }) }
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
