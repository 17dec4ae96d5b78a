//! What is kept about deliveries goes thirty days after their event, all of it, and not while anything is in flight.

use super::audit::rows;
use super::chance::finish;
use super::*;
use crate::harness::{FRONT, list};
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::tables::{Family, event, taken};
use fantail_rules::ids::PartitionId;
use proptest::collection::vec;
use proptest::prelude::*;

const KEPT: [Family; 10] = [
    Family::Work,
    Family::WorkMembers,
    Family::Halted,
    Family::Ledger,
    Family::Timer,
    Family::UnderWay,
    Family::Dead,
    Family::Tally,
    Family::Track,
    Family::Told,
];

/// How many rows are kept about deliveries, without the sums of lanes.
fn kept(node: &Node) -> usize {
    node.read_shard(|state| KEPT.into_iter().map(|family| rows(state.tables(), family).len()).sum())
}

fn is_taken(node: &Node, work: WorkId) -> bool {
    node.read_shard(|state| taken::event_at(state.tables(), work.tenant, work.arrival).unwrap().is_some())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    // proves: DED-02, DED-07, DEL-14
    #[test]
    fn nothing_is_left_behind_and_everything_stays_counted(acts in vec((act(), 0u8..8), 1..50)) {
        let mut node = Node::new();
        for name in 0..3 {
            user_with(&mut node, name, name);
            node.join(name, list(0));
        }
        node.delivery = Some(by(&[PUSH, ChannelKind::InApp]));
        for (act, post) in &acts {
            match post {
                0 | 1 => drop(node.post(list(0), *post == 1)),
                2 => {
                    let users: Vec<UserNo> = (0..3).filter_map(|name| node.number(name)).collect();
                    node.send(&users);
                }
                _ => {}
            }
            node.take_all();
            drive(&mut node, act);
            audit(&node);
        }
        finish(&mut node);
        let planned = |node: &Node| node.read_shard(|state| tally::by_lane(state.tables()).unwrap());
        let before = planned(&node);
        node.now = node.now.plus(31 * DAY_MS);
        node.expire(90);
        node.sweep();
        audit(&node);
        prop_assert_eq!(kept(&node), 0);
        prop_assert_eq!(planned(&node), before, "lanes go on counting what was swept");
    }
}

// proves: DED-02, DED-07
#[test]
fn the_guard_holds_for_thirty_days_and_while_anything_is_in_flight() {
    let delivery = by(&[PUSH]);
    let terms = Terms { expires_at: START.plus(60 * DAY_MS), ..delivery.terms };
    let (mut node, parcel) = one_under_way(Delivery { terms, ..delivery });
    node.now = node.now.plus(40 * DAY_MS);
    node.sweep();
    assert_eq!(states(&node, parcel), [State::Intent], "it may still be answered");
    settle(&mut node, parcel, vec![told(0, later(Cause::Message), "busy")]);
    node.sweep();
    assert_eq!(states(&node, parcel), [State::Deferred], "it is tried again");
    let timer = next_timer(&mut node).expect("it is due");
    wake(&mut node, timer, 1);
    settle(&mut node, parcel, vec![told(0, Said::Accepted, "")]);
    node.sweep();
    audit(&node);
    assert_eq!(kept(&node), 0);

    let (mut node, parcel) = one_under_way(by(&[PUSH]));
    settle(&mut node, parcel, vec![told(0, Said::Accepted, "")]);
    let begun = START;
    node.now = begun.plus(30 * DAY_MS);
    node.sweep();
    assert_eq!(states(&node, parcel), [State::Accepted], "not before");
    node.now = begun.plus(30 * DAY_MS + 1_000);
    node.sweep();
    assert_eq!(kept(&node), 0);
}

// proves: DEL-14, DEL-19
#[test]
fn what_has_still_to_leave_outlives_a_shorter_retention() {
    let delivery = by(&[PUSH]);
    let terms = Terms { expires_at: START.plus(10 * DAY_MS), ..delivery.terms };
    let (mut node, parcel) = one_under_way(Delivery { terms, ..delivery });
    let event = row(&node, parcel).event;
    settle(&mut node, parcel, vec![told(0, later(Cause::Message), "busy")]);
    let forget = |node: &mut Node| {
        while node.front(FrontAsk::Forget { tenant: TENANT, retention_days: 1 })
            == (FrontAnswer::Forgot { more: true })
        {}
        node.read(PartitionId::Front(FRONT), |state| {
            event::find(state.tables(), TENANT, event).unwrap().is_some()
        })
    };
    node.now = START.plus(8 * DAY_MS);
    node.expire(1);
    assert!(is_taken(&node, parcel.work()) && forget(&mut node), "it can be sent, and called off");
    assert_eq!(node.front(FrontAsk::Cancel { tenant: TENANT, event }), FrontAnswer::Cancelled);
    node.take_all();
    let timer = next_timer(&mut node).expect("it is due");
    wake(&mut node, timer, 1);
    assert_eq!(states(&node, parcel), [State::Cancelled]);
    node.expire(1);
    assert!(!is_taken(&node, parcel.work()), "it has ended");
    node.now = START.plus(12 * DAY_MS);
    assert!(forget(&mut node), "for a grace after its time to live");
    node.now = START.plus(13 * DAY_MS);
    assert!(!forget(&mut node));
}
