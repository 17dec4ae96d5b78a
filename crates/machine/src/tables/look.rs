//! A bounded look at rows, for pages that show some of what they read: what a page leaves out costs as much as what it shows.

use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use std::ops::ControlFlow;

/// What one look may come to. It ends behind the row that reaches one of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookMax {
    pub rows: usize,
    /// Of the rows that are looked at.
    pub bytes: usize,
    pub found: usize,
}

/// Rows that were found, by what their keys say, and the one that was looked at last if there are more.
pub type FoundRows<K, R> = (Vec<(K, R)>, Option<K>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Looked<T> {
    pub found: Vec<T>,
    /// The key of the last row that was looked at, if there are more rows in the range.
    pub cut_at: Option<Vec<u8>>,
}

/// Looks at rows in order, and keeps those that `choose` gives something for.
pub fn look<T>(
    tables: &dyn Tables,
    range: KeyRange<'_>,
    order: Order,
    most: LookMax,
    mut choose: impl FnMut(&[u8], &[u8]) -> Result<Option<T>, TablesError>,
) -> Result<Looked<T>, TablesError> {
    let mut looked = Looked { found: Vec::new(), cut_at: None };
    if range.from >= range.to {
        return Ok(looked);
    }
    let (mut rows, mut bytes, mut failed) = (0, 0, None);
    let mut last = Vec::new();
    tables.scan(range, order, &mut |key, row| {
        if rows >= most.rows.max(1) || bytes >= most.bytes || looked.found.len() >= most.found {
            looked.cut_at = Some(std::mem::take(&mut last));
            return ControlFlow::Break(());
        }
        rows += 1;
        bytes += row.len();
        last.clear();
        last.extend_from_slice(key);
        match choose(key, row) {
            Ok(found) => {
                looked.found.extend(found);
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(looked), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::Plain;

    const PLENTY: LookMax = LookMax { rows: 100, bytes: 1_000, found: 100 };

    /// Rows 1 to 6 with as many bytes as their number says; even ones are chosen.
    #[track_caller]
    fn check(order: Order, most: LookMax, found: &[u8], cut_at: Option<u8>) {
        let rows = (1u8..=6).map(|no| (vec![no], vec![no; usize::from(no)]));
        let tables = Plain(rows.collect());
        let looked = look(&tables, KeyRange { from: &[1], to: &[7] }, order, most, |key, _| {
            Ok(Some(key[0]).filter(|no| no % 2 == 0))
        });
        let expected = Looked { found: found.to_vec(), cut_at: cut_at.map(|no| vec![no]) };
        assert_eq!(looked, Ok(expected), "{most:?}");
    }

    /// Places come from callers: one may lie behind the end.
    #[test]
    fn a_range_that_ends_before_it_begins_is_empty() {
        let looked =
            look(&Plain::default(), KeyRange { from: &[7], to: &[1] }, Order::Ascending, PLENTY, |_, _| {
                Ok(Some(()))
            });
        assert_eq!(looked, Ok(Looked { found: Vec::new(), cut_at: None }));
    }

    #[test]
    fn a_look_ends_behind_the_row_that_reaches_a_limit() {
        let up = Order::Ascending;
        check(up, PLENTY, &[2, 4, 6], None);
        check(Order::Descending, PLENTY, &[6, 4, 2], None);
        check(up, LookMax { rows: 3, ..PLENTY }, &[2], Some(3));
        check(Order::Descending, LookMax { rows: 3, ..PLENTY }, &[6, 4], Some(4));
        check(up, LookMax { rows: 6, ..PLENTY }, &[2, 4, 6], None);
        check(up, LookMax { bytes: 6, ..PLENTY }, &[2], Some(3));
        check(up, LookMax { found: 2, ..PLENTY }, &[2, 4], Some(4));
        check(up, LookMax { found: 3, ..PLENTY }, &[2, 4, 6], None);
        // Each look gets on.
        check(up, LookMax { rows: 0, ..PLENTY }, &[], Some(1));
    }
}
