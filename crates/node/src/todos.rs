//! What a shard has to do, remembered beside its to-do rows, in turns of the tenants.
//!
//! Comes from: the shard's batches, as offers, once they are durable. Goes to: `errands`, and what takes long to `long_effects`. A table whose rows come and go
//! is slow to walk, as what is gone lies about for a while; so the rows are only walked after a start, after more came
//! than is remembered here, and after an errand failed.
//!
//! A walk of more rows than a tenant's share goes on behind them the next time, if nothing is remembered by then: it does not
//! pass again what is gone. At the end of the rows it begins anew, as others may have come meanwhile.
//!
//! Invariant: however much one tenant has to be done, another one waits for its turn and no longer. A walk returns a share
//! of each tenant's rows, and comes after so many that were taken, even if more is remembered.

use fantail_machine::shard::Offer;
use fantail_machine::tables::seek::{SharedRows, TenantShares};
use fantail_machine::tables::todo::{self, Todo, TodoWorker};
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::fair_queue::FairQueue;
use fantail_rules::ids::TenantId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One over the part of a walk that is one tenant's. After as many that were taken, rows that are missed are walked although
/// something is remembered: a walk costs no more than a few rows for each of them.
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
    /// Since the last walk, while rows are missed.
    taken: usize,
    /// The tenant with which the next walk begins.
    from: TenantId,
    /// The last row of each tenant that had more than its share. The next walk goes on behind it.
    behind: BTreeMap<TenantId, Todo>,
}

/// Rows to be walked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TodoLook {
    worker: TodoWorker,
    shares: TenantShares,
    behind: BTreeMap<TenantId, Todo>,
}

impl TodoLook {
    pub fn rows(&self, tables: &dyn Tables) -> Result<SharedRows<Todo>, TablesError> {
        todo::waiting_of(tables, self.worker, self.shares, &self.behind)
    }
}

/// What a walk found of one tenant.
struct FoundOfTenant {
    rows: usize,
    /// The last one that is remembered, with all before it.
    last: Option<Todo>,
    is_whole: bool,
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
    InTables(TodoLook),
}

impl State {
    /// Whether the rows are to be walked now.
    fn begins_walk(&mut self, taken_max: usize) -> bool {
        let is_due = self.queue.is_empty() || self.taken >= taken_max;
        if !self.is_missed || !is_due {
            return false;
        }
        if !self.queue.is_empty() {
            // What is remembered is among the rows, if they are walked from the beginning.
            self.queue.clear();
            self.behind.clear();
        }
        (self.is_missed, self.taken) = (false, 0);
        true
    }

    fn hold(&mut self, todo: Todo) -> bool {
        let is_held = self.queue.push(todo.tenant(), todo);
        self.is_missed |= !is_held;
        is_held
    }

    /// Remembers what was walked.
    fn hold_found(&mut self, rows: Vec<Todo>) -> BTreeMap<TenantId, FoundOfTenant> {
        let mut tenants: BTreeMap<TenantId, FoundOfTenant> = BTreeMap::new();
        for todo in rows {
            let is_held = self.hold(todo);
            let first = FoundOfTenant { rows: 0, last: None, is_whole: true };
            let found = tenants.entry(todo.tenant()).or_insert(first);
            found.rows += 1;
            found.is_whole &= is_held;
            if found.is_whole {
                found.last = Some(todo);
            }
        }
        tenants
    }
}

impl Todos {
    /// For one worker.
    #[must_use]
    pub fn of(worker: TodoWorker, held_max: usize) -> Self {
        let queue = FairQueue::new(held_max);
        let (from, behind) = (TenantId(0), BTreeMap::new());
        let state = State { queue, is_missed: true, taken: 0, from, behind };
        Self { worker, state: Mutex::new(state), held_max }
    }

    #[must_use]
    pub fn worker(&self) -> TodoWorker {
        self.worker
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn per_tenant_max(&self) -> usize {
        (self.held_max / SHARE).max(1)
    }

    fn look(&self, state: &State) -> TodoLook {
        let (from, per_tenant_max, limit) = (state.from, self.per_tenant_max(), self.held_max);
        let shares = TenantShares { from, per_tenant_max, limit };
        TodoLook { worker: self.worker, shares, behind: state.behind.clone() }
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
        for todo in todos {
            state.hold(todo);
        }
    }

    /// What is next, so much at most.
    pub fn take(&self, limit: usize) -> Found {
        self.take_where(limit, |_| true)
    }

    /// What is next of the tenants that may have a turn.
    pub fn take_where(&self, limit: usize, may: impl Fn(TenantId) -> bool) -> Found {
        let mut state = self.state();
        if state.begins_walk(self.per_tenant_max()) {
            return Found::InTables(self.look(&state));
        }
        let taken: Vec<Todo> =
            std::iter::from_fn(|| state.queue.pop_where(&may)).take(limit).map(|(_, todo)| todo).collect();
        if state.is_missed {
            state.taken = state.taken.saturating_add(taken.len());
        }
        Found::Here(taken)
    }

    /// What the rows say.
    pub fn found(&self, found: SharedRows<Todo>) {
        let mut guard = self.state();
        let state = &mut *guard;
        let began_behind = std::mem::take(&mut state.behind);
        // Tenants may be left that were not looked at.
        let is_full = found.is_cut && found.rows.len() >= self.held_max;
        state.is_missed |= found.is_cut;
        state.from = found.next;
        let tenants = state.hold_found(found.rows);
        for (tenant, of_tenant) in &tenants {
            let is_cut = of_tenant.rows >= self.per_tenant_max() || is_full && *tenant == found.next;
            if found.is_cut && is_cut || !of_tenant.is_whole {
                let last = of_tenant.last.or_else(|| began_behind.get(tenant).copied());
                state.behind.extend(last.map(|last| (*tenant, last)));
            }
        }
        for (tenant, todo) in began_behind {
            if is_full && !tenants.contains_key(&tenant) {
                state.behind.insert(tenant, todo);
            } else if !state.behind.contains_key(&tenant) {
                // Its rows came to an end. They are looked at from the beginning once more.
                state.is_missed = true;
            }
        }
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
    use fantail_ports::tables::{KeyRange, Order, Read, Visit};
    use fantail_rules::ids::{KeyNo, UserNo};
    use std::cell::Cell;

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
        assert!(walk <= Some(HELD_MAX / SHARE), "{walk:?}");
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

    /// Rows of a table that pays for those that are gone, too, until it is compacted.
    #[derive(Default)]
    struct Rows {
        /// Whether it is still there.
        rows: BTreeMap<Vec<u8>, bool>,
        visited: Cell<usize>,
    }

    impl Tables for Rows {
        fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
            let is_there = self.rows.get(key).is_some_and(|is_there| *is_there);
            visit(is_there.then_some(&[]));
            Ok(())
        }

        fn scan(&self, range: KeyRange<'_>, _: Order, visit: Visit<'_>) -> Result<(), TablesError> {
            for (key, is_there) in self.rows.range(range.from.to_vec()..range.to.to_vec()) {
                self.visited.set(self.visited.get() + 1);
                if *is_there && visit(key, &[]).is_break() {
                    break;
                }
            }
            Ok(())
        }
    }

    fn replan(tenant: u32, user: u64) -> Todo {
        Todo::Replan { tenant: TenantId(tenant), user: UserNo(user) }
    }

    /// Takes one effect after the other and does it, as the worker of long effects does.
    fn do_all(todos: &Todos, rows: &mut Rows, mut done: impl FnMut(&Todos, &mut Rows, Todo)) {
        loop {
            match todos.take_where(1, |_| true) {
                Found::Here(found) => {
                    let Some(todo) = found.first().copied() else { return };
                    rows.rows.insert(todo.key(), false);
                    done(todos, rows, todo);
                }
                Found::InTables(look) => todos.found(look.rows(rows).expect("rows")),
            }
        }
    }

    #[test]
    fn an_effect_costs_few_rows_however_many_wait() {
        const MANY: u64 = 20_000;
        let todos = Todos::of(TodoWorker::Replans, 16_384);
        let mut rows = Rows::default();
        rows.rows.extend((0..MANY).map(|user| (replan(1, user).key(), true)));
        let mut done = 0;
        do_all(&todos, &mut rows, |_, _, _| done += 1);
        assert_eq!(done, MANY);
        let visited = rows.visited.get() as u64;
        assert!(visited <= 10 * MANY, "{visited} rows for {MANY} effects");
    }

    /// They come while much more waits than can be remembered, before and behind the place of the walk.
    #[test]
    fn what_comes_during_a_walk_in_parts_is_found() {
        for held_max in [3, 16, 100] {
            let todos = Todos::of(TodoWorker::Replans, held_max);
            let mut rows = Rows::default();
            let all: Vec<Todo> =
                (1..4).flat_map(|tenant| (10..310).map(move |no| replan(tenant, 2 * no))).collect();
            rows.rows.extend(all.iter().map(|todo| (todo.key(), true)));
            let mut count = 0;
            do_all(&todos, &mut rows, |todos, rows, _| {
                count += 1;
                if count % 7 == 0 {
                    let late = replan(1 + count % 4, u64::from(count * 37 % 1_000));
                    if rows.rows.insert(late.key(), true) != Some(true) && count % 2 == 0 {
                        todos.offer(&[Offer::Todo(late)]);
                    } else {
                        todos.miss();
                    }
                }
            });
            let left = rows.rows.values().filter(|is_there| **is_there).count();
            assert_eq!(left, 0, "{held_max}");
        }
    }
}
