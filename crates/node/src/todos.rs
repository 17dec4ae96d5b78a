//! What a shard has to do, remembered beside its to-do rows.
//!
//! Comes from: the shard's batches, as offers, once they are durable. Goes to: `errands`, and what takes long to `long_effects`. A table whose rows come and go
//! is slow to walk, as what is gone lies about for a while; so the rows are only walked after a start, after more came
//! than is remembered here, and after an errand failed.

use fantail_machine::shard::Offer;
use fantail_machine::tables::todo::Todo;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub struct Todos {
    /// Which of them: those that take long, or the others.
    are_long: bool,
    state: Mutex<State>,
    /// What is held at most, and read at once.
    held_max: usize,
}

struct State {
    waiting: VecDeque<Todo>,
    /// Rows may exist that are not here.
    is_missed: bool,
}

/// Where to find what is to be done next.
#[derive(PartialEq, Eq, Debug)]
pub enum Found {
    Here(Vec<Todo>),
    InTables,
}

impl Todos {
    fn new(are_long: bool, held_max: usize) -> Self {
        let state = State { waiting: VecDeque::new(), is_missed: true };
        Self { are_long, state: Mutex::new(state), held_max }
    }

    /// For those that take long.
    #[must_use]
    pub fn long(held_max: usize) -> Self {
        Self::new(true, held_max)
    }

    /// For the others.
    #[must_use]
    pub fn short(held_max: usize) -> Self {
        Self::new(false, held_max)
    }

    #[must_use]
    pub fn held_max(&self) -> usize {
        self.held_max
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what a batch brought; says whether there was anything.
    pub fn offer(&self, offers: &[Offer]) -> bool {
        let mut todos = offers.iter().filter_map(|offer| match offer {
            Offer::Todo(todo) => Some(*todo).filter(|todo| todo.is_long() == self.are_long),
            Offer::Walk
            | Offer::Work { .. }
            | Offer::Timer(_)
            | Offer::Window { .. }
            | Offer::Directory(_) => None,
        });
        let Some(first) = todos.next() else { return false };
        let mut state = self.state();
        for todo in std::iter::once(first).chain(todos) {
            if state.waiting.len() < self.held_max {
                state.waiting.push_back(todo);
            } else {
                state.is_missed = true;
            }
        }
        true
    }

    pub fn take(&self, limit: usize) -> Found {
        let mut state = self.state();
        if state.waiting.is_empty() && std::mem::take(&mut state.is_missed) {
            return Found::InTables;
        }
        let count = state.waiting.len().min(limit);
        Found::Here(state.waiting.drain(..count).collect())
    }

    /// What the rows say: all of them, if they are fewer than are read at once.
    pub fn found(&self, todos: Vec<Todo>) {
        let mut state = self.state();
        state.is_missed |= todos.len() >= self.held_max;
        state.waiting.extend(todos);
    }

    /// What was taken is not done.
    pub fn miss(&self) {
        self.state().is_missed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::{KeyNo, TenantId};

    const HELD_MAX: usize = 100;

    fn todo(key: u64) -> Todo {
        Todo::Shred { tenant: TenantId(1), key: KeyNo(key) }
    }

    #[test]
    fn rows_are_walked_only_when_something_may_be_missed() {
        let todos = Todos::short(HELD_MAX);
        assert_eq!(todos.take(2), Found::InTables, "after a start");
        todos.found(vec![todo(9)]);
        assert_eq!(todos.take(2), Found::Here(vec![todo(9)]));
        assert_eq!(todos.take(2), Found::Here(Vec::new()));
        assert!(!todos.offer(&[]));
        assert!(todos.offer(&[Offer::Todo(todo(1)), Offer::Todo(todo(2)), Offer::Todo(todo(3))]));
        assert_eq!(todos.take(2), Found::Here(vec![todo(1), todo(2)]));
        todos.miss();
        assert_eq!(todos.take(2), Found::Here(vec![todo(3)]));
        assert_eq!(todos.take(2), Found::InTables, "an errand failed");
        assert_eq!(todos.take(2), Found::Here(Vec::new()));
        let many: Vec<Offer> = (0..=HELD_MAX as u64).map(|key| Offer::Todo(todo(key))).collect();
        todos.offer(&many);
        assert!(matches!(todos.take(HELD_MAX), Found::Here(_)));
        assert_eq!(todos.take(2), Found::InTables, "too many to remember");
    }
}
