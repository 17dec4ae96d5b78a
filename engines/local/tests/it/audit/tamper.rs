//! The tamper matrix on files: accidents, which checksums show, and intent, which mends every checksum.

use super::rig::{DIR, checkpoint, derive, entries, keys, open};
use fantail_audit::entry;
use fantail_audit::verify::{At, Finding};
use fantail_conformance::audit::{FRONT, NO_LIMIT, SHARD};
use fantail_conformance::block_on;
use fantail_local::audit::{AuditVerdict, verify};
use fantail_local::disk::{Disk, FaultDisk};
use fantail_local::journal::{Drive, DumpKind, JournalOptions, LocalJournal, dump, mark_path};
use fantail_ports::audit::{AuditError, AuditLog};
use fantail_ports::journal::{Append, Journal};
use fantail_rules::ids::{Epoch, PartitionId, Position};
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Image = Vec<(PathBuf, Vec<u8>)>;

/// A closed log of a few appends, the last one followed by a checkpoint. The index is left out.
fn make() -> Image {
    let disk = FaultDisk::new(1);
    let log = open(&disk).unwrap();
    derive(&log, SHARD, 7).unwrap();
    checkpoint(&log).unwrap();
    derive(&log, FRONT, 3).unwrap();
    derive(&log, SHARD, 9).unwrap();
    checkpoint(&log).unwrap();
    log.close().unwrap();
    let kept = disk.paths().into_iter().filter(|path| path.extension().is_some_and(|end| end == "segment"));
    kept.filter(|path| !path.starts_with("/audit/index"))
        .map(|path| (path.clone(), disk.contents(&path)))
        .collect()
}

fn disk_of(image: &Image) -> FaultDisk {
    let disk = FaultDisk::new(0);
    image.iter().for_each(|(path, bytes)| disk.set_contents(path, bytes.clone()));
    disk
}

fn verified(disk: &FaultDisk) -> AuditVerdict {
    verify(disk, Path::new(DIR), &keys(), &[])
}

#[test]
fn an_untouched_log_is_clean() {
    let disk = disk_of(&make());
    let verdict = verified(&disk);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert_eq!((verdict.report.checkpoints, verdict.report.uncovered), (2, 0));
    assert_eq!(entries(&open(&disk).unwrap()).len() as u64, verdict.report.entries);
}

// proves: AUD-02
#[test]
fn every_flipped_byte_is_named_by_verify_and_seen_by_opening() {
    let image = make();
    for (no, (path, bytes)) in image.iter().enumerate() {
        for at in 0..bytes.len() {
            let mut flipped = image.clone();
            flipped[no].1[at] ^= 0x20;
            let disk = disk_of(&flipped);
            let context = format!("{} byte {at}", path.display());
            let verdict = verified(&disk);
            let files = [&verdict.log, &verdict.checkpoints];
            let named = files.iter().any(|files| {
                let damaged = files.damage.as_ref().map(ToString::to_string).unwrap_or_default();
                let torn = files.torn_tail.as_ref().map(|(file, ..)| file.clone()).unwrap_or_default();
                damaged.contains(&*path.to_string_lossy()) || torn.contains(&*path.to_string_lossy())
            });
            assert!(named && !verdict.is_clean(), "{context}: {verdict:?}");
            match open(&disk) {
                Err(AuditError::Damaged { .. }) => {}
                Err(other) => panic!("{context}: {other}"),
                Ok(log) => assert!(!log.report().torn_tails.is_empty(), "{context}: {:?}", log.report()),
            }
        }
    }
}

// proves: AUD-02
#[test]
fn files_cut_at_any_length_are_found() {
    let image = make();
    let whole = verified(&disk_of(&image)).report;
    for (no, (path, bytes)) in image.iter().enumerate() {
        for length in 0..bytes.len() {
            let mut cut = image.clone();
            cut[no].1.truncate(length);
            let disk = disk_of(&cut);
            let context = format!("{} cut at {length}", path.display());
            let verdict = verified(&disk);
            assert!(!is_whole(&verdict), "{context}: {verdict:?}");
            if let Ok(log) = open(&disk) {
                // What opening leaves is a sound log again, and the checkpoints still know what is gone.
                drop(log);
                let verdict = verified(&disk);
                let lost =
                    verdict.report.entries < whole.entries || verdict.report.checkpoints < whole.checkpoints;
                let cut_off = |finding: &Finding| matches!(finding, Finding::CutOff { .. });
                let told = verdict.report.findings.iter().any(cut_off) || verdict.report.uncovered > 0;
                assert_eq!(lost, told, "{context}: {verdict:?}");
            }
        }
    }
}

/// Clean, and closed by a clean stop as it was.
fn is_whole(verdict: &AuditVerdict) -> bool {
    verdict.is_clean() && verdict.log.sealed && verdict.checkpoints.sealed
}

#[test]
fn a_log_that_is_gone_is_found() {
    let disk = disk_of(&make());
    for (path, _) in make().iter().filter(|(path, _)| path.starts_with("/audit/log")) {
        disk.remove(path).unwrap();
    }
    let verdict = verified(&disk);
    let cut = |finding: &&Finding| matches!(finding, Finding::CutOff { last, .. } if last.0 == 0);
    assert_eq!(verdict.report.findings.iter().filter(cut).count(), 6, "{verdict:?}");
}

/// All records of the log, and the disk with the checkpoints only.
fn taken_apart() -> (Vec<Vec<u8>>, FaultDisk) {
    let disk = disk_of(&make());
    let records: Vec<_> = dump(&disk, &Path::new(DIR).join("log")).unwrap().map(Result::unwrap).collect();
    let data = records.into_iter().filter(|record| record.kind == DumpKind::Data).map(|record| record.bytes);
    let data = data.collect();
    for (path, _) in make().iter().filter(|(path, _)| path.starts_with("/audit/log")) {
        disk.remove(path).unwrap();
    }
    (data, disk)
}

/// Writes a log of these records, with every checksum and every block's hash as it should be.
fn forge(disk: &FaultDisk, records: &[Vec<u8>]) -> AuditVerdict {
    let options =
        JournalOptions { drive: Drive::Manual, segment_bytes: 64 << 10, ..JournalOptions::default() };
    let dir = Path::new(DIR).join("log");
    // Whoever forges the files forges their mark too.
    let is_of_log = |path: &&PathBuf| path.starts_with(&dir) || **path == mark_path(&dir);
    for path in disk.paths().iter().filter(is_of_log) {
        disk.remove(path).unwrap();
    }
    let journal = LocalJournal::open(Arc::new(disk.clone()), &dir, options).unwrap();
    let (partition, epoch) = (PartitionId::Root, Epoch(0));
    let append = Append { partition, epoch, first: Position(1), records: records.to_vec() };
    let appended = journal.append(append);
    while journal.commit_next() {}
    block_on(appended).unwrap();
    journal.close().unwrap();
    drop(journal);
    verified(disk)
}

// proves: AUD-02, AUD-04
#[test]
fn forged_files_are_sound_and_yet_every_forged_record_is_named() {
    let (records, disk) = taken_apart();
    assert!(forge(&disk, &records).is_clean(), "without a change");
    let is_entry = |record: &Vec<u8>| entry::decode(record).is_ok();
    let mut forged = 0;
    for (no, record) in records.iter().enumerate().filter(|(_, record)| is_entry(record)) {
        let known = entry::decode(record).unwrap();
        let mut check = |what: &str, records: Vec<Vec<u8>>, expected: &dyn Fn(&Finding) -> bool| {
            let verdict = forge(&disk, &records);
            assert_eq!((&verdict.log.damage, &verdict.log.torn_tail), (&None, &None), "the files are sound");
            let found = verdict.report.findings.iter().any(expected);
            assert!(found, "{what} {no}: {:?}", verdict.report.findings);
            forged += 1;
        };
        let is_known =
            |at: &At| (at.chain, at.sequence) == (known.chain, known.sequence) && at.place.segment == 1;
        let mut flipped = records.clone();
        *flipped[no].last_mut().unwrap() ^= 1;
        check("flipped", flipped, &|finding| matches!(finding, Finding::Altered { at } if is_known(at)));
        let mut removed = records.clone();
        removed.remove(no);
        check("removed", removed, &|finding| match finding {
            Finding::Removed { chain, first, last, .. } => {
                *chain == known.chain && (*first..=*last).contains(&known.sequence)
            }
            Finding::CutOff { chain, last, .. } => *chain == known.chain && *last < known.sequence,
            _ => false,
        });
        let mut repeated = records.clone();
        repeated.push(record.clone());
        check("repeated", repeated, &|finding| matches!(finding, Finding::Repeated { at } if is_known(at)));
        let mut reordered = records.clone();
        let late = reordered.remove(no);
        reordered.push(late);
        let is_last = records[no + 1..]
            .iter()
            .all(|later| entry::decode(later).map_or(true, |later| later.chain != known.chain));
        if !is_last {
            check(
                "reordered",
                reordered,
                &|finding| matches!(finding, Finding::Reordered { at } if is_known(at)),
            );
        }
    }
    assert!(forged > 40, "{forged}");
}

/// What cannot be chained is not built upon.
#[test]
fn a_forged_log_does_not_open() {
    let (mut records, disk) = taken_apart();
    records.remove(2);
    forge(&disk, &records);
    let refused = open(&disk).err().unwrap();
    assert!(
        matches!(&refused, AuditError::Damaged { reason, .. } if reason.contains("does not follow")),
        "{refused}"
    );
}

#[test]
fn another_key_is_not_believed() {
    let disk = disk_of(&make());
    let other = fantail_audit::key::Signer::from_seed(&[6; 32]);
    let keys = [other.public()].into_iter().collect();
    let verdict = verify(&disk, Path::new(DIR), &keys, &[]);
    assert_eq!(verdict.report.findings.len(), 2, "{verdict:?}");
    let log = open(&disk).unwrap();
    let texts = block_on(log.checkpoints(0, NO_LIMIT)).unwrap();
    drop(log);
    let posted: Vec<&str> = texts.iter().map(|stored| stored.text.as_str()).collect();
    assert!(verify(&disk, Path::new(DIR), &super::rig::keys(), &posted).report.is_clean());
}
