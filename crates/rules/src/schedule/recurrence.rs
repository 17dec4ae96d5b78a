//! A recurring schedule: when its runs are, and what becomes of those that nobody was there for.
//!
//! Comes from: what a tenant set up, and the clock. Decides: the next run, and after a stop which one is made up for. Goes to: the
//! root, which writes the next run down as a fact.
//!
//! On the recipients' clock a run is issued when the first clock on earth shows its time; everybody's delivery waits from there
//! by `Appointment`. What must never happen: two runs for one minute of the schedule.

use super::appointment::first_zone;
use super::{Cron, SendAtLocal};
use crate::ids::Millis;
use crate::limits::SCHEDULE_LATE_MS_MAX;
use crate::wall::Stretch;
use crate::zone::ZoneNo;

/// How long after the first clock on earth the last one shows the same.
const EARTH_MS: u64 = 26 * 3_600_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recurrence {
    pub cron: Cron,
    pub clock: ScheduleClock,
    /// No run is before this.
    pub starts: Option<Millis>,
    /// No run is at or after this.
    pub ends: Option<Millis>,
}

/// Whose clock shows the time of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScheduleClock {
    Zone(ZoneNo),
    /// Everybody's own.
    Recipient,
}

/// What is to be done about a schedule that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CatchUp {
    /// The run that is issued now; those before it are left out.
    pub run: Option<Millis>,
    /// Everything up to here is dealt with by that.
    pub through: Millis,
}

impl ScheduleClock {
    fn zone(self) -> ZoneNo {
        match self {
            Self::Zone(zone) => zone,
            Self::Recipient => first_zone(),
        }
    }

    /// How late a run may be issued. On the recipients' clocks it is of use as long as its time lies ahead somewhere; whose
    /// time to live is over is not told.
    fn late_ms_max(self) -> u64 {
        match self {
            Self::Zone(_) => SCHEDULE_LATE_MS_MAX,
            Self::Recipient => EARTH_MS,
        }
    }
}

impl Recurrence {
    /// The first run after this. `None` if there is none any more.
    #[must_use]
    pub fn first_after(&self, after: Millis) -> Option<Millis> {
        let starts = self.starts.unwrap_or_default();
        let after = after.max(Millis(starts.0.saturating_sub(1)));
        let next = self.cron.next_after(self.clock.zone(), after)?;
        self.ends.is_none_or(|ends| next < ends).then_some(next)
    }

    /// The next runs, so many at most.
    #[must_use]
    pub fn runs(&self, after: Millis, limit: usize) -> Vec<Millis> {
        std::iter::successors(self.first_after(after), |run| self.first_after(*run)).take(limit).collect()
    }

    /// Of the runs from `due` until now the latest is made up for, if it is not too late for it.
    #[must_use]
    pub fn catch_up(&self, due: Millis, now: Millis) -> CatchUp {
        let earliest = Millis(now.0.saturating_sub(self.clock.late_ms_max())).max(due);
        let runs = std::iter::successors(self.first_after(Millis(earliest.0.saturating_sub(1))), |run| {
            self.first_after(*run)
        });
        let run = runs.take_while(|run| *run <= now).last();
        CatchUp { run, through: run.unwrap_or(now) }
    }

    /// The time of a run on everybody's own clock, if that is what counts.
    #[must_use]
    pub fn local_time(&self, run: Millis) -> Option<SendAtLocal> {
        match self.clock {
            ScheduleClock::Zone(_) => None,
            ScheduleClock::Recipient => {
                Stretch::find(first_zone(), run).map(|stretch| SendAtLocal::On(stretch.wall(run)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Appointment;

    fn millis(utc: &str) -> Millis {
        let timestamp: jiff::Timestamp = format!("{utc}:00Z").parse().expect("a time");
        Millis(u64::try_from(timestamp.as_millisecond()).expect("after 1970"))
    }

    fn every(cron: &str, zone: &str) -> Recurrence {
        let clock = ZoneNo::find(zone).map_or(ScheduleClock::Recipient, ScheduleClock::Zone);
        Recurrence { cron: Cron::parse(cron).expect("a schedule"), clock, starts: None, ends: None }
    }

    // proves: SCH-02
    #[test]
    fn runs_lie_between_start_and_end() {
        let mut daily = every("0 9 * * *", "Europe/Vienna");
        daily.starts = Some(millis("2026-10-24T07:00"));
        daily.ends = Some(millis("2026-10-27T08:00"));
        let expected = ["2026-10-24T07:00", "2026-10-25T08:00", "2026-10-26T08:00"].map(millis);
        assert_eq!(daily.runs(millis("2026-01-01T00:00"), 9), expected, "across the end of summer time");
        assert_eq!(daily.runs(millis("2026-01-01T00:00"), 2), expected[..2]);
        assert_eq!(daily.first_after(expected[2]), None);
    }

    // proves: SCH-02
    #[test]
    fn the_latest_run_is_made_up_for_if_it_is_not_too_late() {
        let check = |cron: &str, zone: &str, due: &str, now: &str, run: Option<&str>| {
            let found = every(cron, zone).catch_up(millis(due), millis(now));
            let through = millis(run.unwrap_or(now));
            assert_eq!(found, CatchUp { run: run.map(millis), through }, "{cron} {due} {now}");
        };
        let (daily, often) = ("0 9 * * *", "*/15 * * * *");
        check(daily, "UTC", "2026-06-10T09:00", "2026-06-10T09:00", Some("2026-06-10T09:00"));
        check(daily, "UTC", "2026-06-10T09:00", "2026-06-10T10:00", Some("2026-06-10T09:00"));
        check(daily, "UTC", "2026-06-10T09:00", "2026-06-10T10:01", None);
        // Down for days: the latest one, once.
        check(daily, "UTC", "2026-06-07T09:00", "2026-06-10T09:20", Some("2026-06-10T09:00"));
        check(often, "UTC", "2026-06-07T09:00", "2026-06-10T09:20", Some("2026-06-10T09:15"));
        check(often, "UTC", "2026-06-10T09:15", "2026-06-10T09:15", Some("2026-06-10T09:15"));
        // Nine o'clock begins in Kiritimati, at 19:00 of the day before, and ends 26 hours later.
        check(daily, "", "2026-06-10T19:00", "2026-06-11T21:00", Some("2026-06-11T19:00"));
        check(daily, "", "2026-06-10T19:00", "2026-06-11T18:59", Some("2026-06-10T19:00"));
        check("0 9 * * mon", "", "2026-06-14T19:00", "2026-06-15T21:01", None);
    }

    // proves: SCH-01, SCH-02
    #[test]
    fn everybody_has_the_time_of_a_run_on_their_own_clock() {
        let daily = every("30 8 * * mon", "");
        let run = daily.first_after(millis("2026-06-10T00:00")).expect("there is one");
        assert_eq!(run, millis("2026-06-14T18:30"));
        let local = daily.local_time(run).expect("everybody's own");
        assert_eq!(local.to_string(), "2026-06-15T08:30");
        assert_eq!(Appointment::At(local).earliest(), Some(run), "it is issued when it begins somewhere");
        assert_eq!(every("30 8 * * mon", "UTC").local_time(run), None);
    }
}
