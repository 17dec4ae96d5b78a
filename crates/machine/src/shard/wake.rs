//! Another round of a parcel: members whose time has come.
//!
//! Comes from: a timer of the parcel, through `serve` and its permits. Decides: all gates again for what was
//! deferred (that of the channels before it first, see `fallback`), and what to do about what is unknown since no evidence
//! came. Goes to: the `Wake` record, and as in the first round the leader sends what it marks as Intent.

use super::collect::{self, Collecting};
use super::fallback::{self, Answer, Changed, Fallback, followed};
use super::gate::{Asked, Decision, Gate, Wish};
use super::intend::{self, Allowed};
use super::serve::{Decided, Known, Served};
use super::throttle::Throttling;
use super::{Derived, ledgers, reachable, replan};
use crate::parcel::{Member, Words};
use crate::records::delivery::{Consents, Counted, Wake};
use crate::records::shard::ShardRecord;
use crate::tables::ledger::{self, LedgerRow, ParcelId, Standing};
use crate::tables::work;
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::{self, Lookup, Resolution, State, Step, next, resolve_unknown};
use fantail_rules::chain::Cause;
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
    let (looked_at, is_early) = (ledger.members.count(), due > now);
    let (mut positions, mut verdicts, mut consents) = (Vec::new(), Words::empty(), Vec::new());
    let (mut sends, mut spaced, mut more) = (Vec::new(), Vec::new(), false);
    let (mut counted, mut last, mut last_counted) = (Counted::nothing(), None, None);
    let all = ledger.members.iter().zip(ledger.standings.iter()).zip(0u16..);
    let is_due = |standing: &Standing| standing.due > Millis(0) && standing.due <= now;
    let due_now: Vec<_> = all.filter(|((_, standing), _)| is_due(standing)).collect();
    let mut users: Vec<UserNo> = due_now.iter().map(|((member, _), _)| member.user).collect();
    users.dedup();
    let asked = Gate::new(view, parcel.work(), (ledger.event, ledger.terms), known)?.ask(&users)?;
    let counted_before = authorised_users(&ledger);
    let mut round = Round::new(view, parcel, &ledger, known)?;
    // For each member that waits for other channels it is asked what its user has seen.
    let steps_max = if round.fallback.is_some() { known.steps.wake_members } else { usize::MAX };
    for ((member, standing), position) in due_now {
        // The devices of a user stay together, so that they count as one.
        let is_full = sends.len() >= deliveries_max as usize || positions.len() >= steps_max;
        if is_full && last != Some(member.user) {
            more = true;
            break;
        }
        let at = users.binary_search(&member.user).expect("everybody who is due was asked about");
        let is_counted = counted_before.binary_search(&member.user).is_ok();
        let (verdict, wanted) = round.decide(member, standing, &asked[at], is_counted)?;
        last = Some(member.user);
        if verdict.state == State::Intent {
            if let Some(count) = wanted.count.filter(|_| last_counted != last) {
                counted.push(position, count);
                last_counted = last;
            }
            if wanted.spaces && spaced.last() != last.as_ref() {
                spaced.push(member.user);
            }
            let attempt = 1 + verdict.retries + verdict.resends;
            sends.push(intend::Send { position, member, attempt });
        }
        let is_sent = verdict.state == State::Intent;
        consents.push(if is_sent { wanted.consent } else { 0 });
        positions.push(position);
        verdicts.push(verdict);
    }
    if positions.is_empty() {
        // Nobody is due. If the timer is, its row has gone: its members were decided about by another one.
        let served = Served { allowed: None, more: false, is_early };
        return Ok(Decided { served, looked_at, ..Decided::nothing() });
    }
    let collecting = round.collecting;
    let round = ledger.round.saturating_add(1);
    let decided = u32::try_from(positions.len()).unwrap_or(u32::MAX);
    let allowed = Allowed { parcel, event: ledger.event, terms: ledger.terms, round, sends, decided };
    let changed = Changed::at(parcel, &ledger, &positions);
    let consents = Consents::of(consents);
    let record = ShardRecord::Wake(Wake { parcel, round, due, positions, verdicts, counted, consents });
    let served = Served { allowed: Some(allowed), more, is_early };
    let mut records = collecting.records(record);
    let throttling = Throttling::of(parcel.work(), ledger.terms, known);
    records.splice(0..0, throttling.and_then(|one| one.spaced(parcel.tenant, spaced)));
    let records = followed(view, records, &[changed], now)?;
    Ok(Decided { records, served, looked_at })
}

/// What one round asks beside the gates.
struct Round<'a, 'v> {
    ledger: &'a LedgerRow,
    view: &'a View<'v>,
    parcel: ParcelId,
    now: Millis,
    stop: Option<(Step, &'static str)>,
    collecting: Collecting<'a, 'v>,
    fallback: Option<Fallback<'a, 'v>>,
    /// What windows did with a user's deliveries.
    taken: Option<(UserNo, Decision)>,
}

impl<'a, 'v> Round<'a, 'v> {
    fn new(
        view: &'a View<'v>,
        parcel: ParcelId,
        ledger: &'a LedgerRow,
        known: Known<'a>,
    ) -> Result<Self, TablesError> {
        let halted = work::halted(view, parcel.tenant, parcel.arrival)?;
        let named = if ledger.is_tracked { ledger.members.count() } else { 0 };
        Ok(Self {
            ledger,
            view,
            parcel,
            now: known.now,
            stop: intend::stopped(halted, ledger.terms, known.now),
            collecting: Collecting::new(view, parcel, (ledger.event, ledger.terms, named), known),
            fallback: Fallback::new(view, parcel.work(), ledger.terms, known.now),
            taken: None,
        })
    }

    /// What the channels before it say about a member, if its channel comes after others. What was sent, or is tried again,
    /// has had its turn: it ends if it is not needed any more, and otherwise goes on.
    fn chain(&mut self, user: UserNo, standing: &Standing) -> Result<Option<Answer>, TablesError> {
        let Some(fallback) = self.fallback.as_mut() else { return Ok(None) };
        if !was_authorised(standing) {
            return fallback.again(user, self.stop).map(Some);
        }
        let spared = if self.stop.is_none() { fallback.spared(user)? } else { None };
        Ok(match (spared, standing.state) {
            (None, _) => None,
            (Some(_), State::Unknown) => Some(Answer::Held(Decision::plain(Step::GiveUp, UNCONFIRMED))),
            (Some(spared), _) => Some(Answer::Held(spared)),
        })
    }

    /// What becomes of one member, and by what its user's gates say, or why it cannot be reached. `is_counted`: something of this
    /// parcel was authorised for the user before, so it is counted and not too much now.
    fn decide(
        &mut self,
        member: Member,
        standing: &Standing,
        asked: &Asked,
        is_counted: bool,
    ) -> Result<(Standing, Decision), TablesError> {
        let Asked { reachable, decision, again, wish, .. } = asked;
        let mut cause = None;
        if *decision != Decision::GONE {
            match self.chain(member.user, standing)? {
                Some(Answer::Held(held)) => return Ok((stands(standing, held), held)),
                Some(Answer::Goes(why)) => cause = Some(why),
                None => {}
            }
        }
        let wanted = if is_counted { *again } else { *decision };
        let is_reachable = reachable.has(member.device);
        let mut wanted = (is_reachable || wanted == Decision::GONE).then_some(wanted);
        if let Some(allowed) = wanted.filter(|wanted| self.stop.is_none() && wanted.step == Step::Authorise) {
            // What waited for others says why its turn has come.
            let allowed = Decision { code: cause.map_or(allowed.code, Cause::word), ..allowed };
            let of = (member.user, *wish, allowed);
            wanted = Some(collected(&mut self.collecting, &mut self.taken, of, standing)?);
        }
        if reachable.is_pending(member.device) {
            let holds = |wanted: Decision| match wanted.step {
                Step::Authorise => reachable::waits_on(self.ledger, standing, self.now),
                _ => wanted,
            };
            wanted = wanted.map(holds);
        }
        let wanted = match wanted {
            Some(wanted) => wanted,
            None => {
                let whose = (self.parcel.tenant, member.user);
                let code = reachable.missing(self.view, whose, self.parcel.channel, member.device)?;
                Decision::plain(Step::Suppress, code)
            }
        };
        let verdict = decide(self.ledger, self.parcel.channel, standing, self.stop, wanted);
        Ok((verdict, wanted))
    }
}

/// Users of whom something was authorised before, ascending.
fn authorised_users(ledger: &LedgerRow) -> Vec<UserNo> {
    let all = ledger.members.iter().zip(ledger.standings.iter());
    let mut users: Vec<UserNo> =
        all.filter(|(_, standing)| was_authorised(standing)).map(|(member, _)| member.user).collect();
    users.dedup();
    users
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

/// What becomes of one member. `wanted` is what its user's gates say, or why it cannot be reached.
fn decide(
    ledger: &LedgerRow,
    channel: ChannelKind,
    standing: &Standing,
    stop: Option<(Step, &'static str)>,
    wanted: Decision,
) -> Standing {
    let is_unknown = standing.state == State::Unknown;
    let plain = Decision::plain;
    let decision = match (stop, wanted.step) {
        // Another copy needs everything that the first one needed, now.
        (None, Step::Authorise) if is_unknown => resolve(ledger, channel, standing),
        // It stays unknown until its user may be told again.
        (None, Step::Defer) if is_unknown => wanted,
        (_, _) if is_unknown => plain(Step::GiveUp, UNCONFIRMED),
        (Some((step, code)), _) => plain(step, code),
        (None, _) => wanted,
    };
    stands(standing, decision)
}

fn stands(standing: &Standing, decision: Decision) -> Standing {
    let Decision { step, code, due, .. } = decision;
    let state = next(standing.state, step).unwrap_or(standing.state);
    let resends = standing.resends + u8::from(step == Step::Resend);
    Standing { state, resends, due, code: code.to_owned(), ..standing.clone() }
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

/// Whether it was authorised before. Rows of versions that did not keep it leave a guess: what waits, or has ended, without
/// an attempt was not.
fn was_authorised(standing: &Standing) -> bool {
    if standing.was_authorised || standing.state != State::Deferred {
        return standing.was_authorised || standing.state == State::Unknown;
    }
    let is_held = replan::waits_at_gate(standing) || collect::waited(standing) || fallback::waits(standing);
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
    intend::count(view, wake.parcel, &ledger.members, &wake.counted, at)?;
    if ledger.is_tracked {
        fallback::remember(view, wake.parcel, &ledger.members, changes(), at)?;
    }
    ledgers::change(view, wake.parcel, ledger, changes(), derived)
}
