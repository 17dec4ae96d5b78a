//! Blobs as files of one directory. A `/` in a name becomes `+`, so no name can lead out of the directory, and a
//! blob may be named like the folder of another.
//!
//! What must never happen: a name that shows part of a content. So a content is written beside (`…~number`, which
//! no name can be), made durable, and only then renamed.

use crate::disk::{Disk, DiskFile, How, RealDisk, write_all_at};
use fantail_ports::blobs::{BlobError, Blobs, check_name};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BUFFER_BYTES: usize = 256 << 10;

pub struct LocalBlobs {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    next: AtomicU64,
}

impl LocalBlobs {
    /// Opens the directory, or creates it, and removes what crashed puts have left.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, BlobError> {
        Self::open_on(Arc::new(RealDisk), directory)
    }

    /// Opens the directory on another disk.
    pub fn open_on(disk: Arc<dyn Disk>, directory: impl Into<PathBuf>) -> Result<Self, BlobError> {
        let blobs = Self { disk, directory: directory.into(), next: AtomicU64::new(0) };
        blobs.prepare().map_err(|cause| failed(&blobs.directory.display().to_string(), &cause))?;
        Ok(blobs)
    }

    fn prepare(&self) -> io::Result<()> {
        self.disk.create_dir(&self.directory)?;
        for name in self.disk.list(&self.directory)?.iter().filter(|name| is_unfinished(name)) {
            self.disk.remove(&self.directory.join(name))?;
        }
        self.disk.sync_dir(&self.directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name.replace('/', "+"))
    }

    fn write_beside(&self, beside: &Path, content: &mut dyn Read) -> io::Result<u64> {
        let file = self.disk.open(beside, How::Create)?;
        let (mut buffer, mut size) = (vec![0; BUFFER_BYTES], 0);
        loop {
            let count = match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                Err(cause) => return Err(cause),
            };
            write_all_at(&*file, size, &buffer[..count])?;
            size += count as u64;
        }
        file.sync_data()?;
        Ok(size)
    }

    fn put_whole(&self, name: &str, content: &mut dyn Read) -> io::Result<u64> {
        let path = self.path(name);
        let no = self.next.fetch_add(1, Ordering::Relaxed);
        let beside = PathBuf::from(format!("{}~{no}", path.display()));
        let size = self.write_beside(&beside, content).inspect_err(|_| {
            // What stays is removed when the directory is opened again.
            let _left = self.disk.remove(&beside);
        })?;
        self.disk.rename(&beside, &path)?;
        self.disk.sync_dir(&self.directory)?;
        Ok(size)
    }

    fn names(&self, prefix: &str) -> io::Result<Vec<String>> {
        let names = self.disk.list(&self.directory)?;
        let names = names.into_iter().map(|name| name.replace('+', "/"));
        let mut names: Vec<_> =
            names.filter(|name| check_name(name).is_ok() && name.starts_with(prefix)).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.disk.remove(&self.path(name)) {
            Ok(()) => self.disk.sync_dir(&self.directory),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(cause) => Err(cause),
        }
    }
}

impl Blobs for LocalBlobs {
    fn put(&self, name: &str, content: &mut dyn Read) -> Result<u64, BlobError> {
        check_name(name)?;
        self.put_whole(name, content).map_err(|cause| failed(name, &cause))
    }

    fn get(&self, name: &str) -> Result<Box<dyn Read + Send>, BlobError> {
        check_name(name)?;
        match self.disk.open(&self.path(name), How::Read) {
            Ok(file) => {
                Ok(Box::new(io::BufReader::with_capacity(BUFFER_BYTES, BlobReader { file, offset: 0 })))
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                Err(BlobError::Missing { name: name.to_owned() })
            }
            Err(cause) => Err(failed(name, &cause)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, BlobError> {
        self.names(prefix).map_err(|cause| failed(prefix, &cause))
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        check_name(name)?;
        self.remove(name).map_err(|cause| failed(name, &cause))
    }
}

struct BlobReader {
    file: Arc<dyn DiskFile>,
    offset: u64,
}

impl Read for BlobReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.offset, into)?;
        self.offset += count as u64;
        Ok(count)
    }
}

fn is_unfinished(name: &str) -> bool {
    name.contains('~')
}

fn failed(name: &str, cause: &io::Error) -> BlobError {
    BlobError::Io { name: name.to_owned(), reason: cause.to_string() }
}
