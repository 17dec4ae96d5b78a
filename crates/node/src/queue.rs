//! What waits for a leader: bounded in items and bytes, in shares, and fair between tenants.
//!
//! Comes from: `accept` and the loops. Decides: what is taken in, and what is in the next batch. Goes to: `lead`.
//!
//! Every class of work has its own room, so requests never keep out what was sent, takes or maintenance. Inside a class a
//! line may hold as much as is still free beside it: half of the room if it is alone, a third if two lines are at their
//! limit, and so on. Room for one more tenant is always left. Batches are filled by deficit round robin over the lines.
//!
//! What must never happen: an unbounded queue; a full one says so and the caller gets a 503.

use crate::ask::Refusal;
use crate::disk_share::DiskShare;
use fantail_rules::actor::Actor;
use fantail_rules::ids::TenantId;
use fantail_rules::knobs::Knobs;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::oneshot;

/// Bytes a line may add to a batch before the next one has its turn.
const QUANTUM_BYTES: usize = 64 << 10;
/// What a small ask costs besides its bytes.
const ASK_OVERHEAD_BYTES: usize = 256;

/// What kind of work an item is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum QueueClass {
    /// What tenants and their users ask for.
    Tenant,
    /// Plans and outcomes of deliveries that were accepted before.
    Delivery,
    /// What the node does for itself: takes, claims, digests, retention.
    Internal,
    /// What an earlier leader left behind.
    Recovery,
}

impl QueueClass {
    pub const ALL: [Self; 4] = [Self::Tenant, Self::Delivery, Self::Internal, Self::Recovery];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Delivery => "delivery",
            Self::Internal => "internal",
            Self::Recovery => "recovery",
        }
    }

    /// The room of this class, in items and bytes.
    fn room(self, knobs: &Knobs) -> Held {
        let (items, bytes) = (knobs.queue_items, knobs.queue_bytes);
        match self {
            Self::Tenant => Held { items, bytes },
            // Half of the items are the share of a single tenant: what one channel may have in flight, over four shards.
            Self::Delivery => Held { items: items * 2, bytes: bytes / 2 },
            // Loops wait for the answer before they ask again, so few of these wait; a take is the largest.
            Self::Internal => Held { items: items / 4, bytes: bytes / 2 },
            Self::Recovery => Held { items: items / 16, bytes: bytes / 16 },
        }
    }

    /// Whether its lines belong to tenants, who share the room.
    fn is_shared(self) -> bool {
        match self {
            Self::Tenant | Self::Delivery => true,
            Self::Internal | Self::Recovery => false,
        }
    }
}

/// Items that keep their order among themselves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QueueLine {
    pub class: QueueClass,
    pub tenant: TenantId,
    /// Critical deliveries do not wait behind the tenant's other ones.
    pub is_critical: bool,
}

impl QueueLine {
    /// What the node does on behalf of a tenant.
    #[must_use]
    pub fn internal(tenant: TenantId) -> Self {
        Self { class: QueueClass::Internal, tenant, is_critical: false }
    }

    /// A command that a tenant gives, or that the node gives itself.
    #[must_use]
    pub fn asked_by(by: &Actor, tenant: TenantId) -> Self {
        if *by == Actor::System { Self::internal(tenant) } else { tenant.into() }
    }

    #[must_use]
    pub fn delivery(tenant: TenantId, is_critical: bool) -> Self {
        Self { class: QueueClass::Delivery, tenant, is_critical }
    }
}

/// Tenant 0 is the platform itself.
impl From<TenantId> for QueueLine {
    fn from(tenant: TenantId) -> Self {
        let class = if tenant == TenantId(0) { QueueClass::Internal } else { QueueClass::Tenant };
        Self { class, tenant, is_critical: false }
    }
}

impl From<QueueClass> for QueueLine {
    fn from(class: QueueClass) -> Self {
        Self { class, tenant: TenantId(0), is_critical: false }
    }
}

/// Asks that are answered together.
pub struct Item<A, R> {
    /// Who asks; their records say so.
    pub by: Actor,
    pub asks: Vec<A>,
    pub reply: oneshot::Sender<Result<Vec<R>, Refusal>>,
    cost: usize,
}

pub struct Queue<A, R> {
    state: Mutex<State<A, R>>,
    knobs: Knobs,
    disk: Arc<DiskShare>,
}

struct State<A, R> {
    waiting: BTreeMap<QueueLine, Line<A, R>>,
    /// Lines with waiting items, in turn.
    turns: VecDeque<QueueLine>,
    /// What waits, by class.
    held: BTreeMap<QueueClass, Held>,
    closed: bool,
    /// Tenants that are deleted: what is asked for them is refused.
    refused: BTreeSet<TenantId>,
    leader: Option<Waker>,
}

struct Line<A, R> {
    items: VecDeque<Item<A, R>>,
    bytes: usize,
    deficit: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Held {
    pub items: usize,
    pub bytes: usize,
}

impl<A, R> Default for Queue<A, R> {
    fn default() -> Self {
        Self::new(Knobs::default(), Arc::default())
    }
}

impl<A, R> State<A, R> {
    /// Whether one more item of this cost may wait in a line.
    fn has_room(&self, line: QueueLine, cost: usize, knobs: &Knobs) -> bool {
        let held = self.held.get(&line.class).copied().unwrap_or_default();
        // Whatever its size, an item that nothing waits before gets through.
        if held.items == 0 {
            return true;
        }
        let room = line.class.room(knobs);
        let free = Held {
            items: room.items.saturating_sub(held.items),
            bytes: room.bytes.saturating_sub(held.bytes),
        };
        if free.items == 0 || cost > free.bytes {
            return false;
        }
        let own = self.waiting.get(&line).filter(|_| line.class.is_shared());
        own.is_none_or(|own| own.items.len() < free.items && own.bytes + cost <= free.bytes)
    }
}

impl<A, R> Queue<A, R> {
    #[must_use]
    pub fn new(knobs: Knobs, disk: Arc<DiskShare>) -> Self {
        let state = State {
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
            held: BTreeMap::new(),
            closed: false,
            refused: BTreeSet::new(),
            leader: None,
        };
        Self { state: Mutex::new(state), knobs, disk }
    }

    fn state(&self) -> MutexGuard<'_, State<A, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds asks to a line; the receiver gets their answers, in order.
    pub fn push(
        &self,
        line: impl Into<QueueLine>,
        by: &Actor,
        asks: Vec<A>,
        bytes: usize,
    ) -> Result<oneshot::Receiver<Result<Vec<R>, Refusal>>, Refusal> {
        let (line, cost) = (line.into(), bytes + asks.len() * ASK_OVERHEAD_BYTES);
        let (reply, answer) = oneshot::channel();
        let mut state = self.state();
        if state.closed {
            return Err(Refusal::Stopped { reason: "the leader has stopped".to_owned() });
        }
        if line.class == QueueClass::Tenant && state.refused.contains(&line.tenant) {
            return Err(Refusal::UnknownTenant);
        }
        if !state.has_room(line, cost, &self.knobs) {
            return Err(Refusal::Busy { retry_after_ms: 1_000 });
        }
        if line.class == QueueClass::Tenant && !self.disk.claim(line.tenant, cost) {
            return Err(Refusal::NoRoom);
        }
        let held = state.held.entry(line.class).or_default();
        held.items += 1;
        held.bytes += cost;
        let new = || Line { items: VecDeque::new(), bytes: 0, deficit: 0 };
        let waiting = state.waiting.entry(line).or_insert_with(new);
        let idle = waiting.items.is_empty();
        waiting.bytes += cost;
        waiting.items.push_back(Item { by: by.clone(), asks, reply, cost });
        if idle {
            state.turns.push_back(line);
        }
        let leader = state.leader.take();
        drop(state);
        if let Some(leader) = leader {
            leader.wake();
        }
        Ok(answer)
    }

    /// Refuses what is asked for a tenant from now on. What waits is still decided.
    pub fn refuse(&self, tenant: TenantId) {
        self.state().refused.insert(tenant);
    }

    /// Whether something that was asked for a tenant waits.
    #[must_use]
    pub fn waits_for(&self, tenant: TenantId) -> bool {
        self.state().waiting.contains_key(&QueueLine::from(tenant))
    }

    /// Items for one batch: at most so many asks and bytes, but at least one item if any waits.
    pub fn pop(&self, asks_max: usize, bytes_max: usize) -> Vec<Item<A, R>> {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut batch = Vec::new();
        let (mut asks, mut bytes) = (0, 0);
        while let Some(turn) = state.turns.pop_front() {
            let line = state.waiting.get_mut(&turn).expect("a line with a turn has items");
            let held = state.held.entry(turn.class).or_default();
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
                line.bytes -= item.cost;
                held.items -= 1;
                held.bytes -= item.cost;
                asks += item.asks.len();
                bytes += item.cost;
                batch.push(item);
            }
            if line.items.is_empty() {
                state.waiting.remove(&turn);
            } else if full {
                state.turns.push_front(turn);
            } else {
                state.turns.push_back(turn);
            }
            if full {
                break;
            }
        }
        batch
    }

    /// Ready when something waits or the queue is closed. One leader polls.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if !state.turns.is_empty() || state.closed {
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
        state.held.clear();
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
        self.state().held.values().map(|held| held.items).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What waits in each class, in their order.
    #[must_use]
    pub fn all_held(&self) -> [Held; QueueClass::ALL.len()] {
        let state = self.state();
        QueueClass::ALL.map(|class| state.held.get(&class).copied().unwrap_or_default())
    }

    /// What waits in one class.
    #[must_use]
    pub fn held(&self, class: QueueClass) -> Held {
        self.state().held.get(&class).copied().unwrap_or_default()
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
    use fantail_rules::limits::{QUEUE_BYTES_MAX, QUEUE_COMMANDS_MAX};

    type Asks = Queue<u32, ()>;

    fn push(queue: &Asks, tenant: u32, ask: u32, bytes: usize) {
        queue.push(TenantId(tenant), &Actor::System, vec![ask], bytes).expect("there is room");
    }

    /// Pushes until the line is refused; returns how many items it holds.
    fn fill(queue: &Asks, line: impl Into<QueueLine>, bytes: usize) -> usize {
        let line = line.into();
        (0..).take_while(|ask| queue.push(line, &Actor::System, vec![*ask], bytes).is_ok()).count()
    }

    fn takes(queue: &Asks, line: impl Into<QueueLine>, bytes: usize) -> bool {
        queue.push(line, &Actor::System, vec![9], bytes).is_ok()
    }

    fn order(batch: &[Item<u32, ()>]) -> Vec<u32> {
        batch.iter().flat_map(|item| item.asks.clone()).collect()
    }

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
    fn what_is_asked_for_a_deleted_tenant_is_refused_and_what_waits_is_decided() {
        let queue = Asks::default();
        push(&queue, 1, 10, 1);
        queue.refuse(TenantId(1));
        let pushed = queue.push(TenantId(1), &Actor::Admin, vec![11], 1);
        assert!(matches!(pushed, Err(Refusal::UnknownTenant)));
        assert!(takes(&queue, TenantId(2), 1), "another tenant");
        assert!(takes(&queue, QueueLine::internal(TenantId(1)), 1), "its deletion");
        assert!(queue.waits_for(TenantId(1)) && queue.waits_for(TenantId(2)));
        assert!(order(&queue.pop(100, 1 << 20)).contains(&10));
        assert!(!queue.waits_for(TenantId(1)));
    }

    // fixes: correctness A15, security M8
    #[test]
    fn a_tenant_that_fills_the_queue_keeps_nobody_else_out() {
        for bytes in [1, 4 << 20] {
            let queue = Asks::default();
            let held = fill(&queue, TenantId(1), bytes);
            let is_half = held == QUEUE_COMMANDS_MAX / 2 || held == QUEUE_BYTES_MAX / 2 / bytes;
            assert!(is_half, "alone it has half of the room, not {held}");
            assert!(takes(&queue, TenantId(2), bytes), "another tenant");
            assert!(takes(&queue, QueueClass::Internal, bytes), "a take");
            assert!(takes(&queue, QueueClass::Recovery, 1), "orphans");
            assert!(takes(&queue, QueueLine::delivery(TenantId(1), false), bytes), "its own outcomes");
            assert!(takes(&queue, QueueLine::delivery(TenantId(2), true), bytes), "outcomes of others");
        }
    }

    // fixes: security M8
    #[test]
    fn however_many_tenants_fill_the_queue_there_is_room_for_one_more() {
        let queue = Asks::default();
        // One after the other fills its line: each takes half of what is left.
        for tenant in 1..=12 {
            assert_eq!(fill(&queue, TenantId(tenant), 1), QUEUE_COMMANDS_MAX >> tenant, "tenant {tenant}");
        }
        assert!(takes(&queue, TenantId(99), 1));
    }

    // fixes: correctness A15
    #[test]
    fn what_waits_in_a_class_is_bounded_in_items_and_bytes() {
        for class in QueueClass::ALL {
            for bytes in [1, 1 << 20] {
                let (queue, room) = (Asks::default(), class.room(&Knobs::default()));
                for tenant in 0..64 {
                    fill(&queue, QueueLine { class, tenant: TenantId(tenant), is_critical: false }, bytes);
                }
                let held = queue.held(class);
                assert!(held.items <= room.items && held.bytes <= room.bytes, "{class:?}: {held:?}");
            }
        }
    }

    // fixes: security M8
    #[test]
    fn a_short_disk_refuses_the_tenant_that_fills_it_and_nobody_else() {
        let disk = Arc::<DiskShare>::default();
        let queue = Asks::new(Knobs::default(), disk.clone());
        disk.set(Some(100_000));
        fill(&queue, TenantId(1), 1_000);
        let refused = queue.push(TenantId(1), &Actor::System, vec![1], 1_000).expect_err("it had its share");
        assert_eq!(refused, Refusal::NoRoom);
        assert!(takes(&queue, TenantId(2), 1_000), "another tenant");
        assert!(takes(&queue, QueueClass::Internal, 100_000), "the node itself");
        assert!(takes(&queue, QueueLine::delivery(TenantId(1), false), 100_000), "what came of its sends");
    }

    #[test]
    fn what_was_popped_makes_room_again() {
        let queue = Asks::default();
        let held = fill(&queue, TenantId(1), 1);
        assert!(!takes(&queue, TenantId(1), 1));
        while !queue.is_empty() {
            queue.pop(1_024, 2 << 20);
        }
        assert_eq!(queue.held(QueueClass::Tenant), Held::default());
        assert_eq!(fill(&queue, TenantId(1), 1), held);
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
        push(&queue, 1, 8, QUEUE_BYTES_MAX + 1);
        assert_eq!(order(&queue.pop(10, 1_000)), [8]);
    }

    #[test]
    fn a_full_queue_says_busy_and_a_closed_one_stopped() {
        let queue = Asks::default();
        fill(&queue, TenantId(1), 1);
        let refused = queue.push(TenantId(1), &Actor::System, vec![1], 1).expect_err("full");
        assert_eq!(refused, Refusal::Busy { retry_after_ms: 1_000 });
        queue.close();
        assert!(matches!(queue.push(TenantId(2), &Actor::System, vec![1], 1), Err(Refusal::Stopped { .. })));
    }
}
