//! Walks that tenants ask for now: with those under way there are only so many of a tenant.
//!
//! Comes from: acceptance, before a front is asked. Goes back to it as a claim that holds until the front has answered. So
//! requests that come at once do not all find the same few walks under way. What is scheduled is counted by its front, too.

use fantail_rules::ids::TenantId;
use fantail_rules::limits::WALKS_PER_TENANT_MAX;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct WalksAsked {
    by_tenant: Mutex<BTreeMap<TenantId, usize>>,
}

/// One of a tenant's walks, until it is dropped.
#[must_use]
pub struct WalkClaim {
    asked: Arc<WalksAsked>,
    tenant: TenantId,
}

impl WalksAsked {
    fn by_tenant(&self) -> MutexGuard<'_, BTreeMap<TenantId, usize>> {
        self.by_tenant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if there are enough, with so many under way.
    pub fn claim(self: &Arc<Self>, tenant: TenantId, under_way: usize) -> Option<WalkClaim> {
        let mut by_tenant = self.by_tenant();
        let asked = by_tenant.get(&tenant).copied().unwrap_or(0);
        if under_way + asked >= WALKS_PER_TENANT_MAX {
            return None;
        }
        by_tenant.insert(tenant, asked + 1);
        Some(WalkClaim { asked: self.clone(), tenant })
    }
}

impl Drop for WalkClaim {
    fn drop(&mut self) {
        let mut by_tenant = self.asked.by_tenant();
        if let Some(asked) = by_tenant.get_mut(&self.tenant) {
            *asked = asked.saturating_sub(1);
            if *asked == 0 {
                by_tenant.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_at_once_get_no_more_walks_than_one_after_the_other() {
        let asked = Arc::new(WalksAsked::default());
        let (flood, other) = (TenantId(1), TenantId(2));
        let mut claims: Vec<WalkClaim> = (0..1_000).filter_map(|_| asked.claim(flood, 40)).collect();
        assert_eq!(claims.len(), WALKS_PER_TENANT_MAX - 40, "with those that are under way");
        assert!(asked.claim(other, 0).is_some(), "others have their own");
        claims.pop();
        assert!(asked.claim(flood, 40).is_some(), "one was answered");
        assert!(asked.claim(flood, 41).is_none(), "and is under way");
        drop(claims);
        assert!(asked.by_tenant().is_empty());
    }
}
