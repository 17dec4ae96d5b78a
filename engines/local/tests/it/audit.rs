//! The local audit log passes the suite, and then survives its disk and whoever writes to it.

mod files;
mod power;
mod rig;
mod tamper;

use super::scratch::Scratch;
use fantail_conformance::audit::{CASES, Rig, audit_suite};
use fantail_local::audit::{AuditOptions, LocalAudit};
use fantail_local::disk::RealDisk;
use fantail_local::journal::{Drive, RoomOptions};
use fantail_ports::audit::AuditLog;
use rig::{FaultRig, small};
use std::sync::Arc;

// proves: NFR-03
#[test]
fn local_audit_passes_the_suite_by_hand() {
    audit_suite(|| FaultRig::open(1, small(Drive::Manual)));
}

// proves: NFR-03
#[test]
fn local_audit_passes_the_suite_with_its_threads() {
    audit_suite(|| FaultRig::open(2, small(Drive::Threads)));
}

#[test]
fn local_audit_passes_the_suite_with_short_writes() {
    audit_suite(|| {
        let rig = FaultRig::open(3, small(Drive::Manual));
        rig.disk.short_writes(true);
        rig
    });
}

struct RealRig {
    scratch: Scratch,
    log: Option<LocalAudit>,
}

impl RealRig {
    fn open() -> Self {
        let scratch = Scratch::new();
        let log = Some(open_real(&scratch));
        Self { scratch, log }
    }
}

fn open_real(scratch: &Scratch) -> LocalAudit {
    let room = RoomOptions { free_bytes_min: 0, free_percent_min: 0, ..RoomOptions::default() };
    let options = AuditOptions { room, ..small(Drive::Threads) };
    LocalAudit::open(Arc::new(RealDisk), scratch.path(), &options).unwrap()
}

impl Rig for RealRig {
    fn log(&self) -> &dyn AuditLog {
        self.log.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        self.log.as_ref().unwrap().close().unwrap();
        self.crash();
    }

    fn crash(&mut self) {
        self.log = None;
        self.log = Some(open_real(&self.scratch));
    }

    fn set_full(&self, _full: bool) {}

    fn break_disk(&self) {}
}

/// A real disk can neither be filled nor broken here; everything else holds on it too.
#[test]
fn local_audit_passes_the_suite_on_real_files() {
    for (_, case) in CASES.iter().filter(|(name, _)| !name.contains("disk")) {
        case(&mut RealRig::open());
    }
}
