//! The bytes of an entry, and its hash. Format 1, little-endian, frozen.
//!
//! ```text
//!  0 0x02 u8   1 format u8   2 kind u8   3 zero u8   4 tenant u32   8 partition u16   10 body bytes u16
//! 12 sequence u64   20 position u64   28 time u64   36 previous [32]   68 body …
//! ```
//! The first byte is the one that keeps hashes of entries apart from others (`digest`), so the hash of an entry is the
//! hash of its stored bytes.
//!
//! What must never happen: two entries with the same bytes, or one entry with two. Decoding accepts only what encoding
//! gives.

use crate::bytes::{Malformed, Reader, Writer};
use crate::digest::{ENTRY, sha256};
use fantail_ports::audit::{ChainId, Digest, Entry, Kind, Sequence};
use fantail_rules::ids::{Millis, PartitionId, Position, TenantId};
use fantail_rules::limits::AUDIT_BODY_BYTES_MAX;
use thiserror::Error;

pub const FORMAT: u8 = 1;
pub const HEADER_BYTES: usize = 68;

#[must_use]
pub fn encode(entry: &Entry) -> Vec<u8> {
    assert!(entry.body.len() <= AUDIT_BODY_BYTES_MAX, "a body has a limit");
    let body_bytes = u16::try_from(entry.body.len()).expect("AUDIT_BODY_BYTES_MAX is below 2^16");
    let mut bytes = Writer(Vec::with_capacity(HEADER_BYTES + entry.body.len()));
    bytes.u8(ENTRY).u8(FORMAT).u8(entry.kind.0).u8(0);
    bytes.u32(entry.chain.tenant.0).u16(entry.chain.partition.code()).u16(body_bytes);
    bytes.u64(entry.sequence.0).u64(entry.position.0).u64(entry.at.0);
    bytes.bytes(&entry.previous.0).bytes(&entry.body);
    bytes.0
}

pub fn decode(bytes: &[u8]) -> Result<Entry, EntryError> {
    let header = Header::read(bytes)?;
    let body = &bytes[HEADER_BYTES..];
    if header.zero != 0 || body.len() != usize::from(header.body_bytes) || body.len() > AUDIT_BODY_BYTES_MAX {
        return Err(EntryError::Malformed);
    }
    let Header { chain, sequence, position, at, kind, previous, .. } = header;
    Ok(Entry { chain, sequence, position, at, kind, body: body.to_vec(), previous })
}

/// What readers need to know of an entry before they want the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peek {
    pub chain: ChainId,
    pub sequence: Sequence,
    pub at: Millis,
}

/// Looks at an entry without copying it.
pub fn peek(bytes: &[u8]) -> Result<Peek, EntryError> {
    let Header { chain, sequence, at, .. } = Header::read(bytes)?;
    Ok(Peek { chain, sequence, at })
}

struct Header {
    kind: Kind,
    zero: u8,
    chain: ChainId,
    body_bytes: u16,
    sequence: Sequence,
    position: Position,
    at: Millis,
    previous: Digest,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self, EntryError> {
        let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(EntryError::Malformed)?;
        match header[..2] {
            [ENTRY, FORMAT] => {}
            [ENTRY, found] => return Err(EntryError::UnknownFormat { found }),
            _ => return Err(EntryError::Malformed),
        }
        Self::read_parts(Reader::new(&header[2..])).map_err(|Malformed| EntryError::Malformed)
    }

    fn read_parts(mut header: Reader<'_>) -> Result<Self, Malformed> {
        let (kind, zero) = (Kind(header.u8()?), header.u8()?);
        let tenant = TenantId(header.u32()?);
        let partition = PartitionId::from_code(header.u16()?).ok_or(Malformed)?;
        Ok(Self {
            kind,
            zero,
            chain: ChainId { tenant, partition },
            body_bytes: header.u16()?,
            sequence: Sequence(header.u64()?),
            position: Position(header.u64()?),
            at: Millis(header.u64()?),
            previous: Digest(header.array()?),
        })
    }
}

#[must_use]
pub fn hash(entry: &Entry) -> Digest {
    hash_of(&encode(entry))
}

/// The hash of an entry by its stored bytes.
#[must_use]
pub fn hash_of(bytes: &[u8]) -> Digest {
    sha256(bytes)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum EntryError {
    #[error("not the bytes of an entry")]
    Malformed,
    #[error("entry has format {found}, this build reads {FORMAT}")]
    UnknownFormat { found: u8 },
}
