//! The bytes of the records in the log and in the index. Format 1, little-endian, frozen. The first byte tells records
//! of the log apart; that of an entry is its own (`fantail_audit::entry`).
//!
//! ```text
//! log    entry   0x02 …
//!        mark    0x10 u8 | zero u8 | partition u16 | through u64
//! index  page    first u64 | last u64 | marks u32 | rows u32 | mark … | row …
//!        mark    partition u16 | through u64
//!        row     tenant u32 | partition u16 | first u64 | last u64 | earliest u64 | latest u64 | hash [32]
//! ```
//! `first` and `last` of a page are positions in the log, those of a row are sequences of its chain; the hash is that of
//! the chain's last entry in the page. Marks say how far partitions are derived at the end of the page.

use super::pages::Row;
use fantail_audit::entry::{self, EntryError, Peek};
use fantail_ports::audit::{ChainId, Digest};
use fantail_rules::ids::{Millis, PartitionId, Position, TenantId};
use std::collections::BTreeMap;

const MARK: u8 = 0x10;
const MARK_BYTES: usize = 12;

/// A record of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Logged {
    Entry(Peek),
    Mark { partition: PartitionId, through: Position },
}

impl Logged {
    pub fn decode(bytes: &[u8]) -> Result<Self, EntryError> {
        match bytes {
            [MARK, 0, rest @ ..] => {
                let mut rest = Rest(rest);
                let mark = rest.partition().zip(rest.u64()).filter(|_| rest.0.is_empty());
                let (partition, through) = mark.ok_or(EntryError::Malformed)?;
                Ok(Self::Mark { partition, through: Position(through) })
            }
            _ => entry::peek(bytes).map(Self::Entry),
        }
    }
}

#[must_use]
pub fn encode_mark(partition: PartitionId, through: Position) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MARK_BYTES);
    bytes.extend_from_slice(&[MARK, 0]);
    put_mark(&mut bytes, partition, through);
    bytes
}

fn put_mark(bytes: &mut Vec<u8>, partition: PartitionId, through: Position) {
    bytes.extend_from_slice(&partition.code().to_le_bytes());
    bytes.extend_from_slice(&through.0.to_le_bytes());
}

/// A page as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredPage {
    pub first: u64,
    pub last: u64,
    pub derived: BTreeMap<PartitionId, Position>,
    /// Ascending by chain.
    pub rows: Vec<(Row, Digest)>,
}

impl StoredPage {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24 + 10 * self.derived.len() + 70 * self.rows.len());
        let count = |items: usize| u32::try_from(items).expect("a page fits in a record").to_le_bytes();
        bytes.extend_from_slice(&self.first.to_le_bytes());
        bytes.extend_from_slice(&self.last.to_le_bytes());
        bytes.extend_from_slice(&count(self.derived.len()));
        bytes.extend_from_slice(&count(self.rows.len()));
        for (partition, through) in &self.derived {
            put_mark(&mut bytes, *partition, *through);
        }
        for (row, hash) in &self.rows {
            bytes.extend_from_slice(&row.chain.tenant.0.to_le_bytes());
            bytes.extend_from_slice(&row.chain.partition.code().to_le_bytes());
            for number in [row.first, row.last, row.earliest.0, row.latest.0] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&hash.0);
        }
        bytes
    }

    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Rest(bytes);
        let (first, last) = (rest.u64()?, rest.u64()?);
        let (marks, rows) = (rest.u32()?, rest.u32()?);
        let mark = |rest: &mut Rest<'_>| Some((rest.partition()?, Position(rest.u64()?)));
        let derived = (0..marks).map(|_| mark(&mut rest)).collect::<Option<_>>()?;
        let rows = (0..rows).map(|_| rest.row()).collect::<Option<_>>()?;
        rest.0.is_empty().then_some(Self { first, last, derived, rows })
    }
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn partition(&mut self) -> Option<PartitionId> {
        PartitionId::from_code(u16::from_le_bytes(self.array()?))
    }

    fn row(&mut self) -> Option<(Row, Digest)> {
        let tenant = TenantId(self.u32()?);
        let chain = ChainId { tenant, partition: self.partition()? };
        let (first, last) = (self.u64()?, self.u64()?);
        let (earliest, latest) = (Millis(self.u64()?), Millis(self.u64()?));
        Some((Row { chain, first, last, earliest, latest }, Digest(self.array()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::ShardNo;

    const SHARD: PartitionId = PartitionId::Shard(ShardNo(2));

    fn page() -> StoredPage {
        let chain = ChainId { tenant: TenantId(7), partition: SHARD };
        let row = Row { chain, first: 3, last: 9, earliest: Millis(100), latest: Millis(200) };
        let derived = BTreeMap::from([(PartitionId::Root, Position(1)), (SHARD, Position(12))]);
        StoredPage { first: 5, last: 20, derived, rows: vec![(row, Digest([0xAB; 32]))] }
    }

    #[test]
    fn marks_and_pages_round_trip() {
        let mark = encode_mark(SHARD, Position(12));
        assert_eq!(Logged::decode(&mark), Ok(Logged::Mark { partition: SHARD, through: Position(12) }));
        let bytes = page().encode();
        assert_eq!(StoredPage::decode(&bytes), Some(page()));
        for cut in 0..bytes.len() {
            assert_eq!(StoredPage::decode(&bytes[..cut]), None, "{cut}");
        }
        for cut in 0..mark.len() {
            assert!(Logged::decode(&mark[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn the_stored_bytes_of_format_1_are_frozen() {
        assert_eq!(encode_mark(SHARD, Position(12)), *b"\x10\0\x02\xC0\x0C\0\0\0\0\0\0\0");
        let head = b"\x05\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0";
        let marks = b"\0\0\x01\0\0\0\0\0\0\0\x02\xC0\x0C\0\0\0\0\0\0\0";
        let row =
            b"\x07\0\0\0\x02\xC0\x03\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x64\0\0\0\0\0\0\0\xC8\0\0\0\0\0\0\0";
        assert_eq!(page().encode(), [&head[..], marks, row, &[0xAB; 32]].concat());
    }
}
