//! Releasing: what was scheduled takes its place in the order, when it is due and once.
//!
//! Comes from: the node, which looks for what is due and lets tenants take turns. Decides: what is due by the leader's clock. Goes to: a `Released` record for each, which the shards take
//! as they take any event; until then they know nothing of it, so it is in no inbox and nothing of it is sent.

use super::{FrontAnswer, Plan};
use crate::Planned;
use crate::records::front::{Audience, FrontRecord, Released};
use crate::records::halt::CalledOffSchedule;
use crate::tables::event::EventRow;
use crate::tables::scheduled::HeldId;
use crate::tables::taken::About;
use crate::tables::work::Halt;
use crate::tables::{event, get, put, scheduled, walk};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::ulid::Ulid;

/// Those that were called off meanwhile are left out, and those behind the first `events_max`.
pub(super) fn plan(
    view: &View<'_>,
    due: &[HeldId],
    now: Millis,
    events_max: usize,
) -> Result<Plan, TablesError> {
    let mut records = Vec::with_capacity(due.len());
    for id in due.iter().filter(|id| id.due <= now).take(events_max) {
        let Some(held) = scheduled::find(view, *id)? else { continue };
        let row = event::find(view, held.tenant, held.event)?;
        // What was said about its pace since it was asked for holds.
        let audience = match walk::bulk(view, held.tenant, held.event)? {
            Some(bulk) => Audience::Walked(Box::new(bulk.walk)),
            None => held.audience,
        };
        records.push(FrontRecord::Released(Released {
            tenant: held.tenant,
            event: held.event,
            due: held.due,
            about: row.as_ref().map(|row| About::of(&row.category, row.priority)).unwrap_or_default(),
            delivery: row.and_then(|row| row.delivery),
            audience,
        }));
    }
    let count = records.len();
    Ok(Planned { records, answer: FrontAnswer::Released { count } })
}

pub(super) fn apply(view: &mut View<'_>, released: &Released) -> Result<(), TablesError> {
    let Released { tenant, event, due, .. } = *released;
    scheduled::let_go(view, due, tenant, event)?;
    if let Some(mut row) = event::find(view, tenant, event)? {
        row.released = true;
        put(view, event::key(tenant, event), &row);
    }
    Ok(())
}

/// What the recipients of something that is still held back hear, now that it is called off. Followers and segments are
/// nobody in particular: they hear nothing. What has no deliveries has none that could be cancelled.
pub(super) fn called_off(
    view: &View<'_>,
    (tenant, event): (TenantId, Ulid),
    row: &EventRow,
    why: Halt,
) -> Result<Option<FrontRecord>, TablesError> {
    let Some(due) = row.held_until().filter(|_| row.delivery.is_some()) else { return Ok(None) };
    let held = get::<Audience>(view, &scheduled::key(due, tenant, event))?;
    let Some(Audience::Addressed(members)) = held else { return Ok(None) };
    let called = CalledOffSchedule { tenant, event, delivery: row.delivery, members, why };
    Ok(Some(FrontRecord::CalledOff(called)))
}

/// It was called off before it was due.
pub(super) fn drop_held(
    view: &mut View<'_>,
    tenant: TenantId,
    event: Ulid,
    due: Option<Millis>,
) -> Result<(), TablesError> {
    due.map_or(Ok(()), |due| scheduled::let_go(view, due, tenant, event))
}
