//! When so much comes that it should be collected, though nobody asked for digests.
//!
//! A sliding window in nine slots of an eighth each: it sees everything of the last window, and up to an eighth more. What
//! must never happen: a storm that is not seen, or a verdict on less than the threshold. A storm only switches its category
//! to `Terms::USUAL`; it drops nothing.

use crate::ids::Millis;

const SLOTS: usize = 9;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StormTerms {
    pub window_seconds: u32,
    /// So many of one category to one user within the window are a storm.
    pub threshold: u8,
}

impl StormTerms {
    pub const USUAL: Self = Self { window_seconds: 60, threshold: 20 };
}

/// What came lately for one user and category: seventeen bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Storm {
    /// The number of the newest slot since 1970.
    pub slot: u64,
    /// By the slot's number modulo nine.
    pub counts: [u8; SLOTS],
}

impl Storm {
    /// One more comes. Whether that makes it a storm, or it is one still.
    #[must_use]
    pub fn arrived(mut self, terms: StormTerms, now: Millis) -> (Self, bool) {
        let slot_ms = (u64::from(terms.window_seconds.max(1)) * 1_000).div_ceil(SLOTS as u64 - 1);
        let slot = (now.0 / slot_ms).max(self.slot);
        let passed = (slot - self.slot).min(SLOTS as u64);
        for step in 0..passed {
            self.counts[place(slot - step)] = 0;
        }
        self.slot = slot;
        let newest = &mut self.counts[place(slot)];
        *newest = newest.saturating_add(1);
        let sum: u32 = self.counts.iter().map(|count| u32::from(*count)).sum();
        (self, sum >= u32::from(terms.threshold))
    }
}

fn place(slot: u64) -> usize {
    (slot % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 1_780_963_200_000;

    // proves: RL-02
    #[test]
    fn five_hundred_likes_in_a_minute_are_a_storm_from_the_twentieth_on() {
        let mut storm = Storm::default();
        for like in 1..=500 {
            let (next, is_storm) = storm.arrived(StormTerms::USUAL, Millis(START + like * 120));
            assert_eq!(is_storm, like >= 20, "like {like}");
            storm = next;
        }
        let (_, is_storm) = storm.arrived(StormTerms::USUAL, Millis(START + 60_000 + 68_000));
        assert!(!is_storm, "it is over after the window");
    }

    proptest! {
        /// Everything in the window is seen, and nothing older than nine eighths of it.
        #[test]
        fn a_storm_is_seen_and_nothing_else(
            gaps_ms in proptest::collection::vec(0u64..20_000, 1..200),
            window_seconds in 1u32..120,
            threshold in 1u8..40,
        ) {
            let terms = StormTerms { window_seconds, threshold };
            let window_ms = u64::from(window_seconds) * 1_000;
            let (mut now, mut storm, mut came) = (START, Storm::default(), Vec::new());
            for gap in gaps_ms {
                now += if gap % 3 == 0 { 0 } else { gap };
                came.push(now);
                let (next, is_storm) = storm.arrived(terms, Millis(now));
                storm = next;
                let within = |ms: u64| came.iter().filter(|at| **at + ms > now).count();
                if is_storm {
                    prop_assert!(within(window_ms * 9 / 8 + 9) >= usize::from(threshold));
                } else {
                    prop_assert!(within(window_ms) < usize::from(threshold));
                }
            }
        }
    }
}
