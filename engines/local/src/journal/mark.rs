//! The mark of a journal: a small file beside its directory that says which segments must be there, and how long the last
//! one is at least. Without it a journal whose newest segment was deleted, or cut at the end of a block, looks like a
//! shorter journal.
//!
//! ```text
//! mark   "FANTMARK" format:4 crc:4 first:8 segment:8 bytes:8 next-block:8        crc of what follows it; little-endian
//! ```
//! `first` and `segment` are the oldest and the newest segment, `bytes` is the least length of the newest while it is not
//! sealed, `next-block` the number of the block behind its last certain one. Replaced whole: written beside, synced,
//! renamed, the directory synced.
//!
//! Invariant: a mark never says more than what is durable. It is written after what it speaks of; if the disk is full then, the
//! one before says less and is as true. For trimming it is written before a segment is removed, which stays if the disk is
//! full: the mark before would name what is gone. A journal without a mark (older than marks, or copied by hand) is taken as it
//! is.

use super::damage::Place;
use super::format::u64_at;
use super::scan::Scan;
use super::segment::{Found, segment_name};
use crate::disk::{Disk, How, read_full_at, write_all_at};
use fantail_ports::journal::JournalError;
use std::io;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"FANTMARK";
const FORMAT: u32 = 1;
const BYTES: usize = 48;
const NEW_SUFFIX: &str = "mark.new";

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mark {
    /// The oldest segment.
    pub first: u64,
    /// The newest segment.
    pub segment: u64,
    /// How long the newest is at least, unless it is sealed.
    pub bytes: u64,
    /// The number of the block behind those that are certain.
    pub next_block: u64,
}

/// Where the mark of a journal's directory lies: beside it, so that it outlives the directory.
#[must_use]
pub fn mark_path(dir: &Path) -> PathBuf {
    dir.with_extension("mark")
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Mark {
    /// The mark of a directory, if there is one.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, JournalError> {
        let path = mark_path(dir);
        let place = Place::new(&path);
        let file = match disk.open(&path, How::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(place.failed(&error)),
        };
        let mut bytes = [0; BYTES + 1];
        let count = read_full_at(&*file, 0, &mut bytes).map_err(|error| place.failed(&error))?;
        Self::decode(&bytes[..count], &place).map(Some)
    }

    fn decode(bytes: &[u8], place: &Place<'_>) -> Result<Self, JournalError> {
        if bytes.len() != BYTES || bytes[..8] != *MAGIC {
            return Err(place.damaged(0, "not the mark of a journal"));
        }
        let head = u64_at(bytes, 8);
        let (format, crc) = (head as u32, (head >> 32) as u32);
        if checksum(format, &bytes[16..]) != crc {
            return Err(place.damaged(12, "the mark does not match its checksum"));
        }
        if format > FORMAT {
            return Err(JournalError::NewerFormat { file: place.file(), found: format, known: FORMAT });
        }
        Ok(Self {
            first: u64_at(bytes, 16),
            segment: u64_at(bytes, 24),
            bytes: u64_at(bytes, 32),
            next_block: u64_at(bytes, 40),
        })
    }

    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let numbers = [self.first, self.segment, self.bytes, self.next_block];
        let body: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let crc = checksum(FORMAT, &body);
        [&MAGIC[..], &FORMAT.to_le_bytes(), &crc.to_le_bytes(), &body].concat()
    }

    /// Durable on return. A full disk keeps the mark before.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        let path = mark_path(dir);
        let beside = dir.with_extension(NEW_SUFFIX);
        let file = disk.open(&beside, How::Create)?;
        write_all_at(&*file, 0, &self.encode())?;
        file.sync_data()?;
        disk.rename(&beside, &path)?;
        disk.sync_dir(parent(&path))
    }

    /// Whether all segments that must be there are; a journal without a mark has the default. `numbers` ascend without a gap.
    pub fn check_numbers(&self, dir: &Path, numbers: &[u64]) -> Result<(), JournalError> {
        if *self == Self::default() {
            return Ok(());
        }
        let missing = match (numbers.first(), numbers.last()) {
            (Some(first), _) if *first > self.first => self.first,
            (_, Some(last)) if *last >= self.segment => return Ok(()),
            (_, Some(last)) => last + 1,
            (_, None) => self.first,
        };
        Err(Place::new(&dir.join(segment_name(missing))).damaged(0, "the segment is missing"))
    }

    /// Whether the last segment, which is not sealed, still has everything that was certain when the mark was written.
    pub fn check_last(&self, found: &Found, scan: &Scan) -> Result<(), JournalError> {
        let place = Place::new(&found.path);
        // A segment that was begun last may not be marked yet.
        if found.header.segment != self.segment {
            return Ok(());
        }
        if found.file_bytes < self.bytes {
            let reason =
                format!("the file has {} bytes and had {}: it was cut", found.file_bytes, self.bytes);
            return Err(place.damaged(found.file_bytes, reason));
        }
        if scan.expected.number < self.next_block {
            let (next, was) = (scan.expected.number, self.next_block);
            let reason = format!("the blocks from {next} on are gone, those before {was} were certain");
            return Err(place.damaged(scan.end, reason));
        }
        Ok(())
    }
}

/// `false`: the disk is full, and the mark before stays. For a mark that says more than the one before.
pub fn unless_full(written: io::Result<()>) -> io::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(false),
        Err(error) => Err(error),
    }
}

/// Of the format and the body: a flip in either is seen.
fn checksum(format: u32, body: &[u8]) -> u32 {
    crc32fast::hash(&[&format.to_le_bytes()[..], body].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark { first: 2, segment: 7, bytes: 4_096, next_block: 19 };

    #[test]
    fn marks_round_trip_and_their_layout_is_frozen() {
        let path = Path::new("/data/journal.mark");
        let bytes = MARK.encode();
        assert_eq!(Mark::decode(&bytes, &Place::new(path)), Ok(MARK));
        let body = b"\x02\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\x13\0\0\0\0\0\0\0";
        assert_eq!((&bytes[..12], &bytes[16..]), (&b"FANTMARK\x01\0\0\0"[..], &body[..]));
        assert_eq!(mark_path(Path::new("/data/journal")), path);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let error = Mark::decode(&flipped, &Place::new(path)).expect_err("a flip is seen");
            assert!(
                matches!(&error, JournalError::Damaged { file, .. } if Path::new(file) == path),
                "{error}"
            );
        }
        assert!(Mark::decode(&bytes[..47], &Place::new(path)).is_err());
    }

    #[test]
    fn segments_that_must_be_there_are_named() {
        let missing = |numbers: &[u64]| match MARK.check_numbers(Path::new("/d"), numbers) {
            Err(JournalError::Damaged { file, .. }) => file,
            Ok(()) => String::new(),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(missing(&[2, 3, 4, 5, 6, 7]), "");
        assert_eq!(missing(&[1, 2, 3, 4, 5, 6, 7, 8]), "", "trimming and beginning may be under way");
        assert_eq!(missing(&[3, 4, 5, 6, 7]), format!("/d/{}", segment_name(2)));
        assert_eq!(missing(&[2, 3, 4]), format!("/d/{}", segment_name(5)));
        assert_eq!(missing(&[]), format!("/d/{}", segment_name(2)));
    }
}
