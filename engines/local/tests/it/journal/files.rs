//! Which files there are: sealing, resuming, trimming, locking, formats.

use super::rig::{DIR, RealRig, append, fence, image, open, open_real, read_all, small};
use fantail_conformance::block_on;
use fantail_conformance::journal::{FRONT, NO_LIMIT, SHARD};
use fantail_local::disk::{Disk, FaultDisk, Survival};
use fantail_local::journal::{Drive, DumpKind, dump, verify};
use fantail_ports::journal::{Journal, JournalError};
use fantail_rules::ids::{Epoch, Position};
use std::path::{Path, PathBuf};

fn segments(disk: &FaultDisk) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| path.extension().is_some_and(|end| end == "segment")).collect()
}

#[test]
fn a_clean_stop_seals_and_the_next_process_begins_a_segment() {
    let disk = FaultDisk::new(1);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    assert!(journal.report().clean, "a new journal is clean");
    assert_eq!(segments(&disk).len(), 0, "nothing was written yet");
    let epoch = fence(&journal, SHARD);
    append(&journal, SHARD, epoch, &[b"a"]).unwrap();
    journal.close().unwrap();
    journal.close().unwrap();
    assert!(append(&journal, SHARD, epoch, &[b"late"]).is_err(), "it is closed");
    assert_eq!(read_all(&journal, SHARD).unwrap(), [b"a"], "reads go on");
    drop(journal);
    assert!(disk.contents(&segments(&disk)[0]).len() < 4096, "the preallocated rest was given back");

    let journal = open(&disk, small(Drive::Manual)).unwrap();
    let report = journal.report();
    assert!(report.clean && report.verified_segments == 1 && report.torn_tail.is_none(), "{report:?}");
    append(&journal, SHARD, epoch, &[b"b"]).unwrap();
    assert_eq!(segments(&disk).len(), 2);
    drop(journal);

    let journal = open(&disk, small(Drive::Manual)).unwrap();
    assert!(!journal.report().clean, "it was not closed");
    append(&journal, SHARD, epoch, &[b"c"]).unwrap();
    assert_eq!(segments(&disk).len(), 2, "an unsealed segment is continued");
    assert_eq!(read_all(&journal, SHARD).unwrap(), [b"a", b"b", b"c"]);
}

#[test]
fn trimming_removes_whole_old_segments_and_outlives_a_restart() {
    let disk = FaultDisk::new(1);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    let (shard, front) = (fence(&journal, SHARD), fence(&journal, FRONT));
    append(&journal, FRONT, front, &[b"front, at the very beginning"]).unwrap();
    for number in 0..40u8 {
        append(&journal, SHARD, shard, &[&[number; 1000]]).unwrap();
    }
    let before = segments(&disk).len();
    assert!(before > 5);
    block_on(journal.trim(SHARD, Position(30))).unwrap();
    assert_eq!(segments(&disk).len(), before, "the first segment holds a record of the front");
    block_on(journal.trim(FRONT, Position(2))).unwrap();
    let kept = segments(&disk).len();
    assert!(kept < before);
    let bounds = journal.bounds(SHARD).unwrap();
    assert!(bounds.first > Position(1) && bounds.first <= Position(30), "{bounds:?}");
    let front_bounds = journal.bounds(FRONT).unwrap();
    assert_eq!((front_bounds.first, front_bounds.next), (Position(2), Position(2)));
    let gone = block_on(journal.read(SHARD, Position(1), NO_LIMIT));
    assert_eq!(
        gone,
        Err(JournalError::Trimmed { partition: SHARD, asked: Position(1), first: bounds.first })
    );
    drop(journal);

    let journal = open(&disk, small(Drive::Manual)).unwrap();
    assert_eq!(journal.bounds(SHARD).unwrap(), bounds);
    assert_eq!(journal.bounds(FRONT).unwrap(), front_bounds, "positions outlive their records");
    append(&journal, FRONT, front, &[b"and its epoch too"]).unwrap();
    assert_eq!(verify(&disk, Path::new(DIR)).damage, None);
}

#[test]
fn a_rolled_segment_never_changes_again() {
    let disk = FaultDisk::new(1);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    let shard = fence(&journal, SHARD);
    journal.roll().unwrap();
    assert_eq!(journal.sealed_segments(), [] as [PathBuf; 0], "there was no record yet");
    append(&journal, SHARD, shard, &[b"one"]).unwrap();
    journal.roll().unwrap();
    journal.roll().unwrap();
    let sealed = journal.sealed_segments();
    assert_eq!(sealed, segments(&disk)[..1]);
    let before = disk.contents(&sealed[0]);
    append(&journal, SHARD, shard, &[b"two"]).unwrap();
    assert_eq!(disk.contents(&sealed[0]), before);
    assert_eq!(read_all(&journal, SHARD).unwrap(), [b"one", b"two"]);
    disk.fail_syncs(1);
    assert!(journal.roll().is_err());
    assert!(append(&journal, SHARD, shard, &[b"three"]).is_err(), "nobody goes on behind a seal that failed");
    disk.power_cut(Survival::Chance);
    drop(journal);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    assert_eq!(read_all(&journal, SHARD).unwrap(), [b"one", b"two"]);
    assert_eq!(verify(&disk, Path::new(DIR)).damage, None);
}

#[test]
fn a_missing_segment_is_named() {
    let disk = FaultDisk::new(1);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    let shard = fence(&journal, SHARD);
    for number in 0..20u8 {
        append(&journal, SHARD, shard, &[&[number; 1000]]).unwrap();
    }
    drop(journal);
    let missing = segments(&disk)[1].clone();
    disk.remove(&missing).unwrap();
    let error = open(&disk, small(Drive::Manual)).err().unwrap();
    assert!(matches!(&error, JournalError::Damaged { file, .. } if Path::new(file) == missing), "{error}");
    assert_eq!(verify(&disk, Path::new(DIR)).damage, Some(error));
}

#[test]
fn a_segment_of_another_journal_breaks_the_chain() {
    let make = |seed| {
        let disk = FaultDisk::new(seed);
        let journal = open(&disk, small(Drive::Manual)).unwrap();
        let shard = fence(&journal, SHARD);
        for number in 0..20u8 {
            append(&journal, SHARD, shard, &[&[number; 1000]]).unwrap();
        }
        disk
    };
    let (disk, other) = (make(1), make(2));
    let path = segments(&disk)[1].clone();
    disk.set_contents(&path, other.contents(&path));
    let error = open(&disk, small(Drive::Manual)).err().unwrap();
    assert!(matches!(&error, JournalError::Damaged { file, .. } if Path::new(file) == path), "{error}");
}

#[test]
fn a_newer_format_is_refused() {
    let disk = FaultDisk::new(1);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    fence(&journal, SHARD);
    drop(journal);
    let path = segments(&disk)[0].clone();
    let mut bytes = disk.contents(&path);
    bytes[8] = 2;
    bytes[12..16].fill(0);
    let crc = crc32fast::hash(&bytes[..512]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    disk.set_contents(&path, bytes.clone());
    let error = open(&disk, small(Drive::Manual)).err().unwrap();
    assert_eq!(error, JournalError::NewerFormat { file: path.display().to_string(), found: 2, known: 1 });
    assert_eq!(disk.contents(&path), bytes, "nothing was changed");
}

#[test]
fn a_journal_has_one_owner() {
    let disk = FaultDisk::new(1);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    assert!(matches!(open(&disk, small(Drive::Manual)), Err(JournalError::Locked { .. })));
    drop(journal);
    open(&disk, small(Drive::Manual)).unwrap();

    let rig = RealRig::open("one owner");
    assert!(matches!(open_real(&rig.dir), Err(JournalError::Locked { .. })));
}

#[test]
fn a_segment_that_was_never_finished_is_removed() {
    let disk = FaultDisk::new(1);
    let leftover = Path::new(DIR).join("journal-0000000000000001.segment.new");
    disk.set_contents(&leftover, vec![1; 700]);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    assert!(!disk.paths().contains(&leftover));
    fence(&journal, SHARD);
}

#[test]
fn dump_shows_every_record_and_verify_counts_them_without_the_lock() {
    let disk = FaultDisk::new(1);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    let (shard, front) = (fence(&journal, SHARD), fence(&journal, FRONT));
    for number in 0..20u8 {
        append(&journal, SHARD, shard, &[&[number; 700]]).unwrap();
        append(&journal, FRONT, front, &[&[number], &[number]]).unwrap();
    }
    let before = image(&disk);
    let dumped: Vec<_> = dump(&disk, Path::new(DIR)).unwrap().map(Result::unwrap).collect();
    let data = |partition| {
        let records = dumped.iter().filter(move |record| record.kind == DumpKind::Data);
        records
            .filter(|record| record.partition == Some(partition))
            .map(|record| record.bytes.clone())
            .collect()
    };
    let (shard_data, front_data): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (data(SHARD), data(FRONT));
    assert_eq!(shard_data, read_all(&journal, SHARD).unwrap());
    assert_eq!(front_data, read_all(&journal, FRONT).unwrap());
    let verdict = verify(&disk, Path::new(DIR));
    assert_eq!(verdict.damage, None);
    assert_eq!(verdict.records.into_iter().collect::<Vec<_>>(), [(FRONT, 40), (SHARD, 20)]);
    assert_eq!(image(&disk), before, "nothing was written");
}

/// Written by the first build of format 1. Every later build must read it.
#[test]
fn the_fixture_of_format_1_is_read() {
    let disk = FaultDisk::new(1);
    let path = Path::new(DIR).join("journal-0000000000000001.segment");
    disk.set_contents(&path, include_bytes!("fixtures/format-1.segment").to_vec());
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    assert!(journal.report().clean);
    assert_eq!(read_all(&journal, SHARD).unwrap(), [&b"first"[..], b"", b"third"]);
    assert_eq!(read_all(&journal, FRONT).unwrap(), [[0xF7; 600]]);
    assert!(fence(&journal, SHARD) > Epoch(2), "it was fenced twice");
    let verdict = verify(&disk, Path::new(DIR));
    assert_eq!(verdict.damage, None);
}
