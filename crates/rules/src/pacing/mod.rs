//! How much may be sent now: the back-pressure valve of one scope (a provider, a host, a credential).
//!
//! Comes from: a dispatcher that asks before it plans, and the ends of calls. Decides: permits, as the least of what five
//! rules allow: a rate ([`Bucket`]), a number in flight ([`Limit`]), whether it works at all ([`Breaker`]), a rest that
//! was asked for ([`Pause`]) and a gentle return ([`Ramp`]) to rate and number. Goes to: the size of the next parcel.
//!
//! What must never happen: a permit that is lost. Each ends exactly once, by [`Pace::put_back`] or [`Pace::ended`]. Not
//! here: whose turn it is (`lanes`), and sharing a quota between nodes.

mod allowance;
mod breaker;
mod bucket;
mod call_time;
mod limit;
mod rest;
mod slots;

pub use allowance::{Allowance, charge, retry_after_s};
pub use breaker::{Breaker, News};
pub use bucket::{Bucket, Rate};
pub use call_time::CallTime;
pub use limit::{Concurrency, Limit};
pub use rest::{Pause, Ramp};
pub use slots::Slots;

use crate::ids::Millis;
use crate::limits::PAUSE_MS_DEFAULT;

/// What a call said about its scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// The provider answered about the message: it works.
    Works,
    /// It works and wants a rest (429): slow down, and stop for a while.
    Rest { after_ms: Option<u64> },
    /// It does not work: a server error, no answer, no connection.
    Fails,
    /// Nothing: the call ended by our own doing.
    Nothing,
}

/// A call that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    pub began: Millis,
    pub signal: Signal,
}

/// The pace of one scope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pace {
    bucket: Bucket,
    limit: Limit,
    breaker: Breaker,
    pause: Pause,
    ramp: Ramp,
    call_time: CallTime,
}

impl Pace {
    #[must_use]
    pub fn new(rate: Rate, concurrency: Concurrency, now: Millis) -> Self {
        Self {
            bucket: Bucket::new(rate, now),
            limit: Limit::new(concurrency),
            breaker: Breaker::new(now),
            pause: Pause::default(),
            ramp: Ramp::default(),
            call_time: CallTime::default(),
        }
    }

    /// Takes up to so many permits. Whoever gets them starts that many calls or puts the rest back.
    pub fn permits(&mut self, now: Millis, wanted: u32) -> u32 {
        if self.pause.until(now).is_some() {
            return 0;
        }
        let share = self.ramp.share(now);
        self.bucket.set_share(now, share);
        self.limit.set_share(share);
        let placed = self.limit.take(wanted);
        let passed = self.breaker.take(now, placed);
        let granted = self.bucket.take(now, passed);
        self.breaker.put_back(passed - granted);
        self.limit.put_back(placed - granted);
        self.call_time.began(now, granted);
        granted
    }

    /// Permits whose calls never began.
    pub fn put_back(&mut self, permits: u32) {
        self.bucket.put_back(permits);
        self.breaker.put_back(permits);
        self.limit.put_back(permits);
        self.call_time.put_back(permits);
    }

    /// One call has ended.
    pub fn ended(&mut self, now: Millis, call: Call) -> Option<News> {
        self.limit.ended(now, call);
        match call.signal {
            // It says nothing, not even how long a call takes.
            Signal::Nothing => self.call_time.put_back(1),
            Signal::Works | Signal::Rest { .. } | Signal::Fails => self.call_time.ended(now, call.began),
        }
        if let Signal::Rest { after_ms } = call.signal {
            self.ramp.begin(self.pause.rest(now, after_ms.unwrap_or(PAUSE_MS_DEFAULT)));
        }
        let news = self.breaker.ended(now, call);
        if news == Some(News::Closed) {
            self.ramp.begin(now.max(self.pause.until(now).unwrap_or(now)));
        }
        news
    }

    /// When it is worth asking again. `None` if that depends on calls in flight.
    #[must_use]
    pub fn ready_at(&self, now: Millis) -> Option<Millis> {
        let ready_at = self.breaker.ready_at().filter(|_| self.limit.room() > 0)?;
        Some(ready_at.max(self.bucket.ready_at(1)).max(self.pause.until(now).unwrap_or(now)))
    }

    /// Whether it wants a rest or does not work, so that nothing may begin, however much room there is.
    #[must_use]
    pub fn rests(&self, now: Millis) -> bool {
        self.pause.until(now).is_some() || self.breaker.ready_at().is_none_or(|at| at > now)
    }

    /// The time between two calls at the full rate, in microseconds; 0 while nothing limits it. Places count by how long
    /// calls take, those that were cut lately as well. A ramp does not count: it is over in seconds.
    #[must_use]
    pub fn interval_us(&self, now: Millis) -> u64 {
        let by_places = self.call_time.micros(now) / u64::from(self.limit.soon());
        by_places.max(self.bucket.interval_us())
    }

    /// How many calls can begin within so long, if no others do.
    #[must_use]
    pub fn startable(&self, now: Millis, span_ms: u64) -> u64 {
        let (room, places) = (u64::from(self.limit.room()), u64::from(self.limit.current()));
        let freed = places.saturating_mul(span_ms).saturating_mul(1_000);
        let freed = freed.checked_div(self.call_time.micros(now)).unwrap_or(places);
        // As long as it is not known how long calls take, each place becomes free once.
        let freed = if self.call_time.is_known() { freed } else { freed.min(places) };
        room.saturating_add(freed).min(self.bucket.there_within(now, span_ms))
    }

    /// How many calls may be in flight now, as found out so far.
    #[must_use]
    pub fn concurrency(&self) -> u32 {
        self.limit.current()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: Rate = Rate { per_second: 1_000, burst: 200 };
    const CONCURRENCY: Concurrency = Concurrency { start: 64, ceiling: 1_000 };

    fn call(began: Millis, signal: Signal) -> Call {
        Call { began, signal }
    }

    /// Calls that answer at once, as many as are permitted in every millisecond of a second.
    fn a_second_of_calls(pace: &mut Pace, from: Millis, signal: Signal) -> u32 {
        let mut calls = 0;
        for now in (0..1_000).map(|ms| from.plus(ms)) {
            let granted = pace.permits(now, 1_000);
            calls += granted;
            for _ in 0..granted {
                pace.ended(now, call(now, signal));
            }
        }
        calls
    }

    // proves: DEL-04, DEL-16
    #[test]
    fn a_broken_provider_is_left_alone_and_its_backlog_drains_gently() {
        let mut pace = Pace::new(RATE, CONCURRENCY, Millis(0));
        assert_eq!(a_second_of_calls(&mut pace, Millis(0), Signal::Works), 1_000 + RATE.burst - 1);
        // Broken for a minute: a round of failures, then a few probes at longer and longer intervals.
        let outage: u32 =
            (1..61).map(|second| a_second_of_calls(&mut pace, Millis(second * 1_000), Signal::Fails)).sum();
        assert!(outage < 100, "{outage} calls into an outage");
        assert_eq!(pace.concurrency(), 1);
        // Back again: the breaker waits for its time, then the rate doubles every second.
        let mut recovery =
            (61..130).map(|second| a_second_of_calls(&mut pace, Millis(second * 1_000), Signal::Works));
        let first = recovery.find(|calls| *calls > 0).expect("it comes back within a minute");
        assert!(first <= 100 + 20 + 3, "{first} in the first second");
        let next: Vec<u32> = recovery.take(5).collect();
        for (calls, most) in next.iter().zip([200 + 20, 400 + 40, 800 + 80, 1_000 + 200, 1_000 + 200]) {
            assert!(*calls <= most, "{next:?}");
        }
        assert!(next[4] >= 999, "{next:?}");
    }

    #[test]
    fn a_rest_is_kept_and_ended_gently() {
        let mut pace = Pace::new(RATE, CONCURRENCY, Millis(0));
        assert_eq!(pace.permits(Millis(0), 10), 10);
        pace.ended(Millis(5), call(Millis(0), Signal::Rest { after_ms: Some(3_000) }));
        pace.ended(Millis(6), call(Millis(0), Signal::Rest { after_ms: None }));
        assert_eq!(pace.concurrency(), 32, "one cut for one round trip");
        assert_eq!(pace.ready_at(Millis(7)), Some(Millis(3_005)));
        assert_eq!(pace.permits(Millis(3_004), 10), 0);
        assert_eq!(
            pace.permits(Millis(3_005), 100),
            0,
            "eight are in flight still, and a tenth of the places is three"
        );
        (0..8).for_each(|_| assert_eq!(pace.ended(Millis(3_005), call(Millis(0), Signal::Nothing)), None));
        assert_eq!(pace.permits(Millis(3_005), 100), 3);
        assert_eq!(pace.ready_at(Millis(3_005)), None, "and no more before one of them is free");
        assert_eq!(pace.permits(Millis(4_005), 100), 3, "twice as many after a second");
        let mut pace = Pace::new(RATE, Concurrency { start: 1_000, ceiling: 1_000 }, Millis(0));
        pace.permits(Millis(0), 1);
        pace.ended(Millis(5), call(Millis(0), Signal::Rest { after_ms: Some(3_000) }));
        assert_eq!(pace.permits(Millis(3_005), 100), 20, "a tenth of the burst");
    }

    #[test]
    fn it_says_when_to_ask_again() {
        let mut pace =
            Pace::new(Rate { per_second: 10, burst: 2 }, Concurrency { start: 3, ceiling: 3 }, Millis(0));
        assert_eq!(pace.permits(Millis(0), 9), 2);
        assert_eq!(pace.ready_at(Millis(0)), Some(Millis(100)), "a token");
        assert_eq!(pace.permits(Millis(100), 9), 1);
        assert_eq!(pace.ready_at(Millis(100)), None, "a place");
        pace.put_back(1);
        assert_eq!(pace.ready_at(Millis(100)), Some(Millis(100)));
    }

    proptest! {
        /// Whatever happens, permits are neither lost nor made up: when all calls have ended and time has passed, the
        /// scope can be used again.
        #[test]
        fn no_permit_is_ever_lost(steps in proptest::collection::vec((0u64..2_000, 0u32..50, 0u8..5), 1..200)) {
            let mut pace = Pace::new(RATE, CONCURRENCY, Millis(0));
            let (mut now, mut out) = (Millis(0), Vec::new());
            for (pause, wanted, end) in steps {
                now = now.plus(pause);
                let granted = pace.permits(now, wanted);
                prop_assert!(granted <= wanted);
                out.extend((0..granted).map(|_| now));
                for began in out.drain(..out.len() / 2).collect::<Vec<_>>() {
                    match end {
                        0 => { pace.ended(now, call(began, Signal::Works)); }
                        1 => { pace.ended(now, call(began, Signal::Rest { after_ms: None })); }
                        2 => { pace.ended(now, call(began, Signal::Fails)); }
                        3 => { pace.ended(now, call(began, Signal::Nothing)); }
                        _ => pace.put_back(1),
                    }
                }
            }
            for began in out {
                pace.ended(now, call(began, Signal::Nothing));
            }
            let later = now.plus(100_000);
            prop_assert!(pace.ready_at(now).is_some_and(|ready_at| ready_at <= later));
            prop_assert!(pace.permits(later, 1) == 1);
        }
    }
}
