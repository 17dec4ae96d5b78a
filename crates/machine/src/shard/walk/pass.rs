//! A walk goes over the users of a shard: whom it passes is decided once, and recorded.
//!
//! Comes from: `take`, with an event for a segment; then the node, which has asked the segment about the next users. Decides:
//! whether the walk may go on, and who of those chosen wants none of it. Goes to: `Begun` and `Passed`; the members behind
//! the cursor are a part, which the work of every channel passes like any other audience.
//!
//! What must never happen: a user who is passed twice, or not at all; somebody who came after the walk began.

use super::super::dispatch::Begun as Starting;
use super::super::gate::Gate;
use super::super::serve::Known;
use super::super::{Derived, Offer, dispatch, intend, take};
use super::{Answer, Pass, Plan, planned};
use crate::records::walk::{Begun, Pace, Passed, WalkRecord};
use crate::tables::taken::Reach;
use crate::tables::walk::{self, Part, WalkRow, WalkState};
use crate::tables::work::{self, WorkId};
use crate::tables::{progress, put, shown, taken};
use crate::view::View;
use fantail_ports::inbox::{Audience, Window, WindowEvent};
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::Step;
use fantail_rules::bulk_pace;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, DeviceNo, Millis, TenantId, UserNo};
use fantail_rules::knobs::StepSizes;
use fantail_rules::limits::WALK_PARTS_AHEAD_MAX;
use fantail_rules::policy::Policies;
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;

/// How many, by reason.
type Skipped = Vec<(String, u64)>;
/// How many can be told by a channel, and why the others cannot.
pub type Surveyed = (ChannelKind, u64, BTreeMap<&'static str, u64>);

/// Why a walk does not go on now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// It is over, or not here.
    Over,
    Paused,
    /// Deliveries have to catch up.
    Ahead,
    /// Not before this.
    Until(Millis),
    /// Somebody else was faster.
    Elsewhere,
}

/// Why a walk does not go on now. One whose time to live is over goes on, whatever holds it: its next step ends it.
#[must_use]
pub fn held(row: &WalkRow, now: Millis) -> Option<Held> {
    match row.state {
        WalkState::Done | WalkState::Stopped => Some(Held::Over),
        WalkState::Paused | WalkState::Running if is_expired(row, now) => None,
        WalkState::Paused => Some(Held::Paused),
        WalkState::Running if row.ahead >= WALK_PARTS_AHEAD_MAX => Some(Held::Ahead),
        WalkState::Running if now < row.paced_until => Some(Held::Until(row.paced_until)),
        WalkState::Running => None,
    }
}

/// Whether its time to live is over.
#[must_use]
pub fn is_expired(row: &WalkRow, now: Millis) -> bool {
    now >= row.delivery.terms.expires_at
}

pub(super) fn plan(view: &View<'_>, pass: &Pass, known: Known<'_>) -> Result<Plan, TablesError> {
    let now = known.now;
    let Pass { tenant, arrival, .. } = *pass;
    let Some(row) = walk::find(view, tenant, arrival)? else {
        return Ok(planned(std::iter::empty(), Answer::Held(Held::Over)));
    };
    let held = held(&row, now).or((row.next != pass.from).then_some(Held::Elsewhere));
    if let Some(held) = held {
        return Ok(planned(std::iter::empty(), Answer::Held(held)));
    }
    let halted = work::halted(view, tenant, arrival)?;
    if intend::stopped(halted, row.delivery.terms, now).is_some() {
        let passed = Passed {
            tenant,
            arrival,
            next: row.next,
            looked_at: 0,
            members: Vec::new(),
            unshown: Vec::new(),
            skipped: Vec::new(),
            paced_until: row.paced_until,
            is_end: true,
        };
        return Ok(answered(passed));
    }
    let hidden = hides(view, (tenant, arrival), &row, &pass.members, known)?;
    let (members, skipped) = if row.walk.excludes_opted_out {
        wanted(view, (tenant, arrival), &row, &pass.members, &hidden, known)?
    } else {
        (pass.members.clone(), Vec::new())
    };
    let unshown = match row.is_shown() {
        true => {
            let all = pass.members.iter().zip(&hidden).filter(|(_, hidden)| hidden.is_some());
            all.map(|(user, _)| *user).filter(|user| members.binary_search(user).is_ok()).collect()
        }
        false => Vec::new(),
    };
    let (next, is_end) = (pass.next, pass.next >= row.bound);
    let cost_ms = match row.walk.pace {
        Pace::Free => 0,
        Pace::PerSecond(rate) => bulk_pace::cost_of_members_ms(members.len(), rate, pass.shards),
        Pace::Over(ms) => bulk_pace::cost_of_users_ms(next.0 - row.next.0, row.bound.0, ms),
    };
    let paced_until = bulk_pace::next_step_at(row.paced_until, now, cost_ms);
    let looked_at = next.0 - row.next.0;
    Ok(answered(Passed { tenant, arrival, next, looked_at, members, unshown, skipped, paced_until, is_end }))
}

fn answered(passed: Passed) -> Plan {
    let answer = Answer::Passed {
        is_end: passed.is_end,
        members: passed.members.len() as u64,
        skipped: passed.skipped.iter().map(|(_, count)| count).sum(),
    };
    planned(std::iter::once(WalkRecord::Passed(passed)), answer)
}

/// Why the inbox of each does not show it; the same for everybody if it is not for inboxes.
fn hides(
    view: &View<'_>,
    (tenant, arrival): (TenantId, Arrival),
    row: &WalkRow,
    users: &[UserNo],
    known: Known<'_>,
) -> Result<Vec<Option<&'static str>>, TablesError> {
    if !row.is_shown() {
        return Ok(vec![Some(intend::NO_ENDPOINT); users.len()]);
    }
    let inbox = WorkId { tenant, arrival, channel: ChannelKind::InApp };
    Gate::new(view, inbox, (row.event, row.delivery.terms), known)?.hides(users)
}

/// Who of these can be told by some channel or has it shown, and why the others cannot.
fn wanted(
    view: &View<'_>,
    (tenant, arrival): (TenantId, Arrival),
    row: &WalkRow,
    users: &[UserNo],
    hidden: &[Option<&'static str>],
    known: Known<'_>,
) -> Result<(Vec<UserNo>, Skipped), TablesError> {
    let mut reasons = hidden.to_vec();
    for work in row.works(tenant, arrival) {
        let asked = Gate::new(view, work, (row.event, row.delivery.terms), known)?.ask(users)?;
        for ((reason, asked), user) in reasons.iter_mut().zip(asked).zip(users) {
            if *reason == Some(intend::NO_ENDPOINT) && asked.reachable.is_empty() {
                let channel = work.channel;
                *reason = Some(asked.reachable.missing(view, (tenant, *user), channel, DeviceNo(0))?);
            }
            if asked.reachable.is_empty() || reason.is_none() {
                continue;
            }
            *reason = (asked.decision.step == Step::Suppress).then_some(asked.decision.code);
        }
    }
    let mut skipped: BTreeMap<&'static str, u64> = BTreeMap::new();
    reasons.iter().flatten().for_each(|reason| *skipped.entry(reason).or_default() += 1);
    let members = users.iter().zip(&reasons).filter(|(_, reason)| reason.is_none()).map(|(user, _)| *user);
    let skipped = skipped.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect();
    Ok((members.collect(), skipped))
}

/// What the gates would say about these users, by channel: how many can be told, and why the others cannot.
pub fn survey(
    view: &View<'_>,
    row: &WalkRow,
    tenant: TenantId,
    users: &[UserNo],
    policies: &Policies,
    now: Millis,
) -> Result<Vec<Surveyed>, TablesError> {
    let (mut found, known) = (Vec::new(), Known { policies, now, steps: &StepSizes::DEFAULT });
    let nowhere = Arrival(u64::MAX - 1);
    if row.is_shown() {
        let (mut told, mut reasons) = (0, BTreeMap::new());
        for hidden in hides(view, (tenant, nowhere), row, users, known)? {
            match hidden {
                None => told += 1,
                Some(reason) => *reasons.entry(reason).or_default() += 1,
            }
        }
        found.push((ChannelKind::InApp, told, reasons));
    }
    for work in row.works(tenant, nowhere) {
        let (mut told, mut reasons) = (0, BTreeMap::new());
        let all = Gate::new(view, work, (row.event, row.delivery.terms), known)?.ask(users)?;
        for (asked, user) in all.into_iter().zip(users) {
            let reason = match (asked.reachable.is_empty(), asked.decision.step) {
                (true, _) => asked.reachable.missing(view, (tenant, *user), work.channel, DeviceNo(0))?,
                (false, Step::Suppress) => asked.decision.code,
                (false, _) => {
                    told += 1;
                    continue;
                }
            };
            *reasons.entry(reason).or_default() += 1;
        }
        found.push((work.channel, told, reasons));
    }
    Ok(found)
}

pub(in crate::shard) fn apply_begun(
    view: &mut View<'_>,
    begun: &Begun,
    at: Millis,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let Begun { tenant, event, delivery, .. } = *begun;
    let mut state = progress::find(view, tenant)?;
    let arrival = state.last.next();
    state.last = arrival;
    put(view, progress::key(tenant), &state);
    let reach = Reach::Walked { home: arrival, first: UserNo(0) };
    let events = vec![taken::TakenEvent { event, reach }];
    take::write_page(view, tenant, arrival, taken::Page { at, events }, begun.is_late);
    let row = WalkRow {
        event,
        delivery,
        walk: begun.walk.clone(),
        bound: begun.bound,
        next: UserNo(0),
        state: if begun.walk.is_paused { WalkState::Paused } else { WalkState::Running },
        paced_until: at,
        begun: at,
        ahead: 0,
        looked_at: 0,
        members: 0,
        entries: 0,
        skipped: Vec::new(),
    };
    put(view, walk::key(tenant, arrival), &row);
    view.put(walk::open_key(tenant, arrival), Vec::new());
    dispatch::begin_walked(view, &Starting { tenant, arrival, event, delivery }, derived)?;
    derived.offers.push(Offer::Walk);
    progress::set_taken(view, begun.front, begun.position);
    Ok(())
}

pub(super) fn apply(
    view: &mut View<'_>,
    passed: &Passed,
    at: Millis,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let Passed { tenant, arrival, .. } = *passed;
    let Some(mut row) = walk::find(view, tenant, arrival)? else { return Ok(()) };
    row.next = passed.next;
    row.looked_at += passed.looked_at;
    row.members += passed.members.len() as u64;
    row.skip(&passed.skipped);
    row.paced_until = passed.paced_until;
    if passed.is_end {
        row.state = if passed.next >= row.bound { WalkState::Done } else { WalkState::Stopped };
        view.delete(walk::open_key(tenant, arrival));
    }
    let is_sent = row.works(tenant, arrival).next().is_some();
    if let Some(first) = passed.members.first().filter(|_| is_sent) {
        put(view, walk::part_key(tenant, arrival, *first), &Part(passed.members.clone()));
        row.ahead += 1;
    }
    if row.is_shown() {
        row.entries += show(view, passed, row.event, at, derived)?;
    }
    if passed.is_end || !passed.members.is_empty() {
        let lane = row.delivery.terms.lane;
        derived.offers.extend(row.works(tenant, arrival).map(|work| Offer::Work { work, lane }));
    }
    put(view, walk::key(tenant, arrival), &row);
    derived.offers.push(Offer::Walk);
    Ok(())
}

/// Inboxes show it from now on, at an arrival of this step.
fn show(
    view: &mut View<'_>,
    passed: &Passed,
    event: Ulid,
    at: Millis,
    derived: &mut Derived,
) -> Result<u64, TablesError> {
    let Passed { tenant, arrival: home, members, unshown, .. } = passed;
    let is_shown = |user: &&UserNo| unshown.binary_search(user).is_err();
    let members: Vec<UserNo> = members.iter().filter(is_shown).copied().collect();
    let Some(first) = members.first().copied() else { return Ok(0) };
    let mut state = progress::find(view, *tenant)?;
    let arrival = state.last.next();
    state.last = arrival;
    put(view, progress::key(*tenant), &state);
    let events = vec![taken::TakenEvent { event, reach: Reach::Walked { home: *home, first } }];
    put(view, taken::key(*tenant, arrival), &taken::Page { at, events });
    shown::add(view, *tenant, *home, first, arrival);
    let count = members.len() as u64;
    let events = vec![WindowEvent { arrival, audience: Audience::Members(members) }];
    derived.windows.push(Window { tenant: *tenant, events });
    Ok(count)
}

/// A producer paused it, lets it go on, or changes its pace.
pub(in crate::shard) fn steer(
    view: &mut View<'_>,
    tenant: TenantId,
    event: Ulid,
    steer: crate::records::front::Steer,
    at: Millis,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    use crate::records::front::Steer;
    let Some((arrival, _)) = taken::arrival_of(view, tenant, event)? else { return Ok(()) };
    let Some(mut row) = walk::find(view, tenant, arrival)? else { return Ok(()) };
    match (steer, row.state) {
        (Steer::Pause, WalkState::Running) => row.state = WalkState::Paused,
        (Steer::Resume, WalkState::Paused) => row.state = WalkState::Running,
        (Steer::Pace(pace), WalkState::Running | WalkState::Paused) => {
            row.walk.pace = pace;
            row.paced_until = row.paced_until.min(at);
        }
        (Steer::Pause | Steer::Resume | Steer::Pace(_), _) => return Ok(()),
    }
    put(view, walk::key(tenant, arrival), &row);
    derived.offers.push(Offer::Walk);
    Ok(())
}

/// Nothing more of its event is sent. Its work waits for members who do not come: it is offered once more, to be closed.
pub(in crate::shard) fn stop(
    view: &mut View<'_>,
    tenant: TenantId,
    arrival: Arrival,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    if let Some(mut row) = walk::find(view, tenant, arrival)?.filter(|row| !row.is_over()) {
        row.state = WalkState::Stopped;
        view.delete(walk::open_key(tenant, arrival));
        let lane = row.delivery.terms.lane;
        derived.offers.extend(row.works(tenant, arrival).map(|work| Offer::Work { work, lane }));
        put(view, walk::key(tenant, arrival), &row);
    }
    Ok(())
}
