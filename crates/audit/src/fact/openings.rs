//! The leaves behind a root, with their veiled openings (`opening`). Follows the entry that commits to them, in pieces
//! that fit into a body.
//!
//! ```text
//! openings  kind u8 | first index u32 | count u16 | veiled [76] each
//! ```

use super::{EncodeError, check_length};
use crate::bytes::{Malformed, Reader, Writer};
use crate::member::Member;
use crate::opening::{VEILED_BYTES, Veiled};
use fantail_ports::audit::{Digest, Kind};
use fantail_rules::limits::AUDIT_BODY_BYTES_MAX;

/// Some of the leaves that the entry of this kind, derived from the same record, commits to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Openings {
    pub of: Kind,
    /// The place of the first of these among all.
    pub first: u32,
    pub veiled: Vec<Veiled>,
}

/// How many fit into a body.
pub const OPENINGS_MAX: usize = (AUDIT_BODY_BYTES_MAX - 7) / VEILED_BYTES;

impl Openings {
    /// All members, in their order.
    pub fn of(kind: Kind, members: &[Member]) -> impl Iterator<Item = Self> {
        let pieces = (0u32..).step_by(OPENINGS_MAX).zip(members.chunks(OPENINGS_MAX));
        pieces.map(move |(first, piece)| Self {
            of: kind,
            first,
            veiled: piece.iter().map(Veiled::of).collect(),
        })
    }

    pub(super) fn check_lengths(&self) -> Result<(), EncodeError> {
        check_length("openings", self.veiled.len() * VEILED_BYTES, OPENINGS_MAX * VEILED_BYTES)
    }

    pub(super) fn write(&self, body: &mut Writer) {
        let count = u16::try_from(self.veiled.len()).expect("OPENINGS_MAX is below 2^16");
        body.u8(self.of.0).u32(self.first).u16(count);
        for Veiled { leaf, opening } in &self.veiled {
            body.bytes(&leaf.0).bytes(opening);
        }
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (of, first, count) = (Kind(body.u8()?), body.u32()?, body.u16()?);
        if usize::from(count) > OPENINGS_MAX {
            return Err(Malformed);
        }
        let veiled = (0..count).map(|_| Ok(Veiled { leaf: Digest(body.array()?), opening: body.array()? }));
        Ok(Self { of, first, veiled: veiled.collect::<Result<_, _>>()? })
    }
}
