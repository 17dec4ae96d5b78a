//! What a directory wants of the shards, remembered beside its to-do rows and sorted by shard.
//!
//! Comes from: the directory's batches, as offers, once they are durable. Goes to: `claims`, shard by shard. Each row is looked at
//! once to learn its shard. All rows are walked only after a start, after more came than is remembered, and after an
//! errand failed: a walk for each shard and batch would cost the square of a mass change of addresses.

use fantail_machine::shard::Offer;
use fantail_machine::tables::directory::DirectoryTodo;
use fantail_rules::ids::ShardNo;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is held at most, and read at once: some 700 KB.
pub const REMEMBERED_MAX: usize = 16_384;

pub struct DirectoryTodos(Mutex<State>);

struct State {
    by_shard: BTreeMap<ShardNo, VecDeque<DirectoryTodo>>,
    sorted: usize,
    /// Nobody has looked yet whose they are.
    unsorted: Vec<DirectoryTodo>,
    /// Rows may exist that are not here.
    is_missed: bool,
}

/// Whose shard has to be found out.
#[derive(PartialEq, Eq, Debug)]
pub enum Unsorted {
    Nothing,
    Here(Vec<DirectoryTodo>),
    /// At most [`REMEMBERED_MAX`] of them.
    InTables,
}

impl Default for DirectoryTodos {
    fn default() -> Self {
        let (by_shard, unsorted) = (BTreeMap::new(), Vec::new());
        Self(Mutex::new(State { by_shard, sorted: 0, unsorted, is_missed: true }))
    }
}

impl DirectoryTodos {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what a batch brought.
    pub fn offer(&self, offers: &[Offer]) {
        let mut state = self.state();
        for offer in offers {
            let Offer::Directory(todo) = offer else { continue };
            if state.sorted + state.unsorted.len() < REMEMBERED_MAX {
                state.unsorted.push(*todo);
            } else {
                state.is_missed = true;
            }
        }
    }

    /// What is to be sorted next. The caller sorts it, or says that it is missed.
    pub fn unsorted(&self) -> Unsorted {
        let mut state = self.state();
        if !state.unsorted.is_empty() {
            return Unsorted::Here(std::mem::take(&mut state.unsorted));
        }
        if state.sorted == 0 && std::mem::take(&mut state.is_missed) {
            return Unsorted::InTables;
        }
        Unsorted::Nothing
    }

    /// These are of these shards.
    pub fn sort(&self, todos: impl Iterator<Item = (ShardNo, DirectoryTodo)>) {
        let mut state = self.state();
        for (shard, todo) in todos {
            state.by_shard.entry(shard).or_default().push_back(todo);
            state.sorted += 1;
        }
    }

    pub fn take(&self, shard: ShardNo, limit: usize) -> Vec<DirectoryTodo> {
        let mut state = self.state();
        let Some(own) = state.by_shard.get_mut(&shard) else { return Vec::new() };
        let count = own.len().min(limit);
        let taken: Vec<DirectoryTodo> = own.drain(..count).collect();
        state.sorted -= taken.len();
        taken
    }

    /// What was taken is not done.
    pub fn miss(&self) {
        self.state().is_missed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::{AddressHash, TenantId};

    fn todo(no: u64) -> DirectoryTodo {
        let mut address = [0; 16];
        address[..8].copy_from_slice(&no.to_be_bytes());
        DirectoryTodo::Tell { tenant: TenantId(1), address: AddressHash(address) }
    }

    fn sort(todos: &DirectoryTodos, found: &[DirectoryTodo]) {
        todos.sort(found.iter().zip(0u16..).map(|(todo, at)| (ShardNo(at % 4), *todo)));
    }

    // fixes: correctness C6
    #[test]
    fn a_mass_change_of_addresses_looks_at_each_row_once() {
        let todos = DirectoryTodos::default();
        assert_eq!(todos.unsorted(), Unsorted::InTables, "after a start");
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
                    Unsorted::InTables => walks += 1,
                }
                done += todos.take(shard, 64).len();
            }
        }
        assert_eq!((walks, looked_at, done), (0, 40 * 256, 40 * 256));
    }

    #[test]
    fn rows_are_walked_again_when_something_may_be_missed() {
        let todos = DirectoryTodos::default();
        assert_eq!(todos.unsorted(), Unsorted::InTables);
        sort(&todos, &[todo(1), todo(2)]);
        assert_eq!(todos.unsorted(), Unsorted::Nothing);
        assert_eq!(todos.take(ShardNo(0), 9), [todo(1)]);
        todos.miss();
        assert_eq!(todos.unsorted(), Unsorted::Nothing, "first what is known");
        assert_eq!(todos.take(ShardNo(1), 9), [todo(2)]);
        assert_eq!(todos.unsorted(), Unsorted::InTables);
        let many: Vec<Offer> = (0..=REMEMBERED_MAX as u64).map(|no| Offer::Directory(todo(no))).collect();
        todos.offer(&many);
        let Unsorted::Here(found) = todos.unsorted() else { panic!("they are remembered") };
        assert_eq!(found.len(), REMEMBERED_MAX);
        assert_eq!(todos.unsorted(), Unsorted::InTables, "one more came");
    }
}
