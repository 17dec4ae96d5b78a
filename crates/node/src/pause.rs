//! Pause: a restored copy accepts and reads, and sends nothing until an operator resumes it.
//!
//! Input: whether the node starts paused, and one call of `Node::resume`. Goes to: every loop by which something leaves the
//! process: the dispatcher, webhooks, bulk sends, digests, scheduled sends and recurring schedules.
//!
//! Invariant: a node becomes paused only by its start, so a parcel that has begun never meets a pause. What waited meets all of
//! its gates and its time to live at the resume, since nothing was planned before.

use crate::core::Core;
use crate::node::Node;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::warn;

/// Whether nothing may leave.
#[derive(Debug, Default)]
pub struct Pause(AtomicBool);

impl Pause {
    #[must_use]
    pub fn new(is_paused: bool) -> Self {
        Self(AtomicBool::new(is_paused))
    }

    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Says whether it was on.
    fn end(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

impl Core {
    /// Whether what is due has to wait: the node is paused, or its clock is not believed.
    #[must_use]
    pub fn keeps_back_what_is_due(&self) -> bool {
        self.pause.is_on() || self.clock.hold().is_some()
    }

    /// Has every loop look again at what it kept back.
    pub fn look_again(&self) {
        self.dispatch.look_anew();
        self.schedules.ring();
        self.fronts.values().for_each(|front| front.scheduled.ring());
        self.shards.values().for_each(|shard| {
            shard.windows.ring();
            shard.walks.ring();
        });
    }
}

impl Node {
    /// Whether nothing leaves this node.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.core.pause.is_on()
    }

    /// Whether what is due has to wait: nothing is released, and nothing is deleted because of its age.
    #[must_use]
    pub fn keeps_back_what_is_due(&self) -> bool {
        self.core.keeps_back_what_is_due()
    }

    /// What waits is sent from now on, as far as its gates and its time to live allow. Again: a no-op.
    pub fn resume(&self) {
        if self.core.pause.end() {
            warn!("resumed: what waited is sent from now on");
            self.core.look_again();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_once_and_does_not_begin_again() {
        let pause = Pause::new(true);
        assert!(pause.is_on());
        assert!(pause.end() && !pause.is_on());
        assert!(!pause.end() && !pause.is_on());
        assert!(!Pause::default().is_on());
    }
}
