//! Errors that name the place: which file, which offset, what is wrong.

use fantail_ports::journal::JournalError;
use std::fmt::Display;
use std::io;
use std::path::Path;

/// A file that is being read or written.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    path: &'a Path,
}

impl<'a> Place<'a> {
    #[must_use]
    pub fn new(path: &'a Path) -> Self {
        Self { path }
    }

    #[must_use]
    pub fn file(&self) -> String {
        self.path.display().to_string()
    }

    pub fn damaged(&self, offset: u64, reason: impl Display) -> JournalError {
        JournalError::Damaged { file: self.file(), offset, reason: reason.to_string() }
    }

    pub fn failed(&self, error: &io::Error) -> JournalError {
        JournalError::Io { file: self.file(), reason: error.to_string() }
    }
}
