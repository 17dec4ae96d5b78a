//! Fallback chains at work: which channels of an event wait for which, and what becomes of one that waits.
//!
//! ```text
//! push ─┬─ arrived, or the user has seen it ────────────► sms is not needed
//!       ├─ taken, nobody says that it arrived ── 30 s ──► sms
//!       ├─ still to be sent, or waits itself ───────────► sms waits on
//!       └─ failed, suppressed, nobody there ────────────► sms, now           … and the same again for email after sms
//! ```
//! Comes from: a category's policy and the channels of an event, frozen together when it is accepted; then from what the
//! ledgers say about one user by the channels before. Decides: whether a step is tried now, later, or not at all. Goes to:
//! verdicts of the shard, which every step meets before all other gates.
//!
//! What must never happen: a step for somebody whom a channel before it has reached, as far as the journal knows; a step that
//! takes silence for failure. A chain is about a user: whatever one device of a user says is true of the user.

use crate::attempt::State;
use crate::channel_kind::{ChannelKind, ChannelSet};
use crate::limits::FALLBACK_STEPS_MAX;
use crate::policy::{Condition, Step};

/// Stands for its turn.
pub const WAITING: &str = "fallback_waiting";

/// The steps of one event, in their order, and the channels that go before them all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Chain {
    at_once: ChannelSet,
    steps: [Option<Step>; FALLBACK_STEPS_MAX],
}

impl Chain {
    pub const NONE: Self = Self { at_once: ChannelSet::EMPTY, steps: [None; FALLBACK_STEPS_MAX] };

    /// What a category says, as far as an event goes by these channels.
    #[must_use]
    pub fn of(said: &[Step], channels: ChannelSet) -> Self {
        // The inbox has it from the beginning: it is neither waited for nor does it wait.
        let outward = channels.without(ChannelKind::InApp);
        let mut steps = [None; FALLBACK_STEPS_MAX];
        let in_event = said.iter().filter(|step| outward.contains(step.channel));
        steps.iter_mut().zip(in_event).for_each(|(place, step)| *place = Some(*step));
        let at_once = steps.iter().flatten().fold(outward, |set, step| set.without(step.channel));
        let chain = Self { at_once, steps };
        if chain.is_none() { Self::NONE } else { chain }
    }

    /// As it was stored.
    #[must_use]
    pub fn from_stored(at_once: ChannelSet, said: &[Step]) -> Option<Self> {
        let channels = said.iter().fold(at_once, |set, step| set.with(step.channel));
        let chain = Self::of(said, channels);
        (said.len() <= FALLBACK_STEPS_MAX && chain.at_once == at_once).then_some(chain)
    }

    #[must_use]
    pub fn is_none(self) -> bool {
        self.steps[0].is_none()
    }

    pub fn steps(self) -> impl Iterator<Item = Step> {
        self.steps.into_iter().flatten()
    }

    /// The channels that wait for nobody.
    #[must_use]
    pub fn at_once(self) -> ChannelSet {
        self.at_once
    }

    /// What a channel waits for, if it is a step.
    #[must_use]
    pub fn step(self, channel: ChannelKind) -> Option<Step> {
        self.steps().find(|step| step.channel == channel)
    }

    /// All channels that go before a step.
    #[must_use]
    pub fn before(self, channel: ChannelKind) -> ChannelSet {
        let earlier = self.steps().take_while(|step| step.channel != channel);
        earlier.fold(self.at_once, |set, step| set.with(step.channel))
    }

    /// Those that a step comes after: the step before it, or all that is sent at once.
    #[must_use]
    pub fn previous(self, channel: ChannelKind) -> ChannelSet {
        let earlier = self.steps().take_while(|step| step.channel != channel).last();
        earlier.map_or(self.at_once, |step| ChannelSet::EMPTY.with(step.channel))
    }

    /// The channels that wait for this one, in their order.
    pub fn behind(self, channel: ChannelKind) -> impl Iterator<Item = ChannelKind> {
        let is_step = self.step(channel).is_some();
        let mut is_behind = !is_step && self.at_once.contains(channel);
        self.steps().filter_map(move |step| {
            let told = is_behind.then_some(step.channel);
            is_behind |= step.channel == channel;
            told
        })
    }
}

/// What became of an event for one user by some channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// The user has seen it.
    pub is_seen: bool,
    /// It arrived.
    pub has_arrived: bool,
    /// The user hears of it in another way.
    pub is_elsewhere: bool,
    /// A provider has it.
    pub is_taken: bool,
    /// It may or may not have been sent.
    pub is_unknown: bool,
    /// It may still be sent.
    pub is_open: bool,
}

impl Told {
    /// What one delivery adds. `is_opened` comes with a receipt.
    #[must_use]
    pub fn and(mut self, state: State, code: &str, is_opened: bool) -> Self {
        match state {
            State::Planned | State::Intent | State::Deferred => self.is_open = true,
            State::Accepted => self.is_taken = true,
            State::Delivered => {
                (self.is_taken, self.has_arrived) = (true, true);
                self.is_seen |= is_opened;
            }
            // A digest tells of it, or something newer does.
            State::Folded | State::Superseded => self.is_elsewhere = true,
            // Why a step was not needed is true for those behind it.
            State::Suppressed => match Spared::parse(code) {
                Some(Spared::Seen) => self.is_seen = true,
                Some(Spared::Arrived | Spared::Sent) => self.has_arrived = true,
                Some(Spared::Elsewhere) => self.is_elsewhere = true,
                None => {}
            },
            State::Unknown => self.is_unknown = true,
            // Nobody will ever know whether what is unconfirmed arrived.
            State::Failed | State::Expired | State::Cancelled | State::Unconfirmed | State::Dead => {}
        }
        self
    }

    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            is_seen: self.is_seen || other.is_seen,
            has_arrived: self.has_arrived || other.has_arrived,
            is_elsewhere: self.is_elsewhere || other.is_elsewhere,
            is_taken: self.is_taken || other.is_taken,
            is_unknown: self.is_unknown || other.is_unknown,
            is_open: self.is_open || other.is_open,
        }
    }
}

/// What is known before a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Before {
    /// By all channels that go before it.
    pub all: Told,
    /// By those that it comes after.
    pub previous: Told,
}

/// What becomes of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It is not needed.
    Spared(Spared),
    /// Nobody can say yet.
    Waits,
    /// After so long, if nothing else is known by then.
    After {
        ms: u64,
        cause: Cause,
    },
    Now(Cause),
}

/// Why a step is tried. Frozen words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    NoReceipt,
    NotSeen,
    Failed,
}

/// Why a step is not needed. Frozen words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spared {
    /// It arrived by a channel before.
    Arrived,
    /// The user has seen it.
    Seen,
    /// The channel before has taken it, and it did not fail.
    Sent,
    /// A digest, or something newer, tells of it.
    Elsewhere,
}

impl Cause {
    pub const ALL: [Self; 3] = [Self::NoReceipt, Self::NotSeen, Self::Failed];

    /// As status, explain and metrics say it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NoReceipt => "fallback_no_receipt",
            Self::NotSeen => "fallback_not_seen",
            Self::Failed => "fallback_failed",
        }
    }

    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.word() == word)
    }
}

impl Spared {
    pub const ALL: [Self; 4] = [Self::Arrived, Self::Seen, Self::Sent, Self::Elsewhere];

    /// As status, explain and metrics say it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Arrived => "fallback_arrived",
            Self::Seen => "fallback_seen",
            Self::Sent => "fallback_sent",
            Self::Elsewhere => "fallback_elsewhere",
        }
    }

    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|spared| spared.word() == word)
    }
}

/// What becomes of a step, as far as deliveries tell. Whether the user has seen it in the inbox is asked when it is to be
/// tried: see [`Spared::Seen`].
#[must_use]
pub fn judge(step: Step, before: &Before) -> Turn {
    let Before { all, previous } = before;
    if all.is_seen {
        return Turn::Spared(Spared::Seen);
    }
    if all.is_elsewhere {
        return Turn::Spared(Spared::Elsewhere);
    }
    let after = |cause| Turn::After { ms: u64::from(step.after_seconds) * 1_000, cause };
    let is_under_way = previous.is_taken || previous.is_unknown;
    match step.when {
        Condition::NoReceipt | Condition::Failed if all.has_arrived => Turn::Spared(Spared::Arrived),
        Condition::NoReceipt if is_under_way => after(Cause::NoReceipt),
        Condition::NotSeen if is_under_way => after(Cause::NotSeen),
        // It may bounce yet.
        Condition::Failed if is_under_way => Turn::Waits,
        _ if previous.is_open => Turn::Waits,
        // The inbox has it, whatever became of the others.
        Condition::NotSeen => after(Cause::NotSeen),
        Condition::NoReceipt | Condition::Failed => Turn::Now(Cause::Failed),
    }
}

/// What becomes of a step whose time to live is over while it waits; `None`: it has expired.
#[must_use]
pub fn judge_at_end(before: &Before) -> Option<Spared> {
    let Before { all, previous } = before;
    let known = [
        (all.is_seen, Spared::Seen),
        (all.is_elsewhere, Spared::Elsewhere),
        (all.has_arrived, Spared::Arrived),
        (previous.is_taken, Spared::Sent),
    ];
    known.into_iter().find(|(is_so, _)| *is_so).map(|(_, spared)| spared)
}

#[cfg(test)]
mod tests;
