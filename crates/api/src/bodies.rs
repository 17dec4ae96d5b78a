//! Bytes of request bodies that are held at once: of the whole process, and of that what one tenant, one address, one connection and
//! all callers without a key may hold.
//!
//! Input: what a request announces before any of its body is read, or what of it has arrived. Decides: whether there is room.
//! What was claimed is held as long as the request, and given back however that ends.
//!
//! What must never happen: a body in memory that is not counted; a tenant or an address that keeps all others out.

use crate::problem::Problem;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::{
    BODY_BYTES_MAX, REQUEST_BYTES_MAX, REQUEST_BYTES_PER_ADDRESS_MAX, REQUEST_BYTES_PER_CONNECTION_MAX,
    REQUEST_BYTES_PER_TENANT_MAX, REQUEST_BYTES_RESERVED, REQUEST_BYTES_WITHOUT_KEY_MAX,
};
use fantail_wire::code::Code;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who answers for a body.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BodyHolder {
    /// All who call without a key, together.
    NoKey,
    /// The admin key, where no tenant is named.
    Server,
    Tenant(TenantId),
}

#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    pub all: u64,
    /// Of all: only for a holder that holds no more than one body.
    pub reserved: u64,
    pub per_tenant: u64,
    pub without_key: u64,
    pub per_address: u64,
    pub per_connection: u64,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            all: REQUEST_BYTES_MAX,
            reserved: REQUEST_BYTES_RESERVED,
            per_tenant: REQUEST_BYTES_PER_TENANT_MAX,
            without_key: REQUEST_BYTES_WITHOUT_KEY_MAX,
            per_address: REQUEST_BYTES_PER_ADDRESS_MAX,
            per_connection: REQUEST_BYTES_PER_CONNECTION_MAX,
        }
    }
}

/// What a peer holds, by all of its connections. Changed by the budget alone, under its lock.
#[derive(Debug, Default)]
pub struct AddressBodies(AtomicU64);

/// What a connection holds. The listener gives it to each of the connection's requests.
#[derive(Debug, Default)]
pub struct ConnectionBodies {
    bytes: AtomicU64,
    /// `None`: the peer speaks for many.
    address: Option<Arc<AddressBodies>>,
}

impl ConnectionBodies {
    #[must_use]
    pub fn new(address: Option<Arc<AddressBodies>>) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(0), address })
    }
}

#[derive(Debug, Default)]
pub struct BodyBudget {
    limits: BodyLimits,
    held: Mutex<HeldBodies>,
}

#[derive(Debug, Default)]
struct HeldBodies {
    all: u64,
    /// Whoever held something once stays, so that a request costs no entry: there are as many as tenants.
    by_holder: BTreeMap<BodyHolder, u64>,
}

impl BodyBudget {
    #[must_use]
    pub fn new(limits: BodyLimits) -> Arc<Self> {
        Arc::new(Self { limits, held: Mutex::default() })
    }

    /// Bytes that are held now.
    pub fn taken(&self) -> u64 {
        self.held().all
    }

    fn held(&self) -> MutexGuard<'_, HeldBodies> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, claim: &BodyClaim, bytes: u64) -> Result<(), Problem> {
        let (limits, mut held) = (&self.limits, self.held());
        let all = held.all + bytes;
        let by_holder = held.by_holder.entry(claim.holder).or_default();
        let of_holder = *by_holder + bytes;
        let holder_max = match claim.holder {
            BodyHolder::NoKey => limits.without_key,
            BodyHolder::Server | BodyHolder::Tenant(_) => limits.per_tenant,
        };
        let all_max = match of_holder <= BODY_BYTES_MAX as u64 {
            true => limits.all,
            false => limits.all - limits.reserved,
        };
        let would_hold = |bodies: &AtomicU64| bodies.load(Relaxed) + bytes;
        let connection = claim.connection.as_deref();
        let address = connection.and_then(|connection| connection.address.as_deref());
        let fits = of_holder <= holder_max
            && all <= all_max
            && connection.is_none_or(|connection| would_hold(&connection.bytes) <= limits.per_connection)
            && address.is_none_or(|address| would_hold(&address.0) <= limits.per_address);
        if !fits {
            return Err(no_room());
        }
        *by_holder = of_holder;
        held.all = all;
        if let Some(connection) = connection {
            connection.bytes.fetch_add(bytes, Relaxed);
        }
        if let Some(address) = address {
            address.0.fetch_add(bytes, Relaxed);
        }
        Ok(())
    }

    fn give_back(&self, claim: &BodyClaim) {
        let mut held = self.held();
        held.all -= claim.bytes;
        if let Some(of_holder) = held.by_holder.get_mut(&claim.holder) {
            *of_holder -= claim.bytes;
        }
        if let Some(connection) = &claim.connection {
            connection.bytes.fetch_sub(claim.bytes, Relaxed);
            if let Some(address) = &connection.address {
                address.0.fetch_sub(claim.bytes, Relaxed);
            }
        }
    }
}

fn no_room() -> Problem {
    Problem::new(Code::QueueFull, "too many bytes of requests are held already").retry_after_s(1)
}

/// Bytes of one request, held until this is dropped.
#[derive(Debug)]
pub struct BodyClaim {
    budget: Arc<BodyBudget>,
    holder: BodyHolder,
    connection: Option<Arc<ConnectionBodies>>,
    bytes: u64,
}

impl BodyClaim {
    #[must_use]
    pub fn new(
        budget: Arc<BodyBudget>,
        holder: BodyHolder,
        connection: Option<Arc<ConnectionBodies>>,
    ) -> Self {
        Self { budget, holder, connection, bytes: 0 }
    }

    /// Holds so many bytes from now on, if it does not hold as many already.
    pub fn grow_to(&mut self, bytes: u64) -> Result<(), Problem> {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            self.budget.take(self, more)?;
            self.bytes += more;
        }
        Ok(())
    }
}

impl Drop for BodyClaim {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.give_back(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const LOUD: BodyHolder = BodyHolder::Tenant(TenantId(1));
    const QUIET: BodyHolder = BodyHolder::Tenant(TenantId(2));

    /// Claims of a mebibyte, until there is no room.
    fn fill(
        budget: &Arc<BodyBudget>,
        holder: BodyHolder,
        connection: impl Fn() -> Option<Arc<ConnectionBodies>>,
    ) -> Vec<BodyClaim> {
        let claim = || {
            let mut claim = BodyClaim::new(budget.clone(), holder, connection());
            claim.grow_to(MIB).map(|()| claim)
        };
        std::iter::from_fn(|| claim().ok()).take(10_000).collect()
    }

    // fixes: security M7
    #[test]
    fn nobody_holds_all_and_everybody_finds_room_for_a_body() {
        let budget = BodyBudget::new(BodyLimits::default());
        let mut held = Vec::new();
        for (holder, expected) in [(BodyHolder::NoKey, 64), (LOUD, 128), (BodyHolder::Server, 32), (QUIET, 4)]
        {
            let claims = fill(&budget, holder, || None);
            assert_eq!(claims.len(), expected, "{holder:?}");
            held.push(claims);
        }
        assert_eq!(budget.taken(), 228 * MIB);
        let others = (3..100).flat_map(|tenant| fill(&budget, BodyHolder::Tenant(TenantId(tenant)), || None));
        held.push(others.collect());
        assert_eq!(budget.taken(), REQUEST_BYTES_MAX);
        drop(held);
        assert_eq!(budget.taken(), 0);
        assert_eq!(fill(&budget, LOUD, || None).len(), 128, "what was given back can be claimed again");
    }

    #[test]
    fn a_connection_and_an_address_have_a_share() {
        let budget = BodyBudget::new(BodyLimits::default());
        let address = Arc::new(AddressBodies::default());
        let connection = ConnectionBodies::new(Some(address.clone()));
        let of_connection = fill(&budget, LOUD, || Some(connection.clone()));
        assert_eq!(of_connection.len(), 32);
        let fresh = || Some(ConnectionBodies::new(Some(address.clone())));
        let of_address = fill(&budget, QUIET, fresh);
        assert_eq!(of_connection.len() + of_address.len(), 64, "over all of its connections");
        assert_eq!(fill(&budget, QUIET, || Some(ConnectionBodies::new(None))).len(), 96, "others go on");
        drop(of_connection);
        assert_eq!(fill(&budget, BodyHolder::NoKey, fresh).len(), 32);
        drop(of_address);
        assert_eq!((budget.taken(), address.0.load(Relaxed)), (0, 0));
    }

    #[test]
    fn a_claim_grows_and_is_not_counted_twice() {
        let budget = BodyBudget::new(BodyLimits { all: 10, reserved: 0, ..BodyLimits::default() });
        let mut claim = BodyClaim::new(budget.clone(), LOUD, None);
        for (bytes, held) in [(3, 3), (2, 3), (10, 10), (10, 10)] {
            claim.grow_to(bytes).expect("room");
            assert_eq!(budget.taken(), held);
        }
        let problem = claim.grow_to(11).expect_err("no room");
        assert_eq!((problem.code, budget.taken()), (Code::QueueFull, 10));
        let reply = problem.into_reply("r");
        assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (503, Some("1")));
    }
}
