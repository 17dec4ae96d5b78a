//! Users come, change and go; numbers are dense and never used again.

use crate::harness::{Node, START, TENANT, list, put_of};
use fantail_machine::shard::users::{Put, PutAnswer, PutCondition};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::todo::Todo;
use fantail_machine::tables::{follow, list as lists, mark, user};
use fantail_ports::lists::ListKey;
use fantail_ports::tables::Order;
use fantail_rules::ids::{Arrival, KeyNo, UserNo};
use fantail_rules::marks::Mark;

fn put(name: u64, key: u64) -> Put {
    put_of(name, key)
}

fn puts(node: &mut Node, users: Vec<Put>) -> Vec<PutAnswer> {
    match node.shard(ShardAsk::PutUsers { tenant: TENANT, users }) {
        ShardAnswer::Users(answers) => answers,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_batch_numbers_new_users_and_updates_the_known_ones() {
    let mut node = Node::new();
    use PutAnswer::{Created, Reseal, Updated};
    let batch = vec![put(0, 1), put(1, 2), put(0, 1), put(1, 9)];
    assert_eq!(puts(&mut node, batch), [Created, Created, Updated, Reseal(KeyNo(2))]);
    node.now = node.now.plus(5);
    assert_eq!(puts(&mut node, vec![put(1, 2), put(0, 7), put(2, 3)]), [Updated, Reseal(KeyNo(1)), Created]);
    let numbers: Vec<_> = (0..3).map(|name| node.number(name)).collect();
    assert_eq!(numbers, [Some(UserNo(0)), Some(UserNo(1)), Some(UserNo(2))]);
    let row = node.read_shard(|state| user::find(state.tables(), TENANT, UserNo(1)).unwrap().unwrap());
    assert_eq!((row.created, row.updated), (START, START.plus(5)));
}

#[test]
fn a_user_who_goes_takes_everything_along() {
    let mut node = Node::new();
    let (user, other) = (node.user(0), node.user(1));
    for name in [0, 1] {
        node.join(name, list(2));
        node.join(name, list(3));
    }
    node.post(list(2), false);
    node.post(list(3), true);
    node.send(&[user, other]);
    node.take_all();
    node.mark(user, Mark::Read, &[1, 2]);
    node.mark_all(user, Mark::Seen, 3);
    assert_eq!(node.delete_user(0), ShardAnswer::UserGone { key: KeyNo(100) });
    assert_eq!(node.number(0), None);
    assert_eq!(node.todos(), [Todo::Shred { tenant: TENANT, key: KeyNo(100) }]);
    node.read_shard(|state| {
        let tables = state.tables();
        assert_eq!(user::find(tables, TENANT, user).unwrap(), None);
        assert_eq!(mark::find(tables, TENANT, user).unwrap(), Default::default());
        let all = Arrival(u64::MAX - 1);
        let flags =
            mark::flagged(tables, TENANT, user, Arrival::START, all, Order::Ascending, usize::MAX).unwrap();
        assert_eq!(flags, []);
        assert_eq!(follow::count(tables, TENANT, user).unwrap(), Default::default());
        for no in [2, 3] {
            assert_eq!(lists::find(tables, TENANT, list(no)).unwrap().unwrap().members, 1);
            let key = ListKey { tenant: TENANT, list: list(no) };
            let members = state.lists().members(key, None, 10).unwrap();
            let open: Vec<_> = members.iter().filter(|one| one.intervals.is_open()).collect();
            assert_eq!(open.len(), 1);
            assert_eq!(open[0].user, other);
        }
    });
    node.run_errands();
    assert_eq!(node.todos(), []);
    assert_eq!(node.arrivals(other), [1, 2, 3], "nobody else lost anything");
    assert_eq!(node.delete_user(0), ShardAnswer::UnknownUser);
}

#[test]
fn a_user_who_comes_back_is_another_one() {
    let mut node = Node::new();
    let first = node.user(0);
    node.join(0, list(2));
    node.post(list(2), false);
    node.take_all();
    node.delete_user(0);
    let second = node.user(0);
    assert_eq!((first, second), (UserNo(0), UserNo(1)));
    node.send(&[first]);
    node.post(list(2), true);
    node.take_all();
    assert_eq!(node.arrivals(second), [0; 0]);
    assert_eq!(node.counts(second).unread, 0);
}

// fixes: usability §3.3
#[test]
fn a_put_with_a_condition_is_done_as_long_as_it_holds() {
    let mut node = Node::new();
    use PutAnswer::{Changed, Created, Updated};
    let one = |condition, nonce| {
        let mut put = Put { condition, ..put(0, 1) };
        put.attributes.nonce = [nonce; 12];
        put
    };
    for (condition, nonce, expected) in [
        (PutCondition::Unchanged([1; 12]), 1, Changed),
        (PutCondition::Absent, 1, Created),
        (PutCondition::Absent, 2, Changed),
        (PutCondition::Unchanged([2; 12]), 3, Changed),
        (PutCondition::Unchanged([1; 12]), 3, Updated),
        (PutCondition::Unchanged([1; 12]), 4, Changed),
        (PutCondition::Always, 4, Updated),
    ] {
        assert_eq!(puts(&mut node, vec![one(condition, nonce)]), [expected], "{condition:?}");
    }
}

/// The key of a gone user is on its way to be destroyed: nobody may be sealed under it again.
#[test]
fn a_gone_users_key_is_not_given_to_the_next_one() {
    let mut node = Node::new();
    let again = Put { minted: false, ..put(7, 3) };
    let ask = ShardAsk::PutUsers { tenant: TENANT, users: vec![again] };
    assert_eq!(node.shard(ask), ShardAnswer::Users(vec![PutAnswer::Mint]));
}
