//! Taking: a front's facts enter the order of this shard, each event gets its arrival.
//!
//! Comes from: the front's journal, walked in order by the leader.
//! Decides: which stretch is taken by reference (`Take`) and which event is `Given` to explicit users here, who of
//! them does not want to see it (`wanted`).
//! Goes to: pages of taken events, pointers, inbox windows, retractions. The watermark per front moves with it,
//! so a crash between append and answer repeats nothing and loses nothing.

use super::dispatch::{self, Begun as Starting};
use super::serve::Known;
use super::walk::pass;
use super::{Derived, Plan, ShardAnswer, wanted};
use crate::Planned;
use crate::front::fact::{FrontFact, Said};
use crate::records::front::Delivery;
use crate::records::halt::{CalledOff, HaltRecord};
use crate::records::shard::{Given, ShardRecord};
use crate::records::walk::{Begun, WalkRecord};
use crate::tables::progress::{self, Progress};
use crate::tables::taken::{self, First, Page, Reach, TakenEvent};
use crate::tables::work::Halt;
use crate::tables::{pointer, put, retracted};
use crate::view::View;
use fantail_ports::inbox::{Audience, Window, WindowEvent};
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, FrontNo, ListId, Millis, Position, ShardNo, TenantId, UserNo};
use fantail_rules::limits::TAKE_EVENTS_MAX;
use fantail_rules::tier::Tier;
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;

pub(super) fn plan(
    view: &View<'_>,
    front: FrontNo,
    facts: &[FrontFact],
    shard: ShardNo,
    known: Known<'_>,
) -> Result<Plan, TablesError> {
    let taken = progress::taken(view, front)?;
    let mut records = Vec::new();
    let mut stretch: Option<(Position, Position, usize)> = None;
    let close = |stretch: &mut Option<(Position, Position, usize)>, records: &mut Vec<ShardRecord>| {
        if let Some((from, to, _)) = stretch.take() {
            records.push(ShardRecord::Take { front, from, to });
        }
    };
    for fact in facts.iter().filter(|fact| fact.position > taken) {
        if let Said::Addressed { tenant, event, members, about, delivery, is_late } = &fact.said
            && let Some(members) = members.of(shard)
        {
            close(&mut stretch, &mut records);
            records.push(ShardRecord::Given(Given {
                front,
                position: fact.position,
                tenant: *tenant,
                event: *event,
                is_late: *is_late,
                delivery: *delivery,
                members: members.to_vec(),
                unwanted: wanted::by_none_of(view, *tenant, members, *about, known)?,
            }));
            continue;
        }
        if let Some(record) = called_off(front, fact, shard) {
            close(&mut stretch, &mut records);
            records.push(record);
            continue;
        }
        if let Said::Walked { tenant, event, walk, delivery: Some(delivery), is_late } = &fact.said {
            close(&mut stretch, &mut records);
            // Whoever is made after this record is not in it; those made by the same batch are.
            let bound = UserNo(progress::find(view, *tenant)?.users);
            let begun = Begun {
                front,
                position: fact.position,
                tenant: *tenant,
                event: *event,
                is_late: *is_late,
                delivery: *delivery,
                walk: (**walk).clone(),
                bound,
            };
            records.push(ShardRecord::Walk(WalkRecord::Begun(begun)));
            continue;
        }
        let (from, _, count) = stretch.unwrap_or((fact.position, fact.position, 0));
        stretch = Some((from, fact.position, count + 1));
        if count + 1 >= TAKE_EVENTS_MAX {
            close(&mut stretch, &mut records);
        }
    }
    close(&mut stretch, &mut records);
    Ok(Planned { records, answer: ShardAnswer::Took })
}

/// What the recipients of a shard hear of an event that was called off before it was due.
fn called_off(front: FrontNo, fact: &FrontFact, shard: ShardNo) -> Option<ShardRecord> {
    let Said::CalledOff { tenant, event, delivery, members, why } = &fact.said else { return None };
    Some(ShardRecord::Halt(HaltRecord::CalledOff(CalledOff {
        front,
        position: fact.position,
        tenant: *tenant,
        event: *event,
        delivery: *delivery,
        members: members.of(shard)?.to_vec(),
        why: *why,
    })))
}

pub(super) fn apply(
    view: &mut View<'_>,
    front: FrontNo,
    from: Position,
    to: Position,
    facts: &[FrontFact],
    at: Millis,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let start = facts.partition_point(|fact| fact.position < from);
    let end = facts.partition_point(|fact| fact.position <= to);
    let facts = &facts[start..end];
    assert_eq!(facts.len() as u64, to.0 - from.0 + 1, "a take comes with every fact it refers to");

    let mut arriving: BTreeMap<TenantId, Vec<Arriving>> = BTreeMap::new();
    for fact in facts {
        if let Said::Listed { tenant, event, list, tier, about, delivery, is_late } = fact.said {
            let reach = match tier {
                _ if is_unseen(delivery) => Reach::Given,
                Tier::Written => Reach::Written(list, about),
                Tier::Pointer => Reach::Pointer(list, about),
            };
            let arrives = Arriving { taken: TakenEvent { event, reach }, list, delivery, is_late };
            arriving.entry(tenant).or_default().push(arrives);
        }
    }
    for (tenant, events) in arriving {
        let window = arrive(view, tenant, events, at, derived)?;
        if !window.events.is_empty() {
            derived.windows.push(window);
        }
    }
    // After the pages are written: an event may be retracted in the stretch that brings it.
    for fact in facts {
        match fact.said {
            Said::Retracted { tenant, event } => retract(view, tenant, event, derived)?,
            Said::Cancelled { tenant, event } => {
                dispatch::halt(view, tenant, event, Halt::Cancelled, derived)?;
            }
            Said::Steered { tenant, event, steer } => {
                pass::steer(view, tenant, event, steer, at, derived)?;
            }
            Said::Listed { .. }
            | Said::Addressed { .. }
            | Said::Walked { .. }
            | Said::CalledOff { .. }
            | Said::Scheduled { .. }
            | Said::Other => {}
        }
    }
    progress::set_taken(view, front, to);
    Ok(())
}

pub(super) fn apply_given(
    view: &mut View<'_>,
    given: &Given,
    at: Millis,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let mut state = progress::find(view, given.tenant)?;
    let arrival = state.last.next();
    state.last = arrival;
    put(view, progress::key(given.tenant), &state);
    let events = vec![TakenEvent { event: given.event, reach: Reach::Given }];
    write_page(view, given.tenant, arrival, Page { at, events }, given.is_late);
    if let Some(delivery) = given.delivery {
        let work = Starting { tenant: given.tenant, arrival, event: given.event, delivery };
        dispatch::begin_given(view, &work, given, at, derived)?;
    }
    if !is_unseen(given.delivery) {
        let audience = Audience::Members(given.readers().collect());
        let events = vec![WindowEvent { arrival, audience }];
        derived.windows.push(Window { tenant: given.tenant, events });
    }
    progress::set_taken(view, given.front, given.position);
    Ok(())
}

/// What is told at a time of each recipient's own is in no inbox: it would be there too early for most.
fn is_unseen(delivery: Option<Delivery>) -> bool {
    delivery.is_some_and(|delivery| delivery.terms.appointment.is_some())
}

/// An event for a list on its way in.
struct Arriving {
    taken: TakenEvent,
    list: ListId,
    delivery: Option<Delivery>,
    is_late: bool,
}

/// Gives arrivals to list events of one tenant.
fn arrive(
    view: &mut View<'_>,
    tenant: TenantId,
    events: Vec<Arriving>,
    at: Millis,
    derived: &mut Derived,
) -> Result<Window, TablesError> {
    let mut state: Progress = progress::find(view, tenant)?;
    let first = state.last.next();
    let mut window = Window { tenant, events: Vec::with_capacity(events.len()) };
    for Arriving { taken, list, delivery, .. } in &events {
        let arrival = state.last.next();
        state.last = arrival;
        if let Some(delivery) = *delivery {
            let starting = Starting { tenant, arrival, event: taken.event, delivery };
            dispatch::begin_listed(view, &starting, *list, derived)?;
        }
        match taken.reach {
            Reach::Written(list, _) => {
                window.events.push(WindowEvent { arrival, audience: Audience::List(list) });
            }
            Reach::Pointer(list, _) => {
                state.pointer_lists += u64::from(pointer::add(view, tenant, list, arrival)?);
            }
            Reach::Given => {}
            Reach::Walked { .. } => unreachable!("walks do not travel in takes"),
        }
    }
    put(view, progress::key(tenant), &state);
    let mut next = first;
    // Those in between share pages.
    for run in events.chunk_by(|one, other| !one.is_late && !other.is_late) {
        let page = Page { at, events: run.iter().map(|arrives| arrives.taken).collect() };
        write_page(view, tenant, next, page, run[0].is_late);
        next = Arrival(next.0 + run.len() as u64);
    }
    Ok(window)
}

pub(super) fn write_page(view: &mut View<'_>, tenant: TenantId, first: Arrival, page: Page, is_late: bool) {
    let earliest = page.events.first().expect("a page has at least one event").event;
    let index = if is_late { taken::late_key } else { taken::index_key };
    put(view, index(tenant, earliest), &First(first));
    put(view, taken::key(tenant, first), &page);
}

/// Hides an event that arrived here; one that never did, or has expired, is none of this shard's business.
fn retract(
    view: &mut View<'_>,
    tenant: TenantId,
    event: Ulid,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    dispatch::halt(view, tenant, event, Halt::Retracted, derived)?;
    let Some((arrival, taken)) = taken::arrival_of(view, tenant, event)? else { return Ok(()) };
    let list = match taken.reach {
        Reach::Given => retracted::GIVEN,
        Reach::Walked { .. } => retracted::WALKED,
        Reach::Written(list, _) | Reach::Pointer(list, _) => list,
    };
    if retracted::add(view, tenant, list, arrival)? {
        let mut state = progress::find(view, tenant)?;
        state.retracted += 1;
        put(view, progress::key(tenant), &state);
    }
    Ok(())
}
