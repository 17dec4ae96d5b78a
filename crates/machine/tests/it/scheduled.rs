//! What is scheduled: held back by the front, released once when it is due, unless it was called off.

use crate::deliveries::by;
use crate::harness::{DAY_MS, FRONT, Node, Post, START, TENANT, admitted, list};
use fantail_machine::front::admit::AskAudience;
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::records::front::Options;
use fantail_machine::shard::Offer;
use fantail_machine::tables::event::{self, EventRow};
use fantail_machine::tables::{Family, Row, collect, scheduled, taken};
use fantail_ports::store::{Commit, Store};
use fantail_ports::tables::{Changes, KeyRange, Order};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, PartitionId, Position};
use fantail_rules::knobs::StepSizes;
use fantail_rules::limits::SCHEDULED_PER_TENANT_MAX;
use fantail_rules::ulid::Ulid;

const DUE: Millis = Millis(START.0 + 3_600_000);

fn at(due: Millis) -> Options {
    Options { due: Some(due), ..Options::default() }
}

fn is_taken(node: &Node, event: Ulid) -> bool {
    node.read_shard(|state| taken::arrival_of(state.tables(), TENANT, event).unwrap().is_some())
}

fn row(node: &Node, event: Ulid) -> EventRow {
    let front = PartitionId::Front(FRONT);
    node.read(front, |state| event::find(state.tables(), TENANT, event).unwrap().unwrap())
}

fn release(node: &mut Node) -> usize {
    let count = node.release();
    node.take_all();
    count
}

// proves: SCH-01, DEL-19
#[test]
fn nobody_knows_of_it_before_it_is_due_and_it_fires_once() {
    for is_list in [false, true] {
        let mut node = Node::new();
        let ann = node.user(0);
        node.join(0, list(2));
        node.delivery = Some(by(&[ChannelKind::InApp, ChannelKind::Push]));
        node.options = at(DUE);
        let event = if is_list { node.post(list(2), false) } else { node.send(&[ann]) };
        assert_eq!(event.millis(), DUE, "it is of the time it is due at");
        let plain = node.post(list(2), false);
        assert_eq!(plain.millis(), START, "ids of what is not scheduled go on as before");
        node.now = Millis(DUE.0 - 1);
        assert_eq!(release(&mut node), 0);
        assert!(!is_taken(&node, event) && is_taken(&node, plain));
        assert!(row(&node, event).held_until() == Some(DUE));
        node.offers.clear();
        node.now = DUE;
        assert_eq!(release(&mut node), 1);
        assert!(is_taken(&node, event) && row(&node, event).released);
        let works = node.offers.iter().filter(|offer| matches!(offer, Offer::Work { .. })).count();
        assert_eq!(works, 1);
        let before = node.records();
        assert_eq!(release(&mut node), 0);
        assert_eq!(node.records(), before, "once");
    }
}

// proves: SCH-02
#[test]
fn what_is_called_off_before_it_is_due_never_fires() {
    for is_retracted in [false, true] {
        let mut node = Node::new();
        let ann = node.user(0);
        node.options = at(DUE);
        let event = node.send(&[ann]);
        let ask = if is_retracted {
            FrontAsk::Retract { tenant: TENANT, event }
        } else {
            FrontAsk::Cancel { tenant: TENANT, event }
        };
        node.front(ask);
        assert!(row(&node, event).is_stillborn());
        node.now = DUE;
        release(&mut node);
        assert!(!is_taken(&node, event));
    }
}

/// By its id it is between others, by its arrival behind them.
// proves: SCH-01, SCH-02, DEL-19
#[test]
fn everything_is_found_by_its_id_whenever_it_was_released() {
    for is_list in [false, true] {
        let mut node = Node::new();
        let ann = node.user(0);
        node.join(0, list(2));
        node.options = at(DUE);
        let late = if is_list { node.post(list(2), false) } else { node.send(&[ann]) };
        node.now = Millis(DUE.0 - 10);
        let before = node.post(list(2), false);
        node.now = Millis(DUE.0 + 10);
        let after = node.post(list(2), false);
        node.take_all();
        node.release();
        let last = node.post(list(2), false);
        node.take_all();
        let all = [before, after, late, last];
        assert!(late > before && late < after, "between the others of one page");
        for (place, event) in all.iter().enumerate() {
            assert!(is_taken(&node, *event), "{is_list} {place}");
            node.front(FrontAsk::Retract { tenant: TENANT, event: *event });
        }
        node.take_all();
        assert_eq!(node.events(ann), [], "whoever takes something back must be heard");
        node.now = node.now.plus(91 * DAY_MS);
        node.expire(90);
        assert!(all.iter().all(|event| !is_taken(&node, *event)));
        let kept = node.read_shard(|state| {
            let (from, to) = ([Family::TakenLate as u8], [Family::TakenLate as u8 + 1]);
            let range = KeyRange { from: &from, to: &to };
            collect(state.tables(), range, Order::Ascending, 9, |key, _| Ok(key.to_vec())).unwrap()
        });
        assert!(kept.is_empty(), "{kept:?}");
    }
}

#[test]
fn many_are_released_in_portions_in_the_order_of_their_time() {
    let mut node = Node::new();
    let ann = node.user(0);
    let events: Vec<Ulid> = (0..40)
        .map(|no| {
            node.options = at(Millis(DUE.0 - no));
            node.send(&[ann])
        })
        .collect();
    node.now = DUE;
    let mut portions = 0;
    while release(&mut node) == StepSizes::DEFAULT.released_events {
        portions += 1;
    }
    assert_eq!(portions, 2);
    let arrivals: Vec<_> = node.read_shard(|state| {
        let arrival = |event: &Ulid| taken::arrival_of(state.tables(), TENANT, *event).unwrap().unwrap().0;
        events.iter().map(arrival).collect()
    });
    assert!(arrivals.is_sorted_by(|later, earlier| later > earlier), "the earliest first");
}

// proves: SCH-02
#[test]
fn events_are_found_by_their_cancellation_key_until_they_are_forgotten() {
    let mut node = Node::new();
    let ann = node.user(0);
    let send = |node: &mut Node, key: u8| {
        node.options = Options { cancellation: Some([key; 16]), ..Options::default() };
        node.send(&[ann])
    };
    let events = [send(&mut node, 1), send(&mut node, 1), send(&mut node, 2)];
    let found = |node: &Node, key: u8, after: Option<Ulid>| {
        node.read(PartitionId::Front(FRONT), |state| {
            scheduled::cancellable(state.tables(), TENANT, &[key; 16], after, 10).unwrap()
        })
    };
    assert_eq!(found(&node, 1, None), events[..2]);
    assert_eq!(found(&node, 1, Some(events[0])), events[1..2]);
    assert_eq!((found(&node, 2, None), found(&node, 3, None)), (vec![events[2]], Vec::new()));
    node.now = START.plus(100 * DAY_MS);
    let forget = FrontAsk::Forget { tenant: TENANT, retention_days: 90 };
    while node.front(forget.clone()) == (FrontAnswer::Forgot { more: true }) {}
    assert!(found(&node, 1, None).is_empty() && found(&node, 2, None).is_empty());
}

#[test]
fn retention_counts_from_the_time_it_is_due() {
    let mut node = Node::new();
    let ann = node.user(0);
    let due = START.plus(200 * DAY_MS);
    node.options = at(due);
    let event = node.send(&[ann]);
    let is_there = |node: &Node| {
        let front = PartitionId::Front(FRONT);
        node.read(front, |state| event::find(state.tables(), TENANT, event).unwrap().is_some())
    };
    for (day, expected) in [(100, true), (250, true), (293, false)] {
        node.now = START.plus(day * DAY_MS);
        release(&mut node);
        let forget = FrontAsk::Forget { tenant: TENANT, retention_days: 90 };
        while node.front(forget.clone()) == (FrontAnswer::Forgot { more: true }) {}
        assert_eq!(is_there(&node), expected, "day {day}");
    }
}

// proves: SCH-01, SCH-02
#[test]
fn what_is_held_is_counted_until_it_goes_and_has_a_bound() {
    let mut node = Node::new();
    let ann = node.user(0);
    node.join(0, list(2));
    let front = PartitionId::Front(FRONT);
    let held = |node: &Node| node.read(front, |state| scheduled::count(state.tables(), TENANT).unwrap());
    let mut events = Vec::new();
    for no in 0..4 {
        node.options = at(DUE);
        events.push(if no == 0 { node.post(list(2), false) } else { node.send(&[ann]) });
    }
    node.send(&[ann]);
    assert_eq!(held(&node), 4);
    for (event, left) in [(events[0], 3), (events[0], 3), (events[1], 2)] {
        node.front(FrontAsk::Cancel { tenant: TENANT, event });
        assert_eq!(held(&node), left);
    }
    node.retract(events[1]);
    assert_eq!(held(&node), 2, "it was called off before");
    node.now = DUE;
    release(&mut node);
    node.retract(events[2]);
    assert_eq!(held(&node), 0);
    // As if a million had been scheduled: the harness does not read what stands in the journal for it.
    let journal = node.journal.get_mut(&front).unwrap();
    journal.push(Vec::new());
    let through = Position(journal.len() as u64);
    let full = scheduled::Count(SCHEDULED_PER_TENANT_MAX - 1).encode();
    let changes = Changes::from([(scheduled::count_key(TENANT), Some(full))]);
    let commit = Commit { through, changes, edits: vec![], windows: vec![], forgets: vec![] };
    node.store.commit(front, commit).unwrap();
    let send = |node: &mut Node, key: u64, due: Option<Millis>| {
        node.options = Options { due, ..Options::default() };
        let audience = AskAudience::Members(vec![(node.at, vec![ann])]);
        node.admit(Post { key, audience, tier_up: 10_000 })
    };
    let later = Some(DUE.plus(DAY_MS));
    let last = admitted(send(&mut node, 1_000, later));
    let limit = SCHEDULED_PER_TENANT_MAX;
    assert_eq!(send(&mut node, 1_001, later), FrontAnswer::TooManyScheduled { limit });
    assert_eq!(send(&mut node, 1_000, later), FrontAnswer::Repeat(last), "a repeat asks for no more");
    admitted(send(&mut node, 1_001, None));
    node.front(FrontAsk::Cancel { tenant: TENANT, event: last });
    admitted(send(&mut node, 1_002, later));
}
