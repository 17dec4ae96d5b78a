//! What the gates need of a user, in one word of eight bytes, so that a column holds it and nothing is decoded.
//!
//! ```text
//! bits  0..29  quiet window, 0 = none          bits 51..56  channels that are off
//! bits 29..41  zone, 0 = none known            bit  56      everything is off
//! bits 41..51  consent, 2 bits a channel       bit  57      there are choices about categories
//! bits 59..64  0                               bit  58      there are caps
//! ```
//! The word 0 is a user who has said nothing. What must never happen: a word of a later version that is read as less
//! than it says. Such a word is nobody's profile, and nothing is sent (PRF-09).

use crate::channel_kind::{ChannelKind, ChannelSet};
use crate::quiet::Window;
use crate::zone::ZoneNo;

const ZONE_AT: u32 = 29;
const CONSENT_AT: u32 = 41;
const CHANNELS_AT: u32 = 51;
const GLOBAL_AT: u32 = 56;
const CHOICES_AT: u32 = 57;
const CAPS_AT: u32 = 58;
const END: u32 = 59;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Profile {
    /// The user wants nothing at all.
    pub global_off: bool,
    /// Where the user wants nothing, whatever it is.
    pub channels_off: ChannelSet,
    pub consents: Consents,
    /// The window that is in force; one that is switched off is none.
    pub quiet: Option<Window>,
    pub zone: ZoneNo,
    /// Whether it is worth looking for a [`super::Choice`].
    pub has_choices: bool,
    /// Whether it is worth looking for caps.
    pub has_caps: bool,
}

impl Profile {
    #[must_use]
    pub fn to_word(&self) -> u64 {
        u64::from(self.quiet.map_or(0, Window::bits))
            | u64::from(self.zone.number()) << ZONE_AT
            | u64::from(self.consents.0) << CONSENT_AT
            | u64::from(self.channels_off.bits()) << CHANNELS_AT
            | u64::from(self.global_off) << GLOBAL_AT
            | u64::from(self.has_choices) << CHOICES_AT
            | u64::from(self.has_caps) << CAPS_AT
    }

    /// `None` if it cannot be read.
    #[must_use]
    pub fn from_stored(word: u64) -> Option<Self> {
        let field = |at: u32, end: u32| word >> at & ((1 << (end - at)) - 1);
        let bit = |at: u32| word >> at & 1 == 1;
        let quiet = match u32::try_from(field(0, ZONE_AT)).ok()? {
            0 => None,
            bits => Some(Window::from_stored(bits)?),
        };
        let profile = Self {
            global_off: bit(GLOBAL_AT),
            channels_off: ChannelSet::from_stored(u8::try_from(field(CHANNELS_AT, GLOBAL_AT)).ok()?),
            consents: Consents::from_stored(u16::try_from(field(CONSENT_AT, CHANNELS_AT)).ok()?)?,
            quiet,
            zone: ZoneNo::from_stored(u16::try_from(field(ZONE_AT, CONSENT_AT)).ok()?)?,
            has_choices: bit(CHOICES_AT),
            has_caps: bit(CAPS_AT),
        };
        (word >> END == 0).then_some(profile)
    }
}

/// What a user said about a channel. Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Consent {
    #[default]
    NotSaid = 0,
    Granted = 1,
    Withdrawn = 2,
}

impl Consent {
    /// In the order of their numbers.
    pub const ALL: [Self; 3] = [Self::NotSaid, Self::Granted, Self::Withdrawn];
}

/// What a user said about every channel: two bits each, by the number of the channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Consents(u16);

impl Consents {
    #[must_use]
    pub fn with(self, channel: ChannelKind, consent: Consent) -> Self {
        let at = 2 * channel as u16;
        Self(self.0 & !(3 << at) | (consent as u16) << at)
    }

    #[must_use]
    pub fn of(self, channel: ChannelKind) -> Consent {
        match self.0 >> (2 * channel as u16) & 3 {
            0 => Consent::NotSaid,
            1 => Consent::Granted,
            // The fourth number is never stored. Whoever finds it must not send.
            _ => Consent::Withdrawn,
        }
    }

    fn from_stored(bits: u16) -> Option<Self> {
        let has_fourth = bits & bits >> 1 & 0x155 != 0;
        (!has_fourth && bits < 1 << 10).then_some(Self(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quiet::{Days, Times};
    use proptest::prelude::*;

    fn full() -> Profile {
        let times = Times { start_minute: 1_320, end_minute: 420 };
        Profile {
            global_off: true,
            channels_off: [ChannelKind::Email, ChannelKind::Sms].into_iter().collect(),
            consents: Consents::default()
                .with(ChannelKind::Push, Consent::Granted)
                .with(ChannelKind::Sms, Consent::Withdrawn),
            quiet: Window::new(times, Days::ALL),
            zone: ZoneNo::find("Europe/Berlin").expect("a zone"),
            has_choices: true,
            has_caps: true,
        }
    }

    #[test]
    fn words_are_frozen() {
        assert_eq!(Profile::from_stored(0), Some(Profile::default()));
        assert_eq!(full().to_word(), 0x0761_0836_5FCD_2528);
        assert_eq!(Profile::from_stored(full().to_word()), Some(full()));
    }

    // proves: PRF-09
    #[test]
    fn words_of_a_later_version_are_nobodys() {
        let check = |word: u64| assert_eq!(Profile::from_stored(word), None, "{word:x}");
        for bit in END..64 {
            check(full().to_word() | 1 << bit);
        }
        check(1); // a window without days
        check(0x7F << 22 | 1_440);
        check(u64::from(ZoneNo::MAX) << ZONE_AT);
        for channel in ChannelKind::ALL {
            check(3 << (CONSENT_AT + 2 * channel as u32));
        }
    }

    #[test]
    fn consents_of_channels_are_apart() {
        for channel in ChannelKind::ALL {
            for consent in Consent::ALL {
                let consents = full().consents.with(channel, consent);
                assert_eq!(consents.of(channel), consent);
                for other in ChannelKind::ALL.into_iter().filter(|other| *other != channel) {
                    assert_eq!(consents.of(other), full().consents.of(other));
                }
            }
        }
    }

    proptest! {
        /// What can be read is written back the same, and nothing is lost on the way.
        #[test]
        fn words_are_read_as_they_were(word in any::<u64>(), zone in 0u64..599, days in 1u64..128, minutes in 0u64..1_440) {
            let window = minutes | (1_439 - minutes) << 11 | days << 22;
            let consents = word >> CONSENT_AT & 0x3FF;
            let mild = consents & !(consents >> 1 & 0x155);
            let word = window | zone << ZONE_AT | mild << CONSENT_AT | (word & 0xFF) << CHANNELS_AT;
            let profile = Profile::from_stored(word).expect("every field is valid");
            prop_assert_eq!(profile.to_word(), word);
        }

        #[test]
        fn any_word_is_read_or_refused(word in any::<u64>()) {
            if let Some(profile) = Profile::from_stored(word) {
                prop_assert_eq!(profile.to_word(), word);
            }
        }
    }
}
