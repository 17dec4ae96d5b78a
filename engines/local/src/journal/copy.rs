//! Copies of a journal that is being written, for backups.
//!
//! Comes from: a backup, beside the writer. Does: copies what the catalog calls durable, and nothing behind it. Goes to: a
//! directory that opens as a journal, with a mark of its own.
//!
//! What must never happen: bytes of a block that is being written. A copy that runs over the writer's end finds a hole and
//! sound blocks behind it, which looks like damage. Nor a segment that is trimmed while it is copied: a hold keeps all.

use super::damage::Place;
use super::mark::Mark;
use super::{LocalJournal, Shared, held};
use crate::disk::{Disk, How, read_full_at, write_all_at};
use fantail_ports::journal::JournalError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CHUNK_BYTES: usize = 1 << 20;

/// The durable part of a journal at one moment. No segment is removed while it lives.
pub struct SegmentHold {
    shared: Arc<Shared>,
    segments: Vec<HeldSegment>,
}

struct HeldSegment {
    number: u64,
    path: PathBuf,
    /// Where the durable blocks end; all of the file if it is sealed.
    bytes: Option<u64>,
}

/// What a copy wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopiedJournal {
    pub segments: u64,
    pub bytes: u64,
}

impl LocalJournal {
    /// Holds everything that is durable now.
    #[must_use]
    pub fn hold(&self) -> SegmentHold {
        let mut catalog = held(&self.shared.catalog);
        catalog.holds += 1;
        let held = catalog.segments.iter().map(|segment| HeldSegment {
            number: segment.number,
            path: segment.path.clone(),
            bytes: (!segment.sealed).then_some(segment.end),
        });
        SegmentHold { segments: held.collect(), shared: Arc::clone(&self.shared) }
    }
}

impl SegmentHold {
    /// Copies everything to a directory, which is created if needed. Durable on return.
    pub fn copy_to(&self, dir: &Path) -> Result<CopiedJournal, JournalError> {
        let disk = &*self.shared.disk;
        disk.create_dir(dir).map_err(|error| Place::new(dir).failed(&error))?;
        let mut copied = CopiedJournal::default();
        let mut mark = Mark::default();
        for segment in &self.segments {
            let target = dir.join(segment.path.file_name().unwrap_or_default());
            let bytes = copy(disk, segment, &target);
            let bytes = bytes.map_err(|error| Place::new(&segment.path).failed(&error))?;
            copied.segments += 1;
            copied.bytes += bytes;
            let first = if mark.first == 0 { segment.number } else { mark.first };
            mark = Mark { first, segment: segment.number, bytes: segment.bytes.unwrap_or(0), next_block: 0 };
        }
        let synced = disk.sync_dir(dir);
        let synced = synced.and_then(|()| if mark.first > 0 { mark.write(disk, dir) } else { Ok(()) });
        synced.map_err(|error| Place::new(dir).failed(&error))?;
        Ok(copied)
    }
}

impl Drop for SegmentHold {
    fn drop(&mut self) {
        held(&self.shared.catalog).holds -= 1;
    }
}

fn copy(disk: &dyn Disk, segment: &HeldSegment, target: &Path) -> io::Result<u64> {
    let (source, copy) = (disk.open(&segment.path, How::Read)?, disk.open(target, How::Create)?);
    let end = segment.bytes.unwrap_or(u64::MAX);
    let (mut chunk, mut offset) = (vec![0; CHUNK_BYTES], 0);
    while offset < end {
        let wanted = usize::try_from(end - offset).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let count = read_full_at(&*source, offset, &mut chunk[..wanted])?;
        if count == 0 {
            break;
        }
        write_all_at(&*copy, offset, &chunk[..count])?;
        offset += count as u64;
    }
    if segment.bytes.is_some_and(|bytes| offset < bytes) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    copy.sync_data()?;
    Ok(offset)
}
