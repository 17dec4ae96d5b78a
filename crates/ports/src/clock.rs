//! Time. Nothing else in the workspace asks the operating system for it.

use fantail_rules::ids::Millis;

pub trait Clock: Send + Sync {
    /// Wall time. May jump in either direction.
    fn wall(&self) -> Millis;

    /// Milliseconds since some fixed point; never goes back.
    fn monotonic(&self) -> Millis;

    /// The same, and it counts the time in which the machine was suspended. Sleeping does not.
    fn steady(&self) -> Millis {
        self.monotonic()
    }

    /// The same as `monotonic`, finer, for measuring how long things take. Decides nothing.
    fn micros(&self) -> u64 {
        self.monotonic().0 * 1_000
    }

    /// How long the calling thread has had a processor, for judging work by what it takes: pauses of the process and waits for
    /// a processor are not in it. Of use only against another one of the same thread.
    fn worked_micros(&self) -> u64 {
        self.micros()
    }
}
