//! The end of the last, unsealed segment: zeros, a write that the crash cut off, or damage.
//!
//! One block is written and synced before the next one is begun. So a crash can cut off only the last one, and a
//! sound block behind an unsound one means that a synced block is no longer what it was.
//!
//! What must never happen: bytes that are cut without being saved aside first, or damage that is taken for a
//! torn tail and cut.

use super::damage::Place;
use super::format::{BlockHeader, SECTOR};
use super::scan::Scan;
use super::segment::Found;
use crate::disk::{Disk, How, read_full_at, write_all_at};
use fantail_ports::journal::JournalError;
use std::io;
use std::path::{Path, PathBuf};

const CHUNK_BYTES: usize = 1 << 20;
const ZEROS: [u8; SECTOR] = [0; SECTOR];

/// What was found behind the last sound block and cut off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornTail {
    pub file: String,
    pub offset: u64,
    /// Without the zeros at the end.
    pub bytes: u64,
    pub reason: String,
    /// The file that keeps the bytes.
    pub saved_as: String,
}

/// Where un-synced bytes end, if there are any behind the sound blocks. A sound block among them is damage.
pub fn find_tail(found: &Found, scan: &Scan) -> Result<Option<u64>, JournalError> {
    let place = Place::new(&found.path);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = scan.end;
    let mut tail_end = None;
    loop {
        let count = read_full_at(&*found.file, offset, &mut chunk).map_err(|error| place.failed(&error))?;
        for (number, sector) in chunk[..count].chunks(SECTOR).enumerate() {
            // Nearly all of it was never written to, and a start after a crash waits for this.
            if *sector == ZEROS[..sector.len()] {
                continue;
            }
            let last = sector.iter().rposition(|byte| *byte != 0).expect("a byte of it is not zero");
            let sector_offset = offset + (number * SECTOR) as u64;
            tail_end = Some(sector_offset + last as u64 + 1);
            if sector_offset > scan.end && is_later_block(sector, found.header.salt(), scan.expected.number) {
                let reason = scan.stopped.unwrap_or("the block is gone");
                let reason = format!("{reason}, but a later block is sound at offset {sector_offset}");
                return Err(place.damaged(scan.end, reason));
            }
        }
        if count < chunk.len() {
            return Ok(tail_end);
        }
        offset += count as u64;
    }
}

fn is_later_block(sector: &[u8], salt: u64, expected: u64) -> bool {
    BlockHeader::decode(sector).is_ok_and(|header| header.salt == salt && header.number >= expected)
}

/// Saves the tail aside, durably, then writes zeros over it, durably. The file keeps its length: a shorter one was cut by
/// something else.
pub fn cut_tail(
    disk: &dyn Disk,
    dir: &Path,
    found: &Found,
    scan: &Scan,
    tail_end: u64,
) -> Result<TornTail, JournalError> {
    let saved = free_name(disk, dir, &found.path)?;
    copy(disk, found, scan.end, tail_end, &saved).map_err(|error| Place::new(&saved).failed(&error))?;
    disk.sync_dir(dir).map_err(|error| Place::new(dir).failed(&error))?;
    let cut = write_zeros(found, scan.end, tail_end).and_then(|()| found.file.sync_data());
    let place = Place::new(&found.path);
    cut.map_err(|error| place.failed(&error))?;
    Ok(TornTail {
        file: place.file(),
        offset: scan.end,
        bytes: tail_end - scan.end,
        reason: scan.stopped.unwrap_or("bytes behind the last block").to_owned(),
        saved_as: Place::new(&saved).file(),
    })
}

fn write_zeros(found: &Found, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; CHUNK_BYTES];
    let mut offset = from;
    while offset < to {
        let count = usize::try_from(to - offset).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        write_all_at(&*found.file, offset, &zeros[..count])?;
        offset += count as u64;
    }
    Ok(())
}

fn free_name(disk: &dyn Disk, dir: &Path, segment: &Path) -> Result<PathBuf, JournalError> {
    let names = disk.list(dir).map_err(|error| Place::new(dir).failed(&error))?;
    let segment = segment.file_name().unwrap_or_default().to_string_lossy();
    let free = (1u64..).map(|number| format!("{segment}.torn-{number}")).find(|name| !names.contains(name));
    Ok(dir.join(free.expect("a directory holds fewer than 2^64 names")))
}

fn copy(disk: &dyn Disk, found: &Found, from: u64, to: u64, path: &Path) -> io::Result<()> {
    let saved = disk.open(path, How::Create)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = from;
    while offset < to {
        let wanted = usize::try_from(to - offset).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let count = read_full_at(&*found.file, offset, &mut chunk[..wanted])?;
        if count == 0 {
            break;
        }
        write_all_at(&*saved, offset - from, &chunk[..count])?;
        offset += count as u64;
    }
    saved.sync_data()
}
