//! What waits for a leader: bounded, and fair between tenants.
//!
//! Comes from: `accept` and the loops. Decides: who is in the next batch, by deficit round robin over tenants, so
//! that one tenant's flood delays another by no more than its own share. Goes to: `lead`.
//! What must never happen: an unbounded queue; a full one says so and the caller hears 503.

use crate::ask::Refusal;
use fantail_rules::actor::Actor;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::{QUEUE_BYTES_MAX, QUEUE_COMMANDS_MAX};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::oneshot;

/// Bytes a tenant may add to a batch before the next one has its turn.
const QUANTUM_BYTES: usize = 64 << 10;
/// What a small ask costs besides its bytes.
const ASK_OVERHEAD_BYTES: usize = 256;

/// Asks that are answered together.
pub struct Item<A, R> {
    /// Who asks; their records say so.
    pub by: Actor,
    pub asks: Vec<A>,
    pub reply: oneshot::Sender<Result<Vec<R>, Refusal>>,
    cost: usize,
}

pub struct Queue<A, R>(Mutex<State<A, R>>);

struct State<A, R> {
    waiting: BTreeMap<TenantId, Line<A, R>>,
    /// Tenants with waiting items, in turn.
    turns: VecDeque<TenantId>,
    items: usize,
    bytes: usize,
    closed: bool,
    leader: Option<Waker>,
}

struct Line<A, R> {
    items: VecDeque<Item<A, R>>,
    deficit: usize,
}

impl<A, R> Default for Queue<A, R> {
    fn default() -> Self {
        Self(Mutex::new(State {
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
            items: 0,
            bytes: 0,
            closed: false,
            leader: None,
        }))
    }
}

impl<A, R> Queue<A, R> {
    fn state(&self) -> MutexGuard<'_, State<A, R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds asks of a tenant; the receiver hears their answers, in order.
    pub fn push(
        &self,
        tenant: TenantId,
        by: &Actor,
        asks: Vec<A>,
        bytes: usize,
    ) -> Result<oneshot::Receiver<Result<Vec<R>, Refusal>>, Refusal> {
        let cost = bytes + asks.len() * ASK_OVERHEAD_BYTES;
        let (reply, answer) = oneshot::channel();
        let mut state = self.state();
        if state.closed {
            return Err(Refusal::Stopped { reason: "the leader has stopped".to_owned() });
        }
        if state.items >= QUEUE_COMMANDS_MAX || state.bytes + cost > QUEUE_BYTES_MAX {
            return Err(Refusal::Busy { retry_after_ms: 1_000 });
        }
        state.items += 1;
        state.bytes += cost;
        let line = state.waiting.entry(tenant).or_insert_with(|| Line { items: VecDeque::new(), deficit: 0 });
        let idle = line.items.is_empty();
        line.items.push_back(Item { by: by.clone(), asks, reply, cost });
        if idle {
            state.turns.push_back(tenant);
        }
        let leader = state.leader.take();
        drop(state);
        if let Some(leader) = leader {
            leader.wake();
        }
        Ok(answer)
    }

    /// Items for one batch: at most so many asks and bytes, but at least one item if any waits.
    pub fn pop(&self, asks_max: usize, bytes_max: usize) -> Vec<Item<A, R>> {
        let mut state = self.state();
        let mut batch = Vec::new();
        let (mut asks, mut bytes) = (0, 0);
        while let Some(tenant) = state.turns.pop_front() {
            let line = state.waiting.get_mut(&tenant).expect("a tenant with a turn has a line");
            line.deficit += QUANTUM_BYTES;
            let mut full = false;
            while let Some(next) = line.items.front() {
                full =
                    !batch.is_empty() && (asks + next.asks.len() > asks_max || bytes + next.cost > bytes_max);
                if full || line.deficit < next.cost {
                    break;
                }
                let item = line.items.pop_front().expect("it was at the front");
                line.deficit -= item.cost;
                asks += item.asks.len();
                bytes += item.cost;
                batch.push(item);
            }
            if line.items.is_empty() {
                state.waiting.remove(&tenant);
            } else if full {
                state.turns.push_front(tenant);
            } else {
                state.turns.push_back(tenant);
            }
            if full {
                break;
            }
        }
        state.items -= batch.len();
        state.bytes -= bytes;
        batch
    }

    /// Ready when something waits or the queue is closed. One leader polls.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.items > 0 || state.closed {
            return Poll::Ready(());
        }
        state.leader = Some(context.waker().clone());
        Poll::Pending
    }

    /// Refuses everything from now on, and what waits.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        state.turns.clear();
        state.items = 0;
        state.bytes = 0;
        let leader = state.leader.take();
        drop(state);
        for item in waiting.into_values().flat_map(|line| line.items) {
            item.answer(Err(Refusal::Stopped { reason: "the leader has stopped".to_owned() }));
        }
        if let Some(leader) = leader {
            leader.wake();
        }
    }

    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.state().items
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<A, R> Item<A, R> {
    /// Answers; a caller that went away misses it, as it would miss an answer on the wire.
    pub fn answer(self, answer: Result<Vec<R>, Refusal>) {
        drop(self.reply.send(answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(queue: &Queue<u32, ()>, tenant: u32, ask: u32, bytes: usize) {
        queue.push(TenantId(tenant), &Actor::System, vec![ask], bytes).expect("there is room");
    }

    fn order(batch: &[Item<u32, ()>]) -> Vec<u32> {
        batch.iter().flat_map(|item| item.asks.clone()).collect()
    }

    // proves: TEN-03
    #[test]
    fn a_flood_of_one_tenant_leaves_room_for_the_other() {
        let queue = Queue::default();
        (0..1_000).for_each(|ask| push(&queue, 1, ask, 10_000));
        push(&queue, 2, 5_000, 10_000);
        let batch = order(&queue.pop(100, 1 << 20));
        assert!(batch.contains(&5_000), "the second tenant is in the first batch");
        assert!(batch.len() > 50, "and the batch is well filled");
    }

    #[test]
    fn order_inside_a_tenant_is_kept_across_batches() {
        let queue = Queue::default();
        (0..500).for_each(|ask| push(&queue, 1 + ask % 3, ask, 3_000));
        let mut seen: Vec<u32> = Vec::new();
        while !queue.is_empty() {
            seen.extend(order(&queue.pop(16, 40_000)));
        }
        assert_eq!(seen.len(), 500);
        for tenant in 0..3 {
            let of_tenant: Vec<_> = seen.iter().filter(|ask| **ask % 3 == tenant).collect();
            assert!(of_tenant.is_sorted());
        }
    }

    #[test]
    fn an_item_larger_than_a_batch_still_gets_through() {
        let queue = Queue::default();
        push(&queue, 1, 7, 10 << 20);
        assert_eq!(order(&queue.pop(10, 1_000)), [7]);
    }

    #[test]
    fn a_full_queue_says_busy_and_a_closed_one_stopped() {
        let queue = Queue::<u32, ()>::default();
        (0..QUEUE_COMMANDS_MAX as u32).for_each(|ask| push(&queue, 1, ask, 1));
        let refused = queue.push(TenantId(2), &Actor::System, vec![1], 1).expect_err("full");
        assert_eq!(refused, Refusal::Busy { retry_after_ms: 1_000 });
        queue.close();
        assert!(matches!(queue.push(TenantId(2), &Actor::System, vec![1], 1), Err(Refusal::Stopped { .. })));
    }
}
