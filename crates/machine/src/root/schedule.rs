//! Recurring schedules: made, changed, paused, run, deleted.
//!
//! Comes from: the schedule API, and the loop that issues runs. Decides: when the next run is, with the time zones of this moment;
//! and that what was waited for is dealt with once. Goes to: the timers that the loop waits for.
//!
//! What must never happen: a run that is written down for something that nobody waits for any more.

use super::template::Expect;
use crate::Planned;
use crate::records::difference::Difference;
use crate::records::root::{RootRecord, Tenant};
use crate::records::schedule::{Definition, Run, SchedulePut, ScheduleRan};
use crate::tables::schedule::{self, ScheduleRow, Standing};
use crate::tables::usage::{self, Balance};
use crate::tables::{Row, get, put, root};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::SCHEDULES_PER_TENANT_MAX;
use fantail_rules::quota::Resource;

#[derive(Clone, Debug)]
pub enum Ask {
    Put {
        definition: Definition,
        /// What its author saw.
        expect: Expect,
    },
    /// What was due is dealt with, through this time.
    Ran {
        tenant: TenantId,
        id: String,
        due: Millis,
        run: Option<Run>,
        through: Millis,
    },
    /// The time zones may have changed since this was planned.
    Replan {
        tenant: TenantId,
        id: String,
        due: Millis,
    },
    Delete {
        tenant: TenantId,
        id: String,
        expect: Expect,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Schedule {
        row: Box<ScheduleRow>,
        is_new: bool,
    },
    Ran,
    /// When it comes next now, if that has changed.
    Replanned {
        next: Option<Option<Millis>>,
    },
    Gone,
    UnknownTenant,
    Unknown,
    /// Something else is there than its author saw; `None` if there is nothing.
    Conflict {
        current: Option<u32>,
    },
    TooMany,
}

pub(super) fn plan(
    view: &View<'_>,
    ask: Ask,
    now: Millis,
) -> Result<Planned<RootRecord, Answer>, TablesError> {
    match ask {
        Ask::Put { definition, expect } => plan_put(view, definition, expect, now),
        Ask::Ran { tenant, id, due, run, through } => {
            let row = schedule::find(view, tenant, &id)?;
            let is_waited_for = schedule::standing(view, tenant, &id)?.next == Some(due);
            let Some(row) = row.filter(|_| is_waited_for) else {
                return Ok(Planned::nothing(Answer::Unknown));
            };
            let next = next_after(&row.definition, through);
            let record = RootRecord::ScheduleRan(ScheduleRan { tenant, id, due, run, next });
            Ok(Planned::one(record, Answer::Ran))
        }
        Ask::Replan { tenant, id, due } => plan_again(view, tenant, id, due, now),
        Ask::Delete { tenant, id, expect } => {
            let Some(known) = schedule::find(view, tenant, &id)? else {
                return Ok(Planned::nothing(Answer::Unknown));
            };
            if !expect.holds(Some(known.version)) {
                return Ok(Planned::nothing(Answer::Conflict { current: Some(known.version) }));
            }
            let difference = Difference::of(Some(&known), None);
            Ok(Planned::one(RootRecord::ScheduleGone { tenant, id, difference }, Answer::Gone))
        }
    }
}

/// What is waited for, by the time zones of this moment. What is due already is left alone.
fn plan_again(
    view: &View<'_>,
    tenant: TenantId,
    id: String,
    due: Millis,
    now: Millis,
) -> Result<Planned<RootRecord, Answer>, TablesError> {
    let is_waited_for = due > now && schedule::standing(view, tenant, &id)?.next == Some(due);
    let Some(row) = schedule::find(view, tenant, &id)?.filter(|_| is_waited_for) else {
        return Ok(Planned::nothing(Answer::Replanned { next: None }));
    };
    let next = next_after(&row.definition, now);
    if next == Some(due) {
        return Ok(Planned::nothing(Answer::Replanned { next: None }));
    }
    let record = RootRecord::ScheduleRan(ScheduleRan { tenant, id, due, run: None, next });
    Ok(Planned::one(record, Answer::Replanned { next: Some(next) }))
}

fn plan_put(
    view: &View<'_>,
    definition: Definition,
    expect: Expect,
    now: Millis,
) -> Result<Planned<RootRecord, Answer>, TablesError> {
    let tenant = definition.tenant;
    if get::<Tenant>(view, &root::tenant_key(tenant))?.is_none() {
        return Ok(Planned::nothing(Answer::UnknownTenant));
    }
    let known = schedule::find(view, tenant, &definition.id)?;
    let current = known.as_ref().map(|known| known.version);
    if !expect.holds(current) {
        return Ok(Planned::nothing(Answer::Conflict { current }));
    }
    let version = current.map_or(1, |current| current.saturating_add(1));
    if known.is_none() {
        let others = schedule::of_tenant(view, tenant, None, SCHEDULES_PER_TENANT_MAX)?;
        if others.len() >= SCHEDULES_PER_TENANT_MAX {
            return Ok(Planned::nothing(Answer::TooMany));
        }
    }
    // Whoever changes what is sent in the very moment it is due does not lose the run.
    let is_as_before = known.as_ref().is_some_and(|known| known.definition.is_when(&definition));
    let next = match is_as_before {
        true => schedule::standing(view, tenant, &definition.id)?.next,
        false => next_after(&definition, now),
    };
    let row = changed(known.as_ref(), definition.clone(), version, now);
    let difference = Difference::of(known.as_ref(), Some(&row));
    let put = SchedulePut { definition, version, next, difference };
    let answer = Answer::Schedule { row: Box::new(row), is_new: known.is_none() };
    Ok(Planned::one(RootRecord::SchedulePut(Box::new(put)), answer))
}

fn next_after(definition: &Definition, after: Millis) -> Option<Millis> {
    definition.recurrence().filter(|_| !definition.is_paused)?.first_after(after)
}

fn changed(known: Option<&ScheduleRow>, definition: Definition, version: u32, at: Millis) -> ScheduleRow {
    ScheduleRow { definition, version, created: known.map_or(at, |known| known.created), updated: at }
}

pub(super) fn apply_put(view: &mut View<'_>, record: &SchedulePut, at: Millis) -> Result<(), TablesError> {
    let Definition { tenant, id, .. } = &record.definition;
    let known = schedule::find(view, *tenant, id)?;
    let row = changed(known.as_ref(), record.definition.clone(), record.version, at);
    let mut balance = Balance::default();
    balance.add(Some(Resource::Schedules), schedule_weight(&row));
    known.iter().for_each(|known| balance.remove(Some(Resource::Schedules), schedule_weight(known)));
    balance.write(view, *tenant)?;
    put(view, schedule::key(*tenant, id), &row);
    let last = schedule::standing(view, *tenant, id)?.last;
    schedule::stand(view, *tenant, id, Some(&Standing { next: record.next, last }))
}

pub(super) fn apply_ran(view: &mut View<'_>, record: &ScheduleRan) -> Result<(), TablesError> {
    let ScheduleRan { tenant, id, run, next, .. } = record;
    let before = schedule::standing(view, *tenant, id)?;
    let last = run.clone().or(before.last);
    schedule::stand(view, *tenant, id, Some(&Standing { next: *next, last }))
}

pub(super) fn apply_gone(view: &mut View<'_>, tenant: TenantId, id: &str) -> Result<(), TablesError> {
    if let Some(known) = schedule::find(view, tenant, id)? {
        let mut balance = Balance::default();
        balance.remove(Some(Resource::Schedules), schedule_weight(&known));
        balance.write(view, tenant)?;
    }
    view.delete(schedule::key(tenant, id));
    schedule::stand(view, tenant, id, None)
}

fn schedule_weight(row: &ScheduleRow) -> u64 {
    usage::weight_of_row(&row.encode())
}
