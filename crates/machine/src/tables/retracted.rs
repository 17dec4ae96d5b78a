//! Retracted events that are not past retention: few, and looked at with every count.
//!
//! ```text
//! 43 tenant arrival: u64          -> list: 16 (zeros: given to explicit users)
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
