//! The newest entries of users who read often, in memory. Correct by position: a page says through which arrival it
//! holds everything, so what came later is read from the few runs above it, and nothing is ever invalidated by
//! background work.
//!
//! Bounded by two generations: what is not asked for while one fills up is forgotten.

use super::Owner;
use fantail_rules::ids::Arrival;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries kept of each user: a first page and what filters may hide of it.
pub const ENTRIES_MAX: usize = 64;
/// What a page costs: its arrivals, and about as much as three map entries.
const PAGE_BYTES: usize = ENTRIES_MAX * 8 + 150;

/// The newest entries of a user, newest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotPage {
    /// Everything the user has at or below is in here or older than the last of them.
    pub through: Arrival,
    pub arrivals: Vec<Arrival>,
    /// There is nothing older than the last of them.
    pub is_whole: bool,
}

pub struct Hot {
    users_max: usize,
    generations: Mutex<Generations>,
}

type Pages = HashMap<Owner, Arc<HotPage>>;

#[derive(Default)]
struct Generations {
    young: Pages,
    old: Pages,
}

impl Hot {
    pub fn new(bytes_max: usize) -> Self {
        Self { users_max: bytes_max / PAGE_BYTES / 2, generations: Mutex::default() }
    }

    pub fn get(&self, owner: Owner) -> Option<Arc<HotPage>> {
        let mut generations = self.lock();
        if let Some(page) = generations.young.get(&owner) {
            return Some(Arc::clone(page));
        }
        let page = generations.old.remove(&owner)?;
        self.insert(&mut generations, owner, Arc::clone(&page));
        Some(page)
    }

    pub fn put(&self, owner: Owner, page: Arc<HotPage>) {
        self.insert(&mut self.lock(), owner, page);
    }

    fn insert(&self, generations: &mut Generations, owner: Owner, page: Arc<HotPage>) {
        if generations.young.len() >= self.users_max {
            generations.old = std::mem::take(&mut generations.young);
        }
        if self.users_max > 0 {
            generations.young.insert(owner, page);
        }
    }

    pub fn forget(&self, owner: Owner) {
        let mut generations = self.lock();
        generations.young.remove(&owner);
        generations.old.remove(&owner);
    }

    pub fn users(&self) -> usize {
        let generations = self.lock();
        generations.young.len() + generations.old.len()
    }

    /// Maps are whole after every call, so a panic elsewhere does not spoil them.
    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::{PartitionId, ShardNo, TenantId, UserNo};

    fn page(through: u64) -> HotPage {
        HotPage { through: Arrival(through), arrivals: vec![Arrival(through)], is_whole: true }
    }

    fn owner(user: u64) -> Owner {
        Owner { partition: PartitionId::Shard(ShardNo(0)), tenant: TenantId(1), user: UserNo(user) }
    }

    // proves: INB-07
    #[test]
    fn who_reads_stays_and_memory_is_bounded() {
        let hot = Hot::new(2 * 10 * PAGE_BYTES);
        hot.put(owner(0), Arc::new(page(7)));
        for user in 1..1_000 {
            hot.put(owner(user), Arc::new(page(user)));
            assert_eq!(hot.get(owner(0)).as_deref(), Some(&page(7)), "asked for, so kept");
            assert!(hot.users() <= 20);
        }
        assert_eq!(hot.get(owner(500)), None);
        assert_eq!(hot.get(Owner { tenant: TenantId(2), ..owner(0) }), None);
        hot.forget(owner(0));
        assert_eq!(hot.get(owner(0)), None);
    }

    #[test]
    fn none_at_all_is_a_size_too() {
        let hot = Hot::new(0);
        hot.put(owner(1), Arc::new(page(1)));
        assert_eq!((hot.get(owner(1)), hot.users()), (None, 0));
    }
}
