//! What a tenant says about its categories, and about everybody who said nothing.
//!
//! Comes from: the category and default preference APIs, through the root, as one value that is replaced whole. Decides:
//! which policy holds for a category, and what a user's silence means ([`Defaults::under`]). Goes to: `plan` of the shards,
//! which writes down what it decided with it; no record is folded by a policy.
//!
//! What must never happen: a default that counts as consent, or that stands above what the user said.

mod fallback;
mod key;

pub use fallback::{Condition, Step};
pub use key::{KeyFault, KeyTemplate};

use crate::caps::Limit;
use crate::category::CategoryId;
use crate::channel_kind::{ChannelKind, ChannelSet};
use crate::digest::{Calendar, StormTerms, Terms};
use crate::gates::{self, Choice, Overflow, Profile};
use crate::ids::TenantId;
use crate::preference::{CategoryChoice, Preferences, Switch};
use crate::priority::Priority;
use crate::quiet::Days;
use crate::zone::ZoneNo;
use std::collections::BTreeMap;

/// Eight in the morning.
const MORNING_MINUTE: u16 = 8 * 60;

/// Everything about one category.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CategoryPolicy {
    /// Where users cannot switch it off.
    pub mandatory: ChannelSet,
    /// Where it is never sent.
    pub blocked: ChannelSet,
    /// What becomes of it when a user had enough.
    pub overflow: Overflow,
    /// The lane of what names none.
    pub priority: Option<Priority>,
    /// How it is collected; `None` if it is told one by one.
    pub digest: Option<Digest>,
    /// When so much comes that it is collected all the same; `None`: never.
    pub storm: Option<StormTerms>,
    /// For users who want it once a day or once a week.
    pub calendar: CalendarTimes,
    pub throttle: Option<Throttle>,
    /// In the order in which they are tried.
    pub fallback: Vec<Step>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digest {
    pub terms: Terms,
    /// What has the same key, for the same user, belongs together; `None`: all of the category.
    pub collapse_key: Option<KeyTemplate>,
}

/// When the digests of a day and of a week are due, on the user's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CalendarTimes {
    pub daily: Calendar,
    pub weekly: Calendar,
}

/// One of a kind, then none for so long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Throttle {
    pub per_seconds: u32,
    /// What is of one kind, for the same user; `None`: all of the category.
    pub key: Option<KeyTemplate>,
}

impl Default for CalendarTimes {
    fn default() -> Self {
        let monday = Days::from_bits(1).expect("Monday is a day");
        let at = |days| Calendar::new(MORNING_MINUTE, days).expect("eight is a time of day");
        Self { daily: at(Days::ALL), weekly: at(monday) }
    }
}

/// A category that nothing is said about.
impl Default for CategoryPolicy {
    fn default() -> Self {
        Self {
            mandatory: ChannelSet::EMPTY,
            blocked: ChannelSet::EMPTY,
            overflow: Overflow::Drop,
            priority: None,
            digest: None,
            storm: Some(StormTerms::USUAL),
            calendar: CalendarTimes::default(),
            throttle: None,
            fallback: Vec::new(),
        }
    }
}

impl CategoryPolicy {
    /// What the gates ask. `usual` is for users who have not chosen.
    #[must_use]
    pub fn gates(&self, usual: Choice) -> gates::Policy {
        let Self { mandatory, blocked, overflow, .. } = self;
        gates::Policy { mandatory: *mandatory, blocked: *blocked, overflow: *overflow, usual }
    }
}

/// What holds for users who have not said otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Defaults {
    pub preferences: Preferences,
}

/// Of what a user has spoken, whatever it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Said {
    pub everything: bool,
    pub quiet: bool,
    pub channels: ChannelSet,
}

impl Defaults {
    /// A user's profile, with these for all of which the user has not spoken. Consent has no default.
    #[must_use]
    pub fn under(&self, profile: Profile, said: Said) -> Profile {
        let Preferences { everything, quiet, channels, .. } = &self.preferences;
        let mut merged = profile;
        merged.global_off |= !said.everything && *everything == Switch::Off;
        let silent = channels.off().iter().filter(|kind| !said.channels.contains(*kind));
        merged.channels_off = silent.fold(profile.channels_off, ChannelSet::with);
        if let Some(quiet) = quiet.filter(|quiet| quiet.is_enabled && !said.quiet) {
            merged.quiet = Some(quiet.window);
            merged.zone = if quiet.zone == ZoneNo::NONE { profile.zone } else { quiet.zone };
        }
        merged
    }

    /// How much a user gets at most on a channel, with these for what the user left open.
    #[must_use]
    pub fn limit(&self, channel: ChannelKind, own: Limit) -> Limit {
        own.or(self.preferences.limits.get(&channel).copied().unwrap_or_default())
    }

    /// What a user chose for a category, with these for what the user left open.
    #[must_use]
    pub fn choice(&self, category: CategoryId, chosen: CategoryChoice) -> CategoryChoice {
        let mut usual = self.preferences.categories.iter();
        let usual = usual.find(|(name, _)| CategoryId::of(name) == category).map(|(_, usual)| *usual);
        let CategoryChoice { switch, channels, frequency } = usual.unwrap_or_default();
        CategoryChoice {
            switch: if chosen.switch == Switch::NotSaid { switch } else { chosen.switch },
            channels: chosen.channels.or(channels),
            frequency: chosen.frequency.or(frequency),
        }
    }
}

/// What one tenant says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TenantPolicies {
    pub defaults: Defaults,
    pub categories: BTreeMap<CategoryId, CategoryPolicy>,
}

/// What all tenants say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policies {
    tenants: BTreeMap<TenantId, TenantPolicies>,
    /// Categories that are not as all others though nobody says so.
    usual: BTreeMap<CategoryId, CategoryPolicy>,
    other: CategoryPolicy,
    nothing: Defaults,
}

impl Default for Policies {
    fn default() -> Self {
        Self::new(BTreeMap::new())
    }
}

impl Policies {
    #[must_use]
    pub fn new(tenants: BTreeMap<TenantId, TenantPolicies>) -> Self {
        let collected = |name: &&'static str| {
            let terms = Terms::of_category(name)?;
            let digest = Some(Digest { terms, collapse_key: None });
            Some((CategoryId::of(name), CategoryPolicy { digest, ..CategoryPolicy::default() }))
        };
        let usual = Terms::COLLECTED.iter().filter_map(collected).collect();
        Self { tenants, usual, other: CategoryPolicy::default(), nothing: Defaults::default() }
    }

    #[must_use]
    pub fn of(&self, tenant: TenantId, category: CategoryId) -> &CategoryPolicy {
        let said = self.tenants.get(&tenant).and_then(|tenant| tenant.categories.get(&category));
        said.or_else(|| self.usual.get(&category)).unwrap_or(&self.other)
    }

    /// What a tenant says itself, if it says anything.
    #[must_use]
    pub fn said(&self, tenant: TenantId, category: CategoryId) -> Option<&CategoryPolicy> {
        self.tenants.get(&tenant).and_then(|tenant| tenant.categories.get(&category))
    }

    #[must_use]
    pub fn defaults(&self, tenant: TenantId) -> &Defaults {
        self.tenants.get(&tenant).map_or(&self.nothing, |tenant| &tenant.defaults)
    }

    /// Whether something of a tenant may wait for a channel before it.
    #[must_use]
    pub fn has_fallback(&self, tenant: TenantId) -> bool {
        let own = self.tenants.get(&tenant);
        own.is_some_and(|own| own.categories.values().any(|policy| !policy.fallback.is_empty()))
    }

    /// The lane of something that names none.
    #[must_use]
    pub fn priority(&self, tenant: TenantId, category: &str) -> Priority {
        let said = self.of(tenant, CategoryId::of(category)).priority;
        said.unwrap_or_else(|| Priority::of_category(category))
    }
}

#[cfg(test)]
mod tests;
