//! Lists in all their layers at once: streamed, visited and edited they equal a map.

use super::super::{StoreOptions, rows};
use super::*;
use fantail_conformance::Chance;
use fantail_rules::ids::{ListId, ShardNo, TenantId};
use std::collections::BTreeMap;

const PARTITION: PartitionId = PartitionId::Shard(ShardNo(3));
const NEWEST: u64 = 24;

/// What a partition has of its lists, and a database.
struct Layers {
    rows: Rows,
    active: PageMap,
    frozen: PageMap,
}

impl Layers {
    fn pages(&self) -> Pages<'_> {
        let layers = [None, Some(&self.active), Some(&self.frozen)];
        Pages { rows: &self.rows, partition: PARTITION, layers, is_settled: self.frozen.is_empty() }
    }

    fn edit(&mut self, list: ListKey, edits: &[ListEdit], horizon: u64) {
        let (mut edited, edits) = (PageMap::new(), edits.iter().collect::<Vec<_>>());
        let done = self.pages().edit(list, &edits, Arrival(horizon), &mut edited);
        done.expect("a healthy database reads");
        self.active.extend(edited);
    }

    /// A sync begins.
    fn freeze(&mut self) {
        self.thaw();
        self.frozen = std::mem::take(&mut self.active);
    }

    /// Its write is in the database, but it did not end.
    fn land(&self) {
        let row = |(key, to): (&PageKey, &Option<Vec<u8>>)| -> rows::Row {
            (keys::page(PARTITION, *key).into(), to.as_deref().map(Into::into))
        };
        let written = self.rows.write_durable(self.frozen.len(), self.frozen.iter().map(row));
        written.expect("a healthy database writes");
    }

    fn thaw(&mut self) {
        self.land();
        self.rows.kept.forget(PARTITION, lists_of(&self.frozen));
        self.frozen.clear();
    }
}

type Model = BTreeMap<UserNo, Intervals>;

fn since(at: u64) -> Intervals {
    let mut intervals = Intervals::default();
    intervals.open(Arrival(at));
    intervals
}

fn random_edits(chance: &mut Chance, list: ListKey, at: u64) -> BTreeMap<UserNo, ListEdit> {
    let is_wide = chance.once_in(3);
    let (first, span) = (chance.below(20_000), if is_wide { 30_000 } else { 3_000 });
    let mut edits = BTreeMap::new();
    for _ in 0..chance.below(1_500) {
        let user = UserNo(first + chance.below(span));
        let mut intervals = since(chance.below(at + 1));
        if chance.once_in(4) {
            intervals.close(Arrival(at));
        }
        edits
            .insert(user, ListEdit { key: list, user, intervals, at: Arrival(at), floor: Arrival(u64::MAX) });
    }
    edits
}

#[test]
fn streamed_and_visited_lists_equal_a_map_whatever_layer_holds_them() {
    let directory = std::env::temp_dir().join(format!("fantail-lists-{}", std::process::id()));
    let options = StoreOptions::new(&directory);
    let rows = Rows::open(&options).expect("an empty directory opens");
    let mut layers = Layers { rows, active: PageMap::new(), frozen: PageMap::new() };
    for seed in 0..12 {
        let mut chance = Chance::new(seed);
        let list = ListKey { tenant: TenantId(1), list: ListId([seed as u8; 16]) };
        let mut model = Model::new();
        let mut horizon = 0;
        for at in 1..NEWEST {
            match chance.below(8) {
                0 => layers.freeze(),
                1 => layers.land(),
                2 => layers.thaw(),
                3 => horizon += chance.below(at - horizon),
                _ => {
                    let edits = random_edits(&mut chance, list, at);
                    layers.edit(list, &edits.values().cloned().collect::<Vec<_>>(), horizon);
                    model.extend(edits.into_iter().map(|(user, edit)| (user, edit.intervals)));
                }
            }
            check_all(&layers, list, &model, horizon, seed);
            check_stretch(&mut chance, &layers, list, &model, horizon, seed);
        }
        let gone = |user| ListEdit {
            key: list,
            user,
            intervals: Intervals::default(),
            at: Arrival(NEWEST),
            floor: Arrival(u64::MAX),
        };
        layers.edit(list, &model.keys().map(|user| gone(*user)).collect::<Vec<_>>(), horizon);
        assert_eq!(layers.pages().members(list, None, 1).expect("a healthy database reads"), []);
    }
    drop(layers);
    std::fs::remove_dir_all(&directory).expect("the directory can be removed");
}

fn check_all(layers: &Layers, list: ListKey, model: &Model, horizon: u64, seed: u64) {
    let found = layers.pages().members(list, None, usize::MAX).expect("a healthy database reads");
    let found: Model = found.into_iter().map(|member| (member.user, member.intervals)).collect();
    check_above(&found, model, Arrival(horizon), seed);
}

fn check_stretch(
    chance: &mut Chance,
    layers: &Layers,
    list: ListKey,
    model: &Model,
    horizon: u64,
    seed: u64,
) {
    let from = UserNo(if chance.once_in(2) { 0 } else { chance.below(25_000) });
    let until = chance.once_in(2).then(|| UserNo(chance.below(50_000)));
    let after = Arrival(horizon + chance.below(5));
    let (mut block, mut next, mut found) = (Block::default(), Some(from), Model::new());
    while let Some(from) = next {
        let told = layers.pages().stream(Stretch { list, from, until, after }, &mut block);
        next = told.expect("a healthy database reads");
        assert!(next.is_none_or(|next| next > from), "seed {seed}");
        for (user, stays) in block.all() {
            let stays = Intervals::from_stored(&stays).expect("stays are ordered");
            assert_eq!(found.insert(user, stays), None, "seed {seed}: {user:?} twice");
        }
    }
    let is_inside = |user: &UserNo| *user >= from && until.is_none_or(|until| *user < until);
    assert!(found.keys().all(is_inside), "seed {seed}");
    let expected = model.iter().filter(|(user, _)| is_inside(user));
    let expected = expected.map(|(user, stays)| (*user, stays.clone())).collect();
    check_above(&found, &expected, after, seed);
}

/// Whether two tell the same about every arrival above `after`.
fn check_above(found: &Model, expected: &Model, after: Arrival, seed: u64) {
    let nothing = Intervals::default();
    for user in found.keys().chain(expected.keys()) {
        let [found, expected] = [found, expected].map(|of| of.get(user).unwrap_or(&nothing));
        for arrival in (after.0 + 1..=NEWEST + 1).map(Arrival) {
            let told = found.contains(arrival);
            assert_eq!(told, expected.contains(arrival), "seed {seed}: {user:?} at {arrival:?}");
        }
    }
}
