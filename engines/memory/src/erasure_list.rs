//! The list of erasures in memory.

use fantail_ports::erasure_list::{ENTRY_BYTES_MAX, ErasureList, ErasureListError};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub struct MemoryErasureList {
    entries: Mutex<Vec<Vec<u8>>>,
}

impl MemoryErasureList {
    fn entries(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ErasureList for MemoryErasureList {
    fn append(&self, entry: &[u8]) -> Result<(), ErasureListError> {
        if entry.len() > ENTRY_BYTES_MAX {
            return Err(ErasureListError::TooLong { bytes: entry.len() });
        }
        self.entries().push(entry.to_vec());
        Ok(())
    }

    fn count(&self) -> u64 {
        self.entries().len() as u64
    }

    fn read(&self, from: u64, limit: usize) -> Result<Vec<Vec<u8>>, ErasureListError> {
        let skipped = usize::try_from(from).unwrap_or(usize::MAX);
        Ok(self.entries().iter().skip(skipped).take(limit).cloned().collect())
    }
}
