//! How fast one project is sent to: its quota as a bucket, less of it after a 429, nothing while it rests.
//!
//! Comes from: a shipment that asks for permits, and the ends of its calls. Decides: how many may begin now, or when to ask
//! again. Goes to: the client, which waits or says so.
//!
//! What must never happen: more than the quota in any minute, whichever minute Google counts; or one overload that is
//! answered by more than one cut.

use fantail_rules::ids::Millis;
use fantail_rules::limits::PAUSE_MS_DEFAULT;
use fantail_rules::pacing::{Breaker, Bucket, Call, News, Pause, Signal, Slots};

/// In thousandths of the quota.
const WHOLE: u32 = 1_000;
const SHARE_MIN: u32 = 50;
/// What comes back for every so many milliseconds without a 429.
const GROWTH: u32 = 50;
const GROWTH_MS: u64 = 10_000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pace {
    bucket: Bucket,
    share: u32,
    /// When the share was last cut; a call that began before says nothing new.
    cut_at: Option<Millis>,
    grown_at: Millis,
    pause: Pause,
    slots: Slots,
    /// Only where nobody else finds out whether the provider works: with one project, the dispatcher does.
    breaker: Option<Breaker>,
}

/// What a shipment is told when it asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permits {
    /// So many calls may begin, one at least.
    Granted(u32),
    /// The quota is used up until then.
    Wait { until: Millis },
    /// The project is left alone for so long.
    Rest { after_ms: u64 },
}

impl Pace {
    #[must_use]
    pub fn new(quota_per_minute: u32, finds_failures: bool, now: Millis) -> Self {
        let breaker = finds_failures.then(|| Breaker::new(now));
        let bucket = bucket(quota_per_minute, now);
        let (pause, slots) = (Pause::default(), Slots::default());
        Self { bucket, share: WHOLE, cut_at: None, grown_at: now, pause, slots, breaker }
    }

    /// A new quota, in force at once; begins without the burst, so that a change gives nothing away.
    pub fn set_quota(&mut self, quota_per_minute: u32, now: Millis) {
        self.bucket = bucket(quota_per_minute, now);
        while self.bucket.take(now, u32::MAX) > 0 {}
        self.bucket.set_share(now, self.share);
    }

    pub fn take(&mut self, now: Millis, wanted: u32) -> Permits {
        if let Some(until) = self.pause.until(now) {
            return Permits::Rest { after_ms: until.since(now) };
        }
        self.grow(now);
        let passed = self.breaker.as_mut().map_or(wanted, |breaker| breaker.take(now, wanted));
        if passed == 0 {
            let ready_at = self.breaker.as_ref().and_then(Breaker::ready_at).unwrap_or(now);
            return Permits::Rest { after_ms: ready_at.max(now.plus(PAUSE_MS_DEFAULT)).since(now) };
        }
        let granted = self.bucket.take(now, passed);
        if let Some(breaker) = &mut self.breaker {
            breaker.put_back(passed - granted);
        }
        match granted {
            0 => Permits::Wait { until: self.bucket.ready_at(1).max(now.plus(1)) },
            _ => Permits::Granted(granted),
        }
    }

    /// One message that cannot wait until there is room: after how long it comes back.
    pub fn book(&mut self, now: Millis, room_at: Millis) -> u64 {
        let interval_us = self.bucket.interval_us().saturating_mul(u64::from(WHOLE)) / u64::from(self.share);
        self.slots.book(now, room_at, interval_us)
    }

    /// Calls that were granted and did not begin.
    pub fn put_back(&mut self, calls: u32) {
        self.bucket.put_back(calls);
        if let Some(breaker) = &mut self.breaker {
            breaker.put_back(calls);
        }
    }

    /// One call has ended; says what is worth telling.
    pub fn ended(&mut self, now: Millis, call: Call) -> Option<News> {
        if let Signal::Rest { after_ms } = call.signal {
            let end = self.pause.rest(now, after_ms.unwrap_or(PAUSE_MS_DEFAULT));
            self.grown_at = self.grown_at.max(end);
            if self.cut_at.is_none_or(|cut_at| call.began > cut_at) {
                self.share = (self.share / 2).max(SHARE_MIN);
                self.cut_at = Some(now);
                self.bucket.set_share(now, self.share);
            }
        }
        self.breaker.as_mut()?.ended(now, call)
    }

    /// In thousandths of the quota.
    #[must_use]
    pub fn share(&self) -> u32 {
        self.share
    }

    fn grow(&mut self, now: Millis) {
        let steps = now.since(self.grown_at) / GROWTH_MS;
        if steps == 0 {
            return;
        }
        self.grown_at = self.grown_at.plus(steps * GROWTH_MS);
        let more = GROWTH.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX));
        self.share = self.share.saturating_add(more).min(WHOLE);
        self.bucket.set_share(now, self.share);
    }
}

/// A tenth of a second at once, and what is left of the minute evenly.
fn bucket(quota_per_minute: u32, now: Millis) -> Bucket {
    Bucket::of_quota(quota_per_minute, quota_per_minute / 600, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BEGAN: Millis = Millis(1_000_000);

    fn pace(quota_per_minute: u32) -> Pace {
        Pace::new(quota_per_minute, false, BEGAN)
    }

    /// As many calls as are granted in every millisecond of the span.
    fn granted(pace: &mut Pace, from: Millis, span_ms: u64) -> u64 {
        let take = |ms| match pace.take(from.plus(ms), u32::MAX) {
            Permits::Granted(calls) => u64::from(calls),
            Permits::Wait { .. } | Permits::Rest { .. } => 0,
        };
        (0..span_ms).map(take).sum()
    }

    fn throttled(began: Millis, after_ms: u64) -> Call {
        Call { began, signal: Signal::Rest { after_ms: Some(after_ms) } }
    }

    // proves: PSH-03
    // fixes: interop F1
    #[test]
    fn a_minute_gets_its_quota_and_no_more() {
        for quota in [1, 2, 7, 59, 60, 100, 120, 1_000, 1_199, 10_000, 600_000, 750_000] {
            let mut pace = pace(quota);
            // With a burst of one, what a call is late by is lost: up to a millisecond of fifty.
            let least = if quota < 10 { 1 } else { u64::from(quota) * 980 / 1_000 };
            for minute in 0..5 {
                let calls = granted(&mut pace, BEGAN.plus(minute * 60_000), 60_000);
                assert!((least..=u64::from(quota)).contains(&calls), "{calls} of {quota} in minute {minute}");
            }
        }
    }

    // proves: PSH-03
    #[test]
    fn a_429_rests_the_project_and_halves_its_rate_once() {
        let mut pace = pace(600_000);
        let now = BEGAN.plus(500);
        for began in [BEGAN, BEGAN.plus(100)] {
            assert_eq!(pace.ended(now, throttled(began, 60_000)), None);
        }
        assert_eq!(pace.share(), 500, "one cut for one overload");
        assert_eq!(pace.take(now.plus(1), 10), Permits::Rest { after_ms: 59_999 });
        let awake = now.plus(60_000);
        let calls = granted(&mut pace, awake, 1_000);
        assert!((4_900..5_600).contains(&calls), "{calls}");
        assert_eq!(pace.ended(awake.plus(2_000), throttled(awake.plus(1_500), 1_000)), None);
        assert_eq!(pace.share(), 250);
        (0..10).for_each(|round| {
            let began = awake.plus(10_000 * (round + 1));
            assert_eq!(pace.ended(began, throttled(began, 1)), None);
        });
        assert_eq!(pace.share(), SHARE_MIN, "never nothing");
    }

    #[test]
    fn the_rate_comes_back_step_by_step() {
        let mut pace = pace(600_000);
        pace.ended(BEGAN, throttled(BEGAN, 60_000));
        let awake = BEGAN.plus(60_000);
        for (after_ms, share) in
            [(0, 500), (9_999, 500), (10_000, 550), (50_000, 750), (100_000, 1_000), (900_000, 1_000)]
        {
            pace.take(awake.plus(after_ms), 1);
            assert_eq!(pace.share(), share, "after {after_ms} ms");
        }
    }

    // proves: PSH-10
    #[test]
    fn a_quota_changes_while_it_runs() {
        let mut pace = pace(600_000);
        assert!(granted(&mut pace, BEGAN, 1_000) > 9_000);
        pace.set_quota(6_000, BEGAN.plus(1_000));
        let calls = granted(&mut pace, BEGAN.plus(1_000), 10_000);
        assert!((900..=1_010).contains(&calls), "{calls}");
    }

    #[test]
    fn one_of_several_projects_that_does_not_work_is_left_alone() {
        let mut pace = Pace::new(600_000, true, BEGAN);
        assert_eq!(pace.take(BEGAN, 100), Permits::Granted(100));
        let failed = Call { began: BEGAN, signal: Signal::Fails };
        let opened = (0..100).find_map(|_| pace.ended(BEGAN.plus(1), failed));
        assert!(matches!(opened, Some(News::Opened { .. })));
        assert!(matches!(pace.take(BEGAN.plus(2), 1), Permits::Rest { .. }));
        assert!(matches!(pace.take(BEGAN.plus(120_000), 1), Permits::Granted(1)), "and probed later");
        pace.put_back(1);
    }

    proptest! {
        /// Whatever was asked for before, no minute gets more than its quota.
        #[test]
        fn no_minute_is_above_the_quota(
            quota in 120u32..20_000, asks in proptest::collection::vec((1u64..5_000, 1u32..3_000), 1..60),
        ) {
            let mut pace = pace(quota);
            let (mut now, mut calls) = (BEGAN, Vec::new());
            for (pause, wanted) in asks {
                now = now.plus(pause);
                if let Permits::Granted(granted) = pace.take(now, wanted) {
                    calls.push((now, u64::from(granted)));
                }
            }
            for (from, _) in &calls {
                let minute = |at: &Millis| *at >= *from && *at < from.plus(60_000);
                let sum: u64 = calls.iter().filter(|(at, _)| minute(at)).map(|(_, granted)| granted).sum();
                prop_assert!(sum <= u64::from(quota), "{} of {}", sum, quota);
            }
        }
    }
}
