//! Ids of messages from a provider that are durable. A repeat of one changes nothing.
//!
//! Invariant: at most `most` ids of at most [`ID_BYTES_MAX`] bytes are held; the oldest make room. They are not stored: after a
//! restart, or a change of the account, a repeat is not known as one.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ids of providers are less than half as long; a longer one is not remembered.
pub const ID_BYTES_MAX: usize = 128;

pub struct Remembered {
    most: usize,
    ids: Mutex<RememberedIds>,
}

#[derive(Default)]
struct RememberedIds {
    known: BTreeSet<String>,
    /// The same, oldest first.
    order: VecDeque<String>,
}

impl Remembered {
    #[must_use]
    pub fn new(most: usize) -> Self {
        assert!(most > 0, "something is remembered");
        Self { most, ids: Mutex::default() }
    }

    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.ids().known.contains(id)
    }

    pub fn insert(&self, id: String) {
        let mut ids = self.ids();
        if id.len() > ID_BYTES_MAX || !ids.known.insert(id.clone()) {
            return;
        }
        ids.order.push_back(id);
        if ids.order.len() > self.most
            && let Some(oldest) = ids.order.pop_front()
        {
            ids.known.remove(&oldest);
        }
        assert!(ids.order.len() == ids.known.len() && ids.order.len() <= self.most, "both hold the same");
    }

    fn ids(&self) -> MutexGuard<'_, RememberedIds> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered() {
        let remembered = Remembered::new(2);
        for (inserted, known) in [("a", "a"), ("a", "a"), ("b", "ab"), ("c", "bc"), ("b", "bc"), ("a", "ca")]
        {
            remembered.insert(inserted.to_owned());
            let found: Vec<bool> = ["a", "b", "c"].iter().map(|id| remembered.contains(id)).collect();
            let expected: Vec<bool> = ["a", "b", "c"].iter().map(|id| known.contains(id)).collect();
            assert_eq!(found, expected, "after {inserted}");
        }
    }

    #[test]
    fn long_ids_are_not_kept() {
        let remembered = Remembered::new(2);
        let long = "x".repeat(ID_BYTES_MAX + 1);
        remembered.insert(long.clone());
        assert!(!remembered.contains(&long));
    }
}
