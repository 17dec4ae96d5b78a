//! Copies the log and its checkpoints as files that never change again, for storage that only takes new files.
//!
//! The copy has the same shape, so `verify` and `LocalAudit::open` work on it; the index is left out, because it is made
//! from the log. Deliberately not here: where the copies go. A directory on the same machine is no protection from
//! whoever owns the machine.
//!
//! What must never happen: a file at the target that was copied in part, or one that is written a second time.

use super::strand::Strand;
use super::{CHECKPOINTS, LOG, Shared, held};
use crate::disk::{How, read_full_at, write_all_at};
use fantail_ports::audit::AuditError;
use std::io;
use std::path::Path;

const CHUNK_BYTES: usize = 1 << 20;
const NEW_SUFFIX: &str = ".new";

/// What one export did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exported {
    pub files: u64,
    pub bytes: u64,
    /// Files that an earlier export had copied.
    pub skipped: u64,
}

impl Shared {
    pub(super) fn export(&self, to: &Path) -> Result<Exported, AuditError> {
        let mut exported = Exported::default();
        // The log is sealed behind the checkpoints: every entry that one of them knows is then in the copy.
        let sealed = {
            let _nobody_writes = held(&self.writing);
            let checkpoints = self.checkpoints.roll()?;
            [(&self.checkpoints, CHECKPOINTS, checkpoints), (&self.log, LOG, self.log.roll()?)]
        };
        for (strand, name, segments) in sealed {
            let target = to.join(name);
            self.disk.create_dir(&target).map_err(|error| failed(&target, &error))?;
            for segment in segments {
                self.copy(strand, &segment, &target, &mut exported)?;
            }
        }
        Ok(exported)
    }

    fn copy(
        &self,
        strand: &Strand,
        segment: &Path,
        target: &Path,
        exported: &mut Exported,
    ) -> Result<(), AuditError> {
        let name = segment.strip_prefix(strand.dir()).unwrap_or(segment);
        let path = target.join(name);
        let bytes = self.length(segment).map_err(|error| failed(segment, &error))?;
        match self.length(&path) {
            Ok(there) if there == bytes => {
                exported.skipped += 1;
                return Ok(());
            }
            Ok(there) => {
                let reason = format!("it has {there} bytes, the segment has {bytes}");
                return Err(AuditError::Damaged { file: path.display().to_string(), offset: 0, reason });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&path, &error)),
        }
        self.copy_whole(segment, &path, target).map_err(|error| failed(&path, &error))?;
        exported.files += 1;
        exported.bytes += bytes;
        Ok(())
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        self.disk.open(path, How::Read)?.len()
    }

    fn copy_whole(&self, from: &Path, to: &Path, dir: &Path) -> io::Result<()> {
        let beside = to.with_extension(format!("segment{NEW_SUFFIX}"));
        let (source, copy) = (self.disk.open(from, How::Read)?, self.disk.open(&beside, How::Create)?);
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut offset = 0;
        loop {
            let count = read_full_at(&*source, offset, &mut chunk)?;
            if count == 0 {
                break;
            }
            write_all_at(&*copy, offset, &chunk[..count])?;
            offset += count as u64;
        }
        copy.sync_data()?;
        self.disk.rename(&beside, to)?;
        self.disk.sync_dir(dir)
    }
}

fn failed(file: &Path, error: &io::Error) -> AuditError {
    AuditError::Io { file: file.display().to_string(), reason: error.to_string() }
}
