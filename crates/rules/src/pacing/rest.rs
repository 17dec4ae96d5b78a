//! Resting when a provider asks for it, and coming back gently.
//!
//! A [`Pause`] holds a scope until a time; a [`Ramp`] gives a share of the full rate, and of the places, that doubles every
//! second, from a tenth on. What must never happen: a backlog that falls on a provider the moment it is back.

use super::bucket::WHOLE;
use crate::ids::Millis;
use crate::limits::{RAMP_SHARE_MIN, RETRY_AFTER_MS_MAX};

/// Nothing goes out before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pause {
    end: Millis,
}

impl Pause {
    /// Rests for so long, or as long as it would have anyway; never longer than a limit. Returns the end.
    pub fn rest(&mut self, now: Millis, span_ms: u64) -> Millis {
        self.end = self.end.max(now.plus(span_ms.min(RETRY_AFTER_MS_MAX)));
        self.end
    }

    /// The end, if it lies ahead.
    #[must_use]
    pub fn until(&self, now: Millis) -> Option<Millis> {
        (self.end > now).then_some(self.end)
    }
}

/// The share of what it could do before, after a recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ramp {
    recovered_at: Option<Millis>,
}

impl Ramp {
    pub fn begin(&mut self, recovered_at: Millis) {
        self.recovered_at = Some(recovered_at);
    }

    /// In thousandths.
    #[must_use]
    pub fn share(&self, now: Millis) -> u32 {
        let Some(recovered_at) = self.recovered_at else { return WHOLE };
        let doublings = (now.since(recovered_at) / 1_000).min(10);
        (RAMP_SHARE_MIN << doublings).min(WHOLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_never_shortened_and_never_endless() {
        let mut pause = Pause::default();
        assert_eq!(pause.until(Millis(0)), None);
        assert_eq!(pause.rest(Millis(100), 1_000), Millis(1_100));
        assert_eq!(pause.rest(Millis(200), 10), Millis(1_100));
        assert_eq!(pause.until(Millis(1_099)), Some(Millis(1_100)));
        assert_eq!(pause.until(Millis(1_100)), None);
        assert_eq!(pause.rest(Millis(0), u64::MAX), Millis(3_600_000));
    }

    // proves: DEL-16
    #[test]
    fn the_rate_comes_back_in_steps() {
        let mut ramp = Ramp::default();
        assert_eq!(ramp.share(Millis(0)), 1_000);
        ramp.begin(Millis(5_000));
        for (now, share) in [
            (4_000, 100),
            (5_000, 100),
            (5_999, 100),
            (6_000, 200),
            (7_000, 400),
            (8_000, 800),
            (9_000, 1_000),
            (u64::MAX, 1_000),
        ] {
            assert_eq!(ramp.share(Millis(now)), share, "{now}");
        }
    }
}
