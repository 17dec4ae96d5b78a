//! Which refused requests get a line in the log.
//!
//! Invariant: refused requests write a bounded number of lines, however many there are and whoever sends them. Those without a line are
//! counted, and one line a minute says how many they were. Callers without a key of a tenant have an allowance of their own, so that
//! strangers cannot hide what is refused to tenants, and tenants not what is refused to strangers.

use crate::telemetry::{Counter, Text};
use fantail_rules::ids::Millis;
use fantail_rules::limits::{REFUSAL_LINES_AT_ONCE_MAX, REFUSAL_LINES_PER_SECOND_MAX};
use fantail_rules::pacing::{Allowance, Rate, charge};
use std::sync::{Mutex, PoisonError};
use tracing::info;

const RATE: Rate = Rate { per_second: REFUSAL_LINES_PER_SECOND_MAX, burst: REFUSAL_LINES_AT_ONCE_MAX };

/// Who was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusedCaller {
    /// Showed no key, or none that is good.
    Stranger,
    Tenant,
}

#[derive(Debug, Default)]
pub struct RefusalLines {
    strangers: CallerLines,
    tenants: CallerLines,
}

#[derive(Debug, Default)]
struct CallerLines {
    allowance: Mutex<Allowance>,
    left_out: Counter,
    /// How many of them a sum has counted.
    summed: Counter,
}

impl CallerLines {
    fn is_allowed(&self, now: Millis) -> bool {
        let mut allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        let mut parts = [(RATE, *allowance)];
        let is_allowed = charge(&mut parts, now, 1).is_ok();
        *allowance = parts[0].1;
        if !is_allowed {
            self.left_out.add(1);
        }
        is_allowed
    }

    /// Left out since this was called last. Only one task calls it.
    fn take_left_out(&self) -> u64 {
        let more = self.left_out.get().saturating_sub(self.summed.get());
        self.summed.add(more);
        more
    }
}

impl RefusalLines {
    fn lines_of(&self, caller: RefusedCaller) -> &CallerLines {
        match caller {
            RefusedCaller::Stranger => &self.strangers,
            RefusedCaller::Tenant => &self.tenants,
        }
    }

    /// Whether this refused request gets its line; if not, it is counted.
    pub fn is_allowed(&self, caller: RefusedCaller, now: Millis) -> bool {
        self.lines_of(caller).is_allowed(now)
    }

    /// Says how many had no line since this was said last.
    pub fn write_sums(&self) {
        for (callers, lines) in [("strangers", &self.strangers), ("tenants", &self.tenants)] {
            let more = lines.take_left_out();
            if more > 0 {
                info!(
                    more,
                    callers, "more requests were refused in the last minute, without a line of their own"
                );
            }
        }
    }

    pub fn write(&self, text: &mut Text) {
        let name = "fantail_refusal_lines_left_out_total";
        text.family(name, "counter", "Refused requests without a line of their own in the log, by caller");
        text.sample(name, &[("callers", "strangers")], self.strangers.left_out.get());
        text.sample(name, &[("callers", "tenants")], self.tenants.left_out.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_what_is_left_out_is_summed_up() {
        let lines = RefusalLines::default();
        let most = u64::from(REFUSAL_LINES_AT_ONCE_MAX);
        let refused = |caller, count: u64, at| {
            (0..count).filter(|_| lines.is_allowed(caller, Millis(at))).count() as u64
        };
        assert_eq!(refused(RefusedCaller::Stranger, most + 500, 0), most);
        assert_eq!(refused(RefusedCaller::Tenant, 10, 0), 10, "strangers hide nothing of tenants");
        assert_eq!((lines.strangers.take_left_out(), lines.tenants.take_left_out()), (500, 0));
        assert_eq!(lines.strangers.take_left_out(), 0, "each is counted once");
        let a_second_later = refused(RefusedCaller::Stranger, 1_000, 1_000);
        assert_eq!(a_second_later, u64::from(REFUSAL_LINES_PER_SECOND_MAX));
        assert_eq!(lines.strangers.take_left_out(), 1_000 - a_second_later);
    }
}
