//! How many requests an HTTP/2 connection may have: what the server allows, what a cold connection may, and what trouble
//! leaves of it (halved by each, and grown by one with each round of answers).

use super::limits::{CUT_EVERY_MS, Limits, TIMEOUTS_MAX, WINDOW_MIN};
use fantail_rules::ids::Millis;

/// How many requests it may have, and has.
#[derive(Clone, Debug)]
pub struct Streams {
    opened_at: Millis,
    /// What the server allows; 1 until it has said so.
    pub server_max: usize,
    /// What we allow ourselves: cut in half by trouble, and grown by one with each round of answers.
    pub window: usize,
    pub in_flight: usize,
    /// Answers since the window last grew.
    answered: usize,
    timeouts_in_a_row: u32,
    cut_at: Option<Millis>,
    is_warm: bool,
    pub has_answered: bool,
    /// The socket takes no bytes: what were given to it now would leave nobody knows when.
    pub is_stalled: bool,
    /// It takes nothing more, and is forgotten when the last of its requests has ended.
    pub is_closing: bool,
}

/// What became of one request on an HTTP/2 connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Answered,
    /// Answered, but not as a cold connection needs it to count as warm.
    Refused,
    TimedOut,
    /// The stream was reset or refused.
    Reset,
    /// The server goes away, or the connection broke.
    Gone,
    /// The caller went away.
    CalledOff,
}

impl Streams {
    pub fn new(now: Millis, window: usize, limits: &Limits) -> Self {
        Self {
            opened_at: now,
            server_max: 1,
            window: window.clamp(1, limits.streams_max.max(1)),
            in_flight: 0,
            answered: 0,
            timeouts_in_a_row: 0,
            cut_at: None,
            is_warm: !limits.warm_up,
            has_answered: false,
            is_stalled: false,
            is_closing: false,
        }
    }

    pub fn permits(&self, limits: &Limits) -> usize {
        match (self.is_stalled || self.is_closing, self.is_warm) {
            (true, _) => 0,
            (false, false) => self.server_max.min(1),
            (false, true) => self.server_max.min(self.window).min(limits.streams_max),
        }
    }

    pub fn free(&self, limits: &Limits) -> usize {
        self.permits(limits).saturating_sub(self.in_flight)
    }

    /// Nothing but the server's limit and ours holds it back.
    pub fn is_grown(&self, limits: &Limits) -> bool {
        // A server that answered has said before what it allows; 1 may be our own guess until then.
        let is_known = self.server_max > 1 || self.has_answered;
        self.is_warm && is_known && self.window >= self.server_max.min(limits.streams_max)
    }

    pub fn is_old(&self, now: Millis, limits: &Limits) -> bool {
        now.0.saturating_sub(self.opened_at.0) >= limits.age_ms_max
    }

    /// Whether the connection may go on.
    pub fn ended(&mut self, end: End, now: Millis, limits: &Limits) -> bool {
        self.in_flight = self.in_flight.saturating_sub(1);
        match end {
            End::Answered | End::Refused => {
                self.timeouts_in_a_row = 0;
                self.has_answered = true;
                self.is_warm |= end == End::Answered;
                self.answered += 1;
                if self.answered >= self.window {
                    self.answered = 0;
                    self.window = (self.window + 1).min(limits.streams_max);
                }
                true
            }
            End::TimedOut => {
                self.timeouts_in_a_row += 1;
                self.cut(now);
                self.timeouts_in_a_row < TIMEOUTS_MAX
            }
            End::Reset => {
                self.cut(now);
                true
            }
            End::Gone => {
                self.cut(now);
                false
            }
            End::CalledOff => true,
        }
    }

    fn cut(&mut self, now: Millis) {
        if self.cut_at.is_some_and(|cut_at| now.0 < cut_at.0 + CUT_EVERY_MS) {
            return;
        }
        self.cut_at = Some(now);
        self.answered = 0;
        // A server that still allows next to nothing has not said what it will allow.
        let used = if self.server_max > WINDOW_MIN { self.window.min(self.server_max) } else { self.window };
        self.window = (used / 2).max(WINDOW_MIN.min(used)).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        http2_connections_max: 2,
        http1_connections_max: 2,
        streams_max: 100,
        warm_up: true,
        http1_idle_ms_max: 4_000,
        ping_every_ms: 30_000,
        pong_within_ms: 10_000,
        age_ms_max: 3_600_000,
        connect_ms_max: 10_000,
        waiting_max: 10,
    };
    const NOW: Millis = Millis(5_000);

    fn streams(server_max: usize) -> Streams {
        Streams { server_max, ..Streams::new(NOW, LIMITS.streams_max, &LIMITS) }
    }

    /// Ends of requests, each so many milliseconds after the one before, and the permits behind each.
    fn check(server_max: usize, ends: &[(End, u64, usize)]) {
        let (mut streams, mut now) = (streams(server_max), NOW);
        for (number, (end, after_ms, permits)) in ends.iter().enumerate() {
            now = now.plus(*after_ms);
            streams.in_flight += 1;
            streams.ended(*end, now, &LIMITS);
            assert_eq!(streams.permits(&LIMITS), *permits, "{number}: {end:?} of {ends:?}");
        }
    }

    // proves: PSH-01, PSH-05
    #[test]
    fn concurrency_is_halved_by_trouble_and_grows_by_one_a_round() {
        check(1_000, &[(End::Refused, 0, 1), (End::CalledOff, 0, 1), (End::Answered, 0, 100)]);
        check(30, &[(End::Answered, 0, 30), (End::Reset, 0, 15)]);
        let halved = (End::Reset, 0, 50);
        check(1_000, &[(End::Answered, 0, 100), halved, halved, (End::Reset, 1_000, 25)]);
        check(1_000, &[(End::Answered, 0, 100), (End::TimedOut, 0, 50), (End::TimedOut, 999, 50)]);
        let cut = (End::Reset, 1_000, 8);
        let mut grows = vec![(End::Answered, 0, 12), (End::Reset, 0, 8), cut, cut];
        grows.extend([(End::Answered, 0, 8); 7]);
        grows.push((End::Answered, 0, 9));
        check(12, &grows);
    }

    #[test]
    fn a_connection_is_given_up_when_it_is_gone_or_silent() {
        for (ends, goes_on) in [
            (&[End::Gone][..], false),
            (&[End::TimedOut, End::TimedOut], true),
            (&[End::TimedOut, End::TimedOut, End::TimedOut], false),
            (&[End::TimedOut, End::TimedOut, End::Answered, End::TimedOut], true),
            (&[End::Reset, End::Reset, End::Reset, End::CalledOff], true),
        ] {
            let mut streams = streams(10);
            let mut last = true;
            for end in ends {
                last = streams.ended(*end, NOW, &LIMITS);
            }
            assert_eq!(last, goes_on, "{ends:?}");
        }
    }
}
