//! Bulk sends through the whole node, in virtual time: each goes at its pace, and all of the pace is used.

use crate::call::{attributes, user_name};
use crate::chance::Chance;
use crate::knobs::Draw;
use crate::swarm::Swarm;
use crate::world::World;
use fantail_node::Node;
use fantail_node::ask::{
    AudienceAsk, ChannelSet, DeviceAsk, EventAsk, OptionsAsk, Priority, ProfileAsk, TenantAsk, UserAsk,
};
use fantail_node::bulk::{BulkAsk, Pace, Steer};
use fantail_node::respect::ConsentAsk;
use fantail_node::segments::SegmentPut;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Platform;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::ulid::Ulid;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex};

const USERS: u16 = 400;
const SHARDS: u16 = 4;
/// More is never waited for.
const LONGEST_MS: u64 = 600_000;

struct Desk {
    world: World,
    order: Chance,
    tenant: TenantId,
    /// When messages were handed to the provider for the first time, and how many.
    taken: Vec<(Millis, usize)>,
    seen: BTreeSet<String>,
}

impl Desk {
    fn new() -> Self {
        let swarm = Swarm { shards: SHARDS, fronts: 1, directories: 1, ..Swarm::of(7, false, Draw::Today) };
        let world = World::new(7, &swarm, None);
        let mut desk = Self {
            world,
            order: Chance::of(7, "order"),
            tenant: TenantId(0),
            taken: Vec::new(),
            seen: BTreeSet::new(),
        };
        desk.world.boot();
        while !desk.world.started().expect("it starts") {
            desk.run();
            desk.pass();
        }
        let made = desk.ask(|node| async move {
            let tenant = node.create_tenant(TenantAsk { slug: "t".into(), name: "t".into() }).await?;
            let (filter, note) = (Some("everyone".to_owned()), String::new());
            node.put_segment(SegmentPut { tenant: tenant.id, name: "all".into(), filter, note }).await?;
            let user = |no| UserAsk {
                user: user_name(no),
                attributes: attributes(0),
                profile: ProfileAsk::default(),
            };
            for one in node.put_users(tenant.id, (0..USERS).map(user).collect()).await {
                one?;
            }
            for no in 0..USERS {
                node.register_device(tenant.id, device(no)).await?;
            }
            Ok::<_, fantail_node::ask::Refusal>(tenant.id)
        });
        desk.tenant = made.expect("a tenant with users");
        desk.wait(5_000);
        desk
    }

    /// All that can be done now.
    fn run(&mut self) {
        while self.world.executor.has_ready() || self.world.journal.waiting() > 0 {
            while self.world.journal.waiting() > 0 {
                self.world.journal.flush_next();
            }
            self.world.executor.run_one(&self.order);
        }
        let starts = self.world.provider.take_starts().into_iter();
        let count = starts.filter(|reference| self.seen.insert(reference.clone())).count();
        if count > 0 {
            self.taken.push((self.world.clock.monotonic(), count));
        }
    }

    /// Time passes to the next timer.
    fn pass(&mut self) {
        let now = self.world.clock.monotonic();
        let span_ms = self.world.executor.next_timer().map_or(1, |next| next.since(now)).max(1);
        self.world.pass(span_ms);
    }

    fn wait(&mut self, span_ms: u64) {
        let until = self.world.clock.monotonic().plus(span_ms);
        while self.world.clock.monotonic() < until {
            self.run();
            self.pass();
        }
    }

    fn ask<T, F>(&mut self, work: impl FnOnce(Node) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let node = self.world.node.clone().expect("a node");
        let slot: Arc<Mutex<Option<T>>> = Arc::default();
        let (work, into) = (work(node), slot.clone());
        let task = async move {
            let answer = work.await;
            *into.lock().expect("no panic") = Some(answer);
        };
        self.world.executor.spawn("ask", Box::pin(task));
        loop {
            self.run();
            if let Some(answer) = slot.lock().expect("no panic").take() {
                return answer;
            }
            self.pass();
        }
    }

    fn begin(&mut self, pace: Pace) -> Ulid {
        let (tenant, ask) = (self.tenant, bulk(pace));
        self.ask(move |node| async move { node.bulk(tenant, ask).await }).expect("accepted").event
    }

    fn count(&self) -> usize {
        self.seen.len()
    }

    /// Until everybody was sent to. Returns how long that took after the first one.
    fn drain(&mut self) -> u64 {
        let began = self.world.clock.monotonic();
        while self.count() < usize::from(USERS) {
            self.run();
            self.pass();
            let took_ms = self.world.clock.monotonic().since(began);
            assert!(took_ms < LONGEST_MS, "{} of {USERS} after {took_ms} ms", self.count());
        }
        let (first, last) = (self.taken[0].0, self.taken[self.taken.len() - 1].0);
        last.since(first)
    }

    /// In no stretch of time more than the rate, a second's worth that was due before, and a step of each shard.
    fn check_rate(&self, per_second: u64) {
        for (at, (from, _)) in self.taken.iter().enumerate() {
            let mut count = 0;
            for (to, more) in &self.taken[at..] {
                count += *more as u64;
                let most = per_second * (to.since(*from) + 2_000) / 1_000 + u64::from(SHARDS);
                assert!(count <= most, "{count} from {from} to {to}, at {per_second} per second");
            }
        }
    }
}

fn device(no: u16) -> DeviceAsk {
    let consent = ConsentAsk { is_granted: true, given: None, version: "1".into(), source: "sim".into() };
    DeviceAsk {
        user: user_name(no),
        device: "d".into(),
        kind: ChannelKind::Push,
        platform: Platform::Ios,
        address: format!("stub:{no}").into_bytes(),
        identity: format!("stub:{no}"),
        meta: Vec::new(),
        consent: Some(consent),
    }
}

fn bulk(pace: Pace) -> BulkAsk {
    let event = EventAsk {
        source: "sim".into(),
        id: "bulk".into(),
        kind: "sale".into(),
        actor: None,
        audience: AudienceAsk::Segment("all".into()),
        category: "social".into(),
        priority: Priority::Low,
        channels: ChannelSet::default().with(ChannelKind::Push),
        ttl_ms: 86_400_000,
        options: OptionsAsk::default(),
        content: b"{}".to_vec(),
        body_hash: [0; 16],
    };
    BulkAsk {
        segment: "all".into(),
        excludes_opted_out: false,
        ignores_quiet_hours: true,
        pace,
        window: None,
        event,
    }
}

// proves: BLK-04
// fixes: interop F1
#[test]
fn a_bulk_send_drains_at_its_rate_and_never_faster() {
    // 20 and 100 times the rate; one per second for each shard at least.
    for per_second in [20, 4, 100] {
        let mut desk = Desk::new();
        desk.begin(Pace::PerSecond(per_second));
        let took_ms = desk.drain();
        let ideal_ms = u64::from(USERS) * 1_000 / u64::from(per_second);
        assert!(took_ms <= ideal_ms * 10 / 9 + 1_000, "{USERS} at {per_second}/s took {took_ms} ms");
        desk.check_rate(per_second.into());
    }
}

// proves: BLK-08
// fixes: interop F1
#[test]
fn a_bulk_send_that_is_spread_takes_its_time_and_no_longer() {
    let mut desk = Desk::new();
    desk.begin(Pace::Over(60_000));
    let took_ms = desk.drain();
    assert!((54_000..=66_000).contains(&took_ms), "spread over 60 s took {took_ms} ms");
}

// proves: BLK-04
// fixes: interop F1
#[test]
fn a_rate_that_is_changed_meanwhile_holds_at_once() {
    let mut desk = Desk::new();
    let (tenant, event) = (desk.tenant, desk.begin(Pace::PerSecond(4)));
    desk.wait(20_000);
    let before = desk.count();
    assert!((72..=92).contains(&before), "{before} in 20 s of four per second");
    let steer = Steer::Pace(Pace::PerSecond(40));
    desk.ask(move |node| async move { node.steer_bulk(tenant, event, steer).await }).expect("steered");
    let steered_at = desk.world.clock.monotonic();
    desk.drain();
    let took_ms = desk.world.clock.monotonic().since(steered_at);
    let left = (usize::from(USERS) - before) as u64;
    assert!(took_ms <= left * 25 * 10 / 9 + 1_000, "{left} at 40 per second took {took_ms} ms");
    assert!(took_ms + 2_000 >= left * 25, "{left} at 40 per second took {took_ms} ms only");
}
