//! The local journal passes the suite, and then survives its disk.

mod copy;
mod damage;
mod files;
mod mark;
mod power;
mod rig;
mod threads;
mod trouble;

use fantail_conformance::journal::{CASES, journal_suite};
use fantail_local::journal::{Drive, JournalOptions};
use rig::{FaultRig, RealRig, small};

// proves: NFR-03
#[test]
fn local_journal_passes_the_suite_by_hand() {
    journal_suite(|| FaultRig::open(1, small(Drive::Manual)));
}

// proves: NFR-03
#[test]
fn local_journal_passes_the_suite_with_its_threads() {
    journal_suite(|| FaultRig::open(2, small(Drive::Threads)));
}

#[test]
fn local_journal_passes_the_suite_without_a_cache() {
    journal_suite(|| FaultRig::open(3, JournalOptions { cache_bytes_max: 0, ..small(Drive::Threads) }));
}

#[test]
fn local_journal_passes_the_suite_with_short_writes() {
    journal_suite(|| {
        let rig = FaultRig::open(4, small(Drive::Manual));
        rig.disk.short_writes(true);
        rig
    });
}

/// A real disk can neither be filled nor broken here; everything else holds on it too.
#[test]
fn local_journal_passes_the_suite_on_real_files() {
    for (name, case) in CASES.iter().filter(|(name, _)| !name.contains("disk")) {
        let mut rig = RealRig::open(name);
        case(&mut rig);
    }
}
