//! The local store passes the suites, with fan-out eager and lazy, and refuses what it cannot read.

use crate::scratch::Scratch;
use fantail_conformance::block_on;
use fantail_conformance::inbox::inbox_suite;
use fantail_conformance::lists::lists_suite;
use fantail_conformance::store::{Rig, SHARD, store_suite};
use fantail_conformance::tables::tables_suite;
use fantail_local::inbox::tier::TierOptions;
use fantail_local::store::{LocalStore, StoreOptions};
use fantail_memory::blobs::MemoryBlobs;
use fantail_ports::blobs::Blobs;
use fantail_ports::inbox::{Audience, Window, WindowEvent};
use fantail_ports::store::{Commit, Store, StoreError, Tended, View};
use fantail_rules::ids::{Arrival, Position, TenantId, UserNo};
use std::path::{Path, PathBuf};
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
/// So small that everything is cut, merged and rewritten all the time.
const TIERS: TierOptions =
    TierOptions { fan_in: 2, fan_in_small: 3, small_entries: 8, run_entries_max: 10_000 };

fn fresh(tuning: Tuning) -> impl FnMut() -> Box<dyn Rig> {
    let Tuning { window_events_min, ingest_rows_min } = tuning;
    let blobs = Arc::new(MemoryBlobs::new());
    move || {
        let directory = Scratch::new();
        let options = StoreOptions {
            window_events_min,
            ingest_rows_min,
            window_pairs_max: 300,
            transpose_pairs_max: 50,
            tiers: TIERS,
            hot_bytes: 8_000,
            ..StoreOptions::new(directory.path())
        };
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

fn put(through: u64, rows: u64) -> Commit {
    let row = |no: u64| (no.to_be_bytes().to_vec(), Some(through.to_be_bytes().repeat(20)));
    Commit { through: Position(through), changes: (0..rows).map(row).collect(), ..Commit::default() }
}

#[test]
fn large_syncs_are_whole_at_their_marks() {
    let mut rig = fresh(Tuning { window_events_min: 1, ingest_rows_min: 4_096 })();
    // Large ones are ingested, small ones are logged: each kind must stand on the other.
    for (through, rows) in [(1, 20_000), (2, 10), (3, 9_000), (4, 4_000), (5, 30_000)] {
        rig.store().commit(SHARD, put(through, rows)).unwrap();
        block_on(rig.store().sync()).unwrap();
        rig.store().commit(SHARD, put(through + 1, 50)).unwrap();
        rig.crash();
        assert_eq!(rig.store().marks()[&SHARD], Position(through));
        let mut check = |view: &dyn View| {
            let last = view.tables().get(&(rows - 1).to_be_bytes()).unwrap();
            assert_eq!(last, Some(through.to_be_bytes().repeat(20)));
        };
        rig.store().read(SHARD, &mut check).unwrap();
    }
}

/// Every file below a directory, without the zeros at the end: logs reserve their space.
fn files_below(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
            files.push((path, bytes));
        }
    }
    files
}

#[test]
fn a_damaged_directory_is_refused_or_read_right() {
    let original = Scratch::new();
    let tuned = |directory: &Path| StoreOptions { ingest_rows_min: 100, ..StoreOptions::new(directory) };
    let store = LocalStore::open(tuned(original.path())).unwrap();
    for through in 1..4 {
        store.commit(SHARD, put(through, 1_000)).unwrap();
        block_on(store.sync()).unwrap();
    }
    store.commit(SHARD, put(4, 20)).unwrap();
    block_on(store.sync()).unwrap();
    drop(store);
    let files = files_below(original.path());
    let mut refused = 0;
    for damaged in 0..files.len() {
        let copy = Scratch::new();
        for (no, (path, bytes)) in files.iter().enumerate() {
            let path = copy.path().join(path.strip_prefix(original.path()).unwrap());
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut bytes = bytes.clone();
            let middle = bytes.len() / 2;
            if let Some(byte) = bytes.get_mut(middle).filter(|_| no == damaged) {
                *byte ^= 0x55;
            }
            std::fs::write(path, bytes).unwrap();
        }
        match LocalStore::open(tuned(copy.path())) {
            Err(StoreError::Damaged { .. } | StoreError::Io { .. } | StoreError::Tables(_)) => refused += 1,
            Err(other) => panic!("{}: {other}", files[damaged].0.display()),
            Ok(store) => check_reads(&store, &files[damaged].0),
        }
    }
    assert!(refused > 0, "damage was found");
    check_reads(&LocalStore::open(tuned(original.path())).unwrap(), original.path());
}

/// Rows read as they were written, or the damage is told when they are read.
fn check_reads(store: &LocalStore, what: &Path) {
    let mark = store.marks().get(&SHARD).copied().unwrap_or_default();
    let expected = |no: u64| match mark.0 {
        0 => None,
        4 if no >= 20 => Some(3),
        mark => Some(mark),
    };
    let mut check = |view: &dyn View| {
        for no in 0..1_000u64 {
            match view.tables().get(&no.to_be_bytes()) {
                Ok(found) => {
                    let expected = expected(no).map(|value| value.to_be_bytes().repeat(20));
                    assert_eq!(found, expected, "row {no} at {mark:?}, {}", what.display());
                }
                Err(_told) => {}
            }
        }
    };
    store.read(SHARD, &mut check).unwrap();
}

/// Eight events for one user each, in runs of the inbox index, and synced.
fn with_entries(directory: &Path) -> StoreOptions {
    let options = StoreOptions { window_events_min: 1, tiers: TIERS, ..StoreOptions::new(directory) };
    let store = LocalStore::open(options.clone()).unwrap();
    for through in 1..=8 {
        let audience = Audience::Members(vec![UserNo(7)]);
        let events = vec![WindowEvent { arrival: Arrival(through), audience }];
        let windows = vec![Window { tenant: TenantId(1), events }];
        store.commit(SHARD, Commit { through: Position(through), windows, ..Commit::default() }).unwrap();
        while store.tend().unwrap() == Tended::MoreWaiting {}
    }
    block_on(store.sync()).unwrap();
    options
}

// fixes: torture 6
#[test]
fn a_manifest_of_the_inbox_that_is_gone_or_old_is_named_and_its_runs_stay() {
    let directory = Scratch::new();
    let options = with_entries(directory.path());
    let inbox = directory.path().join("inbox");
    let named = |end: &str| {
        let mut found: Vec<PathBuf> =
            std::fs::read_dir(&inbox).unwrap().map(|one| one.unwrap().path()).collect();
        found.retain(|path| path.extension().is_some_and(|extension| extension == end));
        found
    };
    let ([manifest], runs) = (&named("manifest")[..], named("run")) else { panic!("one partition") };
    assert!(!runs.is_empty());
    let whole = std::fs::read(manifest).unwrap();
    let is_named = |what: &str| match LocalStore::open(options.clone()).map(drop) {
        Err(StoreError::Damaged { what: file, .. }) => {
            assert!(file.contains(&manifest.display().to_string()), "{what}: {file}");
        }
        other => panic!("{what}: {other:?}"),
    };
    std::fs::remove_file(manifest).unwrap();
    is_named("deleted");
    assert_eq!(named("run"), runs, "it can be put back");
    std::fs::write(manifest, &whole).unwrap();
    drop(LocalStore::open(options.clone()).unwrap());
    for run in &runs {
        let bytes = std::fs::read(run).unwrap();
        std::fs::remove_file(run).unwrap();
        let error = LocalStore::open(options.clone()).map(drop).unwrap_err().to_string();
        assert!(error.contains(&run.display().to_string()), "deleted: {error}");
        std::fs::write(run, &bytes[..bytes.len() - 1]).unwrap();
        let error = LocalStore::open(options.clone()).map(drop).unwrap_err().to_string();
        assert!(error.contains(&run.display().to_string()), "cut: {error}");
        std::fs::write(run, &bytes).unwrap();
    }
    drop(LocalStore::open(options).unwrap());
}
