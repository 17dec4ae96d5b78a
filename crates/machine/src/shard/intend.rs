//! The next parcel of some work: who is in it, and what may be sent.
//!
//! Comes from: `serve`, with permits for so many deliveries. Decides: the members of the parcel and, gate by gate
//! in the order of DEL-21, what becomes of each: cancelled or expired, suppressed for want of an endpoint, then what the
//! user wants (`gate`): suppressed, deferred, or allowed. A channel that comes after others waits for them (`fallback`).
//! Goes to: the `Intend` record; once it is durable the leader sends exactly the members that it marks as Intent.
//!
//! What must never happen: a member that is in two parcels of one work, or a send that no durable Intend allows.

use super::collect::Collecting;
use super::fallback::{self, Fallback};
use super::gate::{Asked, Decision, Gate, Wish};
use super::serve::{Decided, Known, Served};
use super::throttle::Throttling;
use super::{Derived, Offer, dispatch, ledgers, reachable};
use crate::columns::counts::{self, Count};
use crate::parcel::{Collector, Member, Members, Words};
use crate::records::delivery::{Consents, Counted, Intend};
use crate::records::shard::ShardRecord;
use crate::tables::ledger::{LedgerRow, ParcelId, Standing};
use crate::tables::work::{self, Halt, Terms, To, WorkId, WorkRow};
use crate::tables::{put, tally, walk};
use crate::view::View;
use fantail_ports::lists::ListKey;
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::{State, Step, next};
use fantail_rules::ids::{DeviceNo, Millis, UserNo};
use fantail_rules::ulid::Ulid;

/// Words for why a member stands where it does, as they are told to producers.
pub const NO_ENDPOINT: &str = "no_endpoint";
/// The endpoint is there, and its address is on the suppression list.
pub const ADDRESS_SUPPRESSED: &str = "address_suppressed";
pub const ENDPOINT_GONE: &str = "endpoint_gone";
/// The endpoint got another address after it was allowed to send: it is not sent before that one is claimed.
pub const ENDPOINT_CHANGED: &str = "endpoint_changed";
/// Of a user who was deleted or erased.
pub const ERASED: &str = "erased";
pub const EXPIRED: &str = "ttl_expired";

/// What may be sent now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allowed {
    pub parcel: ParcelId,
    pub event: Ulid,
    pub terms: Terms,
    pub round: u16,
    /// Positions in the parcel, and who that is.
    pub sends: Vec<Send>,
    /// How many deliveries were decided about.
    pub decided: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Send {
    pub position: u16,
    pub member: Member,
    /// 1 for the first attempt.
    pub attempt: u8,
}

pub(super) fn plan(
    view: &View<'_>,
    work: WorkId,
    deliveries_max: u32,
    known: Known<'_>,
) -> Result<Decided, TablesError> {
    let now = known.now;
    let Some(row) = work::find(view, work)? else { return Ok(Decided::nothing()) };
    let halted = work::halted(view, work.tenant, work.arrival)?;
    let stop = stopped(halted, row.terms, now);
    if let (Some(code), To::List(_) | To::Walked) = (stop, row.to) {
        // Who was never looked at was never promised anything.
        let record = ShardRecord::Closed { work, code: code.1.to_owned() };
        return Ok(Decided { records: vec![record], ..Decided::nothing() });
    }
    let mut found = gather(view, work, &row, deliveries_max, known)?;
    if found.is_early() {
        // The walk has found nobody else yet; it offers the work again when it has.
        return Ok(Decided { looked_at: found.scanned, ..Decided::nothing() });
    }
    let parcel = ParcelId::of(work, row.next);
    let named = if row.to == To::Given { found.members.users().len() } else { 0 };
    let mut collecting = Collecting::new(view, parcel, (row.event, row.terms, named), known);
    if stop.is_none() {
        found.collect(&mut collecting)?;
    }
    found.hold_pending(now, row.terms.expires_at);
    let Judged { verdicts, counted, consents } = judge(&found, stop);
    let sends = sends(&found.members, &verdicts, |_| 1);
    let throttling = Throttling::of(work, row.terms, known);
    let spaced = throttling.and_then(|one| one.spaced(work.tenant, found.spaced(&verdicts)));
    let decided = u32::try_from(found.members.count()).unwrap_or(u32::MAX);
    let allowed = Allowed { parcel, event: row.event, terms: row.terms, round: 1, sends, decided };
    let more = found.next.is_some() && !found.has_caught_up;
    let record = ShardRecord::Intend(Intend {
        work,
        next: found.next,
        unreached: found.unreached,
        members: found.members,
        verdicts,
        counted,
        consents,
    });
    let served = Served { allowed: Some(allowed), more, is_early: false };
    let mut records = collecting.records(record);
    records.splice(0..0, spaced);
    Ok(Decided { records, served, looked_at: found.scanned })
}

/// The first gate: whether anything of this event may still be sent.
pub(super) fn stopped(halted: Option<Halt>, terms: Terms, now: Millis) -> Option<(Step, &'static str)> {
    match halted {
        Some(halt) => Some((Step::Cancel, halt.word())),
        None if now >= terms.expires_at => Some((Step::Expire, EXPIRED)),
        None => None,
    }
}

/// Who is in the next parcel.
struct Found {
    members: Members,
    /// What the gates said about each member.
    decisions: Vec<(Decision, Wish)>,
    /// Positions of members whose endpoints are not active yet.
    pending: Vec<usize>,
    next: Option<UserNo>,
    unreached: u64,
    /// Users that were looked at.
    scanned: usize,
    /// The walk that finds them has found nobody else yet.
    has_caught_up: bool,
}

impl Found {
    /// There is nothing to decide about now.
    fn is_early(&self) -> bool {
        self.has_caught_up && self.members.count() == 0 && self.unreached == 0
    }
}

impl Found {
    /// Users who may get something after which there is nothing of its kind for a while.
    fn spaced(&self, verdicts: &Words<Standing>) -> Vec<UserNo> {
        let all = self.members.iter().zip(&self.decisions).zip(verdicts.iter());
        let spaced = all.filter(|((_, (decision, _)), one)| decision.spaces && one.state == State::Intent);
        let mut users: Vec<UserNo> = spaced.map(|((member, _), _)| member.user).collect();
        users.dedup();
        users
    }

    /// What the gates let pass goes out, or into a window.
    fn collect(&mut self, collecting: &mut Collecting<'_, '_>) -> Result<(), TablesError> {
        let mut last: Option<(UserNo, Decision)> = None;
        for (member, (decision, wish)) in self.members.iter().zip(&mut self.decisions) {
            if member.device == DeviceNo(0) || decision.step != Step::Authorise {
                continue;
            }
            // All devices of a user go the same way.
            let taken = match last.filter(|(user, _)| *user == member.user) {
                Some((_, taken)) => taken,
                None => collecting.take(member.user, *wish, true, *decision)?,
            };
            last = Some((member.user, taken));
            *decision = taken;
        }
        Ok(())
    }

    /// What may go out, to an endpoint that is not active yet, waits for it.
    fn hold_pending(&mut self, now: Millis, expires_at: Millis) {
        for position in &self.pending {
            let (decision, _) = &mut self.decisions[*position];
            if decision.step == Step::Authorise {
                *decision = reachable::waits(now, expires_at);
            }
        }
    }
}

fn gather(
    view: &View<'_>,
    work: WorkId,
    row: &WorkRow,
    deliveries_max: u32,
    known: Known<'_>,
) -> Result<Found, TablesError> {
    let (mut collector, mut decisions, mut pending) = (Collector::default(), Vec::new(), Vec::new());
    let (mut next, mut unreached, mut scanned) = (Some(row.next), 0, 0);
    let given = match row.to {
        To::Given => work::given(view, work.tenant, work.arrival)?,
        To::List(_) | To::Walked => Vec::new(),
    };
    let is_walking = row.to == To::Walked
        && walk::find(view, work.tenant, work.arrival)?.is_some_and(|walk| !walk.is_over());
    let mut has_caught_up = false;
    let mut gate = Gate::new(view, work, (row.event, row.terms), known)?;
    let mut fallback = Fallback::new(view, work, row.terms, known.now);
    let bound = fallback::bound(view, work, row.terms)?;
    'chunks: while let Some(from) = next.filter(|_| scanned < known.steps.parcel_users_scanned) {
        let chunk = Chunk { view, work, given: &given, users_max: known.steps.parcel_users_read };
        let (mut users, after) = chunk.users(row.to, from)?;
        scanned += users.len().max(1);
        has_caught_up = is_walking && after.is_none();
        next = if has_caught_up { users.last().map(|last| UserNo(last.0 + 1)).or(next) } else { after };
        if let Some(bound) = bound.filter(|bound| after.is_none_or(|after| after >= *bound)) {
            // Those before it have not come further; it is offered again when they have.
            users.retain(|user| *user < bound);
            (next, has_caught_up) = (Some(bound.max(from)), true);
        }
        for (user, asked) in users.iter().zip(gate.ask(&users)?) {
            let Asked { reachable, mut decision, wish, is_awaited, .. } = asked;
            if let Some(fallback) = fallback.as_mut().filter(|_| is_awaited || !reachable.is_empty()) {
                decision = fallback.first(*user, decision)?;
            }
            // Whoever was named and has none is still told about, and so is who can be reached by what comes after it.
            let has_place = row.to == To::Given || (is_awaited && fallback.is_some());
            let mut devices = reachable.all();
            if devices.is_empty() && has_place {
                devices.push(DeviceNo(0));
                if decision.step == Step::Authorise {
                    let code = reachable.missing(view, (work.tenant, *user), work.channel, DeviceNo(0))?;
                    decision = Decision::plain(Step::Suppress, code);
                }
            }
            unreached += u64::from(devices.is_empty());
            // A user with more devices than there are permits would never get a turn.
            let room = (deliveries_max as usize).max(if collector.count() == 0 { devices.len() } else { 0 });
            if !collector.add(*user, &devices, room) {
                (next, has_caught_up) = (Some(*user), false);
                break 'chunks;
            }
            let first = decisions.len();
            decisions.extend(devices.iter().map(|_| (decision, wish)));
            pending.extend(
                (first..)
                    .zip(&devices)
                    .filter(|(_, device)| reachable.is_pending(**device))
                    .map(|(at, _)| at),
            );
        }
        if has_caught_up {
            break;
        }
    }
    Ok(Found { members: collector.finish(), decisions, pending, next, unreached, scanned, has_caught_up })
}

struct Chunk<'a, 'v> {
    view: &'a View<'v>,
    work: WorkId,
    given: &'a [UserNo],
    users_max: usize,
}

impl Chunk<'_, '_> {
    /// The next users at or above one, and where to go on.
    fn users(&self, to: To, from: UserNo) -> Result<(Vec<UserNo>, Option<UserNo>), TablesError> {
        let list = match to {
            To::Given => {
                let first = self.given.partition_point(|user| *user < from);
                let users = &self.given[first..];
                return Ok((
                    users.iter().copied().take(self.users_max).collect(),
                    users.get(self.users_max).copied(),
                ));
            }
            To::List(list) => ListKey { tenant: self.work.tenant, list },
            To::Walked => {
                let (users, more) = walk::members_from(self.view, self.work, from, self.users_max)?;
                let next = users.last().filter(|_| more).map(|last| UserNo(last.0 + 1));
                return Ok((users, next));
            }
        };
        let after = from.0.checked_sub(1).map(UserNo);
        let members = self.view.lists()?.members(list, after, self.users_max)?;
        let next =
            members.last().filter(|_| members.len() == self.users_max).map(|last| UserNo(last.user.0 + 1));
        let is_on = members.iter().filter(|member| member.intervals.contains(self.work.arrival));
        Ok((is_on.map(|member| member.user).collect(), next))
    }
}

/// What is said about each member of a parcel.
struct Judged {
    verdicts: Words<Standing>,
    counted: Counted,
    consents: Consents,
}

fn judge(found: &Found, stop: Option<(Step, &'static str)>) -> Judged {
    let (mut verdicts, mut counted, mut consents) = (Words::empty(), Counted::nothing(), Vec::new());
    let mut last = None;
    for ((member, (decision, _)), position) in found.members.iter().zip(&found.decisions).zip(0u16..) {
        let Decision { step, code, due, count, consent, .. } = match stop {
            Some((step, code)) => Decision::plain(step, code),
            None => *decision,
        };
        // A notification counts once, however many devices it goes to.
        if let Some(count) = count.filter(|_| last.replace(member.user) != Some(member.user)) {
            counted.push(position, count);
        }
        let state = next(State::Planned, step).expect("a member that was just planned can be decided about");
        consents.push(consent);
        verdicts.push(Standing {
            state,
            retries: 0,
            resends: 0,
            due,
            code: code.to_owned(),
            was_authorised: false,
        });
    }
    Judged { verdicts, counted, consents: Consents::of(consents) }
}

/// What is marked as Intent.
pub(super) fn sends(
    members: &Members,
    verdicts: &Words<Standing>,
    attempt: impl Fn(&Standing) -> u8,
) -> Vec<Send> {
    let all = members.iter().zip(verdicts.iter()).zip(0..);
    let marked = all.filter(|((_, verdict), _)| verdict.state == State::Intent);
    marked.map(|((member, verdict), position)| Send { position, member, attempt: attempt(verdict) }).collect()
}

/// Writes down what counts towards the limits of users.
pub(super) fn count(
    view: &mut View<'_>,
    parcel: ParcelId,
    members: &Members,
    counted: &Counted,
    at: Millis,
) -> Result<(), TablesError> {
    if counted.positions.is_empty() {
        return Ok(());
    }
    let all: Vec<UserNo> = members.iter().map(|member| member.user).collect();
    let counts = counted.positions.iter().zip(counted.how.iter());
    let counts: Vec<(UserNo, Count)> =
        counts.filter_map(|(place, how)| Some((*all.get(usize::from(*place))?, *how))).collect();
    counts::count(view, (parcel.tenant, parcel.channel), at, &counts)
}

pub(super) fn apply(
    view: &mut View<'_>,
    intend: &Intend,
    at: Millis,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let Some(mut row) = work::find(view, intend.work)? else { return Ok(()) };
    let parcel = ParcelId::of(intend.work, row.next);
    if intend.members.count() > 0 {
        let ledger = LedgerRow {
            event: row.event,
            terms: row.terms,
            is_tracked: row.to == To::Given,
            round: 1,
            begun: at,
            members: intend.members.clone(),
            standings: intend.verdicts.clone(),
        };
        ledgers::open(view, parcel, ledger, derived)?;
        count(view, parcel, &intend.members, &intend.counted, at)?;
        if row.to == To::Given {
            let standings = (0u16..).zip(intend.verdicts.iter());
            fallback::remember(view, parcel, &intend.members, standings, at)?;
        }
    }
    if intend.unreached > 0 {
        let key = tally::key(parcel.tenant, parcel.arrival, parcel.channel);
        let mut tally = tally::find(view, &key)?;
        tally.unreached += intend.unreached;
        put(view, key, &tally);
    }
    match intend.next {
        None => dispatch::close(view, intend.work, derived)?,
        Some(next) => {
            row.next = next;
            fallback::offer(intend.work, row.terms, derived);
            put(view, intend.work.key(), &row);
            if row.to == To::Walked {
                walk::let_go(view, parcel.tenant, parcel.arrival)?;
            }
        }
    }
    if row.to == To::Walked {
        // There may be room for those who come next.
        derived.offers.push(Offer::Walk);
    }
    Ok(())
}
