//! Schedules around every change of clocks from 2020 to 2037, against the judge: every minute of the calendar that a
//! schedule names comes at the first instant at which the clock shows it or more, found by walking minute after minute.

mod judge;

use fantail_rules::schedule::Cron;
use fantail_rules::wall::{Wall, first_instant};
use fantail_rules::zone::ZoneNo;
use judge::{AROUND, BEFORE, Change, DAY, FROM, Judge, UNTIL, millis, shows};
use std::collections::BTreeSet;

/// How long after a change the judge lists what comes.
const LISTED: i64 = 3 * DAY;

/// A schedule, and what it means.
type Named = (&'static str, fn(&tz::UtcDateTime) -> bool);

const SCHEDULES: [Named; 8] = [
    ("30 2 * * *", |at| at.hour() == 2 && at.minute() == 30),
    ("*/20 * * * *", |at| at.minute() % 20 == 0),
    ("15 0-3 * * *", |at| at.minute() == 15 && at.hour() <= 3),
    ("0 0 * * sun", |at| at.minute() == 0 && at.hour() == 0 && at.week_day() == 0),
    ("45 23,0,1 * * 1-6", |at| at.minute() == 45 && [23, 0, 1].contains(&at.hour()) && at.week_day() != 0),
    ("0 9 1 * mon", |at| at.minute() == 0 && at.hour() == 9 && (at.month_day() == 1 || at.week_day() == 1)),
    ("59 */6 * mar,Oct *", |at| at.minute() == 59 && at.hour() % 6 == 0 && [3, 10].contains(&at.month())),
    ("7/8 2 */2 * *", |at| {
        at.minute() >= 7 && (at.minute() - 7) % 8 == 0 && at.hour() == 2 && at.month_day() % 2 == 1
    }),
];

// proves: SCH-01, SCH-02
#[test]
fn schedules_come_as_the_judge_finds_them() {
    let schedules = SCHEDULES.map(|(text, is_named)| (text, Cron::parse(text).expect(text), is_named));
    let mut asked = 0;
    for (zone, judge, change) in distinct_changes() {
        let first = change.at - AROUND - BEFORE;
        let walls = judge.walls(first..=change.at + LISTED);
        for (text, cron, is_named) in &schedules {
            let dues = dues(&walls, *is_named);
            for now in (change.at - AROUND..=change.at + AROUND).step_by(4) {
                let due = dues.iter().map(|place| first + *place as i64).find(|due| *due > now);
                let answer = cron.next_after(zone, millis(now)).expect("it has rules");
                match due {
                    Some(due) => assert_eq!(answer, millis(due), "{:?} {text} {now} {change:?}", zone.name()),
                    None => assert!(answer > millis(change.at + LISTED), "{:?} {text} {now}", zone.name()),
                }
                asked += 1;
            }
        }
    }
    assert!(asked > 700_000, "{asked} questions");
}

// proves: SCH-01
#[test]
fn local_times_come_as_the_judge_finds_them() {
    for (zone, judge, change) in distinct_changes() {
        let first = change.at - AROUND - BEFORE;
        let walls = judge.walls(first..=change.at + LISTED);
        let around = change.at + change.offsets[1];
        let mut place = 0;
        for wall in around - AROUND..=around + AROUND {
            place = shows(&walls, wall, place);
            let comes_at = first_instant(zone, Wall::of(0, wall));
            assert_eq!(comes_at, Some(millis(first + place as i64)), "{:?} {wall} {change:?}", zone.name());
        }
    }
}

/// Every change of a clock, with the first zone that makes it.
fn distinct_changes() -> Vec<(ZoneNo, Judge, Change)> {
    let mut seen = BTreeSet::new();
    let mut distinct = Vec::new();
    for zone in ZoneNo::all() {
        let name = zone.name().expect("it is listed");
        for change in Judge::new(name).changes(FROM..UNTIL) {
            if seen.insert(change.clone()) {
                distinct.push((zone, Judge::new(name), change));
            }
        }
    }
    assert!(distinct.len() > 1_000, "{} changes", distinct.len());
    distinct
}

/// The places at which something that is named comes, each once.
fn dues(walls: &[i64], is_named: fn(&tz::UtcDateTime) -> bool) -> Vec<usize> {
    let (low, high) = (walls[0], *walls.iter().max().expect("one at least"));
    let named = (low + 1..=high).filter(|wall| {
        is_named(&tz::UtcDateTime::from_timespec(wall * 60, 0).expect("a time of these years"))
    });
    let mut places = Vec::new();
    let mut place = 0;
    for wall in named {
        place = shows(walls, wall, place);
        places.push(place);
    }
    places.dedup();
    places
}
