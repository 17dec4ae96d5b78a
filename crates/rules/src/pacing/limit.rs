//! How many calls may be in flight: found out, not configured.
//!
//! Comes from: how calls ended. Decides: one more for every full round of successes, half as many when the provider is
//! overloaded. Goes to: the permits of a dispatcher. What must never happen: halving twice for one overload. All calls
//! that were in flight when it happened say the same thing, so a call counts only if it began after the latest cut: that
//! is one cut per round trip, without having to know how long a round trip is. After a recovery only a share of the places
//! is given out, for a backlog that fits into them would be there at once.

use super::bucket::WHOLE;
use super::{Call, Signal};
use crate::ids::Millis;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Concurrency {
    /// Where to begin.
    pub start: u32,
    pub ceiling: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    ceiling: u32,
    current: u32,
    /// Of the current limit, in thousandths.
    share: u32,
    in_flight: u32,
    /// Since the limit last changed.
    successes: u32,
    cut_at: Option<Millis>,
}

impl Limit {
    #[must_use]
    pub fn new(concurrency: Concurrency) -> Self {
        let ceiling = concurrency.ceiling.max(1);
        let current = concurrency.start.clamp(1, ceiling);
        Self { ceiling, current, share: WHOLE, in_flight: 0, successes: 0, cut_at: None }
    }

    /// How many calls may be in flight now, one at least.
    #[must_use]
    pub fn current(&self) -> u32 {
        let places = u64::from(self.current) * u64::from(self.share) / u64::from(WHOLE);
        u32::try_from(places).unwrap_or(self.current).max(1)
    }

    /// Gives out only so many thousandths of the limit from now on.
    pub fn set_share(&mut self, share: u32) {
        self.share = share.clamp(1, WHOLE);
    }

    /// How many more calls may begin now.
    #[must_use]
    pub fn room(&self) -> u32 {
        self.current().saturating_sub(self.in_flight)
    }

    /// How many there may be soon: a cut takes half of them, and they come back while others wait.
    #[must_use]
    pub fn soon(&self) -> u32 {
        self.current.saturating_mul(2).min(self.ceiling)
    }

    /// Takes up to so many places.
    pub fn take(&mut self, wanted: u32) -> u32 {
        let granted = wanted.min(self.room());
        self.in_flight += granted;
        granted
    }

    /// Places of calls that never began.
    pub fn put_back(&mut self, places: u32) {
        assert!(places <= self.in_flight, "only what was taken can be put back");
        self.in_flight -= places;
    }

    /// A call has ended. A success counts if the limit was in use: an idle provider has shown nothing.
    pub fn ended(&mut self, now: Millis, call: Call) {
        let in_use = self.in_flight.saturating_mul(2) >= self.current;
        self.put_back(1);
        match call.signal {
            Signal::Works if in_use => self.successes += 1,
            Signal::Works | Signal::Nothing => {}
            Signal::Rest { .. } | Signal::Fails if self.cut_at.is_none_or(|cut_at| call.began > cut_at) => {
                self.current = (self.current / 2).max(1);
                self.successes = 0;
                self.cut_at = Some(now);
            }
            Signal::Rest { .. } | Signal::Fails => {}
        }
        if self.successes >= self.current {
            self.successes = 0;
            self.current = (self.current + 1).min(self.ceiling);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limit(start: u32, ceiling: u32) -> Limit {
        Limit::new(Concurrency { start, ceiling })
    }

    const WORKS: Call = Call { began: Millis(0), signal: Signal::Works };

    fn fails(began: u64) -> Call {
        Call { began: Millis(began), signal: Signal::Fails }
    }

    #[test]
    fn a_full_round_of_successes_adds_one() {
        let mut limit = limit(4, 6);
        for expected in [5, 6, 6] {
            for _ in 0..limit.current() {
                limit.take(u32::MAX);
                limit.ended(Millis(0), WORKS);
            }
            assert_eq!(limit.current(), expected);
        }
    }

    #[test]
    fn an_idle_limit_does_not_grow() {
        let mut limit = limit(8, 100);
        for _ in 0..1_000 {
            assert_eq!(limit.take(1), 1);
            limit.ended(Millis(0), WORKS);
        }
        assert_eq!(limit.current(), 8);
    }

    // proves: DEL-16
    #[test]
    fn a_share_of_the_places_is_given_out_and_nothing_is_forgotten() {
        let mut limit = limit(40, 100);
        for (share, places) in [(100, 4), (0, 1), (50, 2), (800, 32), (2_000, 40), (1_000, 40)] {
            limit.set_share(share);
            assert_eq!((limit.current(), limit.take(100)), (places, places), "{share} thousandths");
            limit.put_back(places);
        }
    }

    // proves: DEL-04
    #[test]
    fn one_overload_halves_once() {
        let mut limit = limit(16, 100);
        assert_eq!(limit.take(100), 16);
        // (began, now, limit)
        for (began, now, expected) in
            [(10, 50, 8), (20, 51, 8), (50, 52, 8), (51, 60, 4), (55, 61, 4), (62, 63, 2)]
        {
            limit.ended(Millis(now), fails(began));
            assert_eq!(limit.current(), expected, "began {began}");
        }
        assert_eq!((limit.room(), limit.take(1)), (0, 0), "ten are still in flight");
        for now in 100..110 {
            limit.ended(Millis(now), fails(now));
        }
        assert_eq!((limit.current(), limit.take(9)), (1, 1), "one at least");
    }

    proptest! {
        #[test]
        fn it_stays_between_one_and_its_ceiling(
            start in 0u32..50, ceiling in 0u32..50, calls in proptest::collection::vec((0u32..20, 0u8..4), 0..200),
        ) {
            let mut limit = limit(start, ceiling);
            let mut in_flight = 0u32;
            for (now, (wanted, end)) in (0..).map(Millis).zip(calls) {
                let granted = limit.take(wanted);
                in_flight += granted;
                prop_assert!(granted == 0 || in_flight <= limit.current());
                if in_flight > 0 {
                    match end {
                        0 => limit.ended(now, WORKS),
                        1 => limit.ended(now, fails(now.0)),
                        2 => limit.ended(now, fails(0)),
                        _ => limit.put_back(1),
                    }
                    in_flight -= 1;
                }
                prop_assert!((1..=ceiling.max(1)).contains(&limit.current()));
                prop_assert_eq!(limit.room(), limit.current().saturating_sub(in_flight));
            }
        }
    }
}
