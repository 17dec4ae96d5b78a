//! Re-evaluates the waiting deliveries of a user who wants something else.
//!
//! Comes from: `respect` and `users`, which leave a to-do row if any delivery of the user may wait. Decides: which members of
//! which ledgers are this user's and wait for a gate. Goes to: `Wake`, which makes them due now, so that they meet all gates
//! again with permits of their own; then `Replanned`. One plan reads a few ledgers.
//!
//! The index `tables::waiting` names the ledgers, so the cost depends on what waits for this user alone. A user with deliveries
//! that began to wait before there was the index has a bit in the column: its first re-evaluation reads all timers
//! of the shard, once.
//!
//! What is due by now is passed over. So a re-evaluation that begins again, after a restart or because the user changed
//! something else meanwhile, writes no record twice.

use super::{Plan, ShardAnswer, reachable};
use crate::Planned;
use crate::columns;
use crate::parcel::{Member, Words};
use crate::records::delivery::{Consents, Counted, Wake};
use crate::records::shard::ShardRecord;
use crate::tables::RowsFrom;
use crate::tables::ledger::{self, LedgerRow, ParcelId, Standing, Timer, TimersFrom};
use crate::tables::todo;
use crate::tables::waiting::{self, Waiting};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::State;
use fantail_rules::gates::Reason;
use fantail_rules::ids::{Millis, TenantId, UserNo};

/// Where a re-evaluation goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplanPlace {
    /// The change of the user that it is for. It begins again if there is a later one.
    change: u8,
    behind: Behind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Behind {
    Index(Waiting),
    Timer(Timer),
}

pub(super) fn plan(
    view: &View<'_>,
    (tenant, user): (TenantId, UserNo),
    from: Option<ReplanPlace>,
    now: Millis,
    ledgers_max: usize,
) -> Result<Plan, TablesError> {
    let Some(asked) = todo::replanning(view, tenant, user)? else {
        return Ok(Planned::nothing(ShardAnswer::Replanned { next: None }));
    };
    let behind = from.filter(|from| from.change == asked.change).map(|from| from.behind);
    let (mut records, behind) = match (asked.is_unindexed, behind) {
        (false, Some(Behind::Index(behind))) => {
            by_index(view, (tenant, user), Some(behind), now, ledgers_max)?
        }
        (false, None | Some(Behind::Timer(_))) => by_index(view, (tenant, user), None, now, ledgers_max)?,
        (true, Some(Behind::Timer(behind))) => {
            by_timers(view, (tenant, user), Some(behind), now, ledgers_max)?
        }
        (true, None | Some(Behind::Index(_))) => by_timers(view, (tenant, user), None, now, ledgers_max)?,
    };
    let next = behind.map(|behind| ReplanPlace { change: asked.change, behind });
    if next.is_none() {
        records.push(ShardRecord::Replanned { tenant, user });
    }
    Ok(Planned { records, answer: ShardAnswer::Replanned { next } })
}

/// Records, and where to go on if there may be more.
type Found = (Vec<ShardRecord>, Option<Behind>);

fn by_index(
    view: &View<'_>,
    (tenant, user): (TenantId, UserNo),
    behind: Option<Waiting>,
    now: Millis,
    ledgers_max: usize,
) -> Result<Found, TablesError> {
    let rows = waiting::of_user(view, (tenant, user), behind, ledgers_max)?;
    let mut records = Vec::new();
    for Waiting { arrival, channel } in rows.iter().copied() {
        let of_user = ParcelId { tenant, arrival, channel, first: user };
        if let Some((parcel, row)) = ledger::holding(view, of_user)? {
            let wake = hurried(view, (parcel, &row), (user, None), now)?;
            records.extend(wake.map(ShardRecord::Wake));
        }
    }
    let last = rows.last().filter(|_| rows.len() == ledgers_max);
    Ok((records, last.copied().map(Behind::Index)))
}

fn by_timers(
    view: &View<'_>,
    (tenant, user): (TenantId, UserNo),
    behind: Option<Timer>,
    now: Millis,
    ledgers_max: usize,
) -> Result<Found, TablesError> {
    let from = behind.map_or(TimersFrom::Due(now.plus(1)), |timer| TimersFrom::Row(RowsFrom::Behind(timer)));
    let timers = ledger::timers_due(view, from, Millis(u64::MAX - 1), ledgers_max)?;
    let mut records = Vec::new();
    for timer in timers.iter().filter(|timer| timer.parcel.tenant == tenant) {
        if let Some(row) = ledger::find(view, timer.parcel)? {
            let wake = hurried(view, (timer.parcel, &row), (user, Some(timer.due)), now)?;
            records.extend(wake.map(ShardRecord::Wake));
        }
    }
    let last = timers.last().filter(|_| timers.len() == ledgers_max);
    Ok((records, last.copied().map(Behind::Timer)))
}

/// Makes the members of a ledger due that wait for this user: those of one timer, or all of them.
fn hurried(
    view: &View<'_>,
    (parcel, row): (ParcelId, &LedgerRow),
    (user, timer): (UserNo, Option<Millis>),
    now: Millis,
) -> Result<Option<Wake>, TablesError> {
    let (mut positions, mut verdicts) = (Vec::new(), Words::empty());
    let mut first_due = None;
    for (at, device) in row.members.of_user(user) {
        let Some(standing) = row.standings.of(at) else { continue };
        let is_meant = timer.is_none_or(|due| standing.due == due);
        let waits = is_meant && standing.due > now && waits_at_gate(standing);
        if waits && !reachable::is_held(view, parcel.tenant, Member { user, device }, standing)? {
            first_due.get_or_insert(standing.due);
            positions.push(u16::try_from(at).expect("a parcel has at most 1,000 members"));
            verdicts.push(Standing { due: now, ..standing.clone() });
        }
    }
    Ok(first_due.map(|due| Wake {
        parcel,
        round: row.round.saturating_add(1),
        due,
        positions,
        verdicts,
        counted: Counted::nothing(),
        consents: Consents::nothing(),
    }))
}

pub(super) fn waits_at_gate(standing: &Standing) -> bool {
    standing.state == State::Deferred && Reason::parse(&standing.code).is_some()
}

/// A user wants something else, or lives elsewhere.
pub(super) fn ask_again(view: &mut View<'_>, tenant: TenantId, user: UserNo) -> Result<(), TablesError> {
    let is_unindexed = columns::find(view, tenant, user)?.respect.waits();
    if is_unindexed {
        columns::clear_waits(view, tenant, user)?;
    }
    if is_unindexed || !waiting::of_user(view, (tenant, user), None, 1)?.is_empty() {
        todo::ask_replanning(view, tenant, user, is_unindexed)?;
    }
    Ok(())
}
