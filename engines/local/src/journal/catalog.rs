//! What is durable: the segments with their indexes, how the partitions stand, and the cached tail.
//!
//! What must never happen: something here that a crash could still take away. Only recovery and the writer, after
//! a successful sync, add to it.

use super::cache::TailCache;
use super::index::SegmentIndex;
use super::segment::Active;
use super::standing::Standings;
use fantail_ports::journal::Bounds;
use fantail_rules::ids::Position;
use std::collections::VecDeque;
use std::path::PathBuf;

pub struct Catalog {
    /// Oldest first.
    pub segments: VecDeque<SegmentEntry>,
    pub standings: Standings,
    pub cache: TailCache,
    /// Copies under way: as long as there is one, no segment is removed.
    pub holds: usize,
}

#[derive(Clone, Debug)]
pub struct SegmentEntry {
    pub number: u64,
    pub path: PathBuf,
    pub salt: u64,
    /// Where the durable blocks end.
    pub end: u64,
    pub sealed: bool,
    pub index: SegmentIndex,
}

/// Where a reader finds a position.
pub struct Spot {
    pub path: PathBuf,
    pub salt: u64,
    pub offset: u64,
    pub end: u64,
    /// The last position of the partition in this segment.
    pub last: u64,
}

impl SegmentEntry {
    #[must_use]
    pub fn begun(active: &Active) -> Self {
        Self {
            number: active.segment,
            path: active.path.clone(),
            salt: active.salt,
            end: active.offset,
            sealed: false,
            index: SegmentIndex::default(),
        }
    }
}

impl Catalog {
    #[must_use]
    pub fn bounds(&self, partition: u16) -> Bounds {
        let next = self.standings.of(partition).next;
        let held = self.segments.iter().find_map(|segment| segment.index.partitions.get(&partition));
        let first = held.map_or(next, |held| held.first);
        Bounds { first: Position(first), next: Position(next) }
    }

    #[must_use]
    pub fn find(&self, partition: u16, position: u64) -> Option<Spot> {
        self.segments.iter().rev().find_map(|segment| {
            let offset = segment.index.seek(partition, position)?;
            let last = segment.index.partitions.get(&partition)?.last;
            Some(Spot { path: segment.path.clone(), salt: segment.salt, offset, end: segment.end, last })
        })
    }

    /// The oldest segment, if it is sealed, all its records are trimmed, and no copy is under way.
    #[must_use]
    pub fn oldest_unneeded(&self) -> Option<&SegmentEntry> {
        if self.holds > 0 {
            return None;
        }
        let oldest = self.segments.front().filter(|oldest| oldest.sealed && self.segments.len() > 1)?;
        let unneeded = |(code, held): (&u16, &super::index::PartitionIndex)| {
            held.last < self.standings.of(*code).trimmed
        };
        oldest.index.partitions.iter().all(unneeded).then_some(oldest)
    }
}
