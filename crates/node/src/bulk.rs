//! Bulk sends: an event for whoever a segment chooses, at a pace.
//!
//! Comes from: the bulk API. Does: has the front admit it as one record; then, in each shard, asks the segment about the next users
//! and hands those it chooses to the shard, as fast as the producer, the window and what else is to be sent allow. Goes to:
//! `machine::shard::walk`, whose cursor is in the journal; deliveries go their usual way from there.
//!
//! What must never happen: a bulk send that other deliveries wait for; a walk that depends on this process: where it is, and how
//! fast it may go on, is in the shard's own rows.

mod asked;
mod contention;
mod estimate;
mod run;
mod watch;

pub use asked::{WalkClaim, WalksAsked};
pub use run::run;
pub use watch::{BulkPage, BulkPhase, BulkView, Jobs, WaitsFor, jobs};

use crate::Node;
use crate::accept::delivery_of;
use crate::ask::{Accepted, EventAsk, Refusal};
use crate::core::{Core, answer, internal, locked};
use crate::crowds::require_room;
use crate::groups;
use crate::notify::{options_of, recall, request_key};
use crate::quotas;
use crate::segments::find;
use fantail_machine::front::admit::{Ask, AskAudience};
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::records::front::Options;
pub use fantail_machine::records::front::Steer;
pub use fantail_machine::records::walk::{Pace, Walk};
use fantail_machine::tables::{usage, walk as rows};
use fantail_ports::keyring::Context;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{FrontNo, KeyNo, Millis, PartitionId, ShardNo, TenantId, spread};
use fantail_rules::quiet::Window;
use fantail_rules::quota::Resource;
use fantail_rules::schedule::off_peak_from;
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use tokio::sync::oneshot;
use tracing::info;

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
        watch::view(&self.core, tenant, event)
    }

    /// Those before one of them, the newest first.
    pub fn bulks(
        &self,
        tenant: TenantId,
        before: Option<Ulid>,
        phase: Option<BulkPhase>,
        limit: usize,
    ) -> Result<BulkPage, Refusal> {
        watch::page(&self.core, tenant, before, phase, limit)
    }

    pub async fn steer_bulk(&self, tenant: TenantId, event: Ulid, steer: Steer) -> Result<(), Refusal> {
        let core = &self.core;
        core.require_tenant(tenant)?;
        let unknown = Refusal::UnknownEvent { event };
        let Some(front) = core.front(event.front()) else { return Err(unknown) };
        let ask = FrontAsk::Steer { tenant, event, steer };
        match answer(front.queue.push(tenant, &self.by, vec![ask], 64)).await? {
            FrontAnswer::Steered => {
                info!(%tenant, %event, ?steer, "bulk send steered");
                Ok(())
            }
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
    Ok(Walk {
        excludes_opted_out: ask.excludes_opted_out,
        ignores_quiet_hours: ask.ignores_quiet_hours,
        pace: ask.pace,
        window: ask.window,
        ..plain_walk(core, tenant, &ask.segment)?
    })
}

/// To whomever a segment chooses now, as fast as possible; for those who want it.
pub fn plain_walk(core: &Core, tenant: TenantId, segment: &str) -> Result<Walk, Refusal> {
    let row = find(core, tenant, segment)?;
    Ok(Walk {
        segment: segment.to_owned(),
        filter: row.put.filter,
        list: row.list.map(|list| list.id),
        excludes_opted_out: true,
        ignores_quiet_hours: false,
        is_paused: false,
        pace: Pace::Free,
        window: None,
    })
}

/// Holds the place of one more walk until its front has answered. Refuses while many of the tenant are under way.
pub fn claim(core: &Core, tenant: TenantId) -> Result<WalkClaim, Refusal> {
    core.walks_asked.claim(tenant, under_way(core, tenant)?).ok_or_else(|| {
        core.meter.busy();
        Refusal::Busy { retry_after_ms: 5_000 }
    })
}

/// Every shard has every walk; the first one tells.
fn under_way(core: &Core, tenant: TenantId) -> Result<usize, Refusal> {
    core.read(PartitionId::Shard(ShardNo(0)), |view| rows::open_count(view.tables(), tenant))
}

async fn create(core: &Core, by: &Actor, tenant: TenantId, ask: BulkAsk) -> Result<Accepted, Refusal> {
    core.require_tenant(tenant)?;
    // While fan-out is behind, and while many of the tenant's are under way.
    if !core.fanout.claim(tenant, 1) {
        core.meter.busy();
        return Err(Refusal::Busy { retry_after_ms: 5_000 });
    }
    let _walk = claim(core, tenant)?;
    require_room(core, tenant, ask.event.priority)?;
    let resource = ask.event.options.held_until(core.ports.clock.wall()).map(|_| Resource::Waiting);
    let adds = quotas::adds(resource, usage::ROW_BYTES + ask.event.content.len() as u64);
    let _claim = match quotas::claim(core, tenant, adds) {
        Ok(claim) => claim,
        // A repeat adds nothing.
        Err(refusal) => {
            return recall(core, tenant, &ask.event.id, ask.event.body_hash).await?.ok_or(refusal);
        }
    };
    match answer(admit(core, by, tenant, ask)).await? {
        FrontAnswer::Admitted(event) => {
            core.meter.accepted(1, 0);
            info!(%tenant, %event, "bulk send accepted");
            Ok(Accepted { event, replayed: false })
        }
        FrontAnswer::Repeat(event) => Ok(Accepted { event, replayed: true }),
        FrontAnswer::OtherBody => Err(Refusal::OtherBody),
        FrontAnswer::TooManyScheduled { limit } => Err(Refusal::TooManyScheduled { limit }),
        _ => Err(internal("the front answered something else")),
    }
}

type Pushed = oneshot::Receiver<Result<Vec<FrontAnswer>, Refusal>>;

/// Reads the segment and asks the front, with nothing between them that could take long: see `Core::naming`.
fn admit(core: &Core, by: &Actor, tenant: TenantId, ask: BulkAsk) -> Result<Pushed, Refusal> {
    let _naming = core.naming.read().unwrap_or_else(PoisonError::into_inner);
    let walk = walk_of(core, tenant, &ask)?;
    let event = ask.event;
    let key = request_key(core, tenant, &event.id)?;
    let now = core.ports.clock.wall();
    let options = options_of(core, tenant, &event.options, now)?;
    let keyring = &core.ports.keyring;
    let name = keyring.seal(tenant, KeyNo::TENANT, Context::NotificationName, event.id.as_bytes());
    let options = Options { name: Some(name.map_err(locked)?), ..options };
    let when = (event.options.appointment, event.options.begins(now).plus(event.ttl_ms));
    let facts = groups::Facts {
        kind: &event.kind,
        category: &event.category,
        actor: None,
        source: "",
        collapse_key: event.options.collapse_key.as_deref(),
        content: &event.content,
    };
    let ties = groups::of(core, tenant, &facts)?;
    let content = core.ports.keyring.seal(tenant, KeyNo::TENANT, Context::Content, &event.content);
    let bytes = event.content.len() + 8_192;
    let ask = Ask {
        tenant,
        key,
        body: event.body_hash,
        kind: event.kind,
        delivery: delivery_of(event.channels, event.priority, &event.category, &ties, when),
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
    let Some(front) = core.front(front) else { return Err(internal("there is no such front")) };
    front.queue.push(tenant, by, vec![FrontAsk::Admit(Box::new(ask))], bytes)
}

/// When the window opens, if it is closed now.
fn window_of(walk: &Walk, now: Millis) -> Option<Millis> {
    let (window, zone) = walk.window?;
    Some(off_peak_from(window, zone, now)).filter(|opens| *opens > now)
}
