//! Many writers and readers at once.

use super::rig::{open, small};
use fantail_conformance::block_on;
use fantail_conformance::journal::NO_LIMIT;
use fantail_local::disk::FaultDisk;
use fantail_local::journal::{Drive, JournalOptions, LocalJournal};
use fantail_ports::journal::{Append, Journal};
use fantail_rules::ids::{PartitionId, Position, ShardNo};
use std::thread;

const APPENDS: u64 = 400;

fn write(journal: &LocalJournal, partition: PartitionId) {
    let epoch = block_on(journal.fence(partition)).unwrap();
    let flights: Vec<_> = (1..=APPENDS)
        .map(|position| {
            let records = vec![format!("{partition} {position}").into_bytes()];
            journal.append(Append { partition, epoch, first: Position(position), records })
        })
        .collect();
    for (position, flight) in (1..).zip(flights) {
        assert_eq!(block_on(flight), Ok(Position(position)));
        assert!(journal.bounds(partition).unwrap().next > Position(position), "answered means readable");
    }
}

fn follow(journal: &LocalJournal, partition: PartitionId) {
    let mut next = Position(1);
    while next.0 <= APPENDS {
        for record in block_on(journal.read(partition, next, NO_LIMIT)).unwrap() {
            assert_eq!(record.position, next);
            assert_eq!(record.bytes, format!("{partition} {next}").into_bytes());
            next = next.next();
        }
        thread::yield_now();
    }
}

// proves: FAN-05
#[test]
fn writers_and_readers_share_a_journal() {
    for cache_bytes_max in [0, 1 << 10, 8 << 20] {
        let options = JournalOptions { cache_bytes_max, ..small(Drive::Threads) };
        let journal = open(&FaultDisk::new(1), options).unwrap();
        thread::scope(|scope| {
            for number in 0..3 {
                let (journal, partition) = (&journal, PartitionId::Shard(ShardNo(number)));
                scope.spawn(move || write(journal, partition));
                scope.spawn(move || follow(journal, partition));
            }
        });
        let stats = journal.stats();
        assert_eq!(stats.records, 3 * APPENDS);
        assert_eq!(journal.failure(), None);
        journal.close().unwrap();
    }
}
