//! Walks the blocks of one segment file in order and checks each as a whole.
//!
//! Comes from: recovery, verification, dumps and cold reads. Decides: whether the bytes at an offset are the block
//! that belongs there. Deliberately not here: what follows from a bad one (see `torn`).

use super::block::{RecordView, records};
use super::format::{BLOCK_HEADER_BYTES, BlockHeader, Chain, chain_of};
use crate::disk::{DiskFile, read_full_at};
use std::io;
use std::sync::Arc;

/// Read at a time; most blocks are far smaller.
const WINDOW_BYTES: usize = 256 << 10;

pub struct Walk {
    file: Arc<dyn DiskFile>,
    salt: u64,
    /// Where the next block is expected.
    pub offset: u64,
    /// No block reaches beyond this offset.
    end: u64,
    /// Number and predecessor of the next block; unknown when a walk starts in the middle.
    expected: Option<Expected>,
    window: Vec<u8>,
    window_offset: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    pub number: u64,
    pub previous: Chain,
}

pub enum Step<'a> {
    Block(BlockView<'a>),
    /// The walk came to its end exactly.
    End,
    /// No whole block is here: perhaps a write that was cut off, perhaps damage.
    Bad(&'static str),
    /// A block with a sound header is here, but not the one that belongs here. No cut-off write looks like that.
    Foreign(&'static str),
}

/// A block whose header, records and place in the chain were checked.
pub struct BlockView<'a> {
    pub offset: u64,
    pub header: BlockHeader,
    pub bytes: &'a [u8],
}

impl BlockView<'_> {
    pub fn records(&self) -> impl Iterator<Item = RecordView<'_>> {
        records(&self.header, self.bytes).filter_map(Result::ok)
    }

    /// Padding is under the hash of the next block. A footer is the last one, so its padding is looked at.
    #[must_use]
    pub fn is_padded_with_zeros(&self) -> bool {
        self.bytes[BLOCK_HEADER_BYTES + self.header.body_bytes..].iter().all(|byte| *byte == 0)
    }
}

impl Walk {
    /// Walks from a block whose number and predecessor are known, and checks the chain.
    pub fn checked(file: Arc<dyn DiskFile>, salt: u64, offset: u64, end: u64, expected: Expected) -> Self {
        Self { file, salt, offset, end, expected: Some(expected), window: Vec::new(), window_offset: 0 }
    }

    /// Walks from any block, for readers: checksums only.
    pub fn from_middle(file: Arc<dyn DiskFile>, salt: u64, offset: u64, end: u64) -> Self {
        Self { file, salt, offset, end, expected: None, window: Vec::new(), window_offset: 0 }
    }

    /// Number and predecessor of the block after the last good one; `None` for readers in the middle.
    #[must_use]
    pub fn expected(&self) -> Option<&Expected> {
        self.expected.as_ref()
    }

    /// Steps over the next block if it is good; otherwise stays where it is.
    pub fn step(&mut self) -> io::Result<Step<'_>> {
        if self.offset == self.end {
            return Ok(Step::End);
        }
        self.fill(BLOCK_HEADER_BYTES)?;
        let header = match BlockHeader::decode(self.here()) {
            Ok(header) => header,
            Err(reason) => return Ok(Step::Bad(reason)),
        };
        if let Err(reason) = self.belongs(&header) {
            return Ok(Step::Foreign(reason));
        }
        let block_bytes = header.block_bytes();
        if self.offset + block_bytes as u64 > self.end {
            return Ok(Step::Bad("the file ends inside a block"));
        }
        self.fill(block_bytes)?;
        if self.here().len() < block_bytes {
            return Ok(Step::Bad("the file ends inside a block"));
        }
        if let Some(Err(reason)) = records(&header, self.here()).find(Result::is_err) {
            return Ok(Step::Bad(reason));
        }
        let offset = self.offset;
        let start = self.window_start();
        let bytes = &self.window[start..start + block_bytes];
        if let Some(expected) = &mut self.expected {
            *expected = Expected { number: header.number + 1, previous: chain_of(bytes) };
        }
        self.offset += block_bytes as u64;
        Ok(Step::Block(BlockView { offset, header, bytes }))
    }

    fn belongs(&self, header: &BlockHeader) -> Result<(), &'static str> {
        if header.salt != self.salt {
            return Err("block of another segment");
        }
        match &self.expected {
            Some(expected) if expected.number != header.number => Err("block number does not continue"),
            Some(expected) if expected.previous != header.previous => {
                Err("hash chain is broken: the block before is not what it was")
            }
            Some(_) | None => Ok(()),
        }
    }

    fn window_start(&self) -> usize {
        usize::try_from(self.offset - self.window_offset).expect("the window is in memory")
    }

    /// What is read of the file from the current offset on.
    fn here(&self) -> &[u8] {
        &self.window[self.window_start()..]
    }

    /// Sees to it that the window holds `wanted` bytes from the current offset, if the file has them.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        let window_end = self.window_offset + self.window.len() as u64;
        if self.offset >= self.window_offset && self.offset + wanted as u64 <= window_end {
            return Ok(());
        }
        let left = usize::try_from(self.end - self.offset).unwrap_or(usize::MAX);
        self.window.resize(wanted.max(WINDOW_BYTES).min(left), 0);
        self.window_offset = self.offset;
        let count = read_full_at(&*self.file, self.offset, &mut self.window)?;
        self.window.truncate(count);
        Ok(())
    }
}
