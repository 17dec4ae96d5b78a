//! How fast an account sends: evenly, at what it may, slower after it was told to slow down, and faster again little by little
//! (additive increase, multiplicative decrease).

use super::limits::{DAY_REST_MS, RATE_MIN, RATE_UNTIL_KNOWN, TURN_MS_MAX};
use super::payload::Account;
use fantail_rules::ids::Millis;
use fantail_rules::pacing::Slots;

pub struct Pace {
    /// Messages per second that the account and the operator allow.
    max: f64,
    /// What is tried now.
    rate: f64,
    cap: Option<f64>,
    /// When the next one may leave, on the monotonic clock, in milliseconds.
    next: f64,
    /// When the rate changed last: one bad second counts once.
    changed_at: Millis,
    left_today: Option<u64>,
    /// Of those whose turn comes too late.
    slots: Slots,
}

/// A turn that has not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// The second is full: it is worth coming back after so long.
    Rate { after_ms: u64 },
    /// The day is.
    Day { after_ms: u64 },
}

/// A rate changes at most so often.
const CHANGE_MS: u64 = 1_000;
/// Timers are not exact: what was missed in so short a time is made up for.
const SLACK_MS: f64 = 50.0;
/// The share of the whole that is added for each second that went well.
const INCREASE: f64 = 0.05;

impl Pace {
    pub fn new(cap: Option<f64>) -> Self {
        let rate = cap.map_or(RATE_UNTIL_KNOWN, |cap| cap.min(RATE_UNTIL_KNOWN));
        let (changed_at, slots) = (Millis(0), Slots::default());
        Self { max: rate, rate, cap, next: 0.0, changed_at, left_today: None, slots }
    }

    /// What the account says that it may. A rate that was lowered stays so until it grows by itself.
    pub fn learn(&mut self, account: &Account) {
        let max = self.cap.map_or(account.per_second, |cap| cap.min(account.per_second)).max(RATE_MIN);
        let was_slowed = self.rate < self.max;
        self.rate = if was_slowed { self.rate.min(max) } else { max };
        self.max = max;
        self.left_today = account.left_today;
    }

    /// The next turn, if it comes soon and not after `start_by`. A turn that comes too late is not used up.
    pub fn turn(&mut self, now: Millis, start_by: Millis) -> Result<Millis, Wait> {
        if self.left_today == Some(0) {
            return Err(Wait::Day { after_ms: DAY_REST_MS });
        }
        let latest = start_by.min(now.plus(TURN_MS_MAX));
        let at = self.next.max(now.0 as f64 - SLACK_MS);
        let turn = Millis(at.ceil() as u64).max(now);
        let interval_ms = 1_000.0 / self.rate;
        if turn > latest {
            return Err(Wait::Rate { after_ms: self.slots.book(now, turn, (interval_ms * 1_000.0) as u64) });
        }
        self.next = at + interval_ms;
        self.left_today = self.left_today.map(|left| left - 1);
        Ok(turn)
    }

    /// A turn that was not used after all.
    pub fn put_back(&mut self) {
        self.left_today = self.left_today.map(|left| left + 1);
    }

    pub fn throttled(&mut self, now: Millis) {
        if self.may_change(now) {
            self.rate = (self.rate / 2.0).max(RATE_MIN);
        }
    }

    pub fn worked(&mut self, now: Millis) {
        if self.rate < self.max && self.may_change(now) {
            self.rate = (self.rate + self.max * INCREASE).min(self.max);
        }
    }

    pub fn day_is_over(&mut self) {
        self.left_today = Some(0);
    }

    fn may_change(&mut self, now: Millis) -> bool {
        let may = now.since(self.changed_at) >= CHANGE_MS;
        if may {
            self.changed_at = now;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Millis = Millis(u64::MAX);

    fn known(per_second: f64, left_today: Option<u64>) -> Pace {
        let mut pace = Pace::new(None);
        pace.learn(&Account { per_second, left_today, may_send: true });
        pace
    }

    fn turns(pace: &mut Pace, now: u64) -> usize {
        (0..10_000).take_while(|_| pace.turn(Millis(now), NEVER).is_ok()).count()
    }

    // proves: EML-05, RL-04
    #[test]
    fn turns_are_as_many_as_the_account_allows() {
        let mut pace = known(10.0, None);
        assert_eq!(turns(&mut pace, 100_000), 51, "of the next five seconds");
        assert!(matches!(pace.turn(Millis(100_000), NEVER), Err(Wait::Rate { after_ms: 4_000.. })));
        assert_eq!(turns(&mut pace, 101_000), 10);
        assert_eq!(turns(&mut Pace::new(None), 100_000), 6, "one per second until it is known");
    }

    // fixes: interop F1
    #[test]
    fn a_turn_that_comes_too_late_is_not_used_up() {
        let mut pace = known(10.0, Some(1_000));
        let soon = Millis(102_000);
        let taken = (0..500).filter(|_| pace.turn(Millis(100_000), soon).is_ok()).count();
        assert_eq!((taken, pace.left_today), (21, Some(979)), "those of two seconds");
        assert!(matches!(pace.turn(Millis(102_000), Millis(104_000)), Ok(Millis(..=102_100))));
    }

    // proves: EML-05
    #[test]
    fn a_day_has_an_end() {
        let mut pace = known(1_000.0, Some(2));
        assert_eq!(turns(&mut pace, 100_000), 2);
        assert_eq!(pace.turn(Millis(100_000), NEVER), Err(Wait::Day { after_ms: DAY_REST_MS }));
        pace.put_back();
        assert!(pace.turn(Millis(100_000), NEVER).is_ok());
    }

    #[test]
    fn throttling_halves_and_success_adds() {
        let mut pace = known(100.0, None);
        (0..50).for_each(|_| pace.throttled(Millis(2_000)));
        assert_eq!(pace.rate, 50.0, "one bad second counts once");
        pace.throttled(Millis(3_000));
        assert_eq!(pace.rate, 25.0);
        (4..100).for_each(|second| pace.worked(Millis(second * 1_000)));
        assert_eq!(pace.rate, 100.0);
        (100..200).for_each(|second| pace.throttled(Millis(second * 1_000)));
        assert_eq!(pace.rate, RATE_MIN);
        pace.learn(&Account { per_second: 200.0, left_today: None, may_send: true });
        assert_eq!((pace.rate, pace.max), (RATE_MIN, 200.0));
    }

    #[test]
    fn an_operator_can_want_less() {
        let mut pace = Pace::new(Some(5.0));
        pace.learn(&Account { per_second: 100.0, left_today: None, may_send: true });
        assert_eq!(pace.rate, 5.0);
    }
}
