//! What a fault disk hands out: files, directories and locks, which are dead after a power cut.

use super::{Chance, Fate, FaultDisk, in_memory, power_is_off};
use crate::disk::{DiskDirectory, DiskFile};
use std::io;
use std::path::PathBuf;

pub(super) struct FaultDirectory {
    pub(super) disk: FaultDisk,
    pub(super) generation: u64,
    pub(super) path: PathBuf,
}

impl DiskDirectory for FaultDirectory {
    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.change()?;
        if state.generation != self.generation {
            return Err(power_is_off());
        }
        if state.powered {
            state.names.sync(&self.path);
        }
        state.outcome(())
    }
}

pub(super) struct FaultLock {
    pub(super) disk: FaultDisk,
    pub(super) generation: u64,
    pub(super) path: PathBuf,
}

impl Drop for FaultLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.generation == self.generation {
            state.locks.remove(&self.path);
        }
    }
}

pub(super) struct FaultFile {
    pub(super) disk: FaultDisk,
    pub(super) generation: u64,
    pub(super) file: u64,
}

impl DiskFile for FaultFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state().content(self)?.live.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        let live = &state.content(self)?.live;
        let start = in_memory(offset).min(live.len());
        let count = into.len().min(live.len() - start);
        into[..count].copy_from_slice(&live[start..start + count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.change()?;
        let offset = in_memory(offset);
        let count = if state.short_writes { 1 + state.chance.below(bytes.len()) } else { bytes.len() };
        let count = count.min(bytes.len());
        state.claim(self, offset + count)?;
        state.content(self)?.write(offset, &bytes[..count]);
        state.outcome(count)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.change()?;
        state.claim(self, in_memory(len))?;
        state.content(self)?.set_len(in_memory(len));
        state.outcome(())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.change()?;
        state.claim(self, in_memory(len))?;
        state.content(self)?.grow(in_memory(len));
        state.outcome(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let state = &mut *self.disk.change()?;
        if !state.powered {
            return Err(power_is_off());
        }
        if state.syncs_to_fail == 0 || state.syncs_to_pass > 0 {
            state.syncs_to_pass = state.syncs_to_pass.saturating_sub(1);
            state.content(self)?.sync();
            return Ok(());
        }
        state.syncs_to_fail -= 1;
        let mut chance = Chance(state.chance.next());
        state.content(self)?.settle(&mut chance, Fate::any);
        Err(io::Error::other("injected sync failure"))
    }
}
