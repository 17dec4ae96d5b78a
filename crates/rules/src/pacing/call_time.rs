//! How long the calls of one scope take, so that the rate of a number of places is known.
//!
//! Input: when calls begin and end. Output: the time of one call. A call that is still out counts as well: a provider that
//! hangs becomes slow while it hangs, and not only when its calls end.

use crate::ids::Millis;

/// The latest call has a weight of one in so many: a single slow answer changes little.
const WEIGHT: u64 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallTime {
    /// The mean of late, in microseconds; 0 until a call has ended.
    mean_us: u64,
    in_flight: u32,
    /// When a call ended last, or the first one of those in flight began.
    moved_at: Millis,
}

impl CallTime {
    pub fn began(&mut self, now: Millis, calls: u32) {
        if self.in_flight == 0 {
            self.moved_at = now;
        }
        self.in_flight += calls;
    }

    /// Calls that were counted and never began.
    pub fn put_back(&mut self, calls: u32) {
        self.in_flight = self.in_flight.saturating_sub(calls);
    }

    /// A call has ended, by an answer or without one.
    pub fn ended(&mut self, now: Millis, began: Millis) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.moved_at = now;
        let took_us = now.since(began).saturating_mul(1_000).max(1);
        self.mean_us = match self.mean_us {
            0 => took_us,
            mean => (mean.saturating_mul(WEIGHT - 1).saturating_add(took_us)) / WEIGHT,
        };
    }

    /// Whether a call has ended: until then only the least that calls take is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.mean_us > 0
    }

    /// In microseconds; 0 while nothing is known.
    #[must_use]
    pub fn micros(&self, now: Millis) -> u64 {
        let out_us = if self.in_flight > 0 { now.since(self.moved_at).saturating_mul(1_000) } else { 0 };
        self.mean_us.max(out_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_and_a_hanging_call_counts() {
        let mut time = CallTime::default();
        assert_eq!(time.micros(Millis(5)), 0);
        time.began(Millis(10), 2);
        assert_eq!(time.micros(Millis(60)), 50_000, "it takes at least so long");
        time.ended(Millis(110), Millis(10));
        assert_eq!(time.micros(Millis(110)), 100_000);
        assert_eq!(time.micros(Millis(1_110)), 1_000_000, "the second one hangs");
        time.put_back(1);
        assert_eq!(time.micros(Millis(1_110)), 100_000);
        for _ in 0..200 {
            time.began(Millis(2_000), 1);
            time.ended(Millis(2_300), Millis(2_000));
        }
        assert!((295_000..=300_000).contains(&time.micros(Millis(2_300))));
    }
}
