//! The model of the journal passes the suite, with appends durable at once and on flush.

use fantail_conformance::block_on;
use fantail_conformance::journal::{NO_LIMIT, Rig, SHARD, journal_suite};
use fantail_memory::journal::{Durability, MemoryJournal};
use fantail_ports::journal::{Append, AppendError, Journal};
use fantail_rules::ids::{Epoch, Position};

struct MemoryRig(MemoryJournal);

impl Rig for MemoryRig {
    fn journal(&self) -> &dyn Journal {
        &self.0
    }

    fn settle(&self) {
        self.0.flush_all();
    }

    fn reopen(&mut self) {
        self.0.flush_all();
        self.0 = self.0.crash(0);
    }

    fn crash(&mut self) {
        self.0 = self.0.crash(0);
    }

    fn set_full(&self, full: bool) {
        self.0.set_full(full);
    }

    fn break_disk(&self) {
        self.0.fail("the disk is broken");
    }
}

// proves: NFR-03
#[test]
fn memory_journal_passes_the_suite_at_once() {
    journal_suite(|| MemoryRig(MemoryJournal::new(Durability::AtOnce)));
}

// proves: NFR-03
#[test]
fn memory_journal_passes_the_suite_on_flush() {
    journal_suite(|| MemoryRig(MemoryJournal::new(Durability::OnFlush)));
}

fn append(
    journal: &MemoryJournal,
    first: u64,
    count: u64,
) -> impl Future<Output = Result<Position, AppendError>> {
    let records = (first..first + count).map(|position| position.to_be_bytes().to_vec()).collect();
    journal.append(Append { partition: SHARD, epoch: Epoch(0), first: Position(first), records })
}

#[test]
fn nothing_is_visible_before_its_flush() {
    let journal = MemoryJournal::new(Durability::OnFlush);
    let (first, second) = (append(&journal, 1, 2), append(&journal, 3, 1));
    assert_eq!(journal.waiting(), 2);
    assert_eq!(journal.bounds(SHARD).unwrap().next, Position(1));
    assert!(journal.flush_next());
    assert_eq!(block_on(first), Ok(Position(2)));
    assert_eq!(journal.bounds(SHARD).unwrap().next, Position(3));
    assert!(journal.flush_next());
    assert_eq!(block_on(second), Ok(Position(3)));
    assert!(!journal.flush_next());
}

// proves: DED-04
#[test]
fn a_crash_keeps_a_prefix_of_whole_batches() {
    for kept in 0..=3 {
        let journal = MemoryJournal::new(Durability::OnFlush);
        let flights = [append(&journal, 1, 2), append(&journal, 3, 2), append(&journal, 5, 2)];
        let reopened = journal.crash(kept);
        for flight in flights {
            assert!(matches!(block_on(flight), Err(AppendError::Failed { .. })));
        }
        assert!(matches!(block_on(append(&journal, 7, 1)), Err(AppendError::Failed { .. })), "it is dead");
        let records = block_on(reopened.read(SHARD, Position(1), NO_LIMIT)).unwrap();
        assert_eq!(records.len(), 2 * kept);
        let next = append(&reopened, 2 * kept as u64 + 1, 1);
        reopened.flush_all();
        assert_eq!(block_on(next), Ok(Position(2 * kept as u64 + 1)));
    }
}

#[test]
fn lost_appends_set_the_partition_back() {
    let journal = MemoryJournal::new(Durability::OnFlush);
    let flights = [append(&journal, 1, 1), append(&journal, 2, 1)];
    journal.lose_waiting(1);
    for flight in flights {
        assert!(matches!(block_on(flight), Err(AppendError::Failed { .. })));
    }
    let next = append(&journal, 2, 1);
    journal.flush_all();
    assert_eq!(block_on(next), Ok(Position(2)));
}
