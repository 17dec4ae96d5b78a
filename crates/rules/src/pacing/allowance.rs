//! How much a producer may still ask for.
//!
//! Comes from: every request that makes work, with what it costs. Decides: whether it may be asked for now, and if not,
//! when. Goes to: acceptance, or 429 with the wait.
//!
//! What must never happen: a request that can never be served. One that costs more than the burst is let in by a full
//! allowance and leaves a debt that the rate pays off, so over time the rate holds whatever the requests' sizes are.

use super::Rate;
use crate::ids::Millis;

const TOKEN: u64 = 1_000_000;

/// What was used and has not come back yet. Does not know its rate: that may be changed at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allowance {
    /// In millionths, at `at`; above the burst it is a debt.
    used: u64,
    at: Millis,
}

/// Charges all of them or none; the error says after how many milliseconds it is worth asking again.
pub fn charge(parts: &mut [(Rate, Allowance)], now: Millis, cost: u32) -> Result<(), u64> {
    parts.iter_mut().for_each(|(rate, allowance)| allowance.refill(*rate, now));
    let wait_ms = parts.iter().map(|(rate, allowance)| allowance.wait_ms(*rate, cost)).max().unwrap_or(0);
    if wait_ms > 0 {
        return Err(wait_ms);
    }
    parts.iter_mut().for_each(|(_, allowance)| allowance.used += u64::from(cost) * TOKEN);
    Ok(())
}

impl Allowance {
    /// Whether it is as good as new, so that nobody has to remember it.
    #[must_use]
    pub fn is_whole(mut self, rate: Rate, now: Millis) -> bool {
        self.refill(rate, now);
        self.used == 0
    }

    fn refill(&mut self, rate: Rate, now: Millis) {
        self.used = self.used.saturating_sub(now.since(self.at).saturating_mul(per_ms(rate)));
        self.at = self.at.max(now);
    }

    fn wait_ms(&self, rate: Rate, cost: u32) -> u64 {
        let burst = rate.burst.max(1);
        let wanted = self.used.saturating_add(u64::from(cost.min(burst)) * TOKEN);
        wanted.saturating_sub(u64::from(burst) * TOKEN).div_ceil(per_ms(rate))
    }
}

/// Millionths that come back in a millisecond. A rate of zero would never end; it counts as one.
fn per_ms(rate: Rate) -> u64 {
    u64::from(rate.per_second.max(1)) * (TOKEN / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEN: Rate = Rate { per_second: 10, burst: 5 };

    // proves: RL-05
    #[test]
    fn what_was_used_comes_back_with_time() {
        let mut parts = [(TEN, Allowance::default())];
        // (now, cost, the wait)
        for (now, cost, wait_ms) in [
            (1_000, 3, 0),
            (1_000, 2, 0),
            (1_000, 1, 100),
            (1_099, 1, 1),
            (1_100, 1, 0),
            (1_050, 1, 100), // back in time: nothing comes back
            (1_600, 5, 0),
            (2_100, 50, 0), // more than the burst: a full allowance lets it in
            (2_200, 1, 4_500),
            (6_699, 1, 1), // the debt was paid, and one more
            (6_700, 1, 0),
        ] {
            let answer = charge(&mut parts, Millis(now), cost).err().unwrap_or(0);
            assert_eq!(answer, wait_ms, "{cost} at {now}");
        }
    }

    #[test]
    fn all_are_charged_or_none() {
        let slow = Rate { per_second: 1, burst: 1 };
        let mut parts = [(TEN, Allowance::default()), (slow, Allowance::default())];
        assert_eq!(charge(&mut parts, Millis(0), 1), Ok(()));
        let before = parts;
        assert_eq!(charge(&mut parts, Millis(0), 1), Err(1_000), "the longer wait of the two");
        assert_eq!(parts, before);
        assert_eq!(charge(&mut [], Millis(0), u32::MAX), Ok(()), "nobody set a limit");
        assert!(!parts[0].1.is_whole(TEN, Millis(99)) && parts[0].1.is_whole(TEN, Millis(100)));
    }

    #[test]
    fn a_higher_rate_helps_at_once() {
        let mut parts = [(Rate { per_second: 1, burst: 1 }, Allowance::default())];
        assert_eq!(charge(&mut parts, Millis(0), 100), Ok(()));
        assert_eq!(charge(&mut parts, Millis(0), 1), Err(100_000));
        parts[0].0 = Rate { per_second: 1_000, burst: 100 };
        assert_eq!(charge(&mut parts, Millis(1), 1), Ok(()));
    }

    // proves: RL-05
    proptest! {
        #[test]
        fn over_time_the_rate_holds_and_the_wait_is_exact(
            per_second in 1u32..5_000, burst in 1u32..500,
            asks in proptest::collection::vec((0u64..300, 1u32..1_000), 1..40),
        ) {
            let rate = Rate { per_second, burst };
            let (mut now, mut granted, mut largest) = (Millis(0), 0, 0);
            let mut parts = [(rate, Allowance::default())];
            for (pause, cost) in asks {
                now = now.plus(pause);
                if let Err(wait_ms) = charge(&mut parts, now, cost) {
                    let mut early = parts;
                    prop_assert!(charge(&mut early, now.plus(wait_ms - 1), cost).is_err());
                    now = now.plus(wait_ms);
                    prop_assert_eq!(charge(&mut parts, now, cost), Ok(()));
                }
                (granted, largest) = (granted + u64::from(cost), largest.max(u64::from(cost)));
                let due = (u64::from(burst) + largest) * 1_000 + u64::from(per_second) * now.0;
                prop_assert!(granted * 1_000 <= due, "{} by {}", granted, now);
            }
        }
    }
}
