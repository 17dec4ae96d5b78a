//! When a delivery may leave by its recipient's clock, in one number that travels with it.
//!
//! Comes from: what a producer asked for. Decides: from when on it may be sent in some zone, and until when; asked as often
//! as anybody likes, with the same answer. Goes to: `gates::appointment`, which puts it off until then.
//!
//! What must never happen: an appointment that moves while it is waited for, other than with the recipient's zone; a time to
//! live that ends before somebody's time has come.

use super::{SendAtLocal, off_peak_from};
use crate::digest::Calendar;
use crate::ids::Millis;
use crate::quiet::{Days, Window};
use crate::wall::{Wall, first_instant};
use crate::zone::ZoneNo;

const KIND_BITS: u32 = 2;
const ON: u64 = 1;
const NEXT: u64 = 2;
const OFF_PEAK: u64 = 3;
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
/// A day with an hour more, and another one for clocks that are put back further.
const DAY_MS_MAX: u64 = 26 * HOUR_MS;
const WEEK_MS_MAX: u64 = (7 * 24 + 2) * HOUR_MS;
/// Where the calendar is ahead of everybody, and where it is behind. Neither has summer time.
const FIRST: &str = "Pacific/Kiritimati";
const LAST: &str = "Etc/GMT+12";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Appointment {
    At(SendAtLocal),
    /// Only inside this window.
    OffPeak(Window),
}

/// What an appointment comes to for everybody in one zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Not before.
    pub from: Millis,
    /// Nothing is sent at or after this.
    pub until: Millis,
}

impl Appointment {
    /// Frozen: two bits that say what it is, then minutes since 1970 on the clock, a minute of the day, or a window. 0 is none.
    #[must_use]
    pub fn to_word(appointment: Option<Self>) -> u64 {
        match appointment {
            None => 0,
            Some(Self::At(SendAtLocal::On(wall))) => {
                (wall.0.max(0).unsigned_abs() / MINUTE_MS) << KIND_BITS | ON
            }
            Some(Self::At(SendAtLocal::Next(calendar))) => u64::from(calendar.minute()) << KIND_BITS | NEXT,
            Some(Self::OffPeak(window)) => u64::from(window.bits()) << KIND_BITS | OFF_PEAK,
        }
    }

    /// `None` if no appointment is stored like this.
    #[must_use]
    pub fn from_stored(word: u64) -> Option<Option<Self>> {
        let (kind, value) = (word & ((1 << KIND_BITS) - 1), word >> KIND_BITS);
        match kind {
            ON => {
                let minutes = i64::try_from(value).ok()?;
                let wall = minutes.checked_mul(60_000).map(Wall)?;
                Some(Some(Self::At(SendAtLocal::On(wall))))
            }
            NEXT => {
                let calendar = Calendar::new(u16::try_from(value).ok()?, Days::ALL)?;
                Some(Some(Self::At(SendAtLocal::Next(calendar))))
            }
            OFF_PEAK => {
                Window::from_stored(u32::try_from(value).ok()?).map(|window| Some(Self::OffPeak(window)))
            }
            _ => (value == 0).then_some(None),
        }
    }

    /// When it is, in one zone, UTC if there is none. `since` is when it was accepted, or released; `expires_at` is when the
    /// time to live ends that began at [`Self::begins`]: for those whose time comes, or came, earlier it ends earlier.
    #[must_use]
    pub fn slot(self, zone: ZoneNo, since: Millis, expires_at: Millis, now: Millis) -> Slot {
        let early_ms = self.begins(since).since(self.from(zone, since, since));
        Slot { from: self.from(zone, since, now), until: Millis(expires_at.0.saturating_sub(early_ms)) }
    }

    fn from(self, zone: ZoneNo, since: Millis, now: Millis) -> Millis {
        match self {
            Self::At(SendAtLocal::On(wall)) => first_instant(zone.or_utc(), wall).unwrap_or(since),
            Self::At(SendAtLocal::Next(calendar)) => calendar.next_after(zone, since),
            Self::OffPeak(window) => off_peak_from(window, zone, now),
        }
    }

    /// When the first of all people may be told, if that can be said.
    #[must_use]
    pub fn earliest(self) -> Option<Millis> {
        match self {
            Self::At(SendAtLocal::On(wall)) => first_instant(first_zone(), wall),
            Self::At(SendAtLocal::Next(_)) | Self::OffPeak(_) => None,
        }
    }

    /// When the last of all people may be told: the time to live counts from here.
    #[must_use]
    pub fn begins(self, since: Millis) -> Millis {
        match self {
            Self::At(SendAtLocal::On(wall)) => {
                let last = ZoneNo::find(LAST).and_then(|zone| first_instant(zone, wall));
                last.unwrap_or(since).max(since)
            }
            Self::At(SendAtLocal::Next(_)) => since.plus(DAY_MS_MAX),
            Self::OffPeak(window) if window.days() == Days::ALL => since.plus(DAY_MS_MAX),
            Self::OffPeak(_) => since.plus(WEEK_MS_MAX),
        }
    }

    /// When the last of the people in these zones is told, if it is accepted now. `None` without any.
    #[must_use]
    pub fn last_of(self, zones: impl IntoIterator<Item = ZoneNo>, now: Millis) -> Option<Millis> {
        zones.into_iter().map(|zone| self.from(zone, now, now).max(now)).max()
    }
}

/// Where the calendar is ahead of everybody.
pub(super) fn first_zone() -> ZoneNo {
    ZoneNo::find(FIRST).expect("the list of zones has it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quiet::Times;
    use proptest::prelude::*;

    fn millis(utc: &str) -> Millis {
        let timestamp: jiff::Timestamp = format!("{utc}:00Z").parse().expect("a time");
        Millis(u64::try_from(timestamp.as_millisecond()).expect("after 1970"))
    }

    fn at(text: &str) -> Appointment {
        Appointment::At(SendAtLocal::parse(text).expect("a local time"))
    }

    fn off_peak(start_minute: u16, end_minute: u16, days: Days) -> Appointment {
        Appointment::OffPeak(Window::new(Times { start_minute, end_minute }, days).expect("a window"))
    }

    fn night() -> Appointment {
        off_peak(60, 5 * 60, Days::ALL)
    }

    // proves: SCH-01, SCH-02
    #[test]
    fn everybody_waits_by_their_own_clock() {
        let since = millis("2026-06-10T12:00");
        let check = |appointment: Appointment, zone: &str, now: &str, from: &str| {
            let zone = ZoneNo::find(zone).unwrap_or(ZoneNo::NONE);
            let found = appointment.slot(zone, since, Millis(u64::MAX), millis(now));
            assert_eq!(found.from, millis(from), "{appointment:?} {zone:?} {now}");
        };
        let (vienna, tokyo) = ("Europe/Vienna", "Asia/Tokyo");
        check(at("2026-06-11T09:00"), tokyo, "2026-06-10T12:00", "2026-06-11T00:00");
        check(at("2026-06-11T09:00"), vienna, "2026-06-10T12:00", "2026-06-11T07:00");
        check(at("2026-06-11T09:00"), "nowhere", "2026-06-10T12:00", "2026-06-11T09:00");
        check(at("2026-06-11T09:00"), tokyo, "2026-06-20T00:00", "2026-06-11T00:00");
        check(at("2026-06-10T09:00"), tokyo, "2026-06-10T12:00", "2026-06-10T00:00"); // passed: at once
        check(at("15:00"), vienna, "2026-06-10T12:00", "2026-06-10T13:00");
        // Asked again later, it is still the first time after it was accepted.
        check(at("15:00"), vienna, "2026-06-10T20:00", "2026-06-10T13:00");
        check(night(), vienna, "2026-06-10T12:00", "2026-06-10T23:00");
        check(night(), vienna, "2026-06-11T01:00", "2026-06-11T01:00");
        check(night(), vienna, "2026-06-11T03:00", "2026-06-11T23:00");
    }

    // proves: DEL-19, SCH-01
    #[test]
    fn the_time_to_live_begins_with_each_recipients_own_time() {
        let (since, ttl_ms) = (millis("2026-06-10T12:00"), 2 * HOUR_MS);
        let check = |appointment: Appointment, zone: &str, until: &str| {
            let zone = ZoneNo::find(zone).unwrap_or(ZoneNo::NONE);
            let expires_at = appointment.begins(since).plus(ttl_ms);
            let found = appointment.slot(zone, since, expires_at, since);
            assert_eq!(found.until, millis(until), "{appointment:?} {zone:?}");
        };
        let saturdays = off_peak(10 * 60, 12 * 60, Days::from_bits(0x20).expect("a day"));
        check(at("2026-06-11T09:00"), "Asia/Tokyo", "2026-06-11T02:00");
        check(at("2026-06-11T09:00"), "Etc/GMT+12", "2026-06-11T23:00");
        check(at("2026-06-11T09:00"), "nowhere", "2026-06-11T11:00");
        check(at("2026-06-10T09:00"), "Asia/Tokyo", "2026-06-10T02:00"); // it has come and gone
        check(at("15:00"), "Europe/Vienna", "2026-06-10T15:00");
        check(at("14:00"), "Europe/Vienna", "2026-06-11T14:00");
        check(night(), "Europe/Vienna", "2026-06-11T01:00");
        check(saturdays, "UTC", "2026-06-13T12:00");
    }

    #[test]
    fn the_first_and_the_last_of_all_people() {
        let now = millis("2026-06-10T12:00");
        let christmas = at("2026-12-24T18:00");
        assert_eq!(christmas.earliest(), Some(millis("2026-12-24T04:00")));
        assert_eq!(christmas.begins(now), millis("2026-12-25T06:00"));
        assert_eq!((at("18:00").earliest(), night().earliest()), (None, None));
    }

    // fixes: usability P6
    #[test]
    fn the_last_of_some_people_is_told_at_the_last_of_their_times() {
        let now = millis("2026-06-10T12:00");
        let check = |appointment: Appointment, zones: &[&str], expected: Option<&str>| {
            let zones = zones.iter().map(|zone| ZoneNo::find(zone).unwrap_or(ZoneNo::NONE));
            assert_eq!(appointment.last_of(zones, now), expected.map(millis), "{appointment:?}");
        };
        check(at("23:59"), &["nowhere"], Some("2026-06-10T23:59"));
        check(at("23:59"), &["nowhere", "Asia/Tokyo"], Some("2026-06-10T23:59"));
        check(at("23:59"), &["America/New_York", "Asia/Tokyo"], Some("2026-06-11T03:59"));
        check(at("2026-06-10T09:00"), &["Asia/Tokyo"], Some("2026-06-10T12:00")); // passed: at once
        check(night(), &["Europe/Vienna"], Some("2026-06-10T23:00"));
        check(off_peak(8 * 60, 20 * 60, Days::ALL), &["Europe/Vienna"], Some("2026-06-10T12:00"));
        check(at("23:59"), &[], None);
    }

    #[test]
    fn words_are_frozen() {
        for (appointment, word) in [
            (None, 0),
            (Some(at("2026-06-11T09:00")), 29_686_140 << 2 | 1),
            (Some(at("15:00")), 900 << 2 | 2),
            (Some(night()), (60 | 300 << 11 | 0x7F << 22) << 2 | 3),
        ] {
            assert_eq!(Appointment::to_word(appointment), word, "{appointment:?}");
            assert_eq!(Appointment::from_stored(word), Some(appointment));
        }
        for word in [1 << 2, 1_440 << 2 | 2, 60 << 2 | 3, u64::MAX] {
            assert_eq!(Appointment::from_stored(word), None, "{word}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(kind in 0u64..4, value in prop_oneof![0u64..4_000, any::<u64>()]) {
            let word = value << KIND_BITS | kind;
            if let Some(appointment) = Appointment::from_stored(word) {
                prop_assert_eq!(Appointment::to_word(appointment), word);
            }
        }

        /// Nobody's time comes before the first one's or after the last one's, and none has ended when it comes.
        #[test]
        fn all_people_lie_between_the_first_and_the_last(
            number in 1u16..599,
            since in 1_577_836_800_000u64..2_145_916_800_000,
            value in 0u64..1_440,
            kind in 1u64..4,
        ) {
            let zone = ZoneNo::from_stored(number).expect("it is listed");
            let since = Millis(since);
            let word = match kind {
                ON => (since.0 / MINUTE_MS + value) << KIND_BITS | ON,
                NEXT => value << KIND_BITS | NEXT,
                _ => (value | ((value + 90) % 1_440) << 11 | (value % 127 + 1) << 22) << KIND_BITS | OFF_PEAK,
            };
            let appointment = Appointment::from_stored(word).flatten().expect("it is one");
            let begins = appointment.begins(since);
            let slot = appointment.slot(zone, since, begins.plus(60_000), since);
            prop_assert!(slot.from <= begins, "{:?}", slot);
            prop_assert_eq!(slot.until, slot.from.plus(60_000));
            prop_assert!(appointment.earliest().is_none_or(|first| slot.from >= first));
        }
    }
}
