//! All file input and output of the journal, the inbox index, the keyring and the blobs goes through this small trait, so that tests can
//! take the disk away.
//!
//! What must never happen: an engine that calls `std::fs` beside it, because that part would never be tested
//! against a power cut. `RealDisk` is the operating system; `FaultDisk` (for tests) remembers what was synced
//! and what was not, and keeps only what a real disk would have had to keep.

use rustix::io::Errno;
use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

mod fault;
mod platter;
mod real;

pub use fault::{FaultDisk, Survival};
pub use real::RealDisk;

/// A directory tree of files. Paths are used as given.
pub trait Disk: Send + Sync {
    /// Creates the directory and its parents, durably. Already there is fine: its name is durable on return all the same.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// The same, for the eyes of its owner alone.
    fn create_private_dir(&self, dir: &Path) -> io::Result<()> {
        self.create_dir(dir)
    }

    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn DiskFile>>;

    /// Atomic, replaces `to`. Durable after [`Disk::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Durable after [`Disk::sync_dir`].
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names of the files in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Opens a directory whose names are synced later: that needs no descriptor any more.
    fn open_dir(&self, dir: &Path) -> io::Result<Box<dyn DiskDirectory>>;

    /// Makes creations, renames and removals in this directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.open_dir(dir)?.sync()
    }

    fn space(&self, dir: &Path) -> io::Result<Space>;

    /// Takes the process lock at this path, held until the answer is dropped. `None` if another one holds it.
    fn lock(&self, path: &Path) -> io::Result<Option<DiskLock>>;
}

/// Held for as long as it lives.
pub type DiskLock = Box<dyn Any + Send + Sync>;

/// One open directory.
pub trait DiskDirectory: Send + Sync {
    /// Makes creations, renames and removals in it durable.
    fn sync(&self) -> io::Result<()>;
}

/// One open file. Offsets are absolute, so that readers and the writer share it without a cursor.
pub trait DiskFile: Send + Sync {
    fn len(&self) -> io::Result<u64>;

    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads up to `into.len()` bytes; 0 means the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes some of the bytes and says how many, like `pwrite`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space up to `len`, reading as zeros, and never shortens the file.
    fn preallocate(&self, len: u64) -> io::Result<()>;

    /// Content and length are durable on return. After an error nothing is known about what was written since
    /// the last success, and asking again does not tell.
    fn sync_data(&self) -> io::Result<()>;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    Read,
    /// Reads and writes what is there.
    Write,
    /// Creates the file, or empties it.
    Create,
    /// The same, for the eyes of its owner alone.
    CreatePrivate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    pub free_bytes: u64,
    pub total_bytes: u64,
}

/// Whether the process, or the machine, has no descriptor left. Only opening answers so, and then nothing was touched.
#[must_use]
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// All of a file.
pub fn read_whole(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, How::Read)?;
    let length = usize::try_from(file.len()?).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let mut bytes = vec![0; length];
    let count = read_full_at(&*file, 0, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Writes everything, however short the single writes are.
pub fn write_all_at(file: &dyn DiskFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(offset + done as u64, &bytes[done..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends, and says how much was read.
pub fn read_full_at(file: &dyn DiskFile, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(offset + done as u64, &mut into[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
