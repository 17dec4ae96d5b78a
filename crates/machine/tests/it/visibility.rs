//! Users who do not want to see everything in their inbox.

use crate::deliveries::{by, states};
use crate::harness::{Node, TENANT, list};
use crate::policies::{put, tenant_node};
use crate::respect::want;
use fantail_machine::root::template::Expect;
use fantail_machine::tables::ledger::ParcelId;
use fantail_machine::tables::work::WorkId;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::ids::{Arrival, UserNo};
use fantail_rules::limits::INBOX_HIDDEN_LOOKED_AT_MAX;
use fantail_rules::marks::Mark;
use fantail_rules::policy::CategoryPolicy;
use fantail_rules::preference::{CategoryChoice, Preferences, Switch, Switches};
use fantail_rules::ulid::Ulid;
use proptest::collection::vec;
use proptest::prelude::*;

const CATEGORIES: [&str; 3] = ["likes", "news", "social"];
const CRITICAL: u8 = 0;
const NORMAL: u8 = 2;

fn inbox(switch: Switch) -> Preferences {
    Preferences { channels: Switches::default().with(ChannelKind::InApp, switch), ..Preferences::default() }
}

fn nothing() -> Preferences {
    Preferences { everything: Switch::Off, ..Preferences::default() }
}

fn of_category(name: &str, choice: CategoryChoice) -> Preferences {
    Preferences { categories: [(name.to_owned(), choice)].into_iter().collect(), ..Preferences::default() }
}

fn off(name: &str) -> Preferences {
    of_category(name, CategoryChoice { switch: Switch::Off, ..CategoryChoice::default() })
}

/// No inbox, but for one category.
fn only(name: &str) -> Preferences {
    let here = ChannelSet::EMPTY.with(ChannelKind::InApp);
    let choice = CategoryChoice { channels: Some(here), ..CategoryChoice::default() };
    Preferences { channels: inbox(Switch::Off).channels, ..of_category(name, choice) }
}

fn post(node: &mut Node, category: &'static str, priority: u8, pointer: bool) -> Ulid {
    (node.category, node.priority) = (category, priority);
    let event = node.post(list(2), pointer);
    node.take_all();
    event
}

// proves: INB-14, PRF-01
#[test]
fn what_is_switched_off_hides_what_comes_later() {
    for (wish, hidden) in [
        (inbox(Switch::Off), &CATEGORIES[..]),
        (nothing(), &CATEGORIES[..]),
        (off("likes"), &["likes"][..]),
        (only("likes"), &["news", "social"][..]),
        (inbox(Switch::On), &[][..]),
    ] {
        let mut node = Node::new();
        let user = node.user(0);
        node.join(0, list(2));
        let mut shown = Vec::new();
        for (round, preferences) in
            [Preferences::default(), wish.clone(), Preferences::default()].into_iter().enumerate()
        {
            want(&mut node, 0, preferences);
            for (category, pointer) in CATEGORIES.into_iter().zip([false, true, false]) {
                let event = post(&mut node, category, NORMAL, pointer);
                if round != 1 || !hidden.contains(&category) {
                    shown.push(event);
                }
            }
        }
        assert_eq!(node.events(user), shown, "{wish:?}");
        assert_eq!(node.counts(user).unread, shown.len() as u64, "{wish:?}");
        let all = 3 * CATEGORIES.len();
        assert_eq!(node.counts(user).unseen as usize, all - hidden.len(), "{wish:?}");
    }
}

// fixes: contract 3
#[test]
fn the_newest_entries_are_looked_at_to_count_and_older_ones_count_unwanted_or_not() {
    let mut node = Node::new();
    let user = node.user(0);
    node.join(0, list(2));
    want(&mut node, 0, off("likes"));
    (node.category, node.priority) = ("likes", NORMAL);
    for _ in 0..INBOX_HIDDEN_LOOKED_AT_MAX {
        node.post(list(2), false);
    }
    node.take_all();
    assert_eq!(node.counts(user).unread, 0);
    node.post(list(2), false);
    node.take_all();
    assert_eq!(node.counts(user).unread, 1, "the oldest is not looked at");
    assert_eq!(node.events(user), [], "and is not shown");
}

// proves: DEL-18
#[test]
fn what_is_critical_or_insisted_on_is_shown_all_the_same() {
    let mut node = tenant_node();
    let user = node.user(0);
    node.join(0, list(2));
    want(&mut node, 0, nothing());
    let critical = post(&mut node, "likes", CRITICAL, false);
    post(&mut node, "likes", NORMAL, false);
    assert_eq!(node.events(user), [critical]);
    let insisting =
        CategoryPolicy { mandatory: ChannelSet::EMPTY.with(ChannelKind::InApp), ..CategoryPolicy::default() };
    put(&mut node, "news", Expect::Unsaid, insisting);
    let news = post(&mut node, "news", NORMAL, true);
    assert_eq!(node.events(user), [critical, news]);
    assert_eq!(node.counts(user).unread, 2);
}

// proves: INB-14, PRF-04
#[test]
fn whoever_is_named_and_does_not_want_it_is_told_of_as_suppressed() {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..4).map(|name| node.user(name)).collect();
    want(&mut node, 1, inbox(Switch::Off));
    want(&mut node, 2, off("social"));
    want(&mut node, 3, off("likes"));
    node.delivery = Some(by(&[ChannelKind::InApp]));
    node.send(&users);
    node.take_all();
    let wanted = |user: UserNo| !node.events(user).is_empty();
    assert_eq!(users.iter().map(|user| wanted(*user)).collect::<Vec<_>>(), [true, false, false, true]);
    let work = WorkId { tenant: TENANT, arrival: Arrival(1), channel: ChannelKind::InApp };
    let told = states(&node, ParcelId::of(work, users[0]));
    assert_eq!(told, [State::Delivered, State::Suppressed, State::Suppressed, State::Delivered]);
}

#[derive(Clone, Debug)]
enum Deed {
    Post { category: usize, critical: bool, pointer: bool },
    Want(Preferences),
    Read { newest: usize },
    Unread { newest: usize },
    ReadAll,
    Retract { newest: usize },
}

fn deed() -> impl Strategy<Value = Deed> {
    let wish = prop_oneof![
        Just(Preferences::default()),
        Just(inbox(Switch::Off)),
        Just(nothing()),
        (0..CATEGORIES.len()).prop_map(|category| off(CATEGORIES[category])),
        (0..CATEGORIES.len()).prop_map(|category| only(CATEGORIES[category])),
    ];
    prop_oneof![
        6 => (0..CATEGORIES.len(), proptest::bool::weighted(0.2), any::<bool>())
            .prop_map(|(category, critical, pointer)| Deed::Post { category, critical, pointer }),
        2 => wish.prop_map(Deed::Want),
        1 => (0usize..5).prop_map(|newest| Deed::Read { newest }),
        1 => (0usize..5).prop_map(|newest| Deed::Unread { newest }),
        1 => Just(Deed::ReadAll),
        1 => (0usize..5).prop_map(|newest| Deed::Retract { newest }),
    ]
}

/// An entry, as somebody would write it down who looks over the user's shoulder.
struct Written {
    event: Ulid,
    shown: bool,
    read: bool,
    retracted: bool,
}

/// Said again in other words than those of `rules`.
fn wants(preferences: &Preferences, category: &str) -> bool {
    let choice = preferences.categories.get(category);
    let chosen =
        choice.and_then(|choice| choice.channels).map(|channels| channels.contains(ChannelKind::InApp));
    let inbox = !preferences.channels.off().contains(ChannelKind::InApp);
    preferences.everything != Switch::Off
        && choice.is_none_or(|choice| choice.switch != Switch::Off)
        && chosen.unwrap_or(inbox)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // proves: INB-14
    #[test]
    fn pages_and_counts_agree_with_a_naive_reader(deeds in vec(deed(), 1..40)) {
        let mut node = Node::new();
        let user = node.user(0);
        node.join(0, list(2));
        let (mut wish, mut written): (Preferences, Vec<Written>) = (Preferences::default(), Vec::new());
        for deed in deeds {
            let visible: Vec<usize> =
                (0..written.len()).rev().filter(|at| written[*at].shown && !written[*at].retracted).collect();
            match deed {
                Deed::Post { category, critical, pointer } => {
                    let priority = if critical { CRITICAL } else { NORMAL };
                    let event = post(&mut node, CATEGORIES[category], priority, pointer);
                    let shown = critical || wants(&wish, CATEGORIES[category]);
                    written.push(Written { event, shown, read: false, retracted: false });
                }
                Deed::Want(preferences) => {
                    wish = preferences.clone();
                    want(&mut node, 0, preferences);
                }
                Deed::Read { newest } | Deed::Unread { newest } if newest >= visible.len() => {}
                Deed::Read { newest } => {
                    written[visible[newest]].read = true;
                    node.mark(user, Mark::Read, &[visible[newest] as u64 + 1]);
                }
                Deed::Unread { newest } => {
                    written[visible[newest]].read = false;
                    node.mark(user, Mark::Unread, &[visible[newest] as u64 + 1]);
                }
                Deed::ReadAll => {
                    written.iter_mut().for_each(|entry| entry.read = true);
                    node.mark_all(user, Mark::Read, written.len() as u64);
                }
                Deed::Retract { newest } => {
                    if let Some(at) = visible.get(newest) {
                        written[*at].retracted = true;
                        node.retract(written[*at].event);
                        node.take_all();
                    }
                }
            }
            let shown = || written.iter().filter(|entry| entry.shown && !entry.retracted);
            prop_assert_eq!(node.events(user), shown().map(|entry| entry.event).collect::<Vec<_>>());
            prop_assert_eq!(node.counts(user).unread, shown().filter(|entry| !entry.read).count() as u64);
        }
    }
}
