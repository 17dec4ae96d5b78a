//! Throttles: one of a kind for each user, then none for a while.

use crate::deliveries::audit::rows;
use crate::deliveries::{PUSH, audit, by, intend, next_timer, user_with, wake, words};
use crate::endpoints::{hear, register, registration};
use crate::harness::{Node, START, TENANT, list};
use crate::policies::{put, tenant_node};
use crate::respect::want;
use crate::strategies::{millis, tenant};
use fantail_machine::records::front::Delivery;
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::records::throttle::{Lapsed, Spaced, ThrottleRecord};
use fantail_machine::root::template::Expect;
use fantail_machine::tables::Family;
use fantail_machine::tables::throttle::{PageId, ThrottlePage};
use fantail_machine::tables::work::{Terms, WorkId};
use fantail_rules::attempt::{Class, State};
use fantail_rules::category::CategoryId;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::News;
use fantail_rules::ids::{Arrival, Millis, TenantId, UserNo};
use fantail_rules::policy::{CategoryPolicy, Throttle};
use fantail_rules::preference::{Preferences, Quiet};
use fantail_rules::priority::Priority;
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::throttle::Latest;
use fantail_rules::zone::ZoneNo;
use proptest::prelude::*;

const SMS: ChannelKind = ChannelKind::Sms;
const CATEGORY: &str = "alarm";
const PER_SECONDS: u32 = 600;

fn throttled(node: &mut Node) {
    let throttle = Some(Throttle { per_seconds: PER_SECONDS, key: None });
    put(node, CATEGORY, Expect::Unsaid, CategoryPolicy { throttle, ..CategoryPolicy::default() });
}

fn of_kind(kind: Option<u64>, channels: &[ChannelKind]) -> Delivery {
    let delivery = by(channels);
    let (category, expires_at) = (CategoryId::of(CATEGORY), Millis(u64::MAX - 1));
    Delivery { terms: Terms { category, kind, expires_at, ..delivery.terms }, ..delivery }
}

/// What a channel of the latest event comes to for its first member.
fn stands(node: &mut Node, channel: ChannelKind) -> (State, String) {
    let work = WorkId { tenant: node.tenant, arrival: node.progress().last, channel };
    let parcel = intend(node, work, 100).0.expect("somebody is there").parcel;
    words(node, parcel)[0].clone()
}

fn send(node: &mut Node, users: &[UserNo], delivery: Delivery) -> (State, String) {
    node.delivery = Some(delivery);
    node.send(users);
    node.take_all();
    stands(node, PUSH)
}

fn allowed() -> (State, String) {
    (State::Intent, String::new())
}

fn too_soon() -> (State, String) {
    (State::Suppressed, "throttled".to_owned())
}

/// A user with two phones and a number.
fn ann(node: &mut Node) -> UserNo {
    throttled(node);
    let user = user_with(node, 0, 2);
    let mut number = registration(0, 3, 3);
    number.kind = SMS;
    register(node, 0, number);
    hear(node, user, 3, 3, News::Granted { suppressed: false });
    user
}

fn at(node: &mut Node, seconds: u64) {
    node.now = START.plus(seconds * 1_000);
}

#[test]
fn one_of_a_kind_is_enough_for_a_while() {
    let mut node = tenant_node();
    let user = ann(&mut node);
    let kind = |kind| of_kind(Some(kind), &[PUSH]);
    assert_eq!(send(&mut node, &[user], kind(1)), allowed());
    at(&mut node, 599);
    assert_eq!(send(&mut node, &[user], kind(1)), too_soon());
    assert_eq!(send(&mut node, &[user], kind(2)), allowed(), "of another kind");
    assert_eq!(send(&mut node, &[user], of_kind(None, &[PUSH])), allowed(), "all without a key are of one");
    assert_eq!(send(&mut node, &[user], of_kind(None, &[PUSH])), too_soon());
    let other = user_with(&mut node, 20, 1);
    assert_eq!(send(&mut node, &[other], kind(1)), allowed(), "of somebody else");
    // What was held back does not hold back.
    at(&mut node, 600);
    assert_eq!(send(&mut node, &[user], kind(1)), allowed());
    assert_eq!(send(&mut node, &[user], kind(1)), too_soon());
    // Other categories go on as they are.
    let mut other = kind(1);
    other.terms.category = CategoryId::of("general");
    assert_eq!(send(&mut node, &[user], other), allowed());
}

#[test]
fn a_notification_is_one_by_all_its_channels_and_devices() {
    let mut node = tenant_node();
    let user = ann(&mut node);
    assert_eq!(send(&mut node, &[user], of_kind(Some(1), &[PUSH, SMS])), allowed());
    let push = WorkId { tenant: TENANT, arrival: node.progress().last, channel: PUSH };
    let parcel = fantail_machine::tables::ledger::ParcelId::of(push, UserNo(0));
    assert_eq!(words(&node, parcel), [allowed(), allowed()], "both phones");
    assert_eq!(stands(&mut node, SMS), allowed());
    assert_eq!(send(&mut node, &[user], of_kind(Some(1), &[PUSH, SMS])), too_soon());
    assert_eq!(stands(&mut node, SMS), too_soon());
}

// proves: DEL-18
#[test]
fn what_is_critical_passes_and_counts() {
    let mut node = tenant_node();
    let user = ann(&mut node);
    let mut critical = of_kind(Some(1), &[PUSH]);
    (critical.terms.lane, critical.terms.class) = (Priority::Critical, Class::Critical);
    assert_eq!(send(&mut node, &[user], critical), allowed());
    at(&mut node, 300);
    assert_eq!(send(&mut node, &[user], critical), allowed());
    at(&mut node, 700);
    assert_eq!(send(&mut node, &[user], of_kind(Some(1), &[PUSH])), too_soon(), "from the second on");
    at(&mut node, 900);
    assert_eq!(send(&mut node, &[user], of_kind(Some(1), &[PUSH])), allowed());
}

// proves: DEL-21
#[test]
fn what_waits_has_not_counted() {
    let mut node = tenant_node();
    let user = ann(&mut node);
    let window = Window::new(Times { start_minute: 0, end_minute: 1_439 }, Days::ALL).unwrap();
    let quiet = Some(Quiet { is_enabled: true, window, zone: ZoneNo::find("UTC").unwrap() });
    want(&mut node, 0, Preferences { quiet, ..Preferences::default() });
    let waits = (State::Deferred, "quiet_hours".to_owned());
    for _ in 0..2 {
        assert_eq!(send(&mut node, &[user], of_kind(Some(1), &[PUSH])), waits);
    }
    let mut ended = Vec::new();
    while let Some(timer) = next_timer(&mut node) {
        let parcel = wake(&mut node, timer, 100).0.expect("it is asked again").parcel;
        ended.push(words(&node, parcel)[0].clone());
    }
    assert_eq!(ended, [allowed(), too_soon()]);
}

#[test]
fn followers_are_throttled_each_for_itself_and_nothing_is_left_behind() {
    let mut node = tenant_node();
    throttled(&mut node);
    let users: Vec<UserNo> = (0..100).map(|name| user_with(&mut node, name, 1)).collect();
    (0..100).for_each(|name| node.join(name, list(0)));
    assert_eq!(send(&mut node, &users[..1], of_kind(Some(1), &[PUSH])), allowed());
    node.delivery = Some(of_kind(Some(1), &[PUSH]));
    node.post(list(0), false);
    node.take_all();
    let work = WorkId { tenant: TENANT, arrival: node.progress().last, channel: PUSH };
    let parcel = intend(&mut node, work, 1_000).0.unwrap().parcel;
    let told = words(&node, parcel);
    assert_eq!((told[0].clone(), told[1..].to_vec()), (too_soon(), vec![allowed(); 99]));
    let kept = |node: &Node| {
        node.read_shard(|state| {
            [Family::Throttle, Family::ThrottleEnd].map(|family| rows(state.tables(), family).len())
        })
    };
    assert_eq!(kept(&node), [2, 2], "a row for every 64 users");
    at(&mut node, 599);
    node.sweep();
    assert_eq!(kept(&node), [2, 2], "it still counts");
    at(&mut node, 3 * 3_600);
    node.sweep();
    assert_eq!(kept(&node), [0, 0]);
    audit(&node);
}

pub fn history(node: &mut Node, name: u64) {
    let user = ann_of(node, name);
    assert_eq!(send(node, &[user], of_kind(Some(0x0102), &[PUSH])), allowed());
}

fn ann_of(node: &mut Node, name: u64) -> UserNo {
    throttled(node);
    user_with(node, name, 1)
}

fn latest() -> impl Strategy<Value = Latest> {
    (any::<u64>(), millis()).prop_map(|(event, until)| Latest { event: Arrival(event), until })
}

pub fn page_row() -> impl Strategy<Value = ThrottlePage> {
    let entries = proptest::collection::btree_map(0u8..64, latest(), 0..8);
    entries.prop_map(|entries| ThrottlePage(entries.into_iter().collect()))
}

pub fn record() -> impl Strategy<Value = ShardRecord> {
    let users = proptest::collection::btree_set(any::<u64>(), 0..8);
    let page = any::<(u64, u64, u64)>().prop_map(|(hour, kind, page)| PageId { hour, kind, page });
    prop_oneof![
        (tenant(), any::<u64>(), latest(), users).prop_map(|(tenant, kind, latest, users)| {
            let users = users.into_iter().map(UserNo).collect();
            ThrottleRecord::Spaced(Spaced { tenant, kind, latest, users })
        }),
        (tenant(), proptest::collection::vec(page, 0..4))
            .prop_map(|(tenant, pages)| ThrottleRecord::Lapsed(Lapsed { tenant, pages })),
    ]
    .prop_map(ShardRecord::Throttle)
}

pub fn examples(tenant: TenantId, user: UserNo) -> Vec<ShardRecord> {
    let latest = Latest { event: Arrival(7), until: Millis(1_760_000_000_000) };
    let spaced = Spaced { tenant, kind: 0x0102, latest, users: vec![user, UserNo(user.0 + 3)] };
    let pages = vec![PageId { hour: 488_888, kind: 0x0102, page: 9 }];
    let records = [ThrottleRecord::Spaced(spaced), ThrottleRecord::Lapsed(Lapsed { tenant, pages })];
    records.into_iter().map(ShardRecord::Throttle).collect()
}
