//! Ordered rows: what a scan visits is what was committed, in order, whatever was synced or lost in between.

use crate::chance::Chance;
use crate::store::{Case, FRONT, Fresh, Rig, SHARD, commit, put, read, run, sync};
use fantail_ports::store::Commit;
use fantail_ports::tables::{KeyRange, Order};
use fantail_rules::ids::{PartitionId, Position};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

pub const CASES: &[Case] = &[
    ("a scan visits its range in order", scan_visits_its_range_in_order),
    ("a scan stops when it is told to", scan_stops_when_told),
    ("an empty or inverted range visits nothing", empty_ranges_visit_nothing),
    ("keys may be prefixes of each other and of any bytes", keys_may_be_prefixes),
    ("a deleted row does not come back", deleted_row_does_not_come_back),
    ("random commits, syncs and crashes equal a map", random_histories_equal_a_map),
];

pub fn tables_suite(fresh: Fresh<'_>) {
    run("tables", CASES, fresh);
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn scan(rig: &dyn Rig, partition: PartitionId, range: KeyRange<'_>, order: Order, limit: usize) -> Rows {
    let mut rows = Rows::new();
    read(rig, partition, |view| {
        let scanned = view.tables().scan(range, order, &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            if rows.len() >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        scanned.expect("a healthy store scans");
    });
    rows
}

fn keys_of(rows: &Rows) -> Vec<&str> {
    rows.iter().map(|(key, _)| std::str::from_utf8(key).expect("the suite puts text")).collect()
}

/// Rows in the database, in a running or finished sync, and in memory.
fn layered(fresh: Fresh<'_>) -> Box<dyn Rig> {
    let rig = fresh();
    commit(&*rig, SHARD, put(1, &["a", "c", "e", "g"], "1"));
    sync(&*rig);
    commit(&*rig, SHARD, put(2, &["b", "c", "f"], "2"));
    sync(&*rig);
    let mut third = put(3, &["d", "f"], "3");
    third.changes.insert(b"e".to_vec(), None);
    commit(&*rig, SHARD, third);
    commit(&*rig, FRONT, put(1, &["a", "z"], "other"));
    rig
}

fn scan_visits_its_range_in_order(fresh: Fresh<'_>) {
    let rig = layered(fresh);
    let all = KeyRange { from: b"", to: b"~" };
    assert_eq!(keys_of(&scan(&*rig, SHARD, all, Order::Ascending, 99)), ["a", "b", "c", "d", "f", "g"]);
    assert_eq!(keys_of(&scan(&*rig, SHARD, all, Order::Descending, 99)), ["g", "f", "d", "c", "b", "a"]);
    let middle = KeyRange { from: b"b", to: b"f" };
    assert_eq!(keys_of(&scan(&*rig, SHARD, middle, Order::Ascending, 99)), ["b", "c", "d"]);
    assert_eq!(keys_of(&scan(&*rig, SHARD, middle, Order::Descending, 99)), ["d", "c", "b"]);
    let values: Vec<_> =
        scan(&*rig, SHARD, all, Order::Ascending, 99).into_iter().map(|(_, value)| value).collect();
    assert_eq!(values.concat(), b"122331", "the newest value of each row");
}

fn scan_stops_when_told(fresh: Fresh<'_>) {
    let rig = layered(fresh);
    let all = KeyRange { from: b"", to: b"~" };
    assert_eq!(keys_of(&scan(&*rig, SHARD, all, Order::Ascending, 2)), ["a", "b"]);
    assert_eq!(keys_of(&scan(&*rig, SHARD, all, Order::Descending, 1)), ["g"]);
}

fn empty_ranges_visit_nothing(fresh: Fresh<'_>) {
    let rig = layered(fresh);
    for (from, to) in [("b", "b"), ("c", "a"), ("x", "y")] {
        for order in [Order::Ascending, Order::Descending] {
            let range = KeyRange { from: from.as_bytes(), to: to.as_bytes() };
            assert_eq!(scan(&*rig, SHARD, range, order, 99), Rows::new(), "{from}..{to}");
        }
    }
}

fn keys_may_be_prefixes(fresh: Fresh<'_>) {
    let mut rig = fresh();
    let keys: [&[u8]; 5] = [b"", b"\0", b"a", b"a\0", b"\xff\xff"];
    let changes = keys.iter().map(|key| (key.to_vec(), Some(key.to_vec()))).collect();
    commit(&*rig, SHARD, Commit { through: Position(1), changes, ..Commit::default() });
    sync(&*rig);
    rig.crash();
    let found = scan(&*rig, SHARD, KeyRange { from: b"", to: b"\xff\xff\xff" }, Order::Ascending, 99);
    assert_eq!(found, keys.map(|key| (key.to_vec(), key.to_vec())));
}

fn deleted_row_does_not_come_back(fresh: Fresh<'_>) {
    let mut rig = fresh();
    commit(&*rig, SHARD, put(1, &["a", "b"], "1"));
    sync(&*rig);
    let gone = BTreeMap::from([(b"a".to_vec(), None), (b"never".to_vec(), None)]);
    commit(&*rig, SHARD, Commit { through: Position(2), changes: gone, ..Commit::default() });
    for _ in 0..3 {
        let all = scan(&*rig, SHARD, KeyRange { from: b"", to: b"~" }, Order::Ascending, 99);
        assert_eq!(keys_of(&all), ["b"]);
        sync(&*rig);
        rig.crash();
    }
}

/// What every partition held at every position.
type History = BTreeMap<PartitionId, Vec<BTreeMap<Vec<u8>, Vec<u8>>>>;

// proves: NFR-03
fn random_histories_equal_a_map(fresh: Fresh<'_>) {
    for seed in 0..6 {
        let mut chance = Chance::new(seed);
        let mut rig = fresh();
        let mut history: History = [(SHARD, vec![BTreeMap::new()]), (FRONT, vec![BTreeMap::new()])].into();
        for _ in 0..120 {
            match chance.below(12) {
                0 | 1 => sync(&*rig),
                2 if chance.once_in(3) => {
                    rig.crash();
                    for (partition, states) in &mut history {
                        let mark = rig.store().marks().get(partition).map_or(0, |mark| mark.0);
                        states.truncate(mark as usize + 1);
                    }
                }
                _ => random_commit(&mut chance, &*rig, &mut history),
            }
            check(&mut chance, &*rig, &history, seed);
        }
    }
}

fn random_commit(chance: &mut Chance, rig: &dyn Rig, history: &mut History) {
    let partition = if chance.once_in(3) { FRONT } else { SHARD };
    let states = history.get_mut(&partition).expect("both partitions have a history");
    let mut state = states.last().expect("a history begins with the empty state").clone();
    let mut change = Commit { through: Position(states.len() as u64), ..Commit::default() };
    for _ in 0..chance.below(30) {
        let key = random_key(chance);
        let to = (!chance.once_in(4)).then(|| vec![chance.number() as u8; chance.below(200) as usize]);
        match &to {
            Some(value) => state.insert(key.clone(), value.clone()),
            None => state.remove(&key),
        };
        change.changes.insert(key, to);
    }
    commit(rig, partition, change);
    states.push(state);
}

fn random_key(chance: &mut Chance) -> Vec<u8> {
    (0..=chance.below(3)).map(|_| chance.below(6) as u8 * 51).collect()
}

fn check(chance: &mut Chance, rig: &dyn Rig, history: &History, seed: u64) {
    for (partition, states) in history {
        let state = states.last().expect("a history begins with the empty state");
        let (from, to) = (random_key(chance), random_key(chance));
        let limit = 1 + chance.below(20) as usize;
        let inside = |key: &&Vec<u8>| **key >= from && **key < to;
        let row = |key: &Vec<u8>| (key.clone(), state[key].clone());
        let ascending: Rows = state.keys().filter(inside).take(limit).map(row).collect();
        let descending: Rows = state.keys().rev().filter(inside).take(limit).map(row).collect();
        let range = KeyRange { from: &from, to: &to };
        assert_eq!(scan(rig, *partition, range, Order::Ascending, limit), ascending, "seed {seed}");
        assert_eq!(scan(rig, *partition, range, Order::Descending, limit), descending, "seed {seed}");
        read(rig, *partition, |view| {
            let found = view.tables().get(&from).expect("a healthy store reads");
            assert_eq!(found, state.get(&from).cloned(), "seed {seed}");
            assert_eq!(view.position().0 as usize, states.len() - 1, "seed {seed}");
        });
    }
}
