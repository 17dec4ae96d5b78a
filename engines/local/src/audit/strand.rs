//! One journal of the audit log, with one partition, driven by hand: what is appended is durable on return.
//!
//! What must never happen: an append that is still under way when it was answered, because then the state above it
//! would be ahead of the disk.

use crate::disk::Disk;
use crate::journal::{JournalOptions, LocalJournal, OpenReport};
use fantail_ports::audit::{AppendError, AuditError};
use fantail_ports::journal::{self, Append, Journal, JournalError, ReadLimit, Record};
use fantail_rules::ids::{Epoch, PartitionId, Position};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The only partition of a strand.
pub const PARTITION: PartitionId = PartitionId::Root;

pub struct Strand {
    journal: LocalJournal,
    epoch: Epoch,
    dir: PathBuf,
}

impl Strand {
    pub fn open(disk: &Arc<dyn Disk>, dir: PathBuf, options: JournalOptions) -> Result<Self, AuditError> {
        let journal = LocalJournal::open(Arc::clone(disk), &dir, options).map_err(unopened)?;
        let epoch = journal.fence_now(PARTITION).map_err(unopened)?;
        Ok(Self { journal, epoch, dir })
    }

    /// Appends all records, or none.
    pub fn append(&self, records: Vec<Vec<u8>>) -> Result<(), AppendError> {
        let append = Append { partition: PARTITION, epoch: self.epoch, first: self.next(), records };
        self.journal.append_now(append).map(|_| ()).map_err(refused)
    }

    /// The position of the next record.
    #[must_use]
    pub fn next(&self) -> Position {
        self.journal.bounds(PARTITION).expect("a local journal knows its bounds").next
    }

    pub fn read(&self, from: Position, limit: ReadLimit) -> Result<Vec<Record>, AuditError> {
        self.journal.read_now(PARTITION, from, limit).map_err(unopened)
    }

    /// Seals what was written so far, and names all files that never change again.
    pub fn roll(&self) -> Result<Vec<PathBuf>, AuditError> {
        self.journal.roll().map_err(unopened)?;
        Ok(self.journal.sealed_segments())
    }

    /// Copies what is durable to a directory that opens as a strand, beside appends. Returns the bytes.
    pub fn copy_to(&self, dir: &Path) -> Result<u64, AuditError> {
        Ok(self.journal.hold().copy_to(dir).map_err(unopened)?.bytes)
    }

    pub fn close(&self) -> Result<(), AuditError> {
        self.journal.close().map_err(unopened)
    }

    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.journal.failure().is_some()
    }

    #[must_use]
    pub fn report(&self) -> &OpenReport {
        self.journal.report()
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A record that is whole, but not what belongs there.
    #[must_use]
    pub fn damaged(&self, position: Position, reason: impl std::fmt::Display) -> AuditError {
        let reason = format!("record {position}: {reason}");
        AuditError::Damaged { file: self.dir.display().to_string(), offset: 0, reason }
    }
}

pub fn unopened(error: JournalError) -> AuditError {
    match error {
        JournalError::Damaged { file, offset, reason } => AuditError::Damaged { file, offset, reason },
        JournalError::NewerFormat { file, found, known } => AuditError::NewerFormat { file, found, known },
        JournalError::Locked { file } => AuditError::Locked { file },
        JournalError::Io { file, reason } => AuditError::Io { file, reason },
        JournalError::Trimmed { partition: _, asked, first } => {
            let reason = format!("record {asked} is gone, the first is {first}");
            AuditError::Damaged { file: String::new(), offset: 0, reason }
        }
    }
}

fn refused(error: journal::AppendError) -> AppendError {
    match error {
        journal::AppendError::NoRoom { free_bytes, needed_bytes } => {
            AppendError::NoRoom { free_bytes, needed_bytes }
        }
        journal::AppendError::TooLarge { what, bytes, max } => {
            AppendError::TooLarge { what, found: bytes, max }
        }
        journal::AppendError::Failed { reason } => AppendError::Failed { reason },
        // Only we append to it, one at a time.
        journal::AppendError::Fenced { .. } | journal::AppendError::OutOfOrder { .. } => {
            AppendError::Failed { reason: error.to_string() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FaultDisk;
    use crate::journal::Drive;

    /// A task of tokio may poll 128 times before its futures are pending although they are done, and the start of a
    /// server is one task: a log of 524,288 entries takes so many reads.
    // fixes: torture 1
    #[test]
    fn any_number_of_reads_and_appends_are_done_inside_one_task() {
        let disk: Arc<dyn Disk> = Arc::new(FaultDisk::new(1));
        let options =
            JournalOptions { cache_bytes_max: 0, drive: Drive::Manual, ..JournalOptions::default() };
        let strand = Strand::open(&disk, PathBuf::from("/log"), options).expect("a healthy disk");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let limit = ReadLimit { records: 1, bytes: 0 };
        runtime.block_on(async {
            for number in 1..=300 {
                strand.append(vec![vec![7; 10]]).expect("a healthy disk");
                let records = strand.read(Position(number), limit).expect("what was appended");
                assert_eq!(records.len(), 1, "record {number}");
            }
        });
    }
}
