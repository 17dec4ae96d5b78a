//! Seeded clients: several tenants with the same names in each, everything the node can be asked, repeats included.
//!
//! Comes from: the driver, whenever there is room for another call. Decides: what somebody asks next, knowing only
//! what clients know (their own requests and what they were told). Goes to: `call`, through the driver.

mod devices;
mod later;

use crate::call::{Audience, Call, List, Post, PostId, Target, Who};
use crate::chance::Chance;
use crate::oracle::Oracle;
use crate::swarm::Swarm;
use fantail_node::ask::{ChannelKind, ChannelSet, EdgeChange, Priority};
use fantail_node::audit::notes::HOUSE;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::marks::Mark;

/// Users that do everything; the rest of the crowd only follows.
pub const ACTIVE: u16 = 8;
const CROWD_FIRST: u16 = 100;
/// Nobody with these numbers ever exists.
const NOBODY: u16 = 50;
const ACTORS: u16 = 4;
const TOPICS: u16 = 2;
/// The actor the crowd follows.
const STAR: List = List::Actor(2);
/// Devices of each user, and tokens that they come to have.
const DEVICES: usize = 2;
const TOKENS: usize = 4;
/// How far back clients repeat, retract and mark.
const RECENT: usize = 40;

pub struct Workload {
    chance: Chance,
    swarm: Swarm,
    pub tenants: Vec<TenantId>,
    /// The next key of each tenant: the same keys in every one.
    keys: Vec<u32>,
    attribute: u64,
    /// Addresses that devices have had so far.
    generation: u32,
    now: Millis,
    /// Requests before this one are past the idempotency window.
    pub oldest_repeat: usize,
}

impl Workload {
    #[must_use]
    pub fn new(seed: u64, swarm: &Swarm, tenants: Vec<TenantId>) -> Self {
        let keys = vec![0; tenants.len()];
        let chance = Chance::of(seed, "workload");
        Self {
            chance,
            swarm: swarm.clone(),
            tenants,
            keys,
            attribute: 0,
            generation: 0,
            now: Millis(0),
            oldest_repeat: 0,
        }
    }

    #[must_use]
    pub fn lists() -> Vec<List> {
        (0..ACTORS).map(List::Actor).chain((0..TOPICS).map(List::Topic)).collect()
    }

    /// The calls that make the first users and follows.
    pub fn opening(&mut self) -> Vec<Call> {
        let mut calls = Vec::new();
        for tenant in self.tenants.clone() {
            let users = (0..ACTIVE).map(|user| (user, self.next_attribute())).collect();
            calls.push(Call::PutUsers { tenant, users });
            let mut edges: Vec<(u16, List)> = (0..ACTIVE)
                .flat_map(|user| Self::lists().into_iter().map(move |list| (user, list)))
                .collect();
            edges.retain(|_| self.chance.percent(40));
            calls.push(Call::Edit { tenant, change: EdgeChange::Join, edges });
        }
        if self.swarm.crowd > 0 {
            let tenant = self.tenants[0];
            let users = self.crowd().map(|user| (user, 0)).collect();
            calls.push(Call::PutUsers { tenant, users });
            let mut edges: Vec<(u16, List)> = self.crowd().map(|user| (user, STAR)).collect();
            edges.truncate(self.chance.index(edges.len()));
            calls.push(Call::Edit { tenant, change: EdgeChange::Join, edges });
        }
        if self.swarm.deliveries {
            calls.extend(self.first_devices());
        }
        calls
    }

    fn crowd(&self) -> std::ops::Range<u16> {
        CROWD_FIRST..CROWD_FIRST + self.swarm.crowd
    }

    fn next_attribute(&mut self) -> u64 {
        self.attribute += 1;
        self.attribute
    }

    /// What somebody asks next. May be something that cannot be judged beside what is under way.
    pub fn next(&mut self, oracle: &mut Oracle, now: Millis) -> Call {
        self.now = now;
        let swarm = &self.swarm;
        let on = |on: bool, weight: u64| if on { weight } else { 0 };
        let weights = [
            30,
            12,
            on(swarm.retractions, 5),
            14,
            on(swarm.crowd > 0, 5),
            5,
            on(swarm.deletions, 2),
            on(swarm.duels, 3),
            on(swarm.marks, 18),
            10,
            5,
            8,
            2,
            on(swarm.devices, 14),
            on(swarm.devices, 3),
            on(swarm.devices, 3),
            on(swarm.deliveries, 6),
            on(swarm.deliveries, 3),
            on(swarm.cancellation_keys, 3),
            on(swarm.deliveries && swarm.receipts, 10),
            on(swarm.deliveries && swarm.strangers, 6),
            on(swarm.deliveries && swarm.strangers && swarm.deletions, 1),
            on(swarm.deliveries && swarm.consents, 8),
            on(swarm.deliveries && swarm.limits, 4),
            on(swarm.walks, 11),
            on(swarm.notes, 4),
        ];
        match self.chance.weighted(&weights) {
            0 => self.post(oracle),
            1 => self.repeat(oracle),
            2 => self.retract(oracle),
            3 => self.edit(),
            4 => self.move_crowd(),
            5 => self.put(),
            6 => Call::DeleteUser { who: self.anybody(), erases: self.chance.percent(50) },
            7 => {
                let (who, attribute) = (self.anybody(), self.next_attribute());
                Call::Duel { who, attribute, delete_first: self.chance.percent(60) }
            }
            8 => self.mark(oracle, now),
            9 => Call::Audit { who: self.anybody_at_all() },
            10 => Call::Walk { who: self.anybody(), limit: self.chance.index(5) + 1 },
            11 => self.poll(oracle),
            12 => Call::ReadUser { who: self.anybody() },
            13 => Call::Register { who: self.anybody(), device: self.device(), token: self.token() },
            14 => Call::Unregister { who: self.anybody(), device: self.device() },
            15 => {
                let on = self.chance.percent(50);
                Call::Suppress { tenant: self.tenant().1, token: self.token(), on }
            }
            16 => self.enrol(),
            17 => self.cancel(oracle),
            18 => Call::CancelKey { tenant: self.tenant().1, key: self.cancellation() },
            19 => self.receipt(oracle),
            20 => self.notify(oracle),
            21 => Call::Forget { stranger: self.stranger() },
            23 => Call::Limit { who: self.anybody_at_all(), per_hour: self.chance.index(3) as u16 + 1 },
            24 => self.walk(oracle),
            25 => self.note(oracle),
            _ => Call::Consent { who: self.anybody_at_all(), is_granted: self.chance.percent(50) },
        }
    }

    fn tenant(&self) -> (usize, TenantId) {
        let index = self.chance.index(self.tenants.len());
        (index, self.tenants[index])
    }

    fn anybody(&self) -> Who {
        Who { tenant: self.tenant().1, user: self.chance.index(ACTIVE.into()) as u16 }
    }

    fn anybody_at_all(&self) -> Who {
        if self.swarm.crowd > 0 && self.chance.percent(20) {
            let user = CROWD_FIRST + self.chance.index(self.swarm.crowd.into()) as u16;
            return Who { tenant: self.tenants[0], user };
        }
        self.anybody()
    }

    fn device(&self) -> u8 {
        self.chance.index(DEVICES) as u8
    }

    /// Few, so that they change hands all the time.
    fn token(&self) -> u8 {
        self.chance.index(TOKENS) as u8
    }

    fn list(&self) -> List {
        *self.chance.pick(&Self::lists()).unwrap_or(&STAR)
    }

    fn post(&mut self, oracle: &mut Oracle) -> Call {
        let (index, tenant) = self.tenant();
        let count = if self.chance.percent(25) { self.chance.index(4) + 1 } else { 1 };
        let mut posts = Vec::new();
        for _ in 0..count {
            self.keys[index] += 1;
            let (actor, audience) = self.audience();
            let (channels, priority) = self.leaves();
            let (key, later) = (self.keys[index], self.later());
            let by_template = self.swarm.templates && self.chance.percent(30);
            let post = Post { tenant, key, body: 0, actor, audience, channels, priority, later, by_template };
            posts.push((oracle.write_down(post.clone()), post));
        }
        if self.chance.percent(5) {
            posts.extend(posts.last().cloned());
        }
        Call::Post { tenant, posts }
    }

    /// By which channels an event leaves the house, and how urgent it is.
    fn leaves(&self) -> (ChannelSet, Priority) {
        let mut channels = ChannelSet::EMPTY;
        if self.swarm.deliveries && self.chance.percent(50) {
            for kind in [ChannelKind::InApp, ChannelKind::Push, ChannelKind::Webhook] {
                if self.chance.percent(60) {
                    channels = channels.with(kind);
                }
            }
        }
        (channels, Priority::from_stored(self.chance.index(4) as u8))
    }

    fn cancel(&mut self, oracle: &mut Oracle) -> Call {
        match self.retract(oracle) {
            Call::Retract { tenant, post, event } => Call::Cancel { tenant, post, event },
            other => other,
        }
    }

    fn audience(&self) -> (Option<u16>, Audience) {
        let actor = self.chance.index(ACTORS.into()) as u16;
        let said = self.chance.percent(70).then_some(actor);
        match self.chance.weighted(&[if self.swarm.crowd > 0 { 3 } else { 0 }, 5, 3, 4]) {
            0 => (Some(2), Audience::List(STAR)),
            1 => (Some(actor), Audience::List(List::Actor(actor))),
            2 => (said, Audience::List(List::Topic(self.chance.index(TOPICS.into()) as u16))),
            _ => {
                let most = if self.swarm.long_answers { 16 } else { 4 };
                let somebody = |_| self.chance.index(ACTIVE.into()) as u16;
                let mut users: Vec<u16> = (0..self.chance.between(1, most)).map(somebody).collect();
                if self.chance.percent(4) {
                    users.push(NOBODY);
                }
                (said, Audience::Users(users))
            }
        }
    }

    /// A request of before: the same again, or its key with another body.
    fn repeat(&mut self, oracle: &mut Oracle) -> Call {
        let Some(id) = self.recent(oracle).filter(|id| id.0 >= self.oldest_repeat) else {
            return self.post(oracle);
        };
        let post = oracle.post(id).clone();
        if self.swarm.other_bodies && self.chance.percent(30) && post.body == 0 {
            let is_event = !matches!(post.audience, Audience::Strangers(_) | Audience::Everyone);
            let elsewhere = is_event && (self.swarm.strict || self.swarm.fronts == 1);
            let (actor, audience) = if elsewhere && self.chance.percent(50) {
                self.audience()
            } else {
                (post.actor, post.audience)
            };
            let other = Post { body: 1, actor, audience, ..post };
            let tenant = other.tenant;
            let id = oracle.find(&other).unwrap_or_else(|| oracle.write_down(other));
            let post = oracle.post(id).clone();
            return Call::Post { tenant, posts: vec![(id, post)] };
        }
        Call::Post { tenant: post.tenant, posts: vec![(id, post)] }
    }

    fn recent(&self, oracle: &Oracle) -> Option<PostId> {
        let count = oracle.post_count();
        (count > 0).then(|| PostId(count - 1 - self.chance.index(count.min(RECENT))))
    }

    fn retract(&mut self, oracle: &mut Oracle) -> Call {
        let found = self.recent(oracle).and_then(|post| Some((post, oracle.event_of(post)?)));
        let Some((post, event)) = found else { return self.post(oracle) };
        let mut tenant = oracle.post(post).tenant;
        if self.chance.percent(15) {
            tenant = self.tenant().1;
        }
        Call::Retract { tenant, post, event }
    }

    fn edit(&mut self) -> Call {
        let tenant = self.tenant().1;
        let change = if self.chance.percent(60) { EdgeChange::Join } else { EdgeChange::Leave };
        let mut edges = Vec::new();
        if self.chance.percent(20) {
            edges.push((NOBODY + self.chance.index(3) as u16, self.list()));
        }
        for _ in 0..self.chance.between(1, 5) {
            let edge = (self.chance.index(ACTIVE.into()) as u16, self.list());
            if !edges.contains(&edge) {
                edges.push(edge);
            }
        }
        Call::Edit { tenant, change, edges }
    }

    /// A part of the crowd comes or goes, so that the star crosses the threshold.
    fn move_crowd(&self) -> Call {
        let (first, count) =
            (self.chance.index(self.swarm.crowd.into()), self.chance.between(20, 90) as usize);
        let users = self.crowd().cycle().skip(first).take(count.min(self.swarm.crowd.into()));
        let change = if self.chance.percent(55) { EdgeChange::Join } else { EdgeChange::Leave };
        Call::Edit { tenant: self.tenants[0], change, edges: users.map(|user| (user, STAR)).collect() }
    }

    fn put(&mut self) -> Call {
        let tenant = self.tenant().1;
        let mut users: Vec<(u16, u64)> = Vec::new();
        for _ in 0..self.chance.between(1, 3) {
            let user = self.chance.index(ACTIVE.into()) as u16;
            if users.iter().all(|(other, _)| *other != user) {
                let attribute = self.next_attribute();
                users.push((user, attribute));
            }
        }
        Call::PutUsers { tenant, users }
    }

    fn mark(&mut self, oracle: &Oracle, now: Millis) -> Call {
        let who = self.anybody();
        let known = oracle.seen_by(who);
        if known.is_empty() || self.chance.percent(30) {
            let all = [Mark::Read, Mark::Read, Mark::Seen, Mark::Archive, Mark::Unread, Mark::Unarchive];
            let mark = *self.chance.pick(&all).unwrap_or(&Mark::Read);
            let through = if self.chance.percent(40) { self.chance.pick(&known) } else { None };
            return Call::Mark {
                who,
                mark,
                target: Target::All { through: through.map(|(_, _, arrival)| *arrival) },
            };
        }
        let until = now.plus(self.chance.between(1, 30_000));
        let some = [
            Mark::Read,
            Mark::Read,
            Mark::Unread,
            Mark::Seen,
            Mark::Archive,
            Mark::Unarchive,
            Mark::Unarchive,
            Mark::Snooze { until },
            Mark::Unsnooze,
            Mark::Delete,
        ];
        let mark = *self.chance.pick(&some).unwrap_or(&Mark::Read);
        let count = self.chance.between(1, 4);
        let mut chosen: Vec<_> = (0..count)
            .filter_map(|_| self.chance.pick(&known))
            .map(|(post, event, _)| (*post, *event))
            .collect();
        if self.chance.percent(5) {
            // Somebody else's, or nobody's any more.
            chosen.extend(self.recent(oracle).and_then(|post| Some((post, oracle.event_of(post)?))));
        }
        Call::Mark { who, mark, target: Target::Some(chosen) }
    }

    fn note(&self, oracle: &mut Oracle) -> Call {
        let tenant = if self.chance.percent(30) { HOUSE } else { self.tenant().1 };
        Call::Note { tenant, note: oracle.write_note(tenant) }
    }

    fn poll(&self, oracle: &Oracle) -> Call {
        let who = self.anybody();
        Call::Poll { who, from: oracle.polled_through(who), limit: self.chance.index(8) + 1 }
    }
}
