//! Torn tails at every byte, flipped bytes at every offset.

use super::rig::{DIR, Image, append, disk_of, fence, image, open, read_all, small};
use fantail_conformance::journal::{FRONT, SHARD};
use fantail_local::disk::{Disk, FaultDisk};
use fantail_local::journal::{Drive, DumpKind, JournalOptions, LocalJournal, dump, mark_path, verify};
use fantail_ports::journal::JournalError;
use std::path::{Path, PathBuf};

fn options() -> JournalOptions {
    JournalOptions { segment_bytes: 3 << 10, ..small(Drive::Manual) }
}

/// A journal of several blocks in two partitions.
fn write(disk: &FaultDisk, options: JournalOptions, appends: usize) -> LocalJournal {
    let journal = open(disk, options).unwrap();
    let (shard, front) = (fence(&journal, SHARD), fence(&journal, FRONT));
    for number in 0..appends {
        let record = format!("record {number} ").repeat(1 + number * 7 % 40);
        append(&journal, SHARD, shard, &[record.as_bytes(), b"second"]).unwrap();
        append(&journal, FRONT, front, &[b"front"]).unwrap();
    }
    journal
}

fn last_segment(image: &Image) -> (PathBuf, Vec<u8>) {
    image.iter().rfind(|(path, _)| path.extension().is_some_and(|end| end == "segment")).unwrap().clone()
}

/// Offset of the last block of data, and how many SHARD and FRONT records come before it.
fn last_block(disk: &FaultDisk) -> (usize, usize, usize) {
    let records: Vec<_> = dump(disk, Path::new(DIR)).unwrap().map(Result::unwrap).collect();
    let data = records.iter().filter(|record| record.kind == DumpKind::Data);
    let last = data.clone().next_back().unwrap();
    let before = |partition| {
        data.clone().filter(|record| record.block < last.block && record.partition == Some(partition)).count()
    };
    (usize::try_from(last.offset).unwrap(), before(SHARD), before(FRONT))
}

// proves: DED-04
// fixes: torture 6
#[test]
fn a_tail_torn_at_any_byte_is_saved_aside_and_cut() {
    let disk = FaultDisk::new(1);
    let large = JournalOptions { segment_bytes: 16 << 10, ..options() };
    let journal = write(&disk, large.clone(), 3);
    let shard = fence(&journal, SHARD);
    append(&journal, SHARD, shard, &[&[7; 900], &[8; 300]]).unwrap();
    let (all_shard, all_front) = (read_all(&journal, SHARD).unwrap(), read_all(&journal, FRONT).unwrap());
    let whole = image(&disk);
    let (start, before_shard, before_front) = last_block(&disk);
    drop(journal);
    let (path, bytes) = last_segment(&whole);
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for truncated in [false, true] {
        for cut in start..=end {
            let mut torn = bytes.clone();
            torn[cut..end].fill(0);
            if truncated {
                torn.truncate(cut);
            }
            let disk = disk_of(&whole);
            disk.set_contents(&path, torn.clone());
            if truncated {
                // No crash shortens a segment that is not sealed. Only a journal without a mark is taken as it is.
                let error = open(&disk, large.clone()).err().expect("a file that was cut is refused");
                assert_eq!(Path::new(damaged_file(&error)), path, "cut at {cut}");
                assert_eq!(verify(&disk, Path::new(DIR)).damage, Some(error), "cut at {cut}");
                disk.remove(&mark_path(Path::new(DIR))).unwrap();
            }
            let verdict = verify(&disk, Path::new(DIR));
            assert_eq!(verdict.damage, None, "cut at {cut}");
            let journal = open(&disk, large.clone()).unwrap();
            let is_whole = torn.get(..end) == Some(&bytes[..end]);
            if is_whole && !truncated {
                assert_eq!(journal.report().torn_tail, None);
                assert_eq!(read_all(&journal, SHARD).unwrap(), all_shard);
                continue;
            }
            assert_eq!(read_all(&journal, SHARD).unwrap(), all_shard[..before_shard], "cut at {cut}");
            assert_eq!(read_all(&journal, FRONT).unwrap(), all_front[..before_front], "cut at {cut}");
            let left = torn[start..].iter().rposition(|byte| *byte != 0).map(|last| start + last + 1);
            match (&journal.report().torn_tail, left) {
                (None, None) => {}
                (Some(tail), Some(left)) => {
                    assert_eq!((tail.offset, tail.bytes), (start as u64, (left - start) as u64));
                    assert_eq!(disk.contents(Path::new(&tail.saved_as)), torn[start..left]);
                    assert!(tail.saved_as.ends_with(".segment.torn-1"));
                }
                (tail, left) => panic!("cut at {cut}: {tail:?} but {left:?}"),
            }
            // The journal goes on where it was cut.
            let shard = fence(&journal, SHARD);
            append(&journal, SHARD, shard, &[b"after"]).unwrap();
            drop(journal);
            let journal = open(&disk, large.clone()).unwrap();
            assert_eq!(journal.report().torn_tail, None, "cut at {cut}: something was left");
            assert_eq!(read_all(&journal, SHARD).unwrap().last().unwrap(), b"after");
        }
    }
}

#[test]
fn a_seal_torn_at_any_byte_loses_nothing() {
    let disk = FaultDisk::new(1);
    let journal = write(&disk, options(), 3);
    let (all_shard, all_front) = (read_all(&journal, SHARD).unwrap(), read_all(&journal, FRONT).unwrap());
    journal.close().unwrap();
    drop(journal);
    let whole = image(&disk);
    let (path, bytes) = last_segment(&whole);
    // The last block is one sector; behind it the footer starts.
    let last = dump(&disk, Path::new(DIR)).unwrap().map(Result::unwrap).last().unwrap();
    let start = usize::try_from(last.offset).unwrap() + 512;
    for cut in start..bytes.len() {
        let mut torn = bytes.clone();
        torn[cut..].fill(0);
        if cut % 2 == 0 {
            torn.resize(torn.len() + 2048, 0);
        }
        let disk = disk_of(&whole);
        disk.set_contents(&path, torn.clone());
        let journal = open(&disk, options()).unwrap();
        assert_eq!(read_all(&journal, SHARD).unwrap(), all_shard, "cut at {cut}");
        assert_eq!(read_all(&journal, FRONT).unwrap(), all_front, "cut at {cut}");
    }
}

fn damaged_file(error: &JournalError) -> &str {
    match error {
        JournalError::Damaged { file, .. } => file,
        other => panic!("{other}"),
    }
}

// proves: DED-04
#[test]
fn a_flipped_byte_in_sealed_segments_is_named() {
    let disk = FaultDisk::new(1);
    let journal = write(&disk, options(), 6);
    journal.close().unwrap();
    let all = read_all(&journal, SHARD).unwrap();
    drop(journal);
    let whole = image(&disk);
    let is_segment = |path: &Path| path.extension().is_some_and(|end| end == "segment");
    let segments: Vec<_> = whole.iter().filter(|(path, _)| is_segment(path)).collect();
    assert!(segments.len() >= 3, "several segments");
    for (number, (path, bytes)) in segments.iter().enumerate() {
        for offset in 0..bytes.len() {
            let disk = disk_of(&whole);
            disk.flip(path, offset, 1 << (offset % 8));
            let opened = open(&disk, options());
            let last_trailer = number + 1 == segments.len() && offset >= bytes.len() - 512;
            if last_trailer {
                // It looks like a seal that was cut off, and nothing depends on it.
                assert_eq!(read_all(&opened.unwrap(), SHARD).unwrap(), all);
                continue;
            }
            let error = opened.err().unwrap_or_else(|| panic!("{} at {offset} was not seen", path.display()));
            assert_eq!(Path::new(damaged_file(&error)), path, "at {offset}");
            let verdict = verify(&disk, Path::new(DIR));
            let damage = verdict.damage.unwrap_or_else(|| panic!("{} at {offset} passes", path.display()));
            assert_eq!(Path::new(damaged_file(&damage)), path, "at {offset}");
        }
    }
}

#[test]
fn a_flipped_byte_before_the_last_block_of_an_unsealed_segment_is_named() {
    let disk = FaultDisk::new(1);
    let large = JournalOptions { segment_bytes: 8 << 10, ..options() };
    let journal = write(&disk, large.clone(), 3);
    let (all_shard, all_front) = (read_all(&journal, SHARD).unwrap(), read_all(&journal, FRONT).unwrap());
    let whole = image(&disk);
    let (start, before_shard, before_front) = last_block(&disk);
    drop(journal);
    let (path, bytes) = last_segment(&whole);
    for offset in 0..bytes.len() {
        let disk = disk_of(&whole);
        disk.flip(&path, offset, 1 << (offset % 8));
        match open(&disk, large.clone()) {
            Err(error) => {
                assert!(offset < start, "at {offset}: {error}");
                assert_eq!(Path::new(damaged_file(&error)), path);
                assert!(verify(&disk, Path::new(DIR)).damage.is_some());
            }
            Ok(journal) => {
                assert!(offset >= start, "at {offset} was not seen");
                let shard = read_all(&journal, SHARD).unwrap();
                let front = read_all(&journal, FRONT).unwrap();
                let lost = (shard.len(), front.len()) == (before_shard, before_front);
                assert!(lost || (&shard, &front) == (&all_shard, &all_front), "at {offset}");
                assert!(!lost || journal.report().torn_tail.is_some(), "at {offset}: cut but not reported");
            }
        }
    }
}

#[test]
fn damage_in_old_segments_beyond_the_budget_is_seen_by_readers_and_verify() {
    let disk = FaultDisk::new(1);
    let journal = write(&disk, options(), 6);
    journal.close().unwrap();
    drop(journal);
    let (path, _) = image(&disk).into_iter().find(|(_, bytes)| !bytes.is_empty()).unwrap();
    let first = dump(&disk, Path::new(DIR)).unwrap().map(Result::unwrap);
    let first = first.into_iter().find(|record| record.kind == DumpKind::Data).unwrap();
    let in_record = usize::try_from(first.offset).unwrap() + 64 + 32;
    disk.flip(&path, in_record, 1);
    let journal = open(&disk, JournalOptions { verify_bytes_max: 0, ..options() }).unwrap();
    assert_eq!(journal.report().verified_segments, 0);
    let error = read_all(&journal, SHARD).unwrap_err();
    assert_eq!(Path::new(damaged_file(&error)), path);
    assert!(matches!(error, JournalError::Damaged { offset, .. } if offset == first.offset));
    let damage = verify(&disk, Path::new(DIR)).damage;
    assert_eq!(damage.map(|damage| damage.to_string()), Some(error.to_string()));
}
