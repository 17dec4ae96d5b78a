//! How much of everything a tenant may have.
//!
//! Input: what the tenant has, what a request adds, and the limits: the tenant's own, else those of the server. Decides:
//! whether it fits. Only what adds something can be refused: deletes, updates that grow nothing, and whatever the server
//! does for itself always pass, also after a quota was lowered below what is there.

/// What has a quota. The order is that of [`Amounts`]; the numbers are frozen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Resource {
    Users = 0,
    Devices = 1,
    Schedules = 2,
    /// Notifications and events that are held back until a time.
    Waiting = 3,
    StoredBytes = 4,
}

impl Resource {
    pub const ALL: [Self; 5] =
        [Self::Users, Self::Devices, Self::Schedules, Self::Waiting, Self::StoredBytes];

    /// As settings, metrics and messages say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Devices => "devices",
            Self::Schedules => "schedules",
            Self::Waiting => "waiting",
            Self::StoredBytes => "stored_bytes",
        }
    }

    /// As a sentence says it, behind a number.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Devices => "devices",
            Self::Schedules => "schedules",
            Self::Waiting => "scheduled notifications and events",
            Self::StoredBytes => "stored bytes",
        }
    }
}

/// One number for each resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amounts([u64; Resource::ALL.len()]);

impl Amounts {
    #[must_use]
    pub fn of(&self, resource: Resource) -> u64 {
        self.0[resource as usize]
    }

    #[must_use]
    pub fn with(mut self, resource: Resource, amount: u64) -> Self {
        self.0[resource as usize] = amount;
        self
    }

    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].saturating_add(other.0[at])))
    }

    /// Never below zero.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].saturating_sub(other.0[at])))
    }
}

/// Limits of a tenant. `None`: as the server says; 0: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quota([Option<u64>; Resource::ALL.len()]);

impl Quota {
    #[must_use]
    pub fn own(&self, resource: Resource) -> Option<u64> {
        self.0[resource as usize]
    }

    #[must_use]
    pub fn with(mut self, resource: Resource, limit: Option<u64>) -> Self {
        self.0[resource as usize] = limit;
        self
    }

    /// The limit that holds, if there is one.
    #[must_use]
    pub fn limit(&self, defaults: &Amounts, resource: Resource) -> Option<u64> {
        let limit = self.own(resource).unwrap_or_else(|| defaults.of(resource));
        (limit > 0).then_some(limit)
    }
}

/// What a request would have too much of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverQuota {
    pub resource: Resource,
    pub limit: u64,
}

/// Whether what is added fits beside what is there.
pub fn decide(used: &Amounts, adds: &Amounts, quota: &Quota, defaults: &Amounts) -> Result<(), OverQuota> {
    for resource in Resource::ALL {
        let Some(limit) = quota.limit(defaults, resource) else { continue };
        let added = adds.of(resource);
        if added > 0 && used.of(resource).saturating_add(added) > limit {
            return Err(OverQuota { resource, limit });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Resource::{Devices, StoredBytes, Users, Waiting};

    fn amounts(of: &[(Resource, u64)]) -> Amounts {
        of.iter().fold(Amounts::default(), |all, (resource, amount)| all.with(*resource, *amount))
    }

    fn quota(of: &[(Resource, u64)]) -> Quota {
        of.iter().fold(Quota::default(), |all, (resource, limit)| all.with(*resource, Some(*limit)))
    }

    // fixes: security M8
    #[test]
    fn what_adds_something_has_to_fit() {
        let defaults = amounts(&[(Users, 10), (StoredBytes, 1_000)]);
        let over = |resource, limit| Err(OverQuota { resource, limit });
        for (used, adds, own, expected) in [
            (&[(Users, 9)][..], &[(Users, 1)][..], &[][..], Ok(())),
            (&[(Users, 9)], &[(Users, 2)], &[], over(Users, 10)),
            (&[(Users, 10)], &[(Users, 1)], &[], over(Users, 10)),
            // Its own limit holds, above and below the server's, and 0 is none.
            (&[(Users, 10)], &[(Users, 1)], &[(Users, 11)], Ok(())),
            (&[(Users, 4)], &[(Users, 1)], &[(Users, 4)], over(Users, 4)),
            (&[(Users, 1 << 40)], &[(Users, 1)], &[(Users, 0)], Ok(())),
            // What has no limit is never refused.
            (&[(Devices, u64::MAX)], &[(Devices, u64::MAX)], &[], Ok(())),
            // What adds nothing of it passes, however much is there.
            (&[(Users, 90)], &[], &[], Ok(())),
            (&[(Users, 90), (StoredBytes, 1)], &[(StoredBytes, 9)], &[], Ok(())),
            (&[(StoredBytes, 999)], &[(Waiting, 1), (StoredBytes, 2)], &[], over(StoredBytes, 1_000)),
            (&[(StoredBytes, u64::MAX)], &[(StoredBytes, u64::MAX)], &[], over(StoredBytes, 1_000)),
        ] {
            let found = decide(&amounts(used), &amounts(adds), &quota(own), &defaults);
            assert_eq!(found, expected, "{used:?} {adds:?} {own:?}");
        }
    }

    #[test]
    fn amounts_add_up_and_never_go_below_zero() {
        let (one, other) = (amounts(&[(Users, 3), (Waiting, 1)]), amounts(&[(Users, 5)]));
        assert_eq!(one.plus(&other), amounts(&[(Users, 8), (Waiting, 1)]));
        assert_eq!(one.minus(&other), amounts(&[(Waiting, 1)]));
        assert_eq!(other.plus(&amounts(&[(Users, u64::MAX)])).of(Users), u64::MAX);
    }
}
