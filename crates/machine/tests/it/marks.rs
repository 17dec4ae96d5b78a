//! Marks, one, many and all. The random histories cover their combinations; here are the promises one by one.

use crate::harness::{Node, START, list};
use fantail_machine::shard::ShardAnswer;
use fantail_machine::shard::inbox::{Counts, Entry};
use fantail_rules::ids::{Millis, UserNo};
use fantail_rules::limits::SNOOZED_MAX;
use fantail_rules::marks::{Mark, State};
use fantail_rules::merge::Direction;

/// A user with so many entries, written and pointers in turn.
fn inbox_of(entries: usize) -> (Node, UserNo) {
    let mut node = Node::new();
    let user = node.user(0);
    node.join(0, list(2));
    for no in 0..entries {
        node.post(list(2), no % 2 == 0);
    }
    node.take_all();
    (node, user)
}

fn shown(node: &Node, user: UserNo, state: State) -> Vec<u64> {
    let entries = node.pages(user, Direction::OldestFirst, state, 10);
    entries.into_iter().map(|entry| entry.arrival.0).collect()
}

fn entry(node: &Node, user: UserNo, arrival: u64) -> Entry {
    let entries = node.pages(user, Direction::OldestFirst, State::All, 10);
    entries.into_iter().find(|entry| entry.arrival.0 == arrival).unwrap()
}

// proves: INB-13
#[test]
fn each_mark_does_what_its_name_says() {
    let until = Millis(START.0 + 1_000);
    for (mark, counts, inbox) in [
        (Mark::Read, (3, 3), vec![1, 2, 3, 4]),
        (Mark::Seen, (4, 3), vec![1, 2, 3, 4]),
        (Mark::Archive, (3, 3), vec![1, 3, 4]),
        (Mark::Snooze { until }, (3, 3), vec![1, 3, 4]),
        (Mark::Delete, (3, 3), vec![1, 3, 4]),
        (Mark::Unread, (4, 4), vec![1, 2, 3, 4]),
        (Mark::Unarchive, (4, 4), vec![1, 2, 3, 4]),
        (Mark::Unsnooze, (4, 4), vec![1, 2, 3, 4]),
    ] {
        let (mut node, user) = inbox_of(4);
        // Out of order and twice: callers may.
        assert_eq!(node.mark(user, mark, &[2, 2]), ShardAnswer::Marked);
        let (unread, unseen) = counts;
        assert_eq!(node.counts(user), Counts { unread, unseen }, "{mark:?}");
        assert_eq!(shown(&node, user, State::Inbox), inbox, "{mark:?}");
    }
}

#[test]
fn marks_are_undone_by_their_opposites() {
    let until = Millis(START.0 + 1_000);
    for (mark, opposite) in [
        (Mark::Read, Mark::Unread),
        (Mark::Archive, Mark::Unarchive),
        (Mark::Snooze { until }, Mark::Unsnooze),
    ] {
        let (mut node, user) = inbox_of(4);
        node.mark(user, mark, &[1, 3]);
        node.mark(user, opposite, &[3]);
        assert_eq!(node.counts(user).unread, 3, "{mark:?}");
        let entry = entry(&node, user, 3);
        assert_eq!((entry.read, entry.archived, entry.snoozed_until), (false, false, None));
    }
}

#[test]
fn a_snoozed_entry_comes_back_on_time() {
    let (mut node, user) = inbox_of(2);
    let until = node.now.plus(1_000);
    node.mark(user, Mark::Snooze { until }, &[1]);
    assert_eq!(shown(&node, user, State::Snoozed), [1]);
    assert_eq!(entry(&node, user, 1).snoozed_until, Some(until));
    node.now = until;
    assert_eq!(shown(&node, user, State::Inbox), [1, 2]);
    assert_eq!(node.counts(user), Counts { unread: 2, unseen: 2 });
    assert_eq!(entry(&node, user, 1).snoozed_until, None);
}

#[test]
fn so_many_entries_can_be_snoozed_and_no_more() {
    let (mut node, user) = inbox_of(SNOOZED_MAX + 1);
    let snooze = Mark::Snooze { until: node.now.plus(1_000) };
    let all: Vec<u64> = (1..=SNOOZED_MAX as u64 + 1).collect();
    assert_eq!(node.mark(user, snooze, &all), ShardAnswer::TooManySnoozed);
    assert_eq!(node.mark(user, snooze, &all[1..]), ShardAnswer::Marked);
    assert_eq!(node.mark(user, snooze, &all[..1]), ShardAnswer::TooManySnoozed);
    assert_eq!(node.mark(user, snooze, &all[5..]), ShardAnswer::Marked, "again is no more");
    node.now = node.now.plus(1_000);
    let later = Mark::Snooze { until: node.now.plus(1_000) };
    assert_eq!(node.mark(user, later, &all[..1]), ShardAnswer::Marked, "the others are awake");
    assert_eq!(node.counts(user).unread, SNOOZED_MAX as u64);
}

// proves: INB-06, INB-13
/// Watermarks are positions: what arrives after a mark-all is not marked, however it was asked for.
#[test]
fn mark_all_reaches_what_has_arrived_and_nothing_later() {
    for (mark, state) in [(Mark::Read, State::Read), (Mark::Archive, State::Archived)] {
        let (mut node, user) = inbox_of(5);
        node.mark_all(user, mark, 3);
        assert_eq!(shown(&node, user, state), [1, 2, 3], "{mark:?}");
        assert_eq!(node.counts(user), Counts { unread: 2, unseen: 2 }, "{mark:?}");
        node.mark_all(user, mark, u64::MAX - 1);
        node.post(list(2), true);
        node.post(list(2), false);
        node.take_all();
        assert_eq!(shown(&node, user, state), [1, 2, 3, 4, 5], "{mark:?}");
        assert_eq!(node.counts(user), Counts { unread: 2, unseen: 2 }, "{mark:?}");
        node.mark_all(user, mark, 2);
        assert_eq!(shown(&node, user, state), [1, 2, 3, 4, 5], "a watermark does not go back by itself");
    }
}

#[test]
fn mark_all_includes_what_was_marked_otherwise_before() {
    let (mut node, user) = inbox_of(4);
    node.mark_all(user, Mark::Read, 4);
    node.mark(user, Mark::Unread, &[2]);
    assert_eq!(node.counts(user), Counts { unread: 1, unseen: 0 });
    node.mark_all(user, Mark::Read, 1);
    assert_eq!(node.counts(user).unread, 1, "the second is above the first");
    node.mark_all(user, Mark::Read, 4);
    assert_eq!(node.counts(user).unread, 0);
    node.mark_all(user, Mark::Archive, 4);
    node.mark(user, Mark::Unarchive, &[3]);
    assert_eq!(shown(&node, user, State::Inbox), [3]);
    node.mark_all(user, Mark::Archive, 4);
    assert_eq!(shown(&node, user, State::Inbox), [0; 0]);
    node.mark_all(user, Mark::Unarchive, 0);
    node.mark_all(user, Mark::Unread, 0);
    assert_eq!(shown(&node, user, State::Unread), [1, 2, 3, 4]);
}

/// Many flag rows on the way: the watermark moves in steps, up and down, and arrives.
#[test]
fn a_watermark_moves_over_many_flags_in_steps() {
    let (mut node, user) = inbox_of(1_100);
    let odd: Vec<u64> = (1..=1_100).filter(|arrival| arrival % 2 == 1).collect();
    for ids in odd.chunks(100) {
        node.mark(user, Mark::Read, ids);
        node.mark(user, Mark::Archive, ids);
    }
    node.mark_all(user, Mark::Read, 1_100);
    assert!(node.rows_touched.len() > 4, "{:?}", node.rows_touched);
    assert_eq!(node.counts(user), Counts { unread: 0, unseen: 0 });
    node.mark_all(user, Mark::Unread, 0);
    assert!(node.rows_touched.len() > 2, "{:?}", node.rows_touched);
    assert_eq!(node.counts(user), Counts { unread: 550, unseen: 0 });
    node.mark_all(user, Mark::Unarchive, 0);
    assert_eq!(node.counts(user), Counts { unread: 1_100, unseen: 0 });
}
