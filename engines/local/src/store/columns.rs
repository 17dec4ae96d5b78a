//! Columns as the database has them, in memory once they were read: gates ask for every member of a parcel, and finding
//! a row in the database costs more than everything else that is done with it.
//!
//! What must never happen: a row that the database has replaced. As with lists, rows are taken in only while no sync
//! runs, under the partition's read lock, and those that a sync wrote are forgotten under its write lock before the
//! overlay that covered them goes.

use crate::spread::BySpread;
use fantail_ports::tables::COLUMNS;
use fantail_rules::ids::PartitionId;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

/// What an entry costs beside its bytes.
const ENTRY_BYTES: usize = 112;

type Rows = HashMap<Box<[u8]>, Arc<[u8]>, BySpread>;

pub struct Columns {
    bytes_max: usize,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    partitions: HashMap<PartitionId, Rows>,
    bytes: usize,
}

/// Whether a row is worth keeping.
pub fn is_column(key: &[u8]) -> bool {
    key.first() == Some(&COLUMNS)
}

fn cost(key: &[u8], row: &[u8]) -> usize {
    ENTRY_BYTES + key.len() + row.len()
}

impl Columns {
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, state: RwLock::default() }
    }

    fn state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, partition: PartitionId, key: &[u8]) -> Option<Arc<[u8]>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.partitions.get(&partition)?.get(key).cloned()
    }

    pub fn take_in(&self, partition: PartitionId, key: &[u8], row: &[u8]) {
        let mut state = self.state();
        while state.bytes + cost(key, row) > self.bytes_max {
            if !state.make_room() {
                return;
            }
        }
        state.bytes += cost(key, row);
        let rows = state.partitions.entry(partition).or_default();
        if let Some(replaced) = rows.insert(key.into(), row.into()) {
            state.bytes -= cost(key, &replaced);
        }
    }

    /// These rows are others now.
    pub fn forget<'k>(&self, partition: PartitionId, keys: impl Iterator<Item = &'k Vec<u8>>) {
        let mut state = self.state();
        let State { partitions, bytes } = &mut *state;
        let Some(rows) = partitions.get_mut(&partition) else { return };
        for key in keys.filter(|key| is_column(key)) {
            if let Some(row) = rows.remove(key.as_slice()) {
                *bytes -= cost(key, &row);
            }
        }
    }
}

impl State {
    /// Lets an eighth go; which is left to chance, as all are read alike. `false` if there was nothing.
    fn make_room(&mut self) -> bool {
        let mut number = 0usize;
        let mut freed = 0;
        let mut stays = |key: &[u8], row: &[u8]| {
            number += 1;
            let stays = number % 8 != 1;
            freed += if stays { 0 } else { cost(key, row) };
            stays
        };
        self.partitions.values_mut().for_each(|rows| rows.retain(|key, row| stays(key, row)));
        self.bytes -= freed;
        freed > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::ShardNo;

    const PARTITION: PartitionId = PartitionId::Shard(ShardNo(0));

    fn key(number: u16) -> Vec<u8> {
        [&[COLUMNS], &number.to_be_bytes()[..]].concat()
    }

    #[test]
    fn memory_is_bounded_and_what_was_replaced_is_gone() {
        let columns = Columns::new(100_000);
        for number in 0..1_000 {
            columns.take_in(PARTITION, &key(number), &[7; 1_024]);
            columns.take_in(PARTITION, &key(number), &[8; 1_024]);
            assert!(columns.state().bytes <= 100_000);
            assert_eq!(columns.get(PARTITION, &key(number)).as_deref(), Some(&[8; 1_024][..]));
        }
        let other = PartitionId::Shard(ShardNo(1));
        assert_eq!(columns.get(other, &key(999)), None);
        columns.forget(PARTITION, (0..1_000).map(key).collect::<Vec<_>>().iter());
        let is_empty = |state: RwLockWriteGuard<'_, State>| {
            state.bytes == 0 && state.partitions.values().all(HashMap::is_empty)
        };
        assert!(is_empty(columns.state()));
        columns.take_in(PARTITION, &key(1), &[7; 200_000]);
        assert_eq!(columns.get(PARTITION, &key(1)), None, "a row larger than all memory");
    }
}
