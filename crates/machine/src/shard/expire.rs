//! Retention: what arrived long ago disappears, whole pages at a time.
//!
//! Comes from: the leader's housekeeping. Decides: up to which arrival everything is past the tenant's retention and time to live,
//! and which flags and stays lie wholly below it. Goes to: `Expired`, `Cleared` and `Unlisted`; the inbox forgets
//! what nobody can ask for.

use super::{Derived, Plan, ShardAnswer};
use crate::Planned;
use crate::records::shard::ShardRecord;
use crate::tables::taken::{self, Reach};
use crate::tables::{follow, guard, mark, pointer, progress, put, retracted, shown};
use crate::view::View;
use fantail_ports::inbox::{ArrivalRange, Forget};
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, ListId, Millis, TenantId, UserNo};
use fantail_rules::knobs::StepSizes;
use fantail_rules::limits::{EDGES_PER_RECORD_MAX, MARK_ROWS_PER_RECORD_MAX};
use std::collections::{BTreeMap, BTreeSet};

const DAY_MS: u64 = 86_400_000;

/// How far the housekeeping of one tenant got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// More pages are past retention: ask again at once.
    pub outdated: bool,
    /// Where the sweep goes on, at leisure; `None` when it went round.
    pub swept: Option<Place>,
}

/// A place in the sweep over rows that only their own user would touch again: flags, then stays on lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Flags(UserNo, Arrival),
    Stays(Option<(UserNo, ListId)>),
}

pub(super) fn plan(
    view: &View<'_>,
    (tenant, retention_days): (TenantId, u32),
    swept: Option<Place>,
    now: Millis,
    steps: &StepSizes,
) -> Result<Plan, TablesError> {
    let oldest_kept = Millis(now.0.saturating_sub(u64::from(retention_days) * DAY_MS));
    let mut records = Vec::new();
    let pages = taken::oldest(view, tenant, steps.expired_pages)?;
    let mut past = Vec::new();
    for (first, page) in pages.iter().take_while(|(_, page)| page.at < oldest_kept) {
        let after = Arrival(first.0.saturating_sub(1));
        let range = ArrivalRange { after, before: Arrival(first.0 + page.events.len() as u64) };
        // What has still to leave can be called off, and for that it has to be found.
        if guard::may_leave(view, tenant, range, now)? {
            break;
        }
        past.push((first, page));
    }
    let mut horizon = progress::find(view, tenant)?.horizon;
    if let Some((first, page)) = past.last() {
        horizon = Arrival(first.0 + page.events.len() as u64 - 1);
        records.push(ShardRecord::Expired { tenant, through: horizon });
    }
    let outdated = past.len() == steps.expired_pages;
    let (sweep, rows) = ((tenant, horizon), steps.expired_rows);
    let swept = match swept {
        _ if horizon == Arrival::START => None,
        Some(Place::Stays(behind)) => sweep_stays(view, sweep, behind, rows, &mut records)?,
        Some(Place::Flags(user, arrival)) => {
            sweep_flags(view, sweep, Some((user, arrival)), rows, &mut records)?
        }
        None => sweep_flags(view, sweep, None, rows, &mut records)?,
    };
    Ok(Planned { records, answer: ShardAnswer::Expired(Progress { outdated, swept }) })
}

fn sweep_flags(
    view: &View<'_>,
    (tenant, horizon): (TenantId, Arrival),
    behind: Option<(UserNo, Arrival)>,
    rows_max: usize,
    records: &mut Vec<ShardRecord>,
) -> Result<Option<Place>, TablesError> {
    let rows = mark::flagged_behind(view, tenant, behind, rows_max)?;
    let last = rows.last().copied().filter(|_| rows.len() == rows_max);
    let mut cleared: BTreeMap<UserNo, Vec<Arrival>> = BTreeMap::new();
    for (user, arrival) in rows.into_iter().filter(|(_, arrival)| *arrival <= horizon) {
        cleared.entry(user).or_default().push(arrival);
    }
    for (user, arrivals) in cleared {
        for arrivals in arrivals.chunks(MARK_ROWS_PER_RECORD_MAX) {
            records.push(ShardRecord::Cleared { tenant, user, arrivals: arrivals.to_vec() });
        }
    }
    Ok(Some(last.map_or(Place::Stays(None), |(user, arrival)| Place::Flags(user, arrival))))
}

/// Stays that ended so long ago that nothing of them can be read.
fn sweep_stays(
    view: &View<'_>,
    (tenant, horizon): (TenantId, Arrival),
    behind: Option<(UserNo, ListId)>,
    rows_max: usize,
    records: &mut Vec<ShardRecord>,
) -> Result<Option<Place>, TablesError> {
    let rows = follow::behind(view, tenant, behind, rows_max)?;
    let last = rows.last().map(|(user, followed)| (*user, followed.list));
    let last = last.filter(|_| rows.len() == rows_max);
    let mut unlisted: BTreeMap<UserNo, Vec<ListId>> = BTreeMap::new();
    for (user, mut followed) in rows {
        followed.intervals.forget_through(horizon);
        if followed.intervals.is_empty() {
            unlisted.entry(user).or_default().push(followed.list);
        }
    }
    for (user, lists) in unlisted {
        for lists in lists.chunks(EDGES_PER_RECORD_MAX) {
            records.push(ShardRecord::Unlisted { tenant, user, lists: lists.to_vec() });
        }
    }
    Ok(last.map(|last| Place::Stays(Some(last))))
}

pub(super) fn apply(
    view: &mut View<'_>,
    tenant: TenantId,
    through: Arrival,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let mut state = progress::find(view, tenant)?;
    let mut walks = BTreeSet::new();
    for (first, page) in taken::through(view, tenant, through)? {
        view.delete(taken::key(tenant, first));
        if let Some(earliest) = page.events.first() {
            view.delete(taken::index_key(tenant, earliest.event));
            // What was held back is alone in its page.
            if page.events.len() == 1 {
                view.delete(taken::late_key(tenant, earliest.event));
            }
        }
        for (offset, taken) in page.events.iter().enumerate() {
            let arrival = Arrival(first.0 + offset as u64);
            match taken.reach {
                Reach::Pointer(list, _) => {
                    let last = pointer::expire(view, tenant, list, arrival)?;
                    state.pointer_lists = state.pointer_lists.saturating_sub(u64::from(last));
                }
                Reach::Walked { home, first } => {
                    if arrival != home {
                        shown::remove(view, tenant, home, first);
                    }
                    walks.insert(home);
                }
                Reach::Given | Reach::Written(..) => {}
            }
        }
    }
    let range = ArrivalRange { after: state.horizon, before: through.next() };
    for (arrival, list) in retracted::inside(view, tenant, range)? {
        if list != retracted::WALKED {
            retracted::forget(view, tenant, list, arrival);
            state.retracted = state.retracted.saturating_sub(1);
        }
    }
    for home in walks {
        state.retracted -= u64::from(shown::forget_retraction(view, tenant, home)?).min(state.retracted);
    }
    state.horizon = through;
    put(view, progress::key(tenant), &state);
    derived.forgets.push(Forget::Through { tenant, arrival: through });
    Ok(())
}
