//! A clock that stands still until it is told to move.

use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use std::sync::atomic::{AtomicU64, Ordering};

/// Wall and monotonic time move together, except where a test makes the wall jump.
#[derive(Debug)]
pub struct ManualClock {
    wall: AtomicU64,
    monotonic: AtomicU64,
    /// How long the machine was suspended.
    suspended: AtomicU64,
}

impl ManualClock {
    /// A clock whose wall shows `wall` and whose monotonic time is zero.
    #[must_use]
    pub fn new(wall: Millis) -> Self {
        Self { wall: AtomicU64::new(wall.0), monotonic: AtomicU64::new(0), suspended: AtomicU64::new(0) }
    }

    /// Lets time pass on both.
    pub fn advance(&self, span_ms: u64) {
        self.wall.fetch_add(span_ms, Ordering::SeqCst);
        self.monotonic.fetch_add(span_ms, Ordering::SeqCst);
    }

    /// Moves both forward to a monotonic time; a time in the past is a no-op.
    pub fn advance_to(&self, monotonic: Millis) {
        self.advance(monotonic.since(self.monotonic()));
    }

    /// Suspends the machine for so long: the wall and the steady clock count it, the monotonic one does not.
    pub fn suspend(&self, span_ms: u64) {
        self.wall.fetch_add(span_ms, Ordering::SeqCst);
        self.suspended.fetch_add(span_ms, Ordering::SeqCst);
    }

    /// Makes the wall jump, in either direction.
    pub fn set_wall(&self, wall: Millis) {
        self.wall.store(wall.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Millis {
        Millis(self.wall.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Millis {
        Millis(self.monotonic.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Millis {
        self.monotonic().plus(self.suspended.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_of_the_wall_leaves_monotonic_time_alone() {
        let clock = ManualClock::new(Millis(1_000));
        clock.advance(5);
        clock.set_wall(Millis(10));
        clock.advance_to(Millis(8));
        clock.advance_to(Millis(2));
        assert_eq!((clock.wall(), clock.monotonic()), (Millis(13), Millis(8)));
    }
}
