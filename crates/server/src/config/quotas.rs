//! How much tenants may have that have no quota of their own.

use super::{ConfigError, Layers};
use fantail_rules::quota::{Amounts, Resource};

impl Layers {
    /// 0: no limit.
    pub(super) fn quotas(&self) -> Result<Amounts, ConfigError> {
        let count = |key| self.number::<u64>(key, 0, 1 << 50);
        Ok(Amounts::default()
            .with(Resource::Users, count("quota.users")?)
            .with(Resource::Devices, count("quota.devices")?)
            .with(Resource::Schedules, count("quota.schedules")?)
            .with(Resource::Waiting, count("quota.waiting")?)
            .with(Resource::StoredBytes, self.number::<u64>("quota.stored_mib", 0, 1 << 40)? << 20))
    }
}
