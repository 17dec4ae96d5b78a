//! How a ledger changes: the one place where standings are folded.
//!
//! Comes from: `intend`, `wake`, `outcome`, `redrive`. Does: keeps what hangs on a ledger true: its tallies, its timers
//! (one for every time at which a member is due), its to-do row (while a member may be under way), its place among
//! the dead letters, and a row for each user with a delivery that waits at a gate. Goes to: tables, and to the dispatcher as
//! what is due when.

use super::{Derived, Offer, replan};
use crate::tables::ledger::{LedgerRow, ParcelId, Standing, Timer};
use crate::tables::waiting::{self, Waiting};
use crate::tables::{put, tally};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::State;
use fantail_rules::ids::{Millis, UserNo};
use std::collections::BTreeSet;

/// What hangs on a ledger.
#[derive(Default)]
struct Hangs {
    dues: BTreeSet<Millis>,
    is_under_way: bool,
    is_dead: bool,
    /// Users with a delivery that waits at a gate, ascending.
    waiting: Vec<UserNo>,
}

impl Hangs {
    /// The dictionary must be compact: every word is somebody's.
    fn of(ledger: &LedgerRow) -> Self {
        let words = &ledger.standings.words;
        Self {
            dues: words.iter().map(|word| word.due).filter(|due| *due > Millis(0)).collect(),
            is_under_way: words.iter().any(|word| word.state == State::Intent),
            is_dead: words.iter().any(|word| word.state == State::Dead),
            waiting: waiting_users(ledger),
        }
    }
}

/// Most ledgers have none: their words say so.
fn waiting_users(ledger: &LedgerRow) -> Vec<UserNo> {
    if !ledger.standings.words.iter().any(replan::waits_at_gate) {
        return Vec::new();
    }
    let all = ledger.members.iter().zip(ledger.standings.iter());
    let waiting = all.filter(|(_, standing)| replan::waits_at_gate(standing));
    let mut users: Vec<UserNo> = waiting.map(|(member, _)| member.user).collect();
    users.dedup();
    users
}

/// A new ledger.
pub(super) fn open(
    view: &mut View<'_>,
    parcel: ParcelId,
    mut ledger: LedgerRow,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    ledger.standings.compact();
    for word in &mut ledger.standings.words {
        word.was_authorised = word.state == State::Intent;
    }
    let entered: Vec<State> = ledger.standings.iter().map(|standing| standing.state).collect();
    count(view, parcel, &ledger, &[], &entered)?;
    save(view, parcel, Hangs::default(), &ledger, derived);
    Ok(())
}

/// Members of a ledger stand elsewhere from now on. Positions that do not exist are none of ours.
pub(super) fn change<'a>(
    view: &mut View<'_>,
    parcel: ParcelId,
    mut ledger: LedgerRow,
    changes: impl Iterator<Item = (u16, &'a Standing)>,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let before = Hangs::of(&ledger);
    let (mut left, mut entered) = (Vec::new(), Vec::new());
    for (position, standing) in changes {
        let at = usize::from(position);
        let Some(old) = ledger.standings.of(at) else { continue };
        left.push(old.state);
        entered.push(standing.state);
        let was_authorised = old.was_authorised || standing.state == State::Intent;
        ledger.standings.set(at, Standing { was_authorised, ..standing.clone() });
    }
    ledger.standings.compact();
    count(view, parcel, &ledger, &left, &entered)?;
    save(view, parcel, before, &ledger, derived);
    Ok(())
}

fn count(
    view: &mut View<'_>,
    parcel: ParcelId,
    ledger: &LedgerRow,
    left: &[State],
    entered: &[State],
) -> Result<(), TablesError> {
    let of_event = tally::key(parcel.tenant, parcel.arrival, parcel.channel);
    let of_lane = tally::lane_key(parcel.tenant, ledger.terms.lane);
    for key in [of_event, of_lane] {
        let mut tally = tally::find(view, &key)?;
        entered.iter().for_each(|state| tally.enter(*state, 1));
        left.iter().for_each(|state| tally.leave(*state, 1));
        put(view, key, &tally);
    }
    Ok(())
}

fn save(view: &mut View<'_>, parcel: ParcelId, before: Hangs, ledger: &LedgerRow, derived: &mut Derived) {
    let after = Hangs::of(ledger);
    let lane = vec![ledger.terms.lane as u8];
    let timer = |due: &Millis| Timer { due: *due, parcel, lane: ledger.terms.lane };
    for due in before.dues.difference(&after.dues) {
        view.delete(timer(due).key());
    }
    for due in after.dues.difference(&before.dues) {
        view.put(timer(due).key(), Vec::new());
        derived.offers.push(Offer::Timer(timer(due)));
    }
    set(view, before.is_under_way, after.is_under_way, parcel.under_way_key(), lane);
    set(view, before.is_dead, after.is_dead, parcel.dead_key(), Vec::new());
    index(view, parcel, &before.waiting, &after.waiting);
    put(view, parcel.key(), ledger);
}

/// Users wait from now on, or not any more.
fn index(view: &mut View<'_>, parcel: ParcelId, before: &[UserNo], after: &[UserNo]) {
    let ParcelId { tenant, arrival, channel, .. } = parcel;
    let key = |user: &UserNo| waiting::key(tenant, *user, Waiting { arrival, channel });
    let only_in = |users: &[UserNo], others: &[UserNo]| -> Vec<Vec<u8>> {
        users.iter().filter(|user| others.binary_search(user).is_err()).map(key).collect()
    };
    only_in(before, after).into_iter().for_each(|key| view.delete(key));
    only_in(after, before).into_iter().for_each(|key| view.put(key, Vec::new()));
}

fn set(view: &mut View<'_>, was: bool, is: bool, key: Vec<u8>, value: Vec<u8>) {
    match (was, is) {
        (false, true) => view.put(key, value),
        (true, false) => view.delete(key),
        (false, false) | (true, true) => {}
    }
}
