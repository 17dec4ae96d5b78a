//! Pages against plain maps: packed, edited, split and forgotten in, they tell what may still be asked for.

use super::rewrite::Packed;
use super::*;
use fantail_ports::lists::{ListEdit, ListKey};
use fantail_rules::ids::{ListId, TenantId};
use fantail_rules::interval::Intervals;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

const LIST: ListKey = ListKey { tenant: TenantId(1), list: ListId([2; 16]) };

type Plain = BTreeMap<UserNo, Vec<Interval>>;

fn edit(user: u64, stays: &[Interval], at: u64) -> ListEdit {
    let intervals = Intervals::from_stored(stays).expect("the tests have ordered stays");
    ListEdit { key: LIST, user: UserNo(user), intervals, at: Arrival(at), floor: Arrival(u64::MAX) }
}

fn stay(from: u64, until: Option<u64>) -> Interval {
    Interval { from: Arrival(from), until: until.map(Arrival) }
}

fn open(page: &Packed) -> Page<'_> {
    Page::open(page.from, &page.bytes).expect("a page has a head")
}

fn unpack(page: &Packed) -> Plain {
    let mut plain = Plain::new();
    let visited = open(page).visit(|user, stays| {
        assert_eq!(plain.insert(user, stays.to_vec()), None);
    });
    visited.expect("a page decodes");
    assert_eq!(plain.len() as u64, page.members);
    plain
}

/// Pages that cover everything from a number on, as a list has them.
struct List(BTreeMap<UserNo, Packed>);

impl List {
    fn new(from: u64) -> Self {
        let page = Packed { from: UserNo(from), members: 0, bytes: vec![0, 0, 0] };
        Self(BTreeMap::from([(page.from, page)]))
    }

    fn edit(&mut self, edits: &BTreeMap<u64, ListEdit>, horizon: u64) {
        let edits: Vec<_> = edits.values().collect();
        let mut left = &edits[..];
        while let Some(first) = left.first() {
            let (_, page) = self.0.range(..=first.user).next_back().expect("pages cover every number");
            let page = open(page);
            let here = left.partition_point(|edit| page.holds(edit.user));
            let rewritten =
                rewrite(&page, &left[..here], Arrival(horizon), &mut Vec::new()).expect("a page decodes");
            assert_eq!(rewritten[0].from, page.from);
            self.0.extend(rewritten.into_iter().map(|page| (page.from, page)));
            left = &left[here..];
        }
        self.check();
    }

    fn check(&self) {
        let mut expected = None;
        for page in self.0.values() {
            assert!(page.members <= PAGE_MEMBERS_MAX as u64);
            assert!(expected.is_none_or(|from| page.from == from), "pages cover every number");
            expected = open(page).upper;
        }
        assert_eq!(expected, None, "the last page has no upper bound");
    }

    fn all(&self) -> Plain {
        self.0.values().flat_map(unpack).collect()
    }

    fn block(&self, after: u64) -> Block {
        let mut block = Block::default();
        for page in self.0.values() {
            block.add(&open(page), Arrival(after)).expect("a page decodes");
        }
        assert!(block.throughout().is_sorted() && block.partly().is_sorted_by_key(|(user, _)| user));
        block
    }
}

fn is_on(stays: Option<&Vec<Interval>>, arrival: u64) -> bool {
    stays.is_some_and(|stays| stays.iter().any(|stay| stay.contains(Arrival(arrival))))
}

/// Whether two tell the same about every arrival above `after`.
fn check_above(found: &Plain, expected: &Plain, after: u64, newest: u64) {
    for user in found.keys().chain(expected.keys()) {
        for arrival in after + 1..=newest + 1 {
            let (found, expected) = (found.get(user), expected.get(user));
            assert_eq!(is_on(found, arrival), is_on(expected, arrival), "{user:?} {found:?} {expected:?}");
        }
    }
}

/// Stays that begin at or above `from`.
fn stays(from: u64) -> impl Strategy<Value = Vec<Interval>> {
    (vec((0u64..5, 1u64..5), 0..3), any::<bool>()).prop_map(move |(steps, is_open)| {
        let mut at = from;
        let mut stays: Vec<_> = steps
            .into_iter()
            .map(|(gap, length)| {
                let from = at + gap;
                at = from + length;
                stay(from, Some(at))
            })
            .collect();
        stays.extend(is_open.then_some(stay(at, None)));
        stays
    })
}

/// Mostly members who are simply there, far apart or close together.
fn batch() -> impl Strategy<Value = Vec<(u64, Vec<Interval>)>> {
    let one = prop_oneof![8 => Just(vec![stay(0, None)]), 2 => stays(0), 1 => Just(Vec::new())];
    let user = prop_oneof![0u64..3_000, 0u64..3_000, 0u64..3_000_000];
    prop_oneof![
        vec((user, one.clone()), 0..40),
        (0u64..5_000, 1u64..300, vec((1u64..3, one), 0..1_800)).prop_map(|(mut user, spread, steps)| {
            let step = |(step, stays)| {
                user += step * spread;
                (user, stays)
            };
            steps.into_iter().map(step).collect()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lists_equal_a_map_above_the_horizon(
        from in 0u64..3,
        batches in vec((batch(), 0u64..4), 1..8),
        after in 0u64..12,
    ) {
        let (mut list, mut model, mut horizon) = (List::new(from), Plain::new(), 0);
        for (batch, progress) in batches {
            let edits = batch.into_iter().map(|(user, stays)| (user + from, edit(user + from, &stays, 3)));
            let edits: BTreeMap<_, _> = edits.collect();
            model.extend(edits.values().map(|edit| (edit.user, edit.intervals.as_slice().to_vec())));
            list.edit(&edits, horizon);
            check_above(&list.all(), &model, horizon, 30);
            check_above(&list.block(horizon + after).all(), &model, horizon + after, 30);
            horizon += progress;
        }
    }

    #[test]
    fn edits_at_once_equal_edits_one_by_one(batches in vec((batch(), 0u64..4), 1..5)) {
        let (mut once, mut single, mut horizon) = (List::new(0), List::new(0), 0);
        for (batch, progress) in batches {
            let edits = batch.into_iter().map(|(user, stays)| (user, edit(user, &stays, 3)));
            let edits: BTreeMap<_, _> = edits.collect();
            once.edit(&edits, horizon);
            for (user, edit) in edits {
                single.edit(&BTreeMap::from([(user, edit)]), horizon);
            }
            check_above(&once.all(), &single.all(), horizon, 30);
            horizon += progress;
        }
    }

    #[test]
    fn stays_round_trip(base: u64, stays in stays(0), moved: u64) {
        prop_assume!(!stays.is_empty());
        let moved = moved.min(u64::MAX - 100);
        let move_one = |one: &Interval| stay(one.from.0 + moved, one.until.map(|until| until.0 + moved));
        let stays: Vec<_> = stays.iter().map(move_one).collect();
        let (mut bytes, mut found) = (Vec::new(), Vec::new());
        put_stays(&mut bytes, Arrival(base), &stays);
        let mut cut = Cut(&bytes);
        prop_assert_eq!(read_stays(&mut cut, Arrival(base), &mut found), Some(()));
        prop_assert!(cut.is_empty());
        prop_assert_eq!(found, stays);
    }

    #[test]
    fn heads_of_members_round_trip(distance: u64, shift in 0u32..64, has_stays: bool) {
        let (distance, mut bytes) = (distance >> shift, Vec::new());
        put_member_head(&mut bytes, distance, has_stays);
        let walk = Walk { user: 0, base: Arrival(0), left: 1, rest: &bytes };
        let found = walk.peek().expect("a head decodes").expect("one is left");
        prop_assert_eq!((found.user, found.has_stays, found.rest), (distance, has_stays, &[][..]));
    }

    #[test]
    fn any_bytes_are_refused_or_read_without_panic(
        bytes in vec(prop_oneof![0u8..9, any::<u8>()], 0..60),
        user in prop_oneof![3u64..99, any::<u64>()],
        horizon in 0u64..9,
    ) {
        let Ok(page) = Page::open(UserNo(3), &bytes) else { return Ok(()) };
        let _refused_or_read = page.visit(|_, _| ());
        let _refused_or_read = Block::default().add(&page, Arrival(2));
        if page.holds(UserNo(user)) {
            let _refused_or_edited = rewrite(&page, &[&edit(user, &ALWAYS, 0)], Arrival(horizon), &mut Vec::new());
        }
    }
}

#[test]
fn layout_is_frozen() {
    let edits = [
        edit(10, &[stay(7, None)], 8),
        edit(12, &[stay(1, Some(4)), stay(9, None)], 8),
        edit(14, &[stay(3, None)], 8),
        edit(78, &[stay(0, Some(2))], 8),
        edit(79, &[stay(5, Some(9)), stay(9, Some(10))], 8),
    ];
    let page = Page::open(UserNo(10), &[80, 0, 0]).expect("a page has a head");
    let edited = rewrite(&page, &edits.each_ref(), Arrival(5), &mut Vec::new()).expect("a page decodes");
    let expected = [80, 4, 3, 5, 8, 1, 3, 1, 5, 3, 2, 4, 0x83, 1, 4, 15, 9, 0, 1];
    assert_eq!(edited, [Packed { from: UserNo(10), members: 4, bytes: expected.to_vec() }]);
}

#[test]
fn a_member_who_is_simply_there_takes_a_byte() {
    let edits: BTreeMap<_, _> = (0..100_000).map(|user| (user, edit(user, &[stay(7, None)], 7))).collect();
    let mut list = List::new(0);
    list.edit(&edits, 7);
    let bytes: usize = list.0.values().map(|page| page.bytes.len()).sum();
    assert!(bytes < 102_000, "{bytes}");
    assert_eq!(list.0.len(), 100_000usize.div_ceil(PAGE_MEMBERS_MAX), "members in order fill their pages");
}

#[test]
fn starts_that_wait_to_be_forgotten_take_two_bytes_more() {
    let (at, count) = (1 << 40, 100_000);
    let edits: BTreeMap<_, _> = (0..count).map(|user| (user, edit(user, &[stay(at, None)], at))).collect();
    let mut list = List::new(0);
    list.edit(&edits, at - 1);
    let bytes: usize = list.0.values().map(|page| page.bytes.len()).sum();
    assert!(bytes < 305_000, "{bytes}");
    let edits = (0..count).step_by(PAGE_MEMBERS_MAX).map(|user| (user, edit(user, &[stay(at, None)], at)));
    list.edit(&edits.collect(), at);
    let bytes: usize = list.0.values().map(|page| page.bytes.len()).sum();
    assert!(bytes < 102_000, "an edit of their page forgets them: {bytes}");
}
