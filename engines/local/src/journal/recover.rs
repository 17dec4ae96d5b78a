//! Opening the journal: which segments are there, whether they are what was written, and where to go on.
//!
//! Sealed segments are taken by their footers, the newest ones verified block by block up to a budget. The last one,
//! if unsealed, is scanned; a torn tail is saved aside and cut (`torn`). Everything else that is not as it was written
//! refuses to open and names file and offset.
//!
//! What must never happen: going on behind bytes that only the page cache holds. A process whose sync failed may
//! have left such bytes, so what was written last is written once more and synced before it counts.

use super::catalog::SegmentEntry;
use super::damage::Place;
use super::format::{Chain, SECTOR};
use super::mark::{Mark, mark_path, unless_full};
use super::options::{JournalOptions, OpenReport};
use super::scan::{Scan, scan};
use super::segment::{Active, Found, NEW_SUFFIX, segment_numbers};
use super::standing::Standings;
use super::torn::{cut_tail, find_tail};
use super::walk::Expected;
use crate::disk::{Disk, How, read_full_at, write_all_at};
use aws_lc_rs::rand;
use fantail_ports::journal::JournalError;
use std::collections::VecDeque;
use std::io;
use std::path::Path;

/// The state of a journal that was opened.
pub struct Recovered {
    pub segments: VecDeque<SegmentEntry>,
    pub standings: Standings,
    /// The unsealed segment to go on with, if there is one.
    pub active: Option<Active>,
    pub next_segment: u64,
    pub expected: Expected,
    /// As it lies on the disk.
    pub mark: Mark,
    pub report: OpenReport,
}

pub fn recover(disk: &dyn Disk, dir: &Path, options: &JournalOptions) -> Result<Recovered, JournalError> {
    remove_unfinished(disk, dir)?;
    let numbers = segment_numbers(disk, dir)?;
    let marked = Mark::read(disk, dir)?;
    if let Some(mark) = &marked {
        mark.check_numbers(dir, &numbers)?;
    }
    let mut recovered = Recovered {
        segments: VecDeque::with_capacity(numbers.len()),
        standings: Standings::default(),
        active: None,
        next_segment: numbers.last().map_or(1, |last| last + 1),
        expected: Expected { number: 1, previous: genesis() },
        mark: marked.unwrap_or_default(),
        report: verify_newest(disk, dir, &numbers, options.verify_bytes_max)?,
    };
    let first = numbers.first().copied().unwrap_or_default();
    let mut last: Option<Found> = None;
    for number in numbers {
        let found = Found::look(disk, dir, number, How::Write)?;
        if let Some(before) = last.replace(found) {
            check_link(&before, last.as_ref().expect("a segment was just put there"))?;
            recovered.take_sealed(before);
        }
    }
    let Some(last) = last else { return Ok(recovered) };
    if let Some(seal) = &last.seal {
        // Its length too: the seal is found at the end of the file.
        let rewritten = last.file.set_len(last.file_bytes);
        let rewritten = rewritten.and_then(|()| write_again(&last, seal.offset, last.file_bytes));
        rewritten.map_err(|error| Place::new(&last.path).failed(&error))?;
        recovered.take_sealed(last);
    } else {
        recovered.resume(disk, dir, options, &last)?;
    }
    disk.sync_dir(dir).map_err(|error| Place::new(dir).failed(&error))?;
    recovered.set_mark(disk, dir, first)?;
    Ok(recovered)
}

/// The chain of a new journal starts with chance, so that nobody can make up a block of it beforehand.
fn genesis() -> Chain {
    let mut chain = [0; 32];
    rand::fill(&mut chain).expect("the system's random source does not fail once it is seeded");
    chain
}

/// Removes files that never became segments, durably: the next segment is begun under such a name, and what is
/// renamed then must be the new file in whatever order the directory keeps its changes.
fn remove_unfinished(disk: &dyn Disk, dir: &Path) -> Result<(), JournalError> {
    let names = disk.list(dir).map_err(|error| Place::new(dir).failed(&error))?;
    for name in names.iter().filter(|name| name.ends_with(NEW_SUFFIX)) {
        let path = dir.join(name);
        let removed = disk.remove(&path).and_then(|()| disk.sync_dir(dir));
        removed.map_err(|error| Place::new(&path).failed(&error))?;
    }
    Ok(())
}

/// All but the last segment are sealed, and each one continues the chain of the one before.
pub fn check_link(before: &Found, after: &Found) -> Result<(), JournalError> {
    let Some(seal) = &before.seal else {
        let end = before.file_bytes.saturating_sub(SECTOR as u64);
        return Err(
            Place::new(&before.path).damaged(end, "the seal of a segment that is not the last is gone")
        );
    };
    if seal.expected.number != after.header.first_block || seal.expected.previous != after.header.chain_before
    {
        return Err(Place::new(&after.path).damaged(24, "hash chain is broken between two segments"));
    }
    Ok(())
}

/// A segment must begin with the partitions as the one before left them.
pub fn check_opening(found: &Found, scan: &Scan, before: &Standings) -> Result<(), JournalError> {
    if scan.opening.agrees(before) {
        return Ok(());
    }
    Err(Place::new(&found.path).damaged(SECTOR as u64, "partitions do not continue the segment before"))
}

/// Scans sealed segments from the newest back, as far as the budget goes.
fn verify_newest(
    disk: &dyn Disk,
    dir: &Path,
    numbers: &[u64],
    bytes_max: u64,
) -> Result<OpenReport, JournalError> {
    let mut report = OpenReport { segments: numbers.len() as u64, clean: true, ..OpenReport::default() };
    for number in numbers.iter().rev() {
        let found = Found::look(disk, dir, *number, How::Read)?;
        if found.seal.is_none() {
            continue;
        }
        if report.verified_bytes + found.file_bytes > bytes_max {
            break;
        }
        scan(&found)?;
        report.verified_segments += 1;
        report.verified_bytes += found.file_bytes;
    }
    Ok(report)
}

impl Recovered {
    /// Writes down what the newest segment has now: what was rewritten and synced above.
    fn set_mark(&mut self, disk: &dyn Disk, dir: &Path, first: u64) -> Result<(), JournalError> {
        let segment = self.next_segment - 1;
        let mark = match &self.active {
            Some(active) => {
                let bytes = active.file.len().map_err(|error| Place::new(&active.path).failed(&error))?;
                Mark { first, segment, bytes, next_block: active.next_block }
            }
            // The last block of a sealed segment is its footer.
            None => Mark { first, segment, bytes: 0, next_block: self.expected.number - 1 },
        };
        if mark != self.mark {
            let written = unless_full(mark.write(disk, dir));
            if written.map_err(|error| Place::new(&mark_path(dir)).failed(&error))? {
                self.mark = mark;
            }
        }
        Ok(())
    }

    /// Takes a sealed segment by its footer.
    fn take_sealed(&mut self, found: Found) {
        let Some(seal) = found.seal else { return };
        self.segments.push_back(SegmentEntry {
            number: found.header.segment,
            path: found.path,
            salt: found.header.salt(),
            end: seal.offset,
            sealed: true,
            index: seal.footer.index,
        });
        self.standings = seal.footer.standings;
        self.expected = seal.expected;
    }

    /// Goes on with an unsealed segment: behind its last sound block.
    fn resume(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        options: &JournalOptions,
        found: &Found,
    ) -> Result<(), JournalError> {
        let scan = scan(found)?;
        self.mark.check_last(found, &scan)?;
        if !self.segments.is_empty() {
            check_opening(found, &scan, &self.standings)?;
        }
        if let Some(tail_end) = find_tail(found, &scan)? {
            self.report.torn_tail = Some(cut_tail(disk, dir, found, &scan, tail_end)?);
        }
        let ready = settle(found, &scan, options.segment_bytes);
        ready.map_err(|error| Place::new(&found.path).failed(&error))?;
        self.report.clean = false;
        self.active = Some(Active {
            segment: found.header.segment,
            path: found.path.clone(),
            file: found.file.clone(),
            salt: found.header.salt(),
            offset: scan.end,
            next_block: scan.expected.number,
            chain: scan.expected.previous,
        });
        self.segments.push_back(SegmentEntry {
            number: found.header.segment,
            path: found.path.clone(),
            salt: found.header.salt(),
            end: scan.end,
            sealed: false,
            index: scan.index,
        });
        self.standings = scan.standings;
        self.expected = scan.expected;
        Ok(())
    }
}

/// Makes the sound part of an unsealed segment certain, and its rest zeros.
fn settle(found: &Found, scan: &Scan, segment_bytes: u64) -> io::Result<()> {
    match found.file.preallocate(segment_bytes) {
        // A full disk can still be opened and read; appends are refused by the room check.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
        other => other?,
    }
    write_again(found, scan.last_block_offset, scan.end)
}

fn write_again(found: &Found, from: u64, to: u64) -> io::Result<()> {
    let length = usize::try_from(to - from).expect("a block is at most BLOCK_BYTES_MAX");
    let mut bytes = vec![0; length];
    let count = read_full_at(&*found.file, from, &mut bytes)?;
    write_all_at(&*found.file, from, &bytes[..count])?;
    found.file.sync_data()
}
