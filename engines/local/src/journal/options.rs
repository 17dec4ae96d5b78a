//! What can be chosen when the journal is opened, and what opening found.

use super::torn::TornTail;
use fantail_rules::limits::QUEUE_BYTES_MAX;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub struct JournalOptions {
    /// Length at which a segment is sealed and the next one begun. Trimming frees whole segments.
    pub segment_bytes: u64,
    /// Bytes of the last durable records that are kept in memory for readers at the end.
    pub cache_bytes_max: usize,
    /// Bytes that may wait for the writer; beyond it appends answer `NoRoom`.
    pub queue_bytes_max: usize,
    /// Sealed segments are fully verified on open, newest first, up to this many bytes.
    pub verify_bytes_max: u64,
    pub room: RoomOptions,
    pub drive: Drive,
    /// Called once when a write or sync failed. Nothing more can be promised: stop the process.
    pub on_failure: Option<FailureCallback>,
}

pub type FailureCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// When appends are refused because the disk is nearly full: below the larger of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoomOptions {
    pub free_bytes_min: u64,
    pub free_percent_min: u64,
    /// Free space is asked for after so many written bytes or so much time. While there is none: every time.
    pub check_every_bytes: u64,
    pub check_every: Duration,
}

/// Who performs the group commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drive {
    /// A thread of the journal's own, and another one for reads from disk.
    Threads,
    /// Nobody but `LocalJournal::commit_next`: for tests that decide what happens when.
    Manual,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            cache_bytes_max: 8 << 20,
            queue_bytes_max: QUEUE_BYTES_MAX,
            verify_bytes_max: 1 << 30,
            room: RoomOptions::default(),
            drive: Drive::Threads,
            on_failure: None,
        }
    }
}

impl Default for RoomOptions {
    fn default() -> Self {
        Self {
            free_bytes_min: 1 << 30,
            free_percent_min: 5,
            check_every_bytes: 16 << 20,
            check_every: Duration::from_secs(1),
        }
    }
}

impl fmt::Debug for JournalOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalOptions")
            .field("segment_bytes", &self.segment_bytes)
            .field("cache_bytes_max", &self.cache_bytes_max)
            .field("queue_bytes_max", &self.queue_bytes_max)
            .field("verify_bytes_max", &self.verify_bytes_max)
            .field("room", &self.room)
            .field("drive", &self.drive)
            .finish_non_exhaustive()
    }
}

/// What opening found; readiness shows it.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct OpenReport {
    pub segments: u64,
    /// The journal was closed cleanly, or is new.
    pub clean: bool,
    pub verified_segments: u64,
    pub verified_bytes: u64,
    pub torn_tail: Option<TornTail>,
}
