//! Power cuts at every kind of moment, on a disk that keeps any part of what was not synced.
//!
//! The claim: what was answered is there, once, in order; what was not is there as whole batches or not at all.

use super::rig::{commit_all, open, read_all, small};
use fantail_conformance::journal::{FRONT, NO_LIMIT, SHARD};
use fantail_local::disk::{FaultDisk, Survival};
use fantail_local::journal::{Drive, JournalOptions, LocalJournal};
use fantail_ports::BoxFuture;
use fantail_ports::journal::{Append, AppendError, Journal, JournalError};
use fantail_rules::ids::{Epoch, PartitionId, Position};
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

/// SplitMix64, as seeds must give the same run everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }
}

struct Flight {
    records: Vec<Vec<u8>>,
    /// `None` once it failed: then it may be there or not.
    answer: Option<BoxFuture<'static, Result<Position, AppendError>>>,
}

/// What one partition must hold.
struct Expected {
    partition: PartitionId,
    epoch: Epoch,
    /// Every record that was answered, from position 1 on.
    answered: Vec<Vec<u8>>,
    /// Called, not answered, in order.
    flights: VecDeque<Flight>,
    /// The largest position for which trim was called.
    trimmed: u64,
}

impl Expected {
    fn new(partition: PartitionId) -> Self {
        Self { partition, epoch: Epoch(0), answered: Vec::new(), flights: VecDeque::new(), trimmed: 1 }
    }

    fn start(&mut self, journal: &LocalJournal, dice: &mut Dice, life: u64) {
        let in_flight: usize = self.flights.iter().map(|flight| flight.records.len()).sum();
        let first = (self.answered.len() + in_flight) as u64 + 1;
        let records: Vec<Vec<u8>> = (first..first + 1 + dice.below(5))
            .map(|position| {
                let mut record =
                    format!("{} {position} {life} {}|", self.partition, dice.below(1 << 40)).into_bytes();
                let length = if dice.below(4) == 0 { 1500 } else { 100 };
                record.resize(record.len() + usize::try_from(dice.below(length)).unwrap(), b'.');
                record
            })
            .collect();
        let append = Append {
            partition: self.partition,
            epoch: self.epoch,
            first: Position(first),
            records: records.clone(),
        };
        self.flights.push_back(Flight { records, answer: Some(journal.append(append)) });
    }

    /// Takes the answers that are there; false if one says that the journal failed.
    fn land(&mut self) -> bool {
        while let Some(flight) = self.flights.front_mut() {
            let Some(answer) = &mut flight.answer else { return false };
            match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => break,
                Poll::Ready(Ok(last)) => {
                    let flight = self.flights.pop_front().unwrap();
                    self.answered.extend(flight.records);
                    assert_eq!(last.0, self.answered.len() as u64);
                }
                Poll::Ready(Err(AppendError::Failed { .. })) => {
                    flight.answer = None;
                    return false;
                }
                Poll::Ready(Err(other)) => panic!("{other}"),
            }
        }
        true
    }

    /// Compares with what the reopened journal holds, and takes that as answered.
    fn check(&mut self, journal: &LocalJournal, context: &str) {
        let bounds = journal.bounds(self.partition).unwrap();
        let found = read_all(journal, self.partition).unwrap();
        assert!(bounds.first.0 <= self.trimmed, "{context}: more was removed than trimmed: {bounds:?}");
        assert_eq!(bounds.next.0 - bounds.first.0, found.len() as u64, "{context}");
        assert!(
            bounds.next.0 > self.answered.len() as u64,
            "{context}: {} lost answered records",
            self.partition
        );
        let mut ends = vec![self.answered.len()];
        for flight in self.flights.drain(..) {
            self.answered.extend(flight.records);
            ends.push(self.answered.len());
        }
        let last = usize::try_from(bounds.next.0).unwrap() - 1;
        assert!(ends.contains(&last), "{context}: {} has half a batch: {last} of {ends:?}", self.partition);
        self.answered.truncate(last);
        let first = usize::try_from(bounds.first.0).unwrap() - 1;
        assert!(self.answered[first..] == found[..], "{context}: {} differs", self.partition);
    }
}

fn lead(journal: &LocalJournal, expected: &mut Expected, drive: Drive) -> Result<(), JournalError> {
    let fenced = journal.fence(expected.partition);
    if drive == Drive::Manual {
        commit_all(journal);
    }
    let epoch = fantail_conformance::block_on(fenced)?;
    assert!(epoch > expected.epoch, "an epoch was given twice");
    expected.epoch = epoch;
    Ok(())
}

/// One process: opens, checks, leads, appends until the power goes.
fn live(disk: &FaultDisk, options: &JournalOptions, all: &mut [Expected], dice: &mut Dice, context: &str) {
    let drive = options.drive;
    let journal = match open(disk, options.clone()) {
        Ok(journal) => journal,
        Err(JournalError::Io { .. }) => return,
        Err(other) => panic!("{context}: {other}"),
    };
    for expected in all.iter_mut() {
        expected.check(&journal, context);
    }
    for expected in all.iter_mut() {
        if lead(&journal, expected, drive).is_err() {
            return;
        }
    }
    let life = dice.below(1 << 20);
    for _ in 0..120 {
        let count = all.len() as u64;
        let expected = &mut all[usize::try_from(dice.below(count)).unwrap()];
        match dice.below(10) {
            0..=4 => expected.start(&journal, dice, life),
            5..=7 if drive == Drive::Manual => drop(journal.commit_next()),
            8 => {
                let before = 1 + dice.below(expected.answered.len() as u64 + 1);
                expected.trimmed = expected.trimmed.max(before);
                drop(fantail_conformance::block_on(journal.trim(expected.partition, Position(before))));
            }
            _ => drop(fantail_conformance::block_on(journal.read(expected.partition, Position(1), NO_LIMIT))),
        }
        if !expected.land() {
            break;
        }
    }
    if dice.below(4) == 0 {
        drop(journal.close());
    }
    // What became durable after the last look was answered too.
    drop(journal);
    for expected in all.iter_mut() {
        expected.land();
    }
}

fn survive(seed: u64, drive: Drive) {
    let mut dice = Dice(seed);
    let disk = FaultDisk::new(seed);
    disk.short_writes(dice.below(2) == 0);
    let segment_bytes = 4096 + 512 * dice.below(30);
    let options = JournalOptions { segment_bytes, cache_bytes_max: 4 << 10, ..small(drive) };
    let mut all = [Expected::new(SHARD), Expected::new(FRONT), Expected::new(PartitionId::Root)];
    for life in 0..4 {
        disk.cut_after(dice.below(80));
        live(&disk, &options, &mut all, &mut dice, &format!("seed {seed} life {life}"));
        let survivals =
            [Survival::Chance, Survival::Chance, Survival::Nothing, Survival::Everything, Survival::First(1)];
        disk.power_cut(survivals[usize::try_from(dice.below(5)).unwrap()]);
    }
    let context = format!("seed {seed} at the end");
    let journal = open(&disk, options).unwrap();
    for expected in &mut all {
        expected.check(&journal, &context);
    }
}

// proves: DED-04, FAN-05
#[test]
fn answered_records_survive_power_cuts() {
    // 8130: a leftover of a segment's creation came back under the name of the next one.
    for seed in (0..1_500).chain([8_130]) {
        survive(seed, Drive::Manual);
    }
}

// proves: DED-04
#[test]
fn answered_records_survive_power_cuts_with_threads() {
    for seed in 10_000..10_150 {
        survive(seed, Drive::Threads);
    }
}

/// A failed sync leaves bytes in the page cache that are not on the disk. The next process sees them, so it must
/// make them durable before it counts on them.
#[test]
fn what_a_reopened_journal_shows_survives_a_power_cut() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let disk = FaultDisk::new(seed);
        let options = small(Drive::Manual);
        let mut expected = Expected::new(SHARD);
        let journal = open(&disk, options.clone()).unwrap();
        lead(&journal, &mut expected, Drive::Manual).unwrap();
        for _ in 0..dice.below(12) {
            expected.start(&journal, &mut dice, 0);
            journal.commit_next();
        }
        assert!(expected.land());
        disk.fail_syncs(1);
        if dice.below(2) == 0 {
            expected.start(&journal, &mut dice, 1);
            journal.commit_next();
            assert!(!expected.land(), "its sync failed");
        } else {
            assert!(journal.close().is_err(), "the sync of its seal failed");
        }
        disk.kill_process();
        drop(journal);
        let context = format!("seed {seed}");
        let journal = open(&disk, options.clone()).unwrap();
        expected.check(&journal, &context);
        // Perhaps the new process wrote more, perhaps not.
        if dice.below(2) == 0 {
            lead(&journal, &mut expected, Drive::Manual).unwrap();
        }
        disk.power_cut(Survival::Nothing);
        drop(journal);
        expected.check(&open(&disk, options).unwrap(), &context);
    }
}
