//! Housekeeping: retention, silent devices, sync points, the trimming of the journal.
//!
//! Comes from: time passing. Does: one bounded round of each per turn; whether and when it ran never changes what
//! a reader sees. Goes to: `shard::{expire, endpoints}`, `front::forget`, the store and the journal.

use crate::ask::{Refusal, TenantView};
use crate::audit::feed::derived;
use crate::backoff::Backoff;
use crate::core::{Core, answer_when_there_is_room, broken, internal};
use crate::take::{HOUSE, taken};
use crate::uploads;
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::shard::expire::Place;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_ports::store::{Gauges, Synced};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{FrontNo, Millis, PartitionId, Position, ShardNo, TenantId};
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::{error, info};

/// A sync point is due after this long, or this much.
const SYNC_EVERY_MS: u64 = 5_000;
const SYNC_BYTES: u64 = 64 << 20;
/// How often the loop looks.
const LOOK_EVERY_MS: u64 = 250;
pub const RETENTION_EVERY_MS: u64 = 60_000;
/// What an ask takes in a queue.
const ASK_BYTES: usize = 4_096;
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
        core.fanout.set_backlog(backlog_events);
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
    if core.clock.hold().is_some() {
        // On the word of a clock that may be wrong, nothing is deleted.
        return Ok(());
    }
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
        let ask = || ShardAsk::Expire { tenant, retention_days, swept };
        let push = || core.shard(shard).queue.push(HOUSE, &Actor::System, vec![ask()], ASK_BYTES);
        match answer_when_there_is_room(&core.ports, push).await? {
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
        let ask = || ShardAsk::Age { tenant, page };
        let push = || core.shard(shard).queue.push(HOUSE, &Actor::System, vec![ask()], ASK_BYTES);
        match answer_when_there_is_room(&core.ports, push).await? {
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
        let ask = || FrontAsk::Forget { tenant, retention_days };
        let push = || handle.queue.push(HOUSE, &Actor::System, vec![ask()], ASK_BYTES);
        match answer_when_there_is_room(&core.ports, push).await? {
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
    /// Through where every shard had taken each front, at most. A front that is missing (in snapshots from before this was
    /// said) may be needed whole.
    pub taken: BTreeMap<PartitionId, Position>,
}

/// Through where every shard has taken each front now. A sync point after this call holds at least as much, and so does a
/// snapshot after that sync point.
pub fn taken_by_all(core: &Core) -> Result<BTreeMap<PartitionId, Position>, Refusal> {
    let mut through = BTreeMap::new();
    for front in core.fronts.keys() {
        let marks = core.shards.keys().map(|shard| taken(&core.ports, *shard, *front));
        let marks = marks.collect::<Result<Vec<_>, _>>().map_err(broken)?;
        through.insert(PartitionId::Front(*front), marks.into_iter().min().unwrap_or_default());
    }
    Ok(through)
}

/// Takes a snapshot. Blocks while it copies: call it from a thread that may.
pub fn snapshot(core: &Core, name: &str) -> Result<Taken, Refusal> {
    let at = core.ports.clock.wall();
    let marks = core.ports.store.snapshot(&*core.ports.blobs, name).map_err(broken)?;
    info!(name, "snapshot taken and verified");
    Ok(Taken { name: name.to_owned(), at, marks, taken: BTreeMap::new() })
}

/// How far the journal may be trimmed so that each of these snapshots can still be recovered from: to its marks, and of a
/// front no further than every shard had taken it in the snapshot. What a shard has taken since does not help a recovery
/// that begins with the snapshot.
#[must_use]
pub fn trim_marks(kept: &[Taken]) -> BTreeMap<PartitionId, Position> {
    let mut through: BTreeMap<PartitionId, Position> = BTreeMap::new();
    for snapshot in kept {
        for (partition, mark) in &snapshot.marks {
            let needed = match partition {
                PartitionId::Front(_) => {
                    snapshot.taken.get(partition).copied().unwrap_or_default().min(*mark)
                }
                PartitionId::Root | PartitionId::Directory(_) | PartitionId::Shard(_) => *mark,
            };
            through.entry(*partition).and_modify(|least| *least = needed.min(*least)).or_insert(needed);
        }
    }
    // A snapshot from before a partition was there needs all of it.
    through.retain(|partition, _| kept.iter().all(|snapshot| snapshot.marks.contains_key(partition)));
    through
}

/// Whether so much time has passed since a snapshot that the journal may be trimmed behind it.
#[must_use]
pub fn is_old_enough(snapshot: &Taken, now: Millis) -> bool {
    now.since(snapshot.at) >= JOURNAL_KEPT_MS
}

/// Trims the journal behind all of these snapshots, oldest first, if the oldest is old enough; but never under what the
/// audit log has not derived.
pub async fn trim(core: &Core, kept: &[Taken]) -> Result<(), Refusal> {
    // While the node is paused, webhooks have still to tell what is in the journal.
    if core.keeps_back_what_is_due() {
        return Ok(());
    }
    let now = core.ports.clock.wall();
    if !kept.first().is_some_and(|oldest| is_old_enough(oldest, now)) {
        return Ok(());
    }
    for (partition, through) in trim_marks(kept) {
        let through = through.min(derived(core, partition));
        let trimmed = core.ports.journal.trim(partition, through.next()).await;
        trimmed.map_err(|failed| internal(&failed.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: PartitionId = PartitionId::Shard(ShardNo(0));
    const FRONT: PartitionId = PartitionId::Front(FrontNo(0));

    fn snapshot(root: u64, shard: u64, front: u64, taken: Option<u64>) -> Taken {
        let marks = [(PartitionId::Root, root), (SHARD, shard), (FRONT, front)];
        Taken {
            name: String::new(),
            at: Millis(0),
            marks: marks.into_iter().map(|(partition, mark)| (partition, Position(mark))).collect(),
            taken: taken.map(|taken| (FRONT, Position(taken))).into_iter().collect(),
        }
    }

    // fixes: correctness B4
    #[test]
    fn the_journal_is_kept_for_every_snapshot_that_is_kept() {
        let check = |kept: &[Taken], expected: [u64; 3]| {
            let found = trim_marks(kept);
            let found = [PartitionId::Root, SHARD, FRONT].map(|partition| found[&partition].0);
            assert_eq!(found, expected, "{kept:?}");
        };
        // The shard lagged behind the front when the older one was taken; what it has taken since does not count.
        let (older, newer) = (snapshot(5, 70, 100, Some(40)), snapshot(6, 190, 200, Some(200)));
        check(&[older.clone(), newer.clone()], [5, 70, 40]);
        check(std::slice::from_ref(&newer), [6, 190, 200]);
        check(&[snapshot(1, 2, 3, None), newer.clone()], [1, 2, 0]);
        // The marks of the front may be behind what was taken live: the sync point was older.
        check(&[snapshot(5, 70, 30, Some(40))], [5, 70, 30]);
        assert_eq!(trim_marks(&[]), BTreeMap::new());
        let mut without = older;
        without.marks.remove(&SHARD);
        assert!(!trim_marks(&[without, newer]).contains_key(&SHARD));
    }
}
