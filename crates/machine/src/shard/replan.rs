//! What waits at a gate, when its user wants something else.
//!
//! Comes from: `respect` and `users`, which leave a to-do row if anything may wait. Decides: which members of which ledgers
//! are this user's and wait for a gate. Goes to: `Wake`, which makes them due now, so that they meet all gates again with
//! permits of their own; then `Replanned`. A few ledgers are looked at in one plan.
//!
//! Whether anything waits is a bit in the column, set with the verdict that made it wait. It may be set in vain, for what
//! waited may be over: then nothing is found.

use super::{Plan, ShardAnswer, reachable};
use crate::Planned;
use crate::columns;
use crate::parcel::{Members, Words};
use crate::records::delivery::{Consents, Counted, Wake};
use crate::records::shard::ShardRecord;
use crate::tables::ledger::{self, LedgerRow, Standing, Timer, TimersFrom};
use crate::tables::todo::Todo;
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::State;
use fantail_rules::gates::Reason;
use fantail_rules::ids::{Millis, TenantId, UserNo};

/// Ledgers that one plan reads: about a millisecond.
const LEDGERS_MAX: usize = 64;

pub(super) fn plan(
    view: &View<'_>,
    tenant: TenantId,
    user: UserNo,
    behind: Option<Timer>,
    now: Millis,
) -> Result<Plan, TablesError> {
    // What is due by now is asked about again anyway.
    let from = behind.map_or(TimersFrom::Due(now.plus(1)), TimersFrom::Behind);
    let timers = ledger::timers_due(view, from, Millis(u64::MAX - 1), LEDGERS_MAX)?;
    let mut records = Vec::new();
    for timer in timers.iter().filter(|timer| timer.parcel.tenant == tenant) {
        if let Some(row) = ledger::find(view, timer.parcel)? {
            records.extend(hurried(view, *timer, &row, user, now)?.map(ShardRecord::Wake));
        }
    }
    let behind = timers.last().filter(|_| timers.len() == LEDGERS_MAX).copied();
    if behind.is_none() {
        records.push(ShardRecord::Replanned { tenant, user });
    }
    Ok(Planned { records, answer: ShardAnswer::Replanned { behind } })
}

/// The members of a ledger that wait for this user until this timer.
fn hurried(
    view: &View<'_>,
    timer: Timer,
    row: &LedgerRow,
    user: UserNo,
    now: Millis,
) -> Result<Option<Wake>, TablesError> {
    let (mut positions, mut verdicts) = (Vec::new(), Words::empty());
    for ((member, standing), position) in row.members.iter().zip(row.standings.iter()).zip(0u16..) {
        let is_its = member.user == user && standing.due == timer.due && waits_at_gate(standing);
        if is_its && !reachable::is_held(view, timer.parcel.tenant, member, standing)? {
            positions.push(position);
            verdicts.push(Standing { due: now, ..standing.clone() });
        }
    }
    let round = row.round.saturating_add(1);
    let Timer { parcel, due, .. } = timer;
    Ok((!positions.is_empty()).then_some(Wake {
        parcel,
        round,
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

/// Remembers who waits, of members with new standings.
pub(super) fn remember<'a>(
    view: &mut View<'_>,
    tenant: TenantId,
    members: &Members,
    standings: impl Iterator<Item = (u16, &'a Standing)>,
) -> Result<(), TablesError> {
    let waiting = standings.filter(|(_, standing)| waits_at_gate(standing));
    let places: Vec<u16> = waiting.map(|(position, _)| position).collect();
    if places.is_empty() {
        return Ok(());
    }
    let all: Vec<UserNo> = members.iter().map(|member| member.user).collect();
    let mut users: Vec<UserNo> =
        places.iter().filter_map(|place| all.get(usize::from(*place)).copied()).collect();
    users.dedup();
    columns::set_waits(view, tenant, &users, true)
}

/// A user wants something else, or lives elsewhere.
pub(super) fn ask_again(view: &mut View<'_>, tenant: TenantId, user: UserNo) -> Result<(), TablesError> {
    if columns::find(view, tenant, user)?.respect.waits() {
        columns::set_waits(view, tenant, &[user], false)?;
        view.put(Todo::Replan { tenant, user }.key(), Vec::new());
    }
    Ok(())
}
