//! What is asked for again and again, in memory: pages of taken events, events with their content opened, compiled
//! templates by the hash of their definition.
//!
//! None of them changes once they are durable, so nothing here is ever stale; it is only forgotten, when room is short,
//! or as a whole when a key is destroyed. What must never happen: content that outlives its key. So what was opened
//! before a key was destroyed is not kept after it.

use crate::ask::EventView;
use fantail_machine::shard::inbox::TakenPages;
use fantail_machine::tables::taken::{self, Page};
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{Arrival, ShardNo, TenantId};
use fantail_rules::ulid::Ulid;
use fantail_templates::Compiled;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Events in pages of taken events: about forty bytes each.
const PAGE_EVENTS_MAX: usize = 1 << 19;
/// Bytes of events with their content.
const EVENT_BYTES_MAX: usize = 32 << 20;
/// What an event costs beside its text.
const EVENT_BYTES: usize = 256;
/// Bytes of compiled templates. One takes about ten times its definition, and this much in any case.
const TEMPLATE_BYTES_MAX: usize = 64 << 20;
const TEMPLATE_BYTES: usize = 16 << 10;
const TEMPLATE_GROWTH: usize = 10;

#[derive(Default)]
pub struct Known {
    pages: Mutex<Kept<(ShardNo, TenantId, Arrival), Arc<Page>>>,
    events: Mutex<Events>,
    templates: Mutex<Templates>,
}

/// By the hash of the definition.
type Templates = Kept<(TenantId, [u8; 32]), Arc<Compiled>>;

#[derive(Default)]
struct Events {
    kept: Kept<(TenantId, Ulid), Arc<EventView>>,
    /// How often everything was forgotten.
    epoch: u64,
}

/// A time before which nothing that was opened may be kept any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch(u64);

impl Known {
    pub fn epoch(&self) -> Epoch {
        Epoch(lock(&self.events).epoch)
    }

    pub fn event(&self, tenant: TenantId, event: Ulid) -> Option<Arc<EventView>> {
        lock(&self.events).kept.get(&(tenant, event))
    }

    /// Keeps an event that was opened since `epoch` was asked for.
    pub fn keep_event(&self, epoch: Epoch, tenant: TenantId, event: Ulid, known: Arc<EventView>) {
        let mut events = lock(&self.events);
        if events.epoch == epoch.0 {
            let name = known.name.as_ref().map_or(0, String::len);
            let bytes = EVENT_BYTES + known.content.len() + name;
            events.kept.put((tenant, event), known, bytes, EVENT_BYTES_MAX);
        }
    }

    /// Forgets all content: a key was destroyed.
    pub fn forget_events(&self) {
        let mut events = lock(&self.events);
        events.epoch += 1;
        events.kept = Kept::default();
    }

    pub fn template(&self, tenant: TenantId, hash: [u8; 32]) -> Option<Arc<Compiled>> {
        lock(&self.templates).get(&(tenant, hash))
    }

    pub fn keep_template(&self, tenant: TenantId, hash: [u8; 32], compiled: Arc<Compiled>, bytes: usize) {
        let bytes = TEMPLATE_BYTES + TEMPLATE_GROWTH * bytes;
        lock(&self.templates).put((tenant, hash), compiled, bytes, TEMPLATE_BYTES_MAX);
    }

    fn page_of(
        &self,
        tables: &dyn Tables,
        shard: ShardNo,
        tenant: TenantId,
        arrival: Arrival,
    ) -> Result<Option<(Arrival, Arc<Page>)>, TablesError> {
        let key = (shard, tenant, arrival);
        let kept = lock(&self.pages).last_through(&(shard, tenant, Arrival::START), &key);
        if let Some(((_, _, first), page)) = kept
            && arrival.0 - first.0 < page.events.len() as u64
        {
            return Ok(Some((first, page)));
        }
        let Some((first, page)) = taken::page_of(tables, tenant, arrival)? else { return Ok(None) };
        let page = Arc::new(page);
        let events = page.events.len().max(8);
        lock(&self.pages).put((shard, tenant, first), Arc::clone(&page), events, PAGE_EVENTS_MAX);
        Ok(Some((first, page)))
    }
}

/// The pages of one shard.
pub struct ShardPages<'a> {
    pub known: &'a Known,
    pub shard: ShardNo,
}

impl TakenPages for ShardPages<'_> {
    fn page_of(
        &self,
        tables: &dyn Tables,
        tenant: TenantId,
        arrival: Arrival,
    ) -> Result<Option<(Arrival, Arc<Page>)>, TablesError> {
        self.known.page_of(tables, self.shard, tenant, arrival)
    }
}

/// Two generations: what is not asked for while the young one fills up is forgotten.
struct Kept<K, V> {
    young: BTreeMap<K, V>,
    old: BTreeMap<K, V>,
    /// What the young ones weigh.
    weight: usize,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self { young: BTreeMap::new(), old: BTreeMap::new(), weight: 0 }
    }
}

impl<K: Ord + Copy, V: Clone> Kept<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        self.young.get(key).or_else(|| self.old.get(key)).cloned()
    }

    fn last_through(&self, first: &K, last: &K) -> Option<(K, V)> {
        let of = |kept: &BTreeMap<K, V>| {
            kept.range(*first..=*last).next_back().map(|(key, value)| (*key, value.clone()))
        };
        match (of(&self.young), of(&self.old)) {
            (Some(young), Some(old)) => Some(if young.0 >= old.0 { young } else { old }),
            (young, old) => young.or(old),
        }
    }

    fn put(&mut self, key: K, value: V, weight: usize, weight_max: usize) {
        if self.weight + weight > weight_max / 2 {
            (self.old, self.weight) = (std::mem::take(&mut self.young), 0);
        }
        self.weight += weight;
        self.young.insert(key, value);
    }
}

/// What these locks guard is whole after every call, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Priority;
    use fantail_rules::ids::{FrontNo, Millis};

    const TENANT: TenantId = TenantId(1);

    fn id(no: u64) -> Ulid {
        Ulid::new(Millis(no), FrontNo(0), 0)
    }

    fn event(bytes: usize) -> Arc<EventView> {
        let (kind, category) = (String::new(), String::new());
        let (created_at, priority) = (Millis(0), Priority::Normal);
        Arc::new(EventView {
            created_at,
            kind,
            category,
            priority,
            actor: None,
            content: vec![7; bytes],
            is_personal: false,
            collapse_key: None,
            is_sensitive: false,
            name: None,
        })
    }

    #[test]
    fn what_was_opened_before_a_key_was_destroyed_is_not_kept() {
        let known = Known::default();
        let before = known.epoch();
        known.keep_event(before, TENANT, id(1), event(10));
        assert!(known.event(TENANT, id(1)).is_some());
        assert!(known.event(TenantId(2), id(1)).is_none(), "tenants do not see each other");
        known.forget_events();
        assert!(known.event(TENANT, id(1)).is_none());
        known.keep_event(before, TENANT, id(1), event(10));
        assert!(known.event(TENANT, id(1)).is_none(), "it was opened with the key");
        known.keep_event(known.epoch(), TENANT, id(1), event(10));
        assert!(known.event(TENANT, id(1)).is_some());
    }

    #[test]
    fn memory_is_bounded() {
        let known = Known::default();
        for no in 0..200 {
            known.keep_event(known.epoch(), TENANT, id(no), event(1 << 20));
        }
        let kept = (0..200).filter(|no| known.event(TENANT, id(*no)).is_some()).count();
        assert!((10..=32).contains(&kept), "{kept} megabytes");
        assert!(known.event(TENANT, id(199)).is_some());
    }
}
