//! The operating system's clocks.

use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    /// Monotonic time counts from here.
    origin: Instant,
}

impl SystemClock {
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Millis {
        // A clock set before 1970 shows zero; whoever adopts times refuses such a jump.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(since.as_millis() as u64)
    }

    fn monotonic(&self) -> Millis {
        Millis(self.origin.elapsed().as_millis() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_never_goes_back() {
        let clock = SystemClock::new();
        let (first, second) = (clock.monotonic(), clock.monotonic());
        assert!(first <= second);
        assert!(clock.wall() > Millis(1_600_000_000_000), "the wall shows this century");
    }
}
