//! The last durable records of each partition in memory, so that readers at the end cost no input.
//!
//! What must never happen: a record here that is not durable, or more bytes than the limit.

use fantail_ports::journal::{ReadLimit, Record};
use fantail_rules::ids::Position;
use std::collections::{BTreeMap, VecDeque};

/// What one record costs beside its bytes; keeps many tiny ones from growing past the limit.
const RECORD_OVERHEAD_BYTES: usize = 64;

pub struct TailCache {
    bytes_max: usize,
    bytes: usize,
    tails: BTreeMap<u16, Tail>,
    /// Partitions in the order in which their records came: the oldest record goes first.
    order: VecDeque<u16>,
}

struct Tail {
    /// Position of the front record.
    first: u64,
    records: VecDeque<Vec<u8>>,
}

impl TailCache {
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, tails: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Adds durable records at `first` and after. They continue what is there.
    pub fn push(&mut self, partition: u16, first: u64, records: Vec<Vec<u8>>) {
        let tail = self.tails.entry(partition).or_insert_with(|| Tail { first, records: VecDeque::new() });
        if tail.records.is_empty() {
            tail.first = first;
        }
        assert_eq!(tail.first + tail.records.len() as u64, first, "the positions of a partition are dense");
        for record in records {
            self.bytes += record.len() + RECORD_OVERHEAD_BYTES;
            tail.records.push_back(record);
            self.order.push_back(partition);
        }
        while self.bytes > self.bytes_max {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let partition = self.order.pop_front().expect("bytes are counted for records only");
        let tail = self.tails.get_mut(&partition).expect("the order names partitions with records");
        let record = tail.records.pop_front().expect("the order names every record once");
        tail.first += 1;
        self.bytes -= record.len() + RECORD_OVERHEAD_BYTES;
    }

    /// Records from the cache, or `None` if it does not reach back to `from`.
    #[must_use]
    pub fn read(&self, partition: u16, from: u64, limit: ReadLimit) -> Option<Vec<Record>> {
        let tail = self.tails.get(&partition)?;
        let skipped = usize::try_from(from.checked_sub(tail.first)?).ok()?;
        if skipped >= tail.records.len() {
            return None;
        }
        let mut taken = Taken::new(limit);
        for (position, bytes) in (from..).zip(tail.records.range(skipped..)) {
            if !taken.push(position, bytes) {
                break;
            }
        }
        Some(taken.records)
    }
}

/// Records taken up to a limit: always one, then as many as fit.
pub struct Taken {
    pub records: Vec<Record>,
    bytes: usize,
    limit: ReadLimit,
}

impl Taken {
    #[must_use]
    pub fn new(limit: ReadLimit) -> Self {
        Self { records: Vec::new(), bytes: 0, limit }
    }

    /// Takes the record, or answers false if the limit is reached.
    pub fn push(&mut self, position: u64, bytes: &[u8]) -> bool {
        let fits = self.records.len() < self.limit.records && self.bytes + bytes.len() <= self.limit.bytes;
        if !fits && !self.records.is_empty() {
            return false;
        }
        self.bytes += bytes.len();
        self.records.push(Record { position: Position(position), bytes: bytes.to_vec() });
        true
    }

    #[must_use]
    pub fn is_full(&self) -> bool {
        !self.records.is_empty()
            && (self.records.len() >= self.limit.records || self.bytes >= self.limit.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: ReadLimit = ReadLimit { records: 100, bytes: 1 << 20 };

    #[test]
    fn oldest_records_go_first_whatever_their_partition() {
        let mut cache = TailCache::new(4 * (10 + RECORD_OVERHEAD_BYTES));
        cache.push(1, 5, vec![vec![5; 10], vec![6; 10]]);
        cache.push(2, 1, vec![vec![1; 10], vec![2; 10]]);
        assert_eq!(cache.read(1, 5, ALL).map(|records| records.len()), Some(2));
        cache.push(2, 3, vec![vec![3; 10]]);
        assert_eq!(cache.read(1, 5, ALL), None);
        assert_eq!(cache.read(1, 6, ALL).map(|records| records.len()), Some(1));
        assert_eq!(cache.read(2, 1, ALL).map(|records| records.len()), Some(3));
        assert_eq!(cache.read(2, 4, ALL), None);
        cache.push(1, 7, vec![vec![7; 500]]);
        assert_eq!(cache.read(1, 7, ALL), None, "larger than the cache");
    }

    #[test]
    fn a_limit_still_gives_one_record() {
        let check = |limit: ReadLimit, expected: usize| {
            let mut taken = Taken::new(limit);
            let count = (1..=5).take_while(|position| taken.push(*position, &[0; 10])).count();
            assert_eq!(count, expected, "{limit:?}");
            assert!(taken.is_full() || count == 5);
        };
        check(ReadLimit { records: 0, bytes: 0 }, 1);
        check(ReadLimit { records: 3, bytes: 1000 }, 3);
        check(ReadLimit { records: 9, bytes: 20 }, 2);
        check(ReadLimit { records: 9, bytes: 1 << 20 }, 5);
    }
}
