//! What reads of the node cost at two sizes of what others have, in rows of tables.
//!
//! Others: users of the same tenant with a device and a notification each. Exceptions: `deliveries_to`, the page of an
//! export, looks at a bounded number of the events that are kept for the tenant; so the number of its pages grows with
//! them, as the steps of an erasure do.

use crate::fairness::{QUIET, Turns, event, name};
use fantail_node::Node;
use fantail_node::ask::{ChannelSet, EdgeAsk, EdgeChange, EventAsk, InboxAsk, InboxFrom, ListAsk, Who};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::Arrival;
use fantail_rules::marks::State;
use fantail_rules::ulid::Ulid;

const FEW: usize = 10;
const MANY: usize = 80;
const PAGE: usize = 20;
/// Events that a page of an export looks at.
const EVENTS: usize = 8;
/// More than an event has rows.
const ROWS_PER_EVENT: u64 = 64;
/// The user who reads.
const OWN: usize = 0;

type Reading = (&'static str, fn(&Turns, Ulid));

/// Reads of the user's own, and of a notification to it.
const READS: &[Reading] = &[
    ("user", |turns, _| {
        turns.now(|node| async move { node.user(QUIET, &name(OWN)).await }).expect("a user");
    }),
    ("devices", |turns, _| {
        let found = turns.now(|node| async move { node.devices(QUIET, &name(OWN)).await });
        assert_eq!(found.expect("devices").len(), 1);
    }),
    ("preferences", |turns, _| {
        turns.node().respect(QUIET, &name(OWN)).expect("preferences");
    }),
    ("history of preferences", |turns, _| {
        turns.node().respect_history(QUIET, &name(OWN), u32::MAX, PAGE).expect("a history");
    }),
    ("inbox", |turns, _| {
        let ask = InboxAsk { user: name(OWN), limit: PAGE, from: InboxFrom::Newest, state: State::All };
        let page = turns.now(|node| async move { node.inbox(QUIET, ask).await });
        assert_eq!(page.expect("a page").notifications.len(), 2);
    }),
    ("counts", |turns, _| {
        turns.now(|node| async move { node.counts(QUIET, &name(OWN)).await }).expect("counts");
    }),
    ("follows", |turns, _| {
        let found = turns.now(|node| async move { node.follows(QUIET, &name(OWN), None, PAGE).await });
        found.expect("lists");
    }),
    ("status", |turns, event| {
        turns.node().status(QUIET, event).expect("a status");
    }),
    ("recipients", |turns, event| {
        let page = turns.node().deliveries(QUIET, event, None, PAGE).expect("recipients");
        assert_eq!(page.recipients.len(), 2, "in the inbox, and by push");
    }),
    ("explanation", |turns, event| {
        turns.node().explain(QUIET, event, &Who::User(name(OWN))).expect("an explanation");
    }),
    ("event", |turns, event| {
        assert!(turns.node().is_known_event(QUIET, event).expect("it is known"));
    }),
    ("dead letters", |turns, _| {
        turns.node().dead_letters(QUIET, None, PAGE).expect("dead letters");
    }),
    ("bulk sends", |turns, _| {
        turns.node().bulks(QUIET, None, None, PAGE).expect("bulk sends");
    }),
    ("schedules", |turns, _| {
        turns.node().schedules(QUIET, None, PAGE).expect("schedules");
    }),
    ("export: lists", |turns, _| {
        let (found, _) = turns.node().lists_of(QUIET, &name(OWN), None, PAGE).expect("lists");
        assert_eq!(found.len(), 1);
    }),
];

fn follow(turns: &mut Turns, user: usize) {
    let edge = EdgeAsk { user: name(user), list: ListAsk::Topic("news".to_owned()) };
    let followed =
        turns.ask(move |node| async move { node.edit_lists(QUIET, EdgeChange::Join, vec![edge]).await });
    assert!(followed.iter().all(Result::is_ok));
}

/// A world with so many others, and a notification to the user who reads.
fn world(others: usize) -> (Turns, Ulid) {
    let mut turns = Turns::new();
    turns.people_with_devices(QUIET, others + 1);
    let channels = ChannelSet::EMPTY.with(ChannelKind::InApp).with(ChannelKind::Push);
    let asks: Vec<EventAsk> = [OWN]
        .into_iter()
        .chain(0..=others)
        .enumerate()
        .map(|(key, user)| event(QUIET, key as u32 * 3 + 1, user, None, channels))
        .collect();
    let posted = turns.ask(move |node: Node| async move { node.post_events(QUIET, asks).await });
    let first = posted.into_iter().next().expect("one was posted").expect("it was accepted").event;
    (0..=others).for_each(|user| follow(&mut turns, user));
    let is_done = |turns: &mut Turns| {
        let status = turns.node().status(QUIET, first);
        status.is_ok_and(|status| status.channels.iter().all(|channel| channel.is_done))
    };
    turns.until(is_done);
    (turns, first)
}

#[test]
fn no_read_costs_more_because_others_have_more() {
    let worlds = [world(FEW), world(MANY)];
    let mut grown = Vec::new();
    for (name, read) in READS {
        let [few, many] = worlds.each_ref().map(|(turns, event)| turns.rows_of(|turns| read(turns, *event)));
        if many > few {
            grown.push(format!("{name}: {few} rows beside {FEW} others, {many} beside {MANY}"));
        }
    }
    assert_eq!(grown, Vec::<String>::new());
}

/// The exception: it is bounded by the events that it looks at.
#[test]
fn a_page_of_deliveries_in_an_export_is_bounded() {
    for others in [FEW, MANY] {
        let (turns, _) = world(others);
        let rows = turns.rows_of(|turns| {
            turns.node().deliveries_to(QUIET, &name(OWN), Arrival::START, EVENTS).expect("deliveries");
        });
        assert!(rows <= EVENTS as u64 * ROWS_PER_EVENT, "{rows} rows beside {others} others");
    }
}
