//! Stops calling what does not work, and finds out carefully when it does again.
//!
//! ```text
//! Closed ── half of the recent calls failed, or the last 20 ──► Open ── its time is over ──► HalfOpen ─┐
//!    ▲                                                           ▲                              │      │
//!    │                                                           └── a probe fails: twice as long      │
//!    └── all probes succeed ───────────────────────────────────────────────────────────────────────────┘
//! ```
//! What must never happen: an answer to an old call decides about a new time. A call counts in the mode in which it
//! began: those from before an opening neither close nor open anything.

use super::{Call, Signal};
use crate::ids::Millis;
use crate::limits::{
    BREAKER_CALLS_MIN, BREAKER_FAILURES_PERCENT, BREAKER_OPEN_MS_MAX, BREAKER_OPEN_MS_MIN, BREAKER_PROBES,
    BREAKER_WINDOW_SECONDS,
};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Breaker {
    mode: Mode,
    /// One place per second, reused: recent calls.
    window: [Second; BREAKER_WINDOW_SECONDS],
    /// Failures since the last success: after a busy good time it would take as long until half of all calls failed.
    failures_in_row: u64,
    /// Openings without a good time between them; each doubles the open time.
    streak: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Closed { since: Millis },
    Open { until: Millis },
    HalfOpen { since: Millis, probes_left: u32, succeeded: u32 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Second {
    /// Which one it is.
    number: u64,
    calls: u32,
    failures: u32,
}

/// What is worth telling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    Opened { until: Millis },
    Closed,
}

impl Breaker {
    #[must_use]
    pub fn new(now: Millis) -> Self {
        let window = [Second::default(); BREAKER_WINDOW_SECONDS];
        Self { mode: Mode::Closed { since: now }, window, failures_in_row: 0, streak: 0 }
    }

    /// Lets up to so many calls through.
    pub fn take(&mut self, now: Millis, wanted: u32) -> u32 {
        if let Mode::Open { until } = self.mode
            && now >= until
        {
            self.mode = Mode::HalfOpen { since: now, probes_left: BREAKER_PROBES, succeeded: 0 };
        }
        match &mut self.mode {
            Mode::Closed { .. } => wanted,
            Mode::Open { .. } => 0,
            Mode::HalfOpen { probes_left, .. } => {
                let granted = wanted.min(*probes_left);
                *probes_left -= granted;
                granted
            }
        }
    }

    /// Calls that were let through and did not begin.
    pub fn put_back(&mut self, calls: u32) {
        if let Mode::HalfOpen { probes_left, .. } = &mut self.mode {
            *probes_left = probes_left.saturating_add(calls).min(BREAKER_PROBES);
        }
    }

    /// A call has ended. Asking for a rest is a sign of life.
    pub fn ended(&mut self, now: Millis, call: Call) -> Option<News> {
        let failed = match call.signal {
            Signal::Works | Signal::Rest { .. } => Some(false),
            Signal::Fails => Some(true),
            Signal::Nothing => None,
        };
        match &mut self.mode {
            Mode::Closed { since } if call.began >= *since => {
                self.count(now, failed?);
                self.too_many_failed(now).then(|| self.open(now))
            }
            Mode::HalfOpen { since, succeeded, .. } if call.began >= *since => match failed {
                Some(true) => Some(self.open(now)),
                Some(false) => {
                    *succeeded += 1;
                    (*succeeded >= BREAKER_PROBES).then(|| self.close(now))
                }
                None => {
                    self.put_back(1);
                    None
                }
            },
            Mode::Closed { .. } | Mode::Open { .. } | Mode::HalfOpen { .. } => None,
        }
    }

    /// When the first call may be let through. `None` while probes are out: their answers decide.
    #[must_use]
    pub fn ready_at(&self) -> Option<Millis> {
        match self.mode {
            Mode::Closed { since } => Some(since),
            Mode::Open { until } => Some(until),
            Mode::HalfOpen { since, probes_left, .. } => (probes_left > 0).then_some(since),
        }
    }

    fn open(&mut self, now: Millis) -> News {
        if let Mode::Closed { since } = self.mode
            && now.since(since) >= BREAKER_OPEN_MS_MAX
        {
            self.streak = 0;
        }
        let open_ms = BREAKER_OPEN_MS_MIN.saturating_mul(1 << self.streak.min(32)).min(BREAKER_OPEN_MS_MAX);
        self.streak = self.streak.saturating_add(1);
        let until = now.plus(open_ms);
        self.mode = Mode::Open { until };
        News::Opened { until }
    }

    fn close(&mut self, now: Millis) -> News {
        self.mode = Mode::Closed { since: now };
        self.window = [Second::default(); BREAKER_WINDOW_SECONDS];
        self.failures_in_row = 0;
        News::Closed
    }

    fn count(&mut self, now: Millis, failed: bool) {
        let number = now.0 / 1_000;
        let place = usize::try_from(number % BREAKER_WINDOW_SECONDS as u64).expect("smaller than the window");
        let second = &mut self.window[place];
        if second.number != number {
            *second = Second { number, ..Second::default() };
        }
        second.calls = second.calls.saturating_add(1);
        second.failures = second.failures.saturating_add(u32::from(failed));
        self.failures_in_row = if failed { self.failures_in_row.saturating_add(1) } else { 0 };
    }

    fn too_many_failed(&self, now: Millis) -> bool {
        let oldest = (now.0 / 1_000 + 1).saturating_sub(BREAKER_WINDOW_SECONDS as u64);
        let recent = || self.window.iter().filter(|second| second.number >= oldest);
        let calls: u64 = recent().map(|second| u64::from(second.calls)).sum();
        let failures: u64 = recent().map(|second| u64::from(second.failures)).sum();
        let half = calls >= BREAKER_CALLS_MIN && failures * 100 >= calls * BREAKER_FAILURES_PERCENT;
        half || self.failures_in_row >= BREAKER_CALLS_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Millis = Millis(1_000_000);

    /// Ends so many calls that began now, and returns the last news.
    fn end(breaker: &mut Breaker, now: Millis, calls: u32, failed: bool) -> Option<News> {
        let signal = if failed { Signal::Fails } else { Signal::Works };
        (0..calls).filter_map(|_| breaker.ended(now, Call { began: now, signal })).last()
    }

    /// Open until the time that comes with it.
    fn opened() -> (Breaker, Millis) {
        let mut breaker = Breaker::new(START);
        let until = START.plus(BREAKER_OPEN_MS_MIN);
        assert_eq!(end(&mut breaker, START, 20, true), Some(News::Opened { until }));
        (breaker, until)
    }

    #[test]
    fn it_opens_when_half_of_enough_calls_failed() {
        for (rounds, good, bad, opens) in
            [(19, 0, 1, false), (20, 0, 1, true), (10, 1, 1, true), (100, 3, 2, false), (9, 11, 19, true)]
        {
            let mut breaker = Breaker::new(START);
            let mut news = None;
            for _ in 0..rounds {
                news = news.or(end(&mut breaker, START, good, false)).or(end(&mut breaker, START, bad, true));
            }
            assert_eq!(news.is_some(), opens, "{rounds} times {good} good, {bad} bad");
        }
    }

    #[test]
    fn after_a_good_time_a_run_of_failures_is_enough() {
        let mut breaker = Breaker::new(START);
        assert_eq!(end(&mut breaker, START, 100_000, false), None);
        assert_eq!(end(&mut breaker, START, 19, true), None);
        assert_eq!(end(&mut breaker, START, 1, false), None);
        assert_eq!(end(&mut breaker, START, 19, true), None);
        assert!(end(&mut breaker, START, 1, true).is_some());
    }

    #[test]
    fn old_calls_are_forgotten() {
        let mut breaker = Breaker::new(START);
        let mixed = |breaker: &mut Breaker, now| end(breaker, now, 1, false).or(end(breaker, now, 18, true));
        assert_eq!(mixed(&mut breaker, START), None);
        assert_eq!(mixed(&mut breaker, START.plus(10_000)), None);
        assert!(mixed(&mut breaker, START.plus(19_999)).is_some());
    }

    // proves: DEL-04
    #[test]
    fn probes_close_it_and_a_failed_one_doubles_the_wait() {
        let (mut breaker, mut until) = opened();
        for open_ms in [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
            assert_eq!(breaker.ready_at(), Some(until));
            assert_eq!(breaker.take(Millis(until.0 - 1), 100), 0);
            assert_eq!(breaker.take(until, 100), BREAKER_PROBES);
            assert_eq!((breaker.take(until, 100), breaker.ready_at()), (0, None), "probes are out");
            let next = until.plus(open_ms);
            assert_eq!(end(&mut breaker, until, 1, true), Some(News::Opened { until: next }));
            assert_eq!(end(&mut breaker, until, 2, false), None, "the other probes are old news");
            until = next;
        }
        assert_eq!(breaker.take(until, 2), 2);
        breaker.put_back(1);
        assert_eq!(breaker.ended(until, Call { began: until, signal: Signal::Nothing }), None);
        assert_eq!(breaker.take(until, 100), BREAKER_PROBES);
        assert_eq!(end(&mut breaker, until, BREAKER_PROBES - 1, false), None);
        let rest = Call { began: until, signal: Signal::Rest { after_ms: None } };
        assert_eq!(breaker.ended(until, rest), Some(News::Closed), "who asks for a rest is alive");
        assert_eq!(breaker.take(until, 100), 100);
    }

    #[test]
    fn answers_to_old_calls_change_nothing() {
        let (mut breaker, until) = opened();
        let old = |signal| Call { began: START, signal };
        assert_eq!(breaker.ended(START.plus(1), old(Signal::Fails)), None);
        assert_eq!(breaker.take(until, 3), 3);
        for signal in [Signal::Fails, Signal::Works, Signal::Nothing] {
            assert_eq!(breaker.ended(until, old(signal)), None);
            assert_eq!(breaker.take(until, 1), 0, "no probe of ours");
        }
        assert_eq!(end(&mut breaker, until, 2, false), None);
        assert_eq!(breaker.ended(until, old(Signal::Works)), None);
        let closed = until.plus(5);
        assert_eq!(end(&mut breaker, closed, 1, false), Some(News::Closed));
        for _ in 0..100 {
            assert_eq!(breaker.ended(closed, old(Signal::Fails)), None);
        }
    }

    #[test]
    fn flapping_waits_longer_and_a_good_minute_is_forgiven() {
        for (good_ms, open_ms) in [(1_000, 2_000), (59_999, 2_000), (60_000, 1_000)] {
            let (mut breaker, until) = opened();
            breaker.take(until, 3);
            assert_eq!(end(&mut breaker, until, 3, false), Some(News::Closed));
            let now = until.plus(good_ms);
            let again = end(&mut breaker, now, 20, true);
            assert_eq!(again, Some(News::Opened { until: now.plus(open_ms) }), "good for {good_ms} ms");
        }
    }
}
