//! Clocks on walls: what they show at an instant, and when they first show something.
//!
//! A zone's clock runs evenly between two changes of its offset; such a [`Stretch`] turns instants into wall time and
//! back with one addition. Daylight saving makes the clock jump, and one sentence defines what that means everywhere in
//! Fantail: *a wall time comes at the first instant at which the clock shows it or something later*. So a time in a
//! gap comes when the gap is jumped over, a time that comes twice counts the first time, and a later wall time never
//! comes before an earlier one.
//!
//! [`Clocks`] keeps what was found out about each zone, so that a parcel of a thousand users asks the tzdb a few times.

use crate::ids::Millis;
use crate::zone::ZoneNo;
use jiff::Timestamp;
use jiff::tz::TimeZone;

pub const MINUTE_MS: i64 = 60_000;
pub const DAY_MINUTES: u16 = 24 * 60;
const DAY_MS: i64 = DAY_MINUTES as i64 * MINUTE_MS;

/// No clock is further than this from UTC: what tzdb files can say, rounded up.
const OFFSET_MS_MAX: i64 = 26 * 60 * MINUTE_MS;
/// The end of the year 9998. Later instants are treated as this one.
const INSTANT_MS_MAX: i64 = 253_370_764_799_999;
/// Changes of one clock within the days that one question is about. The densest known are days apart.
const CHANGES_MAX: usize = 16;

/// What a clock shows: milliseconds since it showed 1970-01-01 00:00.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Wall(pub i64);

impl Wall {
    /// A minute of a day; minutes may go beyond the day.
    #[must_use]
    pub fn of(day: i64, minute: i64) -> Self {
        Self(day.saturating_mul(DAY_MS).saturating_add(minute.saturating_mul(MINUTE_MS)))
    }

    /// Days since 1970-01-01.
    #[must_use]
    pub fn day(self) -> i64 {
        self.0.div_euclid(DAY_MS)
    }

    /// 0 to 1439.
    #[must_use]
    pub fn minute(self) -> u16 {
        u16::try_from(self.0.rem_euclid(DAY_MS) / MINUTE_MS).expect("a day has less than 2^16 minutes")
    }

    #[must_use]
    pub fn weekday(self) -> u8 {
        weekday(self.day())
    }
}

/// Monday is 0, Sunday 6. The first day of 1970 was a Thursday.
#[must_use]
pub fn weekday(day: i64) -> u8 {
    u8::try_from((day + 3).rem_euclid(7)).expect("a remainder of 7 fits")
}

/// `HH:MM` as a minute of the day.
#[must_use]
pub fn parse_minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let two_digits = |part: &str| {
        let is_plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| part.parse::<u16>().ok()).flatten()
    };
    let (hour, minute) = (two_digits(hour)?, two_digits(minute)?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

/// A minute of the day as `HH:MM`.
#[must_use]
pub fn show_minute(minute: u16) -> String {
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

/// Part of the time between one change of a zone's offset and the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The latest change, or a day before the instant that was asked about: what was earlier is not looked up.
    from: Millis,
    /// The next change; not part of the stretch.
    until: Millis,
    offset_ms: i64,
    /// The latest that the clock showed before a change at `from`. While it shows earlier times again, after having
    /// been put back, those have come already.
    shown: Wall,
}

impl Stretch {
    /// The stretch that this instant lies in. `None` if the zone has no rules.
    #[must_use]
    pub fn find(zone: ZoneNo, now: Millis) -> Option<Self> {
        let rules = zone.rules()?;
        let now_ms = signed(now).min(INSTANT_MS_MAX);
        let seen_ms = now_ms - OFFSET_MS_MAX;
        let look_back = timestamp(seen_ms - OFFSET_MS_MAX);
        let mut stretch = Self {
            from: Millis(clamped(seen_ms)),
            until: Millis(u64::MAX),
            offset_ms: offset_ms(rules, timestamp(now_ms)),
            shown: Wall(i64::MIN),
        };
        // Forwards only: jiff 0.2.39 looks backwards past the last change that a file lists, if rules follow it.
        for change in rules.following(look_back).take(CHANGES_MAX) {
            let changed_ms = change.timestamp().as_millisecond();
            if changed_ms > now_ms {
                stretch.until = Millis(clamped(changed_ms));
                break;
            }
            let last_ms = changed_ms - 1;
            stretch.from = stretch.from.max(Millis(clamped(changed_ms)));
            stretch.shown = stretch.shown.max(Wall(last_ms + offset_ms(rules, timestamp(last_ms))));
        }
        Some(stretch)
    }

    #[must_use]
    pub fn covers(&self, now: Millis) -> bool {
        self.from <= now && now < self.until
    }

    /// The latest that the clock has shown up to this instant of the stretch. Never goes back.
    #[must_use]
    pub fn wall(&self, now: Millis) -> Wall {
        Wall(signed(now).min(INSTANT_MS_MAX).saturating_add(self.offset_ms)).max(self.shown)
    }

    /// When this wall time comes, if it does so in this stretch and not before `after`.
    #[must_use]
    pub fn first_instant(&self, wall: Wall, after: Millis) -> Option<Millis> {
        let comes_at = Millis(clamped(wall.0.saturating_sub(self.offset_ms)));
        let comes_at = comes_at.max(self.from).max(after);
        self.covers(comes_at).then_some(comes_at)
    }
}

/// When this wall time comes in a zone: the first instant at which its clock shows it or something later.
#[must_use]
pub fn first_instant(zone: ZoneNo, wall: Wall) -> Option<Millis> {
    // Whatever the offset, the clock has not been there yet.
    let mut after = Millis(clamped(wall.0.saturating_sub(OFFSET_MS_MAX)));
    for _ in 0..CHANGES_MAX {
        let stretch = Stretch::find(zone, after)?;
        if let Some(instant) = stretch.first_instant(wall, after) {
            return Some(instant);
        }
        after = stretch.until;
    }
    Some(after)
}

/// The clock of one zone, read once for everybody in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalNow {
    pub zone: ZoneNo,
    pub now: Millis,
    /// Of the latest that the clock has shown.
    pub day: i64,
    pub minute: u16,
    pub weekday: u8,
    stretch: Stretch,
}

impl LocalNow {
    /// `None` if the zone has no rules.
    #[must_use]
    pub fn new(zone: ZoneNo, now: Millis) -> Option<Self> {
        Some(Self::within(Stretch::find(zone, now)?, zone, now))
    }

    /// When the clock comes to so many minutes after the minute that it shows. `None` if the clock is changed before.
    #[must_use]
    pub fn within_stretch(&self, minutes: u32) -> Option<Millis> {
        self.stretch.first_instant(self.wall_after(minutes), self.now)
    }

    /// The same, also across changes.
    #[must_use]
    pub fn after_minutes(&self, minutes: u32) -> Millis {
        let within = self.within_stretch(minutes);
        within.or_else(|| first_instant(self.zone, self.wall_after(minutes))).unwrap_or(self.stretch.until)
    }

    fn wall_after(&self, minutes: u32) -> Wall {
        Wall::of(self.day, i64::from(self.minute) + i64::from(minutes))
    }

    fn within(stretch: Stretch, zone: ZoneNo, now: Millis) -> Self {
        let wall = stretch.wall(now);
        let day = wall.day();
        Self { zone, now, day, minute: wall.minute(), weekday: weekday(day), stretch }
    }
}

/// The clocks of all zones at one instant. Each is read when somebody asks, and once; what is known of its stretch
/// is kept when time goes on.
#[derive(Clone, Debug)]
pub struct Clocks {
    now: Millis,
    /// By the number of the zone.
    read: Vec<Option<LocalNow>>,
}

impl Clocks {
    #[must_use]
    pub fn at(now: Millis) -> Self {
        Self { now, read: Vec::new() }
    }

    pub fn set_now(&mut self, now: Millis) {
        self.now = now;
    }

    #[must_use]
    pub fn now(&self) -> Millis {
        self.now
    }

    /// `None` if the zone has no rules.
    pub fn local(&mut self, zone: ZoneNo) -> Option<&LocalNow> {
        let (index, now) = (usize::from(zone.number()), self.now);
        if index >= self.read.len() {
            self.read.resize(index + 1, None);
        }
        let place = &mut self.read[index];
        let is_current = place.is_some_and(|local| local.now == now);
        if !is_current {
            let known = place.map(|local| local.stretch).filter(|stretch| stretch.covers(now));
            let stretch = known.or_else(|| Stretch::find(zone, now));
            *place = stretch.map(|stretch| LocalNow::within(stretch, zone, now));
        }
        place.as_ref()
    }
}

/// RFC 3339 in UTC with milliseconds: `2026-01-31T12:00:00.000Z`.
#[must_use]
pub fn utc_text(at: Millis) -> String {
    format!("{:.3}", timestamp(signed(at)))
}

fn offset_ms(rules: &TimeZone, at: Timestamp) -> i64 {
    i64::from(rules.to_offset(at).seconds()) * 1_000
}

fn timestamp(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX)
}

fn signed(instant: Millis) -> i64 {
    i64::try_from(instant.0).unwrap_or(i64::MAX)
}

/// Nothing happens before 1970.
fn clamped(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zone(name: &str) -> ZoneNo {
        ZoneNo::find(name).expect("a zone of the tzdb")
    }

    fn millis(utc: &str) -> Millis {
        let timestamp: Timestamp = format!("{utc}:00Z").parse().expect("a time");
        Millis(clamped(timestamp.as_millisecond()))
    }

    fn wall(text: &str) -> Wall {
        Wall(i64::try_from(millis(text).0).expect("a time of these years"))
    }

    // proves: QH-06
    #[test]
    fn a_wall_time_comes_when_the_clock_first_shows_it_or_more() {
        let check = |name: &str, wall_time: &str, utc: &str| {
            assert_eq!(first_instant(zone(name), wall(wall_time)), Some(millis(utc)), "{name} {wall_time}");
        };
        check("UTC", "2026-03-29T02:30", "2026-03-29T02:30");
        check("Europe/Berlin", "2026-03-29T01:59", "2026-03-29T00:59");
        // Put forward from 02:00 to 03:00.
        for in_gap in ["2026-03-29T02:00", "2026-03-29T02:30", "2026-03-29T02:59", "2026-03-29T03:00"] {
            check("Europe/Berlin", in_gap, "2026-03-29T01:00");
        }
        check("Europe/Berlin", "2026-03-29T03:01", "2026-03-29T01:01");
        // Put back from 03:00 to 02:00: the first one of two, and 03:00 is shown once only.
        check("Europe/Berlin", "2026-10-25T02:00", "2026-10-25T00:00");
        check("Europe/Berlin", "2026-10-25T02:59", "2026-10-25T00:59");
        check("Europe/Berlin", "2026-10-25T03:00", "2026-10-25T02:00");
        // Half an hour, at midnight, and a day that never was.
        check("Australia/Lord_Howe", "2026-10-04T02:15", "2026-10-03T15:30");
        check("Australia/Lord_Howe", "2026-04-05T01:45", "2026-04-04T14:45");
        check("Africa/Cairo", "2026-04-24T00:00", "2026-04-23T22:00");
        check("America/Havana", "2026-11-01T00:30", "2026-11-01T04:30");
        check("Pacific/Apia", "2011-12-30T12:00", "2011-12-30T10:00");
        assert_eq!(first_instant(ZoneNo::NONE, wall("2026-03-29T02:30")), None);
    }

    #[test]
    fn a_clock_that_is_put_back_has_shown_the_times_before() {
        let check = |name: &str, utc: &str, shown: &str| {
            let local = LocalNow::new(zone(name), millis(utc)).expect("it has rules");
            let text = format!("{} {}", local.day - wall(utc).day(), show_minute(local.minute));
            assert_eq!(text, shown, "{name} {utc}");
            assert_eq!(local.weekday, weekday(local.day));
        };
        check("Europe/Berlin", "2026-10-25T00:30", "0 02:30");
        check("Europe/Berlin", "2026-10-25T00:59", "0 02:59");
        check("Europe/Berlin", "2026-10-25T01:00", "0 02:59");
        check("Europe/Berlin", "2026-10-25T01:59", "0 02:59");
        check("Europe/Berlin", "2026-10-25T02:00", "0 03:00");
        // The last change that its file lists, after one that its rules would have made.
        check("America/Ciudad_Juarez", "2022-11-30T05:59", "-1 23:59");
        check("America/Ciudad_Juarez", "2022-11-30T06:00", "-1 23:59");
        check("America/Ciudad_Juarez", "2022-11-30T07:00", "0 00:00");
        assert_eq!((weekday(0), wall("2026-06-08T00:00").weekday()), (3, 0));
    }

    #[test]
    fn times_of_day_are_two_digits_each() {
        for (text, minute) in [("00:00", 0), ("07:05", 425), ("22:00", 1_320), ("23:59", 1_439)] {
            assert_eq!(parse_minute(text), Some(minute), "{text}");
            assert_eq!(show_minute(minute), text);
        }
        for text in ["", "24:00", "7:00", "07:60", "07:0", "+7:00", "07:00:00", "07-00", "٠٧:٠٠"] {
            assert_eq!(parse_minute(text), None, "{text}");
        }
    }

    #[test]
    fn any_instant_has_an_answer() {
        let last = clamped(INSTANT_MS_MAX);
        for now in [0, 1, last, last + 1, u64::MAX - 1, u64::MAX] {
            for zone in [zone("Europe/Berlin"), zone("UTC"), zone("Africa/Casablanca")] {
                let local = LocalNow::new(zone, Millis(now)).expect("they have rules");
                assert!(local.minute < DAY_MINUTES && local.weekday < 7);
                assert!(local.after_minutes(1_440) > Millis(0));
            }
        }
    }

    proptest! {
        /// What is kept of a zone is what would be found anew, whichever way time goes.
        #[test]
        fn kept_clocks_are_right(
            steps in proptest::collection::vec((1u16..599, 1_577_836_800_000u64..2_145_916_800_000), 1..40),
        ) {
            let mut clocks = Clocks::at(Millis(0));
            let shows = |local: &LocalNow| (local.day, local.minute, local.weekday, local.after_minutes(3_000));
            for (number, now) in steps {
                let zone = ZoneNo::from_stored(number).expect("it is listed");
                for now in [now, now + 3_600_000, now + 90_000_000, now - 3_600_000].map(Millis) {
                    clocks.set_now(now);
                    let anew = LocalNow::new(zone, now);
                    prop_assert_eq!(clocks.local(zone).map(shows), anew.as_ref().map(shows));
                }
            }
            prop_assert_eq!(clocks.local(ZoneNo::NONE), None);
        }

        /// Time does not run backwards, and a wall time that has come is shown.
        #[test]
        fn later_wall_times_do_not_come_before(
            number in 1u16..599,
            at in 1_577_836_800_000i64..2_145_916_800_000,
            more in 0i64..200_000_000,
        ) {
            let zone = ZoneNo::from_stored(number).expect("it is listed");
            let first = first_instant(zone, Wall(at)).expect("it has rules");
            let second = first_instant(zone, Wall(at + more)).expect("it has rules");
            prop_assert!(first <= second);
            let shown = |now| Stretch::find(zone, now).expect("it has rules").wall(now);
            prop_assert!(shown(first) >= Wall(at));
            prop_assert!(shown(Millis(first.0 - 1)) < Wall(at));
        }
    }
}
