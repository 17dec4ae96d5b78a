//! Lists: who is on them, in order, page by page. Members who left may be returned as long as the inbox may
//! still need them, so the cases compare who is on the list now, and the stay that is open.

use crate::chance::Chance;
use crate::store::{Case, Fresh, Rig, SHARD, commit, read, run, sync};
use fantail_ports::lists::{ListEdit, ListKey, Member};
use fantail_ports::store::Commit;
use fantail_rules::ids::{Arrival, ListId, Position, TenantId, UserNo};
use fantail_rules::interval::Intervals;
use std::collections::BTreeMap;

pub const CASES: &[Case] = &[
    ("members come in order, page by page", members_come_in_order),
    ("an edit is the whole truth, also again", edit_is_the_whole_truth),
    ("lists and tenants do not see each other", lists_are_apart),
    ("a forgotten member is gone", forgotten_member_is_gone),
    ("large lists, syncs and crashes equal a map", large_lists_equal_a_map),
];

pub fn lists_suite(fresh: Fresh<'_>) {
    run("lists", CASES, fresh);
}

const LIST: ListKey = ListKey { tenant: TenantId(7), list: ListId([3; 16]) };

pub(crate) fn since(at: u64) -> Intervals {
    let mut intervals = Intervals::default();
    intervals.open(Arrival(at));
    intervals
}

fn edit(key: ListKey, user: u64, intervals: Intervals) -> ListEdit {
    ListEdit { key, user: UserNo(user), intervals, at: Arrival(0) }
}

fn fold(rig: &dyn Rig, through: u64, edits: Vec<ListEdit>) {
    commit(rig, SHARD, Commit { through: Position(through), edits, ..Commit::default() });
}

pub(crate) fn members(rig: &dyn Rig, list: ListKey, after: Option<u64>, limit: usize) -> Vec<Member> {
    let mut found = Vec::new();
    read(rig, SHARD, |view| {
        let members = view.lists().members(list, after.map(UserNo), limit);
        found = members.expect("a healthy store reads lists");
    });
    found
}

fn users(members: &[Member]) -> Vec<u64> {
    members.iter().map(|member| member.user.0).collect()
}

fn members_come_in_order(fresh: Fresh<'_>) {
    let rig = fresh();
    assert_eq!(members(&*rig, LIST, None, 10), []);
    fold(&*rig, 1, [9, 0, 4, u64::MAX].map(|user| edit(LIST, user, since(2))).into());
    assert_eq!(users(&members(&*rig, LIST, None, 10)), [0, 4, 9, u64::MAX]);
    assert_eq!(users(&members(&*rig, LIST, Some(0), 2)), [4, 9]);
    assert_eq!(users(&members(&*rig, LIST, Some(5), 10)), [9, u64::MAX]);
    assert_eq!(members(&*rig, LIST, Some(u64::MAX), 10), []);
    assert_eq!(members(&*rig, LIST, None, 0), []);
    assert_eq!(members(&*rig, LIST, None, 1), [Member { user: UserNo(0), intervals: since(2) }]);
}

fn edit_is_the_whole_truth(fresh: Fresh<'_>) {
    let rig = fresh();
    let mut stays = since(2);
    stays.close(Arrival(5));
    stays.open(Arrival(8));
    fold(&*rig, 1, vec![edit(LIST, 4, since(2)), edit(LIST, 4, stays.clone())]);
    fold(&*rig, 2, vec![edit(LIST, 4, stays.clone())]);
    assert_eq!(members(&*rig, LIST, None, 9), [Member { user: UserNo(4), intervals: stays }]);
}

fn lists_are_apart(fresh: Fresh<'_>) {
    let rig = fresh();
    let neighbours = [
        ListKey { tenant: TenantId(6), ..LIST },
        ListKey { tenant: TenantId(8), ..LIST },
        ListKey { list: ListId([2; 16]), ..LIST },
        ListKey { list: ListId([4; 16]), ..LIST },
    ];
    for (through, key) in neighbours.iter().enumerate() {
        fold(&*rig, through as u64 + 1, vec![edit(*key, 1, since(0))]);
        sync(&*rig);
    }
    assert_eq!(members(&*rig, LIST, None, 9), []);
    fold(&*rig, 9, vec![edit(LIST, 5, since(0))]);
    assert_eq!(users(&members(&*rig, LIST, None, 9)), [5]);
}

fn forgotten_member_is_gone(fresh: Fresh<'_>) {
    let mut rig = fresh();
    fold(&*rig, 1, vec![edit(LIST, 4, since(0)), edit(LIST, 5, since(0))]);
    sync(&*rig);
    fold(&*rig, 2, vec![edit(LIST, 4, Intervals::default()), edit(LIST, 99, Intervals::default())]);
    assert_eq!(users(&members(&*rig, LIST, None, 9)), [5]);
    fold(&*rig, 3, vec![edit(LIST, 5, Intervals::default())]);
    assert_eq!(members(&*rig, LIST, None, 9), []);
    sync(&*rig);
    rig.crash();
    assert_eq!(members(&*rig, LIST, None, 9), []);
    fold(&*rig, 4, vec![edit(LIST, 6, since(1))]);
    assert_eq!(users(&members(&*rig, LIST, None, 9)), [6]);
}

/// Members by list, and since when.
type State = BTreeMap<ListKey, BTreeMap<u64, u64>>;

fn large_lists_equal_a_map(fresh: Fresh<'_>) {
    for seed in 0..4 {
        let mut chance = Chance::new(seed);
        let mut rig = fresh();
        let lists = [LIST, ListKey { list: ListId([9; 16]), ..LIST }];
        let mut history = vec![State::from(lists.map(|list| (list, BTreeMap::new())))];
        for step in 0..80 {
            match chance.below(10) {
                0 | 1 => sync(&*rig),
                2 if step % 3 == 0 => {
                    rig.crash();
                    let mark = rig.store().marks().get(&SHARD).map_or(0, |mark| mark.0);
                    history.truncate(mark as usize + 1);
                }
                _ => random_edits(&mut chance, &*rig, &lists, &mut history),
            }
            let state = history.last().expect("a history begins with the empty state");
            for (list, expected) in state {
                check(&mut chance, &*rig, *list, expected, seed);
            }
        }
    }
}

fn random_edits(chance: &mut Chance, rig: &dyn Rig, lists: &[ListKey], history: &mut Vec<State>) {
    let mut state = history.last().expect("a history begins with the empty state").clone();
    let (mut edits, at) = (Vec::new(), history.len() as u64);
    for _ in 0..chance.below(300) {
        let key = lists[chance.below(lists.len() as u64) as usize];
        let user = chance.below(3_000);
        let members = state.get_mut(&key).expect("every list has a state");
        // Leaving at the arrival at which one joined leaves no stay behind.
        if chance.once_in(3) {
            members.remove(&user);
            edits.push(edit(key, user, Intervals::default()));
        } else {
            members.insert(user, at);
            edits.push(edit(key, user, since(at)));
        }
    }
    fold(rig, at, edits);
    history.push(state);
}

fn check(chance: &mut Chance, rig: &dyn Rig, list: ListKey, expected: &BTreeMap<u64, u64>, seed: u64) {
    let (mut after, mut found) = (None, Vec::new());
    let limit = 1 + chance.below(700) as usize;
    loop {
        let page = members(rig, list, after, limit);
        let Some(last) = page.last() else { break };
        assert!(page.len() <= limit);
        after = Some(last.user.0);
        found.extend(page);
    }
    let is_open = |member: &&Member| member.intervals.is_open();
    let found: Vec<_> =
        found.iter().filter(is_open).map(|member| (member.user.0, member.intervals.clone())).collect();
    let expected: Vec<_> = expected.iter().map(|(user, at)| (*user, since(*at))).collect();
    assert_eq!(found, expected, "seed {seed}");
}
