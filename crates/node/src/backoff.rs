//! Retries of a loop: what failed is tried again after a while, longer each time, and counted.
//!
//! Invariant: a loop ends only when its queue is closed. Every other error comes here.

use crate::ask::Refusal;
use crate::meter::Meter;
use crate::ports::Ports;
use fantail_rules::limits::{LOOP_RETRY_MS_MAX, LOOP_RETRY_MS_MIN};
use tracing::warn;

/// How often one loop has failed in a row.
pub struct Backoff {
    name: &'static str,
    failures: u32,
}

impl Backoff {
    #[must_use]
    pub fn of(name: &'static str) -> Self {
        Self { name, failures: 0 }
    }

    /// The loop works, or works again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Logs and counts a failure; returns after how many milliseconds to try again.
    pub fn failed(&mut self, meter: &Meter, refusal: &Refusal) -> u64 {
        if is_pressure(refusal) {
            warn!(task = self.name, %refusal, "put off");
            return LOOP_RETRY_MS_MIN;
        }
        let after_ms = delay_ms(self.failures);
        self.failures = self.failures.saturating_add(1);
        meter.loop_failed(self.name);
        warn!(task = self.name, %refusal, failures = self.failures, after_ms, "failed, trying again");
        after_ms
    }

    /// The same, and waits.
    pub async fn wait(&mut self, ports: &Ports, meter: &Meter, refusal: &Refusal) {
        let after_ms = self.failed(meter, refusal);
        ports.tasks.sleep_until(ports.clock.monotonic().plus(after_ms)).await;
    }
}

/// A full queue or disk has metrics of its own, and is no failure of the loop.
fn is_pressure(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Busy { .. } | Refusal::NoRoom)
}

/// Doubles from attempt to attempt.
fn delay_ms(failures: u32) -> u64 {
    LOOP_RETRY_MS_MIN.saturating_mul(1 << failures.min(16)).min(LOOP_RETRY_MS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit() {
        let delays: Vec<u64> = (0..9).map(delay_ms).collect();
        assert_eq!(delays, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000]);
        assert_eq!(delay_ms(u32::MAX), LOOP_RETRY_MS_MAX);
    }
}
