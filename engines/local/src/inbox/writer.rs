//! Writes a run from users in ascending order. Nothing names the file before it is whole and synced, so a crash
//! leaves at most a file that the next start removes.

use super::contents::{BlockEntry, Contents, Section};
use super::filter::{self, Filter};
use super::run::{
    BLOCK_CRC_BYTES, END_MAGIC, FORMAT, HEADER_BYTES, MAGIC, Run, RunName, TRAILER_BYTES, io_error,
};
use super::segment::Joined;
use crate::disk::{Disk, DiskFile, How, write_all_at};
use fantail_ports::store::StoreError;
use fantail_rules::ids::{Arrival, TenantId};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A block is closed when it has grown to this: small enough to be read for one user, large enough that the
/// contents stay below a hundredth of the run.
const BLOCK_BYTES: usize = 4 << 10;
/// A user further away begins a block, so that a distance always fits its number.
const DISTANCE_MAX: u64 = 1 << 32;
/// Bytes given to the disk at once.
const WRITE_BYTES: usize = 1 << 20;

pub struct RunWriter<'d> {
    disk: &'d dyn Disk,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    number: u64,
    contents: Contents,
    hashes: Vec<u64>,
    /// Too many users for a filter.
    is_crowded: bool,
    block: Vec<u8>,
    /// The last user of the block, once it has one.
    previous: u64,
    /// The last user of the section, once it has one.
    last_user: Option<u64>,
    ready: Vec<u8>,
    written: u64,
}

impl<'d> RunWriter<'d> {
    pub fn create(disk: &'d dyn Disk, path: PathBuf, number: u64) -> Result<Self, StoreError> {
        let file = disk.open(&path, How::Create).map_err(|cause| io_error(&path, &cause))?;
        let mut ready = Vec::with_capacity(WRITE_BYTES + 2 * BLOCK_BYTES);
        ready.extend_from_slice(MAGIC);
        ready.extend_from_slice(&FORMAT.to_le_bytes());
        ready.extend_from_slice(&[0; 4]);
        debug_assert_eq!(ready.len() as u64, HEADER_BYTES, "the header has its size");
        Ok(Self {
            disk,
            file,
            path,
            number,
            contents: Contents::default(),
            hashes: Vec::new(),
            is_crowded: false,
            block: Vec::with_capacity(3 * BLOCK_BYTES),
            previous: 0,
            last_user: None,
            ready,
            written: 0,
        })
    }

    /// Begins with the entries of the next tenant. They lie above `after` and at or below `through`.
    pub fn begin_section(
        &mut self,
        tenant: TenantId,
        after: Arrival,
        through: Arrival,
    ) -> Result<(), StoreError> {
        self.close_block()?;
        assert!(
            self.contents.sections.last().is_none_or(|last| last.tenant < tenant),
            "tenants of a run ascend"
        );
        assert!(after < through, "a section covers something");
        let blocks = self.contents.blocks.len()..self.contents.blocks.len();
        self.contents.sections.push(Section { tenant, after, through, entries: 0, blocks });
        (self.previous, self.last_user) = (0, None);
        Ok(())
    }

    /// Adds entries of a user: of the last one, behind those it has, or of a later one.
    #[inline]
    pub fn push(&mut self, user: u64, entries: &Joined) -> Result<(), StoreError> {
        debug_assert!(user >= self.previous, "users of a section ascend");
        if self.block.len() >= BLOCK_BYTES || user - self.previous >= DISTANCE_MAX {
            self.close_block()?;
        }
        let section = self.contents.sections.last_mut().expect("a section was begun");
        if self.block.is_empty() {
            self.block.extend_from_slice(&[0; BLOCK_CRC_BYTES]);
            let at = self.written + self.ready.len() as u64;
            self.contents.blocks.push(BlockEntry {
                user,
                first: entries.first,
                at,
                ordinal: section.entries,
            });
            section.blocks.end = self.contents.blocks.len();
            self.previous = user;
        }
        entries.write(&mut self.block, user - self.previous);
        self.previous = user;
        section.entries += entries.count;
        if self.last_user != Some(user) {
            self.last_user = Some(user);
            let tenant = section.tenant.0;
            self.note(tenant, user);
        }
        Ok(())
    }

    #[inline]
    fn note(&mut self, tenant: u32, user: u64) {
        if self.is_crowded {
            return;
        }
        if self.hashes.len() == filter::USERS_MAX {
            (self.is_crowded, self.hashes) = (true, Vec::new());
        } else {
            self.hashes.push(filter::hash(tenant, user));
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run, whole and durable under its name. Nothing refers to it yet.
    pub fn finish(mut self) -> Result<Run, StoreError> {
        self.close_block()?;
        self.contents.filter = Filter::new(&self.hashes);
        self.contents.blocks_end = self.written + self.ready.len() as u64;
        let contents = self.contents.encode();
        let crc = crc32fast::hash(&contents);
        self.ready.extend_from_slice(&contents);
        self.ready.extend_from_slice(&self.contents.blocks_end.to_le_bytes());
        self.ready.extend_from_slice(&(contents.len() as u64).to_le_bytes());
        self.ready.extend_from_slice(&crc.to_le_bytes());
        self.ready.extend_from_slice(&[0; 4]);
        self.ready.extend_from_slice(END_MAGIC);
        debug_assert!(self.ready.len() as u64 >= TRAILER_BYTES, "the trailer is in");
        self.flush()?;
        self.file.sync_data().map_err(|cause| io_error(&self.path, &cause))?;
        let name = RunName { number: self.number, bytes: self.written, contents_crc: crc };
        Run::open(self.disk, self.path, name)
    }

    fn close_block(&mut self) -> Result<(), StoreError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let crc = crc32fast::hash(&self.block[BLOCK_CRC_BYTES..]);
        self.block[..BLOCK_CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
        self.ready.extend_from_slice(&self.block);
        self.block.clear();
        if self.ready.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let result: io::Result<()> = write_all_at(&*self.file, self.written, &self.ready);
        result.map_err(|cause| io_error(&self.path, &cause))?;
        self.written += self.ready.len() as u64;
        self.ready.clear();
        Ok(())
    }
}
