//! `fantail scan`: looks for texts in the raw files of a data directory, or of a backup: whether somebody who was erased
//! can still be found there. Reads every byte of every file, also beside a running server; writes nothing.
//!
//! Tables are not compressed on disk, so that what is stored in the clear is found as it is.

use crate::cli::{ScanArgs, say};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

const CHUNK_BYTES: usize = 1 << 20;
const TEXT_BYTES_MAX: usize = 4_096;
/// Of more hits it is enough to know that they are there.
const HITS_SHOWN_MAX: usize = 100;

/// Where one of the texts begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hit {
    pub file: PathBuf,
    pub offset: u64,
    /// Which of the texts: they are not repeated on the screen.
    pub text: usize,
}

pub fn run(args: &ScanArgs) -> Result<()> {
    ensure!(args.data.is_dir(), "there is no directory {}", args.data.display());
    let mut texts = args.texts.clone();
    if let Some(file) = &args.file {
        let lines = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        texts.extend(lines.lines().filter(|line| !line.is_empty()).map(str::to_owned));
    }
    ensure!(!texts.is_empty(), "name a text to look for, or a file with one in each line");
    ensure!(
        texts.iter().all(|text| (4..=TEXT_BYTES_MAX).contains(&text.len())),
        "texts have 4 to 4096 bytes"
    );
    let (hits, files, bytes) = scan(&args.data, &texts)?;
    for hit in hits.iter().take(HITS_SHOWN_MAX) {
        say(format!("text {} in {} at {}", hit.text + 1, hit.file.display(), hit.offset))?;
    }
    say(format!("{} hits of {} texts in {files} files, {bytes} bytes", hits.len(), texts.len()))?;
    ensure!(hits.is_empty(), "found");
    Ok(())
}

/// Every place, with the number of files and of bytes that were read.
pub fn scan(directory: &Path, texts: &[String]) -> Result<(Vec<Hit>, usize, u64)> {
    let (mut hits, mut files, mut bytes) = (Vec::new(), 0, 0);
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        let entries =
            fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            // Beside a running server files go: what is gone holds nothing.
            let Ok(kind) = fs::symlink_metadata(&path) else { continue };
            if kind.is_dir() {
                left.push(path);
            } else if kind.is_file()
                && let Ok(file) = File::open(&path)
            {
                bytes += scan_file(file, &path, texts, &mut hits)?;
                files += 1;
            }
        }
    }
    hits.sort_by(|one, other| (&one.file, one.offset).cmp(&(&other.file, other.offset)));
    Ok((hits, files, bytes))
}

fn scan_file(mut file: impl Read, path: &Path, texts: &[String], hits: &mut Vec<Hit>) -> Result<u64> {
    // What a text may have before the chunk in which it ends.
    let overlap = texts.iter().map(String::len).max().unwrap_or(1) - 1;
    let (mut held, mut chunk, mut start) = (Vec::new(), vec![0; CHUNK_BYTES], 0u64);
    loop {
        let read = file.read(&mut chunk).with_context(|| format!("cannot read {}", path.display()))?;
        if read == 0 {
            return Ok(start + held.len() as u64);
        }
        let seen = held.len();
        held.extend_from_slice(&chunk[..read]);
        for (no, text) in texts.iter().enumerate() {
            let places = held.windows(text.len()).enumerate();
            let found = places.filter(|(at, window)| at + text.len() > seen && *window == text.as_bytes());
            hits.extend(found.map(|(at, _)| Hit {
                file: path.to_owned(),
                offset: start + at as u64,
                text: no,
            }));
        }
        let gone = held.len().saturating_sub(overlap);
        held.drain(..gone);
        start += gone as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.min(self.0.len()).min(into.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    // proves: GDP-01
    #[test]
    fn texts_are_found_wherever_chunks_end() {
        let texts = ["canary".to_owned(), "ar".to_owned()];
        for step in 1..12 {
            let mut hits = Vec::new();
            let read = scan_file(Slow(b"a canary and a canary", step), Path::new("f"), &texts, &mut hits);
            assert_eq!(read.expect("bytes"), 21);
            let mut found: Vec<(usize, u64)> = hits.iter().map(|hit| (hit.text, hit.offset)).collect();
            found.sort_unstable();
            assert_eq!(found, [(0, 2), (0, 15), (1, 5), (1, 18)], "{step} bytes at a time");
        }
    }
}
