//! The operating system's files.
//!
//! What must never happen: a sync that is skipped because it is slow. Creations are only as durable as the
//! directory that names them, so callers sync that too.

use super::{Disk, DiskDirectory, DiskFile, DiskLock, How, Space};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

#[derive(Clone, Copy, Default, Debug)]
pub struct RealDisk;

impl RealDisk {
    /// Makes the name of a directory durable that is there already: whoever made it may have been killed before it could. One
    /// whose parent cannot be synced (it may not be read, or nothing is ever written to its file system) was not made by us.
    fn sync_name(self, dir: &Path) -> io::Result<()> {
        match self.sync_dir(parent(dir)) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied
                        | io::ErrorKind::InvalidInput
                        | io::ErrorKind::Unsupported
                        | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                Ok(())
            }
            other => other,
        }
    }

    fn make_dir(self, dir: &Path, mode: u32) -> io::Result<()> {
        if dir.is_dir() {
            return self.sync_name(dir);
        }
        self.create_dir(parent(dir))?;
        DirBuilder::new().mode(mode).create(dir)?;
        self.sync_dir(parent(dir))
    }
}

fn parent(dir: &Path) -> &Path {
    dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Disk for RealDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.make_dir(dir, 0o777)
    }

    fn create_private_dir(&self, dir: &Path) -> io::Result<()> {
        self.make_dir(dir, 0o700)
    }

    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            How::Read => {}
            How::Write => {
                options.write(true);
            }
            How::Create => {
                options.write(true).create(true).truncate(true);
            }
            How::CreatePrivate => {
                options.write(true).create(true).truncate(true).mode(0o600);
            }
        }
        Ok(Arc::new(RealFile(options.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn open_dir(&self, dir: &Path) -> io::Result<Box<dyn DiskDirectory>> {
        Ok(Box::new(RealDirectory(File::open(dir)?)))
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        let found = statvfs(dir)?;
        Ok(Space {
            free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
            total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<DiskLock>> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

struct RealDirectory(File);

impl DiskDirectory for RealDirectory {
    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(into, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            // A file system without reservations still gets the length, so that syncs carry no size change.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                if self.len()? < len {
                    self.set_len(len)?;
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
