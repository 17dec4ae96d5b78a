//! Counters of the writer. Cheap atomics, read by the metrics page and by benchmarks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the sync latency histogram are 2^0 … 2^19 microseconds (about half a second), then the rest.
pub const SYNC_BUCKETS: usize = 21;

#[derive(Default)]
pub struct Counters {
    commits: AtomicU64,
    appends: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    group_records_max: AtomicU64,
    group_bytes_max: AtomicU64,
    sync_micros_sum: AtomicU64,
    sync_micros_max: AtomicU64,
    sync_buckets: [AtomicU64; SYNC_BUCKETS],
    segments_begun: AtomicU64,
    refused: AtomicU64,
}

/// A copy of the counters since the journal was opened.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct JournalStats {
    /// Group commits, each one write and one sync.
    pub commits: u64,
    pub appends: u64,
    pub records: u64,
    /// Bytes of blocks, headers and padding included.
    pub bytes: u64,
    pub group_records_max: u64,
    pub group_bytes_max: u64,
    /// Time of write and sync of the commits.
    pub sync_micros_sum: u64,
    pub sync_micros_max: u64,
    /// Commits that took at most 2^n microseconds and more than 2^(n-1).
    pub sync_buckets: [u64; SYNC_BUCKETS],
    pub segments_begun: u64,
    /// Appends that found no room.
    pub refused: u64,
}

/// One group commit.
pub struct Commit {
    pub appends: u64,
    pub records: u64,
    pub bytes: u64,
    pub took: Duration,
}

impl Counters {
    pub fn committed(&self, commit: &Commit) {
        let micros = u64::try_from(commit.took.as_micros()).unwrap_or(u64::MAX);
        self.commits.fetch_add(1, Relaxed);
        self.appends.fetch_add(commit.appends, Relaxed);
        self.records.fetch_add(commit.records, Relaxed);
        self.bytes.fetch_add(commit.bytes, Relaxed);
        self.group_records_max.fetch_max(commit.records, Relaxed);
        self.group_bytes_max.fetch_max(commit.bytes, Relaxed);
        self.sync_micros_sum.fetch_add(micros, Relaxed);
        self.sync_micros_max.fetch_max(micros, Relaxed);
        self.sync_buckets[bucket(micros)].fetch_add(1, Relaxed);
    }

    pub fn segment_begun(&self) {
        self.segments_begun.fetch_add(1, Relaxed);
    }

    pub fn refused(&self, appends: u64) {
        self.refused.fetch_add(appends, Relaxed);
    }

    #[must_use]
    pub fn read(&self) -> JournalStats {
        let mut sync_buckets = [0; SYNC_BUCKETS];
        for (copy, bucket) in sync_buckets.iter_mut().zip(&self.sync_buckets) {
            *copy = bucket.load(Relaxed);
        }
        JournalStats {
            commits: self.commits.load(Relaxed),
            appends: self.appends.load(Relaxed),
            records: self.records.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            group_records_max: self.group_records_max.load(Relaxed),
            group_bytes_max: self.group_bytes_max.load(Relaxed),
            sync_micros_sum: self.sync_micros_sum.load(Relaxed),
            sync_micros_max: self.sync_micros_max.load(Relaxed),
            sync_buckets,
            segments_begun: self.segments_begun.load(Relaxed),
            refused: self.refused.load(Relaxed),
        }
    }
}

fn bucket(micros: u64) -> usize {
    let bits = micros.clamp(1, 1 << SYNC_BUCKETS).next_power_of_two().trailing_zeros() as usize;
    bits.min(SYNC_BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_their_bound_says() {
        for (micros, expected) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (1_000, 10), (1 << 40, 20)] {
            assert_eq!(bucket(micros), expected, "{micros}");
        }
    }
}
