//! Checkpoints beside the log, in a journal of their own: cutting the log does not cut them.
//!
//! ```text
//! part   number u64 | part u32 | parts u32 | bytes of the text …     little-endian; all parts in one append
//! ```
//! What must never happen: half a checkpoint. Its parts are appended together, so they are there together.

use super::strand::Strand;
use super::{Shared, held};
use fantail_ports::audit::{AppendError, AuditError, StoredCheckpoint};
use fantail_ports::journal::{ReadLimit, Record};
use fantail_rules::ids::Position;

/// A record of the journal takes twice as much.
const PART_BYTES: usize = 128 << 10;
/// A checkpoint that lists as many heads as it may has ten megabytes; an append takes sixteen.
const TEXT_BYTES_MAX: usize = 12 << 20;
const ONE: ReadLimit = ReadLimit { records: 1, bytes: 0 };

impl Shared {
    pub(super) fn put_checkpoint(&self, checkpoint: &StoredCheckpoint) -> Result<(), AppendError> {
        let _one_at_a_time = held(&self.writing);
        let last = held(&self.state).checkpoint;
        if checkpoint.number != last + 1 {
            let (what, after) = ("the checkpoints".to_owned(), checkpoint.number.saturating_sub(1));
            return Err(AppendError::OutOfOrder { what, after, expected: last });
        }
        let (what, found) = ("the text of a checkpoint", checkpoint.text.len());
        if found > TEXT_BYTES_MAX {
            return Err(AppendError::TooLarge { what, found, max: TEXT_BYTES_MAX });
        }
        self.checkpoints.append(encode(checkpoint))?;
        held(&self.state).checkpoint = checkpoint.number;
        Ok(())
    }

    pub(super) fn checkpoints(
        &self,
        from: u64,
        limit: ReadLimit,
    ) -> Result<Vec<StoredCheckpoint>, AuditError> {
        let mut taken: Vec<StoredCheckpoint> = Vec::new();
        let mut bytes = 0;
        let mut position = find(&self.checkpoints, from)?;
        while taken.is_empty() || (taken.len() < limit.records && bytes < limit.bytes) {
            let Some((checkpoint, next)) = read(&self.checkpoints, position)? else { break };
            bytes = checkpoint.text.len().saturating_add(bytes);
            if bytes > limit.bytes && !taken.is_empty() {
                break;
            }
            taken.push(checkpoint);
            position = next;
        }
        Ok(taken)
    }
}

/// The number of the last checkpoint; 0 if there is none.
pub fn last_number(strand: &Strand) -> Result<u64, AuditError> {
    match strand.read(Position(strand.next().0 - 1), ONE)?.first() {
        None => Ok(0),
        Some(record) => Ok(part(strand, record)?.number),
    }
}

/// Puts checkpoints together from the records of their journal, in order, for whoever walks its files.
#[derive(Default)]
pub struct Assembly {
    text: Vec<u8>,
}

impl Assembly {
    /// Takes the next record; gives the checkpoint if that was its last part. `None` for bytes that are no such part.
    pub fn take(&mut self, record: &[u8]) -> Option<Option<StoredCheckpoint>> {
        let part = Part::decode(record)?;
        if part.part == 0 {
            self.text.clear();
        }
        self.text.extend_from_slice(part.bytes);
        if part.part + 1 < part.parts {
            return Some(None);
        }
        let text = String::from_utf8(std::mem::take(&mut self.text)).ok()?;
        Some(Some(StoredCheckpoint { number: part.number, text }))
    }
}

fn encode(checkpoint: &StoredCheckpoint) -> Vec<Vec<u8>> {
    let chunks: Vec<&[u8]> = match checkpoint.text.as_bytes() {
        [] => vec![&[]],
        text => text.chunks(PART_BYTES).collect(),
    };
    let parts = u32::try_from(chunks.len()).expect("TEXT_BYTES_MAX has fewer than 2^32 parts");
    let encode = |(part, chunk): (u32, &&[u8])| {
        [&checkpoint.number.to_le_bytes()[..], &part.to_le_bytes(), &parts.to_le_bytes(), chunk].concat()
    };
    (0..).zip(&chunks).map(encode).collect()
}

struct Part<'a> {
    number: u64,
    part: u32,
    parts: u32,
    bytes: &'a [u8],
}

impl<'a> Part<'a> {
    fn decode(record: &'a [u8]) -> Option<Self> {
        let (number, rest) = record.split_first_chunk()?;
        let (part, rest) = rest.split_first_chunk()?;
        let (parts, bytes) = rest.split_first_chunk()?;
        let (part, parts) = (u32::from_le_bytes(*part), u32::from_le_bytes(*parts));
        (part < parts).then_some(Self { number: u64::from_le_bytes(*number), part, parts, bytes })
    }
}

fn part<'a>(strand: &Strand, record: &'a Record) -> Result<Part<'a>, AuditError> {
    Part::decode(&record.bytes)
        .ok_or_else(|| strand.damaged(record.position, "it is not a part of a checkpoint"))
}

/// Where the first checkpoint with this number or a later one begins. Numbers ascend with positions.
fn find(strand: &Strand, number: u64) -> Result<Position, AuditError> {
    let (mut low, mut high) = (1, strand.next().0);
    while low < high {
        let middle = low + (high - low) / 2;
        let records = strand.read(Position(middle), ONE)?;
        let record = records.first().ok_or_else(|| strand.damaged(Position(middle), "it is gone"))?;
        if part(strand, record)?.number < number { low = middle + 1 } else { high = middle }
    }
    Ok(Position(low))
}

/// The checkpoint that begins at a position, and where the next one begins.
fn read(strand: &Strand, from: Position) -> Result<Option<(StoredCheckpoint, Position)>, AuditError> {
    let (mut assembly, mut position) = (Assembly::default(), from);
    loop {
        let records = strand.read(position, ONE)?;
        let Some(record) = records.first() else { return Ok(None) };
        let taken = assembly.take(&record.bytes);
        let taken =
            taken.ok_or_else(|| strand.damaged(record.position, "it is not a part of a checkpoint"))?;
        position = position.next();
        if let Some(checkpoint) = taken {
            return Ok(Some((checkpoint, position)));
        }
    }
}
