//! What tenants say about categories and the silent: told to the root, kept under versions, obeyed by what is planned after.

use crate::deliveries::{PUSH, by, intend, user_with, words, work};
use crate::harness::{Node, TENANT};
use crate::respect::{preferences, want};
use crate::strategies::{difference, millis, tenant};
use fantail_machine::records::policy::{CategoryPut, DefaultsPut};
use fantail_machine::records::root::RootRecord;
use fantail_machine::root::policy::{Answer, Ask, Change};
use fantail_machine::root::template::Expect;
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_machine::tables::policy::{CategoryRow, DefaultsRow};
use fantail_machine::tables::work::Terms;
use fantail_rules::category::CategoryId;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::digest::{Calendar, StormTerms, Terms as Collected};
use fantail_rules::gates::Overflow;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::CATEGORIES_PER_TENANT_MAX;
use fantail_rules::policy::{
    CalendarTimes, CategoryPolicy, Condition, Defaults, Digest, KeyTemplate, Step, Throttle,
};
use fantail_rules::preference::{CategoryChoice, Preferences, Switch, Switches};
use fantail_rules::priority::Priority;
use fantail_rules::quiet::Days;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn key() -> impl Strategy<Value = Option<KeyTemplate>> {
    option::of("[a-z]{1,8}\\{\\{ [a-z]{1,8} \\}\\}")
        .prop_map(|text| text.map(|text| KeyTemplate::parse(&text).unwrap()))
}

fn calendar() -> impl Strategy<Value = Calendar> {
    (0u16..1_440, 1u8..128)
        .prop_map(|(minute, days)| Calendar::new(minute, Days::from_bits(days).unwrap()).unwrap())
}

fn policy() -> impl Strategy<Value = CategoryPolicy> {
    let sets = (0u8..32, 0u8..32, any::<bool>(), option::of(0u8..4));
    let digest = (any::<u32>(), any::<(u16, u16, u16)>(), key()).prop_map(
        |(window_seconds, (min_count, max_count, leading), collapse_key)| Digest {
            terms: Collected { window_seconds, min_count, max_count, leading },
            collapse_key,
        },
    );
    let storm =
        any::<(u32, u8)>().prop_map(|(window_seconds, threshold)| StormTerms { window_seconds, threshold });
    let throttle = (any::<u32>(), key()).prop_map(|(per_seconds, key)| Throttle { per_seconds, key });
    let step = (0u8..5, 1u8..4, any::<u32>()).prop_map(|(channel, when, after_seconds)| Step {
        channel: ChannelKind::from_stored(channel).unwrap(),
        when: Condition::from_stored(when).unwrap(),
        after_seconds,
    });
    let times = (calendar(), calendar()).prop_map(|(daily, weekly)| CalendarTimes { daily, weekly });
    (sets, option::of(digest), option::of(storm), times, option::of(throttle), vec(step, 0..4)).prop_map(
        |((mandatory, blocked, folds, priority), digest, storm, calendar, throttle, fallback)| {
            CategoryPolicy {
                mandatory: ChannelSet::from_stored(mandatory),
                blocked: ChannelSet::from_stored(blocked),
                overflow: if folds { Overflow::Fold } else { Overflow::Drop },
                priority: priority.map(Priority::from_stored),
                digest,
                storm,
                calendar,
                throttle,
                fallback,
            }
        },
    )
}

fn defaults() -> impl Strategy<Value = Defaults> {
    preferences().prop_map(|preferences| Defaults { preferences })
}

pub fn policy_record() -> impl Strategy<Value = RootRecord> {
    prop_oneof![
        (tenant(), any::<String>(), any::<u32>(), policy(), difference()).prop_map(
            |(tenant, name, version, policy, difference)| {
                RootRecord::CategoryPut(Box::new(CategoryPut { tenant, name, version, policy, difference }))
            }
        ),
        (tenant(), any::<String>(), difference())
            .prop_map(|(tenant, name, difference)| RootRecord::CategoryGone { tenant, name, difference }),
        (tenant(), any::<u32>(), defaults(), difference()).prop_map(
            |(tenant, version, defaults, difference)| {
                RootRecord::DefaultsPut(Box::new(DefaultsPut { tenant, version, defaults, difference }))
            }
        ),
    ]
}

pub fn rows() -> impl Strategy<Value = (CategoryRow, DefaultsRow)> {
    (any::<(u32, u32)>(), millis(), policy(), defaults()).prop_map(
        |((version, newest), updated, policy, defaults)| {
            let row = CategoryRow { version, updated, policy };
            (row, DefaultsRow { newest, version, updated, defaults })
        },
    )
}

/// Everything that can be said.
fn full() -> CategoryPolicy {
    let key = |text| Some(KeyTemplate::parse(text).unwrap());
    let at = |minute, days| Calendar::new(minute, Days::from_bits(days).unwrap()).unwrap();
    CategoryPolicy {
        mandatory: ChannelSet::EMPTY.with(ChannelKind::Email),
        blocked: ChannelSet::EMPTY.with(ChannelKind::Sms),
        overflow: Overflow::Fold,
        priority: Some(Priority::Low),
        digest: Some(Digest { terms: Collected::USUAL, collapse_key: key("{{ type }}:{{ object }}") }),
        storm: Some(StormTerms::USUAL),
        calendar: CalendarTimes { daily: at(500, 127), weekly: at(600, 1) },
        throttle: Some(Throttle { per_seconds: 300, key: key("{{ actor }}") }),
        fallback: vec![Step { channel: ChannelKind::Sms, when: Condition::NoReceipt, after_seconds: 30 }],
    }
}

fn nobody_wants_mail() -> Defaults {
    let channels = Switches::default().with(ChannelKind::Email, Switch::Off).with(PUSH, Switch::Off);
    Defaults { preferences: Preferences { channels, ..Preferences::default() } }
}

/// One of each, as they are stored for good.
pub fn examples(tenant: TenantId) -> Vec<RootRecord> {
    let difference = Default::default();
    let (name, version) = ("likes".to_owned(), 300);
    let put = CategoryPut { tenant, name: name.clone(), version, policy: full(), difference };
    let defaults = DefaultsPut { tenant, version, defaults: nobody_wants_mail(), difference };
    vec![
        RootRecord::CategoryPut(Box::new(put)),
        RootRecord::CategoryGone { tenant, name, difference },
        RootRecord::DefaultsPut(Box::new(defaults)),
    ]
}

/// What leaves a row of each family, with everything in it.
pub fn history(node: &mut Node) {
    put(node, "likes", Expect::Unsaid, full());
    ask(node, Expect::Unsaid, Change::PutDefaults(nobody_wants_mail()));
}

fn ask(node: &mut Node, expect: Expect, change: Change) -> Answer {
    match node.root(RootAsk::Policy(Box::new(Ask { tenant: TENANT, expect, change }))) {
        RootAnswer::Policy(answer) => answer,
        other => panic!("{other:?}"),
    }
}

pub fn put(node: &mut Node, name: &str, expect: Expect, policy: CategoryPolicy) -> Answer {
    ask(node, expect, Change::PutCategory { name: name.into(), policy })
}

pub fn delete(node: &mut Node, name: &str, expect: Expect) -> Answer {
    ask(node, expect, Change::DeleteCategory { name: name.into() })
}

pub fn set_defaults(node: &mut Node, expect: Expect, defaults: Defaults) -> Answer {
    ask(node, expect, Change::PutDefaults(defaults))
}

fn tenant_node() -> Node {
    let mut node = Node::new();
    node.root(RootAsk::CreateTenant { slug: "a".into(), name: "A".into() });
    node
}

/// The version, and whether it was created.
fn version(answer: Answer) -> (u32, bool) {
    match answer {
        Answer::Category { row, created } => (row.version, created),
        other => panic!("{other:?}"),
    }
}

// proves: API-04
#[test]
fn whoever_replaces_a_policy_says_which() {
    let mut node = Node::new();
    assert_eq!(put(&mut node, "likes", Expect::Unsaid, full()), Answer::UnknownTenant);
    let mut node = tenant_node();
    let other = CategoryPolicy { storm: None, ..full() };
    assert_eq!(put(&mut node, "likes", Expect::Present, full()), Answer::Conflict { current: None });
    assert_eq!(version(put(&mut node, "likes", Expect::Unsaid, full())), (1, true));
    assert_eq!(version(put(&mut node, "likes", Expect::Unsaid, full())), (1, false), "a repeat");
    let known = Answer::Conflict { current: Some(1) };
    assert_eq!(put(&mut node, "likes", Expect::Unsaid, other.clone()), known);
    assert_eq!(put(&mut node, "likes", Expect::Version(7), other.clone()), known);
    assert_eq!(put(&mut node, "likes", Expect::Absent, full()), known);
    assert_eq!(version(put(&mut node, "likes", Expect::Version(1), other.clone())), (2, false));
    assert_eq!(version(put(&mut node, "news", Expect::Absent, other.clone())), (3, true));
    assert_eq!(delete(&mut node, "likes", Expect::Version(1)), Answer::Conflict { current: Some(2) });
    assert_eq!(delete(&mut node, "likes", Expect::Unsaid), Answer::Gone);
    assert_eq!(delete(&mut node, "likes", Expect::Unsaid), Answer::Unknown);
    assert_eq!(version(put(&mut node, "likes", Expect::Unsaid, full())), (4, true), "none comes twice");

    let set = |node: &mut Node, expect, defaults| match set_defaults(node, expect, defaults) {
        Answer::Defaults(row) => (row.version, true),
        Answer::Conflict { current } => (current.unwrap(), false),
        other => panic!("{other:?}"),
    };
    assert_eq!(set(&mut node, Expect::Unsaid, Defaults::default()), (0, true), "nothing was said");
    assert_eq!(set(&mut node, Expect::Absent, nobody_wants_mail()), (5, true));
    assert_eq!(set(&mut node, Expect::Version(5), Defaults::default()), (6, true));
    assert_eq!(set(&mut node, Expect::Version(5), nobody_wants_mail()), (6, false), "too late");
}

#[test]
fn categories_are_bounded() {
    let mut node = tenant_node();
    for no in 0..CATEGORIES_PER_TENANT_MAX {
        put(&mut node, &no.to_string(), Expect::Unsaid, full());
    }
    let limit = CATEGORIES_PER_TENANT_MAX;
    assert_eq!(put(&mut node, "one more", Expect::Unsaid, full()), Answer::TooMany { limit });
}

/// The code of a push of this category to a user who said this.
fn pushed(node: &mut Node, category: &str, lane: Priority, wanted: Preferences) -> String {
    let user = user_with(node, 0, 1);
    want(node, 0, wanted);
    let mut delivery = by(&[PUSH]);
    delivery.terms = Terms { category: CategoryId::of(category), lane, ..delivery.terms };
    node.delivery = Some(delivery);
    node.send(&[user]);
    node.take_all();
    let work = work(node);
    let parcel = intend(node, work, 10).0.unwrap().parcel;
    words(node, parcel)[0].1.clone()
}

// proves: PRF-03, DEL-18
#[test]
fn a_tenant_insists_or_refuses() {
    let push = ChannelSet::EMPTY.with(PUSH);
    let insisting = CategoryPolicy { mandatory: push, ..CategoryPolicy::default() };
    let refusing = CategoryPolicy { blocked: push, ..CategoryPolicy::default() };
    let off = || Preferences { everything: Switch::Off, ..Preferences::default() };
    for (policy, lane, wanted, expected) in [
        (CategoryPolicy::default(), Priority::Normal, off(), "global_off"),
        (insisting.clone(), Priority::Normal, off(), ""),
        (refusing.clone(), Priority::Normal, Preferences::default(), "channel_blocked"),
        (refusing, Priority::Critical, Preferences::default(), "channel_blocked"),
    ] {
        let mut node = tenant_node();
        put(&mut node, "news", Expect::Unsaid, policy.clone());
        assert_eq!(pushed(&mut node, "news", lane, wanted), expected, "{policy:?}");
        assert_eq!(pushed(&mut node, "other", Priority::Normal, Preferences::default()), "");
    }
    // What is folded says what was decided, whatever the policy is by then.
    let mut node = tenant_node();
    put(&mut node, "news", Expect::Unsaid, insisting);
    assert_eq!(pushed(&mut node, "news", Priority::Normal, off()), "");
    delete(&mut node, "news", Expect::Unsaid);
    assert_eq!(pushed(&mut node, "news", Priority::Normal, off()), "global_off");
}

// proves: PRF-01
#[test]
fn the_silent_have_what_is_usual() {
    let mail_only = CategoryChoice {
        switch: Switch::NotSaid,
        channels: Some(ChannelSet::EMPTY.with(ChannelKind::Email)),
    };
    let by_mail = Preferences {
        categories: [("news".to_owned(), mail_only)].into_iter().collect(),
        ..Preferences::default()
    };
    let says =
        |switch| Preferences { channels: Switches::default().with(PUSH, switch), ..Preferences::default() };
    let off = Preferences { everything: Switch::Off, ..Preferences::default() };
    let on = Preferences { everything: Switch::On, ..Preferences::default() };
    let wants_news = Preferences {
        categories: [("news".to_owned(), CategoryChoice { switch: Switch::On, channels: None })]
            .into_iter()
            .collect(),
        ..Preferences::default()
    };
    for (usual, wanted, expected) in [
        (says(Switch::Off), Preferences::default(), "channel_off"),
        (says(Switch::Off), says(Switch::On), ""),
        (says(Switch::On), says(Switch::Off), "channel_off"),
        (off.clone(), Preferences::default(), "global_off"),
        (off.clone(), on, ""),
        (by_mail.clone(), Preferences::default(), "category_channel_off"),
        (by_mail, wants_news, "category_channel_off"),
    ] {
        let mut node = tenant_node();
        set_defaults(&mut node, Expect::Unsaid, Defaults { preferences: usual.clone() });
        assert_eq!(
            pushed(&mut node, "news", Priority::Normal, wanted.clone()),
            expected,
            "{usual:?} {wanted:?}"
        );
        assert_eq!(pushed(&mut node, "news", Priority::Critical, wanted), "");
    }
}
