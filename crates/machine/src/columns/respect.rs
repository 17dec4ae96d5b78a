//! What one user wants, as far as gates ask for it of everybody.
//!
//! ```text
//! profile: u64 little-endian (see `rules::gates::Profile`); consented: u32; categories: u16; flags: u16
//! consented  = the revision of what the user said last about consent, on whichever channel
//! categories = the bits of those about which something was said; what it was is in the user's row
//! flags      = bit 0: the zone was said with the window, and is not that of the profile;
//!              bit 1: something may wait at a gate until the user wants something else;
//!              bits 2 to 6: channels that the user switched on; bit 7: said whether anything at all is wanted;
//!              bit 8: said something about quiet hours
//! ```

use crate::tables::respect::RespectRow;
use fantail_rules::category::CategoryId;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::gates::{Consent, Consents, Profile};
use fantail_rules::policy::Said;
use fantail_rules::preference::Switch;
use fantail_rules::zone::ZoneNo;

pub const WIDTH: usize = 16;
const OWN_ZONE: u16 = 1;
const WAITS: u16 = 2;
const ON_AT: u32 = 2;
const SAID_EVERYTHING: u16 = 1 << 7;
const SAID_QUIET: u16 = 1 << 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Respect {
    word: u64,
    consented: u32,
    categories: u16,
    flags: u16,
}

impl Respect {
    #[must_use]
    pub fn of(row: &RespectRow, profile_zone: ZoneNo) -> Self {
        let preferences = &row.preferences;
        let quiet = preferences.quiet.filter(|quiet| quiet.is_enabled);
        let own_zone = quiet.map(|quiet| quiet.zone).filter(|zone| *zone != ZoneNo::NONE);
        let consents = ChannelKind::ALL
            .into_iter()
            .fold(Consents::default(), |consents, kind| consents.with(kind, said(row, kind)));
        let profile = Profile {
            global_off: preferences.everything == Switch::Off,
            channels_off: preferences.channels.off(),
            consents,
            quiet: quiet.map(|quiet| quiet.window),
            zone: own_zone.unwrap_or(profile_zone),
            has_choices: !preferences.categories.is_empty(),
            has_caps: !preferences.limits.is_empty(),
        };
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        Self {
            word: profile.to_word(),
            consented: row.consents.iter().map(|one| one.revision).max().unwrap_or_default(),
            categories: preferences.categories.keys().fold(0, |all, name| all | CategoryId::of(name).bit()),
            flags: flag(own_zone.is_some(), OWN_ZONE)
                | u16::from(preferences.channels.on().bits()) << ON_AT
                | flag(preferences.everything != Switch::NotSaid, SAID_EVERYTHING)
                | flag(preferences.quiet.is_some(), SAID_QUIET),
        }
    }

    /// The zone of the profile counts unless the window has its own.
    #[must_use]
    pub fn with_profile_zone(self, zone: ZoneNo) -> Self {
        match self.profile() {
            Some(profile) if self.flags & OWN_ZONE == 0 => {
                Self { word: Profile { zone, ..profile }.to_word(), ..self }
            }
            Some(_) | None => self,
        }
    }

    /// `None` if it cannot be read: then nothing is sent.
    #[must_use]
    pub fn profile(&self) -> Option<Profile> {
        Profile::from_stored(self.word)
    }

    /// Of what the user has spoken: the tenant's defaults are for the rest.
    #[must_use]
    pub fn said(&self) -> Said {
        let on = ChannelSet::from_stored((self.flags >> ON_AT & 0x1F) as u8);
        let off = self.profile().map_or(ChannelSet::EMPTY, |profile| profile.channels_off);
        Said {
            everything: self.flags & SAID_EVERYTHING != 0,
            quiet: self.flags & SAID_QUIET != 0,
            channels: off.iter().fold(on, ChannelSet::with),
        }
    }

    /// Something may have been said about this category. If not, nothing was.
    #[must_use]
    pub fn may_speak_of(&self, category: CategoryId) -> bool {
        self.categories & category.bit() != 0
    }

    /// Deliveries may wait that have no row in `tables::waiting`: they began to wait before there was that index.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.flags & WAITS != 0
    }

    #[must_use]
    pub fn with_waits(self, waits: bool) -> Self {
        let flags = if waits { self.flags | WAITS } else { self.flags & !WAITS };
        Self { flags, ..self }
    }

    /// The revision of what the user said last about consent; 0 if that was nothing.
    #[must_use]
    pub fn consented(&self) -> u32 {
        self.consented
    }

    pub(super) fn write(&self, to: &mut [u8]) {
        to[0..8].copy_from_slice(&self.word.to_le_bytes());
        to[8..12].copy_from_slice(&self.consented.to_le_bytes());
        to[12..14].copy_from_slice(&self.categories.to_le_bytes());
        to[14..WIDTH].copy_from_slice(&self.flags.to_le_bytes());
    }

    pub(super) fn read(from: &[u8]) -> Self {
        let mut word = [0; 8];
        word.copy_from_slice(&from[..8]);
        let u16_at = |at: usize| u16::from_le_bytes([from[at], from[at + 1]]);
        Self {
            word: u64::from_le_bytes(word),
            consented: u32::from(u16_at(8)) | u32::from(u16_at(10)) << 16,
            categories: u16_at(12),
            flags: u16_at(14),
        }
    }
}

fn said(row: &RespectRow, kind: ChannelKind) -> Consent {
    match row.consent(kind) {
        None => Consent::NotSaid,
        Some(known) if known.consent.is_granted => Consent::Granted,
        Some(_) => Consent::Withdrawn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::respect;
    use crate::tables::respect::Consenting;
    use fantail_rules::ids::Millis;
    use fantail_rules::preference::{CategoryChoice, Preferences, Quiet, Switches};
    use fantail_rules::quiet::{Days, Times, Window};

    fn row(quiet: Option<Quiet>) -> RespectRow {
        let channels =
            Switches::default().with(ChannelKind::Email, Switch::Off).with(ChannelKind::Sms, Switch::On);
        let choice = CategoryChoice { switch: Switch::Off, ..CategoryChoice::default() };
        let categories = [("likes".to_owned(), choice)].into_iter().collect();
        let consent = |channel, revision, is_granted| Consenting {
            channel,
            revision,
            consent: respect::Consent {
                is_granted,
                given: Millis(1),
                version: "1".into(),
                source: "test".into(),
            },
        };
        RespectRow {
            revision: 0x0102_0304,
            preferences: Preferences {
                everything: Switch::Off,
                quiet,
                channels,
                categories,
                ..Preferences::default()
            },
            consents: vec![
                consent(ChannelKind::Push, 0x0102_0303, true),
                consent(ChannelKind::Sms, 3, false),
            ],
        }
    }

    // proves: PRF-05
    #[test]
    fn the_column_says_what_the_row_says() {
        let vienna = ZoneNo::find("Europe/Vienna").expect("listed");
        let tokyo = ZoneNo::find("Asia/Tokyo").expect("listed");
        let times = Times { start_minute: 22 * 60, end_minute: 7 * 60 };
        let window = Window::new(times, Days::WEEKDAYS).expect("valid");
        let quiet = |is_enabled, zone| Some(Quiet { is_enabled, window, zone });
        for (quiet, expected) in [
            (None, (None, vienna)),
            (quiet(true, ZoneNo::NONE), (Some(window), vienna)),
            (quiet(true, tokyo), (Some(window), tokyo)),
            (quiet(false, tokyo), (None, vienna)),
        ] {
            let respect = Respect::of(&row(quiet), vienna);
            let mut bytes = [0; WIDTH];
            respect.write(&mut bytes);
            let read = Respect::read(&bytes);
            assert_eq!(read, respect);
            let profile = read.profile().expect("it was just written");
            assert_eq!((profile.quiet, profile.zone), expected);
            let moved = read.with_profile_zone(tokyo).profile().expect("it was just written");
            assert_eq!(moved, Profile { zone: tokyo, ..profile }, "{quiet:?}");
            assert_eq!(
                (profile.global_off, profile.has_choices, read.consented()),
                (true, true, 0x0102_0303)
            );
            assert_eq!(profile.channels_off, [ChannelKind::Email].into_iter().collect());
            let consents = ChannelKind::ALL.map(|kind| profile.consents.of(kind));
            use Consent::{Granted, NotSaid, Withdrawn};
            assert_eq!(consents, [NotSaid, Granted, NotSaid, Withdrawn, NotSaid]);
            assert!(read.may_speak_of(CategoryId::of("likes")));
            let channels = [ChannelKind::Email, ChannelKind::Sms].into_iter().collect();
            assert_eq!(read.said(), Said { everything: true, quiet: quiet.is_some(), channels });
        }
        let nothing = Respect::of(&RespectRow::default(), ZoneNo::NONE);
        assert_eq!(nothing, Respect::default());
        assert_eq!(nothing.said(), Said::default());
        assert!(!nothing.may_speak_of(CategoryId::of("likes")));
    }
}
