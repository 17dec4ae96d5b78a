//! The guard sweep of a shard: drops what is kept about deliveries whose guard is over.
//!
//! Comes from: time passing. Does: one step of each tenant after the other, until nothing is past the guard any more; then the
//! next round comes after a minute. Goes to: `machine::shard::sweep`.
//!
//! It is bounded by time, not by a count: while others wait for the shard's leader, it pauses after each step for as long as the
//! step took, so it gets half of the time at most.

use crate::ask::Refusal;
use crate::backoff::Backoff;
use crate::core::{Core, answer_when_there_is_room, internal};
use crate::housekeeping::RETENTION_EVERY_MS;
use crate::take::HOUSE;
use fantail_machine::shard::{ShardAnswer, ShardAsk, SweepNext};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{Arrival, Millis, ShardNo, TenantId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What an ask takes in a queue.
const ASK_BYTES: usize = 4_096;
/// Pauses beside load, at least and at most: a step takes a few milliseconds.
const PAUSE_MS_MIN: u64 = 1;
const PAUSE_MS_MAX: u64 = 50;
/// After so many rounds, about a day, the next one begins with the oldest event again.
const ROUNDS_FROM_PLACE: u32 = 1_440;

/// Where the sweep of each tenant begins its next round. Lost on a restart, which begins with the oldest event.
#[derive(Default)]
pub struct GuardSweep {
    begin: BTreeMap<TenantId, Arrival>,
    rounds: u32,
}

/// One tenant in a round.
struct Turn {
    tenant: TenantId,
    behind: Arrival,
    /// Everything up to here is gone. `None` as long as that is true of everything before `behind`.
    gone_through: Option<Arrival>,
}

/// Sweeps a shard until the root's queue closes.
pub async fn run(core: Arc<Core>, shard: ShardNo) {
    let (mut sweep, mut backoff) = (GuardSweep::default(), Backoff::of("guard sweep"));
    while !core.root.is_closed() {
        let deadline = core.ports.clock.monotonic().plus(RETENTION_EVERY_MS);
        core.ports.tasks.sleep_until(deadline).await;
        match sweep.round(&core, shard).await {
            Ok(()) => backoff.reset(),
            Err(Refusal::Stopped { .. }) => return,
            // The next round comes in a minute.
            Err(refusal) => drop(backoff.failed(&core.meter, &refusal)),
        }
    }
}

impl GuardSweep {
    /// Sweeps until nothing of any tenant is past the guard. A tenant for which that fails holds up no other one.
    pub async fn round(&mut self, core: &Core, shard: ShardNo) -> Result<(), Refusal> {
        if core.clock.hold().is_some() {
            // On the word of a clock that may be wrong, nothing is deleted.
            return Ok(());
        }
        self.rounds += 1;
        if self.rounds >= ROUNDS_FROM_PLACE {
            *self = Self::default();
        }
        let tenants: Vec<TenantId> = core.control.now().tenants.keys().copied().collect();
        self.begin.retain(|tenant, _| tenants.contains(tenant));
        let turn = |tenant| {
            let behind = self.begin.get(&tenant).copied().unwrap_or(Arrival::START);
            Turn { tenant, behind, gone_through: None }
        };
        let mut turns: VecDeque<Turn> = tenants.into_iter().map(turn).collect();
        let mut first = Ok(());
        while let Some(mut turn) = turns.pop_front() {
            let began = core.ports.clock.monotonic();
            match turn.step(core, shard).await {
                Ok(true) => turns.push_back(turn),
                Ok(false) => drop(self.begin.insert(turn.tenant, turn.gone_through.unwrap_or(turn.behind))),
                Err(stopped @ Refusal::Stopped { .. }) => return Err(stopped),
                Err(refusal) => first = first.and(Err(refusal)),
            }
            yield_to_others(core, shard, began).await;
        }
        first
    }
}

impl Turn {
    /// Drops some more; says whether there may be more past the guard.
    async fn step(&mut self, core: &Core, shard: ShardNo) -> Result<bool, Refusal> {
        let (tenant, behind, guard_ms) = (self.tenant, self.behind, core.guard_ms);
        let ask = || ShardAsk::Sweep { tenant, behind, guard_ms };
        let push = || core.shard(shard).queue.push(HOUSE, &Actor::System, vec![ask()], ASK_BYTES);
        match answer_when_there_is_room(&core.ports, push).await? {
            ShardAnswer::Swept(SweepNext { behind: next, gone_through }) => {
                // What is still open stays behind: the next round looks at it again.
                if next.is_some_and(|next| gone_through < next) {
                    self.gone_through.get_or_insert(gone_through);
                }
                self.behind = next.unwrap_or(gone_through);
                Ok(next.is_some())
            }
            _ => Err(internal("the shard answered something else")),
        }
    }
}

async fn yield_to_others(core: &Core, shard: ShardNo, began: Millis) {
    if core.shard(shard).queue.is_empty() {
        return;
    }
    let now = core.ports.clock.monotonic();
    let pause_ms = now.since(began).clamp(PAUSE_MS_MIN, PAUSE_MS_MAX);
    core.ports.tasks.sleep_until(now.plus(pause_ms)).await;
}
