//! Stores that drop a part of what they are given, or mix tenants up.

use super::Bug;
use fantail_machine::tables::Family;
use fantail_memory::store::MemoryStore;
use fantail_ports::BoxFuture;
use fantail_ports::blobs::Blobs;
use fantail_ports::inbox::Inbox;
use fantail_ports::lists::Lists;
use fantail_ports::store::{Commit, Gauges, Store, StoreError, Synced, Tended, View};
use fantail_ports::tables::{Changes, KeyRange, Order, Tables, TablesError, Visit};
use fantail_rules::ids::{PartitionId, Position};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every so many windows, one is dropped.
const WINDOWS_BETWEEN_LOSSES: u64 = 7;

pub struct Forgetful {
    bug: Bug,
    store: Arc<MemoryStore>,
    windows: AtomicU64,
}

impl Forgetful {
    pub fn new(bug: Bug, store: Arc<MemoryStore>) -> Self {
        Self { bug, store, windows: AtomicU64::new(0) }
    }

    fn is_turn(&self) -> bool {
        self.windows.fetch_add(1, Ordering::SeqCst) % WINDOWS_BETWEEN_LOSSES == 3
    }

    fn forgets(&self, key: &[u8]) -> bool {
        let families: &[Family] = match self.bug {
            Bug::ForgetsRetractions => &[Family::Retracted, Family::RetractedByList],
            Bug::ForgetsKeys => &[Family::Idempotency],
            Bug::ForgetsFlags => &[Family::Flags],
            Bug::ForgetsTakes => &[Family::TakenFrom],
            Bug::ForgetsOwners => &[Family::Address],
            Bug::AcksBeforeDurable
            | Bug::TearsBatches
            | Bug::LosesListEdits
            | Bug::LosesWindows
            | Bug::MixesTenants => &[],
        };
        families.iter().any(|family| key.first() == Some(&(*family as u8)))
    }
}

impl Store for Forgetful {
    fn marks(&self) -> BTreeMap<PartitionId, Position> {
        self.store.marks()
    }

    fn commit(&self, partition: PartitionId, mut commit: Commit) -> Result<(), StoreError> {
        commit.changes.retain(|key, _| !self.forgets(key));
        match self.bug {
            Bug::LosesListEdits => commit.edits.clear(),
            Bug::LosesWindows if !commit.windows.is_empty() && self.is_turn() => commit.windows.clear(),
            Bug::MixesTenants => {
                let changes = std::mem::take(&mut commit.changes);
                commit.changes =
                    changes.into_iter().map(|(key, to)| (without_tenant(&key), to)).collect::<Changes>();
            }
            _ => {}
        }
        self.store.commit(partition, commit)
    }

    fn read(&self, partition: PartitionId, with: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError> {
        let mixed = self.bug == Bug::MixesTenants;
        self.store.read(partition, &mut |view| if mixed { with(&Mixed(view)) } else { with(view) })
    }

    fn sync(&self) -> BoxFuture<'_, Result<Synced, StoreError>> {
        self.store.sync()
    }

    fn tend(&self) -> Result<Tended, StoreError> {
        self.store.tend()
    }

    fn snapshot(&self, blobs: &dyn Blobs, name: &str) -> Result<BTreeMap<PartitionId, Position>, StoreError> {
        self.store.snapshot(blobs, name)
    }

    fn restore(&self, blobs: &dyn Blobs, name: &str) -> Result<(), StoreError> {
        self.store.restore(blobs, name)
    }

    fn gauges(&self) -> Gauges {
        self.store.gauges()
    }
}

/// Keys that find a user by name lose their tenant.
fn without_tenant(key: &[u8]) -> Vec<u8> {
    let mut key = key.to_vec();
    if key.first() == Some(&(Family::UserByLookup as u8)) && key.len() >= 5 {
        key[1..5].fill(0);
    }
    key
}

struct Mixed<'a>(&'a dyn View);

impl View for Mixed<'_> {
    fn position(&self) -> Position {
        self.0.position()
    }

    fn tables(&self) -> &dyn Tables {
        self
    }

    fn lists(&self) -> &dyn Lists {
        self.0.lists()
    }

    fn inbox(&self) -> &dyn Inbox {
        self.0.inbox()
    }
}

impl Tables for Mixed<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, TablesError> {
        self.0.tables().get(&without_tenant(key))
    }

    fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError> {
        self.0.tables().scan(range, order, visit)
    }
}
