//! Taking: events of all kinds arrive in the front's order, once, however the stretches are cut.

use crate::harness::{FRONT, Node, Post, SHARD, START, TENANT, admitted, list};
use fantail_machine::front::admit::AskAudience;
use fantail_machine::records::Stamped;
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::taken::{self, Reach};
use fantail_rules::category::CategoryId;
use fantail_rules::ids::{Arrival, PartitionId, Position, ShardNo, TenantId};
use fantail_rules::limits::TAKE_EVENTS_MAX;

fn shard_records(node: &Node) -> Vec<ShardRecord> {
    let journal = node.journal.get(&PartitionId::Shard(node.at)).map_or(&[][..], Vec::as_slice);
    journal.iter().map(|bytes| Stamped::decode(bytes).unwrap().record).collect()
}

// proves: FAN-05
#[test]
fn list_and_explicit_events_arrive_in_the_order_of_admission() {
    for at_most in [1, 2, 3, usize::MAX] {
        let mut node = Node::new();
        let user = node.user(0);
        node.join(0, list(2));
        let expected = [
            node.post(list(2), false),
            node.send(&[user]),
            node.post(list(2), true),
            node.post(list(2), false),
            node.send(&[user]),
            node.send(&[user]),
            node.post(list(2), true),
        ];
        for _ in 0..expected.len() {
            node.take(at_most);
        }
        assert_eq!(node.events(user), expected, "{at_most} at a time");
        assert_eq!(node.arrivals(user), [1, 2, 3, 4, 5, 6, 7]);
    }
}

#[test]
fn a_stretch_is_cut_at_explicit_events_of_this_shard_only() {
    let mut node = Node::new();
    let user = node.user(0);
    node.post(list(2), false);
    node.send_to(vec![(ShardNo(1), vec![user])]);
    node.post(list(2), false);
    node.send(&[user]);
    node.post(list(2), false);
    node.take_all();
    let take = |from, to| ShardRecord::Take { front: FRONT, from: Position(from), to: Position(to) };
    let records = shard_records(&node).split_off(1);
    assert_eq!(records.len(), 3);
    assert_eq!(records[0], take(1, 3));
    assert!(matches!(&records[1], ShardRecord::Given(given) if given.position == Position(4)));
    assert_eq!(records[2], take(5, 5));
    assert_eq!(node.progress().last, Arrival(4), "the other shard's event has no arrival here");
}

#[test]
fn facts_that_were_taken_are_not_taken_again() {
    let mut node = Node::new();
    let user = node.user(0);
    node.send(&[user]);
    node.post(list(2), false);
    let facts = node.facts(Position::START);
    node.take_all();
    let (records, digest) = (shard_records(&node).len(), node.store.digest(PartitionId::Shard(SHARD)));
    let again = ShardAsk::Take { front: FRONT, facts: facts.into() };
    assert_eq!(node.shard(again), ShardAnswer::Took);
    assert_eq!(shard_records(&node).len(), records);
    assert_eq!(node.store.digest(PartitionId::Shard(SHARD)), digest);
}

#[test]
fn long_stretches_are_cut_into_records_of_bounded_size() {
    let mut node = Node::new();
    for _ in 0..2 * TAKE_EVENTS_MAX + 1 {
        node.post(list(2), false);
    }
    node.take_all();
    let lengths: Vec<u64> = shard_records(&node)
        .iter()
        .map(|record| match record {
            ShardRecord::Take { from, to, .. } => to.0 - from.0 + 1,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lengths, [TAKE_EVENTS_MAX as u64, TAKE_EVENTS_MAX as u64, 1]);
}

// proves: TEN-01
#[test]
fn tenants_in_one_stretch_have_their_own_arrivals_and_pages() {
    let mut node = Node::new();
    let tenants = [TENANT, TenantId(2)];
    let users = tenants.map(|tenant| {
        node.tenant = tenant;
        let user = node.user(0);
        node.join(0, list(2));
        user
    });
    assert_eq!(users[0], users[1], "the same numbers mean different users");
    let mut events = [Vec::new(), Vec::new()];
    for index in [0, 1, 1, 0, 1] {
        node.tenant = tenants[index];
        events[index].push(node.post(list(2), index == 1));
    }
    node.take_all();
    for (index, tenant) in tenants.into_iter().enumerate() {
        node.tenant = tenant;
        assert_eq!(node.events(users[index]), events[index]);
        assert_eq!(node.counts(users[index]).unread, events[index].len() as u64);
        let foreign = events[1 - index][0];
        assert_eq!(node.inbox(users[index], |inbox| inbox.entry(foreign).unwrap()), None);
    }
}

#[test]
fn pages_say_how_users_came_to_have_their_events() {
    let mut node = Node::new();
    let user = node.user(0);
    let written = node.post(list(2), false);
    let given = node.send(&[user]);
    let pointer = node.post(list(2), true);
    node.take_all();
    node.read_shard(|state| {
        let about = taken::About { category: CategoryId::of("social"), is_critical: false };
        let arrival_of = |event| taken::arrival_of(state.tables(), TENANT, event).unwrap();
        for (arrival, event, reach) in [
            (1, written, Reach::Written(list(2), about)),
            (2, given, Reach::Given),
            (3, pointer, Reach::Pointer(list(2), about)),
        ] {
            let (found, taken) = arrival_of(event).unwrap();
            assert_eq!((found, taken.reach), (Arrival(arrival), reach));
            let (first, page) = taken::page_of(state.tables(), TENANT, found).unwrap().unwrap();
            assert_eq!(page.events[(arrival - first.0) as usize], taken);
            assert_eq!(page.at, START);
        }
    });
}

#[test]
fn explicit_users_of_several_shards_get_it_in_each() {
    let mut node = Node::new();
    let users = [0, 1].map(|shard| {
        node.at = ShardNo(shard);
        [node.user(0), node.user(1)]
    });
    let audience =
        AskAudience::Members(vec![(ShardNo(0), vec![users[0][1]]), (ShardNo(1), vec![users[1][0]])]);
    let event = admitted(node.admit(Post { key: 1, audience, tier_up: 10_000 }));
    for shard in [0, 1] {
        node.at = ShardNo(shard);
        node.take_all();
        let has = [0, 1].map(|name| node.events(users[usize::from(shard)][name]) == [event]);
        assert_eq!(has, [shard == 1, shard == 0]);
    }
}
