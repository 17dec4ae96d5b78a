//! Digests by the calendar: once a day or once a week, at a time of the user's own day.
//!
//! A time that daylight saving skips comes when the clock is put forward; one that comes twice counts once (see `wall`).

use crate::ids::Millis;
use crate::quiet::Days;
use crate::wall::{DAY_MINUTES, LocalNow, Wall, first_instant, weekday};
use crate::zone::ZoneNo;

/// When a digest is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Calendar {
    minute: u16,
    days: Days,
}

impl Calendar {
    /// At this minute of these days. `None` if it is not a minute of a day.
    #[must_use]
    pub fn new(minute: u16, days: Days) -> Option<Self> {
        (minute < DAY_MINUTES).then_some(Self { minute, days })
    }

    /// Of the day.
    #[must_use]
    pub fn minute(self) -> u16 {
        self.minute
    }

    #[must_use]
    pub fn days(self) -> Days {
        self.days
    }

    /// The first time after `now`. Who has no zone has UTC: a digest that comes at an odd hour is better than none.
    #[must_use]
    pub fn next_after(self, zone: ZoneNo, now: Millis) -> Millis {
        let zone = zone.or_utc();
        let today = LocalNow::new(zone, now).map_or(0, |local| local.day);
        // Eight days: today's may have passed, and be the only one of the week.
        let due = (today..=today + 7)
            .filter(|day| self.days.contains(weekday(*day)))
            .filter_map(|day| first_instant(zone, Wall::of(day, i64::from(self.minute))))
            .find(|due| *due > now);
        // Of eight days one lies ahead, at any time before the year 9998.
        due.unwrap_or_else(|| now.plus(u64::from(DAY_MINUTES) * 60_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wall::parse_minute;
    use proptest::prelude::*;

    fn millis(utc: &str) -> Millis {
        let timestamp: jiff::Timestamp = format!("{utc}:00Z").parse().expect("a time");
        Millis(u64::try_from(timestamp.as_millisecond()).expect("after 1970"))
    }

    fn calendar(time: &str, days: Days) -> Calendar {
        Calendar::new(parse_minute(time).expect("a time of day"), days).expect("a minute of a day")
    }

    #[test]
    fn digests_come_at_the_users_hour() {
        let check = |time: &str, days: Days, zone: &str, now: &str, due: &str| {
            let zone = ZoneNo::find(zone).unwrap_or(ZoneNo::NONE);
            assert_eq!(
                calendar(time, days).next_after(zone, millis(now)),
                millis(due),
                "{zone:?} {time} {now}"
            );
        };
        let mondays = Days::from_bits(1).expect("a day");
        check("08:00", Days::ALL, "Europe/Berlin", "2026-06-10T05:59", "2026-06-10T06:00");
        check("08:00", Days::ALL, "Europe/Berlin", "2026-06-10T06:00", "2026-06-11T06:00");
        check("08:00", mondays, "Europe/Berlin", "2026-06-10T05:59", "2026-06-15T06:00");
        check("08:00", mondays, "Europe/Berlin", "2026-06-15T06:00", "2026-06-22T06:00");
        check("08:00", mondays, "Pacific/Auckland", "2026-06-14T12:00", "2026-06-14T20:00");
        check("08:00", Days::ALL, "nowhere", "2026-06-10T05:59", "2026-06-10T08:00");
        // Skipped on 2026-03-29, twice on 2026-10-25.
        check("02:30", Days::ALL, "Europe/Berlin", "2026-03-28T12:00", "2026-03-29T01:00");
        check("02:30", Days::ALL, "Europe/Berlin", "2026-03-29T01:00", "2026-03-30T00:30");
        check("02:30", Days::ALL, "Europe/Berlin", "2026-10-24T12:00", "2026-10-25T00:30");
        check("02:30", Days::ALL, "Europe/Berlin", "2026-10-25T00:30", "2026-10-26T01:30");
        check("02:30", Days::ALL, "Europe/Berlin", "2026-10-25T01:15", "2026-10-26T01:30");
        assert_eq!(Calendar::new(1_440, Days::ALL), None);
    }

    proptest! {
        /// One digest for every day of every zone, whatever its clock does.
        #[test]
        fn a_day_has_one_digest(number in 1u16..599, day in 18_300i64..24_800, minute in 0u16..1_440) {
            let zone = ZoneNo::from_stored(number).expect("it is listed");
            let calendar = Calendar::new(minute, Days::ALL).expect("a minute of a day");
            let begin = first_instant(zone, Wall::of(day, 0)).expect("it has rules");
            let end = first_instant(zone, Wall::of(day + 10, 0)).expect("it has rules");
            let dues = std::iter::successors(Some(Millis(begin.0 - 1)), |now| Some(calendar.next_after(zone, *now)));
            prop_assert_eq!(dues.skip(1).take_while(|due| *due < end).count(), 10);
        }
    }
}
