//! Retention removes exactly what is old, and counts stay exact while flag rows wait to be swept.

use crate::harness::{DAY_MS, Node, TENANT, list};
use fantail_machine::shard::inbox::Counts;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::{mark, pointer, taken};
use fantail_rules::ids::{Arrival, UserNo};
use fantail_rules::limits::{MARK_ROWS_PER_RECORD_MAX, TAKE_EVENTS_MAX};
use fantail_rules::marks::{Mark, State};
use fantail_rules::merge::Direction;

const RETENTION_DAYS: u32 = 90;

/// Three events of each way on each of these days.
fn inbox_on_days(days: &[u64]) -> (Node, UserNo) {
    let mut node = Node::new();
    let user = node.user(0);
    node.join(0, list(2));
    let start = node.now;
    for day in days {
        node.now = start.plus(day * DAY_MS);
        node.post(list(2), false);
        node.post(list(2), true);
        node.send(&[user]);
        node.take_all();
    }
    (node, user)
}

// proves: INB-05, INB-06
#[test]
fn entries_go_after_the_retention_and_not_before() {
    let (mut node, user) = inbox_on_days(&[0, 10, 20]);
    let start = node.now.0 - 20 * DAY_MS;
    for (day, millis, left) in
        [(90, 0, 9), (90, 1, 6), (99, 0, 6), (100, 0, 6), (100, 1, 3), (110, 0, 3), (110, 1, 0)]
    {
        node.now = fantail_rules::ids::Millis(start + day * DAY_MS + millis);
        node.expire(RETENTION_DAYS);
        let expected: Vec<u64> = (10 - left..10).collect();
        assert_eq!(node.arrivals(user), expected, "day {day}");
        assert_eq!(node.counts(user), Counts { unread: left, unseen: left }, "day {day}");
    }
    let progress = node.progress();
    assert_eq!((progress.horizon, progress.pointer_lists), (Arrival(9), 0));
    node.read_shard(|state| {
        assert_eq!(taken::oldest(state.tables(), TENANT, 1).unwrap(), []);
        assert_eq!(pointer::lists(state.tables(), TENANT).unwrap(), []);
    });
    let event = node.post(list(2), true);
    node.take_all();
    assert_eq!(node.events(user), [event], "the list goes on");
    assert_eq!(node.counts(user).unread, 1);
}

#[test]
fn flags_of_expired_entries_are_swept_and_count_for_nothing_meanwhile() {
    let (mut node, user) = inbox_on_days(&[0, 50]);
    node.mark(user, Mark::Read, &[1, 5]);
    node.mark(user, Mark::Delete, &[2]);
    node.mark_all(user, Mark::Seen, 1);
    node.mark(user, Mark::Unread, &[3]);
    node.now = node.now.plus(45 * DAY_MS);
    let expected = Counts { unread: 2, unseen: 2 };
    // Everything old goes, then the sweep: both in one ask here, so mark an expired entry as a late caller would.
    node.expire(RETENTION_DAYS);
    assert_eq!(node.counts(user), expected);
    node.mark(user, Mark::Unread, &[1, 3]);
    node.mark(user, Mark::Archive, &[2]);
    assert_eq!(node.counts(user), expected, "late marks count for nothing");
    node.expire(RETENTION_DAYS);
    assert_eq!(node.counts(user), expected);
    let left = node.read_shard(|state| mark::flagged_behind(state.tables(), TENANT, None, 100).unwrap());
    assert_eq!(left, [(user, Arrival(5))]);
}

#[test]
fn retractions_expire_with_their_events() {
    let (mut node, user) = inbox_on_days(&[0, 50]);
    let events = node.events(user);
    for index in [0, 1, 2, 4] {
        node.retract(events[index]);
    }
    node.take_all();
    assert_eq!(node.counts(user).unread, 2);
    node.now = node.now.plus(45 * DAY_MS);
    node.expire(RETENTION_DAYS);
    assert_eq!(node.progress().retracted, 1);
    assert_eq!(node.counts(user).unread, 2);
    node.now = node.now.plus(90 * DAY_MS);
    node.expire(RETENTION_DAYS);
    assert_eq!(node.progress().retracted, 0);
    assert_eq!(node.counts(user).unread, 0);
}

#[test]
fn expiring_goes_in_bounded_steps() {
    let (mut node, user) = inbox_on_days(&[0, 0, 0, 0]);
    node.now = node.now.plus(100 * DAY_MS);
    let ask = ShardAsk::Expire { tenant: TENANT, retention_days: RETENTION_DAYS, swept: None };
    let mut left = vec![12];
    loop {
        let ShardAnswer::Expired(progress) = node.shard(ask.clone()) else { panic!("another answer") };
        left.push(node.arrivals(user).len());
        assert_eq!(node.counts(user).unread, *left.last().unwrap() as u64);
        if !progress.outdated {
            break;
        }
    }
    // Eight pages, four at a time, and a last look.
    assert_eq!(left, [12, 6, 0, 0]);
}

/// No record of the sweep clears more rows than a mark record may.
#[test]
fn the_sweep_cuts_its_records() {
    let mut node = Node::new();
    let user = node.user(0);
    node.join(0, list(2));
    let count = 2 * TAKE_EVENTS_MAX;
    for _ in 0..count {
        node.post(list(2), false);
    }
    node.take_all();
    let all: Vec<u64> = (1..=count as u64).collect();
    node.mark(user, Mark::Read, &all);
    node.now = node.now.plus(100 * DAY_MS);
    node.shard(ShardAsk::Expire { tenant: TENANT, retention_days: RETENTION_DAYS, swept: None });
    let (_, cleared) = node.rows_touched.split_first().unwrap();
    assert!(cleared.iter().all(|rows| *rows <= MARK_ROWS_PER_RECORD_MAX + 1), "{cleared:?}");
    assert_eq!(cleared.iter().sum::<usize>(), count + cleared.len());
    assert_eq!(node.counts(user), Counts { unread: 0, unseen: 0 });
    assert_eq!(node.pages(user, Direction::NewestFirst, State::All, 10), []);
}
