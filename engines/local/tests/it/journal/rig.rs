//! Journals under test, and small things that all tests need.

use fantail_conformance::block_on;
use fantail_conformance::journal::{NO_LIMIT, Rig};
use fantail_local::disk::{Disk, FaultDisk, RealDisk, Survival};
use fantail_local::journal::{Drive, JournalOptions, LocalJournal, RoomOptions};
use fantail_ports::journal::{Append, AppendError, Journal, JournalError};
use fantail_rules::ids::{Epoch, PartitionId, Position};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub const DIR: &str = "/journal";

/// Small segments, so that a test crosses many; free space is looked at before every write.
pub fn small(drive: Drive) -> JournalOptions {
    JournalOptions {
        segment_bytes: 8 << 10,
        cache_bytes_max: 16 << 10,
        room: RoomOptions { check_every: Duration::ZERO, ..RoomOptions::default() },
        drive,
        ..JournalOptions::default()
    }
}

pub fn open(disk: &FaultDisk, options: JournalOptions) -> Result<LocalJournal, JournalError> {
    LocalJournal::open(Arc::new(disk.clone()), Path::new(DIR), options)
}

/// Commits by hand until nothing waits.
pub fn commit_all(journal: &LocalJournal) {
    while journal.commit_next() {}
}

pub fn fence(journal: &LocalJournal, partition: PartitionId) -> Epoch {
    let fenced = journal.fence(partition);
    commit_all(journal);
    block_on(fenced).unwrap()
}

pub fn append(
    journal: &LocalJournal,
    partition: PartitionId,
    epoch: Epoch,
    records: &[&[u8]],
) -> Result<Position, AppendError> {
    let first = journal.bounds(partition).unwrap().next;
    let records = records.iter().map(|record| record.to_vec()).collect();
    let appended = journal.append(Append { partition, epoch, first, records });
    commit_all(journal);
    block_on(appended)
}

/// All kept records of a partition.
pub fn read_all(journal: &LocalJournal, partition: PartitionId) -> Result<Vec<Vec<u8>>, JournalError> {
    let mut from = journal.bounds(partition)?.first;
    let mut all = Vec::new();
    loop {
        let records = block_on(journal.read(partition, from, NO_LIMIT))?;
        let Some(last) = records.last() else { return Ok(all) };
        from = last.position.next();
        all.extend(records.into_iter().map(|record| record.bytes));
    }
}

/// The files of a journal, to be put on many disks.
pub type Image = Vec<(PathBuf, Vec<u8>)>;

pub fn image(disk: &FaultDisk) -> Image {
    disk.paths().into_iter().map(|path| (path.clone(), disk.contents(&path))).collect()
}

pub fn disk_of(image: &Image) -> FaultDisk {
    let disk = FaultDisk::new(0);
    for (path, bytes) in image {
        disk.set_contents(path, bytes.clone());
    }
    disk
}

pub struct FaultRig {
    pub disk: FaultDisk,
    options: JournalOptions,
    journal: Option<LocalJournal>,
}

impl FaultRig {
    pub fn open(seed: u64, options: JournalOptions) -> Self {
        let disk = FaultDisk::new(seed);
        let journal = Some(open(&disk, options.clone()).unwrap());
        Self { disk, options, journal }
    }

    fn local(&self) -> &LocalJournal {
        self.journal.as_ref().unwrap()
    }
}

impl Rig for FaultRig {
    fn journal(&self) -> &dyn Journal {
        self.local()
    }

    fn settle(&self) {
        commit_all(self.local());
    }

    fn reopen(&mut self) {
        self.local().close().unwrap();
        self.journal = None;
        let journal = open(&self.disk, self.options.clone()).unwrap();
        assert!(journal.report().clean);
        self.journal = Some(journal);
    }

    fn crash(&mut self) {
        self.disk.power_cut(Survival::Chance);
        self.journal = None;
        self.journal = Some(open(&self.disk, self.options.clone()).unwrap());
    }

    fn set_full(&self, full: bool) {
        self.disk.set_capacity(if full { self.disk.used_bytes() + 100 } else { 1 << 40 });
    }

    fn break_disk(&self) {
        self.disk.fail_syncs(1);
    }
}

pub struct RealRig {
    pub dir: PathBuf,
    journal: Option<LocalJournal>,
}

impl RealRig {
    pub fn open(name: &str) -> Self {
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let journal = Some(open_real(&dir).unwrap());
        Self { dir, journal }
    }
}

pub fn open_real(dir: &Path) -> Result<LocalJournal, JournalError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let room = RoomOptions { free_bytes_min: 0, free_percent_min: 0, ..RoomOptions::default() };
    LocalJournal::open(
        disk,
        dir,
        JournalOptions { room, segment_bytes: 64 << 10, ..JournalOptions::default() },
    )
}

impl Rig for RealRig {
    fn journal(&self) -> &dyn Journal {
        self.journal.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        self.journal.as_ref().unwrap().close().unwrap();
        self.crash();
    }

    fn crash(&mut self) {
        self.journal = None;
        self.journal = Some(open_real(&self.dir).unwrap());
    }

    fn set_full(&self, _full: bool) {}

    fn break_disk(&self) {}
}

impl Drop for RealRig {
    fn drop(&mut self) {
        self.journal = None;
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}
