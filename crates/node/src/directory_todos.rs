//! What a directory wants of the shards, remembered beside its to-do rows and sorted by shard.
//!
//! Comes from: the directory's batches, as offers, once they are durable. Goes to: `claims`, shard by shard. Each row is looked at
//! once to learn its shard. All rows are walked only after a start, after more came than is remembered, and after an
//! errand failed: a walk for each shard and batch would cost the square of a mass change of addresses.
//!
//! Invariant: however many addresses of one tenant change, another one waits for its turn and no longer.

use fantail_machine::shard::Offer;
use fantail_machine::tables::directory::DirectoryTodo;
use fantail_machine::tables::seek::TenantShares;
use fantail_rules::fair_queue::FairQueue;
use fantail_rules::ids::{ShardNo, TenantId};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a walk returns of one tenant at most: one in so many of all rows.
const SHARE: usize = 4;
/// Takes after which rows that are missed are walked, although something is remembered.
const TAKES_BEFORE_WALK: u32 = 64;

pub struct DirectoryTodos {
    state: Mutex<State>,
    /// What is held at most, for the directory and for each shard, and read at once.
    held_max: usize,
}

struct State {
    by_shard: BTreeMap<ShardNo, FairQueue<DirectoryTodo>>,
    sorted: usize,
    /// Nobody has looked yet whose they are.
    unsorted: FairQueue<DirectoryTodo>,
    /// Rows may exist that are not here.
    is_missed: bool,
    takes: u32,
    /// The tenant with which the next walk begins.
    from: TenantId,
}

/// Whose shard has to be found out.
#[derive(PartialEq, Eq, Debug)]
pub enum Unsorted {
    Nothing,
    Here(Vec<DirectoryTodo>),
    InTables(TenantShares),
}

impl DirectoryTodos {
    #[must_use]
    pub fn new(held_max: usize) -> Self {
        let state = State {
            by_shard: BTreeMap::new(),
            sorted: 0,
            unsorted: FairQueue::new(held_max),
            is_missed: true,
            takes: 0,
            from: TenantId(0),
        };
        Self { state: Mutex::new(state), held_max }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what a batch brought.
    pub fn offer(&self, offers: &[Offer]) {
        let mut state = self.state();
        for offer in offers {
            let Offer::Directory(todo) = offer else { continue };
            if !state.unsorted.push(todo.tenant(), *todo) {
                state.is_missed = true;
            }
        }
    }

    /// What is to be sorted next. The caller sorts it, or says that it is missed.
    pub fn unsorted(&self) -> Unsorted {
        let mut state = self.state();
        let is_due = state.sorted == 0 && state.unsorted.is_empty() || state.takes >= TAKES_BEFORE_WALK;
        if state.is_missed && is_due {
            // What is remembered is among the rows.
            state.by_shard.clear();
            state.unsorted.clear();
            (state.sorted, state.is_missed, state.takes) = (0, false, 0);
            let from = state.from;
            return Unsorted::InTables(TenantShares {
                from,
                per_tenant_max: (self.held_max / SHARE).max(1),
                limit: self.held_max,
            });
        }
        let here: Vec<DirectoryTodo> =
            std::iter::from_fn(|| state.unsorted.pop()).map(|(_, todo)| todo).collect();
        if here.is_empty() { Unsorted::Nothing } else { Unsorted::Here(here) }
    }

    /// These are of these shards.
    pub fn sort(&self, todos: impl Iterator<Item = (ShardNo, DirectoryTodo)>) {
        let mut state = self.state();
        for (shard, todo) in todos {
            let own = state.by_shard.entry(shard).or_insert_with(|| FairQueue::new(self.held_max));
            if own.push(todo.tenant(), todo) {
                state.sorted += 1;
            } else {
                state.is_missed = true;
            }
        }
    }

    /// The next ones of a shard.
    pub fn take(&self, shard: ShardNo, limit: usize) -> Vec<DirectoryTodo> {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(own) = state.by_shard.get_mut(&shard) else { return Vec::new() };
        let taken: Vec<DirectoryTodo> =
            std::iter::from_fn(|| own.pop()).take(limit).map(|(_, todo)| todo).collect();
        state.sorted -= taken.len();
        state.takes = state.takes.saturating_add(u32::from(!taken.is_empty() && state.is_missed));
        taken
    }

    /// What was taken is not done.
    pub fn miss(&self) {
        self.state().is_missed = true;
    }

    /// A walk did not return all rows. The next one begins with this tenant.
    pub fn is_cut(&self, next: TenantId) {
        let mut state = self.state();
        (state.is_missed, state.from) = (true, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::AddressHash;

    const HELD_MAX: usize = 16_384;

    fn todo_of(tenant: u32, no: u64) -> DirectoryTodo {
        let mut address = [0; 16];
        address[..8].copy_from_slice(&no.to_be_bytes());
        DirectoryTodo::Tell { tenant: TenantId(tenant), address: AddressHash(address) }
    }

    fn todo(no: u64) -> DirectoryTodo {
        todo_of(1, no)
    }

    fn is_in_tables(todos: &DirectoryTodos) -> bool {
        matches!(todos.unsorted(), Unsorted::InTables(_))
    }

    fn sort(todos: &DirectoryTodos, found: &[DirectoryTodo]) {
        todos.sort(found.iter().zip(0u16..).map(|(todo, at)| (ShardNo(at % 4), *todo)));
    }

    // fixes: correctness C6
    #[test]
    fn a_mass_change_of_addresses_looks_at_each_row_once() {
        let todos = DirectoryTodos::new(HELD_MAX);
        assert!(is_in_tables(&todos), "after a start");
        sort(&todos, &[]);
        let (mut walks, mut looked_at, mut done) = (0, 0, 0);
        for batch in 0..40 {
            let offers: Vec<Offer> = (0..256).map(|no| Offer::Directory(todo(batch * 256 + no))).collect();
            todos.offer(&offers);
            // Every shard is rung after every batch.
            for shard in (0..4).map(ShardNo) {
                match todos.unsorted() {
                    Unsorted::Nothing => {}
                    Unsorted::Here(found) => {
                        looked_at += found.len();
                        sort(&todos, &found);
                    }
                    Unsorted::InTables(_) => walks += 1,
                }
                done += todos.take(shard, 64).len();
            }
        }
        assert_eq!((walks, looked_at, done), (0, 40 * 256, 40 * 256));
    }

    #[test]
    fn rows_are_walked_again_when_something_may_be_missed() {
        let todos = DirectoryTodos::new(HELD_MAX);
        assert!(is_in_tables(&todos));
        sort(&todos, &[todo(1), todo(2)]);
        assert_eq!(todos.unsorted(), Unsorted::Nothing);
        assert_eq!(todos.take(ShardNo(0), 9), [todo(1)]);
        todos.miss();
        assert_eq!(todos.unsorted(), Unsorted::Nothing, "first what is known");
        assert_eq!(todos.take(ShardNo(1), 9), [todo(2)]);
        assert!(is_in_tables(&todos));
        let many: Vec<Offer> = (0..=HELD_MAX as u64).map(|no| Offer::Directory(todo(no))).collect();
        todos.offer(&many);
        let Unsorted::Here(found) = todos.unsorted() else { panic!("they are remembered") };
        assert_eq!(found.len(), HELD_MAX / 2, "one tenant has half of the room");
        assert!(is_in_tables(&todos), "more came");
        todos.is_cut(TenantId(3));
        let Unsorted::InTables(shares) = todos.unsorted() else { panic!("there are more rows") };
        assert_eq!(shares.from, TenantId(3));
    }

    #[test]
    fn a_mass_change_of_one_tenant_delays_another_by_a_turn() {
        let todos = DirectoryTodos::new(HELD_MAX);
        assert!(is_in_tables(&todos));
        let shard = ShardNo(0);
        let flood: Vec<Offer> = (0..20_000).map(|no| Offer::Directory(todo(no))).collect();
        todos.offer(&flood);
        todos.offer(&[Offer::Directory(todo_of(2, 7))]);
        let Unsorted::Here(found) = todos.unsorted() else { panic!("they are remembered") };
        todos.sort(found.into_iter().map(|todo| (shard, todo)));
        assert_eq!(todos.take(shard, 2), [todo(0), todo_of(2, 7)]);
        // A row that is not remembered is found although the flood goes on.
        todos.miss();
        let walk = (1..).find(|_| {
            todos.offer(&flood[..10]);
            let is_walk = is_in_tables(&todos);
            todos.take(shard, 1);
            is_walk
        });
        assert!(walk <= Some(TAKES_BEFORE_WALK + 1), "{walk:?}");
    }
}
