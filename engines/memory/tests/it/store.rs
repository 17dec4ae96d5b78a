//! The model of the store passes the suites, and its digest tells replicas apart.

use fantail_conformance::block_on;
use fantail_conformance::inbox::inbox_suite;
use fantail_conformance::lists::lists_suite;
use fantail_conformance::store::{Rig, SHARD, store_suite};
use fantail_conformance::tables::tables_suite;
use fantail_memory::blobs::MemoryBlobs;
use fantail_memory::store::MemoryStore;
use fantail_ports::blobs::Blobs;
use fantail_ports::store::{Commit, Store};
use fantail_rules::ids::Position;
use std::sync::Arc;

struct MemoryRig {
    store: MemoryStore,
    blobs: Arc<MemoryBlobs>,
}

impl Rig for MemoryRig {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn crash(&mut self) {
        self.store.crash();
    }

    fn blobs(&self) -> &dyn Blobs {
        &*self.blobs
    }
}

fn fresh() -> impl FnMut() -> Box<dyn Rig> {
    let blobs = Arc::new(MemoryBlobs::new());
    move || Box::new(MemoryRig { store: MemoryStore::new(), blobs: Arc::clone(&blobs) })
}

// proves: NFR-03
#[test]
fn memory_store_passes_the_suites() {
    store_suite(&mut fresh());
    tables_suite(&mut fresh());
    lists_suite(&mut fresh());
    inbox_suite(&mut fresh());
}

fn put(through: u64, rows: &[(&str, Option<&str>)]) -> Commit {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let changes = rows.iter().map(|(key, to)| (bytes(key), to.map(bytes))).collect();
    Commit { through: Position(through), changes, ..Commit::default() }
}

#[test]
fn equal_rows_have_equal_digests_however_they_came_about() {
    let (one, other) = (MemoryStore::new(), MemoryStore::new());
    assert_eq!(one.digest(SHARD), 0);
    one.commit(SHARD, put(1, &[("a", Some("1")), ("b", Some("2"))])).unwrap();
    other.commit(SHARD, put(1, &[("b", Some("x")), ("c", Some("3"))])).unwrap();
    assert_ne!(one.digest(SHARD), other.digest(SHARD));
    other.commit(SHARD, put(2, &[("a", Some("1")), ("b", Some("2")), ("c", None)])).unwrap();
    assert_eq!(one.digest(SHARD), other.digest(SHARD));
    assert_ne!(one.position(SHARD), other.position(SHARD));
    other.commit(SHARD, put(3, &[("a", None), ("b", None), ("never", None)])).unwrap();
    assert_eq!(other.digest(SHARD), 0);
}

#[test]
fn a_crash_takes_the_digest_back_to_the_sync_point() {
    let store = MemoryStore::new();
    store.commit(SHARD, put(1, &[("a", Some("1"))])).unwrap();
    block_on(store.sync()).unwrap();
    let synced = store.digest(SHARD);
    store.commit(SHARD, put(2, &[("a", Some("2"))])).unwrap();
    store.crash();
    assert_eq!((store.digest(SHARD), store.position(SHARD)), (synced, Position(1)));
}
