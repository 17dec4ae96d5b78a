//! Segments that were deleted or cut: the mark of the journal names each.

use super::rig::{DIR, append, disk_of, fence, image, open, read_all, small};
use fantail_conformance::journal::{FRONT, SHARD};
use fantail_local::disk::{Disk, FaultDisk};
use fantail_local::journal::{Drive, mark_path, verify};
use fantail_ports::journal::JournalError;
use std::path::{Path, PathBuf};

/// A journal of some segments, closed or killed.
fn made(close: bool) -> FaultDisk {
    let disk = FaultDisk::new(1);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    let (shard, front) = (fence(&journal, SHARD), fence(&journal, FRONT));
    for number in 0..25u8 {
        append(&journal, SHARD, shard, &[&[number; 900]]).unwrap();
        append(&journal, FRONT, front, &[&[number; 10]]).unwrap();
    }
    if close {
        journal.close().unwrap();
    }
    drop(journal);
    disk
}

fn segments(disk: &FaultDisk) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| path.extension().is_some_and(|end| end == "segment")).collect()
}

fn is_refused_and_named(disk: &FaultDisk, path: &Path, what: &str) {
    let error = open(disk, small(Drive::Manual)).err().unwrap_or_else(|| panic!("{what} was not seen"));
    assert!(
        matches!(&error, JournalError::Damaged { file, .. } if Path::new(file) == path),
        "{what}: {error} does not name {}",
        path.display()
    );
    let damage = verify(disk, Path::new(DIR)).damage.unwrap_or_else(|| panic!("{what} passes"));
    assert!(damage.to_string().contains(&path.display().to_string()), "{what}: {damage}");
}

// fixes: torture 6
#[test]
fn each_segment_that_was_deleted_is_named() {
    for close in [true, false] {
        let disk = made(close);
        let whole = image(&disk);
        for segment in segments(&disk) {
            let disk = disk_of(&whole);
            disk.remove(&segment).unwrap();
            is_refused_and_named(&disk, &segment, &format!("{} deleted, closed: {close}", segment.display()));
        }
        let disk = disk_of(&whole);
        let all = segments(&disk);
        all.iter().for_each(|segment| disk.remove(segment).unwrap());
        is_refused_and_named(&disk, &all[0], "all segments deleted");
    }
}

// fixes: torture 6
#[test]
fn a_segment_that_was_cut_anywhere_is_named_or_lost_nothing() {
    for close in [true, false] {
        let disk = made(close);
        let journal = open(&disk_of(&image(&disk)), small(Drive::Manual)).unwrap();
        let all = (read_all(&journal, SHARD).unwrap(), read_all(&journal, FRONT).unwrap());
        drop(journal);
        let whole = image(&disk);
        for segment in segments(&disk) {
            let length = disk.contents(&segment).len();
            for cut in (0..length).step_by(171) {
                let what = format!("{} cut at {cut} of {length}, closed: {close}", segment.display());
                let disk = disk_of(&whole);
                disk.set_contents(&segment, disk.contents(&segment)[..cut].to_vec());
                match open(&disk, small(Drive::Manual)) {
                    Err(_) => is_refused_and_named(&disk, &segment, &what),
                    // Of a seal nothing depends on its end.
                    Ok(journal) => {
                        let found = (read_all(&journal, SHARD).unwrap(), read_all(&journal, FRONT).unwrap());
                        assert!(close && found == all, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_mark_that_was_flipped_or_cut_is_named() {
    let disk = made(true);
    let (whole, mark) = (image(&disk), mark_path(Path::new(DIR)));
    let bytes = disk.contents(&mark);
    for at in 0..bytes.len() {
        let disk = disk_of(&whole);
        disk.flip(&mark, at, 1 << (at % 8));
        is_refused_and_named(&disk, &mark, &format!("flip at {at}"));
        disk.set_contents(&mark, bytes[..at].to_vec());
        is_refused_and_named(&disk, &mark, &format!("cut at {at}"));
    }
}

/// Written by builds without marks, or copied by hand.
#[test]
fn a_journal_without_a_mark_opens_and_has_one_then() {
    for close in [true, false] {
        let disk = made(close);
        let mark = mark_path(Path::new(DIR));
        disk.remove(&mark).unwrap();
        assert_eq!(verify(&disk, Path::new(DIR)).damage, None);
        let journal = open(&disk, small(Drive::Manual)).unwrap();
        assert_eq!(read_all(&journal, SHARD).unwrap().len(), 25);
        drop(journal);
        let newest = segments(&disk).pop().unwrap();
        disk.remove(&newest).unwrap();
        is_refused_and_named(&disk, &newest, "the newest deleted");
    }
}
