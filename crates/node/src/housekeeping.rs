//! Housekeeping: retention, silent devices, sync points, the trimming of the journal.
//!
//! Comes from: time passing. Does: one bounded round of each per turn; whether and when it ran never changes what
//! a reader sees. Goes to: `shard::{expire, endpoints}`, `front::forget`, the store and the journal.

use crate::ask::{Refusal, TenantView};
use crate::audit::feed::derived;
use crate::backoff::Backoff;
use crate::core::{Core, answer, broken, internal};
use crate::take::{HOUSE, taken};
use crate::uploads;
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::shard::expire::Place;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_ports::store::{Gauges, Synced};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{FrontNo, Millis, PartitionId, Position, ShardNo, TenantId};
use fantail_rules::limits::BACKLOG_EVENTS_MAX;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tracing::{error, info};

/// A sync point is due after this long, or this much.
const SYNC_EVERY_MS: u64 = 5_000;
const SYNC_BYTES: u64 = 64 << 20;
/// How often the loop looks.
const LOOK_EVERY_MS: u64 = 250;
pub const RETENTION_EVERY_MS: u64 = 60_000;
/// Slices of endpoint pages that one round looks at, per tenant and shard.
const AGED_SLICES: usize = 16;
/// The journal keeps at least this much, whatever snapshots there are.
const JOURNAL_KEPT_MS: u64 = 24 * 3_600_000;

/// Syncs the store when it is due, and looks whether fan-out keeps up, until the root's queue closes.
pub async fn sync_loop(core: Arc<Core>) {
    let mut due = core.ports.clock.monotonic().plus(SYNC_EVERY_MS);
    while !core.root.is_closed() {
        let now = core.ports.clock.monotonic();
        let Gauges { unsynced_bytes: unsynced, backlog_events, .. } = core.ports.store.gauges();
        core.is_crowded.store(backlog_events > BACKLOG_EVENTS_MAX, Ordering::Relaxed);
        if unsynced >= SYNC_BYTES || (unsynced > 0 && now >= due) {
            if let Err(failed) = core.ports.store.sync().await {
                error!(%failed, "sync point failed");
                core.ports.stop.set(&failed.to_string());
                return;
            }
            due = core.ports.clock.monotonic().plus(SYNC_EVERY_MS);
        }
        core.ports.tasks.sleep_until(now.plus(LOOK_EVERY_MS)).await;
    }
}

pub async fn sync_now(core: &Core) -> Result<Synced, Refusal> {
    core.ports.store.sync().await.map_err(broken)
}

/// Where the sweeps over each shard's rows are. Lost on a restart, which begins them anew.
#[derive(Default)]
pub struct Sweeps {
    rows: BTreeMap<(TenantId, ShardNo), Place>,
    /// The page of endpoints to go on from.
    devices: BTreeMap<(TenantId, ShardNo), u64>,
}

/// Drops what is past its time, tenant by tenant, until the root's queue closes.
pub async fn retention_loop(core: Arc<Core>) {
    let mut sweeps = Sweeps::default();
    let mut backoff = Backoff::of("retention");
    while !core.root.is_closed() {
        let deadline = core.ports.clock.monotonic().plus(RETENTION_EVERY_MS);
        core.ports.tasks.sleep_until(deadline).await;
        match retain(&core, &mut sweeps).await {
            Ok(()) => backoff.reset(),
            Err(Refusal::Stopped { .. }) => return,
            // The next round comes in a minute.
            Err(refusal) => drop(backoff.failed(&core.meter, &refusal)),
        }
    }
}

/// One round over all tenants: everything past retention, and one step of each sweep. A tenant for which that fails
/// holds up no other one.
pub async fn retain(core: &Core, sweeps: &mut Sweeps) -> Result<(), Refusal> {
    let mut first = Ok(());
    for tenant in core.control.now().tenants.values() {
        match retain_tenant(core, tenant, sweeps).await {
            Ok(()) => {}
            Err(stopped @ Refusal::Stopped { .. }) => return Err(stopped),
            Err(refusal) => first = first.and(Err(refusal)),
        }
    }
    first
}

async fn retain_tenant(core: &Core, tenant: &TenantView, sweeps: &mut Sweeps) -> Result<(), Refusal> {
    for shard in core.shards.keys() {
        age(core, tenant.id, *shard, sweeps).await?;
        let swept = sweeps.rows.remove(&(tenant.id, *shard));
        if let Some(place) = expire(core, tenant.id, *shard, tenant.retention_days, swept).await? {
            sweeps.rows.insert((tenant.id, *shard), place);
        }
    }
    for shard in core.shards.keys() {
        uploads::tidy(core, tenant.id, *shard).await?;
    }
    for front in core.fronts.keys() {
        forget(core, tenant.id, *front, tenant.retention_days).await?;
    }
    Ok(())
}

async fn expire(
    core: &Core,
    tenant: TenantId,
    shard: ShardNo,
    retention_days: u32,
    mut swept: Option<Place>,
) -> Result<Option<Place>, Refusal> {
    loop {
        let ask = ShardAsk::Expire { tenant, retention_days, swept };
        match answer(core.shard(shard).queue.push(HOUSE, &Actor::System, vec![ask], 4_096)).await? {
            ShardAnswer::Expired(progress) => {
                swept = progress.swept;
                if !progress.outdated {
                    return Ok(swept);
                }
            }
            _ => return Err(internal("the shard answered something else")),
        }
    }
}

/// Looks for devices that were silent for long, some slices of pages per round: in a day, some twenty
/// million users of each.
async fn age(core: &Core, tenant: TenantId, shard: ShardNo, sweeps: &mut Sweeps) -> Result<(), Refusal> {
    let mut page = sweeps.devices.remove(&(tenant, shard)).unwrap_or_default();
    for _ in 0..AGED_SLICES {
        match answer(core.shard(shard).queue.push(
            HOUSE,
            &Actor::System,
            vec![ShardAsk::Age { tenant, page }],
            4_096,
        ))
        .await?
        {
            ShardAnswer::Aged { next: Some(next) } => page = next,
            ShardAnswer::Aged { next: None } => return Ok(()),
            _ => return Err(internal("the shard answered something else")),
        }
    }
    sweeps.devices.insert((tenant, shard), page);
    Ok(())
}

async fn forget(core: &Core, tenant: TenantId, front: FrontNo, retention_days: u32) -> Result<(), Refusal> {
    let Some(handle) = core.front(front) else { return Ok(()) };
    loop {
        let ask = FrontAsk::Forget { tenant, retention_days };
        match answer(handle.queue.push(HOUSE, &Actor::System, vec![ask], 4_096)).await? {
            FrontAnswer::Forgot { more: true } => {}
            FrontAnswer::Forgot { more: false } => return Ok(()),
            _ => return Err(internal("the front answered something else")),
        }
    }
}

/// A verified snapshot and what it covers.
#[derive(Clone, Debug)]
pub struct Taken {
    pub name: String,
    pub at: Millis,
    pub marks: BTreeMap<PartitionId, Position>,
}

/// Takes a snapshot. Blocks while it copies: call it from a thread that may.
pub fn snapshot(core: &Core, name: &str) -> Result<Taken, Refusal> {
    let at = core.ports.clock.wall();
    let marks = core.ports.store.snapshot(&*core.ports.blobs, name).map_err(broken)?;
    info!(name, "snapshot taken and verified");
    Ok(Taken { name: name.to_owned(), at, marks })
}

/// Trims the journal behind the newest of these snapshots, oldest first, that is old enough, but never under what a
/// shard still has to take (its recovery reads the fronts from its own mark on), nor under what the audit log has not
/// derived.
pub async fn trim(core: &Core, snapshots: &[Taken]) -> Result<(), Refusal> {
    let now = core.ports.clock.wall();
    let old_enough = |taken: &&Taken| now.since(taken.at) >= JOURNAL_KEPT_MS;
    let Some(behind) = snapshots.iter().rfind(old_enough) else { return Ok(()) };
    for (partition, mark) in &behind.marks {
        let mut through = (*mark).min(derived(core, *partition));
        if let PartitionId::Front(front) = partition {
            for shard in core.shards.keys() {
                through = through.min(taken(&core.ports, *shard, *front).map_err(broken)?);
            }
        }
        let trimmed = core.ports.journal.trim(*partition, through.next()).await;
        trimmed.map_err(|failed| internal(&failed.to_string()))?;
    }
    Ok(())
}
