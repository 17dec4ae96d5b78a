//! Recurring schedules: `minute hour day-of-month month day-of-week`, on the recipient's clock.
//!
//! As in cron, if both kinds of days are restricted, one of them is enough. A minute is due when the clock first shows it:
//! what daylight saving skips comes once, when the clock is put forward, and an hour that comes twice counts once. For
//! something that should run evenly, choose the zone UTC.
//!
//! What must never happen: two answers for one minute of the calendar, or a schedule that never comes; such a one is
//! refused when it is written.

use super::day_of;
use super::field::{Field, FieldFault};
use crate::ids::Millis;
use crate::limits::CRON_BYTES_MAX;
use crate::wall::{DAY_MINUTES, MINUTE_MS, Stretch, Wall, first_instant};
use crate::zone::ZoneNo;
use jiff::ToSpan;
use jiff::civil::{Date, date};
use std::fmt;

/// Leap days are eight years apart around 2100 and 2200; that is the rarest there is.
const SEARCH_DAYS_MAX: usize = 8 * 366 + 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days_of_month: u64,
    months: u64,
    /// Sunday is bit 0.
    days_of_week: u64,
    /// Both kinds of days are restricted: one is enough.
    is_either_day: bool,
}

impl Cron {
    pub fn parse(text: &str) -> Result<Self, CronFault> {
        if text.len() > CRON_BYTES_MAX {
            return Err(CronFault::TooLong);
        }
        let parts: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minute, hour, day_of_month, month, day_of_week] = parts[..] else {
            return Err(CronFault::NotFiveFields { found: parts.len() });
        };
        let parse =
            |field: Field, text: &str| field.parse(text).map_err(|fault| CronFault::In { field, fault });
        let cron = Self {
            minutes: parse(Field::Minute, minute)?,
            hours: parse(Field::Hour, hour)?,
            days_of_month: parse(Field::DayOfMonth, day_of_month)?,
            months: parse(Field::Month, month)?,
            days_of_week: parse(Field::DayOfWeek, day_of_week)?,
            is_either_day: !day_of_month.starts_with('*') && !day_of_week.starts_with('*'),
        };
        // From a leap day on, as no later one is further away.
        cron.days_from(date(2096, 2, 29)).next().map(|_| cron).ok_or(CronFault::NeverComes)
    }

    /// How many minutes lie between two times of it, at least, on a clock that is never changed.
    #[must_use]
    pub fn gap_minutes(&self) -> u16 {
        let times: Vec<u16> = (0..DAY_MINUTES)
            .filter(|minute| self.hours >> (minute / 60) & 1 == 1 && self.minutes >> (minute % 60) & 1 == 1)
            .collect();
        let within = times.windows(2).map(|pair| pair[1] - pair[0]).min();
        // The last one of a day and the first one of the next.
        let over_night = times.first().zip(times.last()).map(|(first, last)| first + DAY_MINUTES - last);
        within.into_iter().chain(over_night).min().unwrap_or(DAY_MINUTES)
    }

    /// The first instant after `now` at which it is due. `None` only at the end of the calendar.
    #[must_use]
    pub fn next_after(&self, zone: ZoneNo, now: Millis) -> Option<Millis> {
        let zone = zone.or_utc();
        // All that the clock has shown has come; the first minute that it has not shown is the first that can be due.
        let shown = Stretch::find(zone, now)?.wall(now);
        let from = Wall(shown.0 - shown.0.rem_euclid(MINUTE_MS) + MINUTE_MS);
        first_instant(zone, self.next_from(from)?).filter(|next| *next > now)
    }

    /// The first minute from `from` on that it names.
    fn next_from(&self, from: Wall) -> Option<Wall> {
        let first_day = date(1970, 1, 1).checked_add(from.day().days()).ok()?;
        self.days_from(first_day).find_map(|day| {
            let earliest = if day == first_day { from.minute() } else { 0 };
            self.minute_from(earliest)
                .zip(day_of(day.into()))
                .map(|(minute, day)| Wall::of(day, i64::from(minute)))
        })
    }

    fn days_from(&self, first: Date) -> impl Iterator<Item = Date> {
        let days = std::iter::successors(Some(first), |day| day.tomorrow().ok());
        days.take(SEARCH_DAYS_MAX).filter(|day| self.has_day(*day))
    }

    fn has_day(&self, day: Date) -> bool {
        let has = |bits: u64, value: i8| bits >> value & 1 == 1;
        let in_month = has(self.days_of_month, day.day());
        let in_week = has(self.days_of_week, day.weekday().to_sunday_zero_offset());
        let is_day = if self.is_either_day { in_month || in_week } else { in_month && in_week };
        has(self.months, day.month()) && is_day
    }

    /// The first minute of a day from this one on.
    fn minute_from(&self, earliest: u16) -> Option<u16> {
        (earliest / 60..24).filter(|hour| self.hours >> hour & 1 == 1).find_map(|hour| {
            let from = if hour == earliest / 60 { earliest % 60 } else { 0 };
            let minute = (self.minutes >> from).trailing_zeros() as u16 + from;
            (minute < 60).then_some(hour * 60 + minute)
        })
    }
}

/// Why a schedule is not one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CronFault {
    TooLong,
    NotFiveFields {
        found: usize,
    },
    In {
        field: Field,
        fault: FieldFault,
    },
    /// The 30th of February.
    NeverComes,
}

impl fmt::Display for CronFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "a schedule has at most {CRON_BYTES_MAX} bytes"),
            Self::NotFiveFields { found } => {
                write!(
                    f,
                    "a schedule has five fields (minute, hour, day of month, month, day of week), not {found}"
                )
            }
            Self::In { field, fault } => {
                let (min, max) = field.range();
                write!(f, "in the field {} ({min} to {max}): {fault}", field.name())
            }
            Self::NeverComes => write!(f, "no day is ever like this"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(utc: &str) -> Millis {
        let timestamp: jiff::Timestamp = format!("{utc}Z").parse().expect("a time");
        Millis(u64::try_from(timestamp.as_millisecond()).expect("after 1970"))
    }

    fn check(text: &str, zone: &str, now: &str, dues: &[&str]) {
        let cron = Cron::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        let zone = ZoneNo::find(zone).unwrap_or(ZoneNo::NONE);
        let mut now = millis(now);
        for due in dues {
            let next = cron.next_after(zone, now);
            assert_eq!(next, Some(millis(due)), "{text} after {now}");
            now = millis(due);
        }
    }

    // proves: SCH-02
    #[test]
    fn schedules_come_on_the_recipients_clock() {
        check(
            "0 8 * * *",
            "Europe/Berlin",
            "2026-06-10T05:59:59.999",
            &["2026-06-10T06:00:00", "2026-06-11T06:00:00"],
        );
        check("0 8 * * *", "nowhere", "2026-06-10T06:00:00", &["2026-06-10T08:00:00"]);
        check(
            "*/20 9-10 * * mon-fri",
            "UTC",
            "2026-06-12T10:30:00",
            &["2026-06-12T10:40:00", "2026-06-15T09:00:00"],
        );
        check("0 0 1 jan *", "UTC", "2026-06-10T00:00:00", &["2027-01-01T00:00:00", "2028-01-01T00:00:00"]);
        check("0 0 29 2 *", "UTC", "2026-06-10T00:00:00", &["2028-02-29T00:00:00"]);
        check("59 23 31 * *", "UTC", "2026-06-10T00:00:00", &["2026-07-31T23:59:00", "2026-08-31T23:59:00"]);
        // One kind of day is enough if both are restricted; a star, even with a step, is no restriction.
        check("0 0 13 * fri", "UTC", "2026-06-10T00:00:00", &["2026-06-12T00:00:00", "2026-06-13T00:00:00"]);
        check("0 0 */2 * fri", "UTC", "2026-06-10T00:00:00", &["2026-06-19T00:00:00", "2026-07-03T00:00:00"]);
    }

    #[test]
    fn the_least_gap_counts_over_midnight_too() {
        for (text, gap) in [
            ("0 9 * * *", 1_440),
            ("* * * * *", 1),
            ("*/5 * * * *", 5),
            ("*/7 * * * *", 4), // 56 and 0
            ("0,3 9 * * mon", 3),
            ("0 9,17 * * *", 480),
            ("58 23 * * *", 1_440),
            ("0,58 0,23 * * *", 2),
        ] {
            assert_eq!(Cron::parse(text).expect(text).gap_minutes(), gap, "{text}");
        }
    }

    #[test]
    fn changes_of_the_clock_are_neither_missed_nor_repeated() {
        let berlin = "Europe/Berlin";
        check("30 2 * * *", berlin, "2026-03-28T12:00:00", &["2026-03-29T01:00:00", "2026-03-30T00:30:00"]);
        check("*/30 2 * * *", berlin, "2026-03-28T12:00:00", &["2026-03-29T01:00:00", "2026-03-30T00:00:00"]);
        check("*/30 * * * *", berlin, "2026-03-29T00:45:00", &["2026-03-29T01:00:00", "2026-03-29T01:30:00"]);
        check("30 2 * * *", berlin, "2026-10-24T12:00:00", &["2026-10-25T00:30:00", "2026-10-26T01:30:00"]);
        check("*/30 * * * *", berlin, "2026-10-25T00:15:00", &["2026-10-25T00:30:00", "2026-10-25T02:00:00"]);
        check("*/30 * * * *", berlin, "2026-10-25T01:15:00", &["2026-10-25T02:00:00"]);
        check("*/30 * * * *", "UTC", "2026-10-25T00:15:00", &["2026-10-25T00:30:00", "2026-10-25T01:00:00"]);
    }

    #[test]
    fn faults_name_the_field() {
        let check = |text: &str, message: &str| {
            assert_eq!(
                Cron::parse(text).map_err(|fault| fault.to_string()),
                Err(message.to_owned()),
                "{text}"
            );
        };
        let five = "a schedule has five fields (minute, hour, day of month, month, day of week), not";
        check("", &format!("{five} 0"));
        check("* * * *", &format!("{five} 4"));
        check("0 * * * * *", &format!("{five} 6"));
        check("@daily", &format!("{five} 1"));
        check("0 24 * * *", "in the field hour (0 to 23): 24 is out of range");
        check("0 0 * * funday", "in the field day of week (0 to 7): `funday` is not a value");
        check("0 0 30 2 *", "no day is ever like this");
        check("0 0 31 4,6,9,11 *", "no day is ever like this");
        check(&"*".repeat(CRON_BYTES_MAX + 1), &format!("a schedule has at most {CRON_BYTES_MAX} bytes"));
        assert!(Cron::parse("0 0 30 2 mon").is_ok(), "Mondays of February");
    }

    #[test]
    fn the_calendar_ends() {
        let cron = Cron::parse("0 0 29 2 *").expect("leap days");
        let end = cron.next_after(ZoneNo::NONE, millis("9997-06-10T00:00:00"));
        assert!(end.is_none_or(|end| end > millis("9997-06-10T00:00:00")));
        let working_days = Cron::parse("0 9 * * 1-5").expect("a schedule");
        for now in [253_402_207_200_000, u64::MAX] {
            assert_eq!(
                working_days.next_after(ZoneNo::NONE, Millis(now)),
                None,
                "nothing follows the last day"
            );
        }
        assert!(
            cron.next_after(ZoneNo::NONE, millis("2096-02-29T00:00:00"))
                == Some(millis("2104-02-29T00:00:00"))
        );
        assert_eq!(day_of(date(2026, 6, 10).into()), Some(20_614));
    }
}
