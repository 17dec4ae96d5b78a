//! Quiet hours: a window of the day in the user's zone, during which only what is critical may interrupt.
//!
//! Comes from: the profile and the clock of its zone. Decides: whether it is quiet now and, if so, the first instant at
//! which it is not. Goes to: the verdict of `gates::quiet_hours`, as a deferral.
//!
//! A window begins when the clock first shows its start (or more) on one of its days, and ends when the clock first shows
//! its end: see `wall` for gaps and overlaps. What must never happen: an instant called allowed that lies in a window;
//! where one window ends as the next begins, nothing slips through between them.

use crate::ids::Millis;
use crate::wall::{DAY_MINUTES, LocalNow};
use crate::zone::ZoneNo;

/// Windows that are followed one after the other. A week of them is every day: then nothing is ever allowed, and the
/// answer is when to look again.
const CHAIN_MAX: u32 = 7;

/// Days of the week, one bit each, Monday first. Frozen bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Days(u8);

impl Days {
    pub const ALL: Self = Self(0x7F);
    pub const WEEKDAYS: Self = Self(0x1F);
    pub const WEEKEND: Self = Self(0x60);

    /// `None` without any day, or with an eighth.
    #[must_use]
    pub fn from_bits(bits: u8) -> Option<Self> {
        (bits != 0 && bits <= Self::ALL.0).then_some(Self(bits))
    }

    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Monday is 0.
    #[must_use]
    pub fn contains(self, weekday: u8) -> bool {
        self.0 >> weekday & 1 == 1
    }
}

/// When to leave somebody alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Minute of the day, below 1440.
    start_minute: u16,
    /// Not part of the window. At or before the start it is of the next day.
    end_minute: u16,
    /// Those on which the window starts.
    days: Days,
}

impl Window {
    /// `None` if one of the minutes is not of a day. With equal minutes the window is a whole day long.
    #[must_use]
    pub fn new(times: Times, days: Days) -> Option<Self> {
        let Times { start_minute, end_minute } = times;
        let is_valid = start_minute < DAY_MINUTES && end_minute < DAY_MINUTES;
        is_valid.then_some(Self { start_minute, end_minute, days })
    }

    #[must_use]
    pub fn times(self) -> Times {
        Times { start_minute: self.start_minute, end_minute: self.end_minute }
    }

    #[must_use]
    pub fn days(self) -> Days {
        self.days
    }

    /// Frozen: start in the lowest 11 bits, then end in 11 bits, then the days in 7. Never 0.
    #[must_use]
    pub fn bits(self) -> u32 {
        u32::from(self.start_minute) | u32::from(self.end_minute) << 11 | u32::from(self.days.0) << 22
    }

    /// `None` if no window is stored like this.
    #[must_use]
    pub fn from_stored(bits: u32) -> Option<Self> {
        let minute = |shift: u32| u16::try_from(bits >> shift & 0x7FF).unwrap_or(u16::MAX);
        let days = u8::try_from(bits >> 22).ok().and_then(Days::from_bits)?;
        Self::new(Times { start_minute: minute(0), end_minute: minute(11) }, days)
    }

    /// How many minutes after the minute that the clock shows it ends, with those that follow it without a break.
    /// `None`: it is not quiet.
    fn minutes_left(self, local: &LocalNow) -> Option<u32> {
        let (start, end, minute) = (self.start_minute, self.end_minute, local.minute);
        let today = self.days.contains(local.weekday);
        if start < end {
            return (today && start <= minute && minute < end).then(|| u32::from(end - minute));
        }
        let yesterday = self.days.contains((local.weekday + 6) % 7);
        let to_end = u32::from(end) + u32::from(DAY_MINUTES) - u32::from(minute);
        if minute >= start {
            return today.then(|| to_end + self.days_following(local.weekday + 1));
        }
        // The window of yesterday ends today.
        (yesterday && minute < end)
            .then(|| to_end - u32::from(DAY_MINUTES) + self.days_following(local.weekday))
    }

    /// Minutes of the whole-day windows that follow one another from this weekday on.
    fn days_following(self, weekday: u8) -> u32 {
        if self.start_minute != self.end_minute {
            return 0;
        }
        let followed = (0..7).take_while(|more| self.days.contains((weekday + more) % 7)).count();
        u32::from(DAY_MINUTES) * u32::try_from(followed).unwrap_or(0).min(CHAIN_MAX - 1)
    }

    fn is_endless(self) -> bool {
        self.start_minute == self.end_minute && self.days == Days::ALL
    }
}

/// From when to when, as minutes of the day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    pub start_minute: u16,
    pub end_minute: u16,
}

/// `None`: it is not quiet now, or the zone has no rules (which the gate asks first). Otherwise the first instant at
/// which it is not; if it never is, an instant about a week ahead, to look again.
#[must_use]
pub fn quiet_until(window: Window, zone: ZoneNo, now: Millis) -> Option<Millis> {
    LocalNow::new(zone, now).and_then(|local| quiet_until_at(window, &local))
}

/// The same for everybody whose clock this is: a few comparisons, unless the clock is changed before the window ends.
#[must_use]
pub fn quiet_until_at(window: Window, local: &LocalNow) -> Option<Millis> {
    let left = window.minutes_left(local)?;
    match local.within_stretch(left) {
        Some(end) => Some(end),
        None => Some(quiet_across_change(window, *local, left)),
    }
}

/// The clock is changed before the end. What it is changed to may lie in the next window: then that counts as well.
fn quiet_across_change(window: Window, local: LocalNow, left: u32) -> Millis {
    let mut end = local.after_minutes(left);
    for _ in 1..CHAIN_MAX {
        let next = LocalNow::new(local.zone, end);
        match next.and_then(|next| window.minutes_left(&next).map(|left| next.after_minutes(left))) {
            Some(later) if !window.is_endless() => end = later,
            Some(_) | None => break,
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wall::{Wall, first_instant, parse_minute};
    use proptest::prelude::*;

    fn window(start: &str, end: &str, days: Days) -> Window {
        let minute = |text| parse_minute(text).expect("a time of day");
        Window::new(Times { start_minute: minute(start), end_minute: minute(end) }, days).expect("a window")
    }

    fn millis(utc: &str) -> Millis {
        let timestamp: jiff::Timestamp = utc.parse().expect("a time");
        Millis(u64::try_from(timestamp.as_millisecond()).expect("after 1970"))
    }

    fn check(window: Window, zone: &str, now: &str, until: Option<&str>) {
        let zone = ZoneNo::find(zone).expect("a zone");
        assert_eq!(quiet_until(window, zone, millis(now)), until.map(millis), "{window:?} at {now}");
    }

    // proves: QH-01, QH-02, QH-03
    #[test]
    fn a_night_is_quiet_in_the_users_own_zone() {
        let night = window("22:00", "07:00", Days::ALL);
        check(night, "Europe/Berlin", "2026-06-10T19:59:59.999Z", None);
        check(night, "Europe/Berlin", "2026-06-10T20:00:00Z", Some("2026-06-11T05:00:00Z"));
        check(night, "Europe/Berlin", "2026-06-11T04:59:59.999Z", Some("2026-06-11T05:00:00Z"));
        check(night, "Europe/Berlin", "2026-06-11T05:00:00Z", None);
        check(night, "America/New_York", "2026-06-10T20:00:00Z", None);
        check(night, "Asia/Kathmandu", "2026-06-10T16:15:00Z", Some("2026-06-11T01:15:00Z"));
        check(
            window("12:00", "14:00", Days::ALL),
            "UTC",
            "2026-06-10T13:00:00Z",
            Some("2026-06-10T14:00:00Z"),
        );
        check(
            window("22:00", "00:00", Days::ALL),
            "UTC",
            "2026-06-10T23:00:00Z",
            Some("2026-06-11T00:00:00Z"),
        );
        check(window("22:00", "00:00", Days::ALL), "UTC", "2026-06-11T00:00:00Z", None);
    }

    // proves: QH-02
    #[test]
    fn days_are_those_on_which_a_window_starts() {
        // 2026-06-12 is a Friday.
        let working_nights = window("22:00", "07:00", Days::WEEKDAYS);
        check(working_nights, "UTC", "2026-06-12T23:00:00Z", Some("2026-06-13T07:00:00Z"));
        check(working_nights, "UTC", "2026-06-13T06:00:00Z", Some("2026-06-13T07:00:00Z"));
        check(working_nights, "UTC", "2026-06-13T23:00:00Z", None);
        check(working_nights, "UTC", "2026-06-15T06:00:00Z", None);
        check(window("10:00", "11:00", Days::WEEKEND), "UTC", "2026-06-12T10:30:00Z", None);
        check(
            window("10:00", "11:00", Days::WEEKEND),
            "UTC",
            "2026-06-14T10:30:00Z",
            Some("2026-06-14T11:00:00Z"),
        );
    }

    // proves: QH-03
    #[test]
    fn nothing_slips_through_between_two_windows() {
        let weekend = window("00:00", "00:00", Days::WEEKEND);
        check(weekend, "UTC", "2026-06-13T10:00:00Z", Some("2026-06-15T00:00:00Z"));
        check(weekend, "UTC", "2026-06-14T10:00:00Z", Some("2026-06-15T00:00:00Z"));
        check(weekend, "UTC", "2026-06-12T23:59:59Z", None);
        let all_but_monday = window("18:00", "18:00", Days::from_bits(0b111_1110).expect("six days"));
        check(all_but_monday, "UTC", "2026-06-09T18:00:00Z", Some("2026-06-15T18:00:00Z"));
        check(all_but_monday, "UTC", "2026-06-15T17:59:00Z", Some("2026-06-15T18:00:00Z"));
        check(all_but_monday, "UTC", "2026-06-16T17:59:00Z", None);
        // From the end of the gap on: one window ends as the next begins.
        let nearly_all = window("02:45", "02:15", Days::ALL);
        check(nearly_all, "Europe/Berlin", "2026-03-28T12:00:00Z", Some("2026-03-30T00:15:00Z"));
        check(nearly_all, "Europe/Berlin", "2026-03-27T12:00:00Z", Some("2026-03-28T01:15:00Z"));
    }

    #[test]
    fn what_is_never_allowed_is_looked_at_again_in_a_week() {
        let always = window("08:00", "08:00", Days::ALL);
        check(always, "UTC", "2026-06-10T09:00:00Z", Some("2026-06-17T08:00:00Z"));
        check(always, "UTC", "2026-06-10T07:00:00Z", Some("2026-06-16T08:00:00Z"));
        check(always, "Europe/Berlin", "2026-10-24T09:00:00Z", Some("2026-10-31T07:00:00Z"));
    }

    // proves: QH-06
    #[test]
    fn ends_in_gaps_and_overlaps_are_defined() {
        let check =
            |start, end, now, until| check(window(start, end, Days::ALL), "Europe/Berlin", now, until);
        // 2026-03-29: from 02:00 to 03:00, which is 01:00 UTC.
        check("22:00", "02:30", "2026-03-29T00:30:00Z", Some("2026-03-29T01:00:00Z"));
        check("22:00", "02:30", "2026-03-29T01:00:00Z", None);
        check("02:15", "02:45", "2026-03-29T01:00:00Z", None);
        check("02:30", "05:00", "2026-03-29T01:00:00Z", Some("2026-03-29T03:00:00Z"));
        // 2026-10-25: from 03:00 back to 02:00, which is 01:00 UTC.
        check("22:00", "02:30", "2026-10-25T00:15:00Z", Some("2026-10-25T00:30:00Z"));
        check("22:00", "02:30", "2026-10-25T01:15:00Z", None);
        check("02:30", "05:00", "2026-10-25T01:15:00Z", Some("2026-10-25T04:00:00Z"));
        check("22:00", "03:00", "2026-10-25T01:15:00Z", Some("2026-10-25T02:00:00Z"));
        check("03:00", "05:00", "2026-10-25T01:15:00Z", None);
    }

    #[test]
    fn windows_of_no_day_are_none() {
        let times = |start_minute, end_minute| Times { start_minute, end_minute };
        assert_eq!(Window::new(times(1_440, 0), Days::ALL), None);
        assert_eq!(Window::new(times(0, 1_440), Days::ALL), None);
        assert_eq!((Days::from_bits(0), Days::from_bits(0x80)), (None, None));
        assert_eq!((Window::from_stored(0), Window::from_stored(u32::MAX)), (None, None));
        assert_eq!(Window::from_stored(0x7F << 22 | 1_440), None);
        assert_eq!(window("22:00", "07:00", Days::ALL).bits(), 0x1FCD_2528, "frozen");
    }

    proptest! {
        #[test]
        fn stored_windows_are_read_as_they_were(start_minute in 0u16..1_440, end_minute in 0u16..1_440, days in 1u8..128) {
            let days = Days::from_bits(days).expect("a day at least");
            let window = Window::new(Times { start_minute, end_minute }, days).expect("minutes of a day");
            prop_assert_eq!(Window::from_stored(window.bits()), Some(window));
            prop_assert!(window.bits() >> 29 == 0);
        }

        /// The addition within a stretch and the walk across changes of the clock agree wherever both have an answer.
        #[test]
        fn the_short_way_is_the_long_way(
            number in 1u16..599,
            now in 1_577_836_800_000u64..2_145_916_800_000,
            start_minute in 0u16..1_440,
            length in 0u16..1_440,
            days in 1u8..128,
        ) {
            let zone = ZoneNo::from_stored(number).expect("it is listed");
            let times = Times { start_minute, end_minute: (start_minute + length) % 1_440 };
            let window = Window::new(times, Days::from_bits(days).expect("a day")).expect("minutes of a day");
            let local = LocalNow::new(zone, Millis(now)).expect("it has rules");
            let Some(left) = window.minutes_left(&local) else { return Ok(()) };
            let answer = quiet_until_at(window, &local);
            prop_assert_eq!(answer, Some(quiet_across_change(window, local, left)));
            if local.within_stretch(left).is_some() {
                let end = Wall::of(local.day, i64::from(local.minute) + i64::from(left));
                prop_assert_eq!(answer, first_instant(zone, end));
            }
        }
    }
}
