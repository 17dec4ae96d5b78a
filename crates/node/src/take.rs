//! The take loop: walks a front's facts in order and hands them to a shard.
//!
//! Comes from: the front, whenever its applied position moves. Does: proposes the next stretch and waits until it
//! is durable in the shard before it proposes another; the shard's own watermark says where to go on after a
//! crash. Goes to: `machine::shard::take`.
//!
//! Invariant: a shard takes no fact that its front has not applied.

use crate::ask::Refusal;
use crate::backoff::Backoff;
use crate::core::{broken, internal};
use crate::meter::Meter;
use crate::ports::Ports;
use crate::queue::{Queue, QueueClass};
use crate::tail::Tail;
use fantail_machine::front::fact::FrontFact;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::progress;
use fantail_ports::store::StoreError;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{FrontNo, PartitionId, Position, ShardNo, TenantId};
use std::sync::Arc;
use tokio::sync::watch;

/// A shard that has just taken waits this long before it takes again, so that under load one take brings many
/// events. After a quiet moment there is no wait.
const PACE_MS: u64 = 2;

/// Stands for the platform where a tenant is named.
pub const HOUSE: TenantId = TenantId(0);

pub struct TakeLoop {
    pub ports: Arc<Ports>,
    pub meter: Arc<Meter>,
    pub shard: ShardNo,
    pub front: FrontNo,
    pub tail: Arc<Tail>,
    pub queue: Arc<Queue<ShardAsk, ShardAnswer>>,
    /// Through which position the front is durable and applied.
    pub applied: watch::Receiver<Position>,
    /// Facts in one proposal. A shard cuts them into records of its own size.
    pub facts_max: usize,
}

impl TakeLoop {
    /// Ends when the shard's or the front's queue is closed.
    pub async fn run(mut self) {
        let mut backoff = Backoff::of("take");
        while let Err(refusal) = self.walk(&mut backoff).await {
            backoff.wait(&self.ports, &self.meter, &refusal).await;
            if self.queue.is_closed() {
                return;
            }
        }
    }

    async fn walk(&mut self, backoff: &mut Backoff) -> Result<(), Refusal> {
        let mut taken = taken(&self.ports, self.shard, self.front).map_err(broken)?;
        let mut paced = self.ports.clock.monotonic();
        loop {
            let applied = *self.applied.borrow_and_update();
            if applied <= taken {
                if self.applied.changed().await.is_err() {
                    return Ok(());
                }
                continue;
            }
            if self.ports.clock.monotonic() < paced {
                self.ports.tasks.sleep_until(paced).await;
            }
            paced = self.ports.clock.monotonic().plus(PACE_MS);
            let read = self.tail.read(taken.next(), applied, self.facts_max).await;
            let facts = read.map_err(|failed| internal(&failed.to_string()))?;
            backoff.reset();
            let Some(last) = facts.last().map(|fact| fact.position) else { continue };
            let count = facts.len() as u64;
            self.ports.points.reach("take.proposed");
            let bytes = facts.iter().map(FrontFact::bytes).sum();
            let ask = ShardAsk::Take { front: self.front, facts: facts.into() };
            let Ok(answer) = self.queue.push(QueueClass::Internal, &Actor::System, vec![ask], bytes) else {
                if self.queue.is_closed() {
                    return Ok(());
                }
                self.pause().await;
                continue;
            };
            match answer.await {
                Ok(Ok(_)) => {
                    self.meter.took(count);
                    taken = last;
                }
                // No room, or busy: try again; the watermark makes a repeat harmless.
                Ok(Err(_)) if !self.queue.is_closed() => self.pause().await,
                Ok(Err(_)) | Err(_) => return Ok(()),
            }
        }
    }

    async fn pause(&self) {
        let deadline = self.ports.clock.monotonic().plus(50);
        self.ports.tasks.sleep_until(deadline).await;
    }
}

/// What a shard has taken of a front, in its durable state.
pub fn taken(ports: &Ports, shard: ShardNo, front: FrontNo) -> Result<Position, StoreError> {
    let mut found = Ok(Position::START);
    ports.store.read(PartitionId::Shard(shard), &mut |state| {
        found = progress::taken(state.tables(), front);
    })?;
    Ok(found?)
}
