//! What operations cost at two sizes of what others have: rows read, records, and rows that each record changes. Nothing that a
//! user or a tenant can trigger costs more because others have more.
//!
//! Others: users of the same tenant and shard with a device, preferences, lists, inboxes, deliveries that wait, deliveries that
//! were made, dead letters and webhooks. What tenants ask of the other machines, and bulk sends, are in `growth_elsewhere`, reads
//! in the simulator; which route is covered by which case is in `growth_routes` of the server's tests. The exception is
//! `Purge`, a step of an erasure: a step is bounded, and the number of steps grows with the deliveries of the tenant that are
//! kept.

use crate::deliveries::{by, one, told};
use crate::endpoints::{address, device, hear, register, registration};
use crate::harness::{DAY_MS, Node, TENANT, list, lookup, put_of};
use crate::respect::{quiet_at, want};
use fantail_machine::front::FrontAsk;
use fantail_machine::records::respect::Consent;
use fantail_machine::records::shard::Change;
use fantail_machine::records::webhook::Told;
use fantail_machine::shard::endpoints::{Contact, Registration};
use fantail_machine::shard::outcome::Said;
use fantail_machine::shard::redrive::{Heard, Wish};
use fantail_machine::shard::serve::Job;
use fantail_machine::shard::users::Put;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::ledger::ParcelId;
use fantail_machine::tables::work::WorkId;
use fantail_ports::keyring::Sealed;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::News;
use fantail_rules::ids::{Arrival, DeviceNo, Position, UserNo};
use fantail_rules::marks::Mark;
use fantail_rules::preference::Preferences;
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;

const OWN: UserNo = UserNo(0);
/// Lists of the user and of the others.
const OWN_LIST: u64 = 4;
const THEIR_LIST: u64 = 6;

/// The user, and what it has.
struct World {
    node: Node,
    /// Waits for the morning.
    waiting: Ulid,
    /// Was sent, and not answered.
    sent: WorkId,
    event: Ulid,
}

fn send(node: &mut Node, user: UserNo) -> (Ulid, WorkId) {
    let event = node.send(&[user]);
    node.take_all();
    let work = WorkId { tenant: TENANT, arrival: node.progress().last, channel: ChannelKind::Push };
    node.shard(one(Job::Work(work), 10));
    (event, work)
}

fn person(node: &mut Node, name: u64, list_no: u64) {
    node.shard(ShardAsk::PutUsers { tenant: TENANT, users: vec![put_of(name, name + 100)] });
    register(node, name, registration(name, 1, name));
    hear(node, UserNo(name), 1, 1, News::Granted { suppressed: false });
    node.join(name, list(list_no));
}

/// The user's profile with another attribute, mail address, locale and zone.
fn profile(no: u64) -> Put {
    let (address_hash, own) = (address(no + 100), put_of(OWN.0, 100));
    let contact = Contact { kind: ChannelKind::Email, address_hash, address: own.id.clone() };
    let attributes = Sealed { bytes: vec![no as u8; 40], ..own.id.clone() };
    let zone = ZoneNo::find("Asia/Tokyo").expect("a zone of the table");
    Put { attributes, locale: format!("de-{no}"), zone, profile: vec![contact], ..own }
}

/// A delivery to the user could not be made.
fn bury(world: &mut World) -> ParcelId {
    let parcel = ParcelId::of(world.sent, OWN);
    world.node.shard(ShardAsk::Outcome { parcel, told: vec![told(0, Said::Malformed, "")].into() });
    parcel
}

fn tell(node: &mut Node, webhook: String, through: u64) {
    let told = Told { tenant: TENANT, webhook, through: Position(through) };
    node.shard(ShardAsk::Told { told, from: None });
}

/// A world in which others have so much more.
fn world(others: u64) -> World {
    let mut node = Node::new();
    node.delivery = Some(by(&[ChannelKind::Push, ChannelKind::InApp]));
    person(&mut node, OWN.0, OWN_LIST);
    for name in 1..=others {
        person(&mut node, name, THEIR_LIST);
        let (_, made) = send(&mut node, UserNo(name));
        let accepted = vec![told(0, Said::Accepted, "")];
        let parcel = ParcelId::of(made, UserNo(name));
        node.shard(ShardAsk::Outcome { parcel, told: accepted.into() });
        want(&mut node, name, quiet_at("Asia/Tokyo"));
        send(&mut node, UserNo(name));
        node.mark(UserNo(name), Mark::Read, &[made.arrival.0]);
        let (_, dead) = send(&mut node, UserNo(name));
        let malformed = vec![told(0, Said::Malformed, "")];
        let parcel = ParcelId::of(dead, UserNo(name));
        node.shard(ShardAsk::Outcome { parcel, told: malformed.into() });
        tell(&mut node, format!("hook {name}"), name);
    }
    node.delivery = None;
    for large in [false, true].repeat(others as usize / 4) {
        node.post(list(THEIR_LIST), large);
    }
    node.post(list(OWN_LIST), false);
    node.take_all();
    node.delivery = Some(by(&[ChannelKind::Push, ChannelKind::InApp]));
    let (event, sent) = send(&mut node, OWN);
    want(&mut node, OWN.0, quiet_at("Asia/Tokyo"));
    let (waiting, _) = send(&mut node, OWN);
    // The sizes of lists are known to the front.
    node.run_errands();
    node.take_all();
    World { node, waiting, sent, event }
}

/// Rows read, and rows changed by each record of the last ask.
pub type Cost = (usize, Vec<usize>);
type Operation = (&'static str, fn(&mut World));

/// What is wrong if an operation costs more beside many others than beside few.
pub fn growth(name: &str, [few, many]: [Cost; 2]) -> Option<String> {
    let rows = |cost: &Cost| cost.1.iter().sum::<usize>();
    let has_grown = many.0 > few.0 || rows(&many) > rows(&few) || many.1.len() > few.1.len();
    has_grown.then(|| format!("{name}: {few:?} with few others, {many:?} with many"))
}

const OPERATIONS: &[Operation] = &[
    ("user put", |world| {
        world.node.shard(ShardAsk::PutUsers { tenant: TENANT, users: vec![put_of(OWN.0, 100)] });
    }),
    ("user put: another profile", |world| {
        world.node.shard(ShardAsk::PutUsers { tenant: TENANT, users: vec![profile(1)] });
        world.node.shard(ShardAsk::PutUsers { tenant: TENANT, users: vec![profile(2)] });
    }),
    ("device refresh", |world| {
        register(&mut world.node, OWN.0, Registration { changed: true, ..registration(OWN.0, 1, OWN.0) });
    }),
    ("device registration", |world| {
        register(&mut world.node, OWN.0, registration(OWN.0, 2, 200));
    }),
    ("device activation", |world| {
        register(&mut world.node, OWN.0, registration(OWN.0, 2, 200));
        hear(&mut world.node, OWN, 2, 2, News::Granted { suppressed: false });
    }),
    ("device unregistration", |world| {
        world.node.shard(ShardAsk::Unregister { tenant: TENANT, user: lookup(OWN.0), device: device(1) });
    }),
    ("preference change", |world| {
        want(&mut world.node, OWN.0, Preferences::default());
    }),
    ("re-evaluation after it", |world| {
        want(&mut world.node, OWN.0, Preferences::default());
        let found = world.node.shard(ShardAsk::Replan { tenant: TENANT, user: OWN, from: None });
        assert_eq!(found, ShardAnswer::Replanned { next: None });
    }),
    ("consent", |world| {
        let (version, source) = ("1".to_owned(), "test".to_owned());
        let consent = Consent { is_granted: false, given: world.node.now, version, source };
        let (user, channel) = (lookup(OWN.0), ChannelKind::Push);
        world.node.shard(ShardAsk::Consent { tenant: TENANT, user, channel, consent });
    }),
    ("follow", |world| {
        world.node.edit(Change::Join, OWN.0, list(THEIR_LIST));
    }),
    ("unfollow", |world| {
        world.node.edit(Change::Leave, OWN.0, list(OWN_LIST));
    }),
    ("mark", |world| {
        world.node.mark(OWN, Mark::Read, &[world.sent.arrival.0]);
    }),
    ("mark all", |world| {
        world.node.mark_all(OWN, Mark::Read, u64::MAX - 1);
    }),
    ("mark: snooze", |world| {
        let until = world.node.now.plus(DAY_MS);
        world.node.mark(OWN, Mark::Snooze { until }, &[world.sent.arrival.0]);
    }),
    ("mark: unsnooze", |world| {
        let until = world.node.now.plus(DAY_MS);
        world.node.mark(OWN, Mark::Snooze { until }, &[world.sent.arrival.0]);
        world.node.mark(OWN, Mark::Unsnooze, &[world.sent.arrival.0]);
    }),
    ("mark: delete", |world| {
        world.node.mark(OWN, Mark::Delete, &[world.sent.arrival.0]);
    }),
    ("send: admission", |world| {
        world.node.send(&[OWN]);
    }),
    ("send: take", |world| {
        world.node.send(&[OWN]);
        world.node.take_all();
    }),
    ("send: first round", |world| {
        send(&mut world.node, OWN);
    }),
    ("send: outcome", |world| {
        let parcel = ParcelId::of(world.sent, OWN);
        world.node.shard(ShardAsk::Outcome { parcel, told: vec![told(0, Said::Accepted, "")].into() });
    }),
    ("receipt", |world| {
        let parcel = ParcelId::of(world.sent, OWN);
        world.node.shard(ShardAsk::Outcome { parcel, told: vec![told(0, Said::Accepted, "")].into() });
        let (code, message) = (String::new(), String::new());
        let heard = Heard { user: OWN, device: DeviceNo(1), delivered: true, at: None, code, message };
        world.node.shard(ShardAsk::Receipt { parcel, heard });
    }),
    ("redrive of a dead letter", |world| {
        let parcel = bury(world);
        world.node.shard(ShardAsk::Redrive { parcel, wish: Wish::Redrive, users: None });
    }),
    ("drop of a dead letter", |world| {
        let parcel = bury(world);
        world.node.shard(ShardAsk::Redrive { parcel, wish: Wish::Drop, users: None });
    }),
    ("webhook: place", |world| tell(&mut world.node, "own".into(), 3)),
    ("webhook: replay", |world| {
        tell(&mut world.node, "own".into(), 3);
        tell(&mut world.node, "own".into(), 1);
    }),
    ("webhook: end of its place", |world| {
        tell(&mut world.node, "own".into(), 3);
        world.node.shard(ShardAsk::Untell { tenant: TENANT, webhook: "own".into() });
    }),
    ("cancel: admission", |world| {
        world.node.front(FrontAsk::Cancel { tenant: TENANT, event: world.waiting });
    }),
    ("cancel: take", |world| {
        world.node.front(FrontAsk::Cancel { tenant: TENANT, event: world.waiting });
        world.node.take_all();
    }),
    ("retraction: admission", |world| {
        world.node.retract(world.event);
    }),
    ("retraction: take", |world| {
        world.node.retract(world.event);
        world.node.take_all();
    }),
    ("user delete", |world| {
        world.node.delete_user(OWN.0);
    }),
    ("erasure: begin", |world| {
        let ask = ShardAsk::Erase { tenant: TENANT, lookup: lookup(OWN.0), erasure: Ulid(7), entries: 3 };
        world.node.shard(ask);
    }),
];

// fixes: correctness A10
#[test]
fn no_operation_costs_more_because_others_have_more() {
    let mut grown = Vec::new();
    for (name, operation) in OPERATIONS {
        let costs = [32, 128].map(|others| {
            let mut world = world(others);
            operation(&mut world);
            let cost = world.node.last_cost();
            assert!(!cost.1.is_empty(), "{name} is done");
            cost
        });
        grown.extend(growth(name, costs));
    }
    assert_eq!(grown, Vec::<String>::new());
}

#[test]
fn a_page_of_an_inbox_reads_what_its_user_has() {
    let [few, many] = [32, 128].map(|others| world(others).node.reads_of_page(OWN, 20));
    assert!(many <= few, "{few} rows with few others, {many} with many");
}

/// The exception: the steps grow with what is kept, and none of them reads more than its bound.
#[test]
fn a_step_of_an_erasure_is_bounded() {
    for others in [32, 128] {
        let mut world = world(others);
        let erasure = Ulid(7);
        let lookup = lookup(OWN.0);
        world.node.shard(ShardAsk::Erase { tenant: TENANT, lookup, erasure, entries: 3 });
        let ask = ShardAsk::Purge { tenant: TENANT, erasure, behind: Arrival::START };
        // A tally and at most one ledger for each work, and what is the user's own.
        let reads = world.node.reads_of(ask);
        assert!(reads <= 2 * 64 + 40, "{reads} rows with {others} others");
    }
}
