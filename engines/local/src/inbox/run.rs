//! A run: an immutable file of entries, sorted by tenant, user and arrival. Its contents are kept in memory.
//!
//! ```text
//! run      "FANTRUNS" format:4 0:4 block* contents trailer
//! block    crc:4 segment*                    one tenant's; about four kilobytes; the first segment's user is in
//!                                            the contents, so its distance is 0
//! trailer  contents-offset:8 contents-bytes:8 contents-crc:4 0:4 "FANTRUNE"
//! ```
//! A section holds every entry of its tenant with `after < arrival <= through`; offsets count from `after`, so
//! they begin at 1. Numbers without a size are packed, the others little-endian. What must never happen: bytes
//! that are used before their checksum was compared, or a damage that is not named.

use super::contents::{BlockEntry, Contents, Section};
use super::filter::{self, Filter};
use super::segment::Segment;
use crate::disk::{Disk, DiskFile, How, read_full_at};
use fantail_ports::inbox::ArrivalRange;
use fantail_ports::store::StoreError;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, TenantId, UserNo};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const MAGIC: &[u8; 8] = b"FANTRUNS";
pub const END_MAGIC: &[u8; 8] = b"FANTRUNE";
/// The newest format this build reads and the one it writes.
pub const FORMAT: u32 = 1;
pub const HEADER_BYTES: u64 = 16;
pub const TRAILER_BYTES: u64 = 32;
pub const BLOCK_CRC_BYTES: usize = 4;

/// What a manifest says of a run: enough to know a wrong file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunName {
    pub number: u64,
    pub bytes: u64,
    pub contents_crc: u32,
}

pub struct Run {
    pub name: RunName,
    /// Ascending by tenant.
    pub sections: Vec<Section>,
    pub entries: u64,
    filter: Filter,
    blocks: Vec<BlockEntry>,
    /// Where the last block ends.
    blocks_end: u64,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
}

impl Run {
    pub fn open(disk: &dyn Disk, path: PathBuf, name: RunName) -> Result<Self, StoreError> {
        let file = disk.open(&path, How::Read).map_err(|cause| io_error(&path, &cause))?;
        let damaged = |offset: u64, reason: &str| damage(&path, offset, reason);
        let length = file.len().map_err(|cause| io_error(&path, &cause))?;
        if length != name.bytes || length < HEADER_BYTES + TRAILER_BYTES {
            return Err(damaged(length, &format!("has {length} bytes, not {}", name.bytes)));
        }
        let header = read(&*file, &path, 0, HEADER_BYTES)?;
        if header[..8] != *MAGIC {
            return Err(damaged(0, "is not a run"));
        }
        let found = u32::from_le_bytes(array(&header[8..12]));
        if found > FORMAT {
            return Err(StoreError::NewerFormat { what: path.display().to_string(), found, known: FORMAT });
        }
        if found != FORMAT || header[12..] != [0; 4] {
            return Err(damaged(8, "has a damaged header"));
        }
        let end = length - TRAILER_BYTES;
        let trailer = read(&*file, &path, end, TRAILER_BYTES)?;
        let (offset, bytes) =
            (u64::from_le_bytes(array(&trailer[..8])), u64::from_le_bytes(array(&trailer[8..16])));
        let crc = u32::from_le_bytes(array(&trailer[16..20]));
        let is_whole = trailer[24..] == *END_MAGIC && trailer[20..24] == [0; 4] && crc == name.contents_crc;
        if !is_whole || offset < HEADER_BYTES || offset.checked_add(bytes) != Some(end) {
            return Err(damaged(end, "has a damaged trailer"));
        }
        let contents = read(&*file, &path, offset, bytes)?;
        if crc32fast::hash(&contents) != crc {
            return Err(damaged(offset, "has contents that do not match their checksum"));
        }
        let contents =
            Contents::decode(&contents).ok_or_else(|| damaged(offset, "has contents that do not decode"))?;
        if contents.blocks_end != offset {
            return Err(damaged(offset, "has contents that do not fit its blocks"));
        }
        let Contents { sections, filter, blocks, blocks_end } = contents;
        let entries = sections.iter().map(|section| section.entries).sum();
        Ok(Self { name, sections, entries, filter, blocks, blocks_end, file, path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    pub fn section(&self, tenant: TenantId) -> Option<&Section> {
        let at = self.sections.binary_search_by_key(&tenant, |section| section.tenant).ok()?;
        Some(&self.sections[at])
    }

    /// The checked segments of a block.
    pub fn block<'b>(&self, at: usize, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], TablesError> {
        let from = self.blocks[at].at;
        let to = self.blocks.get(at + 1).map_or(self.blocks_end, |next| next.at);
        buffer.resize((to - from) as usize, 0);
        let read = read_full_at(&*self.file, from, buffer);
        let read =
            read.map_err(|cause| TablesError::Io { reason: format!("{}: {cause}", self.path.display()) })?;
        if read < buffer.len() {
            return Err(self.damaged(from, "ends early"));
        }
        let (crc, segments) = buffer.split_at(BLOCK_CRC_BYTES);
        if crc32fast::hash(segments) != u32::from_le_bytes(array(crc)) {
            return Err(self.damaged(from, "has a block that does not match its checksum"));
        }
        Ok(segments)
    }

    /// The user a block begins with.
    pub fn block_user(&self, at: usize) -> u64 {
        self.blocks[at].user
    }

    pub fn damaged_block(&self, at: usize) -> TablesError {
        self.damaged(self.blocks[at].at, "has a block that does not decode")
    }

    fn damaged(&self, offset: u64, reason: &str) -> TablesError {
        let reason = format!("{} at byte {offset}: {reason}", self.path.display());
        TablesError::Damaged { family: "inbox run", reason }
    }

    /// The blocks that may hold entries of a user.
    fn blocks_of(&self, section: &Section, user: UserNo) -> Range<usize> {
        if !self.filter.may_have(filter::hash(section.tenant.0, user.0)) {
            return 0..0;
        }
        let blocks = &self.blocks[section.blocks.clone()];
        // The block before the first one that begins with the user may end with it.
        let first = blocks.partition_point(|block| block.user < user.0).saturating_sub(1);
        let end = blocks.partition_point(|block| block.user <= user.0);
        section.blocks.start + first..section.blocks.start + end.max(first)
    }

    /// Adds the user's newest arrivals inside `range`, newest first, until `page` has `limit` of them.
    pub fn newest(
        &self,
        look: &mut Look<'_>,
        limit: usize,
        page: &mut Vec<Arrival>,
    ) -> Result<(), TablesError> {
        let Some(section) = look.section_in(self) else { return Ok(()) };
        let blocks = self.blocks_of(section, look.user);
        for at in blocks.clone().rev() {
            if page.len() >= limit || look.is_below(section, self, &blocks, at) {
                break;
            }
            if look.is_above(section, self, at) {
                continue;
            }
            self.arrivals(section, at, look)?;
            page.extend(look.found.iter().rev().take(limit - page.len()));
        }
        Ok(())
    }

    /// Adds the user's oldest arrivals inside `range`, oldest first, until `page` has `limit` of them.
    pub fn oldest(
        &self,
        look: &mut Look<'_>,
        limit: usize,
        page: &mut Vec<Arrival>,
    ) -> Result<(), TablesError> {
        let Some(section) = look.section_in(self) else { return Ok(()) };
        let blocks = self.blocks_of(section, look.user);
        for at in blocks.clone() {
            if page.len() >= limit || look.is_above(section, self, at) {
                break;
            }
            if look.is_below(section, self, &blocks, at) {
                continue;
            }
            self.arrivals(section, at, look)?;
            page.extend(look.found.iter().take(limit - page.len()));
        }
        Ok(())
    }

    /// How many arrivals the user has inside `range`: reads at most four blocks, however many there are.
    pub fn count(&self, look: &mut Look<'_>) -> Result<u64, TablesError> {
        let Some(section) = look.section_in(self) else { return Ok(0) };
        let blocks = self.blocks_of(section, look.user);
        let mut count = 0;
        for at in blocks.clone() {
            if look.is_above(section, self, at) || look.is_below(section, self, &blocks, at) {
                continue;
            }
            if look.is_inside(section, self, &blocks, at) {
                count += self.blocks[at + 1].ordinal - self.blocks[at].ordinal;
            } else {
                self.arrivals(section, at, look)?;
                count += look.found.len() as u64;
            }
        }
        Ok(count)
    }

    /// Puts the user's arrivals of one block, inside the range and ascending, into `look.found`.
    fn arrivals(&self, section: &Section, at: usize, look: &mut Look<'_>) -> Result<(), TablesError> {
        look.found.clear();
        let mut segments = self.block(at, look.buffer)?;
        let mut user = self.blocks[at].user;
        while !segments.is_empty() {
            let segment = Segment::take(&mut segments, user).ok_or_else(|| self.damaged_block(at))?;
            user = segment.user;
            if user > look.user.0 {
                break;
            }
            if user == look.user.0 {
                let arrivals =
                    segment.offsets().map(|offset| Arrival(section.after.0.saturating_add(offset)));
                look.found.extend(arrivals.filter(|arrival| look.range.contains(*arrival)));
            }
        }
        Ok(())
    }
}

/// One question about one user, and the room to answer it in. Asked of one run after the other.
pub struct Look<'a> {
    pub tenant: TenantId,
    pub user: UserNo,
    pub range: ArrivalRange,
    pub buffer: &'a mut Vec<u8>,
    found: Vec<Arrival>,
}

impl<'a> Look<'a> {
    pub fn new(tenant: TenantId, user: UserNo, range: ArrivalRange, buffer: &'a mut Vec<u8>) -> Self {
        Self { tenant, user, range, buffer, found: Vec::new() }
    }

    fn section_in<'r>(&self, run: &'r Run) -> Option<&'r Section> {
        let section = run.section(self.tenant)?;
        (section.through > self.range.after && section.after.next() < self.range.before).then_some(section)
    }

    /// Whether a block that begins with this user begins at or above the end of the range.
    fn is_above(&self, section: &Section, run: &Run, at: usize) -> bool {
        let block = run.blocks[at];
        block.user == self.user.0 && section.after.0 + block.first >= self.range.before.0
    }

    /// Whether everything in a block is at or below the beginning of the range, as the next one tells.
    fn is_below(&self, section: &Section, run: &Run, blocks: &Range<usize>, at: usize) -> bool {
        let next = at + 1;
        next < blocks.end && {
            let next = run.blocks[next];
            next.user == self.user.0 && section.after.0 + next.first <= self.range.after.0
        }
    }

    /// Whether a block holds nothing but this user's entries inside the range.
    fn is_inside(&self, section: &Section, run: &Run, blocks: &Range<usize>, at: usize) -> bool {
        let (block, next) = (run.blocks[at], at + 1);
        block.user == self.user.0
            && section.after.0 + block.first > self.range.after.0
            && next < blocks.end
            && section.after.0 + run.blocks[next].first <= self.range.before.0
    }
}

fn read(file: &dyn DiskFile, path: &Path, offset: u64, bytes: u64) -> Result<Vec<u8>, StoreError> {
    let mut into = vec![0; usize::try_from(bytes).map_err(|_| damage(path, offset, "is too large"))?];
    let count = read_full_at(file, offset, &mut into).map_err(|cause| io_error(path, &cause))?;
    if count < into.len() { Err(damage(path, offset, "ends early")) } else { Ok(into) }
}

/// Of a slice that was cut to this length.
pub fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the slice was cut to the length of the array")
}

pub fn damage(path: &Path, offset: u64, reason: &str) -> StoreError {
    StoreError::Damaged { what: format!("{} at byte {offset}", path.display()), reason: reason.to_owned() }
}

pub fn io_error(path: &Path, cause: &io::Error) -> StoreError {
    let reason = format!("{}: {cause}", path.display());
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { reason },
        _ => StoreError::Io { reason },
    }
}
