//! A disk in memory for tests, which loses, tears, refuses and corrupts on command. Deterministic by its seed.
//!
//! What must never happen: that it is kinder than a real disk. After a power cut only synced content is certain,
//! any part of the rest may be there in whole sectors, and files opened before are dead.

mod handles;

use super::platter::{Chance, Content, Descriptors, Fate, Names};
use super::{Disk, DiskDirectory, DiskFile, DiskLock, How, Space};
use handles::{FaultDirectory, FaultFile, FaultLock};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Cheap to clone; all clones are the same disk.
#[derive(Clone)]
pub struct FaultDisk {
    state: Arc<Mutex<State>>,
}

/// Which un-synced changes a power cut leaves behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survival {
    Nothing,
    Everything,
    /// The first so many changes of every file, and all name changes.
    First(usize),
    /// By the seed: every change kept, lost, torn or scattered, every name change kept or lost.
    Chance,
}

struct State {
    chance: Chance,
    /// Grows with every power cut; files and locks of an older one are dead.
    generation: u64,
    powered: bool,
    contents: BTreeMap<u64, Content>,
    names: Names,
    locks: BTreeSet<PathBuf>,
    files_created: u64,
    capacity_bytes: u64,
    short_writes: bool,
    /// Syncs that succeed before those that fail.
    syncs_to_pass: u32,
    syncs_to_fail: u32,
    descriptors: Descriptors,
    /// Changes (writes, syncs, renames) until the power goes off by itself.
    changes_left: Option<u64>,
}

/// Large enough that no test fills it by accident.
const CAPACITY_BYTES: u64 = 1 << 40;

impl FaultDisk {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
            chance: Chance(seed),
            generation: 0,
            powered: true,
            contents: BTreeMap::new(),
            names: Names::default(),
            locks: BTreeSet::new(),
            files_created: 0,
            capacity_bytes: CAPACITY_BYTES,
            short_writes: false,
            syncs_to_pass: 0,
            syncs_to_fail: 0,
            descriptors: Descriptors::default(),
            changes_left: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Cuts the power and switches it on again. Every open file is dead, every lock free.
    pub fn power_cut(&self, survival: Survival) {
        let state = &mut *self.state();
        for content in state.contents.values_mut() {
            let mut seen = 0;
            content.settle(&mut state.chance, |chance| {
                seen += 1;
                match survival {
                    Survival::Nothing => Fate::Lost,
                    Survival::Everything => Fate::Kept,
                    Survival::First(count) if seen <= count => Fate::Kept,
                    Survival::First(_) => Fate::Lost,
                    Survival::Chance => Fate::any(chance),
                }
            });
            content.forget_cache();
        }
        state.names.settle(&mut state.chance, |chance| match survival {
            Survival::Nothing => false,
            Survival::Everything | Survival::First(_) => true,
            Survival::Chance => chance.below(2) == 0,
        });
        let named: BTreeSet<u64> = state.names.live.values().copied().collect();
        state.contents.retain(|file, _| named.contains(file));
        state.locks.clear();
        state.generation += 1;
        state.powered = true;
        state.changes_left = None;
    }

    /// The power goes off at the change after so many more: it and everything later fails, until
    /// [`FaultDisk::power_cut`] decides what survived.
    pub fn cut_after(&self, changes: u64) {
        self.state().changes_left = Some(changes);
    }

    /// The process dies and another one starts; the machine runs on, page cache included.
    pub fn kill_process(&self) {
        let state = &mut *self.state();
        state.generation += 1;
        state.locks.clear();
    }

    /// The next so many syncs of file content answer EIO, and what they should have synced is left to chance.
    pub fn fail_syncs(&self, count: u32) {
        self.fail_syncs_after(0, count);
    }

    /// The same, after so many syncs that succeed.
    pub fn fail_syncs_after(&self, passed: u32, count: u32) {
        let mut state = self.state();
        (state.syncs_to_pass, state.syncs_to_fail) = (passed, count);
    }

    /// After so many opens the process has no descriptor for another one: they answer EMFILE and touch nothing. `None`: it has
    /// as many as it wants.
    pub fn set_descriptors(&self, opens: Option<u32>) {
        self.state().descriptors = Descriptors(opens);
    }

    pub fn short_writes(&self, on: bool) {
        self.state().short_writes = on;
    }

    /// How large the disk is. Writes that grow a file beyond it answer ENOSPC.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity_bytes = bytes;
    }

    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.state().names.live.keys().cloned().collect()
    }

    /// What a reader sees in a file. Empty if there is none.
    #[must_use]
    pub fn contents(&self, path: &Path) -> Vec<u8> {
        let state = self.state();
        let file = state.names.live.get(path);
        file.and_then(|file| state.contents.get(file)).map(|content| content.live.clone()).unwrap_or_default()
    }

    /// Replaces a file's content behind everybody's back, durably.
    pub fn set_contents(&self, path: &Path, bytes: Vec<u8>) {
        let state = &mut *self.state();
        let file = match state.names.live.get(path) {
            Some(file) => *file,
            None => {
                let file = state.create(path);
                state.names.sync(path.parent().unwrap_or(Path::new("")));
                file
            }
        };
        state.contents.insert(file, Content::with(bytes));
    }

    /// Flips the bits of `mask` in one byte, durably.
    pub fn flip(&self, path: &Path, offset: usize, mask: u8) {
        let mut bytes = self.contents(path);
        bytes[offset] ^= mask;
        self.set_contents(path, bytes);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a change; the one that finds no power left still happens in the page cache.
    fn change(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if !state.powered {
            return Err(power_is_off());
        }
        match state.changes_left {
            Some(0) => state.powered = false,
            Some(left) => state.changes_left = Some(left - 1),
            None => {}
        }
        Ok(state)
    }
}

impl State {
    fn create(&mut self, path: &Path) -> u64 {
        self.files_created += 1;
        self.contents.insert(self.files_created, Content::default());
        self.names.link(path, self.files_created);
        self.files_created
    }

    fn used_bytes(&self) -> u64 {
        self.names
            .live
            .values()
            .filter_map(|file| self.contents.get(file))
            .map(|file| file.live.len() as u64)
            .sum()
    }

    fn outcome<T>(&self, value: T) -> io::Result<T> {
        if self.powered { Ok(value) } else { Err(power_is_off()) }
    }

    fn content(&mut self, file: &FaultFile) -> io::Result<&mut Content> {
        if self.generation != file.generation {
            return Err(power_is_off());
        }
        self.contents.get_mut(&file.file).ok_or_else(power_is_off)
    }

    /// Refuses to let a file grow to `len` beyond the capacity.
    fn claim(&mut self, file: &FaultFile, len: usize) -> io::Result<()> {
        let used = self.used_bytes();
        let grown = len.saturating_sub(self.content(file)?.live.len()) as u64;
        if grown > 0 && used + grown > self.capacity_bytes {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }
}

impl Disk for FaultDisk {
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, path: &Path, how: How) -> io::Result<Arc<dyn DiskFile>> {
        self.state().descriptors.take()?;
        let mut state = match how {
            How::Create | How::CreatePrivate => self.change()?,
            How::Read | How::Write => self.state(),
        };
        let found = state.names.live.get(path).copied();
        let file = match (found, how) {
            (Some(file), How::Read | How::Write) => file,
            (None, How::Read | How::Write) => return Err(io::ErrorKind::NotFound.into()),
            (Some(file), How::Create | How::CreatePrivate) => {
                state.contents.entry(file).or_default().set_len(0);
                file
            }
            (None, How::Create | How::CreatePrivate) => state.create(path),
        };
        let opened: Arc<dyn DiskFile> =
            Arc::new(FaultFile { disk: self.clone(), generation: state.generation, file });
        state.outcome(opened)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.change()?;
        if !state.names.rename(from, to) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.outcome(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.change()?;
        if !state.names.unlink(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.outcome(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let here = state.names.live.keys().filter(|path| path.parent() == Some(dir));
        Ok(here.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn open_dir(&self, dir: &Path) -> io::Result<Box<dyn DiskDirectory>> {
        let mut state = self.state();
        state.descriptors.take()?;
        let generation = state.generation;
        drop(state);
        Ok(Box::new(FaultDirectory { disk: self.clone(), generation, path: dir.to_owned() }))
    }

    fn space(&self, _dir: &Path) -> io::Result<Space> {
        let state = self.state();
        let free_bytes = state.capacity_bytes.saturating_sub(state.used_bytes());
        Ok(Space { free_bytes, total_bytes: state.capacity_bytes })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<DiskLock>> {
        let mut state = self.state();
        if !state.locks.insert(path.to_owned()) {
            return Ok(None);
        }
        let generation = state.generation;
        Ok(Some(Box::new(FaultLock { disk: self.clone(), generation, path: path.to_owned() })))
    }
}

fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a file that fits in memory has an offset that fits in a usize")
}

fn power_is_off() -> io::Error {
    io::Error::other("the power is off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::write_all_at;

    const PATH: &str = "/dir/file";

    /// A file with 4 synced sectors of 1s, over which 2s are written without a sync.
    fn half_written(seed: u64) -> (FaultDisk, Arc<dyn DiskFile>) {
        let disk = FaultDisk::new(seed);
        let file = disk.open(Path::new(PATH), How::Create).expect("there is power");
        write_all_at(&*file, 0, &[1; 2048]).expect("there is room");
        file.sync_data().expect("no fault was asked for");
        disk.sync_dir(Path::new("/dir")).expect("no fault was asked for");
        write_all_at(&*file, 100, &[2; 1500]).expect("there is room");
        (disk, file)
    }

    #[test]
    fn a_power_cut_keeps_whole_sectors_of_what_was_not_synced() {
        let mut seen = BTreeSet::new();
        for seed in 0..800 {
            let (disk, file) = half_written(seed);
            disk.power_cut(Survival::Chance);
            assert!(file.read_at(0, &mut [0]).is_err(), "files opened before are dead");
            let bytes = disk.contents(Path::new(PATH));
            assert!(
                bytes[..100].iter().chain(&bytes[1600..]).all(|byte| *byte == 1),
                "synced bytes are certain"
            );
            let sectors = [&bytes[100..512], &bytes[512..1024], &bytes[1024..1536], &bytes[1536..1600]];
            assert!(
                sectors.iter().all(|sector| sector.iter().all(|byte| *byte == sector[0])),
                "half a sector"
            );
            seen.insert(sectors.map(|sector| sector[0]));
            let (again, _) = half_written(seed);
            again.power_cut(Survival::Chance);
            assert_eq!(again.contents(Path::new(PATH)), bytes, "the same seed, the same bytes");
        }
        assert_eq!(seen.len(), 16, "every combination of sectors comes up");
    }

    #[test]
    fn chosen_survivals_are_exact() {
        let check = |survival, expected: [u8; 2]| {
            let (disk, file) = half_written(1);
            write_all_at(&*file, 2048, &[3; 100]).expect("there is room");
            disk.power_cut(survival);
            let bytes = disk.contents(Path::new(PATH));
            assert_eq!([bytes[100], bytes.get(2048).copied().unwrap_or(0)], expected, "{survival:?}");
        };
        check(Survival::Nothing, [1, 0]);
        check(Survival::First(1), [2, 0]);
        check(Survival::Everything, [2, 3]);
    }

    #[test]
    fn names_need_their_directory_synced() {
        let disk = FaultDisk::new(1);
        let file = disk.open(Path::new(PATH), How::Create).expect("there is power");
        file.sync_data().expect("no fault was asked for");
        disk.power_cut(Survival::Nothing);
        assert_eq!(disk.paths(), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_failed_sync_leaves_the_cache_but_promises_nothing() {
        let (disk, file) = half_written(7);
        disk.fail_syncs(1);
        assert!(file.sync_data().is_err());
        assert_eq!(disk.contents(Path::new(PATH))[100], 2);
        file.sync_data().expect("the second sync finds nothing to do, as on a real disk");
        let kept: BTreeSet<u8> = (0..50)
            .map(|seed| {
                let (disk, file) = half_written(seed);
                disk.fail_syncs(1);
                assert!(file.sync_data().is_err());
                assert!(file.sync_data().is_ok());
                disk.power_cut(Survival::Everything);
                disk.contents(Path::new(PATH))[100]
            })
            .collect();
        assert_eq!(kept, BTreeSet::from([1, 2]), "sometimes it got there, sometimes not");
    }

    #[test]
    fn a_full_disk_and_a_dead_one_refuse() {
        let (disk, file) = half_written(1);
        disk.set_capacity(disk.used_bytes());
        let full = file.write_at(2048, &[1]).err().map(|error| error.kind());
        assert_eq!(full, Some(io::ErrorKind::StorageFull));
        assert!(file.write_at(0, &[1]).is_ok(), "what is allocated can be written");
        disk.cut_after(1);
        assert!(file.write_at(0, &[1]).is_ok());
        assert!(file.write_at(0, &[1]).is_err(), "the power is off");
        assert!(file.sync_data().is_err());
    }
}
