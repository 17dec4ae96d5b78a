//! What every store does: commits are whole, syncs are whole, snapshots are whole or refused.
//!
//! An engine provides a [`Rig`]; each suite (`store`, `tables`, `lists`, `inbox`) runs its cases on fresh ones.

use crate::block_on;
use fantail_ports::blobs::{BlobError, Blobs};
use fantail_ports::store::{Commit, Store, StoreError};
use fantail_rules::ids::{FrontNo, PartitionId, Position, ShardNo};
use std::collections::BTreeMap;

/// One store under test, and the world around it.
pub trait Rig {
    fn store(&self) -> &dyn Store;

    /// Dies without a sync and opens what is stored.
    fn crash(&mut self);

    /// Where snapshots go. Shared by all rigs of one factory.
    fn blobs(&self) -> &dyn Blobs;
}

/// Makes empty stores.
pub type Fresh<'a> = &'a mut dyn FnMut() -> Box<dyn Rig>;
pub type Case = (&'static str, fn(Fresh<'_>));

pub const CASES: &[Case] = &[
    ("a new store is empty", new_store_is_empty),
    ("a commit is visible at once, and whole", commit_is_visible_and_whole),
    ("readers never see part of a commit", readers_never_see_part_of_a_commit),
    ("a crash loses what was not synced, and nothing else", crash_loses_what_was_not_synced),
    ("each partition is whole at its mark", partitions_are_whole_at_their_marks),
    ("commits go on while a sync runs", commits_go_on_while_a_sync_runs),
    ("many syncs in a row", many_syncs_in_a_row),
    ("a commit without changes moves the mark", commit_without_changes_moves_the_mark),
    ("a snapshot fills an empty store", snapshot_fills_an_empty_store),
    ("a damaged snapshot is refused whole", damaged_snapshot_is_refused),
    ("a store that is not empty is not filled", store_that_is_not_empty_is_not_filled),
    ("gauges count what was not synced", gauges_count_what_was_not_synced),
];

pub fn store_suite(fresh: Fresh<'_>) {
    run("store", CASES, fresh);
}

/// Runs every case; a failing one is named.
pub(crate) fn run(suite: &str, cases: &[Case], fresh: Fresh<'_>) {
    for (name, case) in cases {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&mut *fresh)));
        if let Err(cause) = outcome {
            let cause = cause.downcast_ref::<String>().map_or("see above", String::as_str);
            panic!("{suite} case failed: {name}: {cause}");
        }
    }
}

pub const SHARD: PartitionId = PartitionId::Shard(ShardNo(1));
pub const FRONT: PartitionId = PartitionId::Front(FrontNo(0));

pub(crate) fn sync(rig: &dyn Rig) {
    block_on(rig.store().sync()).expect("a healthy store syncs");
}

pub(crate) fn commit(rig: &dyn Rig, partition: PartitionId, commit: Commit) {
    rig.store().commit(partition, commit).expect("a healthy store takes commits");
}

/// A commit that puts the same value under every key.
pub(crate) fn put(through: u64, keys: &[&str], value: &str) -> Commit {
    let row = |key: &&str| (key.as_bytes().to_vec(), Some(value.as_bytes().to_vec()));
    Commit { through: Position(through), changes: keys.iter().map(row).collect(), ..Commit::default() }
}

pub(crate) fn get(rig: &dyn Rig, partition: PartitionId, key: &str) -> Option<String> {
    let mut found = None;
    read(rig, partition, |view| {
        found = view.tables().get(key.as_bytes()).expect("a healthy store reads");
    });
    found.map(|value| String::from_utf8(value).expect("the suite puts text"))
}

pub(crate) fn read(
    rig: &dyn Rig,
    partition: PartitionId,
    mut with: impl FnMut(&dyn fantail_ports::store::View),
) {
    rig.store().read(partition, &mut with).expect("a healthy store reads");
}

fn position(rig: &dyn Rig, partition: PartitionId) -> Position {
    let mut found = Position::START;
    read(rig, partition, |view| found = view.position());
    found
}

fn new_store_is_empty(fresh: Fresh<'_>) {
    let mut rig = fresh();
    for _ in 0..2 {
        assert_eq!(rig.store().marks(), BTreeMap::new());
        assert_eq!(position(&*rig, SHARD), Position::START);
        assert_eq!(get(&*rig, SHARD, "a"), None);
        sync(&*rig);
        rig.crash();
    }
}

fn commit_is_visible_and_whole(fresh: Fresh<'_>) {
    let rig = fresh();
    commit(&*rig, SHARD, put(3, &["a", "b"], "one"));
    assert_eq!(position(&*rig, SHARD), Position(3));
    assert_eq!((get(&*rig, SHARD, "a"), get(&*rig, SHARD, "b")), (Some("one".into()), Some("one".into())));
    assert_eq!(get(&*rig, FRONT, "a"), None, "partitions do not see each other");
    let mut second = put(4, &["a"], "two");
    second.changes.insert(b"b".to_vec(), None);
    commit(&*rig, SHARD, second);
    assert_eq!((get(&*rig, SHARD, "a"), get(&*rig, SHARD, "b")), (Some("two".into()), None));
    assert_eq!(rig.store().marks(), BTreeMap::new(), "marks are those the store opened with");
}

fn readers_never_see_part_of_a_commit(fresh: Fresh<'_>) {
    const COMMITS: u64 = 300;
    let rig = fresh();
    let store = rig.store();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for through in 1..=COMMITS {
                let done = store.commit(SHARD, put(through, &["a", "b", "c"], &through.to_string()));
                done.expect("a healthy store takes commits");
                if through % 50 == 0 {
                    block_on(store.sync()).expect("a healthy store syncs");
                }
            }
        });
        let mut seen = 0;
        while seen < COMMITS {
            let mut check = |view: &dyn fantail_ports::store::View| {
                seen = view.position().0;
                let expected = (seen > 0).then(|| seen.to_string().into_bytes());
                for key in [b"a", b"b", b"c"] {
                    let found = view.tables().get(key).expect("a healthy store reads");
                    assert_eq!(found, expected, "a view is one state");
                }
            };
            store.read(SHARD, &mut check).expect("a healthy store reads");
        }
    });
}

fn crash_loses_what_was_not_synced(fresh: Fresh<'_>) {
    let mut rig = fresh();
    commit(&*rig, SHARD, put(1, &["a"], "synced"));
    sync(&*rig);
    commit(&*rig, SHARD, put(2, &["a", "b"], "lost"));
    rig.crash();
    assert_eq!(rig.store().marks(), BTreeMap::from([(SHARD, Position(1))]));
    assert_eq!(position(&*rig, SHARD), Position(1));
    assert_eq!((get(&*rig, SHARD, "a"), get(&*rig, SHARD, "b")), (Some("synced".into()), None));
    commit(&*rig, SHARD, put(2, &["a", "b"], "again"));
    sync(&*rig);
    rig.crash();
    assert_eq!(
        (get(&*rig, SHARD, "a"), get(&*rig, SHARD, "b")),
        (Some("again".into()), Some("again".into()))
    );
}

fn partitions_are_whole_at_their_marks(fresh: Fresh<'_>) {
    let mut rig = fresh();
    let mut through = BTreeMap::from([(SHARD, 0), (FRONT, 0)]);
    for step in 1..60u64 {
        for partition in [SHARD, FRONT] {
            let next = through[&partition] + 1;
            commit(&*rig, partition, put(next, &["a", "b"], &next.to_string()));
            through.insert(partition, next);
        }
        if step % 7 == 0 {
            sync(&*rig);
        }
        if step % 10 == 0 {
            rig.crash();
            for (partition, last) in &mut through {
                let mark = rig.store().marks()[partition].0;
                assert!(mark <= *last && mark >= *last / 7 * 7 - 7, "a sync point is not forgotten");
                assert_eq!(position(&*rig, *partition), Position(mark));
                for key in ["a", "b"] {
                    assert_eq!(get(&*rig, *partition, key), Some(mark.to_string()), "whole at its mark");
                }
                *last = mark;
            }
        }
    }
}

fn commits_go_on_while_a_sync_runs(fresh: Fresh<'_>) {
    let mut rig = fresh();
    commit(&*rig, SHARD, put(1, &["a"], "before"));
    let running = rig.store().sync();
    rig.store().commit(SHARD, put(2, &["b"], "meanwhile")).expect("commits go on");
    block_on(running).expect("a healthy store syncs");
    assert_eq!(
        (get(&*rig, SHARD, "a"), get(&*rig, SHARD, "b")),
        (Some("before".into()), Some("meanwhile".into()))
    );
    rig.crash();
    assert_eq!(get(&*rig, SHARD, "a"), Some("before".into()));
    let mark = rig.store().marks()[&SHARD].0;
    assert_eq!(get(&*rig, SHARD, "b").is_some(), mark == 2, "whole at its mark");
}

fn many_syncs_in_a_row(fresh: Fresh<'_>) {
    let mut rig = fresh();
    for through in 1..=40u64 {
        commit(&*rig, SHARD, put(through, &[&format!("k{}", through % 9), "last"], &through.to_string()));
        sync(&*rig);
    }
    rig.crash();
    assert_eq!(rig.store().marks(), BTreeMap::from([(SHARD, Position(40))]));
    assert_eq!(get(&*rig, SHARD, "last"), Some("40".into()));
    assert_eq!(get(&*rig, SHARD, "k1"), Some("37".into()));
}

fn commit_without_changes_moves_the_mark(fresh: Fresh<'_>) {
    let mut rig = fresh();
    commit(&*rig, SHARD, put(5, &[], ""));
    sync(&*rig);
    commit(&*rig, SHARD, put(9, &[], ""));
    sync(&*rig);
    rig.crash();
    assert_eq!(rig.store().marks(), BTreeMap::from([(SHARD, Position(9))]));
}

fn snapshot_fills_an_empty_store(fresh: Fresh<'_>) {
    let rig = fresh();
    commit(&*rig, SHARD, put(3, &["a", "b"], "kept"));
    commit(&*rig, FRONT, put(8, &["a"], "also"));
    sync(&*rig);
    commit(&*rig, SHARD, put(4, &["a"], "after the sync point"));
    let marks = rig.store().snapshot(rig.blobs(), "snapshots/one").expect("a healthy store is copied");
    assert_eq!(marks, BTreeMap::from([(SHARD, Position(3)), (FRONT, Position(8))]));
    let mut other = fresh();
    other.store().restore(rig.blobs(), "snapshots/one").expect("a whole snapshot is taken in");
    for _ in 0..2 {
        assert_eq!(other.store().marks(), marks);
        assert_eq!(
            (get(&*other, SHARD, "a"), get(&*other, SHARD, "b")),
            (Some("kept".into()), Some("kept".into()))
        );
        assert_eq!((get(&*other, FRONT, "a"), position(&*other, FRONT)), (Some("also".into()), Position(8)));
        other.crash();
    }
    commit(&*other, SHARD, put(4, &["a"], "goes on"));
    assert_eq!(get(&*other, SHARD, "a"), Some("goes on".into()));
}

fn damaged_snapshot_is_refused(fresh: Fresh<'_>) {
    let rig = fresh();
    commit(&*rig, SHARD, put(3, &["a", "b"], "kept"));
    sync(&*rig);
    rig.store().snapshot(rig.blobs(), "whole").expect("a healthy store is copied");
    let mut whole = Vec::new();
    let mut reader = rig.blobs().get("whole").expect("the snapshot is stored");
    reader.read_to_end(&mut whole).expect("blobs read");
    // A refusal leaves the store empty, so one store stands all of them.
    let other = fresh();
    let check_refused = |bytes: &[u8], what: &str, at: usize| {
        rig.blobs().put("damaged", &mut &bytes[..]).expect("blobs store");
        let refused = other.store().restore(rig.blobs(), "damaged");
        let is_right = matches!(refused, Err(StoreError::Damaged { .. } | StoreError::NewerFormat { .. }));
        assert!(is_right, "{what} {at}: {refused:?}");
        assert_eq!(get(&*other, SHARD, "a"), None, "refused whole");
    };
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        check_refused(&flipped, "flip at byte", at);
        check_refused(&whole[..at], "cut at byte", at);
    }
    let missing = other.store().restore(rig.blobs(), "missing");
    assert!(matches!(missing, Err(StoreError::Blob(BlobError::Missing { .. }))));
    other.store().restore(rig.blobs(), "whole").expect("the whole one is taken in");
    assert_eq!(get(&*other, SHARD, "a"), Some("kept".into()));
}

fn store_that_is_not_empty_is_not_filled(fresh: Fresh<'_>) {
    let rig = fresh();
    commit(&*rig, SHARD, put(3, &["a"], "kept"));
    sync(&*rig);
    rig.store().snapshot(rig.blobs(), "one").expect("a healthy store is copied");
    assert!(matches!(rig.store().restore(rig.blobs(), "one"), Err(StoreError::NotEmpty)));
    assert_eq!(get(&*rig, SHARD, "a"), Some("kept".into()));
}

fn gauges_count_what_was_not_synced(fresh: Fresh<'_>) {
    let rig = fresh();
    assert_eq!(rig.store().gauges().unsynced_bytes, 0);
    commit(&*rig, SHARD, put(1, &["a"], &"x".repeat(1_000)));
    assert!(rig.store().gauges().unsynced_bytes >= 1_000);
    let synced = block_on(rig.store().sync()).expect("a healthy store syncs");
    assert_eq!(synced.rows, 1);
    assert_eq!(rig.store().gauges().unsynced_bytes, 0);
}
