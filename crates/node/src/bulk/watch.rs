//! How bulk sends are doing: one, the newest of a tenant, and all that are under way.
//!
//! Comes from: the bulk API and metrics. Does: adds up what the shards' walks have counted, and what became of the deliveries;
//! a bulk send is known by its row in the front that admitted it.

use super::window_of;
use crate::ask::{ChannelStatus, Phase, Refusal};
use crate::core::Core;
use crate::deliveries;
use fantail_machine::records::walk::Walk;
use fantail_machine::shard::walk::{Held, pass};
use fantail_machine::tables::walk::WalkState;
use fantail_machine::tables::{progress, taken, walk as rows};
use fantail_rules::ids::{Millis, PartitionId, TenantId};
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;

/// Bulk sends that one page looks at, whatever it is asked for.
const LOOKED_AT_MAX: usize = 500;

/// How a bulk send is doing.
#[derive(Clone, Debug)]
pub struct BulkView {
    pub event: Ulid,
    /// What its producer calls it. `None` for an event for a segment, which has no name.
    pub name: Option<String>,
    pub created_at: Millis,
    pub walk: Walk,
    pub phase: BulkPhase,
    pub due: Option<Millis>,
    /// Users there were when it began; of the shards that have not begun, those there are.
    pub users: u64,
    pub looked_at: u64,
    pub members: u64,
    /// Members whose inbox shows it.
    pub entries: u64,
    pub skipped: BTreeMap<String, u64>,
    pub channels: Vec<ChannelStatus>,
    pub waits_for: Option<WaitsFor>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BulkPhase {
    Scheduled,
    Running,
    Paused,
    /// Everybody was looked at, and some deliveries are under way.
    Sending,
    Done,
    Cancelled,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitsFor {
    Window,
    Pace,
    Deliveries,
}

/// Some of a tenant's bulk sends, the newest first.
#[derive(Clone, Debug)]
pub struct BulkPage {
    pub bulks: Vec<BulkView>,
    /// Those before this one may be asked for next.
    pub next: Option<Ulid>,
}

/// Bulk sends of all tenants that are under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Jobs {
    pub running: u64,
    pub paused: u64,
}

/// Those before one of them, at most so many. What was asked for is looked for among the next few hundred: a page may be
/// short, and the next one go on.
pub fn page(
    core: &Core,
    tenant: TenantId,
    before: Option<Ulid>,
    phase: Option<BulkPhase>,
    limit: usize,
) -> Result<BulkPage, Refusal> {
    core.require_tenant(tenant)?;
    let mut events = Vec::new();
    for front in core.fronts.keys() {
        let found = core.read(PartitionId::Front(*front), |state| {
            rows::bulks(state.tables(), tenant, before, LOOKED_AT_MAX)
        })?;
        events.extend(found);
    }
    events.sort_unstable_by(|one, other| other.cmp(one));
    let is_all = events.len() < LOOKED_AT_MAX;
    events.truncate(LOOKED_AT_MAX);
    let (mut bulks, mut seen) = (Vec::new(), None);
    for event in &events {
        if bulks.len() == limit {
            return Ok(BulkPage { bulks, next: seen });
        }
        seen = Some(*event);
        match view(core, tenant, *event) {
            Ok(found) if phase.is_none_or(|phase| phase == found.phase) => bulks.push(found),
            // Its deliveries are past the guard.
            Ok(_) | Err(Refusal::UnknownEvent { .. }) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(BulkPage { bulks, next: seen.filter(|_| !is_all) })
}

/// What cannot be read now is told next time; metrics alone ask.
pub fn jobs(core: &Core) -> Jobs {
    let mut open: BTreeMap<(TenantId, Ulid), WalkState> = BTreeMap::new();
    for shard in core.shards.keys() {
        let found = core.read(PartitionId::Shard(*shard), |state| {
            let mut walks = Vec::new();
            for (tenant, arrival) in rows::open(state.tables())? {
                let row = rows::find(state.tables(), tenant, arrival)?;
                walks.extend(row.map(|row| ((tenant, row.event), row.state)));
            }
            Ok(walks)
        });
        open.extend(found.unwrap_or_default());
    }
    let paused = open.values().filter(|state| **state == WalkState::Paused).count() as u64;
    Jobs { running: open.len() as u64 - paused, paused }
}

pub fn view(core: &Core, tenant: TenantId, event: Ulid) -> Result<BulkView, Refusal> {
    let status = deliveries::status(core, tenant, event)?;
    let bulk =
        core.read(PartitionId::Front(event.front()), |state| rows::bulk(state.tables(), tenant, event))?;
    let bulk = bulk.ok_or(Refusal::UnknownEvent { event })?;
    let is_paused = bulk.walk.is_paused;
    let mut found = BulkView {
        event,
        name: status.name,
        created_at: status.created_at,
        walk: bulk.walk,
        phase: BulkPhase::Running,
        due: status.due,
        users: 0,
        looked_at: 0,
        members: 0,
        entries: 0,
        skipped: BTreeMap::new(),
        channels: status.channels,
        waits_for: None,
    };
    let now = core.ports.clock.wall();
    let mut is_walking = false;
    for shard in core.shards.keys() {
        let row = core.read(PartitionId::Shard(*shard), |state| {
            let tables = state.tables();
            let row = match taken::arrival_of(tables, tenant, event)? {
                Some((arrival, _)) => rows::find(tables, tenant, arrival)?,
                None => None,
            };
            Ok(row.ok_or(progress::find(tables, tenant)?.users))
        })?;
        let row = match row {
            Ok(row) => row,
            Err(users) => {
                is_walking = true;
                found.users += users;
                continue;
            }
        };
        found.users += row.bound.0;
        found.looked_at += row.looked_at;
        found.members += row.members;
        found.entries += row.entries;
        row.skipped.iter().for_each(|(why, count)| *found.skipped.entry(why.clone()).or_default() += count);
        is_walking |= !row.is_over();
        if row.state == WalkState::Running {
            let waits = match pass::held(&row, now) {
                Some(Held::Ahead) => Some(WaitsFor::Deliveries),
                Some(Held::Until(_)) => Some(WaitsFor::Pace),
                Some(Held::Over | Held::Paused | Held::Elsewhere) | None => None,
            };
            found.waits_for =
                found.waits_for.or(window_of(&row.walk, now).map(|_| WaitsFor::Window)).or(waits);
        }
    }
    found.phase = match status.phase {
        Phase::Scheduled => BulkPhase::Scheduled,
        _ if status.is_cancelled || status.is_retracted => BulkPhase::Cancelled,
        _ if is_walking && is_paused => BulkPhase::Paused,
        _ if is_walking => BulkPhase::Running,
        Phase::Sending => BulkPhase::Sending,
        Phase::Done => BulkPhase::Done,
    };
    Ok(found)
}
