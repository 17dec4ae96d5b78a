//! What pages over everything of one kind cost, in rows of tables: nothing more because other tenants have more, and no more
//! than a page may look at however much the tenant itself has.

use crate::fairness::{LOUD, QUIET, Turns, event, name};
use fantail_node::Node;
use fantail_node::ask::{ChannelSet, EdgeAsk, EdgeChange, EventAsk, ListAsk, SuppressionAsk};
use fantail_node::listings::{ErasureQuery, NotificationQuery};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::suppression::Reason;
use std::collections::BTreeSet;
use std::ops::Range;

const FEW: usize = 5;
const MANY: usize = 60;
/// What the tenant has that reads.
const OWN: usize = 6;
const PAGE: usize = 4;
const EVER: Range<Millis> = Millis(0)..Millis(u64::MAX);
/// More than an entry of a page has rows, in tables of all kinds.
const ROWS_PER_ENTRY: u64 = 100;

/// Reads a page and says how many are in it.
type Listing = (&'static str, fn(&Node) -> usize);

const LISTINGS: &[Listing] = &[
    ("listing: users", |node| node.list_users(QUIET, None, PAGE).expect("a page").users.len()),
    ("listing: users by address", |node| {
        node.list_users_at(QUIET, ChannelKind::Push, "token-1").expect("a page").users.len()
    }),
    ("listing: topics", |node| node.list_topics(QUIET, None, PAGE).expect("a page").topics.len()),
    ("listing: topics of a user", |node| {
        node.list_topics_of(QUIET, &name(1), None, PAGE).expect("a page").topics.len()
    }),
    ("listing: suppressions", |node| {
        node.list_suppressions(QUIET, None, None, PAGE).expect("a page").suppressions.len()
    }),
    ("listing: erasures", |node| {
        let query = ErasureQuery { span: EVER, before: None, limit: PAGE };
        node.list_erasures(QUIET, &query).expect("a page").erasures.len()
    }),
    ("listing: erasures of a user", |node| {
        node.list_erasures_of(QUIET, &name(0)).expect("a page").erasures.len()
    }),
    ("listing: notifications", |node| {
        node.list_notifications(QUIET, &query(None)).expect("a page").notifications.len()
    }),
    ("listing: notifications to a user", |node| {
        node.list_notifications(QUIET, &query(Some(name(1)))).expect("a page").notifications.len()
    }),
];

fn query(user: Option<String>) -> NotificationQuery {
    NotificationQuery { span: EVER, category: None, user, before: None, limit: PAGE }
}

/// Gives a tenant users with a device, a topic, a notification and a suppressed address each; the first user is erased.
fn fill(turns: &mut Turns, tenant: TenantId, count: usize) {
    turns.people_with_devices(tenant, count);
    let edges: Vec<EdgeAsk> = (0..count)
        .map(|user| EdgeAsk { user: name(user), list: ListAsk::Topic(format!("topic-{user}")) })
        .collect();
    let joined = turns.ask(move |node| async move { node.edit_lists(tenant, EdgeChange::Join, edges).await });
    assert!(joined.iter().all(Result::is_ok));
    let channels = ChannelSet::EMPTY.with(ChannelKind::InApp).with(ChannelKind::Push);
    let asks: Vec<EventAsk> =
        (0..count).map(|user| event(tenant, user as u32 * 3 + 1, user, None, channels)).collect();
    let posted = turns.ask(move |node| async move { node.post_events(tenant, asks).await });
    let posted: Vec<_> = posted.into_iter().map(|one| one.expect("it was accepted").event).collect();
    turns.until(|turns| {
        let is_done = |event| {
            let status = turns.node().status(tenant, event);
            status.is_ok_and(|status| status.channels.iter().all(|channel| channel.is_done))
        };
        posted.iter().all(|event| is_done(*event))
    });
    for user in 0..count {
        let ask = SuppressionAsk { kind: ChannelKind::Push, identity: format!("token-{user}") };
        turns
            .ask(move |node| async move { node.suppress(tenant, &ask, Reason::Manual).await })
            .expect("it is suppressed");
    }
    let begun = turns.ask(move |node| async move { node.erase(tenant, &name(0)).await });
    let begun = begun.expect("it is begun");
    assert!(!begun.is_repeat);
    turns.until(|turns| {
        let row = turns.node().erasure(tenant, begun.erasure).expect("the shard is there");
        row.is_some_and(|row| row.ended.is_some())
    });
}

#[test]
fn no_listing_costs_more_because_other_tenants_have_more() {
    let worlds = [FEW, MANY].map(|others| {
        let mut turns = Turns::new();
        fill(&mut turns, LOUD, others);
        fill(&mut turns, QUIET, OWN);
        turns
    });
    let mut grown = Vec::new();
    for (what, list) in LISTINGS {
        let [few, many] = worlds.each_ref().map(|turns| {
            let mut shown = 0;
            let rows = turns.rows_of(|turns| shown = list(&turns.node()));
            assert!((1..=PAGE).contains(&shown), "{what} shows {shown}");
            rows
        });
        if many > few {
            grown.push(format!("{what}: {few} rows beside {FEW} of another tenant, {many} beside {MANY}"));
        }
    }
    assert_eq!(grown, Vec::<String>::new());
}

#[test]
fn a_page_is_bounded_however_much_the_tenant_has() {
    let mut turns = Turns::new();
    fill(&mut turns, QUIET, MANY);
    for (what, list) in LISTINGS {
        let rows = turns.rows_of(|turns| {
            list(&turns.node());
        });
        // A page about one user's notifications looks at all of these events.
        let entries = if what.ends_with("notifications to a user") { MANY } else { PAGE };
        assert!(rows <= entries as u64 * ROWS_PER_ENTRY, "{what}: {rows} rows");
    }
}

/// From the first page to the last, each is shown once.
#[test]
fn all_pages_together_show_each_once() {
    let mut turns = Turns::new();
    fill(&mut turns, LOUD, FEW);
    fill(&mut turns, QUIET, OWN);
    let node = turns.node();
    let (mut users, mut from) = (Vec::new(), None);
    loop {
        let page = node.list_users(QUIET, from, 2).expect("a page");
        assert!(page.users.len() <= 2);
        users.extend(page.users.into_iter().map(|user| user.user));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    let expected: BTreeSet<String> = (1..OWN).map(name).collect();
    assert_eq!((users.len(), users.into_iter().collect::<BTreeSet<_>>()), (OWN - 1, expected));
    let (mut notifications, mut before) = (Vec::new(), None);
    loop {
        let page =
            node.list_notifications(QUIET, &NotificationQuery { before, ..query(None) }).expect("a page");
        notifications.extend(page.notifications.into_iter().map(|one| one.event));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(notifications.len(), OWN);
    assert!(notifications.is_sorted_by(|newer, older| newer > older));
}
