//! The content of one file as a disk holds it: pages that are durable, and the changes since.

use crate::crash::draw;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

const PAGE: u64 = 4_096;
const SECTOR: u64 = 512;
/// Kinds of cuts: of the last nearly everything survives.
pub const SURVIVALS: u64 = 5;

type Page = [u8; PAGE as usize];

/// Bytes with holes. Copies share their pages.
#[derive(Clone, Default)]
struct Bytes {
    length: u64,
    pages: BTreeMap<u64, Arc<Page>>,
}

#[derive(Clone)]
enum Change {
    Write { offset: u64, bytes: Arc<[u8]> },
    SetLength(u64),
    Grow(u64),
}

#[derive(Clone, Default)]
pub struct Content {
    durable: Bytes,
    /// With their numbers in the trace.
    unsynced: Vec<(usize, Change)>,
}

impl Bytes {
    fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        let mut at = offset;
        while !bytes.is_empty() {
            let inside = (at % PAGE) as usize;
            let count = bytes.len().min(PAGE as usize - inside);
            let page = self.pages.entry(at / PAGE).or_insert_with(|| Arc::new([0; PAGE as usize]));
            Arc::make_mut(page)[inside..inside + count].copy_from_slice(&bytes[..count]);
            (at, bytes) = (at + count as u64, &bytes[count..]);
        }
        self.length = self.length.max(at);
    }

    fn set_length(&mut self, length: u64) {
        if length < self.length {
            drop(self.pages.split_off(&length.div_ceil(PAGE)));
            if let Some(last) = self.pages.get_mut(&(length / PAGE)) {
                Arc::make_mut(last)[(length % PAGE) as usize..].fill(0);
            }
        }
        self.length = length;
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { offset, bytes } => self.write(*offset, bytes),
            Change::SetLength(length) => self.set_length(*length),
            Change::Grow(length) => self.length = self.length.max(*length),
        }
    }
}

impl Content {
    pub fn write(&mut self, no: usize, offset: u64, bytes: &[u8]) {
        self.unsynced.push((no, Change::Write { offset, bytes: bytes.into() }));
    }

    pub fn set_length(&mut self, no: usize, length: u64) {
        self.unsynced.push((no, Change::SetLength(length)));
    }

    pub fn grow(&mut self, no: usize, length: u64) {
        self.unsynced.push((no, Change::Grow(length)));
    }

    /// What changed before `began` is durable.
    pub fn sync(&mut self, began: usize) {
        let covered = self.unsynced.iter().take_while(|(no, _)| *no < began).count();
        for (_, change) in self.unsynced.drain(..covered) {
            self.durable.apply(&change);
        }
    }

    /// Decides about every change that was not synced: `survival` in five survive, of the others half in part.
    pub fn cut(&mut self, state: &mut u64, survival: u64) {
        for (_, change) in std::mem::take(&mut self.unsynced) {
            if draw(state, SURVIVALS) < survival {
                self.durable.apply(&change);
            } else if let Change::Write { offset, bytes } = change {
                self.cut_write(state, offset, &bytes);
            }
        }
    }

    /// Leaves a part of a write: whole sectors of the file, or its length alone.
    fn cut_write(&mut self, state: &mut u64, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        let (first, last) = (offset / SECTOR, end.div_ceil(SECTOR));
        let fate = draw(state, 6);
        let torn_at = first + draw(state, last - first + 1);
        for sector in first..last {
            let is_kept = match fate {
                0 => sector < torn_at,
                1 => draw(state, 2) == 0,
                _ => false,
            };
            if is_kept {
                let (from, to) = ((sector * SECTOR).max(offset), ((sector + 1) * SECTOR).min(end));
                self.durable.write(from, &bytes[(from - offset) as usize..(to - offset) as usize]);
            }
        }
        if fate == 2 {
            self.durable.length = self.durable.length.max(end);
        }
    }

    /// Writes it into a new file, and gives the inode.
    pub fn write_durable(&self, path: &Path) -> u64 {
        let file: File =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).expect("a new file");
        for (no, page) in &self.durable.pages {
            file.write_all_at(&page[..], no * PAGE).expect("room");
        }
        file.set_len(self.durable.length).expect("room");
        file.metadata().expect("an open file").ino()
    }
}
