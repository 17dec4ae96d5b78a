//! What is to happen later, what is called off by a key, what is said about messages afterwards; messages to addresses that are
//! nobody's, and walks to everybody.

use super::Workload;
use crate::call::{Audience, Call, CancellationNo, Later, Post, Stranger};
use crate::oracle::{Oracle, Told};
use crate::provider::KINDS;
use fantail_node::ask::{ChannelKind, ChannelSet, Outcome};
use fantail_node::bulk::{Pace, Steer};

/// Few, so that many events share one.
const CANCELLATIONS: usize = 3;
/// Addresses that are nobody's, by channel.
const STRANGERS: usize = 4;
/// How many of the last walks are steered.
const WALKS_STEERED: usize = 4;
/// How far ahead is scheduled: from what is due before the answer to what outlives several crashes.
const AHEAD_MS: (u64, u64) = (1, 60_000);

impl Workload {
    /// When a post is to be sent, and how it can be called off.
    pub(super) fn later(&self) -> Later {
        let is_scheduled = self.swarm.schedules && self.chance.percent(20);
        let has_key = self.swarm.cancellation_keys && self.chance.percent(25);
        Later {
            due: is_scheduled.then(|| self.now.plus(self.chance.between(AHEAD_MS.0, AHEAD_MS.1))),
            cancellation: has_key.then(|| self.cancellation()),
        }
    }

    pub(super) fn cancellation(&self) -> CancellationNo {
        self.chance.index(CANCELLATIONS) as CancellationNo
    }

    /// All that there are.
    pub fn strangers(&self) -> impl Iterator<Item = Stranger> {
        let tenants = self.tenants.iter().copied();
        let kinds = tenants.flat_map(|tenant| KINDS.into_iter().map(move |kind| (tenant, kind)));
        kinds.flat_map(|(tenant, kind)| (0..STRANGERS as u8).map(move |no| Stranger { tenant, kind, no }))
    }

    pub(super) fn stranger(&self) -> Stranger {
        let kind = *self.chance.pick(&KINDS).unwrap_or(&ChannelKind::Push);
        Stranger { tenant: self.tenant().1, kind, no: self.chance.index(STRANGERS) as u8 }
    }

    /// A notification to addresses that are nobody's.
    pub(super) fn notify(&mut self, oracle: &mut Oracle) -> Call {
        let Stranger { tenant, kind, no } = self.stranger();
        let index = self.tenants.iter().position(|one| *one == tenant).unwrap_or(0);
        let count = self.chance.between(1, 3) as u8;
        let strangers = (no..no + count).map(|no| Stranger { tenant, kind, no: no % STRANGERS as u8 });
        self.keys[index] += 1;
        let post = Post {
            tenant,
            key: self.keys[index],
            body: 0,
            actor: None,
            audience: Audience::Strangers(strangers.collect()),
            channels: ChannelSet::EMPTY.with(kind),
            priority: self.leaves().1,
            later: self.later(),
            by_template: false,
        };
        Call::Post { tenant, posts: vec![(oracle.write_down(post.clone()), post)] }
    }

    /// A walk begins, or one of the last is steered.
    pub(super) fn walk(&mut self, oracle: &mut Oracle) -> Call {
        if self.chance.percent(45) { self.everyone(oracle) } else { self.steer(oracle) }
    }

    /// Something for everybody there is.
    fn everyone(&mut self, oracle: &mut Oracle) -> Call {
        let (index, tenant) = self.tenant();
        self.keys[index] += 1;
        let (channels, priority) = self.leaves();
        // A bulk send has some way to everybody.
        let channels = if channels.is_empty() { channels.with(ChannelKind::InApp) } else { channels };
        let post = Post {
            tenant,
            key: self.keys[index],
            body: 0,
            actor: None,
            audience: Audience::Everyone,
            channels,
            priority,
            later: self.later(),
            by_template: false,
        };
        Call::Post { tenant, posts: vec![(oracle.write_down(post.clone()), post)] }
    }

    /// A walk is paused, goes on, or has another pace; now and then one of another tenant.
    fn steer(&mut self, oracle: &mut Oracle) -> Call {
        let walks = oracle.walks();
        let recent = &walks[walks.len().saturating_sub(WALKS_STEERED)..];
        let Some((tenant, event)) = self.chance.pick(recent).copied() else { return self.everyone(oracle) };
        let tenant = if self.chance.percent(5) { self.tenant().1 } else { tenant };
        let pace = Pace::PerSecond(self.chance.between(5, 200) as u32);
        let all = [Steer::Pause, Steer::Resume, Steer::Pace(pace), Steer::Pace(Pace::Over(2_000))];
        Call::Steer { tenant, event, steer: *self.chance.pick(&all).unwrap_or(&Steer::Resume) }
    }

    /// What became of a message, now and then said of another tenant's, or of one that never was.
    pub(super) fn receipt(&mut self, oracle: &mut Oracle) -> Call {
        let Some(told) = self.chance.pick(oracle.told()).cloned() else { return self.post(oracle) };
        let Told { tenant, reference, owner } = told;
        // An address that bounces is suppressed; of tokens that go from hand to hand, calls of their own say that.
        let outcomes = [
            Outcome::Delivered,
            Outcome::Delivered,
            Outcome::Opened,
            Outcome::Clicked,
            Outcome::Failed,
            Outcome::Bounced,
            Outcome::Complained,
        ];
        let few = if owner.is_some() { outcomes.len() } else { 5 };
        let outcome = outcomes[self.chance.index(few)];
        match self.chance.weighted(&[85, 10, 5]) {
            0 => Call::Receipt { tenant, reference, outcome, is_own: true, owner },
            1 => {
                let other = self.tenant().1;
                let is_own = other == tenant;
                Call::Receipt { tenant: other, reference, outcome, is_own, owner }
            }
            _ => {
                let reference = format!("{reference}x");
                Call::Receipt { tenant, reference, outcome, is_own: false, owner: None }
            }
        }
    }
}
