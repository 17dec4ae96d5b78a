//! What people say about being told: switches, quiet hours, how much at most, and consent.
//!
//! Comes from: the preference and consent APIs, validated. Decides: what kind of change it is, for the history. Goes to:
//! the user's row, and from there, a few bits of it, to the column that gates read. What nobody said anything about is
//! left to the tenant. What must never happen: silence that counts as consent to push.

use crate::caps::Limit;
use crate::channel_kind::{ChannelKind, ChannelSet};
use crate::quiet::Window;
use crate::zone::ZoneNo;
use std::collections::BTreeMap;

/// Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Switch {
    #[default]
    NotSaid = 0,
    On = 1,
    Off = 2,
}

impl Switch {
    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        [Self::NotSaid, Self::On, Self::Off].get(usize::from(number)).copied()
    }

    #[must_use]
    pub fn of(said: Option<bool>) -> Self {
        match said {
            None => Self::NotSaid,
            Some(true) => Self::On,
            Some(false) => Self::Off,
        }
    }

    #[must_use]
    pub fn said(self) -> Option<bool> {
        match self {
            Self::NotSaid => None,
            Self::On => Some(true),
            Self::Off => Some(false),
        }
    }
}

/// Everything that a user said about being told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Preferences {
    pub everything: Switch,
    pub quiet: Option<Quiet>,
    pub channels: Switches,
    /// How much at most, where that was said.
    pub limits: BTreeMap<ChannelKind, Limit>,
    /// By the name of the category.
    pub categories: BTreeMap<String, CategoryChoice>,
}

/// Quiet hours, as they were said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quiet {
    pub is_enabled: bool,
    pub window: Window,
    /// [`ZoneNo::NONE`]: that of the profile.
    pub zone: ZoneNo,
}

/// A switch for every channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Switches {
    on: ChannelSet,
    off: ChannelSet,
}

impl Switches {
    #[must_use]
    pub fn with(self, channel: ChannelKind, switch: Switch) -> Self {
        let Self { on, off } = self;
        let (on, off) = (on.without(channel), off.without(channel));
        match switch {
            Switch::NotSaid => Self { on, off },
            Switch::On => Self { on: on.with(channel), off },
            Switch::Off => Self { on, off: off.with(channel) },
        }
    }

    #[must_use]
    pub fn of(self, channel: ChannelKind) -> Switch {
        match (self.on.contains(channel), self.off.contains(channel)) {
            (true, _) => Switch::On,
            (false, true) => Switch::Off,
            (false, false) => Switch::NotSaid,
        }
    }

    #[must_use]
    pub fn off(self) -> ChannelSet {
        self.off
    }

    #[must_use]
    pub fn on(self) -> ChannelSet {
        self.on
    }
}

/// What was said about one category.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CategoryChoice {
    pub switch: Switch,
    /// The channels for this category, whatever is said about channels elsewhere.
    pub channels: Option<ChannelSet>,
}

/// What a change was, as the history says it. Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ChangeKind {
    OptIn = 1,
    OptOut = 2,
    Update = 3,
}

impl ChangeKind {
    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        [Self::OptIn, Self::OptOut, Self::Update].into_iter().find(|kind| *kind as u8 == number)
    }

    /// As the API says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OptIn => "opt_in",
            Self::OptOut => "opt_out",
            Self::Update => "update",
        }
    }

    /// Whoever switches anything off opts out, even if something else is switched on by the same change.
    #[must_use]
    pub fn of(before: &Preferences, after: &Preferences) -> Self {
        let (was, is) = (Allowed::of(before), Allowed::of(after));
        match (was.is_within(&is), is.is_within(&was)) {
            (true, true) => Self::Update,
            (true, false) => Self::OptIn,
            (false, _) => Self::OptOut,
        }
    }
}

/// What may be sent, category by category.
struct Allowed {
    elsewhere: ChannelSet,
    categories: BTreeMap<String, ChannelSet>,
}

impl Allowed {
    fn of(preferences: &Preferences) -> Self {
        let by_channel =
            ChannelKind::ALL.into_iter().filter(|kind| preferences.channels.of(*kind) != Switch::Off);
        let by_channel: ChannelSet = by_channel.collect();
        let is_on = preferences.everything != Switch::Off;
        let of_category = |choice: &CategoryChoice| match choice.switch {
            Switch::Off => ChannelSet::EMPTY,
            Switch::On | Switch::NotSaid => choice.channels.unwrap_or(by_channel),
        };
        let categories = preferences.categories.iter().filter(|_| is_on);
        Self {
            elsewhere: if is_on { by_channel } else { ChannelSet::EMPTY },
            categories: categories.map(|(name, choice)| (name.clone(), of_category(choice))).collect(),
        }
    }

    /// Whether everything that is allowed here is allowed there too.
    fn is_within(&self, other: &Self) -> bool {
        let names = self.categories.keys().chain(other.categories.keys());
        let within = |some: ChannelSet, all: ChannelSet| some.iter().all(|kind| all.contains(kind));
        let in_category = |name: &String| {
            let of = |allowed: &Self| allowed.categories.get(name).copied().unwrap_or(allowed.elsewhere);
            within(of(self), of(other))
        };
        within(self.elsewhere, other.elsewhere) && names.into_iter().all(in_category)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preferences(
        everything: Switch,
        off: &[ChannelKind],
        categories: &[(&str, Option<&[ChannelKind]>)],
    ) -> Preferences {
        let channels = off.iter().fold(Switches::default(), |all, kind| all.with(*kind, Switch::Off));
        let choice = |channels: Option<&[ChannelKind]>| CategoryChoice {
            switch: if channels.is_none() { Switch::Off } else { Switch::NotSaid },
            channels: channels.map(|kinds| kinds.iter().copied().collect()),
        };
        let categories = categories.iter().map(|(name, channels)| ((*name).to_owned(), choice(*channels)));
        Preferences { everything, channels, categories: categories.collect(), ..Preferences::default() }
    }

    // proves: PRF-06
    #[test]
    fn whoever_switches_anything_off_opts_out() {
        use ChannelKind::{Email, Push};
        use Switch::{NotSaid, Off, On};
        let plain = || preferences(NotSaid, &[], &[]);
        let cases = [
            (plain(), plain(), ChangeKind::Update),
            (plain(), preferences(On, &[], &[]), ChangeKind::Update),
            (plain(), preferences(Off, &[], &[]), ChangeKind::OptOut),
            (preferences(Off, &[], &[]), plain(), ChangeKind::OptIn),
            (plain(), preferences(NotSaid, &[Email], &[]), ChangeKind::OptOut),
            (preferences(NotSaid, &[Email], &[]), preferences(NotSaid, &[Push], &[]), ChangeKind::OptOut),
            (preferences(NotSaid, &[Email], &[]), plain(), ChangeKind::OptIn),
            (plain(), preferences(NotSaid, &[], &[("likes", None)]), ChangeKind::OptOut),
            (plain(), preferences(NotSaid, &[], &[("likes", Some(&[Push]))]), ChangeKind::OptOut),
            (
                preferences(NotSaid, &[Email], &[]),
                preferences(NotSaid, &[Email], &[("likes", Some(&ChannelKind::ALL))]),
                ChangeKind::OptIn,
            ),
            (preferences(Off, &[], &[]), preferences(Off, &[Email], &[("likes", None)]), ChangeKind::Update),
        ];
        for (before, after, kind) in cases {
            assert_eq!(ChangeKind::of(&before, &after), kind, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_switch_is_on_or_off_or_was_not_touched() {
        let mut switches = Switches::default();
        for switch in [Switch::On, Switch::Off, Switch::NotSaid] {
            switches = switches.with(ChannelKind::Sms, switch);
            assert_eq!(
                (switches.of(ChannelKind::Sms), switches.of(ChannelKind::Push)),
                (switch, Switch::NotSaid)
            );
            assert_eq!(Switch::from_stored(switch as u8), Some(switch));
            assert_eq!(Switch::of(switch.said()), switch);
        }
    }
}
