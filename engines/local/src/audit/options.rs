//! What can be chosen when the audit log is opened, and what opening found.

use crate::journal::{Drive, FailureCallback, JournalOptions, RoomOptions, TornTail};

#[derive(Clone)]
pub struct AuditOptions {
    /// Length at which a segment of the log is sealed and the next one begun.
    pub segment_bytes: u64,
    /// Sealed segments are fully verified on open, newest first, up to this many bytes.
    pub verify_bytes_max: u64,
    /// A page of the index covers at least so many bytes of the log: what a reader walks over for one entry.
    pub page_bytes: usize,
    pub room: RoomOptions,
    pub drive: Drive,
    /// Called once when a write or sync failed. Nothing more can be promised: stop the process.
    pub on_failure: Option<FailureCallback>,
}

/// Index and checkpoints are small beside the log.
const SMALL_SEGMENT_BYTES: u64 = 4 << 20;
/// Appends and reads share nothing in time, so a cached tail helps only whoever looks at the newest entries.
const CACHE_BYTES_MAX: usize = 1 << 20;

impl Default for AuditOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            verify_bytes_max: 256 << 20,
            page_bytes: 1 << 20,
            room: RoomOptions::default(),
            drive: Drive::Threads,
            on_failure: None,
        }
    }
}

impl AuditOptions {
    /// For the journal of the entries.
    pub(super) fn large(&self) -> JournalOptions {
        JournalOptions {
            segment_bytes: self.segment_bytes,
            cache_bytes_max: CACHE_BYTES_MAX,
            verify_bytes_max: self.verify_bytes_max,
            room: self.room,
            // The log's own threads decide when something is written.
            drive: Drive::Manual,
            on_failure: self.on_failure.clone(),
            ..JournalOptions::default()
        }
    }

    /// For the journals of pages and checkpoints.
    pub(super) fn small(&self) -> JournalOptions {
        JournalOptions { segment_bytes: self.segment_bytes.min(SMALL_SEGMENT_BYTES), ..self.large() }
    }
}

/// What opening found; readiness shows it.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct AuditReport {
    /// The log was closed cleanly, or is new.
    pub clean: bool,
    pub segments: u64,
    /// Behind the last sound block of the log, and of the checkpoints.
    pub torn_tails: Vec<TornTail>,
    /// The index was lost or did not fit the log, and was made again.
    pub index_rebuilt: bool,
    /// Entries behind the last page, which opening had to read.
    pub entries_read: u64,
}
