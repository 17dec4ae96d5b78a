//! Time. Nothing else in the workspace asks the operating system for it.

use fantail_rules::ids::Millis;

pub trait Clock: Send + Sync {
    /// Wall time. May jump in either direction.
    fn wall(&self) -> Millis;

    /// Milliseconds since some fixed point; never goes back.
    fn monotonic(&self) -> Millis;
}
