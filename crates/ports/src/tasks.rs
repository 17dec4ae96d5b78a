//! Concurrency: how the node starts its loops and waits for time to pass.

use crate::BoxFuture;
use fantail_rules::ids::Millis;

pub trait Tasks: Send + Sync {
    /// Runs `task` beside everything else. `name` shows in logs and traces.
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>);

    /// Returns when [`Clock::monotonic`](crate::clock::Clock::monotonic) has reached `deadline`.
    fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()>;
}
