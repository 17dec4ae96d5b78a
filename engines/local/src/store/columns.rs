//! Columns as the database has them, in memory once they were read: gates ask for every member of a parcel, and finding
//! a row in the database costs more than everything else that is done with it. Who goes through a long list asks for one
//! after the other: then those that follow are read together.
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
const ENTRY_BYTES: usize = 96;
/// Rows that are read together.
pub const AHEAD: usize = 32;
/// Who asks for a row so close behind the last that was read goes through them in order.
const CLOSE: u128 = 4;

/// A key without its first byte, which all have in common: a tenant and the number of a page.
type Place = [u8; 12];

pub struct Columns {
    bytes_max: usize,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    partitions: HashMap<PartitionId, Rows>,
    bytes: usize,
}

#[derive(Default)]
struct Rows {
    by_place: HashMap<Place, Arc<[u8]>, BySpread>,
    /// The last one that was read from the database.
    last: Option<Place>,
}

/// Whether a row is worth keeping.
pub fn is_column(key: &[u8]) -> bool {
    place(key).is_some()
}

fn place(key: &[u8]) -> Option<Place> {
    key.strip_prefix(&[COLUMNS])?.try_into().ok()
}

fn number(place: Place) -> u128 {
    place.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn cost(row: &[u8]) -> usize {
    ENTRY_BYTES + size_of::<Place>() + row.len()
}

impl Columns {
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, state: RwLock::default() }
    }

    fn state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, partition: PartitionId, key: &[u8]) -> Option<Arc<[u8]>> {
        let place = place(key)?;
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.partitions.get(&partition)?.by_place.get(&place).cloned()
    }

    /// Whether whoever misses this row is likely to ask for those behind it next.
    pub fn is_in_order(&self, partition: PartitionId, key: &[u8]) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let last = state.partitions.get(&partition).and_then(|rows| rows.last);
        let (Some(place), Some(last)) = (place(key), last) else { return false };
        (1..=CLOSE).contains(&number(place).wrapping_sub(number(last)))
    }

    pub fn take_in<'r>(&self, partition: PartitionId, rows: impl Iterator<Item = (&'r [u8], &'r [u8])>) {
        let mut state = self.state();
        for (key, row) in rows {
            let Some(place) = place(key) else { continue };
            while state.bytes + cost(row) > self.bytes_max {
                if !state.make_room() {
                    return;
                }
            }
            state.bytes += cost(row);
            let rows = state.partitions.entry(partition).or_default();
            rows.last = Some(place);
            if let Some(replaced) = rows.by_place.insert(place, row.into()) {
                state.bytes -= cost(&replaced);
            }
        }
    }

    /// These rows are others now.
    pub fn forget<'k>(&self, partition: PartitionId, keys: impl Iterator<Item = &'k Vec<u8>>) {
        let mut state = self.state();
        let State { partitions, bytes } = &mut *state;
        let Some(rows) = partitions.get_mut(&partition) else { return };
        for place in keys.filter_map(|key| place(key)) {
            if let Some(row) = rows.by_place.remove(&place) {
                *bytes -= cost(&row);
            }
        }
    }
}

impl State {
    /// Lets an eighth go; which is left to chance, as all are read alike. `false` if there was nothing.
    fn make_room(&mut self) -> bool {
        let mut number = 0usize;
        let mut freed = 0;
        let mut stays = |row: &[u8]| {
            number += 1;
            let stays = number % 8 != 1;
            freed += if stays { 0 } else { cost(row) };
            stays
        };
        self.partitions.values_mut().for_each(|rows| rows.by_place.retain(|_, row| stays(row)));
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
        [&[COLUMNS], &[0; 10][..], &number.to_be_bytes()].concat()
    }

    fn take_in(columns: &Columns, number: u16, row: &[u8]) {
        columns.take_in(PARTITION, std::iter::once((&key(number)[..], row)));
    }

    #[test]
    fn memory_is_bounded_and_what_was_replaced_is_gone() {
        let columns = Columns::new(100_000);
        for number in 0..1_000 {
            take_in(&columns, number, &[7; 1_024]);
            take_in(&columns, number, &[8; 1_024]);
            assert!(columns.state().bytes <= 100_000);
            assert_eq!(columns.get(PARTITION, &key(number)).as_deref(), Some(&[8; 1_024][..]));
        }
        let other = PartitionId::Shard(ShardNo(1));
        assert_eq!(columns.get(other, &key(999)), None);
        columns.forget(PARTITION, (0..1_000).map(key).collect::<Vec<_>>().iter());
        let is_empty = |state: RwLockWriteGuard<'_, State>| {
            state.bytes == 0 && state.partitions.values().all(|rows| rows.by_place.is_empty())
        };
        assert!(is_empty(columns.state()));
        take_in(&columns, 1, &[7; 200_000]);
        assert_eq!(columns.get(PARTITION, &key(1)), None, "a row larger than all memory");
    }

    #[test]
    fn who_asks_for_one_after_the_other_is_recognised() {
        let columns = Columns::new(100_000);
        assert!(!columns.is_in_order(PARTITION, &key(7)), "nothing was read before");
        take_in(&columns, 7, &[1]);
        for (number, is_in_order) in
            [(6, false), (7, false), (8, true), (11, true), (12, false), (900, false)]
        {
            assert_eq!(columns.is_in_order(PARTITION, &key(number)), is_in_order, "{number}");
        }
        assert!(!columns.is_in_order(PartitionId::Shard(ShardNo(1)), &key(8)));
        assert!(!columns.is_in_order(PARTITION, &[COLUMNS, 8]), "no column");
    }
}
