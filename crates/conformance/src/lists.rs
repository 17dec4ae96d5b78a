//! Lists: who is on them, in order, page by page. Members who left may be returned as long as the inbox may
//! still need them, and starts may be forgotten once it does not, so where events are materialised the cases
//! compare who is on the list now and at every arrival that may still be asked for.

use crate::chance::Chance;
use crate::store::{Case, Fresh, Rig, SHARD, commit, read, run, sync};
use fantail_ports::inbox::{Audience, Window, WindowEvent};
use fantail_ports::lists::{ListEdit, ListKey, Member};
use fantail_ports::store::{Commit, Tended};
use fantail_rules::ids::{Arrival, ListId, Position, TenantId, UserNo};
use fantail_rules::interval::Intervals;
use std::collections::BTreeMap;

pub const CASES: &[Case] = &[
    ("members come in order, page by page", members_come_in_order),
    ("an edit is the whole truth, also again", edit_is_the_whole_truth),
    ("lists and tenants do not see each other", lists_are_apart),
    ("a forgotten member is gone", forgotten_member_is_gone),
    ("what is still to be delivered is remembered", undelivered_is_remembered),
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
    ListEdit { key, user: UserNo(user), intervals, at: Arrival(0), floor: Arrival(u64::MAX) }
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

/// Somebody joins and somebody leaves after an event was materialised that is still to be delivered.
fn undelivered_is_remembered(fresh: Fresh<'_>) {
    const EVENTS: u64 = 20_000;
    let rig = fresh();
    fold(&*rig, 1, vec![edit(LIST, 4, since(0)), edit(LIST, 5, since(0))]);
    let event = |arrival| WindowEvent { arrival: Arrival(arrival), audience: Audience::List(LIST.list) };
    let windows = vec![Window { tenant: LIST.tenant, events: (1..=EVENTS).map(event).collect() }];
    commit(&*rig, SHARD, Commit { through: Position(2), windows, ..Commit::default() });
    tend(&*rig);
    let edit =
        |user, intervals| ListEdit { at: Arrival(10), floor: Arrival(6), ..edit(LIST, user, intervals) };
    let mut left = since(0);
    left.close(Arrival(10));
    fold(&*rig, 3, vec![edit(4, left.clone()), edit(6, since(10))]);
    // Others come later, on the same page, when even more is materialised.
    tend(&*rig);
    fold(&*rig, 4, vec![edit(7, since(EVENTS))]);
    let is_on = |member: &Member, arrival| member.intervals.contains(Arrival(arrival));
    for (arrival, expected) in [(7, vec![4, 5]), (10, vec![4, 5]), (11, vec![5, 6]), (EVENTS, vec![5, 6])] {
        let found = members(&*rig, LIST, None, 9);
        let found: Vec<_> = found.into_iter().filter(|member| is_on(member, arrival)).collect();
        assert_eq!(users(&found), expected, "at {arrival}");
    }
}

fn tend(rig: &dyn Rig) {
    while rig.store().tend().expect("a healthy store is tended") == Tended::MoreWaiting {}
}

/// Members by list, and their stays.
type State = BTreeMap<ListKey, BTreeMap<u64, Intervals>>;

/// The states after each commit. Each brings one event, so there are as many arrivals as commits.
struct History {
    states: Vec<State>,
    /// What may be materialised, also before a crash: lists need not be exact about it.
    tended: u64,
}

impl History {
    fn newest(&self) -> &State {
        self.states.last().expect("a history begins with the empty state")
    }

    fn arrivals(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// Above this lists are exact.
    fn vague_through(&self) -> u64 {
        self.tended.min(floor_at(self.arrivals()).0)
    }
}

/// Every twelfth event takes a while to be delivered.
fn floor_at(arrivals: u64) -> Arrival {
    if arrivals % 12 < 5 && arrivals >= 12 { Arrival(arrivals / 12 * 12 - 1) } else { Arrival(u64::MAX) }
}

fn large_lists_equal_a_map(fresh: Fresh<'_>) {
    for seed in 0..4 {
        let mut chance = Chance::new(seed);
        let mut rig = fresh();
        let lists = [LIST, ListKey { list: ListId([9; 16]), ..LIST }];
        let empty = State::from(lists.map(|list| (list, BTreeMap::new())));
        let mut history = History { states: vec![empty], tended: 0 };
        for step in 0..80 {
            match chance.below(10) {
                0 | 1 => sync(&*rig),
                2 if step % 3 == 0 => {
                    rig.crash();
                    let mark = rig.store().marks().get(&SHARD).map_or(0, |mark| mark.0);
                    history.states.truncate(mark as usize + 1);
                }
                3 if seed > 0 => {
                    tend(&*rig);
                    history.tended = history.tended.max(history.arrivals());
                }
                _ => random_edits(&mut chance, &*rig, &lists, &mut history),
            }
            for list in lists {
                check(&mut chance, &*rig, list, &history, seed);
            }
        }
    }
}

fn random_edits(chance: &mut Chance, rig: &dyn Rig, lists: &[ListKey], history: &mut History) {
    let (mut state, at) = (history.newest().clone(), Arrival(history.arrivals()));
    let mut edits = Vec::new();
    for _ in 0..chance.below(300) {
        let key = lists[chance.below(lists.len() as u64) as usize];
        let user = chance.below(3_000);
        let members = state.get_mut(&key).expect("every list has a state");
        let stays = members.entry(user).or_default();
        match chance.below(9) {
            0 => *stays = Intervals::default(),
            1 | 2 => _ = stays.close(at),
            _ => _ = stays.open(at),
        }
        edits.push(ListEdit { key, user: UserNo(user), intervals: stays.clone(), at, floor: floor_at(at.0) });
    }
    let event = WindowEvent { arrival: Arrival(at.0 + 1), audience: Audience::List(LIST.list) };
    let windows = vec![Window { tenant: LIST.tenant, events: vec![event] }];
    commit(rig, SHARD, Commit { through: Position(at.0 + 1), edits, windows, ..Commit::default() });
    history.states.push(state);
}

fn check(chance: &mut Chance, rig: &dyn Rig, list: ListKey, history: &History, seed: u64) {
    let (mut after, mut found) = (None, BTreeMap::new());
    let limit = 1 + chance.below(700) as usize;
    loop {
        let page = members(rig, list, after, limit);
        assert!(page.len() <= limit && page.is_sorted_by_key(|member| member.user));
        let Some(last) = page.last() else { break };
        after = Some(last.user.0);
        found.extend(page.into_iter().map(|member| (member.user.0, member.intervals)));
    }
    let (expected, nothing) = (&history.newest()[&list], Intervals::default());
    for user in expected.keys().chain(found.keys()) {
        let told = found.get(user).unwrap_or(&nothing);
        let stays = expected.get(user).unwrap_or(&nothing);
        assert_eq!(told.is_open(), stays.is_open(), "seed {seed}: user {user}");
        if history.tended == 0 {
            assert_eq!(told, stays, "seed {seed}: user {user}: nothing is materialised");
        }
        for arrival in (history.vague_through() + 1..=history.arrivals() + 1).map(Arrival) {
            assert_eq!(
                told.contains(arrival),
                stays.contains(arrival),
                "seed {seed}: user {user} at {arrival}"
            );
        }
    }
}
