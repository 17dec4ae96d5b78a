//! Retention: what arrived long ago disappears, whole pages at a time.
//!
//! Comes from: the leader's housekeeping. Decides: up to which arrival everything is past the tenant's retention,
//! and which flag rows lie below it. Goes to: `Expired` and `Cleared`; the inbox forgets what nobody can ask for.

use super::{Derived, Plan, ShardAnswer};
use crate::Planned;
use crate::records::shard::ShardRecord;
use crate::tables::taken::{self, Reach};
use crate::tables::{mark, pointer, progress, put, retracted};
use crate::view::View;
use fantail_ports::inbox::{ArrivalRange, Forget};
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, Millis, TenantId, UserNo};
use fantail_rules::limits::MARK_ROWS_PER_RECORD_MAX;
use std::collections::BTreeMap;

/// Pages in one record: each holds up to `TAKE_EVENTS_MAX` events.
const PAGES_MAX: usize = 4;
const SWEEP_ROWS_MAX: usize = 512;
const DAY_MS: u64 = 86_400_000;

/// How far the housekeeping of one tenant got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Ask again at once.
    pub more: bool,
    /// Where the sweep over flag rows goes on; `None` when it went round.
    pub swept: Option<(UserNo, Arrival)>,
}

pub(super) fn plan(
    view: &View<'_>,
    tenant: TenantId,
    retention_days: u32,
    swept: Option<(UserNo, Arrival)>,
    now: Millis,
) -> Result<Plan, TablesError> {
    let oldest_kept = Millis(now.0.saturating_sub(u64::from(retention_days) * DAY_MS));
    let mut records = Vec::new();
    let pages = taken::oldest(view, tenant, PAGES_MAX)?;
    let outdated: Vec<_> = pages.iter().take_while(|(_, page)| page.at < oldest_kept).collect();
    let mut horizon = progress::find(view, tenant)?.horizon;
    if let Some((first, page)) = outdated.last() {
        horizon = Arrival(first.0 + page.events.len() as u64 - 1);
        records.push(ShardRecord::Expired { tenant, through: horizon });
    }
    let rows = mark::flagged_behind(view, tenant, swept, SWEEP_ROWS_MAX)?;
    let full = rows.len() == SWEEP_ROWS_MAX;
    let swept = rows.last().copied().filter(|_| full);
    let mut cleared: BTreeMap<UserNo, Vec<Arrival>> = BTreeMap::new();
    for (user, arrival) in rows.into_iter().filter(|(_, arrival)| *arrival <= horizon) {
        cleared.entry(user).or_default().push(arrival);
    }
    for (user, arrivals) in cleared {
        for arrivals in arrivals.chunks(MARK_ROWS_PER_RECORD_MAX) {
            records.push(ShardRecord::Cleared { tenant, user, arrivals: arrivals.to_vec() });
        }
    }
    let more = outdated.len() == PAGES_MAX || swept.is_some();
    Ok(Planned { records, answer: ShardAnswer::Expired(Progress { more, swept }) })
}

pub(super) fn apply(
    view: &mut View<'_>,
    tenant: TenantId,
    through: Arrival,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let mut state = progress::find(view, tenant)?;
    for (first, page) in taken::oldest(view, tenant, PAGES_MAX)? {
        if first > through {
            break;
        }
        view.delete(taken::key(tenant, first));
        if let Some(earliest) = page.events.first() {
            view.delete(taken::index_key(tenant, earliest.event));
        }
        for (offset, taken) in page.events.iter().enumerate() {
            if let Reach::Pointer(list) = taken.reach {
                let arrival = Arrival(first.0 + offset as u64);
                let last = pointer::expire(view, tenant, list, arrival)?;
                state.pointer_lists = state.pointer_lists.saturating_sub(u64::from(last));
            }
        }
    }
    let range = ArrivalRange { after: state.horizon, before: through.next() };
    for (arrival, list) in retracted::inside(view, tenant, range)? {
        retracted::forget(view, tenant, list, arrival);
        state.retracted = state.retracted.saturating_sub(1);
    }
    state.horizon = through;
    put(view, progress::key(tenant), &state);
    derived.forgets.push(Forget::Through { tenant, arrival: through });
    Ok(())
}
