//! The contents of a run: which tenants and blocks, where they lie, and the filter. Small; kept in memory.
//!
//! ```text
//! contents     sections section* words word:8* end-of-blocks
//! section      tenant after through−after entries blocks block-entry*
//! block-entry  user−previous first bytes entries     `first`: the offset of the first entry
//! ```
//! Words are little-endian, all other numbers packed.

use super::filter::Filter;
use super::numbers;
use super::run::{BLOCK_CRC_BYTES, HEADER_BYTES, array};
use fantail_rules::ids::{Arrival, TenantId};
use std::ops::Range;

/// What a run holds, and where.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct Contents {
    pub sections: Vec<Section>,
    pub filter: Filter,
    pub blocks: Vec<BlockEntry>,
    pub blocks_end: u64,
}

impl Contents {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        numbers::put(&mut out, self.sections.len() as u64);
        for section in &self.sections {
            numbers::put(&mut out, u64::from(section.tenant.0));
            numbers::put(&mut out, section.after.0);
            numbers::put(&mut out, section.through.0 - section.after.0);
            numbers::put(&mut out, section.entries);
            numbers::put(&mut out, section.blocks.len() as u64);
            let mut user = 0;
            for at in section.blocks.clone() {
                let block = self.blocks[at];
                let (bytes, entries) = match self.blocks.get(at + 1).filter(|_| at + 1 < section.blocks.end) {
                    Some(next) => (next.at - block.at, next.ordinal - block.ordinal),
                    None => (self.end_of(at) - block.at, section.entries - block.ordinal),
                };
                for number in [block.user - user, block.first, bytes, entries] {
                    numbers::put(&mut out, number);
                }
                user = block.user;
            }
        }
        numbers::put(&mut out, self.filter.words().len() as u64);
        self.filter.words().iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        numbers::put(&mut out, self.blocks_end);
        out
    }

    fn end_of(&self, block: usize) -> u64 {
        self.blocks.get(block + 1).map_or(self.blocks_end, |next| next.at)
    }

    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let (mut contents, bytes) = (Self::default(), &mut bytes);
        let mut file_at = HEADER_BYTES;
        for _ in 0..numbers::take(bytes)? {
            let tenant = TenantId(u32::try_from(numbers::take(bytes)?).ok()?);
            let after = numbers::take(bytes)?;
            let width = numbers::take(bytes)?;
            let through = after.checked_add(width)?;
            let (entries, count) = (numbers::take(bytes)?, numbers::take(bytes)?);
            let (first_block, mut user, mut ordinal) = (contents.blocks.len(), 0u64, 0u64);
            for _ in 0..count {
                user = user.checked_add(numbers::take(bytes)?)?;
                let first = numbers::take(bytes).filter(|first| *first <= width)?;
                contents.blocks.push(BlockEntry { user, first, at: file_at, ordinal });
                let (block_bytes, block_entries) = (numbers::take(bytes)?, numbers::take(bytes)?);
                file_at =
                    file_at.checked_add(block_bytes).filter(|_| block_bytes > BLOCK_CRC_BYTES as u64)?;
                ordinal = ordinal.checked_add(block_entries)?;
            }
            let follows = contents.sections.last().is_none_or(|last: &Section| last.tenant < tenant);
            if ordinal != entries || !follows {
                return None;
            }
            let blocks = first_block..contents.blocks.len();
            let (after, through) = (Arrival(after), Arrival(through));
            contents.sections.push(Section { tenant, after, through, entries, blocks });
        }
        let words = usize::try_from(numbers::take(bytes)?).ok()?;
        let (filter, rest) = bytes.split_at_checked(words.checked_mul(8)?)?;
        let words = filter.chunks_exact(8).map(|word| u64::from_le_bytes(array(word))).collect();
        (contents.filter, *bytes) = (Filter::from_words(words)?, rest);
        contents.blocks_end = numbers::take(bytes)?;
        (bytes.is_empty() && contents.blocks_end == file_at).then_some(contents)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    pub tenant: TenantId,
    pub after: Arrival,
    pub through: Arrival,
    pub entries: u64,
    /// Among the run's blocks.
    pub blocks: Range<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockEntry {
    pub user: u64,
    /// Offset of its first entry above the section's base.
    pub first: u64,
    /// Where it begins in the file.
    pub at: u64,
    /// Entries of the section before it.
    pub ordinal: u64,
}
