//! The inbox index: who has which events, as immutable sorted runs. The journal is its memtable: what is not in a
//! run yet is found through the lists (see `store::recent`), so nothing is written twice to be safe.
//!
//! A window of events is transposed (`pairs`) and written as a run (`writer`); neighbouring runs are merged
//! (`tier`, `merge`); a manifest per partition names the runs and how far each tenant is. Everything here is derived
//! and immutable; what must never happen is that a reader's answer depends on which of this work has run.

use crate::disk::Disk;
use fantail_ports::store::StoreError;
use fantail_rules::ids::{Arrival, PartitionId, TenantId, UserNo};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub mod pairs;

pub mod writer;

pub mod contents;
pub mod run;
pub mod segment;

pub mod filter;
pub mod numbers;

pub mod manifest;

pub mod merge;
pub mod tier;

pub mod hot;

pub mod copy;

use manifest::Manifest;
use merge::Gone;
use run::{Run, RunName, io_error};
use tier::TierOptions;
use writer::RunWriter;

/// Whose entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner {
    pub partition: PartitionId,
    pub tenant: TenantId,
    pub user: UserNo,
}

/// The runs of a partition, oldest first. Of each tenant they cover neighbouring stretches of arrivals.
pub type Runs = Arc<Vec<Arc<Run>>>;

pub struct InboxIndex {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    tiers: TierOptions,
    standings: Mutex<BTreeMap<PartitionId, Arc<Mutex<Standing>>>>,
    next_number: AtomicU64,
    bytes_written: AtomicU64,
    entries_merged: AtomicU64,
}

/// A partition's manifest and the runs that it names.
#[derive(Default)]
pub struct Standing {
    pub through: BTreeMap<TenantId, Arrival>,
    pub runs: Runs,
}

impl InboxIndex {
    /// Opens what the manifests name, and removes what a crash left behind.
    pub fn open(disk: Arc<dyn Disk>, directory: PathBuf, tiers: TierOptions) -> Result<Self, StoreError> {
        disk.create_dir(&directory).map_err(|cause| io_error(&directory, &cause))?;
        let index = Self {
            disk,
            directory,
            tiers,
            standings: Mutex::default(),
            next_number: AtomicU64::new(1),
            bytes_written: AtomicU64::new(0),
            entries_merged: AtomicU64::new(0),
        };
        index.load()?;
        Ok(index)
    }

    /// Reads everything again, as after a restore.
    pub fn load(&self) -> Result<(), StoreError> {
        // A manifest that a killed process has named, before any file goes that only the one before names.
        self.disk.sync_dir(&self.directory).map_err(|cause| io_error(&self.directory, &cause))?;
        let names = self.names()?;
        let (mut standings, mut named) = (BTreeMap::new(), BTreeSet::new());
        for name in &names {
            let Some(partition) = manifest_partition(name) else { continue };
            let manifest = Manifest::read(&*self.disk, &self.directory.join(name))?;
            let mut runs = Vec::new();
            for run in &manifest.runs {
                named.insert(run_file(partition, run.number));
                self.next_number.fetch_max(run.number + 1, Ordering::Relaxed);
                let path = self.run_path(partition, run.number);
                runs.push(Arc::new(Run::open(&*self.disk, path, *run)?));
            }
            let standing = Standing { through: manifest.through, runs: Arc::new(runs) };
            standings.insert(partition, Arc::new(Mutex::new(standing)));
        }
        // Runs of a partition without a manifest stay: if the manifest is missing, it may be put back.
        let is_left = |name: &&String| {
            let is_unnamed = |partition| standings.contains_key(&partition) && !named.contains(*name);
            name.ends_with(".new") || run_partition(name).is_some_and(is_unnamed)
        };
        for name in names.iter().filter(is_left) {
            let path = self.directory.join(name);
            self.disk.remove(&path).map_err(|cause| io_error(&path, &cause))?;
        }
        *lock(&self.standings) = standings;
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        self.disk.list(&self.directory).map_err(|cause| io_error(&self.directory, &cause))
    }

    /// Where the manifest of a partition is, or should be.
    pub fn manifest_path(&self, partition: PartitionId) -> PathBuf {
        self.directory.join(manifest_file(partition))
    }

    fn run_path(&self, partition: PartitionId, number: u64) -> PathBuf {
        self.directory.join(run_file(partition, number))
    }

    fn standing(&self, partition: PartitionId) -> Arc<Mutex<Standing>> {
        Arc::clone(lock(&self.standings).entry(partition).or_default())
    }

    pub fn partitions(&self) -> Vec<PartitionId> {
        lock(&self.standings).keys().copied().collect()
    }

    /// How far each tenant of a partition is, and the runs that hold it.
    pub fn at(&self, partition: PartitionId) -> Standing {
        let standing = self.standing(partition);
        let standing = lock(&standing);
        Standing { through: standing.through.clone(), runs: Arc::clone(&standing.runs) }
    }

    /// Begins a run that nothing names yet.
    pub fn create(&self, partition: PartitionId) -> Result<RunWriter<'_>, StoreError> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        RunWriter::create(&*self.disk, self.run_path(partition, number), number)
    }

    /// Names a new run, and how far its tenants are now. `install` shows it to readers, after it is durable and
    /// before anything else changes the partition.
    pub fn append(
        &self,
        partition: PartitionId,
        run: Run,
        through: &BTreeMap<TenantId, Arrival>,
        install: impl FnOnce(Runs),
    ) -> Result<(), StoreError> {
        let standing = self.standing(partition);
        let mut standing = lock(&standing);
        let mut next = standing.through.clone();
        next.extend(through);
        self.bytes_written.fetch_add(run.name.bytes, Ordering::Relaxed);
        let mut runs = standing.runs.to_vec();
        runs.push(Arc::new(run));
        self.switch(partition, &mut standing, next, runs)?;
        install(Arc::clone(&standing.runs));
        Ok(())
    }

    /// Merges some neighbouring runs, or drops or rewrites one of which too much is gone. Returns whether it did.
    pub fn tidy(
        &self,
        partition: PartitionId,
        gone: &Gone,
        install: impl FnOnce(Runs),
    ) -> Result<bool, StoreError> {
        let runs = self.at(partition).runs;
        let Some(chosen) = self.choose(&runs, gone)? else { return Ok(false) };
        let chosen = &runs[chosen];
        let alive: Vec<_> =
            chosen.iter().filter(|run| dead_entries(run, gone) < run.entries).cloned().collect();
        let merged = if alive.is_empty() { None } else { self.merge(partition, &alive, gone)? };
        self.replace(partition, chosen, merged, install)?;
        Ok(true)
    }

    fn choose(&self, runs: &[Arc<Run>], gone: &Gone) -> Result<Option<std::ops::Range<usize>>, StoreError> {
        let is_spoiled = |run: &Arc<Run>| run.entries > 0 && dead_entries(run, gone) * 2 > run.entries;
        if let Some(at) = runs.iter().position(is_spoiled) {
            return Ok(Some(at..at + 1));
        }
        let sizes: Vec<u64> = runs.iter().map(|run| run.entries).collect();
        let Some(chosen) = tier::choose(&sizes, self.tiers) else { return Ok(None) };
        let needed: u64 = runs[chosen.clone()].iter().map(|run| run.name.bytes).sum();
        let space = self.disk.space(&self.directory).map_err(|cause| io_error(&self.directory, &cause))?;
        // Merging can wait for room; what there is can be read as it is.
        Ok((space.free_bytes / 2 > needed).then_some(chosen))
    }

    /// Rewrites a run without what is gone.
    pub fn purge(
        &self,
        partition: PartitionId,
        run: &Arc<Run>,
        gone: &Gone,
        install: impl FnOnce(Runs),
    ) -> Result<(), StoreError> {
        let chosen = std::slice::from_ref(run);
        let merged = self.merge(partition, chosen, gone)?;
        self.replace(partition, chosen, merged, install)
    }

    fn merge(
        &self,
        partition: PartitionId,
        runs: &[Arc<Run>],
        gone: &Gone,
    ) -> Result<Option<Run>, StoreError> {
        let mut writer = self.create(partition)?;
        let path = writer.path().to_owned();
        let written = merge::merge(runs, gone, &mut writer).and_then(|()| writer.finish());
        let run = written.inspect_err(|_| self.abandon(&path))?;
        self.bytes_written.fetch_add(run.name.bytes, Ordering::Relaxed);
        self.entries_merged.fetch_add(run.entries, Ordering::Relaxed);
        if run.sections.is_empty() {
            self.abandon(&path);
            return Ok(None);
        }
        Ok(Some(run))
    }

    fn replace(
        &self,
        partition: PartitionId,
        old: &[Arc<Run>],
        new: Option<Run>,
        install: impl FnOnce(Runs),
    ) -> Result<(), StoreError> {
        let standing = self.standing(partition);
        let mut standing = lock(&standing);
        let first = standing.runs.iter().position(|run| run.name.number == old[0].name.number);
        let first = first.expect("runs are only replaced by the one who tends the partition");
        let mut runs = standing.runs.to_vec();
        runs.splice(first..first + old.len(), new.map(Arc::new));
        let through = standing.through.clone();
        self.switch(partition, &mut standing, through, runs)?;
        install(Arc::clone(&standing.runs));
        // Readers that still walk the old runs hold them open.
        old.iter().for_each(|run| self.abandon(run.path()));
        Ok(())
    }

    fn switch(
        &self,
        partition: PartitionId,
        standing: &mut Standing,
        through: BTreeMap<TenantId, Arrival>,
        runs: Vec<Arc<Run>>,
    ) -> Result<(), StoreError> {
        let names: Vec<RunName> = runs.iter().map(|run| run.name).collect();
        let manifest = Manifest { through, runs: names };
        // The name of a new run must be durable before anything refers to it.
        self.disk.sync_dir(&self.directory).map_err(|cause| io_error(&self.directory, &cause))?;
        manifest.write(&*self.disk, &self.directory, &self.directory.join(manifest_file(partition)))?;
        *standing = Standing { through: manifest.through, runs: Arc::new(runs) };
        Ok(())
    }

    /// Removes a file that nothing names. What cannot be removed now is removed at the next start.
    pub fn abandon(&self, path: &Path) {
        let _next_start = self.disk.remove(path);
    }

    pub fn gauges(&self) -> IndexGauges {
        let standings: Vec<_> = lock(&self.standings).values().cloned().collect();
        let mut gauges = IndexGauges {
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
            entries_merged: self.entries_merged.load(Ordering::Relaxed),
            ..IndexGauges::default()
        };
        for standing in standings {
            for run in lock(&standing).runs.iter() {
                gauges.runs += 1;
                gauges.entries += run.entries;
                gauges.bytes += run.name.bytes;
            }
        }
        gauges
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IndexGauges {
    pub runs: u64,
    pub entries: u64,
    pub bytes: u64,
    /// Since start.
    pub bytes_written: u64,
    /// Since start.
    pub entries_merged: u64,
}

/// About how many entries of a run nobody will ask for again, by retention.
fn dead_entries(run: &Run, gone: &Gone) -> u64 {
    let dead = |section: &contents::Section| {
        let through = gone.through(section.tenant).min(section.through);
        let (dead, all) = (through.0.saturating_sub(section.after.0), section.through.0 - section.after.0);
        (u128::from(section.entries) * u128::from(dead) / u128::from(all.max(1))) as u64
    };
    run.sections.iter().map(dead).sum()
}

fn run_file(partition: PartitionId, number: u64) -> String {
    format!("{:04x}-{number:012}.run", partition.code())
}

fn manifest_file(partition: PartitionId) -> String {
    format!("{:04x}.manifest", partition.code())
}

/// Names that this index gives to its files: nothing else is ever opened or removed.
fn is_file_of_index(name: &str) -> bool {
    manifest_partition(name).is_some() || run_partition(name).is_some()
}

fn run_partition(name: &str) -> Option<PartitionId> {
    let (partition, number) = name.strip_suffix(".run")?.split_once('-')?;
    let partition = PartitionId::from_code(u16::from_str_radix(partition, 16).ok()?)?;
    (run_file(partition, number.parse().ok()?) == name).then_some(partition)
}

fn manifest_partition(name: &str) -> Option<PartitionId> {
    let code = name.strip_suffix(".manifest")?;
    PartitionId::from_code(u16::from_str_radix(code, 16).ok()?)
}

/// What these locks guard is replaced whole, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
