//! Copies that are made while the journal is written to.

use super::rig::{DIR, append, fence, open, read_all, small};
use fantail_conformance::block_on;
use fantail_conformance::journal::SHARD;
use fantail_local::disk::FaultDisk;
use fantail_local::journal::{Drive, LocalJournal, mark_path, verify};
use fantail_ports::journal::{Journal, JournalError};
use fantail_rules::ids::Position;
use std::path::Path;
use std::sync::Arc;

const COPY: &str = "/copy/journal";

fn open_copy(disk: &FaultDisk) -> Result<LocalJournal, JournalError> {
    LocalJournal::open(Arc::new(disk.clone()), Path::new(COPY), small(Drive::Manual))
}

// fixes: correctness B2
#[test]
fn a_copy_ends_where_the_journal_was_durable_when_it_began() {
    for records in [1, 3, 7, 8, 9, 20] {
        let disk = FaultDisk::new(1);
        let journal = open(&disk, small(Drive::Manual)).unwrap();
        let shard = fence(&journal, SHARD);
        let write = |number: u8| {
            append(&journal, SHARD, shard, &[&[number; 900]]).unwrap();
        };
        (0..records).for_each(&write);
        let hold = journal.hold();
        // The copy is slow: the writer goes on, begins segments, and what is held may be trimmed meanwhile.
        (records..records + 12).for_each(&write);
        let bounds = journal.bounds(SHARD).unwrap();
        block_on(journal.trim(SHARD, bounds.next)).unwrap();
        let copied = hold.copy_to(Path::new(COPY)).unwrap();
        drop(hold);
        let verdict = verify(&disk, Path::new(COPY));
        assert_eq!((&verdict.damage, &verdict.torn_tail), (&None, &None), "{records}: {verdict:?}");
        assert_eq!(copied.segments, verdict.segments);
        let copy = open_copy(&disk).unwrap();
        let expected: Vec<Vec<u8>> = (0..records).map(|number| vec![number; 900]).collect();
        assert_eq!(read_all(&copy, SHARD).unwrap(), expected);
        let shard = fence(&copy, SHARD);
        append(&copy, SHARD, shard, &[b"goes on"]).unwrap();
        // Once nothing is held, the trimmed segments go.
        block_on(journal.trim(SHARD, bounds.next)).unwrap();
        assert!(journal.bounds(SHARD).unwrap().first > Position(1), "{records}");
        assert_eq!(verify(&disk, Path::new(DIR)).damage, None);
    }
}

// fixes: torture 6
#[test]
fn a_copy_that_was_cut_is_named() {
    let disk = FaultDisk::new(1);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    let shard = fence(&journal, SHARD);
    for number in 0..3u8 {
        append(&journal, SHARD, shard, &[&[number; 900]]).unwrap();
    }
    journal.hold().copy_to(Path::new(COPY)).unwrap();
    assert!(disk.paths().contains(&mark_path(Path::new(COPY))));
    let segment = Path::new(COPY).join("journal-0000000000000001.segment");
    let bytes = disk.contents(&segment);
    disk.set_contents(&segment, bytes[..bytes.len() - 512].to_vec());
    let error = open_copy(&disk).err().unwrap();
    assert!(matches!(&error, JournalError::Damaged { file, .. } if Path::new(file) == segment), "{error}");
}
