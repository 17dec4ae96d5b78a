//! The time that a node goes by: close to the wall clock, and deaf to its jumps.
//!
//! Comes from: whoever needs the time, with both clocks read together. Decides: the time, and whether the wall clock
//! jumped. Goes to: records, snoozes, the expiry of keys; a jump goes to the log and the readiness report.
//!
//! What must never happen: two parts of a node that go by different times. There is one of these per node.

use crate::ids::Millis;
use crate::limits::CLOCK_JUMP_MS_MAX;

/// Follows the wall clock by what the monotonic clock says has passed.
#[derive(Clone, Copy, Debug)]
pub struct BelievedTime {
    /// A moment at which wall and monotonic clock were read together and believed.
    wall: Millis,
    monotonic: Millis,
    /// How far off the wall clock was when that was last told, if it still is off.
    told: Option<Jump>,
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
}

impl BelievedTime {
    /// The first reading is believed: there is nothing to compare it with.
    #[must_use]
    pub fn new(wall: Millis, monotonic: Millis) -> Self {
        Self { wall, monotonic, told: None }
    }

    /// The time now. Small drifts are followed, jumps are told once and ignored until the wall clock comes back.
    pub fn read(&mut self, wall: Millis, monotonic: Millis) -> (Millis, Option<News>) {
        let expected = self.wall.plus(monotonic.since(self.monotonic));
        let jump = (wall.0.abs_diff(expected.0) > CLOCK_JUMP_MS_MAX).then_some(Jump { expected, wall });
        self.wall = if jump.is_some() { expected } else { wall };
        self.monotonic = monotonic;
        let news = match (self.told, jump) {
            (None, None) => None,
            (Some(_), None) => Some(News::CameBack),
            (Some(told), Some(jump)) if !jump.differs_from(told) => return (self.wall, None),
            (None | Some(_), Some(jump)) => Some(News::Jumped(jump)),
        };
        self.told = jump;
        (self.wall, news)
    }

    /// How far off the wall clock is, if it is.
    #[must_use]
    pub fn jump(&self) -> Option<Jump> {
        self.told
    }
}

impl Jump {
    /// Positive if the wall clock is ahead.
    #[must_use]
    pub fn offset_ms(&self) -> i64 {
        self.wall.0.cast_signed().wrapping_sub(self.expected.0.cast_signed())
    }

    /// Whether the wall clock jumped again since.
    fn differs_from(&self, told: Jump) -> bool {
        self.offset_ms().abs_diff(told.offset_ms()) > CLOCK_JUMP_MS_MAX
    }
}

/// How far a node that starts finds the wall clock behind its newest record, if that is too far. Its leaders write
/// the newest record's time until the wall clock has passed it.
#[must_use]
pub fn behind_ms(newest_record: Millis, wall: Millis) -> Option<u64> {
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
