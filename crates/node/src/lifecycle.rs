//! How a node ends: it drains, closes its queues and makes the store durable, or gives up with a reason.
//!
//! Invariant: after `drain` no new delivery starts; after `refuse_all` no loop goes on.

use crate::ask::Refusal;
use crate::core::Core;
use crate::node::Node;
use crate::{audit, housekeeping};
use fantail_ports::BoxFuture;

/// How often a node that drains looks whether it is done.
const DRAIN_LOOK_MS: u64 = 10;

impl Node {
    /// Starts no more deliveries, and waits until the outcome of each one under way is durable, but no longer than that.
    /// Returns how many turns and parcels have not ended.
    pub async fn drain(&self, wait_ms: u64) -> usize {
        let Core { dispatch, ports, .. } = &*self.core;
        dispatch.drain();
        let give_up = ports.clock.monotonic().plus(wait_ms);
        loop {
            let (left, now) = (dispatch.under_way(), ports.clock.monotonic());
            if left == 0 || now >= give_up {
                return left;
            }
            ports.tasks.sleep_until(now.plus(DRAIN_LOOK_MS)).await;
        }
    }

    /// Closes all queues: what waits is refused, and loops end.
    pub fn refuse_all(&self) {
        self.core.root.close();
        self.core.fronts.values().for_each(|front| front.queue.close());
        self.core.directories.values().for_each(|directory| directory.queue.close());
        self.core.shards.values().for_each(|shard| shard.queue.close());
    }

    /// Stops accepting, lets what is in flight finish, and makes the store durable. The journal is the caller's
    /// to close.
    pub async fn stop(&self) -> Result<(), Refusal> {
        self.refuse_all();
        audit::feed::ended(&self.core).await;
        housekeeping::sync_now(&self.core).await.map(|_| ())
    }

    /// Why nothing more can be promised, if so.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        self.core.ports.stop.reason()
    }

    /// Says that nothing more can be promised: the process is to stop.
    pub fn give_up(&self, reason: &str) {
        self.core.ports.stop.set(reason);
    }

    /// The work of a thread that the node cannot do without: its panic stops the node.
    pub fn supervised_thread(
        &self,
        name: &'static str,
        work: impl FnOnce() + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        self.core.ports.tasks.supervised_thread(name, work)
    }

    /// The names of tasks that panicked, and how often.
    #[must_use]
    pub fn panics(&self) -> Vec<(&'static str, u64)> {
        let all = self.core.ports.tasks.panics();
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Runs a loop that must not end, or panic, before the node stops.
    pub fn spawn_loop(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        self.core.spawn_loop(name, task);
    }
}
