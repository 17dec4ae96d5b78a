//! A broken invariant, by its number in the list of invariants, and how to see it again.

use crate::knobs::Draw;
use thiserror::Error;

/// What must never happen, with the numbers of the reliability reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invariant {
    /// 1: every delivery has one end, and whoever was to have one has.
    Terminal = 1,
    /// 2: acknowledged survives; unacknowledged exists whole or not at all.
    Survives = 2,
    /// 3: nothing is pushed to whoever has not agreed, or not any more.
    Consent = 3,
    /// 4: nobody gets more than wanted, except what is critical, which counts.
    Limits = 4,
    /// 5: no more copies than were counted, and one at most of what nobody waits for.
    Copies = 5,
    /// 6: what is told as accepted was taken in, what is told as not sent was not.
    NoPhantom = 6,
    /// 7: no call of a provider without a durable Intent of its own.
    FailClosed = 7,
    /// 8: a delivery is in one parcel, and only what is under way is changed by answers.
    OneLife = 8,
    /// 9: what an author says is shown in the order it was accepted.
    AuthorOrder = 9,
    /// 10 and 11: exactly the events inside the follow intervals, once, whatever their tier.
    ExactlyOnce = 10,
    /// 12: paging shows everything once.
    Paging = 12,
    /// 13: unread and unseen equal a recount.
    Counts = 13,
    /// 14: nothing crosses tenants.
    Tenants = 14,
    /// 19: nothing is sent that was called off before.
    CalledOff = 19,
    /// 24: nothing is sent to an endpoint that is known to be dead.
    Endpoints = 24,
    /// 28: one accept per key and body.
    Idempotency = 28,
    /// 29: nothing is sent after its time.
    TimeToLive = 29,
    /// 31: an address belongs to one user at a time, and gates see it so.
    OneOwner = 31,
    /// 32: what was planned has ended or is in flight; counters equal a scan, and both equal the journal.
    Conservation = 32,
    /// 34: after healing everything drains.
    Drains = 34,
    /// Replicas at equal positions have equal tables.
    Replicas = 100,
    /// The node serves as long as its journal does, and starts again after any crash.
    Serves = 101,
    /// The audit log tells everything once, in chains without a break.
    Audit = 103,
    /// A wall clock that jumps is not followed.
    Time = 102,
    /// First attempts of one user in one lane and channel start in order.
    StartOrder = 104,
    /// A clean stop leaves no delivery unknown.
    CleanStop = 106,
    /// What is kept about deliveries is gone when its guard is over.
    Swept = 107,
    /// What waits in memory is bounded in bytes.
    Bounded = 108,
    /// A channel that waits for others is tried if they did not reach the user, and not before that is known.
    Chains = 105,
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("invariant {} ({invariant:?}): {what}", *invariant as u8)]
pub struct Broken {
    pub invariant: Invariant,
    pub what: String,
}

impl Invariant {
    pub fn broken<T>(self, what: String) -> Result<T, Broken> {
        Err(Broken { invariant: self, what })
    }

    /// Holds if `so`.
    pub fn holds(self, so: bool, what: impl FnOnce() -> String) -> Result<(), Broken> {
        if so { Ok(()) } else { self.broken(what()) }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "seed {seed}, step {step}: {broken}\nsee it again: cargo run -p fantail-sim -- --seed {seed}{}",
    draw.argument()
)]
pub struct Violation {
    pub seed: u64,
    pub draw: Draw,
    pub step: u64,
    pub broken: Broken,
}
