//! The sync point: what the database holds, whole, at one position per partition.
//!
//! ```text
//! 00 → format:4 state count (partition position)*
//! ```
//! This row and all rows it speaks of are written by one atomic write. Recovery opens what it names.

use super::Shared;
use super::keys;
use super::pack::{Cut, put_number};
use super::partition::Frozen;
use super::rows::{Row, Rows};
use fantail_ports::store::{StoreError, Synced};
use fantail_rules::ids::{PartitionId, Position};
use std::collections::BTreeMap;

pub type Marks = BTreeMap<PartitionId, Position>;

/// The newest format this build reads and the one it writes.
pub const FORMAT: u32 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Whole,
    /// A restore began and did not end: nothing in the database can be trusted.
    Restoring,
}

pub fn encode(state: State, marks: &Marks) -> Vec<u8> {
    let mut out = FORMAT.to_be_bytes().to_vec();
    out.push(match state {
        State::Whole => 0,
        State::Restoring => 1,
    });
    put_number(&mut out, marks.len() as u64);
    for (partition, position) in marks {
        put_number(&mut out, u64::from(partition.code()));
        put_number(&mut out, position.0);
    }
    out
}

/// The marks of the newest sync point; none if there never was one.
pub fn read(rows: &Rows) -> Result<Marks, StoreError> {
    let found = rows.main.get(keys::SYNC_POINT).map_err(|cause| super::rows::io_error(&cause))?;
    let Some(value) = found else { return Ok(Marks::new()) };
    let damaged = |reason: &str| StoreError::Damaged { what: "sync point".into(), reason: reason.into() };
    match decode(&value)? {
        Some((State::Whole, marks)) => Ok(marks),
        Some((State::Restoring, _)) => {
            Err(damaged("a restore was interrupted; empty the directory and restore again"))
        }
        None => Err(damaged("does not decode")),
    }
}

pub fn decode(value: &[u8]) -> Result<Option<(State, Marks)>, StoreError> {
    let mut cut = Cut(value);
    let Some(found) = cut.array().map(u32::from_be_bytes) else { return Ok(None) };
    if found > FORMAT {
        return Err(StoreError::NewerFormat { what: "tables".to_owned(), found, known: FORMAT });
    }
    Ok(decode_body(cut))
}

fn decode_body(mut cut: Cut<'_>) -> Option<(State, Marks)> {
    let state = match cut.array()? {
        [0] => State::Whole,
        [1] => State::Restoring,
        _ => return None,
    };
    let (count, mut marks) = (cut.number()?, Marks::new());
    for _ in 0..count {
        let partition = PartitionId::from_code(u16::try_from(cut.number()?).ok()?)?;
        marks.insert(partition, Position(cut.number()?));
    }
    cut.is_empty().then_some((state, marks))
}

/// Takes a sync point and writes it. Commits and reads go on meanwhile, except for the moment in which each
/// partition is frozen. Only one may run at a time. After an error the store takes no more commits.
pub fn take(shared: &Shared) -> Result<Synced, StoreError> {
    shared.check()?;
    let partitions = shared.all_partitions();
    let frozen: Vec<Frozen> = partitions.iter().map(|one| one.write().freeze()).collect();
    let written = write(shared, &frozen).inspect_err(|error| shared.fail(error));
    if written.is_ok() {
        for partition in partitions {
            let thawed = partition.write().thaw(&shared.rows);
            drop(thawed);
        }
    }
    written
}

fn write(shared: &Shared, frozen: &[Frozen]) -> Result<Synced, StoreError> {
    let marks: Marks = frozen
        .iter()
        .filter(|one| one.position > Position::START)
        .map(|one| (one.partition, one.position))
        .collect();
    let count: usize = frozen.iter().map(|one| one.overlay.rows()).sum();
    let mut last = shared.synced_marks();
    if count == 0 && *last == marks {
        return Ok(Synced::default());
    }
    let point: Row = (keys::SYNC_POINT.into(), Some(encode(State::Whole, &marks).into()));
    let rows = std::iter::once(point).chain(frozen.iter().flat_map(frozen_rows));
    shared.rows.write_durable(count + 1, rows)?;
    *last = marks;
    Ok(Synced { rows: count as u64, bytes: frozen.iter().map(|one| one.overlay.bytes).sum() })
}

/// The rows of one partition in the order of their keys.
fn frozen_rows(frozen: &Frozen) -> impl Iterator<Item = Row> {
    let (partition, overlay) = (frozen.partition, &*frozen.overlay);
    let value = |to: &Option<Vec<u8>>| to.as_deref().map(Into::into);
    let tables = overlay.tables.iter().map(move |(key, to)| (keys::table(partition, key).into(), value(to)));
    let pages = overlay.pages.iter().map(move |(key, to)| (keys::page(partition, *key).into(), value(to)));
    let notes = overlay.notes.iter().map(move |(key, to)| (key.into(), value(to)));
    tables.chain(pages).chain(notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::ShardNo;

    #[test]
    fn sync_points_round_trip_in_a_frozen_layout() {
        let marks =
            Marks::from([(PartitionId::Root, Position(3)), (PartitionId::Shard(ShardNo(1)), Position(300))]);
        let value = encode(State::Whole, &marks);
        assert_eq!(value, [0, 0, 0, 1, 0, 2, 0, 3, 0x81, 0x80, 3, 0xac, 2]);
        assert_eq!(decode(&value).expect("a known format"), Some((State::Whole, marks)));
    }

    #[test]
    fn a_newer_format_is_refused() {
        let newer = [0, 0, 0, 9, 1, 2, 3];
        assert!(matches!(decode(&newer), Err(StoreError::NewerFormat { found: 9, known: FORMAT, .. })));
    }
}
