//! When a sender's next segment may leave. Places are given out in the order in which they are asked for; whoever would
//! have to wait beyond its deadline is told when there will be room, and takes no place.
//!
//! What must never happen: more than one second's worth at once, or more than the rate over any longer time.

use fantail_rules::ids::Millis;
use fantail_rules::pacing::Slots;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    per_second: u64,
    /// When everything that has a place will have been sent, in microseconds.
    busy_until_us: u64,
    /// Nothing leaves before.
    paused_until: Millis,
    /// Of those that found no place in time.
    slots: Slots,
}

/// Why there is no place in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoPlace {
    /// The sender is left alone for so long.
    Paused { after_ms: u64 },
    /// Others go first: it is worth coming back after so long.
    Full { after_ms: u64 },
}

impl Pace {
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        Self {
            per_second: u64::from(per_second.max(1)),
            busy_until_us: 0,
            paused_until: Millis(0),
            slots: Slots::default(),
        }
    }

    /// When so many segments may leave.
    pub fn reserve(&mut self, now: Millis, segments: usize, start_by: Millis) -> Result<Millis, NoPlace> {
        if self.paused_until > start_by {
            return Err(NoPlace::Paused { after_ms: self.paused_until.since(now) });
        }
        let begins = now.max(self.paused_until);
        let begins_us = begins.0.saturating_mul(1_000);
        let busy_until_us = self.busy_until_us.max(begins_us);
        let cost_us = (segments as u64).saturating_mul(1_000_000) / self.per_second;
        // Up to a second's worth may leave at once. One message that is more goes when nothing is before it, and those
        // behind it wait longer.
        let place_us = busy_until_us.saturating_add(cost_us.min(1_000_000)).saturating_sub(1_000_000);
        let starts = Millis(place_us.div_ceil(1_000)).max(begins);
        if starts > start_by {
            return Err(NoPlace::Full { after_ms: self.slots.book(now, starts, cost_us) });
        }
        self.busy_until_us = busy_until_us.saturating_add(cost_us);
        Ok(starts)
    }

    pub fn pause(&mut self, until: Millis) {
        self.paused_until = self.paused_until.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Millis = Millis(50_000);
    const NEVER: Millis = Millis(u64::MAX);

    // proves: SMS-04
    #[test]
    fn places_are_given_out_at_the_rate() {
        let mut pace = Pace::new(2);
        let starts: Vec<u64> =
            (0..5).map(|_| pace.reserve(NOW, 1, NEVER).expect("a place").since(NOW)).collect();
        assert_eq!(starts, [0, 0, 500, 1_000, 1_500]);
        let mut slow = Pace::new(1);
        let starts: Vec<u64> =
            [3, 1, 1].map(|segments| slow.reserve(NOW, segments, NEVER).expect("a place").since(NOW)).into();
        assert_eq!(starts, [0, 3_000, 4_000], "three segments keep the sender busy for three seconds");
    }

    // proves: SMS-04
    #[test]
    fn what_does_not_fit_takes_no_place_and_is_told_when() {
        let mut pace = Pace::new(1);
        assert_eq!(pace.reserve(NOW, 1, NOW.plus(500)), Ok(NOW));
        for after_ms in [0, 1_000, 2_000] {
            assert_eq!(pace.reserve(NOW, 1, NOW.plus(500)), Err(NoPlace::Full { after_ms }));
        }
        assert_eq!(pace.reserve(NOW, 1, NOW.plus(1_000)), Ok(NOW.plus(1_000)));
    }

    #[test]
    fn a_pause_holds_everything_back() {
        let mut pace = Pace::new(10);
        pace.pause(NOW.plus(60_000));
        let paused = NoPlace::Paused { after_ms: 60_000 };
        assert_eq!(pace.reserve(NOW, 1, NOW.plus(1_000)), Err(paused));
        assert_eq!(pace.reserve(NOW.plus(60_000), 1, NEVER), Ok(NOW.plus(60_000)));
    }

    proptest! {
        #[test]
        fn never_faster_than_the_rate(
            per_second in 1_u32..50,
            asks in proptest::collection::vec((0_u64..400, 1_usize..6), 1..200),
        ) {
            let mut pace = Pace::new(per_second);
            let mut now = NOW;
            let mut sent: Vec<(u64, usize)> = Vec::new();
            for (step, segments) in asks {
                now = now.plus(step);
                if let Ok(starts) = pace.reserve(now, segments, now.plus(5_000)) {
                    prop_assert!(starts >= now);
                    sent.push((starts.0, segments));
                }
            }
            for (first, (from, _)) in sent.iter().enumerate() {
                let mut total = 0;
                for (at, segments) in &sent[first..] {
                    // The last one may be larger than what is left of its second.
                    let allowed = u64::from(per_second) * (at - from + 1_001) / 1_000 + 5;
                    total += *segments as u64;
                    prop_assert!(total <= allowed + *segments as u64, "{total} > {allowed}");
                }
            }
        }
    }
}
