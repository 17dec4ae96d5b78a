//! The sandbox's idea of the time: that of the machine, moved by as much as a test wants.
//!
//! Tokens and quotas are judged by this clock, so that an hour can pass without waiting for it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Default)]
pub struct Clock {
    shift_ms: AtomicI64,
}

impl Clock {
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let real = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        u64::try_from(real.saturating_add(self.shift_ms.load(Ordering::SeqCst))).unwrap_or(0)
    }

    /// From now on it is so much later.
    pub fn advance(&self, ms: i64) {
        self.shift_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_passes_at_once() {
        let clock = Clock::default();
        let before = clock.now_ms();
        clock.advance(3_600_000);
        assert!(clock.now_ms() >= before + 3_600_000);
        clock.advance(i64::MIN / 2);
        assert_eq!(clock.now_ms(), 0);
    }
}
