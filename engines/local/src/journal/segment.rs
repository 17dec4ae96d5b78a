//! Segment files: their names, how one is begun, sealed and looked at.
//!
//! What must never happen: a file under a segment's name without a sound header and opening block. Both are synced
//! under another name first, so a crash leaves either nothing or a `.new` file that recovery removes.

use super::block::{BlockBuilder, Link};
use super::damage::Place;
use super::footer::{self, Footer};
use super::format::{Chain, Kind, RecordHeader, SECTOR, SegmentHeader, Trailer, chain_of};
use super::index::SegmentIndex;
use super::standing::Standings;
use super::walk::{Expected, Step, Walk};
use crate::disk::{Disk, DiskFile, How, read_full_at, write_all_at};
use fantail_ports::journal::JournalError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const NEW_SUFFIX: &str = ".new";

#[must_use]
pub fn segment_name(number: u64) -> String {
    format!("journal-{number:016}.segment")
}

/// The number of a segment by its file name.
#[must_use]
pub fn segment_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("journal-")?.strip_suffix(".segment")?;
    let number = number.parse().ok()?;
    (segment_name(number) == name).then_some(number)
}

/// The numbers of all segments in a directory, in order. A gap is damage.
pub fn segment_numbers(disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>, JournalError> {
    let names = disk.list(dir).map_err(|error| Place::new(dir).failed(&error))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    match numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
        None => Ok(numbers),
        Some(pair) => {
            let missing = dir.join(segment_name(pair[0] + 1));
            Err(Place::new(&missing).damaged(0, "the segment is missing between others"))
        }
    }
}

/// What a segment is begun with.
pub struct Begin<'a> {
    pub disk: &'a dyn Disk,
    pub dir: &'a Path,
    pub segment: u64,
    pub first_block: u64,
    pub chain: Chain,
    pub segment_bytes: u64,
    pub standings: &'a Standings,
}

/// The segment that is written to.
pub struct Active {
    pub segment: u64,
    pub path: PathBuf,
    pub file: Arc<dyn DiskFile>,
    pub salt: u64,
    /// Where the next block goes.
    pub offset: u64,
    pub next_block: u64,
    pub chain: Chain,
}

impl Begin<'_> {
    /// Creates the segment durably, with one opening block that says how all partitions stand.
    pub fn create(self, block: &mut BlockBuilder) -> io::Result<Active> {
        let path = self.dir.join(segment_name(self.segment));
        let new_path = self.dir.join(format!("{}{NEW_SUFFIX}", segment_name(self.segment)));
        let header =
            SegmentHeader { segment: self.segment, first_block: self.first_block, chain_before: self.chain };
        block.start();
        for (partition, standing) in &self.standings.0 {
            let (epoch, position) = (standing.epoch, standing.next - 1);
            let state = RecordHeader { kind: Kind::State, partition: *partition, epoch, position };
            block.push(&state, &standing.trimmed.to_le_bytes());
        }
        let link = Link { salt: header.salt(), number: self.first_block, previous: self.chain };
        let (bytes, chain) = block.finish(link);
        let file = self.disk.open(&new_path, How::Create)?;
        file.preallocate(self.segment_bytes)?;
        write_all_at(&*file, 0, &header.encode())?;
        write_all_at(&*file, SECTOR as u64, bytes)?;
        file.sync_data()?;
        self.disk.rename(&new_path, &path)?;
        self.disk.sync_dir(self.dir)?;
        let offset = (SECTOR + bytes.len()) as u64;
        let (salt, next_block) = (header.salt(), self.first_block + 1);
        Ok(Active { segment: self.segment, path, file, salt, offset, next_block, chain })
    }
}

impl Active {
    /// Writes the block that was built, syncs it, and steps behind it.
    pub fn write(&mut self, block: &mut BlockBuilder) -> io::Result<u64> {
        let (bytes, chain) = block.finish(self.link());
        write_all_at(&*self.file, self.offset, bytes)?;
        let length = bytes.len() as u64;
        self.file.sync_data()?;
        self.offset += length;
        self.next_block += 1;
        self.chain = chain;
        Ok(length)
    }

    /// Writes footer and trailer and gives the preallocated rest back. The segment is complete on return.
    pub fn seal(
        &mut self,
        standings: &Standings,
        index: &SegmentIndex,
        block: &mut BlockBuilder,
    ) -> io::Result<()> {
        let trailer = Trailer { salt: self.salt, footer_offset: self.offset };
        block.start();
        let head = RecordHeader { kind: Kind::Footer, partition: 0, epoch: 0, position: 0 };
        block.push(&head, &footer::encode(standings, index));
        let (bytes, chain) = block.finish(self.link());
        let trailer_offset = self.offset + bytes.len() as u64;
        write_all_at(&*self.file, self.offset, bytes)?;
        // The trailer must not outlive a crash that the footer does not: it would point at damage.
        self.file.sync_data()?;
        write_all_at(&*self.file, trailer_offset, &trailer.encode())?;
        // Nor may the shorter length outlive one that the trailer does not: a file that is neither sealed nor as long as
        // it was has been cut.
        self.file.sync_data()?;
        self.file.set_len(trailer_offset + SECTOR as u64)?;
        self.file.sync_data()?;
        self.offset = trailer_offset + SECTOR as u64;
        self.next_block += 1;
        self.chain = chain;
        Ok(())
    }

    fn link(&self) -> Link {
        Link { salt: self.salt, number: self.next_block, previous: self.chain }
    }
}

/// A segment file as it is found.
pub struct Found {
    pub path: PathBuf,
    pub file: Arc<dyn DiskFile>,
    pub file_bytes: u64,
    pub header: SegmentHeader,
    pub seal: Option<Seal>,
}

/// What the footer of a sealed segment says, and how the chain goes on behind it.
pub struct Seal {
    pub offset: u64,
    pub footer: Footer,
    pub expected: Expected,
    /// The chain hash of the last block before the footer, as the footer block has it.
    pub before: Expected,
}

impl Found {
    /// Opens a segment and reads header and, if it is sealed, footer.
    pub fn look(disk: &dyn Disk, dir: &Path, number: u64, how: How) -> Result<Self, JournalError> {
        let path = dir.join(segment_name(number));
        let place = Place::new(&path);
        let file = disk.open(&path, how).map_err(|error| place.failed(&error))?;
        let file_bytes = file.len().map_err(|error| place.failed(&error))?;
        let sector = read_sector(&*file, 0).map_err(|error| place.failed(&error))?;
        let header = SegmentHeader::decode(&sector, &place)?;
        if header.segment != number {
            return Err(place.damaged(16, format!("the file says that it is segment {}", header.segment)));
        }
        let seal = read_seal(&file, file_bytes, header.salt(), &place)?;
        Ok(Self { path, file, file_bytes, header, seal })
    }

    /// A walk over all blocks before the footer, from the opening block on.
    #[must_use]
    pub fn walk(&self) -> Walk {
        let expected = Expected { number: self.header.first_block, previous: self.header.chain_before };
        let end = self.seal.as_ref().map_or(self.file_bytes, |seal| seal.offset);
        Walk::checked(Arc::clone(&self.file), self.header.salt(), SECTOR as u64, end, expected)
    }
}

fn read_sector(file: &dyn DiskFile, offset: u64) -> io::Result<Vec<u8>> {
    let mut sector = vec![0; SECTOR];
    let count = read_full_at(file, offset, &mut sector)?;
    sector.truncate(count);
    Ok(sector)
}

/// The seal that the last sector of the file points at; `None` if that is no trailer.
fn read_seal(
    file: &Arc<dyn DiskFile>,
    file_bytes: u64,
    salt: u64,
    place: &Place<'_>,
) -> Result<Option<Seal>, JournalError> {
    let Some(trailer_offset) = file_bytes.checked_sub(SECTOR as u64) else { return Ok(None) };
    let sector = read_sector(&**file, trailer_offset).map_err(|error| place.failed(&error))?;
    let Some(trailer) = Trailer::decode(&sector) else { return Ok(None) };
    let offset = trailer.footer_offset;
    if trailer.salt != salt || offset >= trailer_offset {
        return Err(place.damaged(trailer_offset, "trailer of another segment"));
    }
    let mut walk = Walk::from_middle(Arc::clone(file), salt, offset, trailer_offset);
    let step = walk.step().map_err(|error| place.failed(&error))?;
    let reason = match step {
        Step::Bad(reason) | Step::Foreign(reason) => reason,
        Step::End => "no footer before the trailer",
        Step::Block(view) => {
            let footer = view.records().find(|record| record.header.kind == Kind::Footer);
            match footer
                .filter(|_| view.is_padded_with_zeros())
                .and_then(|record| footer::decode(record.bytes))
            {
                None => "the trailer does not point at a sound footer",
                Some(footer) => {
                    let before = Expected { number: view.header.number, previous: view.header.previous };
                    let previous = chain_of(view.bytes);
                    let expected = Expected { number: view.header.number + 1, previous };
                    return Ok(Some(Seal { offset, footer, expected, before }));
                }
            }
        }
    };
    Err(place.damaged(offset, reason))
}
