//! What is to happen later, what is called off by a key, and what is said about messages afterwards.

use super::Workload;
use crate::call::{Call, CancellationNo, Later};
use crate::oracle::{Oracle, Told};
use fantail_node::ask::Outcome;

/// Few, so that many events share one.
const CANCELLATIONS: usize = 3;
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
