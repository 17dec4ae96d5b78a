//! What a disk that may lose power really holds: per file the synced bytes and the writes after them, per name
//! the synced entry and the changes after it. Used by `FaultDisk` only.
//!
//! What must never happen: synced bytes that change in a power cut, or one sector that is half old and half new.

use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub const SECTOR: usize = 512;

/// How many files and directories can still be opened. `None`: as many as anybody wants.
#[derive(Default)]
pub struct Descriptors(pub Option<u32>);

impl Descriptors {
    pub fn take(&mut self) -> io::Result<()> {
        match &mut self.0 {
            None => Ok(()),
            Some(0) => Err(Errno::MFILE.into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

/// A small seeded generator (SplitMix64): the same seed and calls give the same faults.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).expect("a usize fits in a u64");
        usize::try_from(self.next() % limit).expect("a remainder of a usize fits in a usize")
    }
}

/// What becomes of one un-synced change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Kept,
    Lost,
    /// Each sector is kept or lost on its own.
    Scattered,
    /// Some first sectors are kept.
    Torn,
}

impl Fate {
    pub fn any(chance: &mut Chance) -> Self {
        match chance.below(4) {
            0 => Self::Kept,
            1 => Self::Lost,
            2 => Self::Scattered,
            _ => Self::Torn,
        }
    }
}

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
    Grow(usize),
}

#[derive(Default)]
pub struct Content {
    /// What a reader sees: the page cache.
    pub live: Vec<u8>,
    /// What certainly survives.
    synced: Vec<u8>,
    unsynced: Vec<Change>,
}

impl Content {
    pub fn with(bytes: Vec<u8>) -> Self {
        Self { live: bytes.clone(), synced: bytes, unsynced: Vec::new() }
    }

    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        put(&mut self.live, offset, bytes);
        self.unsynced.push(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub fn set_len(&mut self, len: usize) {
        self.live.resize(len, 0);
        self.unsynced.push(Change::SetLen(len));
    }

    pub fn grow(&mut self, len: usize) {
        grow(&mut self.live, len);
        self.unsynced.push(Change::Grow(len));
    }

    pub fn sync(&mut self) {
        self.settle(&mut Chance(0), |_| Fate::Kept);
    }

    /// Decides every un-synced change. What readers see stays as it is: a failed sync leaves the page cache full
    /// of bytes that are not on the disk.
    pub fn settle(&mut self, chance: &mut Chance, mut fate: impl FnMut(&mut Chance) -> Fate) {
        for change in std::mem::take(&mut self.unsynced) {
            let fate = fate(chance);
            match change {
                Change::Write { offset, bytes } => {
                    settle_write(&mut self.synced, offset, &bytes, fate, chance)
                }
                Change::SetLen(len) if fate != Fate::Lost => self.synced.resize(len, 0),
                Change::Grow(len) if fate != Fate::Lost => grow(&mut self.synced, len),
                Change::SetLen(_) | Change::Grow(_) => {}
            }
        }
    }

    /// The page cache is gone; what the disk holds is all there is.
    pub fn forget_cache(&mut self) {
        self.live.clone_from(&self.synced);
    }
}

/// Keeps a part of a write, whole sectors of the file at a time.
fn settle_write(synced: &mut Vec<u8>, offset: usize, bytes: &[u8], fate: Fate, chance: &mut Chance) {
    let first = offset / SECTOR;
    let count = (offset + bytes.len()).div_ceil(SECTOR) - first;
    let kept_first = chance.below(count + 1);
    for sector in 0..count {
        let kept = match fate {
            Fate::Kept => true,
            Fate::Lost => false,
            Fate::Scattered => chance.below(2) == 0,
            Fate::Torn => sector < kept_first,
        };
        if kept {
            let start = ((first + sector) * SECTOR).max(offset);
            let end = ((first + sector + 1) * SECTOR).min(offset + bytes.len());
            put(synced, start, &bytes[start - offset..end - offset]);
        }
    }
}

fn put(into: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    grow(into, offset + bytes.len());
    into[offset..offset + bytes.len()].copy_from_slice(bytes);
}

fn grow(bytes: &mut Vec<u8>, len: usize) {
    if bytes.len() < len {
        bytes.resize(len, 0);
    }
}

enum Rename {
    Link { path: PathBuf, file: u64 },
    Unlink { path: PathBuf },
    Move { from: PathBuf, to: PathBuf },
}

/// Names point at files by number. The two maps are the page cache and the disk.
#[derive(Default)]
pub struct Names {
    pub live: BTreeMap<PathBuf, u64>,
    synced: BTreeMap<PathBuf, u64>,
    unsynced: Vec<Rename>,
}

impl Names {
    pub fn link(&mut self, path: &Path, file: u64) {
        self.live.insert(path.to_owned(), file);
        self.unsynced.push(Rename::Link { path: path.to_owned(), file });
    }

    pub fn unlink(&mut self, path: &Path) -> bool {
        self.unsynced.push(Rename::Unlink { path: path.to_owned() });
        self.live.remove(path).is_some()
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> bool {
        let Some(file) = self.live.remove(from) else { return false };
        self.live.insert(to.to_owned(), file);
        self.unsynced.push(Rename::Move { from: from.to_owned(), to: to.to_owned() });
        true
    }

    pub fn sync(&mut self, dir: &Path) {
        let (here, elsewhere): (Vec<_>, Vec<_>) = std::mem::take(&mut self.unsynced)
            .into_iter()
            .partition(|change| change.path().parent() == Some(dir));
        self.unsynced = elsewhere;
        here.into_iter().for_each(|change| change.apply(&mut self.synced));
    }

    /// Keeps each un-synced change or not, independently: a directory promises no order between names.
    pub fn settle(&mut self, chance: &mut Chance, mut keep: impl FnMut(&mut Chance) -> bool) {
        for change in std::mem::take(&mut self.unsynced) {
            if keep(chance) {
                change.apply(&mut self.synced);
            }
        }
        self.live = self.synced.clone();
    }
}

impl Rename {
    fn path(&self) -> &Path {
        match self {
            Self::Link { path, .. } | Self::Unlink { path } => path,
            Self::Move { to, .. } => to,
        }
    }

    fn apply(self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Link { path, file } => {
                names.insert(path, file);
            }
            Self::Unlink { path } => {
                names.remove(&path);
            }
            // If the creation was lost there is nothing to move.
            Self::Move { from, to } => {
                if let Some(file) = names.remove(&from) {
                    names.insert(to, file);
                }
            }
        }
    }
}
