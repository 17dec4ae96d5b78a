//! Joining and leaving lists: a reader has exactly what arrived while it was on the list, in both tiers; sizes are
//! counted and told.

use crate::harness::{FRONT, Node, SHARD, TENANT, list, lookup, sealed};
use fantail_machine::records::shard::Change;
use fantail_machine::shard::edges::{AskEdge, EdgeAnswer, Edit};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::follow::{self, Open};
use fantail_machine::tables::todo::Todo;
use fantail_machine::tables::{list as lists, size};
use fantail_rules::ids::{PartitionId, ShardNo, UserNo};
use fantail_rules::limits::{FOLLOWS_PER_USER_MAX, INTERVALS_MAX, REPORT_MEMBERS_MIN};

fn edges(node: &mut Node, change: Change, asks: &[(u64, u64)]) -> Vec<EdgeAnswer> {
    let edge = |(name, no): &(u64, u64)| AskEdge { user: lookup(*name), list: list(*no), name: sealed(3) };
    let edit = Edit { change, edges: asks.iter().map(edge).collect() };
    match node.shard(ShardAsk::Edit { tenant: TENANT, edit }) {
        ShardAnswer::Edges(answers) => answers,
        other => panic!("{other:?}"),
    }
}

// proves: FAN-01, FAN-04
#[test]
fn events_inside_the_stays_are_shown_and_no_others() {
    for pointer in [false, true] {
        let mut node = Node::new();
        let user = node.user(0);
        let mut expected = Vec::new();
        for following in [false, true, false, true, true, false] {
            let changes = match following {
                true => node.edit(Change::Join, 0, list(2)),
                false => node.edit(Change::Leave, 0, list(2)),
            };
            assert!(matches!(changes, EdgeAnswer::Changed | EdgeAnswer::Unchanged));
            let events = [node.post(list(2), pointer), node.post(list(2), pointer)];
            node.take_all();
            if following {
                expected.extend(events);
            }
        }
        assert_eq!(node.events(user), expected, "pointer {pointer}");
        assert_eq!(node.counts(user).unread, expected.len() as u64);
    }
}

// proves: FAN-04
/// Both tiers of one list in one inbox: the threshold is crossed up and down while posting.
#[test]
fn crossing_the_threshold_shows_every_event_once_in_order() {
    let mut node = Node::new();
    let user = node.user(0);
    node.join(0, list(2));
    let expected: Vec<_> = (0..40)
        .map(|no| {
            let event = node.post(list(2), no % 7 < 3);
            if no % 3 == 0 {
                node.take(2);
            }
            event
        })
        .collect();
    node.take_all();
    assert_eq!(node.events(user), expected);
    assert_eq!(node.counts(user).unread, 40);
}

/// The order is the shard's: what counts is when the event is taken, not when it was admitted.
#[test]
fn joining_before_the_take_is_in_time() {
    let mut node = Node::new();
    let user = node.user(0);
    let event = node.post(list(2), true);
    node.join(0, list(2));
    node.take_all();
    assert_eq!(node.events(user), [event]);
    let late = node.post(list(2), false);
    node.leave(0, list(2));
    node.take_all();
    assert_eq!(node.events(user), [event], "{late} came after the leave");
}

#[test]
fn leaving_and_joining_with_nothing_in_between_leaves_no_trace() {
    let mut node = Node::new();
    let user = node.user(0);
    node.join(0, list(2));
    node.leave(0, list(2));
    let find =
        |node: &Node| node.read_shard(|state| follow::find(state.tables(), TENANT, user, list(2)).unwrap());
    assert!(find(&node).is_empty());
    node.join(0, list(2));
    node.post(list(2), false);
    node.take_all();
    for _ in 0..2 * INTERVALS_MAX {
        node.leave(0, list(2));
        node.join(0, list(2));
    }
    assert_eq!(find(&node).as_slice().len(), 1);
}

#[test]
fn a_batch_answers_each_edge_and_sees_its_own_changes() {
    let mut node = Node::new();
    let user = node.user(0);
    use EdgeAnswer::{Changed, Unchanged, UnknownUser};
    let asked = [(0, 2), (0, 2), (9, 2), (0, 4), (0, 5)];
    assert_eq!(edges(&mut node, Change::Join, &asked), [Changed, Unchanged, UnknownUser, Changed, Changed]);
    assert_eq!(edges(&mut node, Change::Leave, &[(0, 2), (0, 2), (0, 6)]), [Changed, Unchanged, Unchanged]);
    let open = node.read_shard(|state| follow::count(state.tables(), TENANT, user).unwrap());
    assert_eq!(open, Open { actors: 1, topics: 1 });
    let lists = node.read_shard(|state| follow::of_user(state.tables(), TENANT, user, None, 10).unwrap());
    assert_eq!(lists.iter().map(|one| one.list).collect::<Vec<_>>(), [list(4), list(5)]);
    let behind =
        node.read_shard(|state| follow::of_user(state.tables(), TENANT, user, Some(list(4)), 10).unwrap());
    assert_eq!(behind.iter().map(|one| one.list).collect::<Vec<_>>(), [list(5)]);
}

#[test]
fn a_user_can_be_on_so_many_lists_and_no_more() {
    let mut node = Node::new();
    node.user(0);
    let asks: Vec<(u64, u64)> = (0..FOLLOWS_PER_USER_MAX as u64 + 2).map(|no| (0, no)).collect();
    let answers = edges(&mut node, Change::Join, &asks);
    let changed = answers.iter().filter(|answer| **answer == EdgeAnswer::Changed).count();
    assert_eq!(changed, FOLLOWS_PER_USER_MAX);
    assert_eq!(answers[FOLLOWS_PER_USER_MAX..], [EdgeAnswer::TooMany; 2]);
    assert_eq!(node.edit(Change::Join, 0, list(50_000)), EdgeAnswer::TooMany);
    node.leave(0, list(0));
    node.join(0, list(50_000));
}

#[test]
fn stays_on_one_list_are_limited_until_old_ones_expire() {
    let mut node = Node::new();
    node.user(0);
    let stay = |node: &mut Node| {
        node.join(0, list(2));
        node.post(list(2), true);
        node.take_all();
        node.leave(0, list(2));
        node.post(list(2), true);
        node.take_all();
    };
    (0..INTERVALS_MAX).for_each(|_| stay(&mut node));
    assert_eq!(node.edit(Change::Join, 0, list(2)), EdgeAnswer::TooMany);
    node.now = node.now.plus(100 * crate::harness::DAY_MS);
    node.expire(90);
    stay(&mut node);
}

#[test]
fn large_lists_are_reported_until_the_fronts_know() {
    let mut node = Node::new();
    let report = [Todo::Report { tenant: TENANT, list: list(2) }];
    for name in 0..REPORT_MEMBERS_MIN {
        assert_eq!(node.todos(), [], "{name} members are not worth a report");
        node.user(name);
        node.join(name, list(2));
    }
    assert_eq!(node.todos(), report);
    let known = |node: &Node| {
        node.read(PartitionId::Front(FRONT), |state| size::find(state.tables(), TENANT, list(2)).unwrap())
    };
    assert_eq!(known(&node).total(), 0);
    node.run_errands();
    assert_eq!(known(&node).parts, [(SHARD, REPORT_MEMBERS_MIN)]);
    assert_eq!(node.todos(), []);
    node.leave(0, list(2));
    assert_eq!(node.todos(), report, "a list that was told of is told again when it shrinks");
    node.run_errands();
    assert_eq!(known(&node).total(), REPORT_MEMBERS_MIN - 1);
}

#[test]
fn a_report_that_is_overtaken_is_made_again() {
    let mut node = Node::new();
    for name in 0..20 {
        node.user(name);
    }
    (0..18).for_each(|name| node.join(name, list(2)));
    let sizes = node.read_shard(|state| {
        fantail_machine::shard::report::sizes_to_report(
            state.tables(),
            &[Todo::Report { tenant: TENANT, list: list(2) }],
        )
        .unwrap()
    });
    assert_eq!(sizes[0].members, 18);
    node.join(18, list(2));
    node.shard(ShardAsk::Reported { sizes });
    assert_eq!(node.todos(), [Todo::Report { tenant: TENANT, list: list(2) }]);
    node.run_errands();
    assert_eq!(node.todos(), []);
    let row = node.read_shard(|state| lists::find(state.tables(), TENANT, list(2)).unwrap().unwrap());
    assert_eq!((row.members, row.reported), (19, 19));
}

#[test]
fn the_first_name_of_a_list_is_kept() {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..2).map(|name| node.user(name)).collect();
    assert_eq!(users.len(), 2);
    for (name, key) in [(0, 11), (1, 12)] {
        let edge = AskEdge { user: lookup(name), list: list(2), name: sealed(key) };
        let edit = Edit { change: Change::Join, edges: vec![edge] };
        node.shard(ShardAsk::Edit { tenant: TENANT, edit });
    }
    let row = node.read_shard(|state| lists::find(state.tables(), TENANT, list(2)).unwrap().unwrap());
    assert_eq!(row.name, sealed(11));
    node.at = ShardNo(1);
    assert_eq!(node.read_shard(|state| lists::find(state.tables(), TENANT, list(2)).unwrap()), None);
}
