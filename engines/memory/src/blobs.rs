//! Blobs in a map.

use fantail_ports::blobs::{BlobError, Blobs, check_name};
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub struct MemoryBlobs {
    contents: Mutex<BTreeMap<String, Arc<[u8]>>>,
}

impl MemoryBlobs {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Flips one bit of a stored blob, as a failing disk would. `false` if there is no such byte.
    pub fn flip_bit(&self, name: &str, byte: usize, bit: u8) -> bool {
        let mut contents = self.lock();
        let Some(content) = contents.get_mut(name) else { return false };
        let mut damaged = content.to_vec();
        let Some(target) = damaged.get_mut(byte) else { return false };
        *target ^= 1 << (bit % 8);
        *content = damaged.into();
        true
    }

    /// Each call leaves the map whole, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<[u8]>>> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Blobs for MemoryBlobs {
    fn put(&self, name: &str, content: &mut dyn Read) -> Result<u64, BlobError> {
        check_name(name)?;
        let mut bytes = Vec::new();
        content
            .read_to_end(&mut bytes)
            .map_err(|cause| BlobError::Io { name: name.to_owned(), reason: cause.to_string() })?;
        let size = bytes.len() as u64;
        self.lock().insert(name.to_owned(), bytes.into());
        Ok(size)
    }

    fn get(&self, name: &str) -> Result<Box<dyn Read + Send>, BlobError> {
        check_name(name)?;
        let content = self.lock().get(name).cloned();
        let content = content.ok_or_else(|| BlobError::Missing { name: name.to_owned() })?;
        Ok(Box::new(Cursor::new(content)))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, BlobError> {
        Ok(self.lock().keys().filter(|name| name.starts_with(prefix)).cloned().collect())
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        check_name(name)?;
        self.lock().remove(name);
        Ok(())
    }
}
