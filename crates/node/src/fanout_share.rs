//! What each tenant may still have accepted while fan-out is behind.
//!
//! Comes from: the sync loop, which asks the store how many events wait for their inboxes, and every event that is offered.
//! Decides: whether this tenant has had its share. Goes to: acceptance, which refuses with `QUEUE_FULL`.
//!
//! The rule is that of a short disk (`disk_share`), in events: from half of the bound on, a tenant may have as many accepted as are
//! still free. So the tenant that posts more than can be written is refused first, and the others go on. At the bound
//! everybody is refused.

use crate::disk_share::DiskShare;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::BACKLOG_EVENTS_MAX;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[derive(Default)]
pub struct FanoutShare {
    share: DiskShare,
    is_full: AtomicBool,
}

impl FanoutShare {
    /// How many events fan-out has before it.
    pub fn set_backlog(&self, events: u64) {
        let is_behind = events > BACKLOG_EVENTS_MAX / 2;
        self.share.set(is_behind.then(|| BACKLOG_EVENTS_MAX.saturating_sub(events)));
        self.is_full.store(events > BACKLOG_EVENTS_MAX, Relaxed);
    }

    /// Whether there is no room at all: bulk sends wait.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full.load(Relaxed)
    }

    /// Counts events that a tenant wants accepted. `false` if it has had its share.
    #[must_use]
    pub fn claim(&self, tenant: TenantId, events: usize) -> bool {
        self.share.claim(tenant, events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: TenantId = TenantId(1);
    const QUIET: TenantId = TenantId(2);
    const HALF: u64 = BACKLOG_EVENTS_MAX / 2;

    fn fill(share: &FanoutShare, tenant: TenantId) -> u64 {
        (0..).take_while(|_| share.claim(tenant, 1_024)).count() as u64 * 1_024
    }

    #[test]
    fn the_tenant_that_posts_too_much_is_refused_first() {
        let share = FanoutShare::default();
        assert!(share.claim(FLOOD, 1 << 30), "while fan-out keeps up nobody is refused");
        share.set_backlog(HALF);
        assert!(share.claim(FLOOD, 1 << 30));
        // It is behind from here on.
        share.set_backlog(HALF + 1_024);
        let accepted = fill(&share, FLOOD);
        assert!(accepted <= HALF / 2, "half of what is free, not {accepted}");
        // The flood is in the backlog now.
        share.set_backlog(HALF + 1_024 + accepted);
        assert!(!share.claim(FLOOD, 1_024));
        assert!(share.claim(QUIET, 1_024), "another tenant goes on");
        share.set_backlog(BACKLOG_EVENTS_MAX);
        assert!(!share.claim(QUIET, 1), "there is no room at all");
        share.set_backlog(HALF);
        assert!(share.claim(FLOOD, 1_024) && share.claim(QUIET, 1_024), "fan-out keeps up again");
    }
}
