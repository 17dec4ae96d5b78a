//! One of a kind, then none for a while: the latest that a user got of each kind.
//!
//! Comes from: the record that authorised it. Decides: whether another one is too soon. Goes to: the gates. What is one
//! notification is one, by however many channels, devices and attempts it goes.

use crate::ids::{Arrival, Millis};

/// The latest of a kind that a user may have got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latest {
    pub event: Arrival,
    /// No other one before this.
    pub until: Millis,
}

impl Latest {
    #[must_use]
    pub fn of(event: Arrival, now: Millis, per_seconds: u32) -> Self {
        Self { event, until: now.plus(u64::from(per_seconds) * 1_000) }
    }

    /// Whether an event has to stay away because of this one.
    #[must_use]
    pub fn holds_back(&self, event: Arrival, now: Millis) -> bool {
        event != self.event && now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_one_is_too_soon_and_the_same_one_never_is() {
        let latest = Latest::of(Arrival(7), Millis(5_000), 60);
        for (event, now, expected) in [
            (8, 5_000, true),
            (8, 64_999, true),
            (8, 65_000, false),
            // By another channel, or once more.
            (7, 5_000, false),
            // One that came before and waited.
            (6, 64_999, true),
        ] {
            assert_eq!(latest.holds_back(Arrival(event), Millis(now)), expected, "{event} at {now}");
        }
    }
}
