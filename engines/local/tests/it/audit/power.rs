//! Power cuts between every two steps of the disk. The claim: what was answered is there; what was not is there as a
//! whole append or not at all; and whoever goes on from `derived` ends with the same entries and hashes as if nothing
//! had happened.

use super::rig::{DIR, derive};
use super::rig::{STEPS, checkpoint, entries, keys, open, run};
use fantail_conformance::audit::NO_LIMIT;
use fantail_conformance::block_on;
use fantail_local::audit::verify;
use fantail_local::disk::{FaultDisk, Survival};
use fantail_ports::audit::{AuditError, AuditLog, Entry, Head};
use fantail_rules::ids::{PartitionId, Position};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the script leads to without any fault.
fn undisturbed() -> (Vec<Entry>, Vec<Head>) {
    let log = open(&FaultDisk::new(1)).unwrap();
    run(&log).unwrap();
    (entries(&log), log.heads())
}

/// All marks that an append of the script may leave behind.
fn possible_marks() -> Vec<BTreeMap<PartitionId, Position>> {
    let mut marks = BTreeMap::new();
    let mut all = vec![marks.clone()];
    for (partition, through) in STEPS {
        marks.insert(*partition, Position(*through));
        all.push(marks.clone());
    }
    all
}

/// Runs the script until the power goes after so many changes; true if it came to its end before.
fn run_until_cut(disk: &FaultDisk, changes: u64) -> (bool, BTreeMap<PartitionId, Position>) {
    disk.cut_after(changes);
    match open(disk) {
        Err(AuditError::Io { .. }) => (false, BTreeMap::new()),
        Err(other) => panic!("{other}"),
        Ok(log) => {
            let done = run(&log).is_ok() && block_on(log.export(PathBuf::from("/export"))).is_ok();
            (done, log.derived())
        }
    }
}

fn check(survival: Survival, seed: u64, cut: u64, expected: &(Vec<Entry>, Vec<Head>)) -> bool {
    let context = format!("{survival:?}, seed {seed}, cut after {cut}");
    let disk = FaultDisk::new(seed);
    let (done, answered) = run_until_cut(&disk, cut);
    disk.power_cut(survival);
    let log = open(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
    let derived = log.derived();
    assert!(possible_marks().contains(&derived), "{context}: {derived:?} is between two appends");
    for (partition, through) in &answered {
        assert!(derived.get(partition) >= Some(through), "{context}: lost an answered append");
    }
    for (no, (partition, through)) in STEPS.iter().enumerate() {
        derive(&log, *partition, *through).unwrap();
        assert!(no > 0 || !log.derived().is_empty());
    }
    checkpoint(&log).unwrap();
    assert_eq!(entries(&log), expected.0, "{context}: not the same entries");
    assert_eq!(log.heads(), expected.1, "{context}: not the same hashes");
    let numbers: Vec<u64> =
        block_on(log.checkpoints(0, NO_LIMIT)).unwrap().iter().map(|stored| stored.number).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{context}: {numbers:?}");
    log.close().unwrap();
    drop(log);
    let verdict = verify(&disk, Path::new(DIR), &keys(), &[]);
    assert!(verdict.is_clean(), "{context}: {verdict:?}");
    done
}

// proves: AUD-02
#[test]
fn no_power_cut_leaves_a_gap_or_a_repeat() {
    let expected = undisturbed();
    let mut cut = 0;
    loop {
        let mut done = true;
        for survival in [Survival::Nothing, Survival::Everything, Survival::First(1)] {
            done &= check(survival, 1, cut, &expected);
        }
        for seed in 0..6 {
            done &= check(Survival::Chance, seed, cut, &expected);
        }
        if done {
            break;
        }
        cut += 1;
    }
    assert!(cut > 60, "the script has many steps: {cut}");
}

/// Two lives that are both cut: recovery itself is interrupted too.
#[test]
fn no_second_power_cut_during_recovery_does_either() {
    let expected = undisturbed();
    for seed in 0..400 {
        let disk = FaultDisk::new(seed);
        run_until_cut(&disk, 20 + seed % 90);
        disk.power_cut(Survival::Chance);
        run_until_cut(&disk, seed % 17);
        disk.power_cut(Survival::Chance);
        let log = open(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        run(&log).unwrap();
        assert_eq!(entries(&log), expected.0, "seed {seed}");
        assert_eq!(log.heads(), expected.1, "seed {seed}");
    }
}

/// A sync that fails promises nothing; after a restart the log is one of the two things that it may be.
#[test]
fn a_failed_sync_ends_the_log_and_nothing_is_doubled() {
    let expected = undisturbed();
    for seed in 0..60 {
        let disk = FaultDisk::new(seed);
        let log = open(&disk).unwrap();
        for (no, (partition, through)) in STEPS.iter().enumerate() {
            if no as u64 == seed % 8 {
                disk.fail_syncs(1);
            }
            let derived = log.derived();
            if derive(&log, *partition, *through).is_err() {
                assert_eq!(log.derived(), derived, "seed {seed}: shown before it was durable");
                assert!(derive(&log, *partition, *through).is_err(), "seed {seed}: it goes on");
                break;
            }
        }
        drop(log);
        if seed % 2 == 0 {
            disk.power_cut(Survival::Chance)
        } else {
            disk.kill_process()
        }
        let log = open(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        run(&log).unwrap();
        assert_eq!(entries(&log), expected.0, "seed {seed}");
        assert_eq!(log.heads(), expected.1, "seed {seed}");
    }
}
