//! What the gates say about one delivery, and why, in words that producers and users are told.

use crate::ids::Millis;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// May be sent now.
    Allow,
    /// Is not sent, now or later.
    Suppress(Reason),
    /// Is not sent now. All gates are asked again then, and as soon as the profile changes; without a known end only
    /// when the profile changes. The time to live may end first.
    Defer { until: Option<Millis>, reason: Reason },
    /// Is told in a digest instead.
    Fold(Fold),
}

/// Why something is not sent now. Frozen numbers and words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Reason {
    /// The user has not agreed to this channel, or not any more.
    NoConsent = 1,
    /// The tenant does not send this category there.
    ChannelBlocked = 2,
    /// The user wants nothing at all.
    GlobalOff = 3,
    /// The user does not want this category.
    CategoryOff = 4,
    /// The user wants this category on other channels.
    CategoryChannelOff = 5,
    /// The user wants nothing on this channel.
    ChannelOff = 6,
    /// The user's quiet window is in force.
    QuietHours = 7,
    /// The user has a quiet window, and nobody knows in which zone.
    QuietHoursNoZone = 8,
    /// The user had enough on this channel for this hour or day.
    FrequencyCapped = 9,
    /// What the user wants cannot be read.
    ProfileUnresolved = 10,
    /// It is to be told at a time that the user's clock has not shown yet.
    LocalTime = 11,
    /// It is to be told at certain hours of the user's day only.
    OffPeak = 12,
    /// The user got one of its kind a moment ago.
    Throttled = 13,
    /// The endpoint's address is still being claimed.
    EndpointPending = 14,
}

impl Reason {
    /// In the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::NoConsent,
        Self::ChannelBlocked,
        Self::GlobalOff,
        Self::CategoryOff,
        Self::CategoryChannelOff,
        Self::ChannelOff,
        Self::QuietHours,
        Self::QuietHoursNoZone,
        Self::FrequencyCapped,
        Self::ProfileUnresolved,
        Self::LocalTime,
        Self::OffPeak,
        Self::Throttled,
        Self::EndpointPending,
    ];

    /// As status, explain and metrics say it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NoConsent => "no_consent",
            Self::ChannelBlocked => "channel_blocked",
            Self::GlobalOff => "global_off",
            Self::CategoryOff => "category_off",
            Self::CategoryChannelOff => "category_channel_off",
            Self::ChannelOff => "channel_off",
            Self::QuietHours => "quiet_hours",
            Self::QuietHoursNoZone => "quiet_hours_no_zone",
            Self::FrequencyCapped => "frequency_capped",
            Self::ProfileUnresolved => "profile_unresolved",
            Self::LocalTime => "local_time",
            Self::OffPeak => "off_peak",
            Self::Throttled => "throttled",
            Self::EndpointPending => "endpoint_pending",
        }
    }

    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.word() == word)
    }

    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == number)
    }
}

/// Which digest takes it. Frozen numbers and words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fold {
    /// The user had enough for now, and the category's overflow is collected.
    Capped = 1,
    /// The user wants this category once a day.
    Daily = 2,
    /// The user wants this category once a week.
    Weekly = 3,
}

impl Fold {
    /// In the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Capped, Self::Daily, Self::Weekly];

    /// As status, explain and metrics say it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Capped => Reason::FrequencyCapped.word(),
            Self::Daily => "daily_digest",
            Self::Weekly => "weekly_digest",
        }
    }

    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|fold| *fold as u8 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: PRF-04
    #[test]
    fn numbers_and_words_are_frozen() {
        let words = [
            "no_consent",
            "channel_blocked",
            "global_off",
            "category_off",
            "category_channel_off",
            "channel_off",
            "quiet_hours",
            "quiet_hours_no_zone",
            "frequency_capped",
            "profile_unresolved",
            "local_time",
            "off_peak",
            "throttled",
            "endpoint_pending",
        ];
        assert_eq!(words.len(), Reason::ALL.len());
        for (number, word) in (1..).zip(words) {
            assert_eq!(Reason::from_stored(number), Reason::parse(word), "{word}");
            assert_eq!(Reason::parse(word).map(|reason| reason as u8), Some(number));
        }
        assert_eq!((Reason::from_stored(0), Reason::from_stored(15), Reason::parse("")), (None, None, None));
        for (number, word) in (1..).zip(["frequency_capped", "daily_digest", "weekly_digest"]) {
            assert_eq!(Fold::from_stored(number).map(Fold::word), Some(word));
        }
        assert_eq!((Fold::from_stored(0), Fold::from_stored(4)), (None, None));
    }
}
