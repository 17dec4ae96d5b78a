//! How much a user gets at most: counted when it is authorised, once for each notification, and never forgotten.

use crate::deliveries::{PUSH, by, intend, later, next_timer, settle, told, user_with, wake, words, work};
use crate::harness::{Node, TENANT, lookup};
use crate::policies::set_defaults;
use crate::respect::want;
use fantail_machine::columns::counts;
use fantail_machine::root::RootAsk;
use fantail_machine::root::template::Expect;
use fantail_machine::shard::ShardAsk;
use fantail_machine::tables::Row;
use fantail_machine::tables::ledger::{LedgerRow, ParcelId};
use fantail_rules::attempt::State;
use fantail_rules::caps::{Caps, Limit, Pace};
use fantail_rules::ids::{Millis, UserNo};
use fantail_rules::policy::Defaults;
use fantail_rules::preference::{Preferences, Quiet};
use fantail_rules::priority::Priority;
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::retry::Cause;
use fantail_rules::zone::ZoneNo;
use proptest::collection::vec;
use proptest::prelude::*;

const HOUR_MS: u64 = 3_600_000;

fn limit(per_hour: u16, per_day: u16) -> Limit {
    Limit { caps: Caps { per_hour, per_day }, pace: None }
}

fn limited(limit: Limit) -> Preferences {
    Preferences { limits: [(PUSH, limit)].into_iter().collect(), ..Preferences::default() }
}

/// A push that is looked at, at once.
fn pushed(node: &mut Node, users: &[UserNo], lane: Priority) -> ParcelId {
    let mut delivery = by(&[PUSH]);
    (delivery.terms.lane, delivery.terms.expires_at) = (lane, node.now.plus(24 * HOUR_MS));
    node.delivery = Some(delivery);
    node.send(users);
    node.take_all();
    let work = work(node);
    intend(node, work, 1_000).0.unwrap().parcel
}

/// The codes of all members of a push; empty if it may be sent.
fn codes(node: &mut Node, users: &[UserNo], lane: Priority) -> Vec<String> {
    let parcel = pushed(node, users, lane);
    words(node, parcel)
        .into_iter()
        .map(|(state, code)| {
            assert_eq!(state == State::Intent, code.is_empty());
            code
        })
        .collect()
}

/// At the beginning of a day of UTC.
fn new_day(node: &mut Node) {
    node.now = Millis((node.now.0 / (24 * HOUR_MS) + 1) * 24 * HOUR_MS);
}

const CAPPED: &str = "frequency_capped";

// proves: PRF-02, RL-03, DEL-18
#[test]
fn the_hour_and_the_day_have_their_caps() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    want(&mut node, 0, limited(limit(2, 4)));
    new_day(&mut node);
    for (hour, lane, expected) in [
        (0, Priority::Normal, ""),
        (0, Priority::Low, ""),
        (0, Priority::Normal, CAPPED),
        (0, Priority::Critical, ""), // passes, and counts
        (1, Priority::Normal, ""),
        (0, Priority::High, CAPPED), // the fifth of the day
        (22, Priority::Critical, ""),
        (1, Priority::Normal, ""), // another day
        (0, Priority::Critical, ""),
        (0, Priority::Normal, CAPPED),
    ] {
        node.now = node.now.plus(hour * HOUR_MS);
        assert_eq!(codes(&mut node, &[user], lane), [expected], "{lane:?} at {}", node.now);
    }
    want(&mut node, 0, Preferences::default());
    assert_eq!(codes(&mut node, &[user], Priority::Normal), [""], "no limit any more");
}

// proves: RL-01
#[test]
fn a_bucket_gives_what_is_in_it() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    let pace = Some(Pace { burst: 2, refill_seconds: 600 });
    want(&mut node, 0, limited(Limit { pace, ..Limit::default() }));
    for (seconds, expected) in [(0, ""), (0, ""), (1, CAPPED), (599, ""), (1, CAPPED)] {
        node.now = node.now.plus(seconds * 1_000);
        assert_eq!(codes(&mut node, &[user], Priority::Normal), [expected]);
    }
}

// proves: PRF-02
#[test]
fn limits_of_the_tenant_are_for_those_who_said_nothing() {
    let mut node = Node::new();
    node.root(RootAsk::CreateTenant { slug: "a".into(), name: "A".into() });
    let (silent, own) = (user_with(&mut node, 0, 1), user_with(&mut node, 1, 1));
    want(&mut node, 1, limited(limit(2, 0)));
    set_defaults(&mut node, Expect::Unsaid, Defaults { preferences: limited(limit(1, 0)) });
    new_day(&mut node);
    for expected in [["", ""], [CAPPED, ""], [CAPPED, CAPPED]] {
        assert_eq!(codes(&mut node, &[silent, own], Priority::Normal), expected);
    }
}

// proves: RL-03
#[test]
fn a_notification_counts_once_whatever_it_takes() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 2);
    want(&mut node, 0, limited(limit(2, 0)));
    new_day(&mut node);
    let parcel = pushed(&mut node, &[user], Priority::Normal);
    settle(&mut node, parcel, (0..2).map(|no| told(no, later(Cause::Message), "busy")).collect());
    assert_eq!(tried_again(&mut node), 2);
    assert_eq!(codes(&mut node, &[user], Priority::Normal), ["", ""]);
    assert_eq!(codes(&mut node, &[user], Priority::Normal), [CAPPED, CAPPED]);
    // What was counted is not too much when it is tried again.
    settle(&mut node, parcel, (0..2).map(|no| told(no, later(Cause::Message), "busy")).collect());
    assert_eq!(tried_again(&mut node), 2);
}

/// How much is sent when all timers fire.
fn tried_again(node: &mut Node) -> usize {
    let mut sent = 0;
    while let Some(timer) = next_timer(node) {
        sent += wake(node, timer, 1).0.map_or(0, |allowed| allowed.sends.len());
    }
    sent
}

// proves: RL-03, QH-03
#[test]
fn what_waited_for_the_morning_counts_then() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 2);
    let window = Window::new(Times { start_minute: 0, end_minute: 60 }, Days::ALL).unwrap();
    let quiet = Some(Quiet { is_enabled: true, window, zone: ZoneNo::find("UTC").unwrap() });
    want(&mut node, 0, Preferences { quiet, ..limited(limit(1, 0)) });
    new_day(&mut node);
    for _ in 0..2 {
        assert_eq!(codes_waiting(&mut node, user), ["quiet_hours", "quiet_hours"]);
    }
    assert_eq!(used(&node, user), counts::Counts::default().used, "what waits consumes nothing");
    let first = next_timer(&mut node).unwrap();
    assert_eq!(wake(&mut node, first, 1).0.unwrap().sends.len(), 2);
    let second = next_timer(&mut node).unwrap();
    let parcel = wake(&mut node, second, 1).0.unwrap().parcel;
    let capped = (State::Suppressed, CAPPED.to_owned());
    assert_eq!(words(&node, parcel), [capped.clone(), capped]);
}

fn codes_waiting(node: &mut Node, user: UserNo) -> Vec<String> {
    let parcel = pushed(node, &[user], Priority::Normal);
    words(node, parcel).into_iter().map(|(_, code)| code).collect()
}

fn used(node: &Node, user: UserNo) -> fantail_rules::caps::Used {
    node.read_shard(|state| counts::find(state.tables(), (TENANT, PUSH), user).unwrap()).used
}

#[test]
fn counts_go_with_their_user() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    want(&mut node, 0, limited(limit(9, 9)));
    codes(&mut node, &[user], Priority::Normal);
    assert_ne!(used(&node, user), Default::default());
    node.shard(ShardAsk::DeleteUser { tenant: TENANT, lookup: lookup(0) });
    let row = node.read_shard(|state| state.tables().get(&counts::key((TENANT, PUSH), 0)).unwrap());
    assert_eq!(row, None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Against lists of when each user got what, whatever is sent when, with which devices and how urgent.
    #[test]
    fn nobody_gets_more_than_a_naive_count_allows(
        steps in vec((0u64..40, 0u8..8, any::<bool>()), 1..40),
        caps in vec((0u16..4, 0u16..7), 3),
    ) {
        let mut node = Node::new();
        let users: Vec<UserNo> = (0..3).map(|name| user_with(&mut node, name, name + 1)).collect();
        for (name, (per_hour, per_day)) in caps.iter().enumerate() {
            want(&mut node, name as u64, limited(limit(*per_hour, *per_day)));
        }
        let mut got: Vec<Vec<u64>> = vec![Vec::new(); 3];
        for (minutes, who, is_critical) in steps {
            node.now = node.now.plus(minutes * 60_000);
            let named: Vec<UserNo> = users.iter().copied().filter(|user| who >> user.0 & 1 == 1).collect();
            if named.is_empty() {
                continue;
            }
            let lane = if is_critical { Priority::Critical } else { Priority::Normal };
            let mut found = codes(&mut node, &named, lane).into_iter();
            for user in named {
                let no = user.0 as usize;
                let within = |ms: u64| got[no].iter().filter(|at| **at / ms == node.now.0 / ms).count();
                let (per_hour, per_day) = caps[no];
                let is_enough = (per_hour > 0 && within(HOUR_MS) >= usize::from(per_hour))
                    || (per_day > 0 && within(24 * HOUR_MS) >= usize::from(per_day));
                let expected = if is_enough && !is_critical { CAPPED } else { "" };
                for _ in 0..=user.0 {
                    prop_assert_eq!(found.next(), Some(expected.to_owned()));
                }
                if expected.is_empty() {
                    got[no].push(node.now.0);
                }
            }
        }
    }
}

// fixes: correctness A7
/// A retry that burns nothing and then meets quiet hours looks as if it was never authorised: it is counted once all the same.
#[test]
fn what_was_counted_is_not_counted_again_after_a_night() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    new_day(&mut node);
    let midnight = node.now;
    let window = Window::new(Times { start_minute: 13 * 60, end_minute: 14 * 60 }, Days::ALL).unwrap();
    let quiet = Some(Quiet { is_enabled: true, window, zone: ZoneNo::find("UTC").unwrap() });
    want(&mut node, 0, Preferences { quiet, ..limited(limit(0, 1)) });
    node.now = midnight.plus(13 * HOUR_MS - 1_000);
    let parcel = pushed(&mut node, &[user], Priority::Normal);
    assert_eq!(words(&node, parcel), [(State::Intent, String::new())]);
    settle(&mut node, parcel, vec![told(0, later(Cause::Scope), "429")]);
    node.now = midnight.plus(13 * HOUR_MS);
    let timer = next_timer(&mut node).unwrap();
    assert!(wake(&mut node, timer, 10).0.unwrap().sends.is_empty());
    assert_eq!(words(&node, parcel), [(State::Deferred, "quiet_hours".to_owned())]);
    let timer = next_timer(&mut node).unwrap();
    assert_eq!(node.now, midnight.plus(14 * HOUR_MS));
    let before = used(&node, user);
    assert_eq!(wake(&mut node, timer, 10).0.unwrap().sends.len(), 1, "{:?}", words(&node, parcel));
    assert_eq!(used(&node, user), before);
}

// fixes: correctness A7
/// A ledger as 0770009 wrote it does not say what was authorised.
#[test]
fn ledgers_of_earlier_versions_are_read() {
    let hex = "01977420dc000002294490c8e86f03da02010ba9d9a09657279e80f09ccaf7320700000000000000000000000180b883a1f7320100\
               0000010201010000020101000000000000";
    let bytes: Vec<u8> = hex
        .as_bytes()
        .chunks(2)
        .map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap())
        .collect();
    let ledger = LedgerRow::decode(&bytes).unwrap();
    let standing = ledger.standings.of(0).unwrap();
    assert_eq!((standing.state, standing.was_authorised), (State::Intent, false));
    assert_eq!(ledger.encode(), bytes);
}
