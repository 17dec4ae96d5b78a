//! A user is erased: not only gone, but removed from what is kept about deliveries, with a receipt.
//!
//! Comes from: the erasure API, then a to-do row until all is done. Decides: what of each store is the user's: everything
//! that `users` removes, then, some events at a time, deliveries that were still to be sent (they end as suppressed),
//! dead letters (dropped), and what was told about attempts. Goes to: the records of those families, and `Erasure`, which adds
//! up what was removed. Numbers of users stay in ledgers: nobody can tell any more whose they were. The to-do row says how far
//! it is, so that a restart does not begin again.
//!
//! What must never happen: a delivery to the user after `Begun`. The endpoints and the key are gone with the same batch, and
//! whoever is planned later is not there (`gate`).

use super::intend::ERASED;
use super::{Plan, ShardAnswer, users};
use crate::Planned;
use crate::parcel::Words;
use crate::records::delivery::{Consents, Counted, Redrive, Wake};
use crate::records::erasure::{Attempts, Erasure, ErasurePlace, Step, Store};
use crate::records::shard::ShardRecord;
use crate::tables::erasure::{self, ErasureLookup, ErasureRow};
use crate::tables::ledger::{self, LedgerRow, ParcelId, Standing};
use crate::tables::todo::Todo;
use crate::tables::work::WorkId;
use crate::tables::{endpoint, follow, mark, put, respect, tally, track, window};
use crate::view::View;
use fantail_ports::tables::{Order, TablesError};
use fantail_rules::attempt::{self, State, next};
use fantail_rules::ids::{Arrival, Lookup, Millis, TenantId, UserNo};
use fantail_rules::ulid::Ulid;

/// Events after which the to-do row hears how far the erasure is, if nothing was found: a restart looks at so many again.
const PLACE_EVERY_EVENTS: u64 = 4_096;

/// Removes a user, and remembers that more is to be done.
pub(super) fn plan_begin(
    view: &View<'_>,
    tenant: TenantId,
    lookup: Lookup,
    erasure: Ulid,
    entries: u64,
) -> Result<Plan, TablesError> {
    let Some((user, key)) = users::existing(view, tenant, lookup)? else {
        return Ok(Planned::nothing(ShardAnswer::UnknownUser));
    };
    let removed = counted(view, tenant, user, entries)?;
    let mut records = users::plan_delete(view, tenant, lookup)?.records;
    let step = Step::Begun { user, key, lookup: Some(lookup) };
    records.push(ShardRecord::Erasure(Erasure { tenant, erasure, step, removed }));
    Ok(Planned { records, answer: ShardAnswer::Noted })
}

/// What goes with the user itself.
fn counted(
    view: &View<'_>,
    tenant: TenantId,
    user: UserNo,
    entries: u64,
) -> Result<Vec<(Store, u64)>, TablesError> {
    let wants = respect::find(view, tenant, user)?;
    let everything = Arrival(u64::MAX - 1);
    let marks = mark::flagged(view, tenant, user, Arrival::START, everything, Order::Ascending, usize::MAX)?;
    let count = |rows: usize| rows as u64;
    Ok(vec![
        (Store::Profile, 1),
        (Store::Endpoints, count(endpoint::of_user(view, tenant, user)?.len())),
        (Store::Preferences, u64::from(wants.revision > 0)),
        (Store::Consents, count(wants.consents.len())),
        (Store::History, count(respect::history(view, tenant, user, u32::MAX, usize::MAX)?.len())),
        (Store::Follows, count(follow::of_user(view, tenant, user, None, usize::MAX)?.len())),
        (Store::Marks, count(marks.len())),
        (Store::Inbox, entries),
        (Store::Digests, count(window::of_user(view, tenant, user)?)),
    ])
}

/// Some events behind an arrival: whatever of their deliveries is the user's. Looks at so many works (events and channels), each
/// of which has one ledger that could hold the user.
pub(super) fn plan_purge(
    view: &View<'_>,
    (tenant, erasure): (TenantId, Ulid),
    behind: Arrival,
    works_max: usize,
) -> Result<Plan, TablesError> {
    let Some(ErasureRow { user, ended: None, .. }) = erasure::find(view, tenant, erasure)? else {
        return Ok(Planned::nothing(ShardAnswer::Purged { next: None }));
    };
    let (works, next) = works_behind(view, tenant, behind, works_max)?;
    let (mut records, mut attempts) = (Vec::new(), Vec::new());
    let (mut pending, mut dead) = (0, 0);
    for work in works {
        let Some((parcel, row)) = ledger::holding(view, ParcelId::of(work, user))? else { continue };
        let own = Own::of(&row, user);
        pending += own.pending.0.len() as u64;
        dead += own.dead.0.len() as u64;
        records.extend(own.records(parcel, &row));
        for (at, device) in row.members.of_user(user) {
            if row.is_tracked && !track::find(view, parcel, position(at))?.is_empty() {
                attempts.push(Attempts { arrival: work.arrival, channel: work.channel, device });
            }
        }
    }
    let removed: Vec<(Store, u64)> =
        [(Store::Deliveries, pending), (Store::DeadLetters, dead), (Store::Attempts, attempts.len() as u64)]
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect();
    let has_removed = !removed.is_empty();
    if has_removed {
        let step = Step::Purged { user, attempts };
        records.push(ShardRecord::Erasure(Erasure { tenant, erasure, step, removed }));
    }
    if let Some(next) = next {
        let noted = match erasure::place(view, tenant, erasure)? {
            Some(ErasurePlace::Deliveries(noted)) => noted,
            Some(ErasurePlace::Content { .. }) | None => Arrival::START,
        };
        if has_removed || next.0.saturating_sub(noted.0) >= PLACE_EVERY_EVENTS {
            records.push(reached(tenant, erasure, ErasurePlace::Deliveries(next)));
        }
    }
    Ok(Planned { records, answer: ShardAnswer::Purged { next } })
}

/// The works of some events behind one, and the event to go on behind if there may be more.
fn works_behind(
    view: &View<'_>,
    tenant: TenantId,
    behind: Arrival,
    works_max: usize,
) -> Result<(Vec<WorkId>, Option<Arrival>), TablesError> {
    let mut works = tally::works_behind(view, tenant, behind, works_max)?;
    let Some(last) = works.last().map(|work| work.arrival).filter(|_| works.len() == works_max) else {
        return Ok((works, None));
    };
    // More works of the last event may follow. An event has fewer than one plan looks at, so others are left.
    works.retain(|work| work.arrival < last);
    let next = works.last().map(|work| work.arrival);
    Ok((works, next))
}

/// Notes how far an erasure is elsewhere.
pub(super) fn plan_reached(
    view: &View<'_>,
    tenant: TenantId,
    erasure: Ulid,
    place: ErasurePlace,
) -> Result<Plan, TablesError> {
    let Some(ErasureRow { ended: None, .. }) = erasure::find(view, tenant, erasure)? else {
        return Ok(Planned::nothing(ShardAnswer::Noted));
    };
    Ok(Planned::one(reached(tenant, erasure, place), ShardAnswer::Noted))
}

fn reached(tenant: TenantId, erasure: Ulid, place: ErasurePlace) -> ShardRecord {
    ShardRecord::Erasure(Erasure { tenant, erasure, step: Step::Reached(place), removed: Vec::new() })
}

fn position(at: usize) -> u16 {
    u16::try_from(at).expect("a parcel has at most 1,000 members")
}

type Moves = (Vec<u16>, Words<Standing>);

/// What of a ledger is still to happen for one user.
struct Own {
    pending: Moves,
    dead: Moves,
    /// Of the first that is pending.
    due: Millis,
}

impl Own {
    fn of(row: &LedgerRow, user: UserNo) -> Self {
        let nothing = || (Vec::new(), Words::empty());
        let mut own = Self { pending: nothing(), dead: nothing(), due: Millis(0) };
        for (at, _) in row.members.of_user(user) {
            let Some(standing) = row.standings.of(at) else { continue };
            // What may have been sent keeps its way: its answer is still to come, or will never be known.
            let (step, moves) = match standing.state {
                State::Planned | State::Deferred => (attempt::Step::Suppress, &mut own.pending),
                State::Dead => (attempt::Step::Drop, &mut own.dead),
                _ => continue,
            };
            let Ok(state) = next(standing.state, step) else { continue };
            if own.due == Millis(0) && state == State::Suppressed {
                own.due = standing.due;
            }
            moves.0.push(position(at));
            let ended = Standing { state, due: Millis(0), code: ERASED.to_owned(), ..standing.clone() };
            moves.1.push(ended);
        }
        own
    }

    fn records(self, parcel: ParcelId, row: &LedgerRow) -> Vec<ShardRecord> {
        let ((positions, verdicts), due, round) = (self.pending, self.due, row.round.saturating_add(1));
        let mut records = Vec::new();
        if !positions.is_empty() {
            let (counted, consents) = (Counted::nothing(), Consents::nothing());
            let wake = Wake { parcel, round, due, positions, verdicts, counted, consents };
            records.push(ShardRecord::Wake(wake));
        }
        let (positions, standings) = self.dead;
        if !positions.is_empty() {
            records.push(ShardRecord::Redrive(Redrive { parcel, positions, standings }));
        }
        records
    }
}

/// Others removed something, or everything is done.
pub(super) fn plan_note(
    view: &View<'_>,
    tenant: TenantId,
    erasure: Ulid,
    removed: Vec<(Store, u64)>,
    is_done: bool,
) -> Result<Plan, TablesError> {
    let Some(ErasureRow { user, ended: None, .. }) = erasure::find(view, tenant, erasure)? else {
        return Ok(Planned::nothing(ShardAnswer::Noted));
    };
    let step = if is_done { Step::Done } else { Step::Purged { user, attempts: Vec::new() } };
    let record = ShardRecord::Erasure(Erasure { tenant, erasure, step, removed });
    Ok(Planned::one(record, ShardAnswer::Noted))
}

pub(super) fn apply(view: &mut View<'_>, fact: &Erasure, at: Millis) -> Result<(), TablesError> {
    let Erasure { tenant, erasure, step, removed } = fact;
    let todo = Todo::Erase { tenant: *tenant, erasure: *erasure };
    let key = erasure::key(*tenant, *erasure);
    let mut row = match (step, erasure::find(view, *tenant, *erasure)?) {
        (Step::Begun { user, key, lookup }, _) => {
            view.put(todo.key(), todo.value());
            if let Some(lookup) = lookup {
                put(view, erasure::lookup_key(*tenant, *erasure), &ErasureLookup(*lookup));
            }
            ErasureRow { user: *user, key: *key, begun: at, ended: None, removed: Vec::new() }
        }
        (Step::Purged { .. } | Step::Reached(_) | Step::Done, Some(row)) => row,
        (Step::Purged { .. } | Step::Reached(_) | Step::Done, None) => return Ok(()),
    };
    match step {
        Step::Begun { .. } => {}
        Step::Purged { user, attempts } => {
            for Attempts { arrival, channel, device } in attempts {
                let first = ParcelId { tenant: *tenant, arrival: *arrival, channel: *channel, first: *user };
                let Some((parcel, row)) = ledger::holding(view, first)? else { continue };
                let of_device = row.members.of_user(*user).into_iter().find(|(_, known)| known == device);
                if let Some((at, _)) = of_device {
                    track::forget(view, parcel, position(at))?;
                }
            }
        }
        Step::Reached(place) => put(view, todo.key(), place),
        Step::Done => {
            row.ended = Some(at);
            view.delete(todo.key());
            view.delete(erasure::lookup_key(*tenant, *erasure));
        }
    }
    row.add(removed);
    put(view, key, &row);
    Ok(())
}
