//! Pages in both directions, with filters, while the inbox changes under the reader.

use crate::harness::{Node, list, walk};
use fantail_machine::shard::inbox::Found;
use fantail_rules::ids::{Arrival, UserNo};
use fantail_rules::marks::{Mark, State};
use fantail_rules::merge::Direction;

/// Every third event of each way, on lists that few or many others are on.
fn mixed(entries: usize) -> (Node, UserNo) {
    let mut node = Node::new();
    let user = node.user(0);
    node.join(0, list(2));
    node.join(0, list(4));
    for no in 0..entries {
        match no % 3 {
            0 => node.post(list(2), false),
            1 => node.post(list(4), true),
            _ => node.send(&[user]),
        };
    }
    node.take_all();
    (node, user)
}

fn arrivals(found: &Found) -> Vec<u64> {
    found.entries.iter().map(|entry| entry.arrival.0).collect()
}

// proves: INB-04, INB-12
#[test]
fn pages_of_any_size_show_everything_once_in_order() {
    let (node, user) = mixed(40);
    let newest_first: Vec<u64> = (1..=40).rev().collect();
    for limit in [1, 2, 3, 7, 39, 40, 41, 100] {
        for direction in [Direction::NewestFirst, Direction::OldestFirst] {
            let entries = node.pages(user, direction, State::Inbox, limit);
            let mut shown: Vec<u64> = entries.iter().map(|entry| entry.arrival.0).collect();
            if direction == Direction::OldestFirst {
                shown.reverse();
            }
            assert_eq!(shown, newest_first, "{direction:?} by {limit}");
        }
    }
}

#[test]
fn a_page_that_ends_with_the_inbox_has_no_next() {
    let (node, user) = mixed(6);
    node.inbox(user, |inbox| {
        let whole = inbox.page(Direction::NewestFirst, None, State::All, 6).unwrap();
        assert_eq!((whole.entries.len(), whole.resume), (6, None));
        let part = inbox.page(Direction::NewestFirst, None, State::All, 5).unwrap();
        assert_eq!((part.entries.len(), part.resume), (5, Some(Arrival(2))));
        let rest = inbox.page(Direction::NewestFirst, part.resume, State::All, 5).unwrap();
        assert_eq!((arrivals(&rest), rest.resume), (vec![1], None));
        let since = inbox.page(Direction::OldestFirst, Some(Arrival(4)), State::All, 5).unwrap();
        assert_eq!((arrivals(&since), since.resume), (vec![5, 6], None));
    });
}

/// Filters hide most of a long inbox: pages may be short, but following them finds every match.
#[test]
fn a_sparse_filter_is_followed_to_the_end() {
    let (mut node, user) = mixed(600);
    node.mark_all(user, Mark::Read, 600);
    node.mark(user, Mark::Unread, &[1, 2, 3, 300, 599]);
    for limit in [1, 2, 10] {
        let found = node.pages(user, Direction::NewestFirst, State::Unread, limit);
        let shown: Vec<u64> = found.iter().map(|entry| entry.arrival.0).collect();
        assert_eq!(shown, [599, 300, 3, 2, 1], "by {limit}");
    }
    assert_eq!(node.counts(user).unread, 5);
}

// proves: FAN-04, INB-04
#[test]
fn inserts_while_paging_hide_and_repeat_nothing() {
    let (mut node, user) = mixed(20);
    let (mut shown, mut cursor) = (Vec::new(), None);
    loop {
        let found =
            node.inbox(user, |inbox| inbox.page(Direction::NewestFirst, cursor, State::All, 3).unwrap());
        shown.extend(arrivals(&found));
        node.post(list(2), false);
        node.post(list(4), true);
        node.take_all();
        cursor = found.resume;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(shown, (1..=20).rev().collect::<Vec<u64>>());
}

/// A client that asks since its newest entry sees everything that came after it, once.
#[test]
fn a_since_client_misses_nothing() {
    let (mut node, user) = mixed(3);
    let (mut seen, mut since) = (vec![1, 2, 3], Arrival(3));
    for round in 0..20 {
        for no in 0..round % 4 {
            node.post(if no == 1 { list(4) } else { list(2) }, no % 2 == 0);
        }
        node.take(2);
        let found = node.inbox(user, |inbox| walk(inbox, Direction::OldestFirst, State::All, 100));
        let fresh = found.iter().map(|entry| entry.arrival).filter(|arrival| *arrival > since);
        let fresh: Vec<Arrival> = fresh.collect();
        let page = node
            .inbox(user, |inbox| inbox.page(Direction::OldestFirst, Some(since), State::All, 100).unwrap());
        assert_eq!(arrivals(&page), fresh.iter().map(|arrival| arrival.0).collect::<Vec<_>>());
        since = fresh.last().copied().unwrap_or(since);
        seen.extend(arrivals(&page));
    }
    node.take_all();
    let rest =
        node.inbox(user, |inbox| inbox.page(Direction::OldestFirst, Some(since), State::All, 100).unwrap());
    seen.extend(arrivals(&rest));
    assert_eq!(seen, node.arrivals(user));
}

/// A reader on few of many large lists, and one on more lists than there are large ones, find the same pointers.
#[test]
fn pointers_are_found_from_either_side() {
    for (lists_of_user, large_lists) in [(1, 40), (40, 2)] {
        let mut node = Node::new();
        let user = node.user(0);
        (0..lists_of_user).for_each(|no| node.join(0, list(2 * no)));
        let events: Vec<_> = (0..large_lists).map(|no| node.post(list(2 * no), true)).collect();
        node.take_all();
        let own = lists_of_user.min(large_lists) as usize;
        assert_eq!(node.events(user), events[..own]);
        assert_eq!(node.counts(user).unread, own as u64);
    }
}
