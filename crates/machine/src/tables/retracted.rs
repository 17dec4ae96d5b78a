//! Retracted events that are not past retention: few, and looked at with every count.
//!
//! ```text
//! 43 tenant arrival: u64          -> list: 16 (zeros: given to explicit users; ones: to those whom a walk passed)
//! 44 tenant list: 16 arrival: u64 -> (empty)
//! ```
//! A reader walks whichever is shorter: all retracted events of the tenant, or those of its own lists.

use super::{Family, Key, collect, tail_u64};
use crate::codec::Malformed;
use crate::view::View;
use fantail_ports::inbox::ArrivalRange;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Arrival, ListId, TenantId};

const NAME: &str = "retracted";

/// Stands for "no list" in both families.
pub const GIVEN: ListId = ListId([0; 16]);
/// And for the members of a walk, who have it at arrivals of their own.
pub const WALKED: ListId = ListId([0xff; 16]);

fn key(tenant: TenantId, arrival: Arrival) -> Vec<u8> {
    Key::new(Family::Retracted, tenant).u64(arrival.0).finish()
}

fn list_key(tenant: TenantId, list: ListId, arrival: Arrival) -> Vec<u8> {
    Key::new(Family::RetractedByList, tenant).bytes(&list.0).u64(arrival.0).finish()
}

/// Marks an event as retracted. Returns whether it was not before.
pub(crate) fn add(
    view: &mut View<'_>,
    tenant: TenantId,
    list: ListId,
    arrival: Arrival,
) -> Result<bool, TablesError> {
    if view.get(&key(tenant, arrival))?.is_some() {
        return Ok(false);
    }
    view.put(key(tenant, arrival), list.0.to_vec());
    view.put(list_key(tenant, list, arrival), Vec::new());
    Ok(true)
}

/// Whether what arrived here was taken back.
pub fn is(tables: &dyn Tables, tenant: TenantId, arrival: Arrival) -> Result<bool, TablesError> {
    Ok(tables.get(&key(tenant, arrival))?.is_some())
}

pub(crate) fn forget(view: &mut View<'_>, tenant: TenantId, list: ListId, arrival: Arrival) {
    view.delete(key(tenant, arrival));
    view.delete(list_key(tenant, list, arrival));
}

/// Retracted events of a tenant inside a range, with their lists.
pub fn inside(
    tables: &dyn Tables,
    tenant: TenantId,
    range: ArrivalRange,
) -> Result<Vec<(Arrival, ListId)>, TablesError> {
    let (from, to) = (key(tenant, range.after.next()), key(tenant, range.before));
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, usize::MAX, |key, value| {
        let list = value.try_into().map_err(|_| Malformed::Short.in_row(NAME))?;
        Ok((Arrival(tail_u64(key, NAME)?), ListId(list)))
    })
}

/// Retracted events of one list inside a range.
pub fn of_list(
    tables: &dyn Tables,
    tenant: TenantId,
    list: ListId,
    range: ArrivalRange,
) -> Result<Vec<Arrival>, TablesError> {
    let (from, to) = (list_key(tenant, list, range.after.next()), list_key(tenant, list, range.before));
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, usize::MAX, |key, _| {
        Ok(Arrival(tail_u64(key, NAME)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::Plain;
    use fantail_ports::tables::Changes;
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    const TENANT: TenantId = TenantId(7);

    proptest! {
        /// Both families hold the same set, and forgetting leaves nothing behind.
        #[test]
        fn both_ways_find_the_same_events(
            events in btree_map(1u64..60, 0u8..3, 0..30), after in 0u64..60, span in 0u64..60,
        ) {
            let (base, mut changes) = (Plain::default(), Changes::new());
            let mut view = View::new(&base, &[], &mut changes);
            for (arrival, list) in &events {
                prop_assert_eq!(add(&mut view, TENANT, ListId([*list; 16]), Arrival(*arrival)), Ok(true));
                prop_assert_eq!(add(&mut view, TENANT, ListId([*list; 16]), Arrival(*arrival)), Ok(false));
            }
            let range = ArrivalRange { after: Arrival(after), before: Arrival(after + span + 1) };
            let expected: Vec<(Arrival, ListId)> = events.iter()
                .map(|(arrival, list)| (Arrival(*arrival), ListId([*list; 16])))
                .filter(|(arrival, _)| range.contains(*arrival)).collect();
            prop_assert_eq!(inside(&view, TENANT, range), Ok(expected.clone()));
            prop_assert_eq!(inside(&view, TenantId(8), range), Ok(Vec::new()));
            for list in (0..3).map(|list| ListId([list; 16])) {
                let own: Vec<Arrival> =
                    expected.iter().filter(|(_, of)| *of == list).map(|(arrival, _)| *arrival).collect();
                prop_assert_eq!(of_list(&view, TENANT, list, range), Ok(own));
            }
            for (arrival, list) in &events {
                forget(&mut view, TENANT, ListId([*list; 16]), Arrival(*arrival));
            }
            prop_assert!(changes.values().all(Option::is_none));
        }
    }
}
