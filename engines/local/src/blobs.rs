//! Blobs as files of one directory. A `/` in a name becomes `+`, so no name can lead out of the directory, and a
//! blob may be named like the folder of another.
//!
//! What must never happen: a name that shows part of a content. So a content is written beside (`…~number`, which
//! no name can be), made durable, and only then renamed.

use fantail_ports::blobs::{BlobError, Blobs, check_name};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const BUFFER_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub struct LocalBlobs {
    directory: PathBuf,
    next: AtomicU64,
}

impl LocalBlobs {
    /// Opens the directory, or creates it, and removes what crashed puts have left.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, BlobError> {
        let directory = directory.into();
        let blobs = Self { directory, next: AtomicU64::new(0) };
        blobs.prepare().map_err(|cause| failed(&blobs.directory.display().to_string(), &cause))?;
        Ok(blobs)
    }

    fn prepare(&self) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if is_unfinished(&path) {
                fs::remove_file(path)?;
            }
        }
        sync_directory(&self.directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name.replace('/', "+"))
    }

    fn write_beside(&self, beside: &Path, content: &mut dyn Read) -> io::Result<u64> {
        let mut file = File::create(beside)?;
        let (mut buffer, mut size) = (vec![0; BUFFER_BYTES], 0);
        loop {
            let count = match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                Err(cause) => return Err(cause),
            };
            file.write_all(&buffer[..count])?;
            size += count as u64;
        }
        file.sync_all()?;
        Ok(size)
    }

    fn put_whole(&self, name: &str, content: &mut dyn Read) -> io::Result<u64> {
        let path = self.path(name);
        let no = self.next.fetch_add(1, Ordering::Relaxed);
        let beside = PathBuf::from(format!("{}~{no}", path.display()));
        let size = self.write_beside(&beside, content).inspect_err(|_| {
            // What stays is removed when the directory is opened again.
            let _left = fs::remove_file(&beside);
        })?;
        fs::rename(&beside, &path)?;
        sync_directory(&self.directory)?;
        Ok(size)
    }

    fn names(&self, prefix: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            let name = name.replace('+', "/");
            if check_name(&name).is_ok() && name.starts_with(prefix) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Ok(()) => sync_directory(&self.directory),
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
        match File::open(self.path(name)) {
            Ok(file) => Ok(Box::new(io::BufReader::with_capacity(BUFFER_BYTES, file))),
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

fn is_unfinished(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.contains('~'))
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn failed(name: &str, cause: &io::Error) -> BlobError {
    BlobError::Io { name: name.to_owned(), reason: cause.to_string() }
}
