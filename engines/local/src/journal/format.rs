//! The bytes of the journal's files. Format 1, little-endian, every part starts on a 512-byte sector.
//!
//! ```text
//! segment file    header sector | opening block | block | block | … | zeros (preallocated)
//! sealed          header sector | opening block | block | … | footer block | trailer sector
//!
//! header sector   0 "FANTAILJ"  8 format u32  12 crc u32  16 segment u64  24 first block u64  32 chain before [32]
//! trailer sector  0 "FANTAILE"  8 format u32  12 crc u32  16 salt u64     24 footer offset u64
//! block           0 "FtBk"  4 crc u32 of 8..64  8 salt u64  16 number u64  24 body bytes u32  28 records u32
//!                32 chain [32] of the block before  64 records …, zeros to the next sector
//! record          0 crc u32 of the rest  4 bytes u32  8 partition u16  10 kind u8  11 zero u8  12 zero u32
//!                16 epoch u64  24 position u64  32 bytes …
//! ```
//!
//! The chain hash of a block is the SHA-256 of all its sectors, which contain the hash of the one before. The salt
//! is the beginning of the segment's `chain before`, so that bytes inside a record cannot pose as a block. The first
//! 16 bytes and the crc rule (whole sector, crc field zero) of header and trailer are frozen for all formats.
//!
//! What must never happen: a change here without a new format number.

use super::damage::Place;
use aws_lc_rs::digest::{SHA256, digest};
use fantail_ports::journal::JournalError;

pub const FORMAT: u32 = 1;
pub const SECTOR: usize = 512;
pub const BLOCK_HEADER_BYTES: usize = 64;
pub const RECORD_HEADER_BYTES: usize = 32;
const _: () = assert!(RECORD_HEADER_BYTES <= fantail_rules::limits::RECORD_HEADER_BYTES_MAX);
/// A block is read and checked as a whole; a longer length is damage, not something to allocate for.
pub const BLOCK_BYTES_MAX: usize = 32 << 20;

const HEADER_MAGIC: [u8; 8] = *b"FANTAILJ";
const TRAILER_MAGIC: [u8; 8] = *b"FANTAILE";
const BLOCK_MAGIC: [u8; 4] = *b"FtBk";

pub type Chain = [u8; 32];

#[must_use]
pub fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(SECTOR)
}

/// The chain hash of a block, padding included.
#[must_use]
pub fn chain_of(block: &[u8]) -> Chain {
    let mut chain = [0; 32];
    chain.copy_from_slice(digest(&SHA256, block).as_ref());
    chain
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    pub segment: u64,
    pub first_block: u64,
    pub chain_before: Chain,
}

impl SegmentHeader {
    #[must_use]
    pub fn salt(&self) -> u64 {
        u64_at(&self.chain_before, 0)
    }

    #[must_use]
    pub fn encode(&self) -> [u8; SECTOR] {
        let mut sector = [0; SECTOR];
        put(&mut sector, 16, &self.segment.to_le_bytes());
        put(&mut sector, 24, &self.first_block.to_le_bytes());
        put(&mut sector, 32, &self.chain_before);
        enclose(&mut sector, HEADER_MAGIC);
        sector
    }

    pub fn decode(sector: &[u8], place: &Place<'_>) -> Result<Self, JournalError> {
        let format = open_envelope(sector, HEADER_MAGIC).map_err(|reason| place.damaged(0, reason))?;
        if format > FORMAT {
            return Err(JournalError::NewerFormat { file: place.file(), found: format, known: FORMAT });
        }
        Ok(Self {
            segment: u64_at(sector, 16),
            first_block: u64_at(sector, 24),
            chain_before: chain_at(sector, 32),
        })
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trailer {
    pub salt: u64,
    pub footer_offset: u64,
}

impl Trailer {
    #[must_use]
    pub fn encode(&self) -> [u8; SECTOR] {
        let mut sector = [0; SECTOR];
        put(&mut sector, 16, &self.salt.to_le_bytes());
        put(&mut sector, 24, &self.footer_offset.to_le_bytes());
        enclose(&mut sector, TRAILER_MAGIC);
        sector
    }

    /// `None` means that the segment is not sealed.
    #[must_use]
    pub fn decode(sector: &[u8]) -> Option<Self> {
        open_envelope(sector, TRAILER_MAGIC).ok()?;
        Some(Self { salt: u64_at(sector, 16), footer_offset: u64_at(sector, 24) })
    }
}

/// Writes magic, format and crc around a sector.
fn enclose(sector: &mut [u8; SECTOR], magic: [u8; 8]) {
    put(sector, 0, &magic);
    put(sector, 8, &FORMAT.to_le_bytes());
    let crc = crc32fast::hash(sector);
    put(sector, 12, &crc.to_le_bytes());
}

/// Checks magic and crc and answers the format.
fn open_envelope(sector: &[u8], magic: [u8; 8]) -> Result<u32, &'static str> {
    if sector.len() != SECTOR {
        return Err("the file is too short for its header");
    }
    if sector[..8] != magic {
        return Err("not a journal segment");
    }
    let mut copy = [0; SECTOR];
    copy.copy_from_slice(sector);
    put(&mut copy, 12, &[0; 4]);
    if crc32fast::hash(&copy) != u32_at(sector, 12) {
        return Err("header checksum does not match");
    }
    Ok(u32_at(sector, 8))
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockHeader {
    pub salt: u64,
    pub number: u64,
    pub body_bytes: usize,
    pub records: u32,
    pub previous: Chain,
}

impl BlockHeader {
    /// Writes the header over the first bytes of a block.
    pub fn encode_into(&self, block: &mut [u8]) {
        let body_bytes = u32::try_from(self.body_bytes).expect("a block is at most BLOCK_BYTES_MAX");
        put(block, 0, &BLOCK_MAGIC);
        put(block, 8, &self.salt.to_le_bytes());
        put(block, 16, &self.number.to_le_bytes());
        put(block, 24, &body_bytes.to_le_bytes());
        put(block, 28, &self.records.to_le_bytes());
        put(block, 32, &self.previous);
        let crc = crc32fast::hash(&block[8..BLOCK_HEADER_BYTES]);
        put(block, 4, &crc.to_le_bytes());
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() < BLOCK_HEADER_BYTES {
            return Err("the file ends inside a block header");
        }
        if bytes[..4] != BLOCK_MAGIC {
            return Err("no block starts here");
        }
        if crc32fast::hash(&bytes[8..BLOCK_HEADER_BYTES]) != u32_at(bytes, 4) {
            return Err("block header checksum does not match");
        }
        let header = Self {
            salt: u64_at(bytes, 8),
            number: u64_at(bytes, 16),
            body_bytes: u32_at(bytes, 24) as usize,
            records: u32_at(bytes, 28),
            previous: chain_at(bytes, 32),
        };
        if header.block_bytes() > BLOCK_BYTES_MAX {
            return Err("block is longer than any block can be");
        }
        Ok(header)
    }

    /// Length of the block in the file.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        padded(BLOCK_HEADER_BYTES + self.body_bytes)
    }
}

/// What a record is. Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A record of the partition at its position.
    Data,
    /// A new epoch of the partition; the position is the last one before it.
    Fence,
    /// How a partition stands where a segment begins: epoch, last position, and as bytes the trim mark (u64).
    State,
    /// The content of a sealed segment, see `footer`.
    Footer,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Fence => 2,
            Self::State => 3,
            Self::Footer => 4,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [Self::Data, Self::Fence, Self::State, Self::Footer].into_iter().find(|kind| kind.code() == code)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    pub kind: Kind,
    pub partition: u16,
    pub epoch: u64,
    pub position: u64,
}

impl RecordHeader {
    pub fn encode(&self, bytes: &[u8], into: &mut Vec<u8>) {
        let start = into.len();
        let length = u32::try_from(bytes.len()).expect("a record is at most RECORD_BYTES_MAX");
        into.extend_from_slice(&[0; 4]);
        into.extend_from_slice(&length.to_le_bytes());
        into.extend_from_slice(&self.partition.to_le_bytes());
        into.extend_from_slice(&[self.kind.code(), 0, 0, 0, 0, 0]);
        into.extend_from_slice(&self.epoch.to_le_bytes());
        into.extend_from_slice(&self.position.to_le_bytes());
        into.extend_from_slice(bytes);
        let crc = crc32fast::hash(&into[start + 4..]);
        put(into, start, &crc.to_le_bytes());
    }

    /// The first record of a block's body and how long it is altogether.
    pub fn decode(body: &[u8]) -> Result<(Self, usize), &'static str> {
        if body.len() < RECORD_HEADER_BYTES {
            return Err("the block ends inside a record header");
        }
        let end = RECORD_HEADER_BYTES.saturating_add(u32_at(body, 4) as usize);
        let Some(whole) = body.get(4..end) else { return Err("the block ends inside a record") };
        if crc32fast::hash(whole) != u32_at(body, 0) {
            return Err("record checksum does not match");
        }
        let Some(kind) = Kind::from_code(body[10]) else { return Err("unknown kind of record") };
        let header =
            Self { kind, partition: u16_at(body, 8), epoch: u64_at(body, 16), position: u64_at(body, 24) };
        Ok((header, end))
    }
}

pub fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
    into[at..at + bytes.len()].copy_from_slice(bytes);
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

fn chain_at(bytes: &[u8], at: usize) -> Chain {
    array_at(bytes, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn parts_round_trip() {
        let header = SegmentHeader { segment: 7, first_block: 99, chain_before: [5; 32] };
        let place = Place::new(Path::new("x"));
        assert_eq!(SegmentHeader::decode(&header.encode(), &place), Ok(header.clone()));

        let trailer = Trailer { salt: header.salt(), footer_offset: 1024 };
        assert_eq!(Trailer::decode(&trailer.encode()), Some(trailer));

        let block = BlockHeader { salt: 1, number: 2, body_bytes: 3, records: 4, previous: [6; 32] };
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        block.encode_into(&mut bytes);
        assert_eq!(BlockHeader::decode(&bytes), Ok(block));

        for kind in [Kind::Data, Kind::Fence, Kind::State, Kind::Footer] {
            let record = RecordHeader { kind, partition: 0xC003, epoch: 8, position: 9 };
            let mut bytes = Vec::new();
            record.encode(b"hello", &mut bytes);
            assert_eq!(RecordHeader::decode(&bytes), Ok((record, RECORD_HEADER_BYTES + 5)));
        }
    }

    #[test]
    fn the_stored_bytes_of_format_1_are_frozen() {
        let mut bytes = Vec::new();
        RecordHeader { kind: Kind::Data, partition: 0xC001, epoch: 2, position: 3 }
            .encode(b"fact", &mut bytes);
        let (crc, rest) = bytes.split_at(4);
        assert_eq!(u32_at(crc, 0), crc32fast::hash(rest));
        assert_eq!(rest[..8], [4, 0, 0, 0, 0x01, 0xC0, 1, 0]);
        assert_eq!(rest[12..32], *b"\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0fact");

        let header = SegmentHeader { segment: 1, first_block: 1, chain_before: [1; 32] }.encode();
        assert_eq!(header[..12], *b"FANTAILJ\x01\0\0\0");
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_seen() {
        let place = Place::new(Path::new("x"));
        let sector = SegmentHeader { segment: 7, first_block: 99, chain_before: [5; 32] }.encode();
        for at in 0..SECTOR {
            let mut flipped = sector;
            flipped[at] ^= 0x10;
            assert!(
                matches!(SegmentHeader::decode(&flipped, &place), Err(JournalError::Damaged { .. })),
                "{at}"
            );
        }
    }
}
