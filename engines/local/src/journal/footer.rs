//! The footer of a sealed segment: how every partition stands at its end, and the segment's index, so that opening
//! reads one block instead of the whole segment.
//!
//! ```text
//! 0 partitions u32, then for each:
//!   code u16 | epoch u64 | next u64 | trimmed u64 | first u64 | last u64 | samples u32 | (position u64, offset u64) …
//! ```
//! `first` and `last` are 0 if the segment holds no record of the partition.

use super::format::{u16_at, u32_at, u64_at};
use super::index::{PartitionIndex, Sample, SegmentIndex};
use super::standing::{Standing, Standings};

const PARTITION_BYTES: usize = 46;
const SAMPLE_BYTES: usize = 16;

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Footer {
    pub standings: Standings,
    pub index: SegmentIndex,
}

/// An upper bound of the encoded length, so that a segment keeps room for it.
#[must_use]
pub fn footer_bytes(partitions: usize, index: &SegmentIndex) -> usize {
    let samples: usize = index.partitions.values().map(|partition| partition.samples.len()).sum();
    4 + partitions * PARTITION_BYTES + samples * SAMPLE_BYTES
}

/// Takes the parts by reference, as the writer holds them under a lock.
#[must_use]
pub fn encode(standings: &Standings, index: &SegmentIndex) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(footer_bytes(standings.0.len(), index));
    bytes.extend_from_slice(&count(standings.0.len()).to_le_bytes());
    for (code, standing) in &standings.0 {
        let known = index.partitions.get(code);
        let samples = known.map_or(&[][..], |known| &known.samples);
        bytes.extend_from_slice(&code.to_le_bytes());
        let (first, last) = known.map_or((0, 0), |known| (known.first, known.last));
        for number in [standing.epoch, standing.next, standing.trimmed, first, last] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&count(samples.len()).to_le_bytes());
        for sample in samples {
            bytes.extend_from_slice(&sample.position.to_le_bytes());
            bytes.extend_from_slice(&sample.offset.to_le_bytes());
        }
    }
    bytes
}

fn count(items: usize) -> u32 {
    u32::try_from(items).expect("a block of at most BLOCK_BYTES_MAX holds fewer than 2^32 items")
}

#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Footer> {
    let mut footer = Footer::default();
    let partitions = u32_at(bytes.get(..4)?, 0);
    let mut rest = &bytes[4..];
    for _ in 0..partitions {
        let (head, behind) = rest.split_at_checked(PARTITION_BYTES)?;
        let code = u16_at(head, 0);
        let standing = Standing { epoch: u64_at(head, 2), next: u64_at(head, 10), trimmed: u64_at(head, 18) };
        let (first, last) = (u64_at(head, 26), u64_at(head, 34));
        let (samples, behind) =
            behind.split_at_checked((u32_at(head, 42) as usize).checked_mul(SAMPLE_BYTES)?)?;
        let samples: Vec<Sample> = samples
            .chunks_exact(SAMPLE_BYTES)
            .map(|sample| Sample { position: u64_at(sample, 0), offset: u64_at(sample, 8) })
            .collect();
        footer.standings.0.insert(code, standing);
        if !samples.is_empty() {
            footer.index.partitions.insert(code, PartitionIndex { first, last, samples });
        }
        rest = behind;
    }
    rest.is_empty().then_some(footer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::index::Span;

    #[test]
    fn footer_round_trips_within_its_bound() {
        let mut footer = Footer::default();
        footer.standings.0.insert(0, Standing { epoch: 3, next: 1, trimmed: 1 });
        footer.standings.0.insert(0xC001, Standing { epoch: 4, next: 12, trimmed: 5 });
        footer.index.add(Span { partition: 0xC001, first: 6, last: 11 }, 1024);
        let bytes = encode(&footer.standings, &footer.index);
        assert!(bytes.len() <= footer_bytes(2, &footer.index));
        assert_eq!(decode(&bytes), Some(footer));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None, "{cut}");
        }
    }
}
