//! What a shard has to do, remembered beside its to-do rows, in turns of the tenants.
//!
//! Comes from: the shard's batches, as offers, once they are durable. Goes to: `errands`, and what takes long to `long_effects`. A table whose rows come and go
//! is slow to walk, as what is gone lies about for a while; so the rows are only walked after a start, after more came
//! than is remembered here, and after an errand failed.
//!
//! Invariant: however much one tenant has to be done, another one waits for its turn and no longer. A walk returns a share
//! of each tenant's rows, and comes after so many turns, even if more is remembered.

use fantail_machine::shard::Offer;
use fantail_machine::tables::seek::{SharedRows, TenantShares};
use fantail_machine::tables::todo::{Todo, TodoWorker};
use fantail_rules::fair_queue::FairQueue;
use fantail_rules::ids::TenantId;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Takes after which rows that are missed are walked, although something is remembered.
const TAKES_BEFORE_WALK: u32 = 16;
/// One over the part of a walk that is one tenant's.
const SHARE: usize = 4;

pub struct Todos {
    worker: TodoWorker,
    state: Mutex<State>,
    /// What is held at most, and read at once.
    held_max: usize,
}

struct State {
    queue: FairQueue<Todo>,
    /// Rows may exist that are not here.
    is_missed: bool,
    takes: u32,
    /// The tenant with which the next walk begins.
    from: TenantId,
}

/// What a shard has to do that takes long.
#[derive(Clone)]
pub struct LongTodos {
    pub replans: Arc<Todos>,
    pub halts: Arc<Todos>,
    pub erasures: Arc<Todos>,
}

impl LongTodos {
    #[must_use]
    pub fn new(held_max: usize) -> Self {
        let of = |worker| Arc::new(Todos::of(worker, held_max));
        let [replans, halts, erasures] =
            [TodoWorker::Replans, TodoWorker::Halts, TodoWorker::Erasures].map(of);
        Self { replans, halts, erasures }
    }
}

/// Where to find what is to be done next.
#[derive(PartialEq, Eq, Debug)]
pub enum Found {
    Here(Vec<Todo>),
    InTables(TenantShares),
}

impl State {
    /// Whether the rows are to be walked now. What is remembered is among them.
    fn begins_walk(&mut self) -> bool {
        let is_due = self.queue.is_empty() || self.takes >= TAKES_BEFORE_WALK;
        if !self.is_missed || !is_due {
            return false;
        }
        self.queue.clear();
        (self.is_missed, self.takes) = (false, 0);
        true
    }

    fn hold(&mut self, todo: Todo) {
        if !self.queue.push(todo.tenant(), todo) {
            self.is_missed = true;
        }
    }
}

impl Todos {
    /// For one worker.
    #[must_use]
    pub fn of(worker: TodoWorker, held_max: usize) -> Self {
        let queue = FairQueue::new(held_max);
        let state = State { queue, is_missed: true, takes: 0, from: TenantId(0) };
        Self { worker, state: Mutex::new(state), held_max }
    }

    #[must_use]
    pub fn worker(&self) -> TodoWorker {
        self.worker
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shares(&self, from: TenantId) -> TenantShares {
        TenantShares { from, per_tenant_max: (self.held_max / SHARE).max(1), limit: self.held_max }
    }

    /// Remembers what a batch brought.
    pub fn offer(&self, offers: &[Offer]) {
        let todos = offers.iter().filter_map(|offer| match offer {
            Offer::Todo(todo) => Some(*todo).filter(|todo| todo.worker() == self.worker),
            Offer::Walk
            | Offer::Work { .. }
            | Offer::Timer(_)
            | Offer::Window { .. }
            | Offer::Directory(_) => None,
        });
        let mut state = self.state();
        todos.for_each(|todo| state.hold(todo));
    }

    /// What is next, so much at most.
    pub fn take(&self, limit: usize) -> Found {
        self.take_where(limit, |_| true)
    }

    /// What is next of the tenants that may have a turn.
    pub fn take_where(&self, limit: usize, may: impl Fn(TenantId) -> bool) -> Found {
        let mut state = self.state();
        if state.begins_walk() {
            return Found::InTables(self.shares(state.from));
        }
        let taken: Vec<Todo> =
            std::iter::from_fn(|| state.queue.pop_where(&may)).take(limit).map(|(_, todo)| todo).collect();
        state.takes = state.takes.saturating_add(u32::from(!taken.is_empty() && state.is_missed));
        Found::Here(taken)
    }

    /// What the rows say.
    pub fn found(&self, found: SharedRows<Todo>) {
        let mut state = self.state();
        state.is_missed |= found.is_cut;
        state.from = found.next;
        found.rows.into_iter().for_each(|todo| state.hold(todo));
    }

    /// What was taken goes on: it is the next one of its tenant.
    pub fn give_back(&self, todo: Todo) {
        self.state().queue.give_back(todo.tenant(), todo);
    }

    /// What was taken is not done.
    pub fn miss(&self) {
        self.state().is_missed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::KeyNo;

    const HELD_MAX: usize = 100;

    fn todo_of(tenant: u32, key: u64) -> Todo {
        Todo::Shred { tenant: TenantId(tenant), key: KeyNo(key) }
    }

    fn todo(key: u64) -> Todo {
        todo_of(1, key)
    }

    fn todos() -> Todos {
        Todos::of(TodoWorker::Errands, HELD_MAX)
    }

    fn rows(rows: Vec<Todo>, is_cut: bool) -> SharedRows<Todo> {
        SharedRows { rows, is_cut, next: TenantId(0) }
    }

    fn is_in_tables(todos: &Todos) -> bool {
        matches!(todos.take(2), Found::InTables(_))
    }

    #[test]
    fn rows_are_walked_only_when_something_may_be_missed() {
        let todos = todos();
        assert!(is_in_tables(&todos), "after a start");
        todos.found(rows(vec![todo(9)], false));
        assert_eq!(todos.take(2), Found::Here(vec![todo(9)]));
        assert_eq!(todos.take(2), Found::Here(Vec::new()));
        todos.offer(&[Offer::Walk]);
        assert_eq!(todos.take(2), Found::Here(Vec::new()));
        todos.offer(&[Offer::Todo(todo(1)), Offer::Todo(todo(2)), Offer::Todo(todo(3))]);
        assert_eq!(todos.take(2), Found::Here(vec![todo(1), todo(2)]));
        todos.miss();
        assert_eq!(todos.take(2), Found::Here(vec![todo(3)]));
        assert!(is_in_tables(&todos), "an errand failed");
        assert_eq!(todos.take(2), Found::Here(Vec::new()));
        let many: Vec<Offer> = (0..=HELD_MAX as u64).map(|key| Offer::Todo(todo(key))).collect();
        todos.offer(&many);
        assert!(matches!(todos.take(HELD_MAX), Found::Here(_)));
        assert!(is_in_tables(&todos), "too many to remember");
    }

    /// The effects of one tenant are more than can be remembered, all the time.
    #[test]
    fn a_flood_of_one_tenant_delays_another_by_a_turn_and_hides_no_row() {
        let todos = todos();
        assert!(is_in_tables(&todos));
        let flood: Vec<Offer> = (0..10_000).map(|key| Offer::Todo(todo_of(1, key))).collect();
        todos.offer(&flood);
        todos.offer(&[Offer::Todo(todo_of(2, 7))]);
        assert_eq!(todos.take(2), Found::Here(vec![todo_of(1, 0), todo_of(2, 7)]));
        // A row that is not remembered is found although the flood goes on.
        todos.miss();
        let walk = (1..).find(|_| {
            todos.offer(&flood[..10]);
            is_in_tables(&todos)
        });
        assert!(walk <= Some(TAKES_BEFORE_WALK + 1), "{walk:?}");
        let share: Vec<Todo> = (0..HELD_MAX as u64 / 4).map(|key| todo_of(1, key)).collect();
        todos.found(rows([share, vec![todo_of(2, 8)]].concat(), true));
        let Found::Here(next) = todos.take(2) else { panic!("they are remembered") };
        assert!(next.contains(&todo_of(2, 8)));
    }

    #[test]
    fn what_goes_on_is_next() {
        let todos = todos();
        assert!(is_in_tables(&todos));
        todos.offer(&[Offer::Todo(todo(1)), Offer::Todo(todo(2))]);
        assert_eq!(todos.take(1), Found::Here(vec![todo(1)]));
        todos.give_back(todo(1));
        assert_eq!(todos.take_where(2, |tenant| tenant != TenantId(1)), Found::Here(Vec::new()));
        assert_eq!(todos.take(2), Found::Here(vec![todo(1), todo(2)]));
    }
}
