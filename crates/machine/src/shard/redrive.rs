//! What is said about deliveries after their attempts: an operator redrives or drops dead letters, a provider sends a
//! receipt.
//!
//! Comes from: the dead-letter API, and callbacks. Decides: by `rules::attempt` alone whether it changes anything, so a
//! redrive can never send what was accepted, and a receipt never takes a delivery back. Goes to: `Redrive`, `Receipt`.

use super::fallback::{Changed, followed};
use super::{Derived, Plan, ShardAnswer, ledgers};
use crate::Planned;
use crate::parcel::Words;
use crate::records::delivery::{Receipt, Redrive};
use crate::records::shard::ShardRecord;
use crate::tables::ledger::{self, ParcelId, Standing};
use crate::tables::track::{self, Note};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::{State, Step, next};
use fantail_rules::ids::{DeviceNo, Millis, UserNo};

pub const REDRIVEN: &str = "redriven";
pub const DROPPED: &str = "dropped";
/// What recipients did with a delivery, each implying those before it.
pub const OPENED: &str = "opened";
pub const CLICKED: &str = "clicked";
/// They called it spam.
pub const COMPLAINED: &str = "complained";
const ENGAGED: [&str; 3] = [OPENED, CLICKED, COMPLAINED];

/// What an operator wants of dead letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    Redrive,
    Drop,
}

/// What a provider said later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heard {
    pub user: UserNo,
    pub device: DeviceNo,
    pub delivered: bool,
    /// When that was, if it was said; never later than now.
    pub at: Option<Millis>,
    pub code: String,
    pub message: String,
}

/// `users`: only the dead letters of these, if any are named.
pub(super) fn plan(
    view: &View<'_>,
    parcel: ParcelId,
    wish: Wish,
    users: Option<&[UserNo]>,
    now: Millis,
) -> Result<Plan, TablesError> {
    let Some(ledger) = ledger::find(view, parcel)? else {
        return Ok(Planned::nothing(ShardAnswer::Redriven(0)));
    };
    let (step, code) = match wish {
        Wish::Redrive => (Step::Redrive, REDRIVEN),
        Wish::Drop => (Step::Drop, DROPPED),
    };
    let is_wanted = |user: UserNo| users.is_none_or(|users| users.contains(&user));
    let members = ledger.members.iter().zip(ledger.standings.iter()).zip(0u16..);
    let dead =
        members.filter(|((member, standing), _)| standing.state == State::Dead && is_wanted(member.user));
    let state = next(State::Dead, step).expect("dead letters can be redriven and dropped");
    // In a moment, as all timers: one that is due already could be the one that was just done.
    let due = if state == State::Deferred { now.plus(1) } else { Millis(0) };
    let (mut positions, mut standings) = (Vec::new(), Words::empty());
    for ((_, standing), position) in dead {
        // Its retries begin again: whoever redrives believes that the cause is gone. Copies that may have arrived stay
        // counted.
        positions.push(position);
        let code = code.to_owned();
        standings.push(Standing { state, retries: 0, due, code, ..standing.clone() });
    }
    if positions.is_empty() {
        return Ok(Planned::nothing(ShardAnswer::Redriven(0)));
    }
    let count = positions.len() as u64;
    let record = ShardRecord::Redrive(Redrive { parcel, positions, standings });
    Ok(Planned::one(record, ShardAnswer::Redriven(count)))
}

pub(super) fn apply(
    view: &mut View<'_>,
    redrive: &Redrive,
    at: Millis,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let Some(ledger) = ledger::find(view, redrive.parcel)? else { return Ok(()) };
    if ledger.is_tracked {
        let note = |standing: &Standing| {
            let (message, provider_id) = (String::new(), String::new());
            Note { at, state: standing.state, code: standing.code.clone(), message, provider_id }
        };
        let notes: Vec<Note> = redrive.standings.iter().map(note).collect();
        track::add(view, redrive.parcel, &ledger.members, redrive.positions.iter().copied().zip(&notes))?;
    }
    let changes = redrive.positions.iter().copied().zip(redrive.standings.iter());
    ledgers::change(view, redrive.parcel, ledger, changes, derived)
}

pub(super) fn plan_receipt(
    view: &View<'_>,
    parcel: ParcelId,
    heard: &Heard,
    now: Millis,
) -> Result<Plan, TablesError> {
    let unknown = || Planned::nothing(ShardAnswer::UnknownDelivery);
    let Some((parcel, ledger)) = ledger::holding(view, ParcelId { first: heard.user, ..parcel })? else {
        return Ok(unknown());
    };
    let of_user = ledger.members.of_user(heard.user);
    let Some((at, _)) = of_user.into_iter().find(|(_, device)| *device == heard.device) else {
        return Ok(unknown());
    };
    let step = if heard.delivered { Step::ReceiptDelivered } else { Step::ReceiptFailed };
    let old = ledger.standings.of(at).expect("every member has a standing");
    let Ok(state) = next(old.state, step) else { return Ok(unknown()) };
    let is_further = state == State::Delivered && engagement(&heard.code) > engagement(&old.code);
    if state == old.state && !is_further {
        return Ok(Planned::nothing(ShardAnswer::Known));
    }
    let note = Note {
        at: heard.at.map_or(now, |at| at.min(now)),
        state,
        code: heard.code.clone(),
        message: heard.message.clone(),
        provider_id: String::new(),
    };
    let standing = Standing { state, due: Millis(0), code: heard.code.clone(), ..old.clone() };
    let position = u16::try_from(at).expect("a parcel has at most 1,000 members");
    let changed = Changed::at(parcel, &ledger, &[position]);
    let record = ShardRecord::Receipt(Receipt { parcel, position, standing, note });
    let records = followed(view, vec![record], &[changed], now)?;
    Ok(Planned { records, answer: ShardAnswer::Noted })
}

/// Whether the recipient has looked at it.
pub(super) fn is_engaged(code: &str) -> bool {
    engagement(code) > 0
}

/// How far a delivery went with its recipient, 0 if nothing is known: only more is news.
fn engagement(code: &str) -> usize {
    ENGAGED.iter().position(|known| *known == code).map_or(0, |place| place + 1)
}

pub(super) fn apply_receipt(
    view: &mut View<'_>,
    receipt: &Receipt,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let Some(ledger) = ledger::find(view, receipt.parcel)? else { return Ok(()) };
    if ledger.is_tracked {
        let note = std::iter::once((receipt.position, &receipt.note));
        track::add(view, receipt.parcel, &ledger.members, note)?;
    }
    let change = std::iter::once((receipt.position, &receipt.standing));
    ledgers::change(view, receipt.parcel, ledger, change, derived)
}
