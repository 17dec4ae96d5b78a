//! The time that records carry: monotone per partition, close to the wall clock, and deaf to its jumps.
//!
//! Comes from: the leader, before it plans a batch. Decides: the batch's time, and whether the wall clock jumped.
//! Goes to: every record of the batch; a jump goes to the log and the readiness report.

use crate::ids::Millis;
use crate::limits::CLOCK_JUMP_MS_MAX;

/// Follows the wall clock by what the monotonic clock says has passed.
#[derive(Clone, Copy, Debug)]
pub struct LeaderTime {
    last: Millis,
    /// A moment at which wall and monotonic clock were read together and believed.
    wall: Millis,
    monotonic: Millis,
}

/// The wall clock is this far from where it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jump {
    pub expected: Millis,
    pub wall: Millis,
}

impl LeaderTime {
    /// `last` is the time of the partition's last record: the new leader continues from there at the earliest.
    #[must_use]
    pub fn new(last: Millis, wall: Millis, monotonic: Millis) -> Self {
        Self { last, wall, monotonic }
    }

    /// The time of the next batch. Small drifts are followed, jumps are reported and ignored until the wall
    /// clock comes back.
    pub fn tick(&mut self, wall: Millis, monotonic: Millis) -> (Millis, Option<Jump>) {
        let expected = self.wall.plus(monotonic.since(self.monotonic));
        let jumped = wall.0.abs_diff(expected.0) > CLOCK_JUMP_MS_MAX;
        let believed = if jumped { expected } else { wall };
        self.wall = believed;
        self.monotonic = monotonic;
        self.last = self.last.max(believed);
        (self.last, jumped.then_some(Jump { expected, wall }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_followed_and_jumps_are_not() {
        let mut time = LeaderTime::new(Millis(0), Millis(1_000_000), Millis(0));
        // (wall, monotonic, expected time, jump?)
        for (wall, monotonic, expected, jump) in [
            (1_000_100, 100, 1_000_100, false),
            (1_000_150, 200, 1_000_150, false), // a little slow: followed
            (1_000_100, 300, 1_000_150, false), // a little back: never goes back
            (9_000_000, 400, 1_000_200, true),  // a jump ahead: ignored
            (1_000_350, 500, 1_000_350, false), // back to normal
            (500_000, 600, 1_000_450, true),    // a jump back: ignored
        ] {
            let (now, jumped) = time.tick(Millis(wall), Millis(monotonic));
            assert_eq!((now, jumped.is_some()), (Millis(expected), jump), "wall {wall}");
        }
    }

    #[test]
    fn a_new_leader_with_a_slow_clock_continues_from_the_last_record() {
        let mut time = LeaderTime::new(Millis(5_000), Millis(1_000), Millis(0));
        assert_eq!(time.tick(Millis(1_010), Millis(10)).0, Millis(5_000));
    }
}
