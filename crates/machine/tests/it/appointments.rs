//! What is to be told at a time of each recipient's own day: it waits in its ledger, moves with its recipient, and is in no
//! inbox. It is 15:06:40 of 2025-06-15 in UTC when a node begins, a Sunday.

use crate::deliveries::{
    PUSH, by, intend, later, next_timer, settle, states, timers, told, user_with, wake, words, work,
};
use crate::harness::{Node, START, list, put_of};
use crate::respect::replan;
use fantail_machine::records::front::Delivery;
use fantail_machine::shard::ShardAsk;
use fantail_machine::shard::users::Put;
use fantail_machine::tables::ledger::ParcelId;
use fantail_rules::attempt::State;
use fantail_rules::ids::{Millis, UserNo};
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::retry::Cause;
use fantail_rules::schedule::{Appointment, SendAtLocal};
use fantail_rules::zone::ZoneNo;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const TTL_MS: u64 = HOUR_MS;

fn at(text: &str) -> Appointment {
    Appointment::At(SendAtLocal::parse(text).unwrap())
}

/// From one in the morning until five.
fn night() -> Appointment {
    Appointment::OffPeak(Window::new(Times { start_minute: 60, end_minute: 300 }, Days::ALL).unwrap())
}

fn told_at(appointment: Appointment, now: Millis) -> Option<Delivery> {
    let mut delivery = by(&[PUSH]);
    delivery.terms.appointment = Some(appointment);
    delivery.terms.expires_at = appointment.begins(now).plus(TTL_MS);
    Some(delivery)
}

fn lives_in(node: &mut Node, name: u64, zone: &str) {
    let zone = ZoneNo::find(zone).unwrap_or(ZoneNo::NONE);
    let put = Put { zone, minted: false, ..put_of(name, name + 100) };
    node.shard(ShardAsk::PutUsers { tenant: node.tenant, users: vec![put] });
}

fn sent(node: &mut Node, users: &[UserNo]) -> ParcelId {
    node.send(users);
    node.take_all();
    let work = work(node);
    intend(node, work, 100).0.unwrap().parcel
}

/// When something of a ledger is due, with what is waited for.
fn waits(node: &Node, parcel: ParcelId) -> Vec<(String, Millis)> {
    crate::deliveries::standings(node, parcel).into_iter().map(|one| (one.code, one.due)).collect()
}

// proves: SCH-01
#[test]
fn everybody_is_told_when_their_own_clock_shows_it() {
    let mut node = Node::new();
    let zones = ["Europe/Vienna", "Asia/Tokyo", "America/New_York", ""];
    let users: Vec<UserNo> = (0..4)
        .zip(zones)
        .map(|(name, zone)| {
            let user = user_with(&mut node, name, 1);
            lives_in(&mut node, name, zone);
            user
        })
        .collect();
    node.delivery = told_at(at("18:00"), node.now);
    let parcel = sent(&mut node, &users);
    // The minute from 15:06:40 to 18:00, in UTC, with what each clock is ahead by; Tokyo's 18:00 has passed today.
    let to_six = |ahead: i64| START.plus((10_400_000 - ahead * 3_600_000).unsigned_abs());
    let expected = [to_six(2), to_six(9 - 24), to_six(-4), to_six(0)];
    let found = waits(&node, parcel);
    assert_eq!(found, expected.map(|due| ("local_time".to_owned(), due)));
    for due in [expected[0], expected[3], expected[2], expected[1]] {
        let timer = next_timer(&mut node).unwrap();
        assert_eq!(timer.due, due);
        assert_eq!(wake(&mut node, timer, 10).0.unwrap().sends.len(), 1);
    }
    assert_eq!(states(&node, parcel), [State::Intent; 4]);
    assert_eq!(timers(&node).len(), 0, "each once");
}

// proves: SCH-01
#[test]
fn it_is_in_no_inbox_for_users_and_for_lists() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    lives_in(&mut node, 0, "Asia/Tokyo");
    node.join(0, list(0));
    node.delivery = told_at(at("18:00"), node.now);
    node.send(&[user]);
    for is_pointer in [false, true] {
        node.post(list(0), is_pointer);
        node.take_all();
        let of_list = work(&node);
        let parcel = intend(&mut node, of_list, 10).0.unwrap().parcel;
        assert_eq!(words(&node, parcel), [(State::Deferred, "local_time".to_owned())]);
    }
    assert_eq!((node.events(user), node.counts(user).unread), (vec![], 0));
    node.delivery = Some(by(&[PUSH]));
    let seen = [node.send(&[user]), node.post(list(0), false)];
    node.take_all();
    assert_eq!(node.events(user), seen, "others are");
    node.retract(seen[0]);
    node.take_all();
    assert_eq!((node.events(user), node.counts(user).unread), (vec![seen[1]], 1));
}

// proves: SCH-01, QH-05
#[test]
fn it_moves_with_its_recipient() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    node.delivery = told_at(at("2025-06-16T09:00"), node.now);
    let parcel = sent(&mut node, &[user]);
    let nine = START.plus(17 * HOUR_MS + 53 * MINUTE_MS + 20_000);
    assert_eq!(waits(&node, parcel), [("local_time".to_owned(), nine)], "by UTC without a zone");
    // Each change of the profile asks again.
    for (zone, ahead_hours) in [("America/New_York", -4i64), ("Asia/Tokyo", 9)] {
        lives_in(&mut node, 0, zone);
        assert_eq!(replan(&mut node), 1);
        let timer = timers(&node)[0];
        assert!(timer.due <= node.now, "it is looked at now");
        assert!(wake(&mut node, timer, 10).0.unwrap().sends.is_empty());
        let due = Millis(nine.0.checked_add_signed(-ahead_hours * 3_600_000).unwrap());
        assert_eq!(waits(&node, parcel), [("local_time".to_owned(), due)], "{zone}");
    }
    node.now = START.plus(4 * HOUR_MS);
    lives_in(&mut node, 0, "Pacific/Kiritimati");
    assert_eq!(replan(&mut node), 1);
    let timer = timers(&node)[0];
    assert_eq!(wake(&mut node, timer, 10).0.unwrap().sends.len(), 1, "it is six minutes past nine there");
}

// proves: DEL-19, SCH-01
#[test]
fn the_time_to_live_counts_from_each_recipients_time() {
    let mut node = Node::new();
    let (tokyo, york) = (user_with(&mut node, 0, 1), user_with(&mut node, 1, 1));
    lives_in(&mut node, 0, "Asia/Tokyo");
    lives_in(&mut node, 1, "America/New_York");
    node.delivery = told_at(at("2025-06-16T09:00"), node.now);
    let parcel = sent(&mut node, &[tokyo, york]);
    // Nobody looked for as long as it lives after nine o'clock in Tokyo.
    let in_tokyo = next_timer(&mut node).unwrap();
    node.now = node.now.plus(TTL_MS);
    assert!(wake(&mut node, in_tokyo, 10).0.unwrap().sends.is_empty());
    assert_eq!(
        words(&node, parcel),
        [(State::Expired, "ttl_expired".to_owned()), (State::Deferred, "local_time".to_owned())]
    );
    let in_york = next_timer(&mut node).unwrap();
    node.now = node.now.plus(TTL_MS - 1);
    assert_eq!(wake(&mut node, in_york, 10).0.unwrap().sends.len(), 1);
}

// proves: SCH-02
#[test]
fn outside_of_its_hours_it_waits_for_the_next_ones_also_with_a_retry() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    node.delivery = told_at(night(), node.now);
    let expires_at = node.delivery.unwrap().terms.expires_at;
    let parcel = sent(&mut node, &[user]);
    let one = START.plus(9 * HOUR_MS + 53 * MINUTE_MS + 20_000);
    assert_eq!(waits(&node, parcel), [("off_peak".to_owned(), one)]);
    let timer = next_timer(&mut node).unwrap();
    assert_eq!(wake(&mut node, timer, 10).0.unwrap().sends.len(), 1, "one o'clock");
    assert!(one.plus(TTL_MS) < expires_at, "an hour from the first of its hours");
    settle(&mut node, parcel, vec![told(0, later(Cause::Message), "503")]);
    let retry = next_timer(&mut node).unwrap();
    assert_eq!(wake(&mut node, retry, 10).0.unwrap().sends.len(), 1, "within its hours");
    settle(&mut node, parcel, vec![told(0, later(Cause::Message), "503")]);
    next_timer(&mut node).unwrap();
    node.now = one.plus(TTL_MS);
    let retry = timers(&node)[0];
    assert!(wake(&mut node, retry, 10).0.unwrap().sends.is_empty());
    assert_eq!(states(&node, parcel), [State::Expired]);
    // With a longer life the next night would be waited for.
    let mut delivery = told_at(night(), node.now).unwrap();
    delivery.terms.expires_at = node.now.plus(72 * HOUR_MS);
    node.delivery = Some(delivery);
    let parcel = sent(&mut node, &[user]);
    assert_eq!(states(&node, parcel), [State::Intent], "two o'clock");
    settle(&mut node, parcel, vec![told(0, later(Cause::Message), "503")]);
    node.now = one.plus(5 * HOUR_MS);
    let retry = timers(&node)[0];
    assert!(wake(&mut node, retry, 10).0.unwrap().sends.is_empty(), "six o'clock");
    assert_eq!(waits(&node, parcel), [("off_peak".to_owned(), one.plus(24 * HOUR_MS))]);
}
