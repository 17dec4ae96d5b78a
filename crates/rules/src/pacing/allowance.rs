//! How much a producer may still ask for.
//!
//! Comes from: every request that makes work, with what it costs. Decides: whether it may be asked for now, and if not,
//! when. Goes to: acceptance, or 429 with the wait.
//!
//! What must never happen: a request that can never be served. One that costs more than the burst is let in by a full
//! allowance and leaves a debt that the rate pays off, so over time the rate holds whatever the requests' sizes are.
//!
//! A producer that obeys gets its whole rate: `Retry-After` has whole seconds, so what comes back while a producer waits
//! longer than necessary is saved, above the burst, until it had the time to come back.

use super::Rate;
use crate::ids::Millis;

const TOKEN: i64 = 1_000_000;
/// So much of the rate is saved at most: a wait is rounded up by less than a second.
const SAVED_MS_MAX: u64 = 1_000;
/// What was saved for a producer is kept for so long after the time at which it was to come back.
const KEPT_MS: u64 = 1_000;

/// What was used and has not come back yet. Does not know its rate: that may be changed at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allowance {
    /// In millionths, at `at`; above the burst it is a debt, below zero it is saved.
    used: i64,
    at: Millis,
    /// When a producer that was refused is to come back: what comes back before that is saved.
    saved_until: Millis,
}

/// A wait as `Retry-After` has it: in whole seconds, one at least.
#[must_use]
pub fn retry_after_s(wait_ms: u64) -> u64 {
    wait_ms.div_ceil(1_000).max(1)
}

/// Charges all of them or none; the error says after how many milliseconds it is worth asking again.
pub fn charge(parts: &mut [(Rate, Allowance)], now: Millis, cost: u32) -> Result<(), u64> {
    parts.iter_mut().for_each(|(rate, allowance)| allowance.refill(*rate, now));
    let wait_ms = parts.iter().map(|(rate, allowance)| allowance.wait_ms(*rate, cost)).max().unwrap_or(0);
    if wait_ms > 0 {
        parts.iter_mut().for_each(|(rate, allowance)| allowance.refuse(*rate, now, cost));
        return Err(wait_ms);
    }
    parts.iter_mut().for_each(|(_, allowance)| allowance.used += i64::from(cost) * TOKEN);
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
        let saved_until = self.saved_until.min(now);
        let most_saved = returned(rate, SAVED_MS_MAX);
        let saved = self.used.saturating_sub(returned(rate, saved_until.since(self.at)));
        self.used = saved.max(self.used.min(-most_saved));
        let unsaved = returned(rate, now.since(self.at.max(saved_until)));
        self.used = self.used.min(self.used.saturating_sub(unsaved).max(0));
        if now.since(self.saved_until) > KEPT_MS {
            self.used = self.used.max(0);
        }
        self.at = self.at.max(now);
    }

    /// A producer was told to come back; only its own limit counts, not one that it waits longer for.
    fn refuse(&mut self, rate: Rate, now: Millis, cost: u32) {
        let wait_ms = self.wait_ms(rate, cost);
        if wait_ms > 0 {
            self.saved_until = self.saved_until.max(now.plus(retry_after_s(wait_ms) * 1_000));
        }
    }

    fn wait_ms(&self, rate: Rate, cost: u32) -> u64 {
        let burst = rate.burst.max(1);
        let wanted = self.used.saturating_add(i64::from(cost.min(burst)) * TOKEN);
        let missing = u64::try_from(wanted - i64::from(burst) * TOKEN).unwrap_or(0);
        missing.div_ceil(per_ms(rate))
    }
}

/// Millionths that come back in so many milliseconds.
fn returned(rate: Rate, span_ms: u64) -> i64 {
    i64::try_from(span_ms.saturating_mul(per_ms(rate))).unwrap_or(i64::MAX)
}

/// Millionths that come back in a millisecond. A rate of zero would never end; it counts as one.
fn per_ms(rate: Rate) -> u64 {
    u64::from(rate.per_second.max(1)) * 1_000
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
        let used = |parts: &[(Rate, Allowance)]| parts.iter().map(|(_, one)| one.used).collect::<Vec<_>>();
        let before = used(&parts);
        assert_eq!(charge(&mut parts, Millis(0), 1), Err(1_000), "the longer wait of the two");
        assert_eq!(used(&parts), before);
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

    /// One producer that sends as fast as it may: when it is refused, it waits as long as `Retry-After` says. Returns what it
    /// could send, and in how many milliseconds.
    fn obeys(rate: Rate, costs: &[u32], total: u64) -> (u64, u64) {
        let mut parts = [(rate, Allowance::default())];
        let (mut now, mut sent) = (Millis(0), 0);
        let mut granted: Vec<(Millis, u64)> = Vec::new();
        for cost in costs.iter().cycle() {
            let mut refused = 0;
            while let Err(wait_ms) = charge(&mut parts, now, *cost) {
                refused += 1;
                assert!(refused < 3, "{cost} at {rate:?} is refused again and again");
                now = now.plus(retry_after_s(wait_ms) * 1_000);
            }
            sent += u64::from(*cost);
            match granted.last_mut() {
                Some((at, count)) if *at == now => *count += u64::from(*cost),
                _ => granted.push((now, u64::from(*cost))),
            }
            if sent >= total {
                break;
            }
        }
        let largest = u64::from(costs.iter().copied().max().expect("a request"));
        for (first, (from, _)) in granted.iter().enumerate() {
            let mut count = 0;
            for (at, cost) in &granted[first..] {
                count += cost;
                let seconds_ms = at.since(*from) + SAVED_MS_MAX;
                let most = u64::from(rate.burst) * 1_000 + u64::from(rate.per_second) * seconds_ms;
                assert!(
                    (count - largest.min(count)) * 1_000 <= most,
                    "{count} from {from} to {at} at {rate:?}"
                );
            }
        }
        (sent, now.0)
    }

    // fixes: interop F1
    #[test]
    fn a_producer_that_obeys_gets_its_rate() {
        for per_second in [1, 10, 100, 1_000] {
            for burst in [1, 10, per_second, 10 * per_second] {
                let rate = Rate { per_second, burst };
                let own = [1, per_second * 3 / 5, per_second * 11 / 10, 3 * per_second, 100, 1_000];
                let mixed: Vec<u32> = (1..50).map(|no| no * 7_919 % (2 * per_second) + 1).collect();
                let same = own.map(|cost| vec![cost.max(1)]);
                for costs in same.iter().chain([&mixed]) {
                    let largest = u64::from(costs.iter().copied().max().expect("a request"));
                    for times in [20, 100] {
                        let total = (times * u64::from(per_second.max(burst))).max(times * largest);
                        let (sent, took_ms) = obeys(rate, costs, total);
                        // What is sent at once in the beginning and in the end counts for nothing.
                        let ideal_ms = (sent - largest.min(sent)).saturating_sub(burst.into()) * 1_000
                            / u64::from(per_second);
                        assert!(
                            took_ms <= ideal_ms * 10 / 9 + 2_000,
                            "{sent} by {largest} took {took_ms}, not {ideal_ms} ms, at {rate:?}"
                        );
                    }
                }
            }
        }
    }

    /// A retry storm: whoever was away for long finds a full allowance and no more.
    // fixes: interop F1
    #[test]
    fn nothing_is_saved_for_a_producer_that_does_not_come_back() {
        let rate = Rate { per_second: 100, burst: 10 };
        let at_once = |parts: &mut [(Rate, Allowance)], now| {
            (0..100_000).take_while(|_| charge(parts, Millis(now), 1).is_ok()).count()
        };
        let mut parts = [(rate, Allowance::default())];
        assert_eq!(at_once(&mut parts, 0), 10);
        assert_eq!(
            at_once(&mut parts, 1_020),
            10 + 90,
            "what came back in the second that it was told to wait"
        );
        assert_eq!(at_once(&mut parts, 60_000), 10);
        assert_eq!(charge(&mut parts, Millis(60_000), 10_000), Err(100));
        assert_eq!(charge(&mut parts, Millis(61_000), 10_000), Ok(()));
        assert_eq!(charge(&mut parts, Millis(61_000), 1), Err(99_010));
        // A rate that is raised meanwhile does not turn the long wait into a burst.
        parts[0].0 = Rate { per_second: 10_000, burst: 10 };
        assert_eq!(at_once(&mut parts, 150_000), 10 + 10_000);
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
