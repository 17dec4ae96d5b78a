//! The local store passes the suites, with fan-out eager and lazy, and refuses what it cannot read.

use crate::scratch::Scratch;
use fantail_conformance::block_on;
use fantail_conformance::inbox::inbox_suite;
use fantail_conformance::lists::lists_suite;
use fantail_conformance::store::{Rig, SHARD, store_suite};
use fantail_conformance::tables::tables_suite;
use fantail_local::store::{LocalStore, StoreOptions};
use fantail_memory::blobs::MemoryBlobs;
use fantail_ports::blobs::Blobs;
use fantail_ports::store::{Commit, Store, StoreError};
use fantail_rules::ids::Position;
use std::sync::Arc;

struct LocalRig {
    store: Option<LocalStore>,
    options: StoreOptions,
    blobs: Arc<MemoryBlobs>,
    _directory: Scratch,
}

impl Rig for LocalRig {
    fn store(&self) -> &dyn Store {
        self.store.as_ref().unwrap()
    }

    fn crash(&mut self) {
        drop(self.store.take());
        self.store = Some(LocalStore::open(self.options.clone()).unwrap());
    }

    fn blobs(&self) -> &dyn Blobs {
        &*self.blobs
    }
}

/// How the store is tuned: the defaults would leave most of it unused in small tests.
#[derive(Clone, Copy)]
struct Tuning {
    window_events_min: usize,
    ingest_rows_min: usize,
}

const EAGER: Tuning = Tuning { window_events_min: 1, ingest_rows_min: usize::MAX };
const LAZY: Tuning = Tuning { window_events_min: 20, ingest_rows_min: 40 };
const INGESTING: Tuning = Tuning { window_events_min: 3, ingest_rows_min: 1 };

fn fresh(tuning: Tuning) -> impl FnMut() -> Box<dyn Rig> {
    let Tuning { window_events_min, ingest_rows_min } = tuning;
    let blobs = Arc::new(MemoryBlobs::new());
    move || {
        let directory = Scratch::new();
        let options =
            StoreOptions { window_events_min, ingest_rows_min, ..StoreOptions::new(directory.path()) };
        let store = Some(LocalStore::open(options.clone()).unwrap());
        Box::new(LocalRig { store, options, blobs: Arc::clone(&blobs), _directory: directory })
    }
}

// proves: NFR-03
#[test]
fn local_store_passes_the_store_suite() {
    store_suite(&mut fresh(EAGER));
    store_suite(&mut fresh(INGESTING));
}

// proves: NFR-03
#[test]
fn local_store_passes_the_tables_suite() {
    tables_suite(&mut fresh(EAGER));
    tables_suite(&mut fresh(INGESTING));
}

// proves: NFR-03
#[test]
fn local_store_passes_the_lists_suite() {
    lists_suite(&mut fresh(EAGER));
    lists_suite(&mut fresh(INGESTING));
}

// proves: NFR-03, FAN-04, INB-04, INB-06, INB-09
#[test]
fn local_store_passes_the_inbox_suite_with_eager_fan_out() {
    inbox_suite(&mut fresh(EAGER));
}

// proves: NFR-03, FAN-04, INB-04, INB-06, INB-09
#[test]
fn local_store_passes_the_inbox_suite_with_lazy_fan_out() {
    inbox_suite(&mut fresh(LAZY));
}

// proves: NFR-03, FAN-04, INB-04, INB-06, INB-09
#[test]
fn local_store_passes_the_inbox_suite_with_ingestion() {
    inbox_suite(&mut fresh(INGESTING));
}
