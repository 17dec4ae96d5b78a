//! Retraction hides an event in both tiers, whatever its users did with it, and counts stay exact.

use crate::harness::{Node, START, list};
use fantail_machine::front::FrontAnswer;
use fantail_machine::shard::inbox::Counts;
use fantail_rules::ids::{Millis, UserNo};
use fantail_rules::marks::Mark;
use fantail_rules::ulid::Ulid;

/// How an event reaches its user.
#[derive(Clone, Copy, Debug)]
enum Way {
    Written,
    Pointer,
    Given,
}

const WAYS: [Way; 3] = [Way::Written, Way::Pointer, Way::Given];

fn emit(node: &mut Node, way: Way, user: UserNo) -> Ulid {
    match way {
        Way::Written => node.post(list(2), false),
        Way::Pointer => node.post(list(2), true),
        Way::Given => node.send(&[user]),
    }
}

fn start() -> (Node, UserNo) {
    let mut node = Node::new();
    let user = node.user(0);
    node.join(0, list(2));
    (node, user)
}

// proves: FAN-12, INB-06
/// Three events, the middle one goes: before the marks, after them, or in between taking and retracting.
#[test]
fn a_retracted_event_is_hidden_and_not_counted() {
    let marks = [
        None,
        Some(Mark::Read),
        Some(Mark::Unread),
        Some(Mark::Seen),
        Some(Mark::Archive),
        Some(Mark::Delete),
        Some(Mark::Snooze { until: Millis(START.0 + 1) }),
    ];
    for way in WAYS {
        for mark in marks {
            for mark_first in [true, false] {
                let (mut node, user) = start();
                let events = [(); 3].map(|()| emit(&mut node, way, user));
                node.take_all();
                let mut steps = [true, false];
                if !mark_first {
                    steps.reverse();
                }
                for is_mark in steps {
                    match mark {
                        Some(mark) if is_mark => drop(node.mark(user, mark, &[2])),
                        _ if is_mark => {}
                        _ => {
                            assert_eq!(node.retract(events[1]), FrontAnswer::Retracted);
                            node.take_all();
                        }
                    }
                }
                let case = format!("{way:?} {mark:?} {mark_first}");
                assert_eq!(node.events(user), [events[0], events[2]], "{case}");
                assert_eq!(node.counts(user), Counts { unread: 2, unseen: 2 }, "{case}");
                let lookup = node.inbox(user, |inbox| inbox.entry(events[1]).unwrap());
                assert_eq!(lookup, None, "{case}");
            }
        }
    }
}

#[test]
fn an_event_may_be_retracted_in_the_stretch_that_brings_it() {
    for way in WAYS {
        let (mut node, user) = start();
        let gone = emit(&mut node, way, user);
        let stays = emit(&mut node, way, user);
        node.retract(gone);
        node.take_all();
        assert_eq!(node.events(user), [stays], "{way:?}");
        assert_eq!(node.counts(user).unread, 1, "{way:?}");
    }
}

#[test]
fn retracting_again_or_what_never_was_changes_nothing() {
    let (mut node, user) = start();
    let event = emit(&mut node, Way::Pointer, user);
    node.take_all();
    node.retract(event);
    assert_eq!(node.retract(event), FrontAnswer::Retracted);
    assert_eq!(node.retract(Ulid(event.0 + 1)), FrontAnswer::UnknownEvent);
    node.take_all();
    assert_eq!(node.progress().retracted, 1);
}

#[test]
fn read_all_then_retract_keeps_the_counts_at_zero() {
    for way in WAYS {
        let (mut node, user) = start();
        let events = [(); 3].map(|()| emit(&mut node, way, user));
        node.take_all();
        node.mark_all(user, Mark::Read, 3);
        node.retract(events[0]);
        node.take_all();
        assert_eq!(node.counts(user), Counts { unread: 0, unseen: 0 }, "{way:?}");
        node.mark_all(user, Mark::Unread, 0);
        assert_eq!(node.counts(user), Counts { unread: 2, unseen: 0 }, "{way:?}");
    }
}

/// An entry below the archive watermark that was taken out again counts, until it is retracted.
#[test]
fn an_unarchived_entry_stops_counting_when_it_is_retracted() {
    for way in WAYS {
        let (mut node, user) = start();
        let events = [(); 3].map(|()| emit(&mut node, way, user));
        node.take_all();
        node.mark_all(user, Mark::Archive, 3);
        node.mark(user, Mark::Unarchive, &[2]);
        assert_eq!(node.counts(user), Counts { unread: 1, unseen: 1 }, "{way:?}");
        node.retract(events[1]);
        node.take_all();
        assert_eq!(node.counts(user), Counts { unread: 0, unseen: 0 }, "{way:?}");
    }
}

/// More retractions than a reader walks in one list: those of the reader's own lists are walked instead.
#[test]
fn many_retractions_are_counted_through_the_readers_lists() {
    let (mut node, user) = start();
    let other = node.user(1);
    node.join(1, list(4));
    let mut gone = Vec::new();
    for round in 0..30 {
        gone.push(emit(&mut node, WAYS[round % 3], user));
        gone.push(node.post(list(4), round % 2 == 0));
        gone.push(node.post(list(6), true));
    }
    let kept = emit(&mut node, Way::Pointer, user);
    node.take_all();
    node.leave(0, list(2));
    gone.push(node.post(list(2), false));
    gone.push(node.post(list(2), true));
    node.take_all();
    for event in gone {
        node.retract(event);
    }
    node.take_all();
    assert!(node.progress().retracted > 64 + 4 * 2);
    assert_eq!(node.events(user), [kept]);
    assert_eq!(node.counts(user), Counts { unread: 1, unseen: 1 });
    assert_eq!(node.counts(other), Counts { unread: 0, unseen: 0 });
}
