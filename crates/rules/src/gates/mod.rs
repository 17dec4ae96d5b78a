//! The gates: whether, when and how one delivery may interrupt one person.
//!
//! Comes from: a parcel that is planned, member by member, after what is cancelled, expired or suppressed by its address
//! is out. Decides, in the order of DEL-21: [`consent`], [`preference`], [`appointment`], [`quiet_hours`], [`frequency`]
//! (throttles, caps, then calendar digests); the first gate that objects has the last word. Goes to: the `Intend` record, as one verdict for each member.
//!
//! What must never happen: a send without the consent that its channel needs, however critical; a send for a profile that
//! cannot be read. Nothing is counted here: a deferred member consumes nothing, and on release all gates are asked again.
//! Not here: windows of digests (`digest`) and which channel comes next.

pub mod appointment;
pub mod consent;
pub mod frequency;
pub mod preference;
pub mod quiet_hours;

mod profile;
mod verdict;

#[cfg(test)]
mod model;

pub use profile::{Consent, Consents, Profile};
pub use verdict::{Fold, Reason, Verdict};

use crate::caps::{Caps, Pace, Used, When};
use crate::channel_kind::{ChannelKind, ChannelSet};
use crate::ids::Millis;
use crate::priority::Priority;
use crate::schedule::Appointment;
use crate::wall::Clocks;

/// What is to be sent: the same for a whole parcel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    pub channel: ChannelKind,
    pub lane: Priority,
    /// Advertising needs more consent than news.
    pub is_marketing: bool,
    /// Of the category.
    pub policy: Policy,
    /// What the tenant sends to one user on this channel at most.
    pub pace: Option<Pace>,
    /// When its producer wants it to be told.
    pub appointment: Option<Appointment>,
}

impl Ask {
    /// Something usual on this channel.
    #[must_use]
    pub fn new(channel: ChannelKind) -> Self {
        let policy = Policy::default();
        let lane = Priority::Normal;
        Self { channel, lane, is_marketing: false, policy, pace: None, appointment: None }
    }

    #[must_use]
    pub fn is_critical(&self) -> bool {
        self.lane == Priority::Critical
    }

    /// The inbox waits to be looked at.
    #[must_use]
    pub fn interrupts(&self) -> bool {
        self.channel != ChannelKind::InApp
    }
}

/// What a tenant says about one category.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// Where users cannot switch it off. Consent, quiet hours and caps are theirs all the same.
    pub mandatory: ChannelSet,
    /// Where it is never sent, not even if it is critical or mandatory.
    pub blocked: ChannelSet,
    /// What becomes of it when a user had enough.
    pub overflow: Overflow,
    /// For users who have not chosen.
    pub usual: Choice,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overflow {
    #[default]
    Drop,
    Fold,
}

/// What a user chose for one category.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    pub is_off: bool,
    /// If there is a list, it stands in place of the channels' own switches.
    pub channels: Option<ChannelSet>,
    pub frequency: Frequency,
}

/// How often a user wants to hear of a category. Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Frequency {
    #[default]
    Immediate = 0,
    Daily = 1,
    Weekly = 2,
}

impl Frequency {
    /// In the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Immediate, Self::Daily, Self::Weekly];

    /// As requests and answers say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Immediate => "immediate",
            Self::Daily => "daily_digest",
            Self::Weekly => "weekly_digest",
        }
    }

    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|frequency| frequency.name() == name)
    }

    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Who it is for, and what that person got on this channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Person {
    /// `None` if it cannot be read.
    pub profile: Option<Profile>,
    /// Of the category that is asked about; `None` if the user has not chosen.
    pub choice: Option<Choice>,
    pub caps: Caps,
    pub used: Used,
    /// When its appointment is on this person's clock; 0 if there is none.
    pub from: Millis,
    /// This person got one of its kind a moment ago.
    pub is_throttled: bool,
}

/// Somebody who has said nothing and got nothing.
impl Default for Person {
    fn default() -> Self {
        Self {
            profile: Some(Profile::default()),
            choice: None,
            caps: Caps::default(),
            used: Used::default(),
            from: Millis(0),
            is_throttled: false,
        }
    }
}

/// Asks one gate after the other. `clocks` says what time it is, everywhere.
#[must_use]
pub fn decide(ask: &Ask, person: &Person, clocks: &mut Clocks) -> Verdict {
    let Some(profile) = &person.profile else {
        return Verdict::Defer { until: None, reason: Reason::ProfileUnresolved };
    };
    let choice = person.choice.as_ref().unwrap_or(&ask.policy.usual);
    let now = clocks.now();
    let objection = consent::check(ask, profile)
        .or_else(|| preference::check(ask, profile, choice))
        .or_else(|| appointment::check(ask, person, now));
    if let Some(objection) = objection {
        return objection;
    }
    if ask.is_critical() {
        return Verdict::Allow;
    }
    let local = clocks.local(profile.zone);
    quiet_hours::check(ask, profile, local)
        .or_else(|| frequency::check_throttle(ask, person))
        .or_else(|| frequency::check(ask, person, When::new(now, local)))
        .or_else(|| frequency::check_digest(ask, choice))
        .unwrap_or(Verdict::Allow)
}
