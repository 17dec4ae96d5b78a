//! Audit logs under test, and a small script of appends and checkpoints that all tests share.

use fantail_audit::checkpoint::{Checkpoint, Series};
use fantail_audit::key::{Keys, Signer};
use fantail_conformance::audit::{FRONT, NO_LIMIT, Rig, SHARD};
use fantail_conformance::block_on;
use fantail_local::audit::{AuditOptions, LocalAudit};
use fantail_local::disk::{FaultDisk, Survival};
use fantail_local::journal::{Drive, RoomOptions};
use fantail_ports::audit::{
    AppendError, AuditError, AuditLog, Batch, Draft, Entry, Kind, Search, StoredCheckpoint,
};
use fantail_rules::ids::{Millis, PartitionId, Position, TenantId};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub const DIR: &str = "/audit";

/// Small segments and pages, so that a test crosses many.
pub fn small(drive: Drive) -> AuditOptions {
    AuditOptions {
        segment_bytes: 8 << 10,
        page_bytes: 2 << 10,
        room: RoomOptions { check_every: Duration::ZERO, ..RoomOptions::default() },
        drive,
        ..AuditOptions::default()
    }
}

pub fn open(disk: &FaultDisk) -> Result<LocalAudit, AuditError> {
    LocalAudit::open(Arc::new(disk.clone()), Path::new(DIR), &small(Drive::Manual))
}

pub struct FaultRig {
    pub disk: FaultDisk,
    options: AuditOptions,
    log: Option<LocalAudit>,
}

impl FaultRig {
    pub fn open(seed: u64, options: AuditOptions) -> Self {
        let disk = FaultDisk::new(seed);
        let log = Some(LocalAudit::open(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap());
        Self { disk, options, log }
    }

    fn open_again(&mut self) {
        self.log = None;
        let opened = LocalAudit::open(Arc::new(self.disk.clone()), Path::new(DIR), &self.options);
        self.log = Some(opened.unwrap());
    }
}

impl Rig for FaultRig {
    fn log(&self) -> &dyn AuditLog {
        self.log.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        self.log.as_ref().unwrap().close().unwrap();
        self.open_again();
        let report = self.log.as_ref().unwrap().report();
        assert!(report.clean && !report.index_rebuilt, "{report:?}");
    }

    fn crash(&mut self) {
        self.disk.power_cut(Survival::Chance);
        self.open_again();
    }

    fn set_full(&self, full: bool) {
        self.disk.set_capacity(if full { self.disk.used_bytes() + 100 } else { 1 << 40 });
    }

    fn break_disk(&self) {
        self.disk.fail_syncs(1);
    }
}

pub fn signer() -> Signer {
    Signer::from_seed(&[5; 32])
}

pub fn keys() -> Keys {
    [signer().public()].into_iter().collect()
}

/// What a node derives from record `position` of a partition: always the same.
fn drafts(partition: PartitionId, position: u64) -> Vec<Draft> {
    let draft = |no: u64| Draft {
        tenant: TenantId(1 + ((position + no) % 3) as u32),
        position: Position(position),
        at: Millis(1_000 * position + no),
        kind: Kind(2),
        body: format!("{partition} {position} {no} ").repeat(1 + (position % 7) as usize).into_bytes(),
    };
    (0..position % 4).map(draft).collect()
}

/// Derives the records of a partition from where the log is to `through`, as a node would.
pub fn derive(log: &LocalAudit, partition: PartitionId, through: u64) -> Result<(), AppendError> {
    let after = log.derived().get(&partition).copied().unwrap_or(Position::START);
    if through <= after.0 {
        return Ok(());
    }
    let drafts = (after.0 + 1..=through).flat_map(|position| drafts(partition, position)).collect();
    block_on(log.append(vec![Batch { partition, after, through: Position(through), drafts }]))
}

/// Signs where the chains stand, behind the last checkpoint that is stored.
pub fn checkpoint(log: &LocalAudit) -> Result<(), AppendError> {
    let stored = block_on(log.checkpoints(0, NO_LIMIT)).unwrap();
    let last = stored.last().map(|stored| Checkpoint::parse(&stored.text).unwrap().statement);
    let series = last.map_or_else(Series::new, Series::after);
    let made = series.sign(&log.heads(), Millis(9), &signer()).unwrap();
    let stored = StoredCheckpoint { number: made.statement.number, text: made.text() };
    block_on(log.put_checkpoint(stored))
}

/// The records that exist in the journal once a step of the script is done: (partition, through).
pub const STEPS: &[(PartitionId, u64)] =
    &[(SHARD, 3), (FRONT, 5), (SHARD, 40), (SHARD, 41), (FRONT, 45), (SHARD, 90), (FRONT, 46), (SHARD, 120)];

/// Runs the script from wherever the log is: every third step is followed by a checkpoint.
pub fn run(log: &LocalAudit) -> Result<(), AppendError> {
    for (no, (partition, through)) in STEPS.iter().enumerate() {
        derive(log, *partition, *through)?;
        if no % 3 == 2 {
            checkpoint(log)?;
        }
    }
    checkpoint(log)
}

/// Every entry, in the order of the log, tenant by tenant.
pub fn entries(log: &LocalAudit) -> Vec<Entry> {
    let mut all = Vec::new();
    for tenant in 1..=3 {
        let mut search = Search { from: Millis(0), until: Millis(u64::MAX), after: None, limit: NO_LIMIT };
        loop {
            let found = block_on(log.search(TenantId(tenant), search)).unwrap();
            all.extend(found.entries);
            match found.next {
                None => break,
                next => search.after = next,
            }
        }
    }
    all
}
