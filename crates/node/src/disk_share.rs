//! What each tenant may still write while the disk is short.
//!
//! Comes from: the host, which looks at the disk, and every command of a tenant. Decides: whether this tenant has had its
//! share. Goes to: the queue, which refuses with `NoRoom`.
//!
//! When the disk is full the journal refuses everybody. Before that, from twice the reserve on, a tenant may write as much
//! as is still free above the reserve: half of what was left if it writes alone, a third beside another one that writes as
//! much. So the tenant that fills the disk is refused first, and the others go on. What the node does itself is not refused.
//!
//! What was written is counted from when the disk became short on. It is never more than what is gone since then: as much as
//! was trimmed is forgiven, to each tenant its part. A disk that stays short forgives the rest in the course of hours, so
//! that what one tenant wrote long ago keeps no other one from what is free.
//!
//! Not here: quotas of what a tenant has stored.

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
    /// The most that was free while the disk was short; comes down to what is free slowly.
    free_bytes_before: u64,
    /// By tenant, since the disk became short.
    written: BTreeMap<TenantId, u64>,
}

/// At each look, one part of so many of what is gone is forgotten: half of it after about 45 minutes of looks a second apart.
const FORGIVEN_SHARE: u64 = 4_096;

impl State {
    /// The disk was looked at.
    fn look(&mut self, free_bytes: u64) {
        let before = self.free_bytes_before.max(free_bytes);
        self.free_bytes_before = before - (before - free_bytes) / FORGIVEN_SHARE;
        self.free_bytes = free_bytes;
        let gone = self.free_bytes_before - free_bytes;
        let written: u64 = self.written.values().sum();
        if written <= gone {
            return;
        }
        self.written.retain(|_, own| {
            *own = (u128::from(*own) * u128::from(gone) / u128::from(written)) as u64;
            *own > 0
        });
    }
}

impl DiskShare {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes are free above the reserve; `None` while there is plenty.
    pub fn set(&self, free_bytes: Option<u64>) {
        let mut state = self.state();
        match free_bytes {
            Some(free_bytes) => state.look(free_bytes),
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
    fn a_disk_that_stays_short_forgives_what_is_trimmed() {
        const PART: usize = 10_000;
        let share = DiskShare::default();
        // As much is trimmed as is written.
        for _ in 0..1_000 {
            share.set(Some(1_000_000));
            assert!(share.claim(FLOOD, PART));
        }
        // Then it writes as much as it may, and nothing of that is trimmed.
        while share.claim(FLOOD, PART) {}
        share.set(Some(500_000));
        assert!(!share.claim(FLOOD, PART), "it has had its share");
        for _ in 0..10_000 {
            assert!(share.claim(QUIET, PART), "what another one writes is trimmed again");
            share.set(Some(500_000));
        }
        assert!(share.claim(FLOOD, PART), "after hours it goes on, too");
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
