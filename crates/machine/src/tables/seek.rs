//! Scans that leave rows out by seeking, so that many rows of one tenant do not stand before those of another one.

use super::{Family, Key};
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Millis, TenantId};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// What a scan does after a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScanStep {
    Next,
    /// Goes on at this key, which lies behind the row's.
    SeekTo(Vec<u8>),
    Stop,
}

/// Visits rows of a range in order, as far and with such leaps as `visit` says.
pub fn scan_by_seeks(
    tables: &dyn Tables,
    range: KeyRange<'_>,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<ScanStep, TablesError>,
) -> Result<(), TablesError> {
    let mut from = range.from.to_vec();
    while from.as_slice() < range.to {
        let (mut next, mut failed) = (None, Ok(()));
        tables.scan(KeyRange { from: &from, to: range.to }, Order::Ascending, &mut |key, value| {
            match visit(key, value) {
                Ok(ScanStep::Next) => return ControlFlow::Continue(()),
                Ok(ScanStep::SeekTo(to)) => {
                    assert!(to.as_slice() > key, "a scan only goes on");
                    next = Some(to);
                }
                Ok(ScanStep::Stop) => {}
                Err(error) => failed = Err(error),
            }
            ControlFlow::Break(())
        })?;
        failed?;
        match next {
            Some(next) => from = next,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// How rows are read whose keys begin with their tenant: in shares, so that no tenant's rows hide those of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantShares {
    /// The tenant to begin with. Those before it come last.
    pub from: TenantId,
    pub per_tenant_max: usize,
    pub limit: usize,
}

/// Rows of many tenants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedRows<T> {
    pub rows: Vec<T>,
    /// There may be more.
    pub is_cut: bool,
    /// The tenant to begin with the next time.
    pub next: TenantId,
}

/// What is done with a row.
pub enum RowChoice<T> {
    Take(T),
    /// It is not wanted, nor is any other row before this key.
    SkipTo(Vec<u8>),
}

/// The last keys of tenants of which a look came no further: the next one goes on behind them.
pub type TenantPlaces = BTreeMap<TenantId, Vec<u8>>;

/// Rows of a family in shares of its tenants, of each behind its place.
pub fn collect_shares<T>(
    tables: &dyn Tables,
    family: Family,
    shares: TenantShares,
    places: &TenantPlaces,
    mut choose: impl FnMut(&[u8], &[u8]) -> Result<RowChoice<T>, TablesError>,
) -> Result<SharedRows<T>, TablesError> {
    let all = Key::of_partition(family);
    let (begin, end) = (all.clone().finish(), all.end());
    let middle = if shares.from == TenantId(0) { begin.clone() } else { of_tenant(family, shares.from) };
    let mut found = SharedRows { rows: Vec::new(), is_cut: false, next: TenantId(0) };
    let (mut tenant, mut of_tenant_taken, mut is_full) = (None, 0, false);
    let mut stretches = stretches(family, (&middle, &end), places);
    stretches.extend(self::stretches(family, (&begin, &middle), places));
    for (from, to) in stretches {
        if is_full {
            break;
        }
        scan_by_seeks(tables, KeyRange { from: &from, to: &to }, |key, value| {
            let own = tenant_of(key);
            if tenant != Some(own) {
                (tenant, of_tenant_taken) = (Some(own), 0);
            }
            match choose(key, value)? {
                RowChoice::SkipTo(to) => return Ok(ScanStep::SeekTo(to)),
                RowChoice::Take(_) if found.rows.len() >= shares.limit => {
                    (found.is_cut, found.next, is_full) = (true, own, true);
                    return Ok(ScanStep::Stop);
                }
                RowChoice::Take(_) if of_tenant_taken >= shares.per_tenant_max => {
                    found.is_cut = true;
                    return Ok(match own.0.checked_add(1) {
                        Some(next) => ScanStep::SeekTo(of_tenant(family, TenantId(next))),
                        None => ScanStep::Stop,
                    });
                }
                RowChoice::Take(row) => {
                    found.rows.push(row);
                    of_tenant_taken += 1;
                }
            }
            Ok(ScanStep::Next)
        })?;
    }
    Ok(found)
}

/// A range without what lies before the places of its tenants: rows that are gone are slow to pass.
fn stretches(family: Family, (from, to): (&[u8], &[u8]), places: &TenantPlaces) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut found, mut at) = (Vec::new(), from.to_vec());
    for (tenant, place) in places {
        let begin = of_tenant(family, *tenant);
        if (from..to).contains(&begin.as_slice()) {
            found.push((std::mem::replace(&mut at, [place.as_slice(), &[0]].concat()), begin));
        }
    }
    found.push((at, to.to_vec()));
    found
}

/// How far a look for rows that are due came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DueLook {
    /// The key to go on from, now or when more is due.
    pub next: Vec<u8>,
    /// There are no more by that time.
    pub is_at_end: bool,
    /// Rows were left out, as their tenants had enough.
    pub has_skipped: bool,
}

/// Offers rows of a family whose keys are a time and a tenant before all else, from a key on, due by a time, so many at
/// most. A tenant whose row is not accepted is left out up to the next instant.
pub fn look_for_due(
    tables: &dyn Tables,
    family: Family,
    from: Option<&[u8]>,
    by: Millis,
    limit: usize,
    accept: &mut dyn FnMut(&[u8]) -> Result<bool, TablesError>,
) -> Result<DueLook, TablesError> {
    let prefix = Key::of_partition(family);
    let to = prefix.clone().u64(by.0.saturating_add(1)).finish();
    let from = from.map_or_else(|| prefix.finish(), <[u8]>::to_vec);
    let mut look = DueLook { next: from.clone(), is_at_end: true, has_skipped: false };
    let mut looked_at = 0;
    scan_by_seeks(tables, KeyRange { from: &from, to: &to }, |key, _| {
        if looked_at == limit {
            (look.next, look.is_at_end) = (key.to_vec(), false);
            return Ok(ScanStep::Stop);
        }
        looked_at += 1;
        look.next = [key, &[0]].concat();
        if accept(key)? {
            return Ok(ScanStep::Next);
        }
        look.has_skipped = true;
        let Some(next) = behind_tenant(key) else { return Ok(ScanStep::Next) };
        look.next.clone_from(&next);
        Ok(ScanStep::SeekTo(next))
    })?;
    Ok(look)
}

/// The first key of the next tenant in the same instant.
fn behind_tenant(key: &[u8]) -> Option<Vec<u8>> {
    let tenant = u32::from_be_bytes(key.get(9..13)?.try_into().ok()?).checked_add(1)?;
    Some([key.get(..9)?, &tenant.to_be_bytes()].concat())
}

fn of_tenant(family: Family, tenant: TenantId) -> Vec<u8> {
    Key::new(family, tenant).finish()
}

/// A key that is too short is nobody's; `choose` says what is wrong with it.
fn tenant_of(key: &[u8]) -> TenantId {
    let bytes = key.get(1..5).and_then(|bytes| bytes.try_into().ok());
    TenantId(bytes.map_or(0, u32::from_be_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use crate::view::tests::Plain;
    use fantail_ports::tables::Changes;

    /// Rows of tenants, by their numbers, read in shares. Even rows are wanted.
    fn check(rows: &[(u32, u64)], shares: TenantShares) -> (Vec<(u32, u64)>, bool, u32) {
        check_behind(rows, shares, &[])
    }

    fn check_behind(
        rows: &[(u32, u64)],
        shares: TenantShares,
        places: &[(u32, u64)],
    ) -> (Vec<(u32, u64)>, bool, u32) {
        let key = |(tenant, no): (u32, u64)| Key::new(Family::Todo, TenantId(tenant)).u64(no).finish();
        let places = places.iter().map(|place| (TenantId(place.0), key(*place))).collect();
        let (base, mut changes) = (Plain::default(), Changes::new());
        let mut view = View::new(&base, &[], &mut changes);
        for (tenant, no) in rows {
            view.put(Key::new(Family::Todo, TenantId(*tenant)).u64(*no).finish(), Vec::new());
        }
        let found = collect_shares(&view, Family::Todo, shares, &places, |key, _| {
            let no = super::super::tail_u64(key, "test")?;
            if no % 2 == 1 {
                let to = Key::new(Family::Todo, tenant_of(key)).u64(no + 1).finish();
                return Ok(RowChoice::SkipTo(to));
            }
            Ok(RowChoice::Take((tenant_of(key).0, no)))
        });
        let found = found.expect("plain");
        (found.rows, found.is_cut, found.next.0)
    }

    #[test]
    fn rows_of_one_tenant_do_not_hide_those_of_another_one() {
        let mut rows: Vec<(u32, u64)> = (0..100).map(|no| (1, no)).collect();
        rows.extend([(2, 0), (2, 1), (3, 4), (u32::MAX, 2)]);
        let shares = TenantShares { from: TenantId(0), per_tenant_max: 2, limit: 9 };
        let all = vec![(1, 0), (1, 2), (2, 0), (3, 4), (u32::MAX, 2)];
        assert_eq!(check(&rows, shares), (all, true, 0));
        let turned = vec![(2, 0), (3, 4), (u32::MAX, 2), (1, 0), (1, 2)];
        assert_eq!(check(&rows, TenantShares { from: TenantId(2), ..shares }), (turned, true, 0));
        let cut = vec![(1, 0), (1, 2), (2, 0)];
        assert_eq!(check(&rows, TenantShares { limit: 3, ..shares }), (cut, true, 3), "and it goes on there");
        assert_eq!(check(&rows[100..], shares), (vec![(2, 0), (3, 4), (u32::MAX, 2)], false, 0));
        let places = [(1, 97), (2, 0), (u32::MAX, 2)];
        for from in [0, 1, 2, 3] {
            let (mut found, is_cut, _) =
                check_behind(&rows, TenantShares { from: TenantId(from), ..shares }, &places);
            found.sort_unstable();
            assert_eq!((found, is_cut), (vec![(1, 98), (3, 4)], false), "behind their places");
        }
    }

    /// Rows that are due, by time and tenant; a tenant accepts two of them.
    #[test]
    fn a_tenant_that_has_enough_is_left_out_by_a_seek() {
        let (base, mut changes) = (Plain::default(), Changes::new());
        let mut view = View::new(&base, &[], &mut changes);
        let key = |due: u64, tenant: u32, no: u64| {
            Key::of_partition(Family::Scheduled).u64(due).bytes(&tenant.to_be_bytes()).u64(no).finish()
        };
        for (due, tenant, count) in [(5, 1, 1_000), (5, 2, 1), (6, 1, 1_000), (7, 3, 1), (9, 2, 1)] {
            (0..count).for_each(|no| view.put(key(due, tenant, no), Vec::new()));
        }
        let (mut held, mut looked_at, mut from, mut has_skipped) = (Vec::new(), 0, None::<Vec<u8>>, false);
        loop {
            let look = look_for_due(&view, Family::Scheduled, from.as_deref(), Millis(8), 4, &mut |key| {
                looked_at += 1;
                let tenant = key[12];
                let has_room = held.iter().filter(|other| **other == tenant).count() < 2;
                held.extend(Some(tenant).filter(|_| has_room));
                Ok(has_room)
            })
            .expect("plain");
            has_skipped |= look.has_skipped;
            from = Some(look.next);
            if look.is_at_end {
                break;
            }
        }
        assert_eq!((held, has_skipped), (vec![1, 1, 2, 3], true));
        assert_eq!(looked_at, 6, "one more for each instant");
    }
}
