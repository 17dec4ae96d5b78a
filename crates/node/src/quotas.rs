//! What each tenant has, and whether more of it fits.
//!
//! Input: the rows that leaders keep (`tables::usage`), told after each batch that is durable, and claims of requests that
//! add something. Decides: nothing; `rules::quota` does. Output: a claim that holds its room until the request is answered,
//! or a refusal.
//!
//! Invariant: what was accepted is in the rows or in a claim. So a tenant comes to its limit exactly, however many ask at
//! once; only a caller that goes away while its request waits gives up the claim early. While a batch is being answered it
//! is in both: near a limit a request may be refused that would fit a moment later.
//!
//! Not here: deletes, outcomes and everything the node does for itself. They claim nothing. Runs of schedules are requests.

use crate::ask::Refusal;
use crate::core::Core;
use fantail_machine::tables::usage::{self, UsageNow};
use fantail_ports::store::{Store, StoreError};
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{PartitionId, TenantId};
use fantail_rules::quota::{self, Amounts, OverQuota, Quota, Resource};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct TenantUsage {
    /// Of tenants that have no limits of their own; 0: none.
    defaults: Amounts,
    state: Mutex<UsageState>,
}

#[derive(Default)]
struct UsageState {
    /// As the rows of each partition say.
    kept: BTreeMap<(TenantId, PartitionId), Amounts>,
    tenants: BTreeMap<TenantId, TenantTotal>,
}

#[derive(Default)]
struct TenantTotal {
    /// The sum of what is kept.
    stored: Amounts,
    claimed: Amounts,
    /// Requests that did not fit, by what there was too much of.
    refused: Amounts,
}

/// Room that a request holds until it is dropped.
#[must_use]
pub struct Claim {
    usage: Arc<TenantUsage>,
    tenant: TenantId,
    adds: Amounts,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.usage.state();
        let total = state.tenants.entry(self.tenant).or_default();
        total.claimed = total.claimed.minus(&self.adds);
    }
}

impl TenantUsage {
    #[must_use]
    pub fn new(defaults: Amounts) -> Self {
        Self { defaults, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, UsageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what tenants have in a partition that was recovered.
    pub fn read(&self, store: &dyn Store, partition: PartitionId) -> Result<(), StoreError> {
        let mut found = Err(TablesError::Io { reason: "the store gave no state".to_owned() });
        store.read(partition, &mut |state| found = usage::all(state.tables()))?;
        self.settle(partition, &found?);
        Ok(())
    }

    /// What a batch has changed is durable.
    pub fn settle(&self, partition: PartitionId, changes: &[(TenantId, UsageNow)]) {
        if changes.is_empty() {
            return;
        }
        let mut guard = self.state();
        let state = &mut *guard;
        for (tenant, now) in changes {
            let kept = state.kept.entry((*tenant, partition)).or_default();
            let before = *kept;
            *kept = match now {
                UsageNow::Kept(usage) => usage.0.with(Resource::Waiting, before.of(Resource::Waiting)),
                UsageNow::Waiting(count) => before.with(Resource::Waiting, *count),
            };
            let total = state.tenants.entry(*tenant).or_default();
            total.stored = total.stored.minus(&before).plus(kept);
        }
    }

    fn claim(self: &Arc<Self>, tenant: TenantId, quota: &Quota, adds: Amounts) -> Result<Claim, OverQuota> {
        let mut state = self.state();
        let total = state.tenants.entry(tenant).or_default();
        let used = total.stored.plus(&total.claimed);
        if let Err(over) = quota::decide(&used, &adds, quota, &self.defaults) {
            let one = Amounts::default().with(over.resource, 1);
            total.refused = total.refused.plus(&one);
            return Err(over);
        }
        total.claimed = total.claimed.plus(&adds);
        Ok(Claim { usage: self.clone(), tenant, adds })
    }

    /// What a tenant has.
    #[must_use]
    pub fn stored(&self, tenant: TenantId) -> Amounts {
        self.state().tenants.get(&tenant).map(|total| total.stored).unwrap_or_default()
    }

    /// Requests of a tenant that did not fit, by what there was too much of.
    #[must_use]
    pub fn refused(&self, tenant: TenantId) -> Amounts {
        self.state().tenants.get(&tenant).map(|total| total.refused).unwrap_or_default()
    }

    #[must_use]
    pub fn defaults(&self) -> &Amounts {
        &self.defaults
    }
}

/// Holds room for what a request adds, or the run of a schedule: whoever it is asked for by.
pub fn claim(core: &Core, tenant: TenantId, adds: Amounts) -> Result<Option<Claim>, Refusal> {
    if adds == Amounts::default() {
        return Ok(None);
    }
    let control = core.control.now();
    let view = control.tenants.get(&tenant).ok_or(Refusal::UnknownTenant)?;
    let claimed = core.usage.claim(tenant, &view.quota, adds);
    claimed.map(Some).map_err(|OverQuota { resource, limit }| Refusal::OverQuota { resource, limit })
}

/// So many bytes, and one of something.
#[must_use]
pub fn adds(resource: Option<Resource>, bytes: u64) -> Amounts {
    let amounts = Amounts::default().with(Resource::StoredBytes, bytes);
    resource.map_or(amounts, |resource| amounts.with(resource, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_machine::tables::usage::Usage;
    use fantail_rules::ids::{FrontNo, ShardNo};

    const TENANT: TenantId = TenantId(1);
    const SHARDS: [PartitionId; 2] = [PartitionId::Shard(ShardNo(0)), PartitionId::Shard(ShardNo(1))];
    const FRONT: PartitionId = PartitionId::Front(FrontNo(0));

    fn users(count: u64) -> Amounts {
        Amounts::default().with(Resource::Users, count)
    }

    fn settle(usage: &TenantUsage, partition: PartitionId, count: u64) {
        usage.settle(partition, &[(TENANT, UsageNow::Kept(Usage(users(count))))]);
    }

    // fixes: security M8
    #[test]
    fn a_tenant_comes_to_its_limit_exactly_and_deletion_gives_room() {
        let usage = Arc::new(TenantUsage::new(users(10)));
        let quota = Quota::default();
        settle(&usage, SHARDS[0], 4);
        settle(&usage, SHARDS[1], 3);
        let claims: Vec<Claim> = (0..3)
            .map(|_| usage.claim(TENANT, &quota, users(1)).unwrap_or_else(|_| panic!("it fits")))
            .collect();
        let over = OverQuota { resource: Resource::Users, limit: 10 };
        assert_eq!(usage.claim(TENANT, &quota, users(1)).err(), Some(over), "what is on its way counts");
        assert!(usage.claim(TenantId(2), &quota, users(10)).is_ok(), "others have their own");
        assert!(usage.claim(TENANT, &quota.with(Resource::Users, Some(11)), users(1)).is_ok());
        // They are durable, and then answered.
        settle(&usage, SHARDS[0], 7);
        assert!(usage.claim(TENANT, &quota, users(1)).is_err(), "in both for a moment");
        drop(claims);
        assert!(usage.claim(TENANT, &quota, users(1)).is_err());
        assert_eq!((usage.stored(TENANT), usage.refused(TENANT)), (users(10), users(3)));
        settle(&usage, SHARDS[1], 2);
        assert!(usage.claim(TENANT, &quota, users(1)).is_ok());
        assert_eq!(usage.claim(TENANT, &quota, users(2)).err(), Some(over));
    }

    #[test]
    fn what_waits_is_counted_beside_the_rest() {
        let usage = Arc::new(TenantUsage::default());
        usage.settle(FRONT, &[(TENANT, UsageNow::Waiting(5))]);
        let bytes = Amounts::default().with(Resource::StoredBytes, 900);
        usage.settle(FRONT, &[(TENANT, UsageNow::Kept(Usage(bytes)))]);
        assert_eq!(usage.stored(TENANT), bytes.with(Resource::Waiting, 5));
        usage.settle(FRONT, &[(TENANT, UsageNow::Waiting(0))]);
        assert_eq!(usage.stored(TENANT), bytes);
        assert!(usage.claim(TENANT, &Quota::default(), users(u64::MAX)).is_ok(), "nothing has a limit");
    }
}
