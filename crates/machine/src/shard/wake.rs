//! Another round of a parcel: members whose time has come.
//!
//! Comes from: a timer of the parcel, through `serve` and its permits. Decides: all gates again for what was
//! deferred, and what to do about what is unknown since no evidence came. Goes to: the `Wake` record, and as in the
//! first round the leader sends what it marks as Intent.

use super::collect::{self, Collecting};
use super::gate::{Asked, Decision, Gate, Wish};
use super::intend::{self, Allowed, ENDPOINT_GONE};
use super::serve::{Decided, Known, Served};
use super::{Derived, ledgers, replan};
use crate::parcel::Words;
use crate::records::delivery::{Consents, Counted, Wake};
use crate::records::shard::ShardRecord;
use crate::tables::ledger::{self, LedgerRow, ParcelId, Standing};
use crate::tables::work;
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::{self, Lookup, Resolution, State, Step, next, resolve_unknown};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, UserNo};

/// Nothing was heard of it, and another copy would be worse.
pub const UNCONFIRMED: &str = "unconfirmed";
/// Nothing was heard of it, and another copy is under way.
pub const RESENT: &str = "resent";

pub(super) fn plan(
    view: &View<'_>,
    parcel: ParcelId,
    due: Millis,
    deliveries_max: u32,
    known: Known<'_>,
) -> Result<Decided, TablesError> {
    let now = known.now;
    let Some(ledger) = ledger::find(view, parcel)? else { return Ok(Decided::nothing()) };
    let looked_at = ledger.members.count();
    let stop = intend::stopped(work::halted(view, parcel.tenant, parcel.arrival)?, ledger.terms, now);
    let (mut positions, mut verdicts, mut consents) = (Vec::new(), Words::empty(), Vec::new());
    let (mut sends, mut more) = (Vec::new(), false);
    let (mut counted, mut last, mut last_counted) = (Counted::nothing(), None, None);
    let all = ledger.members.iter().zip(ledger.standings.iter()).zip(0u16..);
    let is_due = |standing: &Standing| standing.due > Millis(0) && standing.due <= now;
    let due_now: Vec<_> = all.filter(|((_, standing), _)| is_due(standing)).collect();
    let mut users: Vec<UserNo> = due_now.iter().map(|((member, _), _)| member.user).collect();
    users.dedup();
    let asked = Gate::new(view, parcel.work(), ledger.terms, known)?.ask(&users)?;
    let named = if ledger.is_tracked { looked_at } else { 0 };
    let mut collecting = Collecting::new(view, parcel, (ledger.event, ledger.terms, named), known);
    let mut taken: Option<(UserNo, Decision)> = None;
    for ((member, standing), position) in due_now {
        // The devices of a user stay together, so that they count as one.
        if sends.len() >= deliveries_max as usize && last != Some(member.user) {
            more = true;
            break;
        }
        let at = users.binary_search(&member.user).expect("everybody who is due was asked about");
        let Asked { devices, decision, again, wish } = &asked[at];
        let is_reachable = devices.contains(&member.device);
        let wanted = if was_authorised(standing) { *again } else { *decision };
        let mut wanted = (is_reachable || wanted == Decision::GONE).then_some(wanted);
        if let Some(allowed) = wanted.filter(|wanted| stop.is_none() && wanted.step == Step::Authorise) {
            let of = (member.user, *wish, allowed);
            wanted = Some(collected(&mut collecting, &mut taken, of, standing)?);
        }
        let verdict = decide(&ledger, parcel.channel, standing, stop, wanted);
        last = Some(member.user);
        if verdict.state == State::Intent {
            if let Some(count) = wanted.and_then(|wanted| wanted.count).filter(|_| last_counted != last) {
                counted.push(position, count);
                last_counted = last;
            }
            let attempt = 1 + verdict.retries + verdict.resends;
            sends.push(intend::Send { position, member, attempt });
        }
        let is_sent = verdict.state == State::Intent;
        consents.push(wanted.filter(|_| is_sent).map_or(0, |wanted| wanted.consent));
        positions.push(position);
        verdicts.push(verdict);
    }
    if positions.is_empty() {
        return Ok(Decided { looked_at, ..Decided::nothing() });
    }
    let round = ledger.round.saturating_add(1);
    let decided = u32::try_from(positions.len()).unwrap_or(u32::MAX);
    let allowed = Allowed { parcel, event: ledger.event, terms: ledger.terms, round, sends, decided };
    let consents = Consents::of(consents);
    let record = ShardRecord::Wake(Wake { parcel, round, due, positions, verdicts, counted, consents });
    let served = Served { allowed: Some(allowed), more };
    Ok(Decided { records: collecting.records(record), served, looked_at })
}

/// What windows do with a member that the gates let pass. All devices of a user that wait for the same go the same way.
fn collected(
    collecting: &mut Collecting<'_, '_>,
    taken: &mut Option<(UserNo, Decision)>,
    (user, wish, allowed): (UserNo, Wish, Decision),
    standing: &Standing,
) -> Result<Decision, TablesError> {
    // What may have been sent cannot be told in a digest: whoever wants it there is not told again.
    if standing.state == State::Unknown {
        return Ok(wish.fold.map_or(allowed, |fold| Decision::plain(Step::Suppress, fold.word())));
    }
    if let Some((_, decision)) = taken.filter(|(of, _)| *of == user) {
        return Ok(decision);
    }
    let decision = collecting.take(user, wish, collect::is_first(standing), allowed)?;
    *taken = Some((user, decision));
    Ok(decision)
}

/// What becomes of one member. `wanted` is what its user's gates say, if it can be reached.
fn decide(
    ledger: &LedgerRow,
    channel: ChannelKind,
    standing: &Standing,
    stop: Option<(Step, &'static str)>,
    wanted: Option<Decision>,
) -> Standing {
    let is_unknown = standing.state == State::Unknown;
    let plain = Decision::plain;
    let Decision { step, code, due, .. } = match (stop, wanted) {
        // Another copy needs everything that the first one needed, now.
        (None, Some(Decision { step: Step::Authorise, .. })) if is_unknown => {
            resolve(ledger, channel, standing)
        }
        // It stays unknown until its user may be told again.
        (None, Some(decision)) if is_unknown && decision.step == Step::Defer => decision,
        (_, _) if is_unknown => plain(Step::GiveUp, UNCONFIRMED),
        (Some((step, code)), _) => plain(step, code),
        (None, None) => plain(Step::Suppress, ENDPOINT_GONE),
        (None, Some(decision)) => decision,
    };
    let state = next(standing.state, step).unwrap_or(standing.state);
    let resends = standing.resends + u8::from(step == Step::Resend);
    Standing { state, retries: standing.retries, resends, due, code: code.to_owned() }
}

fn resolve(ledger: &LedgerRow, channel: ChannelKind, standing: &Standing) -> Decision {
    let ask = attempt::Ask {
        class: ledger.terms.class,
        channel,
        resends: standing.resends,
        lookup: Lookup::Missing,
        paid: channel == ChannelKind::Sms,
    };
    let (step, code) = match resolve_unknown(&ask) {
        Resolution::Resend => (Step::Resend, RESENT),
        Resolution::GiveUp | Resolution::LookUp => (Step::GiveUp, UNCONFIRMED),
    };
    Decision::plain(step, code)
}

/// Whether it may have been counted: what waits at a gate or in a window, and never failed, was not.
fn was_authorised(standing: &Standing) -> bool {
    let is_held = replan::waits_at_gate(standing) || collect::waited(standing);
    standing.retries > 0 || standing.resends > 0 || !is_held
}

pub(super) fn apply(
    view: &mut View<'_>,
    wake: &Wake,
    at: Millis,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let Some(mut ledger) = ledger::find(view, wake.parcel)? else { return Ok(()) };
    ledger.round = wake.round;
    let changes = || wake.positions.iter().copied().zip(wake.verdicts.iter());
    replan::remember(view, wake.parcel.tenant, &ledger.members, changes())?;
    intend::count(view, wake.parcel, &ledger.members, &wake.counted, at)?;
    ledgers::change(view, wake.parcel, ledger, changes(), derived)
}
