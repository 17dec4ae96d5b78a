//! Where the records of each partition lie in a segment: first and last position, and a sample of
//! (position, block offset) every so many bytes, so that a reader starts near what it wants.
//!
//! What must never happen: a sample that points behind the first record at its position.

use std::collections::BTreeMap;

/// At most this much is walked over in vain by a reader, and a 64 MiB segment has at most 1,024 samples of a partition.
const SAMPLE_EVERY_BYTES: u64 = 64 << 10;

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SegmentIndex {
    pub partitions: BTreeMap<u16, PartitionIndex>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionIndex {
    pub first: u64,
    pub last: u64,
    pub samples: Vec<Sample>,
}

/// The block at `offset` holds the record at `position`, and none of the same partition before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    pub position: u64,
    pub offset: u64,
}

/// The positions that one block holds of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub partition: u16,
    pub first: u64,
    pub last: u64,
}

impl SegmentIndex {
    /// Adds what one block holds. Blocks come in order.
    pub fn add(&mut self, span: Span, offset: u64) {
        let sample = Sample { position: span.first, offset };
        let known = self.partitions.entry(span.partition).or_insert_with(|| PartitionIndex {
            first: span.first,
            last: span.first - 1,
            samples: vec![sample],
        });
        assert_eq!(known.last + 1, span.first, "the positions of a partition are dense");
        known.last = span.last;
        if known.samples.last().is_some_and(|last| offset >= last.offset + SAMPLE_EVERY_BYTES) {
            known.samples.push(sample);
        }
    }

    /// Whether both hold the same positions. Samples are a choice of the writer and may differ.
    #[must_use]
    pub fn covers_same(&self, other: &Self) -> bool {
        let facts = |index: &Self| -> Vec<(u16, u64, u64)> {
            index.partitions.iter().map(|(code, known)| (*code, known.first, known.last)).collect()
        };
        facts(self) == facts(other)
    }

    /// The block from which a reader finds the position by walking forward, if the segment holds it.
    #[must_use]
    pub fn seek(&self, partition: u16, position: u64) -> Option<u64> {
        let known = self.partitions.get(&partition)?;
        if position < known.first || position > known.last {
            return None;
        }
        let after = known.samples.partition_point(|sample| sample.position <= position);
        Some(known.samples[after.checked_sub(1)?].offset)
    }
}

/// Collects the spans of a block while its records pass by, in their order.
#[derive(Default)]
pub struct Spans(pub Vec<Span>);

impl Spans {
    pub fn add(&mut self, partition: u16, first: u64, last: u64) {
        match self.0.iter_mut().find(|span| span.partition == partition) {
            Some(span) => {
                assert_eq!(span.last + 1, first, "the positions of a partition are dense");
                span.last = last;
            }
            None => self.0.push(Span { partition, first, last }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seek_finds_the_block_at_or_before() {
        let mut index = SegmentIndex::default();
        for (first, last, offset) in [(5, 9, 1024), (10, 10, 1536), (11, 30, 90_112), (31, 31, 200_192)] {
            index.add(Span { partition: 7, first, last }, offset);
        }
        let cases = [
            (4, None),
            (5, Some(1024)),
            (10, Some(1024)),
            (11, Some(90_112)),
            (31, Some(200_192)),
            (32, None),
        ];
        for (position, offset) in cases {
            assert_eq!(index.seek(7, position), offset, "{position}");
        }
        assert_eq!(index.seek(8, 5), None);
    }
}
