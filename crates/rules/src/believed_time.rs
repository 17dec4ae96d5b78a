//! The time that a node goes by: close to the wall clock, and deaf to its jumps.
//!
//! Comes from: whoever needs the time, with both clocks read together. Decides: the time, whether the wall clock jumped, and
//! whether it is too far ahead to be believed at start. Goes to: records, snoozes, the expiry of keys; a jump goes to the
//! log and the readiness report.
//!
//! The second clock counts the time in which the machine was suspended, so a suspend of any length is no jump. A virtual machine
//! that was paused from outside counts nothing: its wall clock jumps ahead, stays there, and is adopted after a while.
//!
//! What must never happen: two parts of a node that go by different times. There is one of these per node.

use crate::ids::Millis;
use crate::limits::{CLOCK_AHEAD_MS_MAX, CLOCK_JUMP_MS_MAX, CLOCK_SETTLE_MS};

/// Follows the wall clock by what the steady clock says has passed.
#[derive(Clone, Copy, Debug)]
pub struct BelievedTime {
    /// A moment at which wall and steady clock were read together and believed.
    wall: Millis,
    steady: Millis,
    /// How far off the wall clock was when that was last told, and since when on the steady clock, if it still is off.
    told: Option<(Jump, Millis)>,
    /// The wall clock was too far ahead at start, and nobody has confirmed it. Holds the time at the start.
    held_since: Option<Millis>,
}

/// The wall clock is this far from where it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jump {
    pub expected: Millis,
    pub wall: Millis,
}

/// What is worth telling, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    Jumped(Jump),
    CameBack,
    /// It jumped ahead, stayed there, and is followed now.
    Adopted(Jump),
}

/// How the wall clock stands at start, beside the newest time that is known from before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartClock {
    AsExpected,
    /// Leaders write the newest time until the wall clock has passed it.
    Behind {
        by_ms: u64,
    },
    /// The node goes on from the newest time, until the wall clock comes back or is confirmed.
    Held {
        by_ms: u64,
    },
}

impl BelievedTime {
    /// The first reading is believed: there is nothing to compare it with.
    #[must_use]
    pub fn new(wall: Millis, steady: Millis) -> Self {
        Self { wall, steady, told: None, held_since: None }
    }

    /// Compares the wall clock at start with the newest time that is known from before; zero if none is.
    pub fn start_after(&mut self, newest: Millis, wall: Millis, steady: Millis) -> StartClock {
        if let Some(by_ms) = behind_ms(newest, wall) {
            return StartClock::Behind { by_ms };
        }
        let by_ms = wall.since(newest);
        if newest == Millis(0) || by_ms <= CLOCK_AHEAD_MS_MAX {
            return StartClock::AsExpected;
        }
        *self = Self {
            wall: newest,
            steady,
            told: Some((Jump { expected: newest, wall }, steady)),
            held_since: Some(newest),
        };
        StartClock::Held { by_ms }
    }

    /// The time now. Small drifts are followed, jumps are told once and ignored until the wall clock comes back, or has
    /// stayed ahead for long.
    pub fn read(&mut self, wall: Millis, steady: Millis) -> (Millis, Option<News>) {
        let expected = self.wall.plus(steady.since(self.steady));
        let jump = (wall.0.abs_diff(expected.0) > CLOCK_JUMP_MS_MAX).then_some(Jump { expected, wall });
        let (believed, told, news) = match (self.told, jump) {
            (None, None) => (wall, None, None),
            (Some(_), None) => (wall, None, Some(News::CameBack)),
            (Some(_), Some(jump)) if self.held_since.is_some() && jump.is_small_step_ahead() => {
                (wall, None, Some(News::CameBack))
            }
            (Some((told, since)), Some(jump)) if !jump.differs_from(told) => {
                let has_settled = steady.since(since) >= CLOCK_SETTLE_MS && jump.is_small_step_ahead();
                match has_settled {
                    true => (wall, None, Some(News::Adopted(jump))),
                    false => (expected, self.told, None),
                }
            }
            (None | Some(_), Some(jump)) => (expected, Some((jump, steady)), Some(News::Jumped(jump))),
        };
        if told.is_none() {
            self.held_since = None;
        }
        (self.wall, self.steady, self.told) = (believed, steady, told);
        (believed, news)
    }

    /// An operator says that the wall clock is right. Returns how far off it was.
    pub fn accept(&mut self, wall: Millis, steady: Millis) -> Option<Jump> {
        let before = self.jump();
        *self = Self::new(wall, steady);
        before
    }

    /// How far off the wall clock is, if it is.
    #[must_use]
    pub fn jump(&self) -> Option<Jump> {
        self.told.map(|(jump, _)| jump)
    }

    /// The time at the start, if the wall clock was too far ahead then and is not believed yet. What was accepted before
    /// neither expires nor is sent late on the word of such a clock, and nothing is deleted.
    #[must_use]
    pub fn held_since(&self) -> Option<Millis> {
        self.held_since
    }
}

impl Jump {
    /// Positive if the wall clock is ahead.
    #[must_use]
    pub fn offset_ms(self) -> i64 {
        self.wall.0.cast_signed().wrapping_sub(self.expected.0.cast_signed())
    }

    /// Whether it is ahead by no more than a node believes at a start.
    fn is_small_step_ahead(&self) -> bool {
        (0..=CLOCK_AHEAD_MS_MAX.cast_signed()).contains(&self.offset_ms())
    }

    /// Whether the wall clock jumped again since.
    fn differs_from(&self, told: Jump) -> bool {
        self.offset_ms().abs_diff(told.offset_ms()) > CLOCK_JUMP_MS_MAX
    }
}

/// How far a node that starts finds the wall clock behind its newest record, if that is too far.
fn behind_ms(newest_record: Millis, wall: Millis) -> Option<u64> {
    Some(newest_record.since(wall)).filter(|behind| *behind > CLOCK_JUMP_MS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_followed_and_jumps_are_told_once_and_ignored() {
        let mut time = BelievedTime::new(Millis(1_000_000), Millis(0));
        let jumped =
            |expected, wall| Some(News::Jumped(Jump { expected: Millis(expected), wall: Millis(wall) }));
        // (wall, monotonic, time, news)
        for (wall, monotonic, expected, news) in [
            (1_000_100, 100, 1_000_100, None),
            (1_000_150, 200, 1_000_150, None), // a little slow: followed
            (1_000_100, 300, 1_000_100, None), // a little back: followed, records have their own guard
            (9_000_000, 400, 1_000_200, jumped(1_000_200, 9_000_000)),
            (9_000_100, 500, 1_000_300, None), // still ahead: told already
            (9_030_100, 600, 1_000_400, None), // a drift of what is not believed
            (5_000_000, 700, 1_000_500, jumped(1_000_500, 5_000_000)), // another jump
            (1_000_650, 800, 1_000_650, Some(News::CameBack)),
            (500_000, 900, 1_000_750, jumped(1_000_750, 500_000)),
            (500_100, 1_000, 1_000_850, None),
        ] {
            assert_eq!(time.read(Millis(wall), Millis(monotonic)), (Millis(expected), news), "wall {wall}");
        }
        assert!(time.jump().is_some_and(|jump| jump.offset_ms() < 0));
    }

    const DAY_MS: u64 = 86_400_000;
    const NEWEST: Millis = Millis(1_700_000_000_000);

    // fixes: correctness A12
    #[test]
    fn a_clock_years_ahead_at_start_is_not_believed_until_it_is_confirmed_or_comes_back() {
        let far = NEWEST.plus(5 * 365 * DAY_MS);
        let held = || {
            let mut time = BelievedTime::new(far, Millis(0));
            let held = StartClock::Held { by_ms: 5 * 365 * DAY_MS };
            assert_eq!(time.start_after(NEWEST, far, Millis(0)), held);
            assert_eq!(
                time.read(far.plus(7), Millis(7)),
                (NEWEST.plus(7), None),
                "time passes from the newest record on"
            );
            assert_eq!(time.held_since(), Some(NEWEST));
            time
        };
        let mut settled = held();
        let later = CLOCK_SETTLE_MS * 2;
        assert_eq!(
            settled.read(far.plus(later), Millis(later)),
            (NEWEST.plus(later), None),
            "however long it stays"
        );
        assert_eq!(settled.held_since(), Some(NEWEST));

        let mut confirmed = held();
        assert_eq!(confirmed.accept(far.plus(9), Millis(9)).map(|jump| jump.wall), Some(far));
        assert_eq!((confirmed.held_since(), confirmed.jump()), (None, None));
        assert_eq!(confirmed.read(far.plus(10), Millis(10)), (far.plus(10), None));

        let mut back = held();
        let right = NEWEST.plus(3 * DAY_MS);
        assert_eq!(back.read(right, Millis(20)), (right, Some(News::CameBack)));
        assert_eq!(back.held_since(), None);
    }

    // fixes: correctness A12
    #[test]
    fn at_start_a_week_is_believed_and_an_empty_directory_has_no_opinion() {
        for (newest, ahead_ms, expected) in [
            (Millis(0), NEWEST.0, StartClock::AsExpected),
            (NEWEST, 0, StartClock::AsExpected),
            (NEWEST, CLOCK_AHEAD_MS_MAX, StartClock::AsExpected),
            (NEWEST, CLOCK_AHEAD_MS_MAX + 1, StartClock::Held { by_ms: CLOCK_AHEAD_MS_MAX + 1 }),
        ] {
            let wall = newest.plus(ahead_ms);
            let found = BelievedTime::new(wall, Millis(0)).start_after(newest, wall, Millis(0));
            assert_eq!(found, expected, "{ahead_ms}");
        }
    }

    // fixes: correctness A12, security L8
    #[test]
    fn after_a_pause_of_the_machine_the_right_time_is_adopted() {
        // A suspend: the steady clock counts it.
        let mut time = BelievedTime::new(NEWEST, Millis(0));
        let slept = 400 * DAY_MS;
        assert_eq!(time.read(NEWEST.plus(slept), Millis(slept)), (NEWEST.plus(slept), None));
        // A virtual machine that was paused from outside: the steady clock stood still.
        let mut time = BelievedTime::new(NEWEST, Millis(0));
        let offset = 6 * DAY_MS;
        let (_, news) = time.read(NEWEST.plus(offset + 1), Millis(1));
        assert!(matches!(news, Some(News::Jumped(_))), "{news:?}");
        let almost = CLOCK_SETTLE_MS;
        assert_eq!(time.read(NEWEST.plus(offset + almost), Millis(almost)), (NEWEST.plus(almost), None));
        let (now, news) = time.read(NEWEST.plus(offset + almost + 1), Millis(almost + 1));
        assert_eq!(now, NEWEST.plus(offset + almost + 1));
        assert!(matches!(news, Some(News::Adopted(_))), "{news:?}");
        assert_eq!(time.jump(), None);
        // Further ahead than a week, or behind: never without a word.
        for (ahead, wall) in [(true, NEWEST.plus(8 * DAY_MS)), (false, Millis(NEWEST.0 - DAY_MS))] {
            let mut time = BelievedTime::new(NEWEST, Millis(0));
            time.read(wall.plus(1), Millis(1));
            let later = 10 * CLOCK_SETTLE_MS;
            assert_eq!(time.read(wall.plus(later), Millis(later)).0, NEWEST.plus(later), "ahead: {ahead}");
        }
    }

    #[test]
    fn a_clock_far_behind_the_newest_record_is_found_at_start() {
        for (newest, wall, expected) in [
            (0, 1_000_000, None),
            (1_000_000, 1_000_000, None),
            (1_060_000, 1_000_000, None),
            (1_060_001, 1_000_000, Some(60_001)),
        ] {
            assert_eq!(behind_ms(Millis(newest), Millis(wall)), expected, "{newest}");
        }
    }
}
