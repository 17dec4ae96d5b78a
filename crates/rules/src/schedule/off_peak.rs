//! Off-peak windows: what may only be sent at some times of the recipient's day.
//!
//! The opposite of quiet hours, with the same windows: inside is now, outside is when the next one begins.

use crate::digest::Calendar;
use crate::ids::Millis;
use crate::quiet::{Window, quiet_until_at};
use crate::wall::LocalNow;
use crate::zone::ZoneNo;

/// Windows that are tried: a week of them, and those that daylight saving leaves nothing of.
const WINDOWS_MAX: usize = 10;

/// The first instant from `now` on that lies in the window.
#[must_use]
pub fn off_peak_from(window: Window, zone: ZoneNo, now: Millis) -> Millis {
    let zone = zone.or_utc();
    let is_inside =
        |at: Millis| LocalNow::new(zone, at).is_none_or(|local| quiet_until_at(window, &local).is_some());
    let Some(starts) = Calendar::new(window.times().start_minute, window.days()) else { return now };
    let mut at = now;
    for _ in 0..WINDOWS_MAX {
        if is_inside(at) {
            break;
        }
        at = starts.next_after(zone, at);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quiet::{Days, Times};
    use crate::wall::parse_minute;

    fn millis(utc: &str) -> Millis {
        let timestamp: jiff::Timestamp = format!("{utc}:00Z").parse().expect("a time");
        Millis(u64::try_from(timestamp.as_millisecond()).expect("after 1970"))
    }

    // proves: SCH-02
    #[test]
    fn it_waits_for_the_next_window() {
        let check = |start: &str, end: &str, days: Days, now: &str, from: &str| {
            let minute = |text| parse_minute(text).expect("a time of day");
            let times = Times { start_minute: minute(start), end_minute: minute(end) };
            let window = Window::new(times, days).expect("a window");
            let berlin = ZoneNo::find("Europe/Berlin").expect("a zone");
            assert_eq!(off_peak_from(window, berlin, millis(now)), millis(from), "{start} {end} {now}");
        };
        check("01:00", "05:00", Days::ALL, "2026-06-10T12:00", "2026-06-10T23:00");
        check("01:00", "05:00", Days::ALL, "2026-06-10T23:00", "2026-06-10T23:00");
        check("01:00", "05:00", Days::ALL, "2026-06-11T02:59", "2026-06-11T02:59");
        check("01:00", "05:00", Days::ALL, "2026-06-11T03:00", "2026-06-11T23:00");
        check("22:00", "06:00", Days::ALL, "2026-06-11T03:00", "2026-06-11T03:00");
        check("10:00", "12:00", Days::WEEKEND, "2026-06-10T09:00", "2026-06-13T08:00");
        check("00:00", "00:00", Days::ALL, "2026-06-10T09:00", "2026-06-10T09:00");
        // 2026-03-29 has nothing between 02:00 and 03:00.
        check("02:15", "02:45", Days::ALL, "2026-03-28T12:00", "2026-03-30T00:15");
        check("02:15", "03:15", Days::ALL, "2026-03-28T12:00", "2026-03-29T01:00");
    }
}
