//! Directories for tests, deleted when the test is done with them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub struct Scratch(PathBuf);

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Scratch {
    pub fn new() -> Self {
        loop {
            let no = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("fantail-local-{}-{no}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Self(path),
                // Left by a process of the same number that was killed.
                Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(cause) => panic!("no scratch directory: {cause}"),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind in the temporary directory is the operating system's to clean.
        let _left = std::fs::remove_dir_all(&self.0);
    }
}
