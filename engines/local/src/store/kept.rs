//! Lists that fan-out streams again and again, as the database has them: finding their pages there costs more than
//! decoding them.
//!
//! What must never happen: a page that the database has replaced. Lists are taken in only while no sync runs, under
//! the partition's read lock, and those that a sync wrote are forgotten under its write lock before the overlay that
//! covered them goes.

use fantail_ports::lists::ListKey;
use fantail_rules::ids::{PartitionId, UserNo};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A list with more pages is streamed from the database: reading it from there costs little per member.
pub const PAGES_MAX: usize = 64;
/// Places to remember that a list was asked for; a list is taken in when that happens again.
const ASKED_PLACES: usize = 1 << 16;
/// What an entry costs beside its pages, and a page beside its bytes.
const ENTRY_BYTES: usize = 160;
const PAGE_BYTES: usize = 48;
/// Places of forgotten lists that are always allowed.
const ORDER_SPARE: usize = 1_024;

type Key = (PartitionId, ListKey);

/// The database's pages of a list, ascending.
#[derive(Clone)]
pub enum KeptList {
    Pages(Arc<[KeptPage]>),
    /// Too many to be kept.
    Large,
}

pub struct KeptPage {
    pub from: UserNo,
    pub bytes: Arc<[u8]>,
}

pub struct KeptLists {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lists: BTreeMap<Key, Entry>,
    /// In the order in which they are looked at when room is needed.
    order: VecDeque<Key>,
    bytes: usize,
    asked: Vec<bool>,
    asked_count: usize,
}

struct Entry {
    list: KeptList,
    bytes: usize,
    /// Since it was last looked at.
    was_used: bool,
}

/// What is known of a list.
pub enum Asked {
    Known(KeptList),
    /// Worth taking in.
    Again,
    First,
}

impl KeptLists {
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, state: Mutex::default() }
    }

    pub fn ask(&self, partition: PartitionId, list: ListKey) -> Asked {
        self.state().ask((partition, list))
    }

    pub fn take_in(&self, partition: PartitionId, list: ListKey, kept: KeptList) {
        let mut state = self.state();
        state.insert((partition, list), kept);
        while state.bytes > self.bytes_max && state.evict() {}
    }

    /// These lists have other pages now.
    pub fn forget(&self, partition: PartitionId, lists: impl Iterator<Item = ListKey>) {
        let mut state = self.state();
        for list in lists {
            state.remove(&(partition, list));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn ask(&mut self, key: Key) -> Asked {
        if let Some(entry) = self.lists.get_mut(&key) {
            entry.was_used = true;
            return Asked::Known(entry.list.clone());
        }
        if self.asked.is_empty() || self.asked_count > ASKED_PLACES / 2 {
            self.asked = vec![false; ASKED_PLACES];
            self.asked_count = 0;
        }
        let place = place(&key);
        if std::mem::replace(&mut self.asked[place], true) {
            return Asked::Again;
        }
        self.asked_count += 1;
        Asked::First
    }

    fn insert(&mut self, key: Key, list: KeptList) {
        let pages = match &list {
            KeptList::Pages(pages) => pages.iter().map(|page| PAGE_BYTES + page.bytes.len()).sum(),
            KeptList::Large => 0,
        };
        let bytes = ENTRY_BYTES + pages;
        match self.lists.insert(key, Entry { list, bytes, was_used: false }) {
            Some(replaced) => self.bytes -= replaced.bytes,
            None => self.order.push_back(key),
        }
        self.bytes += bytes;
    }

    /// Looks at one entry, and lets it go if nobody used it since the last look. Returns whether there was one.
    fn evict(&mut self) -> bool {
        let Some(key) = self.order.pop_front() else { return false };
        match self.lists.get_mut(&key) {
            Some(entry) if entry.was_used => {
                entry.was_used = false;
                self.order.push_back(key);
            }
            Some(_) => self.bytes -= self.lists.remove(&key).map_or(0, |entry| entry.bytes),
            None => {}
        }
        true
    }

    fn remove(&mut self, key: &Key) {
        self.bytes -= self.lists.remove(key).map_or(0, |entry| entry.bytes);
        // Places of forgotten lists are passed over, or go when they are the most of all.
        if self.order.len() > 2 * self.lists.len() + ORDER_SPARE {
            self.order = self.lists.keys().copied().collect();
        }
    }
}

/// List ids are random.
fn place((partition, list): &Key) -> usize {
    let [first, second, ..] = list.list.0;
    let number = usize::from(u16::from_be_bytes([first, second])) ^ usize::from(partition.code());
    number % ASKED_PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::{ListId, ShardNo, TenantId};

    const PARTITION: PartitionId = PartitionId::Shard(ShardNo(0));

    fn list(number: u8) -> ListKey {
        ListKey { tenant: TenantId(1), list: ListId([number; 16]) }
    }

    fn pages(bytes: usize) -> KeptList {
        KeptList::Pages([KeptPage { from: UserNo(0), bytes: vec![0; bytes].into() }].into())
    }

    fn is_known(lists: &KeptLists, number: u8) -> bool {
        matches!(lists.ask(PARTITION, list(number)), Asked::Known(_))
    }

    #[test]
    fn forgotten_lists_leave_no_places_behind() {
        let lists = KeptLists::new(10_000);
        for _ in 0..5_000 {
            lists.take_in(PARTITION, list(1), pages(100));
            lists.forget(PARTITION, [list(1)].into_iter());
        }
        assert!(lists.state().order.len() <= ORDER_SPARE + 1);
        assert_eq!(lists.state().bytes, 0);
    }

    #[test]
    fn a_list_is_worth_it_when_it_is_asked_for_again() {
        let lists = KeptLists::new(10_000);
        assert!(matches!(lists.ask(PARTITION, list(1)), Asked::First));
        assert!(matches!(lists.ask(PARTITION, list(1)), Asked::Again));
        lists.take_in(PARTITION, list(1), pages(100));
        assert!(is_known(&lists, 1));
        lists.forget(PARTITION, [list(1)].into_iter());
        assert!(!is_known(&lists, 1));
    }

    // proves: FAN-08
    #[test]
    fn memory_is_bounded_and_used_lists_stay() {
        let lists = KeptLists::new(10_000);
        for number in 0..100 {
            lists.take_in(PARTITION, list(number), pages(1_000));
            assert!(lists.state().bytes <= 10_000);
            assert!(number == 0 || is_known(&lists, 0), "the list that is always used is gone at {number}");
        }
        assert!(!is_known(&lists, 50));
        lists.take_in(PARTITION, list(200), pages(20_000));
        assert!(!is_known(&lists, 200), "a list larger than all memory");
        assert!(lists.state().bytes <= 10_000);
    }
}
