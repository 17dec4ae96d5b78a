//! For operators: walks all segments without the lock and without writing, and says what is there.
//!
//! Used by `fantail journal verify` and `fantail journal dump`. A journal that is being written can be walked too; its
//! last block may then look torn.

use super::damage::Place;
use super::format::Kind;
use super::mark::Mark;
use super::recover::{check_link, check_opening};
use super::scan::{Scan, scan};
use super::segment::{Found, segment_numbers};
use super::torn::find_tail;
use super::walk::{BlockView, Step, Walk};
use crate::disk::{Disk, How};
use fantail_ports::journal::JournalError;
use fantail_rules::ids::{Epoch, PartitionId, Position};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

/// What a walk over the whole journal found.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub segments: u64,
    pub blocks: u64,
    pub bytes: u64,
    pub records: BTreeMap<PartitionId, u64>,
    /// The last segment was sealed by a clean stop.
    pub sealed: bool,
    /// Bytes behind the last block of an unsealed segment: (file, offset, bytes). Opening saves them aside.
    pub torn_tail: Option<(String, u64, u64)>,
    /// The first place that is not what was written. The counts cover what comes before it.
    pub damage: Option<JournalError>,
}

/// Checks every block of every segment.
#[must_use]
pub fn verify(disk: &dyn Disk, dir: &Path) -> Verdict {
    let mut verdict = Verdict::default();
    if let Err(damage) = verify_all(disk, dir, &mut verdict) {
        verdict.damage = Some(damage);
    }
    verdict
}

fn verify_all(disk: &dyn Disk, dir: &Path, verdict: &mut Verdict) -> Result<(), JournalError> {
    let mut before: Option<(Found, Scan)> = None;
    // Read first: a journal that is being written goes on meanwhile.
    let mark = Mark::read(disk, dir)?.unwrap_or_default();
    let numbers = segment_numbers(disk, dir)?;
    mark.check_numbers(dir, &numbers)?;
    for number in numbers {
        let found = Found::look(disk, dir, number, How::Read)?;
        if let Some((before, _)) = &before {
            check_link(before, &found)?;
        }
        let scan = verify_segment(&found, verdict)?;
        if let Some((_, before)) = &before {
            check_opening(&found, &scan, &before.standings)?;
        }
        before = Some((found, scan));
    }
    let Some((last, scan)) = before else { return Ok(()) };
    verdict.sealed = last.seal.is_some();
    if !verdict.sealed {
        mark.check_last(&last, &scan)?;
    }
    if !verdict.sealed
        && let Some(end) = find_tail(&last, &scan)?
    {
        verdict.torn_tail = Some((Place::new(&last.path).file(), scan.end, end - scan.end));
    }
    Ok(())
}

fn verify_segment(found: &Found, verdict: &mut Verdict) -> Result<Scan, JournalError> {
    let scan = scan(found)?;
    verdict.segments += 1;
    verdict.blocks += scan.blocks;
    verdict.bytes += scan.end;
    for (code, count) in &scan.records {
        let partition = PartitionId::from_code(*code);
        let partition = partition
            .ok_or_else(|| Place::new(&found.path).damaged(0, format!("unknown partition {code:#x}")))?;
        *verdict.records.entry(partition).or_default() += count;
    }
    Ok(scan)
}

/// Every record of the journal in the order of the files, until the end or the first damage.
pub fn dump<'a>(disk: &'a dyn Disk, dir: &'a Path) -> Result<Dump<'a>, JournalError> {
    Ok(Dump { disk, dir, segments: segment_numbers(disk, dir)?.into(), records: VecDeque::new(), at: None })
}

/// All segments, ascending, each with whether it is sealed and so never changes again. A dump ends before the seal.
pub fn segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<(u64, bool)>, JournalError> {
    let look = |number: u64| Ok((number, Found::look(disk, dir, number, How::Read)?.seal.is_some()));
    segment_numbers(disk, dir)?.into_iter().map(look).collect()
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DumpedRecord {
    pub segment: u64,
    /// Where the block starts.
    pub offset: u64,
    pub block: u64,
    pub kind: DumpKind,
    /// `None` for a number that this build does not know.
    pub partition: Option<PartitionId>,
    pub epoch: Epoch,
    pub position: Position,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DumpKind {
    Data,
    Fence,
    /// How the partition stood when the segment was begun.
    State,
    Footer,
}

pub struct Dump<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    segments: VecDeque<u64>,
    /// Of the current block.
    records: VecDeque<DumpedRecord>,
    at: Option<At>,
}

/// The segment that is being walked.
struct At {
    segment: u64,
    path: PathBuf,
    sealed: bool,
    walk: Walk,
}

impl Iterator for Dump<'_> {
    type Item = Result<DumpedRecord, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.records.pop_front() {
                return Some(Ok(record));
            }
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.at = None;
                    self.segments.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}

impl Dump<'_> {
    /// Goes to the next block or segment; false at the end.
    fn advance(&mut self) -> Result<bool, JournalError> {
        let Some(at) = &mut self.at else {
            let Some(segment) = self.segments.pop_front() else { return Ok(false) };
            let found = Found::look(self.disk, self.dir, segment, How::Read)?;
            self.at =
                Some(At { segment, walk: found.walk(), sealed: found.seal.is_some(), path: found.path });
            return Ok(true);
        };
        let place = Place::new(&at.path);
        let offset = at.walk.offset;
        match at.walk.step().map_err(|error| place.failed(&error))? {
            Step::Block(view) => {
                self.records.extend(dumped(at.segment, &view));
                Ok(true)
            }
            Step::Bad(reason) if at.sealed => Err(place.damaged(offset, reason)),
            Step::Foreign(reason) => Err(place.damaged(offset, reason)),
            Step::End | Step::Bad(_) => {
                self.at = None;
                Ok(true)
            }
        }
    }
}

fn dumped(segment: u64, view: &BlockView<'_>) -> Vec<DumpedRecord> {
    let record = |record: super::block::RecordView<'_>| DumpedRecord {
        segment,
        offset: view.offset,
        block: view.header.number,
        kind: match record.header.kind {
            Kind::Data => DumpKind::Data,
            Kind::Fence => DumpKind::Fence,
            Kind::State => DumpKind::State,
            Kind::Footer => DumpKind::Footer,
        },
        partition: PartitionId::from_code(record.header.partition),
        epoch: Epoch(record.header.epoch),
        position: Position(record.header.position),
        bytes: record.bytes.to_vec(),
    };
    view.records().map(record).collect()
}
