//! Endpoints whose addresses are still being claimed: a delivery waits for them, and not for ever.

use crate::deliveries::{
    PUSH, by, intend, next_timer, settle, states, timers, told, user_with, wake, words, work,
};
use crate::endpoints::{hear, register, registration};
use crate::harness::{Node, START, list};
use crate::respect::{replan, want};
use fantail_machine::shard::ShardAnswer;
use fantail_machine::shard::outcome::Said;
use fantail_machine::tables::ledger::ParcelId;
use fantail_rules::attempt::State;
use fantail_rules::endpoint::News;
use fantail_rules::ids::UserNo;
use fantail_rules::limits::ENDPOINT_WAIT_MS;
use fantail_rules::preference::Preferences;
use fantail_rules::retry::Cause;

const GRANTED: News = News::Granted { suppressed: false };
const WAITS: (State, &str) = (State::Deferred, "endpoint_pending");

/// A user with a device whose address the directory was not asked for yet.
fn pending_user(node: &mut Node, name: u64) -> UserNo {
    let user = node.user(name);
    register(node, name, registration(name, name * 4 + 1, name * 4 + 1));
    user
}

/// The parcel of a push to these users, which is planned at once.
fn pushed(node: &mut Node, users: &[UserNo]) -> ParcelId {
    node.delivery = Some(by(&[PUSH]));
    node.send(users);
    node.take_all();
    let work = work(node);
    intend(node, work, 1_000).0.unwrap().parcel
}

fn check(node: &Node, parcel: ParcelId, expected: &[(State, &str)]) {
    let found = words(node, parcel);
    let found: Vec<(State, &str)> = found.iter().map(|(state, code)| (*state, code.as_str())).collect();
    assert_eq!(found, expected);
}

/// What is due now may be sent to so many.
fn sent_now(node: &mut Node) -> usize {
    let now = node.now;
    let due: Vec<_> = timers(node).into_iter().filter(|timer| timer.due <= now).collect();
    due.into_iter().map(|timer| wake(node, timer, 100).0.map_or(0, |allowed| allowed.sends.len())).sum()
}

// fixes: proved N2, interop F4
#[test]
fn a_send_right_after_a_registration_goes_out_once_the_device_is_active() {
    let mut node = Node::new();
    let user = pending_user(&mut node, 0);
    let parcel = pushed(&mut node, &[user]);
    check(&node, parcel, &[WAITS]);
    hear(&mut node, user, 1, 1, GRANTED);
    assert_eq!(replan(&mut node), 1, "what waits for the device is asked about at once");
    assert_eq!(sent_now(&mut node), 1);
    check(&node, parcel, &[(State::Intent, "")]);
    assert!(node.now < START.plus(ENDPOINT_WAIT_MS), "nothing waited for a timer");
}

// fixes: proved N2, interop F4
#[test]
fn a_list_waits_for_its_members_too_and_an_active_device_does_not() {
    let mut node = Node::new();
    let (active, half) = (user_with(&mut node, 0, 1), user_with(&mut node, 1, 1));
    register(&mut node, 1, registration(1, 2, 22));
    let pending = pending_user(&mut node, 2);
    let nobody = node.user(3);
    for name in 0..4 {
        node.join(name, list(0));
    }
    node.delivery = Some(by(&[PUSH]));
    node.post(list(0), false);
    node.take_all();
    let work = work(&node);
    let allowed = intend(&mut node, work, 1_000).0.unwrap();
    assert_eq!(allowed.sends.len(), 2);
    let parcel = allowed.parcel;
    check(&node, parcel, &[(State::Intent, ""), (State::Intent, ""), WAITS, WAITS]);
    assert!(active < half && half < pending && pending < nobody);
    hear(&mut node, half, 2, 2, GRANTED);
    hear(&mut node, pending, 1, 1, GRANTED);
    assert_eq!(replan(&mut node), 2);
    assert_eq!(sent_now(&mut node), 2);
    assert_eq!(states(&node, parcel), [State::Intent; 4]);
}

// fixes: proved N2, interop F4
#[test]
fn nothing_waits_for_ever_for_a_device() {
    let mut node = Node::new();
    let user = pending_user(&mut node, 0);
    let parcel = pushed(&mut node, &[user]);
    // A change of what the user wants does not end the wait.
    want(&mut node, 0, Preferences::default());
    replan(&mut node);
    assert_eq!(sent_now(&mut node), 0);
    check(&node, parcel, &[WAITS]);
    let timer = next_timer(&mut node).unwrap();
    assert_eq!(timer.due, START.plus(ENDPOINT_WAIT_MS));
    assert_eq!(sent_now(&mut node), 0);
    check(&node, parcel, &[(State::Suppressed, "no_endpoint")]);
}

// fixes: proved N2
#[test]
fn time_in_which_the_server_did_not_run_is_not_waited() {
    let mut node = Node::new();
    let user = pending_user(&mut node, 0);
    let parcel = pushed(&mut node, &[user]);
    node.now = START.plus(3_600_000);
    assert_eq!(sent_now(&mut node), 0);
    check(&node, parcel, &[WAITS]);
    hear(&mut node, user, 1, 1, GRANTED);
    replan(&mut node);
    assert_eq!(sent_now(&mut node), 1);
}

// fixes: proved N2
#[test]
fn the_time_to_live_ends_the_wait() {
    let mut node = Node::new();
    let user = pending_user(&mut node, 0);
    let mut delivery = by(&[PUSH]);
    delivery.terms.expires_at = START.plus(5_000);
    node.delivery = Some(delivery);
    node.send(&[user]);
    node.take_all();
    let work = work(&node);
    let parcel = intend(&mut node, work, 10).0.unwrap().parcel;
    assert_eq!(next_timer(&mut node).unwrap().due, START.plus(5_000));
    sent_now(&mut node);
    check(&node, parcel, &[(State::Expired, "ttl_expired")]);
}

// fixes: proved N2
/// A device that changes its token is pending again for a moment: what is tried again then waits for it.
#[test]
fn a_retry_waits_for_a_new_token() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    let parcel = pushed(&mut node, &[user]);
    settle(
        &mut node,
        parcel,
        vec![told(0, Said::NotTaken { cause: Cause::Scope, retry_after_ms: None }, "429")],
    );
    assert!(matches!(register(&mut node, 0, registration(0, 1, 9)), ShardAnswer::Registered { .. }));
    next_timer(&mut node).unwrap();
    assert_eq!(sent_now(&mut node), 0);
    check(&node, parcel, &[WAITS]);
    hear(&mut node, user, 1, 2, GRANTED);
    replan(&mut node);
    assert_eq!(sent_now(&mut node), 1);
}

// fixes: proved N2
#[test]
fn a_device_that_is_given_up_is_not_waited_for() {
    let mut node = Node::new();
    let user = pending_user(&mut node, 0);
    let parcel = pushed(&mut node, &[user]);
    hear(&mut node, user, 1, 1, News::Released);
    replan(&mut node);
    assert_eq!(sent_now(&mut node), 0);
    check(&node, parcel, &[(State::Suppressed, "endpoint_gone")]);
}
