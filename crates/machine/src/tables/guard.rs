//! What is kept about deliveries, event by event: of which events anything is kept, and of which anything is open.
//!
//! No rows of its own: it reads those of `work`, `ledger`, `tally` and `walk`.

use super::tally::Tally;
use super::work::{Terms, WorkId, WorkRow};
use super::{Family, Key, Row, collect, ledger, walk};
use crate::codec::Malformed;
use fantail_ports::inbox::ArrivalRange;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Arrival, Millis, TenantId};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Whether anything of these events is left to be looked at, or in flight.
pub fn is_open(tables: &dyn Tables, tenant: TenantId, range: ArrivalRange) -> Result<bool, TablesError> {
    any_open(tables, tenant, range, &mut |_, _| Ok(true))
}

/// Those of these events of which anything is left to be looked at, or in flight.
pub fn open_in(
    tables: &dyn Tables,
    tenant: TenantId,
    range: ArrivalRange,
) -> Result<BTreeSet<Arrival>, TablesError> {
    let mut open = BTreeSet::new();
    any_open(tables, tenant, range, &mut |arrival, _| {
        open.insert(arrival);
        Ok(false)
    })?;
    Ok(open)
}

/// Whether anything of these events may still be sent: it is open, and its time to live is not over.
pub fn may_leave(
    tables: &dyn Tables,
    tenant: TenantId,
    range: ArrivalRange,
    now: Millis,
) -> Result<bool, TablesError> {
    any_open(tables, tenant, range, &mut |arrival, terms| {
        let terms = match terms {
            Some(terms) => Some(terms),
            None => ledger::terms_of(tables, tenant, arrival)?,
        };
        Ok(terms.is_some_and(|terms| now < terms.expires_at))
    })
}

/// What is asked about an event that is open, with its terms if there is a row of work.
type AskOpen<'a> = &'a mut dyn FnMut(Arrival, Option<Terms>) -> Result<bool, TablesError>;

fn any_open(
    tables: &dyn Tables,
    tenant: TenantId,
    range: ArrivalRange,
    ask: AskOpen<'_>,
) -> Result<bool, TablesError> {
    // A walk for inboxes alone has no work.
    for family in [Family::Work, Family::Tally, Family::WalkOpen] {
        let from = Key::new(family, tenant).u64(range.after.0.saturating_add(1)).finish();
        let to = Key::new(family, tenant).u64(range.before.0).finish();
        let mut found = Ok(false);
        tables.scan(KeyRange { from: &from, to: &to }, Order::Ascending, &mut |key, row| {
            found = open_row(tables, family, key, row).and_then(|open| match open {
                Some((arrival, terms)) => ask(arrival, terms),
                None => Ok(false),
            });
            if found == Ok(false) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if found? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whose a row is, if it says that something is open.
fn open_row(
    tables: &dyn Tables,
    family: Family,
    key: &[u8],
    row: &[u8],
) -> Result<Option<(Arrival, Option<Terms>)>, TablesError> {
    if family == Family::WalkOpen {
        let (tenant, arrival) = walk::open_at(key)?;
        let terms = walk::find(tables, tenant, arrival)?.map(|row| row.delivery.terms);
        return Ok(terms.map(|terms| (arrival, Some(terms))));
    }
    let work = WorkId::parse(key).ok_or_else(|| Malformed::Value("work key").in_row(WorkRow::NAME))?;
    if family == Family::Work {
        return Ok(Some((work.arrival, Some(WorkRow::decode(row)?.terms))));
    }
    Ok((Tally::decode(row)?.in_flight() > 0).then_some((work.arrival, None)))
}

/// Arrivals above one of which anything is kept about deliveries, ascending, at most `limit`.
pub fn guarded(
    tables: &dyn Tables,
    tenant: TenantId,
    behind: Arrival,
    limit: usize,
) -> Result<Vec<Arrival>, TablesError> {
    let (mut arrivals, mut through) = (BTreeSet::new(), Arrival(u64::MAX));
    // Whatever has a ledger has a tally.
    for family in [Family::Tally, Family::WorkMembers, Family::Halted, Family::Walk] {
        let from = Key::new(family, tenant).u64(behind.0.saturating_add(1)).finish();
        let range = KeyRange { from: &from, to: &Key::new(family, tenant).end() };
        let found = collect(tables, range, Order::Ascending, limit, |key, _| {
            let arrival = key.get(5..13).and_then(|arrival| arrival.try_into().ok()).map(u64::from_be_bytes);
            arrival.map(Arrival).ok_or_else(|| Malformed::Value("arrival").in_row(WorkRow::NAME))
        })?;
        // Of a family with more rows nothing is known above the last one.
        let last = found.last().filter(|_| found.len() == limit);
        through = last.map_or(through, |last| through.min(*last));
        arrivals.extend(found);
    }
    Ok(arrivals.into_iter().take_while(|arrival| *arrival <= through).collect())
}
