//! The walks of a shard go on: step by step, as fast as their producers, their windows and everybody else allow.
//!
//! Comes from: the shard's bell, and time. Does: asks the segment of each walk about the next users. Decides: nothing that
//! is kept; whose turn it is, how far a step goes, and when to look again. In a round each tenant has one step, however many
//! walks it has. Goes to: `machine::shard::walk`, which records cursor and members.

use super::contention::Contention;
use super::window_of;
use crate::ask::Refusal;
use crate::backoff::Backoff;
use crate::chosen::{Chooser, Stretch};
use crate::core::{Core, answer, internal};
use crate::dispatch;
use crate::segments::understood;
use crate::take::HOUSE;
use fantail_machine::records::walk::Pace;
use fantail_machine::shard::walk::{self, Held, Pass, pass};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::taken;
use fantail_machine::tables::walk::{self as rows, WalkRow};
use fantail_rules::actor::Actor;
use fantail_rules::bulk_pace;
use fantail_rules::channel_kind::ChannelSet;
use fantail_rules::ids::{Arrival, Millis, PartitionId, ShardNo, TenantId};
use fantail_rules::knobs::StepSizes;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tracing::info;

/// What holds a walk back is looked at again after this at the latest.
pub const LOOK_AGAIN_MS: u64 = 1_000;
/// While others have much before them, bulk waits.
const CONTENDED_MS: u64 = 50;

/// Goes on with the walks of one shard until the node stops.
pub async fn run(core: Arc<Core>, shard: ShardNo) {
    let mut known = Walks::default();
    // The walk of each tenant that went on last.
    let mut last: BTreeMap<TenantId, Arrival> = BTreeMap::new();
    let mut backoff = Backoff::of("bulk");
    while !core.root.is_closed() {
        let now = core.ports.clock.wall();
        let found = core.read(PartitionId::Shard(shard), |state| rows::open(state.tables()));
        let open = match found {
            Ok(open) => open,
            Err(refusal) => {
                backoff.wait(&core.ports, &core.meter, &refusal).await;
                continue;
            }
        };
        let mut has_failed = false;
        known.begin_round(&open);
        let mut wait_ms: Option<u64> = if open.is_empty() { None } else { Some(LOOK_AGAIN_MS) };
        last.retain(|tenant, _| open.iter().any(|(of, _)| of == tenant));
        let mut stepped = BTreeSet::new();
        for (tenant, arrival) in in_turns(open, &last) {
            if stepped.contains(&tenant) {
                continue;
            }
            let is_contended = |channels| is_contended(&core, channels);
            if known.contention.holds_back((tenant, arrival), now, is_contended) {
                wait_ms = wait_ms.map(|wait| wait.min(CONTENDED_MS));
                continue;
            }
            let again = match step(&core, shard, (tenant, arrival), &mut known, now).await {
                Ok(again) => again,
                Err(Refusal::Stopped { .. }) => return,
                // The others go on; all are looked at again after a while.
                Err(refusal) => {
                    has_failed = true;
                    backoff.failed(&core.meter, &refusal).min(LOOK_AGAIN_MS)
                }
            };
            if again == 0 {
                stepped.insert(tenant);
                last.insert(tenant, arrival);
            }
            wait_ms = Some(wait_ms.map_or(again, |wait| wait.min(again)));
        }
        if !has_failed {
            backoff.reset();
        }
        if wait_ms == Some(0) {
            continue;
        }
        let until = wait_ms.map(|ms| core.ports.tasks.sleep_until(core.ports.clock.monotonic().plus(ms)));
        core.shard(shard).walks.wait(until).await;
    }
}

/// What is known of open walks from one round to the next.
#[derive(Default)]
struct Walks {
    choosers: BTreeMap<(TenantId, Arrival), Chooser>,
    contention: Contention,
}

impl Walks {
    /// Forgets walks that are over.
    fn begin_round(&mut self, open: &[(TenantId, Arrival)]) {
        self.choosers.retain(|walk, _| open.binary_search(walk).is_ok());
        self.contention.begin_round(open);
    }
}

fn is_contended(core: &Core, channels: ChannelSet) -> bool {
    core.fanout.is_full() || dispatch::is_contended(core, channels)
}

/// Walks in the order of their tenants; of each tenant first those behind the one that went on last.
fn in_turns(
    mut open: Vec<(TenantId, Arrival)>,
    last: &BTreeMap<TenantId, Arrival>,
) -> Vec<(TenantId, Arrival)> {
    open.sort_by_key(|(tenant, arrival)| {
        let is_before = last.get(tenant).is_some_and(|last| arrival <= last);
        (*tenant, is_before, *arrival)
    });
    open
}

/// One step of a walk; says after how many milliseconds to look again. Only the walk whose turn it is is read: there may be many.
async fn step(
    core: &Core,
    shard: ShardNo,
    (tenant, arrival): (TenantId, Arrival),
    known: &mut Walks,
    now: Millis,
) -> Result<u64, Refusal> {
    let found = core.read(PartitionId::Shard(shard), |state| rows::find(state.tables(), tenant, arrival))?;
    let Some(row) = found.as_ref() else { return Ok(LOOK_AGAIN_MS) };
    if core.pause.is_on() {
        return Ok(LOOK_AGAIN_MS);
    }
    if core.clock.hold().is_some_and(|hold| row.event.millis() <= hold.started_at) {
        return Ok(LOOK_AGAIN_MS);
    }
    if let Some(held) = pass::held(row, now) {
        return Ok(again_ms(held, now));
    }
    if pass::is_expired(row, now) {
        return end(core, shard, (tenant, arrival), row, now).await;
    }
    if let Some(opens) = window_of(&row.walk, now) {
        return Ok(opens.since(now).min(LOOK_AGAIN_MS));
    }
    let channels = row.delivery.channels;
    if known.contention.puts_off((tenant, arrival), channels, now, |channels| is_contended(core, channels)) {
        return Ok(CONTENDED_MS);
    }
    let chooser = match known.choosers.entry((tenant, arrival)) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(free) => {
            let filter = understood(row.walk.filter.as_deref())?;
            free.insert(Chooser::new(core, tenant, filter, row.walk.list)?)
        }
    };
    let shards = shards_at_work(core, tenant, row, now)?;
    let chosen = chooser.look(core, shard, stretch_of(row, shards, &core.knobs.steps), now)?;
    let bytes = chosen.members.len() * 8 + 128;
    let pass = Pass { tenant, arrival, from: row.next, next: chosen.next, members: chosen.members, shards };
    match ask(core, shard, pass, bytes).await? {
        walk::Answer::Passed { is_end, members, skipped } => {
            core.meter.passed(chosen.looked_at, members, skipped);
            if is_end {
                info!(%shard, %tenant, event = %row.event, "bulk send has passed everybody here, or was stopped");
            }
            Ok(0)
        }
        walk::Answer::Held(held) => Ok(again_ms(held, now)),
        walk::Answer::Enlisted { .. } | walk::Answer::Delisted { .. } => {
            Err(internal("the shard answered something else"))
        }
    }
}

/// Ends a walk whose time to live is over. Nobody is asked about any more.
async fn end(
    core: &Core,
    shard: ShardNo,
    (tenant, arrival): (TenantId, Arrival),
    row: &WalkRow,
    now: Millis,
) -> Result<u64, Refusal> {
    let (from, next, shards) = (row.next, row.next, core.layout.shards);
    let pass = Pass { tenant, arrival, from, next, members: Vec::new(), shards };
    match ask(core, shard, pass, 128).await? {
        walk::Answer::Passed { .. } => {
            info!(%shard, %tenant, event = %row.event, "the time to live of a bulk send is over");
            Ok(0)
        }
        walk::Answer::Held(held) => Ok(again_ms(held, now)),
        walk::Answer::Enlisted { .. } | walk::Answer::Delisted { .. } => {
            Err(internal("the shard answered something else"))
        }
    }
}

async fn ask(core: &Core, shard: ShardNo, pass: Pass, bytes: usize) -> Result<walk::Answer, Refusal> {
    let ask = ShardAsk::Walk(walk::Ask::Pass(pass));
    match answer(core.shard(shard).queue.push(HOUSE, &Actor::System, vec![ask], bytes)).await? {
        ShardAnswer::Walk(answer) => Ok(answer),
        _ => Err(internal("the shard answered something else")),
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
fn stretch_of(row: &WalkRow, shards: u16, steps: &StepSizes) -> Stretch {
    let (mut looked_at_max, mut members_max) = (steps.scan_users as u64, steps.scan_members);
    match row.walk.pace {
        Pace::Free => {}
        Pace::PerSecond(rate) => members_max = members_max.min(bulk_pace::members_of_step(rate, shards)),
        Pace::Over(ms) => looked_at_max = looked_at_max.min(bulk_pace::users_of_step(row.bound.0, ms)),
    }
    Stretch { from: row.next, bound: row.bound, looked_at_max, members_max }
}

/// How many shards share the rate of a walk. Those that are over leave their share to the others, once what they passed last
/// is paid for. One that has not begun has its share.
fn shards_at_work(core: &Core, tenant: TenantId, row: &WalkRow, now: Millis) -> Result<u16, Refusal> {
    let Pace::PerSecond(_) = row.walk.pace else { return Ok(core.layout.shards) };
    let mut count = 0;
    for shard in core.shards.keys() {
        let found = core.read(PartitionId::Shard(*shard), |state| {
            let Some((arrival, _)) = taken::arrival_of(state.tables(), tenant, row.event)? else {
                return Ok(None);
            };
            rows::find(state.tables(), tenant, arrival)
        })?;
        let is_at_work = found.is_none_or(|row| !row.is_over() || now < row.paced_until);
        count += u16::from(is_at_work);
    }
    Ok(count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One tenant has a hundred walks, another one a single one: the hundred take turns for the steps of their tenant.
    #[test]
    fn walks_of_a_tenant_take_turns_for_its_steps() {
        let open: Vec<(TenantId, Arrival)> =
            (1..=100).map(|no| (TenantId(1), Arrival(no))).chain([(TenantId(2), Arrival(1))]).collect();
        let mut last = BTreeMap::new();
        let (mut of_first, mut of_second) = (Vec::new(), 0);
        for _ in 0..100 {
            let mut stepped = BTreeSet::new();
            for (tenant, arrival) in in_turns(open.clone(), &last) {
                if stepped.insert(tenant) {
                    last.insert(tenant, arrival);
                    if tenant == TenantId(1) { of_first.push(arrival.0) } else { of_second += 1 }
                }
            }
        }
        assert_eq!(of_first, (1..=100).collect::<Vec<_>>());
        assert_eq!(of_second, 100, "a step in every round");
    }
}
