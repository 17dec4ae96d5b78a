//! How much of a tenant waits to be sent, and what that means for what comes next.
//!
//! Comes from: acceptance. Does: reads what is kept in the tables of the shards, at most a few times a second for each
//! tenant and lane. Decides: whether there is room for more. Goes to: 503 with a time to come back, or the answer's
//! estimate. What must never happen: a queue without a bound because a provider is away.

use crate::ask::Refusal;
use crate::core::Core;
use fantail_machine::tables::tally;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::ids::{Millis, PartitionId, TenantId};
use fantail_rules::limits::ALLOWANCES_MAX;
use fantail_rules::outlook::expected_ms;
use fantail_rules::priority::Priority;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What was read is good for so long.
const FRESH_MS: u64 = 200;
const RETRY_AFTER_MS: u64 = 5_000;

#[derive(Default)]
pub struct Crowds(Mutex<BTreeMap<(TenantId, u8), (Millis, u64)>>);

/// Refuses if too many events of the tenant wait in this lane.
pub fn require_room(core: &Core, tenant: TenantId, lane: Priority) -> Result<(), Refusal> {
    if waiting(core, tenant, lane)? < core.queue_max {
        return Ok(());
    }
    core.meter.busy();
    Err(Refusal::Busy { retry_after_ms: RETRY_AFTER_MS })
}

/// How long until the first attempts of what is accepted now are expected to be over.
pub fn expected(
    core: &Core,
    tenant: TenantId,
    channels: ChannelSet,
    lane: Priority,
    own: u64,
) -> Result<u64, Refusal> {
    let waiting = waiting(core, tenant, lane)?;
    let now = core.ports.clock.monotonic();
    let outlook = |kind| core.dispatch.outlook(kind, lane, waiting, now);
    let ways = channels.without(ChannelKind::InApp);
    let outlooks: Vec<_> = ways.iter().filter_map(outlook).collect();
    Ok(expected_ms(lane, own, &outlooks))
}

/// Events of the tenant that wait in a lane, counted once for each channel and shard.
fn waiting(core: &Core, tenant: TenantId, lane: Priority) -> Result<u64, Refusal> {
    let (key, now) = ((tenant, lane as u8), core.ports.clock.monotonic());
    let known = lock(&core.crowds).get(&key).copied();
    if let Some((at, count)) = known
        && now.since(at) < FRESH_MS
    {
        return Ok(count);
    }
    let mut count = 0;
    for shard in core.shards.keys() {
        let row = tally::lane_key(tenant, lane);
        count += core.read(PartitionId::Shard(*shard), |view| tally::find(view.tables(), &row))?.open;
    }
    let mut crowds = lock(&core.crowds);
    if crowds.len() >= ALLOWANCES_MAX {
        crowds.clear();
    }
    crowds.insert(key, (now, count));
    Ok(count)
}

fn lock(crowds: &Crowds) -> std::sync::MutexGuard<'_, BTreeMap<(TenantId, u8), (Millis, u64)>> {
    crowds.0.lock().unwrap_or_else(PoisonError::into_inner)
}
