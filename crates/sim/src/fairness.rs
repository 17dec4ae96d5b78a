//! Effects of one tenant beside many of another one, counted in fsyncs: between two of them everything runs that can run,
//! so they are the turns that the quiet tenant waits.

use crate::call::{Audience, Later, Post};
use crate::chance::Chance;
use crate::knobs::Draw;
use crate::swarm::Swarm;
use crate::world::World;
use fantail_machine::tables::window;
use fantail_node::Node;
use fantail_node::ask::{
    AudienceAsk, ChannelSet, DeviceAsk, EventAsk, InboxAsk, InboxFrom, OptionsAsk, Priority, Refusal,
    TenantAsk, UserAsk,
};
use fantail_node::respect::ConsentAsk;
use fantail_ports::BoxFuture;
use fantail_ports::clock::Clock;
use fantail_ports::store::Store;
use fantail_ports::tasks::Tasks;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::{Platform, Status};
use fantail_rules::ids::{Millis, PartitionId, ShardNo, TenantId};
use fantail_rules::marks::State;
use fantail_rules::ulid::Ulid;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) const LOUD: TenantId = TenantId(1);
pub(crate) const QUIET: TenantId = TenantId(2);
/// What the loud tenant has to be done.
const FEW: usize = 20;
const MANY: usize = 1_000;
/// Users of one import.
const IMPORT: usize = 20;
/// More than anything here takes.
const TURNS_MAX: u64 = 20_000;
const LATER_MS: u64 = 3_600_000;
/// How long likes are collected.
const LIKES_MS: u64 = 300_000;

type Slot<T> = Arc<Mutex<Option<T>>>;

/// A node whose disk takes its time: nothing is durable before all is done that can be done without it.
pub(crate) struct Turns {
    world: World,
    order: Chance,
    fsyncs: u64,
}

fn taken<T>(slot: &Slot<T>) -> Option<T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Turns {
    pub(crate) fn new() -> Self {
        let swarm = Swarm { shards: 1, fronts: 1, directories: 1, ..Swarm::of(7, false, Draw::Today) };
        let mut turns = Self { world: World::new(7, &swarm, None), order: Chance::of(7, "order"), fsyncs: 0 };
        turns.world.boot();
        turns.until(|turns| turns.world.started().expect("it starts"));
        for number in 1..=2 {
            let made = turns.ask(move |node| async move {
                let ask = TenantAsk { slug: format!("t{number}"), name: format!("tenant {number}") };
                node.create_tenant(ask).await
            });
            assert_eq!(made.expect("a tenant").id, TenantId(number));
        }
        turns
    }

    pub(crate) fn node(&self) -> Node {
        self.world.node.clone().expect("it has started")
    }

    /// Everything that can run does, then what was written becomes durable. Time passes only if nothing else is left.
    fn turn(&mut self) {
        while self.world.executor.run_one(&self.order).is_some() {}
        if self.world.journal.waiting() > 0 {
            while self.world.journal.waiting() > 0 {
                self.world.journal.flush_next();
            }
            self.fsyncs += 1;
        } else {
            let now = self.world.clock.monotonic();
            let next = self.world.executor.next_timer().map_or(1, |next| next.since(now));
            self.world.pass(next.max(1));
        }
    }

    /// How many fsyncs it takes until this holds.
    pub(crate) fn until(&mut self, mut holds: impl FnMut(&mut Self) -> bool) -> u64 {
        let before = self.fsyncs;
        for _ in 0..TURNS_MAX {
            if holds(self) {
                return self.fsyncs - before;
            }
            self.turn();
        }
        panic!("it never holds");
    }

    /// Lets everything happen that happens before a time.
    fn until_time(&mut self, at: Millis) {
        self.until(|turns| turns.world.wall() >= at);
    }

    fn begin<T, F>(&self, work: impl FnOnce(Node) -> F) -> Slot<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (slot, work) = (Slot::default(), work(self.node()));
        let into: Slot<T> = Arc::clone(&slot);
        let task = async move {
            let answer = work.await;
            *into.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        };
        self.world.executor.spawn("call", Box::pin(task));
        slot
    }

    pub(crate) fn ask<T, F>(&mut self, work: impl FnOnce(Node) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (slot, mut answer) = (self.begin(work), None);
        self.until(|_| {
            answer = taken(&slot);
            answer.is_some()
        });
        answer.expect("it was answered")
    }

    pub(crate) fn now<T, F>(&self, work: impl FnOnce(Node) -> F) -> T
    where
        F: Future<Output = T>,
    {
        crate::executor::at_once(work(self.node())).expect("reads do not wait")
    }

    /// Rows of tables that this reads.
    pub(crate) fn rows_of(&self, read: impl FnOnce(&Self)) -> u64 {
        let before = self.world.store.rows_read();
        read(self);
        self.world.store.rows_read() - before
    }

    fn people(&mut self, tenant: TenantId, count: usize) {
        for part in (0..count).collect::<Vec<_>>().chunks(500) {
            let users: Vec<UserAsk> = part.iter().map(|no| user_ask(*no)).collect();
            let put = self.ask(move |node| async move { node.put_users(tenant, users).await });
            assert!(put.iter().all(Result::is_ok));
        }
    }

    fn is_active(&self, tenant: TenantId, user: usize) -> bool {
        let devices = self.now(|node| async move { node.devices(tenant, &name(user)).await });
        devices.is_ok_and(|found| found.iter().any(|device| device.status == Status::Active))
    }

    /// Users with a device that can be used.
    pub(crate) fn people_with_devices(&mut self, tenant: TenantId, count: usize) {
        self.people(tenant, count);
        let registered: Vec<_> = (0..count).map(|user| self.begin(register(tenant, user))).collect();
        self.until(|turns| (0..count).all(|user| turns.is_active(tenant, user)));
        assert!(registered.iter().all(|slot| taken(slot).is_some_and(|done| done.is_ok())));
    }
}

pub(crate) fn name(user: usize) -> String {
    format!("u{user}")
}

fn user_ask(no: usize) -> UserAsk {
    UserAsk { user: name(no), attributes: b"{}".to_vec(), profile: Default::default() }
}

fn register(tenant: TenantId, user: usize) -> impl FnOnce(Node) -> BoxFuture<'static, Result<(), Refusal>> {
    move |node| {
        Box::pin(async move {
            let identity = format!("token-{user}");
            let consent = ConsentAsk {
                is_granted: true,
                given: None,
                version: "1".to_owned(),
                source: "sim".to_owned(),
            };
            let ask = DeviceAsk {
                user: name(user),
                device: "phone".to_owned(),
                kind: ChannelKind::Push,
                platform: Platform::Ios,
                address: identity.clone().into_bytes(),
                identity,
                meta: Vec::new(),
                consent: Some(consent),
            };
            node.register_device(tenant, ask).await.map(drop)
        })
    }
}

/// Something for one user.
pub(crate) fn event(
    tenant: TenantId,
    key: u32,
    user: usize,
    due: Option<Millis>,
    channels: ChannelSet,
) -> EventAsk {
    let post = Post {
        tenant,
        key,
        body: 1,
        actor: None,
        audience: Audience::Users(Vec::new()),
        channels,
        priority: Priority::Normal,
        later: Later::default(),
        by_template: false,
    };
    let options = OptionsAsk { due, ..OptionsAsk::default() };
    EventAsk { audience: AudienceAsk::Users(vec![name(user)]), options, ..post.ask() }
}

/// The turns of the quiet tenant beside little and much of the loud one.
fn check(what: &str, turns_of: impl Fn(usize) -> u64) {
    check_beside(MANY, what, turns_of);
}

fn check_beside(much: usize, what: &str, turns_of: impl Fn(usize) -> u64) {
    let [few, many] = [FEW, much].map(turns_of);
    #[expect(clippy::print_stderr, reason = "the turns are shown with --nocapture")]
    {
        eprintln!("{what}: {few} turns beside {FEW} of another tenant, {many} beside {much}");
    }
    assert!(many <= 2 * few, "{what}: {many} turns beside {much} of another tenant, {few} beside {FEW}");
}

/// Imports wait in the queues of all partitions.
#[test]
fn an_event_is_accepted_beside_a_flood_of_imports() {
    check("an event", |count| {
        let mut turns = Turns::new();
        turns.people(QUIET, 1);
        let imports: Vec<_> = (0..count)
            .map(|part| {
                let users: Vec<UserAsk> = (part * IMPORT..(part + 1) * IMPORT).map(user_ask).collect();
                turns.begin(move |node| async move { node.put_users(LOUD, users).await })
            })
            .collect();
        let asks = vec![event(QUIET, 1, 0, None, ChannelSet::EMPTY)];
        let quiet = turns.begin(move |node| async move { node.post_events(QUIET, asks).await });
        let waited = turns.until(|turns| {
            let ask = InboxAsk { user: name(0), limit: 1, from: InboxFrom::Newest, state: State::All };
            let page = turns.now(|node| async move { node.inbox(QUIET, ask).await });
            page.is_ok_and(|page| !page.notifications.is_empty())
        });
        assert!(taken(&quiet).is_some_and(|posted| posted.iter().all(Result::is_ok)));
        drop(imports);
        waited
    });
}

/// Thousands of registrations before it, and the new device is used as soon as if there were twenty.
#[test]
fn a_device_is_activated_beside_a_flood_of_registrations() {
    check_beside(4 * MANY, "a device", |count| {
        let mut turns = Turns::new();
        turns.people(LOUD, count);
        turns.people(QUIET, 1);
        // All are accepted before the first claim is made.
        let flood: Vec<_> = (0..count).map(|user| turns.begin(register(LOUD, user))).collect();
        let quiet = turns.begin(register(QUIET, 0));
        let waited = turns.until(|turns| turns.is_active(QUIET, 0));
        assert!(taken(&quiet).is_some_and(|done| done.is_ok()));
        drop(flood);
        waited
    });
}

/// Erasures look at all that is kept, step by step.
#[test]
fn an_erasure_ends_and_a_device_is_activated_beside_a_flood_of_erasures() {
    let turns_of = |count: usize, is_erasure: bool| {
        let mut turns = Turns::new();
        turns.people(LOUD, count);
        turns.people(QUIET, 2);
        let erase =
            |tenant, user: usize| move |node: Node| async move { node.erase(tenant, &name(user)).await };
        let flood: Vec<_> = (0..count).map(|user| turns.begin(erase(LOUD, user))).collect();
        let begun = turns.begin(erase(QUIET, 0));
        let registered = turns.begin(register(QUIET, 1));
        let mut quiet: Option<Ulid> = None;
        let waited = turns.until(|turns| {
            quiet = quiet.or_else(|| taken(&begun).map(|begun| begun.expect("it is begun").erasure));
            let is_ended = |id: Ulid| {
                let row = turns.node().erasure(QUIET, id).expect("the shard is there");
                row.is_some_and(|row| row.ended.is_some())
            };
            if is_erasure { quiet.is_some_and(is_ended) } else { turns.is_active(QUIET, 1) }
        });
        drop((flood, registered));
        waited
    };
    check("an erasure", |count| turns_of(count, true));
    check("a device", |count| turns_of(count, false));
}

/// They are due at one instant, the loud tenant's first.
#[test]
fn what_is_due_is_released_beside_a_flood_that_is_due_at_the_same_time() {
    check("a scheduled notification", |count| {
        let mut turns = Turns::new();
        turns.people(LOUD, 1);
        turns.people(QUIET, 1);
        let due = turns.world.wall().plus(LATER_MS);
        for (tenant, count) in [(LOUD, count), (QUIET, 1)] {
            let asks: Vec<EventAsk> = (0..count)
                .map(|no| event(tenant, no as u32 * 3 + 1, 0, Some(due), ChannelSet::EMPTY))
                .collect();
            for part in asks.chunks(100) {
                let part = part.to_vec();
                let posted = turns.ask(move |node| async move { node.post_events(tenant, part).await });
                assert!(posted.iter().all(Result::is_ok), "{posted:?}");
            }
        }
        turns.until_time(due);
        turns.until(|turns| {
            let ask = InboxAsk { user: name(0), limit: 1, from: InboxFrom::Newest, state: State::All };
            let page = turns.now(|node| async move { node.inbox(QUIET, ask).await });
            page.is_ok_and(|page| !page.notifications.is_empty())
        })
    });
}

/// The likes of many users of the loud tenant are over when those of one user of the quiet one are: its digest is written.
#[test]
fn a_digest_is_written_beside_a_flood_of_digests() {
    check("a digest", |count| {
        let count = count / 4;
        let mut turns = Turns::new();
        for (tenant, count) in [(LOUD, count), (QUIET, 1)] {
            turns.people_with_devices(tenant, count);
        }
        let began = turns.world.wall();
        for (tenant, count) in [(LOUD, count), (QUIET, 1)] {
            let push = ChannelSet::EMPTY.with(ChannelKind::Push);
            let asks: Vec<EventAsk> =
                (0..count * 4).map(|no| event(tenant, no as u32 * 3, no % count, None, push)).collect();
            for part in asks.chunks(100) {
                let part = part.to_vec();
                let posted = turns.ask(move |node| async move { node.post_events(tenant, part).await });
                assert!(posted.iter().all(Result::is_ok), "{posted:?}");
            }
        }
        // The first of each user was told at once. Then the machine is suspended until all windows are over.
        turns.until_time(began.plus(LIKES_MS / 2));
        let is_held = |turns: &Turns| {
            let mut window = Ok(None);
            let read = turns.world.store.read(PartitionId::Shard(ShardNo(0)), &mut |view| {
                let latest = window::latest(view.tables(), QUIET);
                window = latest.and_then(|no| window::find(view.tables(), QUIET, no));
            });
            read.expect("the shard is there");
            window.expect("plain").is_some()
        };
        assert!(is_held(&turns));
        turns.world.pass(LIKES_MS);
        turns.until(|turns| !is_held(turns))
    });
}
