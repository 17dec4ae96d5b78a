//! Deliveries: from the list or the names of an event to what became of each of its members.
//!
//! `parcels` is about who is in a parcel, `attempts` about what answers lead to, `later` about what is said afterwards,
//! `books` about tallies that are wrong, `guard` about what goes after thirty days,
//! `chance` about all of it in no order that makes sense. After every step `audit` compares what is kept with a recount.

mod attempts;
pub mod audit;
mod books;
mod chance;
mod guard;
mod later;
mod parcels;
mod turns;

pub use audit::audit;
pub use chance::{Act, act, drive};

use crate::endpoints::{hear, register, registration};
use crate::harness::{DAY_MS, Node, START, TENANT};
use fantail_machine::parcel::Member;
use fantail_machine::records::front::Delivery;
use fantail_machine::shard::intend::{Allowed, Send};
use fantail_machine::shard::outcome::{Said, Told};
use fantail_machine::shard::serve::{Job, Served};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::ledger::{self, LedgerRow, ParcelId, Standing, Timer};
use fantail_machine::tables::tally::{self, Tally};
use fantail_machine::tables::work::{Terms, WorkId};
use fantail_rules::attempt::{Class, State};
use fantail_rules::category::CategoryId;
use fantail_rules::chain::Chain;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::endpoint::News;
use fantail_rules::ids::{DeviceNo, Millis, TenantId, UserNo};
use fantail_rules::priority::Priority;
use fantail_rules::retry::Cause;

pub const PUSH: ChannelKind = ChannelKind::Push;

/// By these channels, with a day to live, expected by nobody in particular.
pub fn by(channels: &[ChannelKind]) -> Delivery {
    let channels = channels.iter().fold(ChannelSet::EMPTY, |set, kind| set.with(*kind));
    let expires_at = START.plus(DAY_MS);
    let (lane, class, category) = (Priority::Normal, Class::Transactional, CategoryId::of("general"));
    let (group, appointment, chain, kind) = (7, None, Chain::NONE, None);
    Delivery { channels, terms: Terms { lane, class, category, expires_at, group, appointment, chain, kind } }
}

pub fn push(lane: Priority, class: Class) -> Delivery {
    let delivery = by(&[PUSH]);
    Delivery { terms: Terms { lane, class, ..delivery.terms }, ..delivery }
}

pub fn told(position: u16, said: Said, code: &str) -> Told {
    let (message, provider_id) = (String::new(), String::new());
    Told { position, claim: None, said, code: code.into(), message, provider_id }
}

pub fn later(cause: Cause) -> Said {
    Said::NotTaken { cause, retry_after_ms: None }
}

/// A user with so many devices, all in use.
pub fn user_with(node: &mut Node, name: u64, devices: u64) -> UserNo {
    let user = node.user(name);
    for device in 1..=devices {
        register(node, name, registration(name, device, device));
        hear(node, user, device as u16, device as u32, News::Granted { suppressed: false });
    }
    user
}

/// The push work of the event that arrived last.
pub fn work(node: &Node) -> WorkId {
    WorkId { tenant: node.tenant, arrival: node.progress().last, channel: PUSH }
}

pub fn intend(node: &mut Node, work: WorkId, deliveries_max: u32) -> (Option<Allowed>, bool) {
    allowed(node, one(Job::Work(work), deliveries_max))
}

pub fn wake(node: &mut Node, timer: Timer, deliveries_max: u32) -> (Option<Allowed>, bool) {
    let Timer { parcel, due, .. } = timer;
    allowed(node, one(Job::Wake { parcel, due }, deliveries_max))
}

/// A turn with one job.
pub fn one(job: Job, deliveries_max: u32) -> ShardAsk {
    ShardAsk::Serve { jobs: vec![job], deliveries_max }
}

fn allowed(node: &mut Node, ask: ShardAsk) -> (Option<Allowed>, bool) {
    let served = served(node, ask);
    assert_eq!(served.len(), 1, "the only job is looked at");
    served.into_iter().next().map(|served| (served.allowed, served.more)).expect("there is one")
}

pub fn served(node: &mut Node, ask: ShardAsk) -> Vec<Served> {
    let answer = node.shard(ask);
    audit(node);
    match answer {
        ShardAnswer::Served(served) => served,
        other => panic!("{other:?}"),
    }
}

pub fn settle(node: &mut Node, parcel: ParcelId, told: Vec<Told>) {
    assert_eq!(node.shard(ShardAsk::Outcome { parcel, told: told.into() }), ShardAnswer::Noted);
    audit(node);
}

/// The earliest timer, once its time has come.
pub fn next_timer(node: &mut Node) -> Option<Timer> {
    let found = timers(node).into_iter().next()?;
    node.now = node.now.max(found.due);
    Some(found)
}

pub fn timers(node: &Node) -> Vec<Timer> {
    node.read_shard(|state| {
        ledger::timers(state.tables(), Millis(0), Millis(u64::MAX - 1), usize::MAX).unwrap()
    })
}

pub fn row(node: &Node, parcel: ParcelId) -> LedgerRow {
    node.read_shard(|state| ledger::find(state.tables(), parcel).unwrap()).expect("the parcel exists")
}

pub fn standings(node: &Node, parcel: ParcelId) -> Vec<Standing> {
    row(node, parcel).standings.iter().cloned().collect()
}

/// The state and the reason of every member.
pub fn words(node: &Node, parcel: ParcelId) -> Vec<(State, String)> {
    standings(node, parcel).into_iter().map(|one| (one.state, one.code)).collect()
}

pub fn states(node: &Node, parcel: ParcelId) -> Vec<State> {
    standings(node, parcel).into_iter().map(|one| one.state).collect()
}

pub fn tally_of(node: &Node, work: WorkId) -> Tally {
    let key = tally::key(work.tenant, work.arrival, work.channel);
    node.read_shard(|state| tally::find(state.tables(), &key).unwrap())
}

pub fn dead_letters(node: &Node) -> Vec<ParcelId> {
    node.read_shard(|state| ledger::dead(state.tables(), TENANT, None, 100).unwrap())
}

pub fn member(user: UserNo, device: u16) -> Member {
    Member { user, device: DeviceNo(device) }
}

pub fn members(sends: &[Send]) -> Vec<Member> {
    sends.iter().map(|send| send.member).collect()
}

/// One user with one device and an event for it: its first attempt is under way.
pub fn one_under_way(delivery: Delivery) -> (Node, ParcelId) {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    node.delivery = Some(delivery);
    node.send(&[user]);
    node.take_all();
    let work = work(&node);
    let (allowed, more) = intend(&mut node, work, 1_000);
    let allowed = allowed.expect("something is to be sent");
    assert_eq!((members(&allowed.sends), more), (vec![member(user, 1)], false));
    (node, allowed.parcel)
}

// proves: DEL-03
// fixes: contract 1c
/// A new kind of job does not compile here before it says whose it is, and a tenant that may be absent never does.
#[test]
fn every_job_names_its_tenant() {
    let tenant_of = |job: &Job| -> TenantId {
        match job {
            Job::Work(WorkId { tenant, .. }) => *tenant,
            Job::Wake { parcel: ParcelId { tenant, .. }, .. } => *tenant,
        }
    };
    let (mut node, parcel) = one_under_way(by(&[PUSH]));
    settle(&mut node, parcel, vec![told(0, later(Cause::Message), "busy")]);
    let due = next_timer(&mut node).expect("it is tried again").due;
    for job in [Job::Work(parcel.work()), Job::Wake { parcel, due }] {
        assert_eq!(tenant_of(&job), TENANT);
        let mut allowed = served(&mut node, one(job, 1_000)).into_iter().filter_map(|served| served.allowed);
        assert!(allowed.all(|allowed| allowed.parcel.tenant == TENANT));
    }
}
