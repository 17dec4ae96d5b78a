//! Deliveries in no order that makes sense. Shared with the random histories and with replay.

use super::audit::ledgers;
use super::*;
use crate::endpoints::device;
use crate::harness::{list, lookup};
use fantail_machine::front::FrontAsk;
use fantail_machine::shard::redrive::{Heard, Wish};
use fantail_machine::shard::respect::Prefer;
use fantail_machine::tables::respect;
use fantail_machine::tables::work as works;
use fantail_rules::caps::{Caps, Limit};
use fantail_rules::policy::{Condition, Step};
use fantail_rules::preference::Preferences;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub enum Act {
    Register(u64, u64),
    Unregister(u64, u64),
    /// How posts leave from now on: channels as bits, lane, class, and which channels wait for which.
    Leave(u8, u8, u8, usize),
    /// A user wants at most so many in an hour.
    Limit(u64, u16),
    Intend(Index, u32),
    /// Some members of a parcel are answered.
    Answer(Index, u8, u64),
    Wake(Index, u32),
    Orphans(Index),
    Redrive(Index, bool, Option<u64>),
    Receipt(Index, u64, u16, bool),
    Cancel(Index),
    /// So many days pass, and what is past the guard goes.
    Sweep(u64),
}

pub fn act() -> impl Strategy<Value = Act> {
    let user = 0u64..3;
    prop_oneof![
        3 => (user.clone(), 1u64..8).prop_map(|(user, name)| Act::Register(user, name)),
        1 => (user.clone(), 1u64..8).prop_map(|(user, name)| Act::Unregister(user, name)),
        3 => (0u8..32, 0u8..4, 0u8..3, 0..CHAINS.len())
            .prop_map(|(channels, lane, class, chain)| Act::Leave(channels, lane, class, chain)),
        1 => (user.clone(), 0u16..4).prop_map(|(user, per_hour)| Act::Limit(user, per_hour)),
        8 => (any::<Index>(), 1u32..6).prop_map(|(pick, most)| Act::Intend(pick, most)),
        10 => (any::<Index>(), 0u8..8, any::<u64>()).prop_map(|(pick, said, bits)| Act::Answer(pick, said, bits)),
        6 => (any::<Index>(), 1u32..6).prop_map(|(pick, most)| Act::Wake(pick, most)),
        1 => any::<Index>().prop_map(Act::Orphans),
        2 => (any::<Index>(), any::<bool>(), proptest::option::of(user.clone()))
            .prop_map(|(pick, drop, user)| Act::Redrive(pick, drop, user)),
        2 => (any::<Index>(), user, 0u16..8, any::<bool>()).prop_map(|(p, u, d, f)| Act::Receipt(p, u, d, f)),
        1 => any::<Index>().prop_map(Act::Cancel),
        1 => (0u64..40).prop_map(Act::Sweep),
    ]
}

const CHAINS: [&[Step]; 5] = [
    &[],
    &[],
    &[Step { channel: ChannelKind::Sms, when: Condition::NoReceipt, after_seconds: 30 }],
    &[Step { channel: ChannelKind::Push, when: Condition::Failed, after_seconds: 0 }],
    &[
        Step { channel: ChannelKind::Email, when: Condition::Failed, after_seconds: 0 },
        Step { channel: ChannelKind::Push, when: Condition::NotSeen, after_seconds: 600 },
        Step { channel: ChannelKind::Sms, when: Condition::NoReceipt, after_seconds: 90 },
    ],
];

const SAID: [Said; 8] = [
    Said::Accepted,
    Said::Accepted,
    Said::Rejected,
    Said::Dead,
    Said::Malformed,
    Said::NotTaken { cause: Cause::Message, retry_after_ms: None },
    Said::NotTaken { cause: Cause::Scope, retry_after_ms: Some(5_000) },
    Said::Unanswered,
];

fn parcels(node: &Node) -> Vec<(ParcelId, LedgerRow)> {
    node.read_shard(|state| ledgers(state.tables()))
}

fn pick<T: Clone>(pick: &Index, all: &[T]) -> Option<T> {
    (!all.is_empty()).then(|| pick.get(all).clone())
}

/// Does it, if there is anything to do it to.
pub fn drive(node: &mut Node, act: &Act) {
    let before = parcels(node);
    act_on(node, act);
    check_steps(&before, &parcels(node));
}

/// A step that is tried now was not tried before, and nothing that waits for a receipt or a failure is tried for somebody
/// whom a channel before it had reached.
fn check_steps(before: &[(ParcelId, LedgerRow)], after: &[(ParcelId, LedgerRow)]) {
    let state_in = |rows: &[(ParcelId, LedgerRow)], of: WorkId, wanted: Member| {
        let rows = rows.iter().filter(|(parcel, _)| parcel.work() == of);
        let mut members = rows.flat_map(|(_, row)| row.members.iter().zip(row.standings.iter()));
        members.find(|(member, _)| *member == wanted).map(|(_, standing)| standing.state)
    };
    for (parcel, row) in after {
        let Some(step) = row.terms.chain.step(parcel.channel) else { continue };
        for (member, standing) in row.members.iter().zip(row.standings.iter()) {
            let was = state_in(before, parcel.work(), member);
            if standing.state != State::Intent || was == Some(State::Intent) {
                continue;
            }
            let is_tried = fantail_rules::chain::Cause::parse(&standing.code).is_some();
            let is_fresh = was.is_none() || was == Some(State::Deferred);
            assert!(!is_tried || is_fresh, "{parcel:?} {member:?} was {was:?} and is {standing:?}");
            let reached = before.iter().any(|(other, row)| {
                let goes_before = row.terms.chain.before(parcel.channel).contains(other.channel)
                    && (other.tenant, other.arrival) == (parcel.tenant, parcel.arrival);
                let mut of_user = row.members.iter().zip(row.standings.iter());
                goes_before
                    && of_user
                        .any(|(one, standing)| one.user == member.user && standing.state == State::Delivered)
            });
            let may_be = !reached || step.when == Condition::NotSeen || !is_tried;
            assert!(may_be, "{parcel:?} {member:?} is tried, but its user was reached");
        }
    }
}

fn act_on(node: &mut Node, act: &Act) {
    match act {
        Act::Register(name, device) => enrol(node, *name, *device),
        Act::Unregister(name, no) => {
            let (tenant, user, device) = (node.tenant, lookup(*name), device(*no));
            node.shard(ShardAsk::Unregister { tenant, user, device });
        }
        Act::Leave(channels, lane, class, chain) => {
            let class = [Class::Critical, Class::Transactional, Class::Bulk][usize::from(*class)];
            let channels = ChannelSet::from_stored(*channels);
            let expires_at = node.now.plus(DAY_MS / 2);
            let chain = Chain::of(CHAINS[*chain], channels);
            let (lane, category) = (Priority::from_stored(*lane), CategoryId::default());
            let terms =
                Terms { lane, class, category, expires_at, group: 0, appointment: None, chain, kind: None };
            node.delivery = (!channels.is_empty()).then_some(Delivery { channels, terms });
        }
        Act::Limit(name, per_hour) => limit(node, *name, *per_hour),
        Act::Intend(at, most) => {
            let works = node.read_shard(|state| works::all(state.tables(), None, 50).unwrap());
            let Some((first, _)) = pick(at, &works) else { return };
            let works =
                works.iter().map(|(work, _)| *work).filter(|work| *work >= first).take(3).map(Job::Work);
            let due = timers(node).into_iter().filter(|timer| timer.due <= node.now).take(2);
            let wakes = due.map(|Timer { parcel, due, .. }| Job::Wake { parcel, due });
            node.shard(ShardAsk::Serve { jobs: works.chain(wakes).collect(), deliveries_max: *most });
        }
        Act::Answer(at, said, bits) => answer(node, at, SAID[usize::from(*said)], *bits),
        Act::Wake(at, most) => {
            let Some(timer) = pick(at, &timers(node)) else { return };
            node.now = node.now.max(timer.due);
            let Timer { due, parcel, .. } = timer;
            node.shard(one(Job::Wake { parcel, due }, *most));
        }
        Act::Orphans(at) => {
            let Some((parcel, _)) = pick(at, &parcels(node)) else { return };
            node.shard(ShardAsk::Orphans { parcel });
        }
        Act::Redrive(at, is_drop, name) => {
            let Some((parcel, _)) = pick(at, &parcels(node)) else { return };
            let wish = if *is_drop { Wish::Drop } else { Wish::Redrive };
            let users = name.map(|name| node.number(name).into_iter().collect());
            node.shard(ShardAsk::Redrive { parcel, wish, users });
        }
        Act::Receipt(at, name, device, delivered) => {
            let Some((parcel, _)) = pick(at, &parcels(node)) else { return };
            let Some(user) = node.number(*name) else { return };
            let (device, code, message) = (DeviceNo(*device), "receipt".to_owned(), String::new());
            let heard = Heard { user, device, delivered: *delivered, at: None, code, message };
            node.shard(ShardAsk::Receipt { parcel, heard });
        }
        Act::Sweep(days) => {
            node.now = node.now.plus(days * DAY_MS);
            node.sweep();
        }
        Act::Cancel(at) => {
            let Some((parcel, row)) = pick(at, &parcels(node)) else { return };
            node.front(FrontAsk::Cancel { tenant: parcel.tenant, event: row.event });
        }
    }
}

fn limit(node: &mut Node, name: u64, per_hour: u16) {
    let Some(user) = node.number(name) else { return };
    let tenant = node.tenant;
    let instead_of = node.read_shard(|state| respect::find(state.tables(), tenant, user).unwrap().revision);
    let limit = Limit { caps: Caps { per_hour, per_day: 0 }, pace: None };
    let limits = if per_hour == 0 { BTreeMap::new() } else { [(PUSH, limit)].into_iter().collect() };
    let preferences = Preferences { limits, ..Preferences::default() };
    let prefer = Box::new(Prefer { instead_of, source: "chance".into(), preferences });
    node.shard(ShardAsk::Prefer { tenant, user: lookup(name), prefer });
}

/// Registers a device and has its claim granted.
fn enrol(node: &mut Node, name: u64, device: u64) {
    let mut registration = registration(name, device, device);
    registration.kind = ChannelKind::ALL[1 + device as usize % 4];
    let answer = register(node, name, registration);
    let (ShardAnswer::Registered { device, .. }, Some(user)) = (answer, node.number(name)) else { return };
    let tenant = node.tenant;
    let found = node.read_shard(|state| {
        fantail_machine::tables::endpoint::find(state.tables(), tenant, user, device).unwrap()
    });
    let claim = found.expect("it was registered").claim;
    hear(node, user, device.0, claim.0, News::Granted { suppressed: false });
}

fn answer(node: &mut Node, at: &Index, said: Said, bits: u64) {
    let Some((parcel, row)) = pick(at, &parcels(node)) else { return };
    let answered = (0..row.members.count() as u16).filter(|at| bits & (1 << (at % 64)) != 0);
    // One beyond the end: none of ours.
    let told: Vec<_> =
        answered.chain([row.members.count() as u16]).map(|at| told(at, said, "said")).collect();
    node.shard(ShardAsk::Outcome { parcel, told: told.into() });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // proves: DEL-14
    /// The counters equal a full scan after every step (invariant 32), and what hangs on ledgers is what they say.
    #[test]
    fn whatever_happens_the_books_are_right(acts in vec((act(), 0u8..12), 1..80)) {
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
        // Everything ends, whatever was said before.
        finish(&mut node);
        for (parcel, row) in parcels(&node) {
            prop_assert!(row.standings.iter().all(|one| one.state.is_terminal()), "{:?} {:?}", parcel, row);
        }
    }
}

/// A new leader without a provider: orphans first, then everything that is open or due, answered by nobody.
pub fn finish(node: &mut Node) {
    for _ in 0..200 {
        for (parcel, _) in parcels(node) {
            node.shard(ShardAsk::Orphans { parcel });
        }
        let works = node.read_shard(|state| works::all(state.tables(), None, 50).unwrap());
        for (work, _) in &works {
            node.shard(one(Job::Work(*work), 1_000));
        }
        let timer = next_timer(node);
        if let Some(Timer { due, parcel, .. }) = timer {
            node.shard(one(Job::Wake { parcel, due }, 1_000));
        }
        audit(node);
        if works.is_empty() && timer.is_none() {
            return;
        }
    }
    panic!("deliveries do not end");
}
