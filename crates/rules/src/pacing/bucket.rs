//! A rate: tokens that come back with time, up to a burst.
//!
//! What must never happen: more than burst + rate × time in any stretch of time. Tokens are counted in sixty-millionths, so
//! a millisecond of any whole rate per minute, or of any thousandth of it, is a whole number and nothing is lost by rounding,
//! however often the bucket is looked at.

use crate::ids::Millis;

/// Milliseconds of a minute, times thousandths of a rate.
const TOKEN: u64 = 60_000 * 1_000;
/// The whole rate, in thousandths.
pub const WHOLE: u32 = 1_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    pub per_second: u32,
    /// What may be taken at once after a rest.
    pub burst: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    per_minute: u64,
    burst: u32,
    /// Thousandths of the rate and of the burst that are in force.
    share: u32,
    /// In parts of a token (`TOKEN`), at `at`.
    level: u64,
    at: Millis,
}

impl Bucket {
    /// Begins full. A rate or burst of zero would never end; it counts as one.
    #[must_use]
    pub fn new(rate: Rate, now: Millis) -> Self {
        Self::of(u64::from(rate.per_second.max(1)) * 60, rate.burst, now)
    }

    /// A quota that holds in every minute, whichever minute is looked at: never more in 60 s, and all of it if there is
    /// enough to do. Begins full.
    #[must_use]
    pub fn of_quota(per_minute: u32, burst: u32, now: Millis) -> Self {
        let quota = per_minute.max(1);
        let burst = burst.clamp(1, quota);
        // The first token of the burst opens the minute, and the one that comes back last opens the next.
        Self::of(u64::from(quota - (burst - 1)), burst, now)
    }

    fn of(per_minute: u64, burst: u32, now: Millis) -> Self {
        let burst = burst.max(1);
        Self { per_minute, burst, share: WHOLE, level: u64::from(burst) * TOKEN, at: now }
    }

    /// Takes up to so many tokens.
    pub fn take(&mut self, now: Millis, wanted: u32) -> u32 {
        self.refill(now);
        let there = u32::try_from(self.level / TOKEN).unwrap_or(u32::MAX);
        let granted = wanted.min(there);
        self.level -= u64::from(granted) * TOKEN;
        granted
    }

    /// Tokens that were taken and not used.
    pub fn put_back(&mut self, tokens: u32) {
        self.level = (self.level + u64::from(tokens) * TOKEN).min(self.level_max());
    }

    /// From now on only so many thousandths of the rate and burst. What is above the burst is lost: after a rest a full
    /// bucket would be a stampede.
    pub fn set_share(&mut self, now: Millis, share: u32) {
        self.refill(now);
        self.share = share.clamp(1, WHOLE);
        self.level = self.level.min(self.level_max());
    }

    /// When so many tokens (up to the burst) will be there, if none are taken before.
    #[must_use]
    pub fn ready_at(&self, wanted: u32) -> Millis {
        let missing = (u64::from(wanted) * TOKEN).min(self.level_max()).saturating_sub(self.level);
        self.at.plus(missing.div_ceil(self.per_ms()))
    }

    /// How many tokens there will be within so long, if none are taken before.
    #[must_use]
    pub fn there_within(&self, now: Millis, span_ms: u64) -> u64 {
        let gained = now.plus(span_ms).since(self.at).saturating_mul(self.per_ms());
        self.level.saturating_add(gained) / TOKEN
    }

    /// The time between two tokens at the whole rate, in microseconds.
    #[must_use]
    pub fn interval_us(&self) -> u64 {
        60_000_000 / self.per_minute
    }

    fn refill(&mut self, now: Millis) {
        let gained = now.since(self.at).saturating_mul(self.per_ms());
        self.level = self.level.saturating_add(gained).min(self.level_max());
        self.at = self.at.max(now);
    }

    /// Parts of a token that come back in a millisecond.
    fn per_ms(&self) -> u64 {
        self.per_minute * u64::from(self.share)
    }

    /// A token at least: a smaller burst could never be taken.
    fn level_max(&self) -> u64 {
        (u64::from(self.burst) * u64::from(self.share) * (TOKEN / u64::from(WHOLE))).max(TOKEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tokens_come_back_with_time() {
        let mut bucket = Bucket::new(Rate { per_second: 10, burst: 5 }, Millis(0));
        // (now, wanted, granted)
        for (now, wanted, granted) in [
            (0, 3, 3),
            (0, 3, 2),
            (0, 1, 0),
            (99, 1, 0),
            (100, 1, 1),
            (50, 1, 0), // back in time: nothing
            (250, 9, 1),
            (300, 9, 1), // the half token from before counts
            (100_000, 9, 5),
        ] {
            assert_eq!(bucket.take(Millis(now), wanted), granted, "{wanted} at {now}");
        }
        assert_eq!(bucket.ready_at(1), Millis(100_100));
        assert_eq!(bucket.ready_at(5), Millis(100_500));
        assert_eq!(bucket.ready_at(500), Millis(100_500), "more than the burst is never there");
        bucket.put_back(9);
        assert_eq!(bucket.ready_at(5), Millis(100_000));
    }

    #[test]
    fn a_share_holds_for_rate_and_burst() {
        let mut bucket = Bucket::new(Rate { per_second: 1_000, burst: 200 }, Millis(0));
        bucket.set_share(Millis(0), 100);
        assert_eq!(bucket.take(Millis(0), 1_000), 20);
        assert_eq!(bucket.take(Millis(100), 1_000), 10);
        bucket.set_share(Millis(100), WHOLE);
        assert_eq!(bucket.take(Millis(200), 1_000), 100);
        let mut slow = Bucket::new(Rate { per_second: 1, burst: 1 }, Millis(0));
        slow.set_share(Millis(0), 0);
        assert_eq!(
            (slow.take(Millis(0), 1), slow.ready_at(1)),
            (1, Millis(1_000_000)),
            "never nothing at all"
        );
    }

    // proves: DEL-04
    proptest! {
        #[test]
        fn no_stretch_of_time_gets_more_than_its_due(
            per_second in 1u32..5_000, burst in 1u32..500,
            takes in proptest::collection::vec((0u64..300, 0u32..400), 1..40),
        ) {
            let mut bucket = Bucket::new(Rate { per_second, burst }, Millis(0));
            let (mut now, mut granted) = (Millis(0), Vec::new());
            for (pause, wanted) in takes {
                now = now.plus(pause);
                let ready_at = bucket.ready_at(1);
                let got = bucket.take(now, wanted);
                prop_assert_eq!(got > 0, wanted > 0 && now >= ready_at);
                granted.push((now, u64::from(got)));
            }
            for (first, (from, _)) in granted.iter().enumerate() {
                let mut sum = 0;
                for (to, got) in &granted[first..] {
                    sum += got;
                    let due = u64::from(burst) * 1_000 + u64::from(per_second) * to.since(*from);
                    prop_assert!(sum * 1_000 <= due + 999, "{} between {} and {}", sum, from, to);
                }
            }
        }
    }
}
