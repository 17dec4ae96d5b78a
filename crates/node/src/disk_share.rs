//! What each tenant may still write while the disk is short.
//!
//! Comes from: the host, which looks at the disk, and every command of a tenant. Decides: whether this tenant has had its
//! share. Goes to: the queue, which refuses with `NoRoom`.
//!
//! When the disk is full the journal refuses everybody. Before that, from twice the reserve on, a tenant may write as much
//! as is still free above the reserve: half of what was left if it writes alone, a third beside another one that writes as
//! much. So the tenant that fills the disk is refused first, and the others go on. What the node does itself is not refused.
//!
//! Not here: quotas of what a tenant has stored. What was written is counted from when the disk became short on.

use fantail_rules::ids::TenantId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct DiskShare {
    /// Most of the time it is not, and nobody takes the lock.
    is_short: AtomicBool,
    state: Mutex<State>,
    refused: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Bytes that are free above the reserve.
    free_bytes: u64,
    /// By tenant, since the disk became short.
    written: BTreeMap<TenantId, u64>,
}

impl DiskShare {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes are free above the reserve; `None` while there is plenty.
    pub fn set(&self, free_bytes: Option<u64>) {
        let mut state = self.state();
        match free_bytes {
            Some(free_bytes) => state.free_bytes = free_bytes,
            None => *state = State::default(),
        }
        self.is_short.store(free_bytes.is_some(), Relaxed);
    }

    /// Counts what a tenant is about to write. `false` if it has had its share.
    pub fn claim(&self, tenant: TenantId, bytes: usize) -> bool {
        if !self.is_short.load(Relaxed) {
            return true;
        }
        let mut state = self.state();
        let (bytes, free_bytes) = (bytes as u64, state.free_bytes);
        let written = state.written.entry(tenant).or_default();
        if written.saturating_add(bytes) > free_bytes {
            self.refused.fetch_add(1, Relaxed);
            return false;
        }
        *written += bytes;
        // Until the disk is looked at again.
        state.free_bytes -= bytes;
        true
    }

    #[must_use]
    pub fn is_short(&self) -> bool {
        self.is_short.load(Relaxed)
    }

    /// Commands that were refused because their tenant had had its share.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: TenantId = TenantId(1);
    const QUIET: TenantId = TenantId(2);

    fn fill(share: &DiskShare, tenant: TenantId) -> usize {
        (0..).take_while(|_| share.claim(tenant, 10)).count() * 10
    }

    // fixes: security M8
    #[test]
    fn the_tenant_that_fills_the_disk_is_refused_first() {
        let share = DiskShare::default();
        assert!(share.claim(FLOOD, 1 << 30), "while there is plenty nobody is refused");
        share.set(Some(1_200));
        assert_eq!(fill(&share, FLOOD), 600, "half of what was left");
        assert!(share.claim(QUIET, 100), "another tenant goes on");
        assert!(!share.claim(FLOOD, 10));
        // The disk is looked at again: what was written is gone from it.
        share.set(Some(500));
        assert!(!share.claim(FLOOD, 10), "it has had its share");
        assert_eq!(fill(&share, QUIET), 200, "as much as is still free, with what it wrote before");
        assert!(fill(&share, TenantId(3)) > 0, "room for one more is left");
        assert_eq!(share.refused(), 5);
    }

    #[test]
    fn when_space_returns_everybody_begins_anew() {
        let share = DiskShare::default();
        share.set(Some(100));
        fill(&share, FLOOD);
        share.set(None);
        assert!(!share.is_short() && share.claim(FLOOD, 1 << 40));
        share.set(Some(100));
        assert_eq!(fill(&share, FLOOD), 50);
    }
}
