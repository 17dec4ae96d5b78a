//! A store whose next read by a loop may fail.

use super::{PortCall, PortFaults, REASON};
use crate::planted::pages::{PagesSeen, SeenOnce};
use fantail_machine::tables::Family;
use fantail_ports::BoxFuture;
use fantail_ports::blobs::Blobs;
use fantail_ports::inbox::Inbox;
use fantail_ports::lists::Lists;
use fantail_ports::store::{Commit, Gauges, Store, StoreError, Synced, Tended, View};
use fantail_ports::tables::{KeyRange, Order, Read, Tables, TablesError, Visit};
use fantail_rules::ids::{PartitionId, Position};
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct FaultyStore {
    pub faults: PortFaults,
    pub store: Arc<dyn Store>,
    pub pages_seen: PagesSeen,
}

impl Store for FaultyStore {
    fn marks(&self) -> BTreeMap<PartitionId, Position> {
        self.store.marks()
    }

    fn commit(&self, partition: PartitionId, commit: Commit) -> Result<(), StoreError> {
        self.store.commit(partition, commit)
    }

    fn read(&self, partition: PartitionId, with: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError> {
        if self.faults.fails(PortCall::StoreRead) {
            return Err(StoreError::Io { reason: REASON.to_owned() });
        }
        if self.faults.is_blind() {
            return self.store.read(partition, &mut |view| with(&Blind(view)));
        }
        if self.faults.forgets_pages() {
            let seen = self.pages_seen.clone();
            return self.store.read(partition, &mut |view| {
                with(&SeenOnce { view, partition, seen: seen.clone() });
            });
        }
        self.store.read(partition, with)
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

/// Shows no work and no timers.
struct Blind<'a>(&'a dyn View);

impl View for Blind<'_> {
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

impl Tables for Blind<'_> {
    fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
        self.0.tables().read(key, visit)
    }

    fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError> {
        let hidden = [Family::Work as u8, Family::Timer as u8];
        match range.from.first() {
            Some(family) if hidden.contains(family) => Ok(()),
            Some(_) | None => self.0.tables().scan(range, order, visit),
        }
    }
}
