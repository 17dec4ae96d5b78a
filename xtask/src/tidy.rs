//! How the code is written, checked file by file. Every finding names its place and what to do about it.
//!
//! One file per rule: `length` (the ratchet), `words`, `headers`, `errors` (a page per code), `places`, `supply` (what comes in from
//! outside).

mod errors;
mod headers;
mod length;
mod places;
mod supply;
mod words;

pub use supply::Policy;

use crate::repo::Repo;
use crate::source::Source;
use anyhow::Result;
use std::fmt;

/// Directories that hold our Rust code.
const CODE: &[&str] = &["crates/", "engines/", "xtask/", "bench/"];

/// One place that breaks a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub path: String,
    /// Counted from 1; `None` if the whole file is meant.
    pub line: Option<usize>,
    pub message: String,
}

/// Checks the whole repository. An empty answer means tidy.
pub fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut files = Vec::new();
    for path in repo.paths().filter(|path| is_code(path) && path.ends_with(".rs")) {
        if let Some(text) = repo.text(path)? {
            files.push(File { path: path.to_string(), source: Source::new(&text) });
        }
    }
    let ratchet = repo.contains(length::RATCHET).then(|| repo.text(length::RATCHET)).transpose()?.flatten();
    let mut findings = length::check(&files, ratchet.as_deref().unwrap_or_default());
    findings.extend(words::check(&files));
    findings.extend(headers::check(&files));
    findings.extend(errors::check(repo)?);
    findings.extend(places::check(repo)?);
    findings.extend(supply::check(repo)?);
    Ok(findings)
}

struct File {
    path: String,
    source: Source,
}

impl File {
    #[cfg(test)]
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), source: Source::new(text) }
    }

    /// Whether everything in the file is test code.
    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    fn finding(&self, offset: Option<usize>, message: impl Into<String>) -> Finding {
        let line = offset.map(|offset| self.source.line_of(offset));
        Finding { path: self.path.clone(), line, message: message.into() }
    }
}

fn is_code(path: &str) -> bool {
    CODE.iter().any(|directory| path.starts_with(directory))
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}
