//! Bulk sends: an event for whoever a segment chooses, at a pace.
//!
//! Comes from: the bulk API. Does: has the front admit it as one record; then, in each shard, asks the segment about the next users
//! and hands those it chooses to the shard, as fast as the producer, the window and what else is to be sent allow. Goes to:
//! `machine::shard::walk`, whose cursor is in the journal; deliveries go their usual way from there.
//!
//! What must never happen: a bulk send that other deliveries wait for; a walk that depends on this process: where it is, and how
//! fast it may go on, is in the shard's own rows.

mod estimate;

use crate::Node;
use crate::accept::delivery_of;
use crate::ask::{Accepted, ChannelStatus, EventAsk, Phase, Refusal};
use crate::chosen::{Chooser, Stretch};
use crate::core::{Core, answer, locked, stopped};
use crate::crowds::require_room;
use crate::deliveries;
use crate::groups;
use crate::notify::{options_of, request_key};
use crate::segments::{find, understood};
use crate::take::HOUSE;
use fantail_machine::front::admit::{Ask, AskAudience};
use fantail_machine::front::{FrontAnswer, FrontAsk};
pub use fantail_machine::records::front::Steer;
pub use fantail_machine::records::walk::{Pace, Walk};
use fantail_machine::shard::walk::{self, Held, Pass, pass};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::walk::{WalkRow, WalkState};
use fantail_machine::tables::{taken, walk as rows};
use fantail_ports::keyring::Context;
use fantail_rules::actor::Actor;
use fantail_rules::channel_kind::ChannelSet;
use fantail_rules::ids::{Arrival, FrontNo, KeyNo, Millis, PartitionId, ShardNo, TenantId, spread};
use fantail_rules::limits::{WALK_LOOKED_AT_MAX, WALK_MEMBERS_MAX, WALKS_PER_TENANT_MAX};
use fantail_rules::priority::Priority;
use fantail_rules::quiet::Window;
use fantail_rules::schedule::off_peak_from;
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tracing::{info, warn};

/// What holds a walk back is looked at again after this at the latest.
const LOOK_AGAIN_MS: u64 = 1_000;
/// While others have so many works before them, bulk waits.
const CONTENDED_WORKS: u64 = 64;
const CONTENDED_MS: u64 = 50;
const PAUSE_MS: u64 = 200;

/// Whom to tell, and how fast.
#[derive(Clone, Debug)]
pub struct BulkAsk {
    pub segment: String,
    pub excludes_opted_out: bool,
    pub ignores_quiet_hours: bool,
    pub pace: Pace,
    pub window: Option<(Window, ZoneNo)>,
    /// What is told, as of an event; its audience does not matter, `id` is the producer's name for it.
    pub event: EventAsk,
}

/// How a bulk send is doing.
#[derive(Clone, Debug)]
pub struct BulkView {
    pub event: Ulid,
    pub created_at: Millis,
    pub walk: Walk,
    pub phase: BulkPhase,
    pub due: Option<Millis>,
    /// Users there were when it began, of the shards that have begun.
    pub users: u64,
    pub looked_at: u64,
    pub members: u64,
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

/// What a bulk send would come to.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    pub users: u64,
    pub audience: u64,
    pub is_exact: bool,
    pub by_channel: BTreeMap<&'static str, (u64, BTreeMap<&'static str, u64>)>,
    /// How long it would take, from now.
    pub finishes_in_ms: u64,
}

impl Node {
    /// `Ok` only after it is durable.
    pub async fn bulk(&self, tenant: TenantId, ask: BulkAsk) -> Result<Accepted, Refusal> {
        create(&self.core, &self.by, tenant, ask).await
    }

    pub fn bulk_view(&self, tenant: TenantId, event: Ulid) -> Result<BulkView, Refusal> {
        view(&self.core, tenant, event)
    }

    pub async fn steer_bulk(&self, tenant: TenantId, event: Ulid, steer: Steer) -> Result<(), Refusal> {
        let core = &self.core;
        core.require_tenant(tenant)?;
        let unknown = Refusal::UnknownEvent { event };
        let Some(front) = core.front(event.front()) else { return Err(unknown) };
        let ask = FrontAsk::Steer { tenant, event, steer };
        match answer(front.queue.push(tenant, &self.by, vec![ask], 64)).await? {
            FrontAnswer::Steered => Ok(()),
            FrontAnswer::TooLate => Err(Refusal::BulkEnded { event }),
            _ => Err(unknown),
        }
    }

    /// Blocks while it looks: call it from a thread that may.
    pub fn estimate_bulk(&self, tenant: TenantId, ask: &BulkAsk) -> Result<Estimate, Refusal> {
        estimate::estimate(&self.core, tenant, ask)
    }
}

fn walk_of(core: &Core, tenant: TenantId, ask: &BulkAsk) -> Result<Walk, Refusal> {
    let row = find(core, tenant, &ask.segment)?;
    Ok(Walk {
        segment: ask.segment.clone(),
        filter: row.put.filter,
        list: row.list.map(|list| list.id),
        excludes_opted_out: ask.excludes_opted_out,
        ignores_quiet_hours: ask.ignores_quiet_hours,
        pace: ask.pace,
        window: ask.window,
    })
}

/// Every shard has every walk; the first one tells.
fn under_way(core: &Core, tenant: TenantId) -> Result<usize, Refusal> {
    let open = core.read(PartitionId::Shard(ShardNo(0)), |view| rows::open(view.tables()))?;
    Ok(open.iter().filter(|(of, ..)| *of == tenant).count())
}

async fn create(core: &Core, by: &Actor, tenant: TenantId, ask: BulkAsk) -> Result<Accepted, Refusal> {
    core.require_tenant(tenant)?;
    // Bulk is refused first: while anything else has to wait to be stored, and while many of the tenant's are under way.
    if core.is_crowded.load(Ordering::Relaxed) || under_way(core, tenant)? >= WALKS_PER_TENANT_MAX {
        core.meter.busy();
        return Err(Refusal::Busy { retry_after_ms: 5_000 });
    }
    require_room(core, tenant, ask.event.priority)?;
    let walk = walk_of(core, tenant, &ask)?;
    let event = ask.event;
    let key = request_key(core, tenant, &event.id)?;
    let now = core.ports.clock.wall();
    let options = options_of(core, tenant, &event.options, now)?;
    let when = (event.options.appointment, event.options.begins(now).plus(event.ttl_ms));
    let facts = groups::Facts {
        kind: &event.kind,
        category: &event.category,
        actor: None,
        source: "",
        collapse_key: event.options.collapse_key.as_deref(),
        content: &event.content,
    };
    let group = groups::of(core, tenant, &facts)?;
    let content = core.ports.keyring.seal(tenant, KeyNo::TENANT, Context::Content, &event.content);
    let bytes = event.content.len() + 8_192;
    let ask = Ask {
        tenant,
        key,
        body: event.body_hash,
        kind: event.kind,
        delivery: delivery_of(event.channels, event.priority, &event.category, group, when),
        category: event.category,
        priority: event.priority as u8,
        actor: None,
        content: content.map_err(locked)?,
        personal: Vec::new(),
        options,
        audience: AskAudience::Walk(Box::new(walk)),
        tier_up: u32::MAX,
    };
    let front = FrontNo(spread(&key, core.layout.fronts));
    let Some(front) = core.front(front) else { return Err(stopped("there is no such front")) };
    match answer(front.queue.push(tenant, by, vec![FrontAsk::Admit(Box::new(ask))], bytes)).await? {
        FrontAnswer::Admitted(event) => {
            core.meter.accepted(1, 0);
            info!(%tenant, %event, "bulk send accepted");
            Ok(Accepted { event, replayed: false })
        }
        FrontAnswer::Repeat(event) => Ok(Accepted { event, replayed: true }),
        FrontAnswer::OtherBody => Err(Refusal::OtherBody),
        FrontAnswer::TooManyScheduled { limit } => Err(Refusal::TooManyScheduled { limit }),
        _ => Err(stopped("the front answered something else")),
    }
}

fn view(core: &Core, tenant: TenantId, event: Ulid) -> Result<BulkView, Refusal> {
    let status = deliveries::status(core, tenant, event)?;
    let bulk =
        core.read(PartitionId::Front(event.front()), |state| rows::bulk(state.tables(), tenant, event))?;
    let bulk = bulk.ok_or(Refusal::UnknownEvent { event })?;
    let mut found = BulkView {
        event,
        created_at: status.created_at,
        walk: bulk.walk,
        phase: BulkPhase::Running,
        due: status.due,
        users: 0,
        looked_at: 0,
        members: 0,
        skipped: BTreeMap::new(),
        channels: status.channels,
        waits_for: None,
    };
    let now = core.ports.clock.wall();
    let mut is_walking = false;
    for shard in core.shards.keys() {
        let row = core.read(PartitionId::Shard(*shard), |state| {
            let Some((arrival, _)) = taken::arrival_of(state.tables(), tenant, event)? else {
                return Ok(None);
            };
            rows::find(state.tables(), tenant, arrival)
        })?;
        let Some(row) = row else {
            is_walking = true;
            continue;
        };
        found.users += row.bound.0;
        found.looked_at += row.looked_at;
        found.members += row.members;
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
        _ if is_walking && bulk.is_paused => BulkPhase::Paused,
        _ if is_walking => BulkPhase::Running,
        Phase::Sending => BulkPhase::Sending,
        Phase::Done => BulkPhase::Done,
    };
    Ok(found)
}

/// When the window opens, if it is closed now.
fn window_of(walk: &Walk, now: Millis) -> Option<Millis> {
    let (window, zone) = walk.window?;
    Some(off_peak_from(window, zone, now)).filter(|opens| *opens > now)
}

/// Goes on with the walks of one shard until the node stops.
pub async fn run(core: Arc<Core>, shard: ShardNo) {
    let mut choosers: BTreeMap<(TenantId, Arrival), Chooser> = BTreeMap::new();
    while !core.root.is_closed() {
        let now = core.ports.clock.wall();
        let found = core.read(PartitionId::Shard(shard), |state| rows::open(state.tables()));
        let Ok(open) = found else { return };
        choosers.retain(|key, _| open.iter().any(|(tenant, arrival, _)| (*tenant, *arrival) == *key));
        let mut wait_ms: Option<u64> = if open.is_empty() { None } else { Some(LOOK_AGAIN_MS) };
        for (tenant, arrival, row) in open {
            let again = match step(&core, shard, (tenant, arrival), &row, &mut choosers, now).await {
                Ok(again) => again,
                Err(Refusal::Stopped { .. }) => return,
                Err(refusal) => {
                    warn!(%shard, %refusal, "a bulk send does not go on for now");
                    PAUSE_MS
                }
            };
            wait_ms = Some(wait_ms.map_or(again, |wait| wait.min(again)));
        }
        if wait_ms == Some(0) {
            continue;
        }
        let until = wait_ms.map(|ms| core.ports.tasks.sleep_until(core.ports.clock.monotonic().plus(ms)));
        core.shard(shard).walks.wait(until).await;
    }
}

/// One step of a walk; says after how many milliseconds to look again.
async fn step(
    core: &Core,
    shard: ShardNo,
    (tenant, arrival): (TenantId, Arrival),
    row: &WalkRow,
    choosers: &mut BTreeMap<(TenantId, Arrival), Chooser>,
    now: Millis,
) -> Result<u64, Refusal> {
    if let Some(held) = pass::held(row, now) {
        return Ok(again_ms(held, now));
    }
    if let Some(opens) = window_of(&row.walk, now) {
        return Ok(opens.since(now).min(LOOK_AGAIN_MS));
    }
    if is_contended(core, row.delivery.channels) {
        return Ok(CONTENDED_MS);
    }
    let chooser = match choosers.entry((tenant, arrival)) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(free) => {
            let filter = understood(row.walk.filter.as_deref())?;
            free.insert(Chooser::new(core, tenant, filter, row.walk.list)?)
        }
    };
    let chosen = chooser.look(core, shard, stretch_of(row, core.layout.shards), now)?;
    let bytes = chosen.members.len() * 8 + 128;
    let pass = Pass {
        tenant,
        arrival,
        from: row.next,
        next: chosen.next,
        members: chosen.members,
        shards: core.layout.shards,
    };
    let ask = ShardAsk::Walk(walk::Ask::Pass(pass));
    match answer(core.shard(shard).queue.push(HOUSE, &Actor::System, vec![ask], bytes)).await? {
        ShardAnswer::Walk(walk::Answer::Passed { .. }) => Ok(0),
        ShardAnswer::Walk(walk::Answer::Held(held)) => Ok(again_ms(held, now)),
        _ => Err(stopped("the shard answered something else")),
    }
}

fn again_ms(held: Held, now: Millis) -> u64 {
    match held {
        Held::Until(at) => at.since(now).clamp(1, LOOK_AGAIN_MS),
        // A bell rings when that changes.
        Held::Over | Held::Paused | Held::Ahead => LOOK_AGAIN_MS,
        Held::Elsewhere => 1,
    }
}

/// How far a step goes: about what a second allows.
fn stretch_of(row: &WalkRow, shards: u16) -> Stretch {
    let (mut looked_at_max, mut members_max) = (WALK_LOOKED_AT_MAX as u64, WALK_MEMBERS_MAX);
    match row.walk.pace {
        Pace::Free => {}
        Pace::PerSecond(rate) => {
            let share = (rate / u32::from(shards).max(1)).max(1);
            members_max = members_max.min(share as usize);
        }
        Pace::Over(ms) => {
            looked_at_max = looked_at_max.min((row.bound.0.saturating_mul(1_000) / ms.max(1)).max(1));
        }
    }
    Stretch { from: row.next, bound: row.bound, looked_at_max, members_max }
}

/// Others have much before them on one of these channels.
fn is_contended(core: &Core, channels: ChannelSet) -> bool {
    if core.is_crowded.load(Ordering::Relaxed) {
        return true;
    }
    // Lanes are in the order of their numbers, and the last one is bulk's own.
    let before = |works: &[u64; Priority::ALL.len()]| -> u64 { works[..Priority::Low as usize].iter().sum() };
    let waiting = core.dispatch.backlog(core.ports.clock.monotonic()).into_iter();
    waiting.filter(|one| channels.contains(one.channel)).any(|one| before(&one.works) >= CONTENDED_WORKS)
}
