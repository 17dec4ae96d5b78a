//! Users whose entries lie in too many small rows, waiting to be consolidated. Readers and fan-out put them in.
//!
//! Bounded: a user who does not fit is put in again by the next read or write that finds the rows.

use super::keys::Owner;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// About a megabyte.
const WAITING_MAX: usize = 16_384;

#[derive(Default)]
pub struct Crowded {
    waiting: Mutex<BTreeSet<Owner>>,
}

impl Crowded {
    /// `false` if the queue is full.
    pub fn push(&self, owner: Owner) -> bool {
        let mut waiting = self.lock();
        let fits = waiting.len() < WAITING_MAX;
        if fits {
            waiting.insert(owner);
        }
        fits
    }

    /// Takes up to `limit` users, in the order of their keys.
    pub fn take(&self, limit: usize) -> Vec<Owner> {
        let mut waiting = self.lock();
        std::iter::from_fn(|| waiting.pop_first()).take(limit).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// A set is whole after every call, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Owner>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
