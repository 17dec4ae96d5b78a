//! A disk that is full, fails, or is too slow for what waits; and what the counters say.

use super::rig::{append, commit_all, disk_of, fence, image, open, read_all, small};
use fantail_conformance::block_on;
use fantail_conformance::journal::{FRONT, SHARD};
use fantail_local::disk::{FaultDisk, Survival};
use fantail_local::journal::{Drive, JournalOptions, RoomOptions};
use fantail_ports::journal::{Append, AppendError, Journal, JournalError};
use fantail_rules::ids::{Epoch, Position};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn a_failed_sync_poisons_the_journal_and_calls_back_once() {
    let disk = FaultDisk::new(1);
    let (calls, reason) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
    let (counted, kept) = (Arc::clone(&calls), Arc::clone(&reason));
    let on_failure = move |reason: &str| {
        counted.fetch_add(1, Ordering::Relaxed);
        *kept.lock().unwrap() = reason.to_owned();
    };
    let options = JournalOptions { on_failure: Some(Arc::new(on_failure)), ..small(Drive::Manual) };
    let journal = open(&disk, options).unwrap();
    let (shard, front) = (fence(&journal, SHARD), fence(&journal, FRONT));
    append(&journal, SHARD, shard, &[b"kept"]).unwrap();
    assert_eq!(journal.failure(), None);
    disk.fail_syncs(1);
    for _ in 0..3 {
        let failed = append(&journal, SHARD, shard, &[b"lost"]);
        assert!(matches!(failed, Err(AppendError::Failed { .. })), "{failed:?}");
        assert!(matches!(append(&journal, FRONT, front, &[b"lost"]), Err(AppendError::Failed { .. })));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(journal.failure().as_ref(), Some(&*reason.lock().unwrap()));
    assert_eq!(read_all(&journal, SHARD).unwrap(), [b"kept"], "reads go on");
    assert!(journal.close().is_err(), "it cannot be sealed");
}

#[test]
fn a_disk_below_its_reserve_refuses_appends_but_not_fences_or_reads() {
    let disk = FaultDisk::new(1);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    let epoch = fence(&journal, SHARD);
    append(&journal, SHARD, epoch, &[b"a"]).unwrap();
    disk.set_capacity(disk.used_bytes() + (1 << 30));
    let refused = append(&journal, SHARD, epoch, &[b"no"]);
    assert!(matches!(refused, Err(AppendError::NoRoom { .. })), "{refused:?}");
    assert_eq!(read_all(&journal, SHARD).unwrap(), [b"a"]);
    let newer = fence(&journal, SHARD);
    assert!(newer > epoch);
    disk.set_capacity(1 << 40);
    append(&journal, SHARD, newer, &[b"b"]).unwrap();
    assert_eq!(journal.stats().refused, 1);
    assert_eq!(journal.failure(), None);
}

/// Without a reserve the disk really fills up. A segment that cannot be begun is no failure.
#[test]
fn a_disk_without_room_for_a_segment_refuses_and_recovers() {
    let disk = FaultDisk::new(1);
    let room = RoomOptions { free_bytes_min: 0, free_percent_min: 0, ..RoomOptions::default() };
    let journal = open(&disk, JournalOptions { room, ..small(Drive::Manual) }).unwrap();
    let epoch = fence(&journal, SHARD);
    disk.set_capacity(disk.used_bytes() + 1000);
    let mut taken = 0;
    let refused = loop {
        match append(&journal, SHARD, epoch, &[&[7; 1000]]) {
            Ok(_) => taken += 1,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, AppendError::NoRoom { .. }), "{refused}");
    let flights: Vec<_> = (0..3)
        .map(|number| {
            let first = Position(taken + 1 + number);
            journal.append(Append { partition: SHARD, epoch, first, records: vec![vec![8]] })
        })
        .collect();
    let fenced = journal.fence(FRONT);
    commit_all(&journal);
    assert!(flights.into_iter().all(|flight| block_on(flight).is_err()));
    assert!(block_on(fenced).is_err());
    disk.set_capacity(1 << 40);
    append(&journal, SHARD, epoch, &[b"room again"]).unwrap();
    fence(&journal, FRONT);
    assert_eq!(read_all(&journal, SHARD).unwrap().len() as u64, taken + 1);
}

/// A mark that could not be written must not be taken for written: the one before names the segment.
#[test]
fn trimming_on_a_full_disk_removes_nothing_and_the_journal_opens() {
    let disk = FaultDisk::new(1);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    let epoch = fence(&journal, SHARD);
    for number in 0..20u8 {
        append(&journal, SHARD, epoch, &[&[number; 1000]]).unwrap();
    }
    let segments = |disk: &FaultDisk| -> Vec<_> {
        let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "segment");
        disk.paths().into_iter().filter(is_segment).collect()
    };
    let all = segments(&disk);
    disk.set_capacity(disk.used_bytes());
    // Up to the first position that makes the oldest segment superfluous.
    let trimmed = (2..20).map(|position| (position, block_on(journal.trim(SHARD, Position(position)))));
    let mut trimmed = trimmed.filter(|(_, result)| result.is_err() || segments(&disk) != all);
    let (position, result) = trimmed.next().expect("the first segment is full");
    let full = disk_of(&image(&disk));
    assert!(open(&full, small(Drive::Manual)).is_ok(), "after {result:?}");
    assert!(matches!(result, Err(JournalError::Io { .. })), "{result:?}");
    assert_eq!(segments(&disk), all);
    disk.set_capacity(1 << 40);
    block_on(journal.trim(SHARD, Position(position))).unwrap();
    assert_eq!(segments(&disk), all[1..]);
    drop(journal);
    disk.power_cut(Survival::Everything);
    assert!(open(&disk, small(Drive::Manual)).is_ok(), "it is gone and not missing");
}

/// Without a descriptor no segment can be begun. Nothing was written then, so it is begun once there is one.
#[test]
fn a_process_without_descriptors_refuses_and_recovers() {
    // A segment is opened, then its directory; then the mark, and its directory.
    for opens in 0..4 {
        let disk = FaultDisk::new(1);
        let told = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&told);
        let on_failure = move |_: &str| {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        let options = JournalOptions { on_failure: Some(Arc::new(on_failure)), ..small(Drive::Manual) };
        let journal = open(&disk, options.clone()).unwrap();
        let epoch = fence(&journal, SHARD);
        let begun = journal.stats().segments_begun;
        let mut kept: Vec<Vec<u8>> = Vec::new();
        disk.set_descriptors(Some(opens));
        while journal.stats().segments_begun == begun {
            match append(&journal, SHARD, epoch, &[&[7; 1000]]) {
                Ok(_) => kept.push(vec![7; 1000]),
                Err(AppendError::NoRoom { .. }) => break,
                Err(other) => panic!("{opens} opens: {other}"),
            }
        }
        disk.set_descriptors(None);
        for number in 0..20 {
            append(&journal, SHARD, epoch, &[&[number; 1000]]).unwrap();
            kept.push(vec![number; 1000]);
        }
        assert_eq!((told.load(Ordering::Relaxed), journal.failure()), (0, None), "{opens} opens");
        assert_eq!(read_all(&journal, SHARD).unwrap(), kept, "{opens} opens");
        disk.power_cut(Survival::Nothing);
        drop(journal);
        let journal = open(&disk, options).unwrap();
        assert_eq!(read_all(&journal, SHARD).unwrap(), kept, "{opens} opens");
    }
}

#[test]
fn what_waits_is_bounded() {
    let disk = FaultDisk::new(1);
    let journal = open(&disk, JournalOptions { queue_bytes_max: 10_000, ..small(Drive::Manual) }).unwrap();
    let epoch = fence(&journal, SHARD);
    let start = |first: u64| {
        journal.append(Append {
            partition: SHARD,
            epoch,
            first: Position(first),
            records: vec![vec![0; 1000]],
        })
    };
    let flights: Vec<_> = (1..=12).map(start).collect();
    commit_all(&journal);
    let answers: Vec<_> = flights.into_iter().map(block_on).collect();
    assert!(answers[..9].iter().all(Result::is_ok));
    assert!(matches!(answers[9], Err(AppendError::NoRoom { .. })), "{:?}", answers[9]);
    assert!(matches!(answers[10], Err(AppendError::OutOfOrder { .. })), "{:?}", answers[10]);
    assert_eq!(journal.bounds(SHARD).unwrap().next, Position(10));
}

#[test]
fn what_waited_together_is_one_commit() {
    let disk = FaultDisk::new(1);
    let journal = open(&disk, small(Drive::Manual)).unwrap();
    let start = |first: u64| {
        let records = vec![vec![1; 10]; 3];
        journal.append(Append { partition: SHARD, epoch: Epoch(0), first: Position(first), records })
    };
    let flights: Vec<_> = (0..10).map(|number| start(number * 3 + 1)).collect();
    assert!(journal.commit_next());
    assert!(!journal.commit_next());
    assert!(flights.into_iter().all(|flight| block_on(flight).is_ok()));
    let stats = journal.stats();
    assert_eq!((stats.commits, stats.appends, stats.records), (1, 10, 30));
    assert_eq!((stats.group_records_max, stats.segments_begun), (30, 1));
    assert_eq!(stats.bytes % 512, 0);
    assert_eq!(stats.sync_buckets.iter().sum::<u64>(), 1);
}
