//! When something planned is due: at a local time, off peak, or again and again.
//!
//! Comes from: what a producer asked for and the zone of a recipient. Decides: an instant. Goes to: a timer of the shard,
//! as a fact: what the tzdb says later does not move what is planned already, except the next run of a recurring schedule.
//!
//! Everything here is about wall time and follows the one sentence of `wall`: skipped times come when the clock is put
//! forward, repeated times count once. Who has no zone has UTC: late or early by some hours is better than never.

mod appointment;
mod cron;
mod field;
mod off_peak;
mod recurrence;

pub use appointment::{Appointment, Slot};
pub use cron::{Cron, CronFault};
pub use field::{Field, FieldFault};
pub use off_peak::off_peak_from;
pub use recurrence::{CatchUp, Recurrence, ScheduleClock};

use crate::digest::Calendar;
use crate::quiet::Days;
use crate::wall::{Wall, parse_minute, show_minute};
use jiff::ToSpan;
use jiff::civil::{DateTime, date};
use std::fmt;

/// `sendAtLocal`: a time on the recipient's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendAtLocal {
    /// `2026-12-24T18:00`: on that day.
    On(Wall),
    /// `18:00`: the next time the clock shows it.
    Next(Calendar),
}

impl SendAtLocal {
    /// `None` if it is neither `YYYY-MM-DDTHH:MM` nor `HH:MM`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let Some((date, time)) = text.split_once('T') else {
            return Calendar::new(parse_minute(text)?, Days::ALL).map(Self::Next);
        };
        let minute = parse_minute(time)?;
        let is_plain = date.len() == 10 && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let midnight: DateTime = date.parse().ok().filter(|_| is_plain)?;
        Some(Self::On(Wall::of(day_of(midnight)?, i64::from(minute))))
    }
}

/// As it is written in requests.
impl fmt::Display for SendAtLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(wall) => {
                let day = date(1970, 1, 1).saturating_add(wall.day().days());
                write!(f, "{day}T{}", show_minute(wall.minute()))
            }
            Self::Next(calendar) => write!(f, "{}", show_minute(calendar.minute())),
        }
    }
}

/// Days since 1970-01-01. `None` for the last day of the year 9999, which does not come in every zone.
fn day_of(midnight: DateTime) -> Option<i64> {
    let seconds = jiff::tz::Offset::UTC.to_timestamp(midnight).ok()?.as_second();
    Some(seconds.div_euclid(86_400))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Millis;
    use crate::zone::ZoneNo;

    fn millis(utc: &str) -> Millis {
        let timestamp: jiff::Timestamp = format!("{utc}:00Z").parse().expect("a time");
        Millis(u64::try_from(timestamp.as_millisecond()).expect("after 1970"))
    }

    // proves: SCH-01
    #[test]
    fn everybody_gets_it_at_their_own_time() {
        let check = |text: &str, zone: &str, now: &str, due: &str| {
            let local = SendAtLocal::parse(text).expect("a local time");
            assert_eq!(local.to_string(), text);
            let zone = ZoneNo::find(zone).unwrap_or(ZoneNo::NONE);
            let slot = Appointment::At(local).slot(zone, millis(now), Millis(u64::MAX), millis(now));
            assert_eq!(slot.from, millis(due), "{text} {zone:?}");
        };
        check("2026-12-24T18:00", "Asia/Tokyo", "2026-12-01T00:00", "2026-12-24T09:00");
        check("2026-12-24T18:00", "America/New_York", "2026-12-01T00:00", "2026-12-24T23:00");
        check("2026-12-24T18:00", "nowhere", "2026-12-01T00:00", "2026-12-24T18:00");
        check("2026-12-24T18:00", "Asia/Tokyo", "2026-12-24T12:00", "2026-12-24T09:00"); // passed: at once
        check("2026-03-29T02:30", "Europe/Berlin", "2026-03-01T00:00", "2026-03-29T01:00");
        check("2026-10-25T02:30", "Europe/Berlin", "2026-03-01T00:00", "2026-10-25T00:30");
        check("18:00", "Asia/Tokyo", "2026-12-01T00:00", "2026-12-01T09:00");
        check("18:00", "Asia/Tokyo", "2026-12-01T09:00", "2026-12-02T09:00");
    }

    // fixes: usability C4
    #[test]
    fn what_is_no_local_time_is_refused() {
        for text in [
            "",
            "18",
            "T18:00",
            "2026-12-24",
            "2026-12-24 18:00",
            "2026-12-24T18:00:00",
            "2026-12-24T18:00Z",
            "2026-12-24T18:00+01:00",
            "2026-02-30T18:00",
            "2026-12-24T24:00",
            "+002026-12-24T18:00",
            "20261224T18:00",
            "2026-12-2418T18:00",
            "9999-12-31T00:00",
            "9999-12-31T23:59",
        ] {
            assert_eq!(SendAtLocal::parse(text), None, "{text}");
        }
    }
}
