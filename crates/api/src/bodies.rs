//! Bytes of request bodies that are held at once: of the whole process, and of that what one tenant and all callers without a key
//! may hold. Callers without a key are also bounded by their address and their connection.
//!
//! Input: what a caller with a key announces before any of the body is read, or what of it has arrived. Decides: whether there is
//! room. What was claimed is held as long as the request, and given back however that ends.
//!
//! Addresses and connections are not counted for callers with a key: a proxy or a load balancer gives many tenants one address, and
//! one connection of HTTP/2. The share of a tenant bounds all of its connections together, so each of them is bounded too.
//!
//! What must never happen: a body in memory that is not counted; a tenant or a stranger that keeps all others out.

use crate::problem::Problem;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::{
    BODY_BYTES_MAX, REQUEST_BYTES_MAX, REQUEST_BYTES_PER_TENANT_MAX, REQUEST_BYTES_RESERVED,
    REQUEST_BYTES_WITHOUT_KEY_MAX, REQUEST_BYTES_WITHOUT_KEY_PER_ADDRESS_MAX,
    REQUEST_BYTES_WITHOUT_KEY_PER_CONNECTION_MAX,
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
    /// Of what is held without a key.
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
            per_address: REQUEST_BYTES_WITHOUT_KEY_PER_ADDRESS_MAX,
            per_connection: REQUEST_BYTES_WITHOUT_KEY_PER_CONNECTION_MAX,
        }
    }
}

/// What a peer holds without a key, by all of its connections. Changed by the budget alone, under its lock.
#[derive(Debug, Default)]
pub struct AddressBodies(AtomicU64);

/// What a connection holds without a key. The listener gives it to each of the connection's requests.
#[derive(Debug, Default)]
pub struct ConnectionBodies {
    bytes: AtomicU64,
    address: Arc<AddressBodies>,
}

impl ConnectionBodies {
    #[must_use]
    pub fn new(address: Arc<AddressBodies>) -> Arc<Self> {
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
        let has_share = |connection: &ConnectionBodies| {
            would_hold(&connection.bytes) <= limits.per_connection
                && would_hold(&connection.address.0) <= limits.per_address
        };
        let connection = claim.connection.as_deref();
        let fits = of_holder <= holder_max && all <= all_max && connection.is_none_or(has_share);
        if !fits {
            return Err(no_room());
        }
        *by_holder = of_holder;
        held.all = all;
        if let Some(connection) = connection {
            connection.bytes.fetch_add(bytes, Relaxed);
            connection.address.0.fetch_add(bytes, Relaxed);
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
            connection.address.0.fetch_sub(claim.bytes, Relaxed);
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
    /// `None` for a caller with a key, and for a peer that speaks for many.
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
        let connection = match holder {
            BodyHolder::NoKey => connection,
            BodyHolder::Server | BodyHolder::Tenant(_) => None,
        };
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

    // fixes: security M7
    #[test]
    fn a_stranger_has_a_share_by_connection_and_by_address() {
        let budget = BodyBudget::new(BodyLimits::default());
        let address = Arc::new(AddressBodies::default());
        let connection = ConnectionBodies::new(address.clone());
        let of_connection = fill(&budget, BodyHolder::NoKey, || Some(connection.clone()));
        assert_eq!(of_connection.len(), 4);
        let fresh = || Some(ConnectionBodies::new(address.clone()));
        let of_address = fill(&budget, BodyHolder::NoKey, fresh);
        assert_eq!(of_connection.len() + of_address.len(), 8, "over all of its connections");
        let elsewhere = || Some(ConnectionBodies::new(Arc::default()));
        assert_eq!(fill(&budget, BodyHolder::NoKey, elsewhere).len(), 56, "others go on");
        drop(of_connection);
        assert_eq!(fill(&budget, BodyHolder::NoKey, fresh).len(), 4);
        drop(of_address);
        assert_eq!((budget.taken(), address.0.load(Relaxed)), (0, 0));
    }

    /// A load balancer in front: every caller has its address, and some share a connection.
    // fixes: security M7
    #[test]
    fn callers_with_a_key_lose_nothing_to_those_who_share_their_address() {
        let budget = BodyBudget::new(BodyLimits::default());
        let shared = ConnectionBodies::new(Arc::default());
        let stranger = fill(&budget, BodyHolder::NoKey, || Some(shared.clone()));
        assert_eq!(stranger.len(), 4);
        let mut held = Vec::new();
        for (holder, expected) in [(LOUD, 128), (QUIET, 92), (BodyHolder::Server, 4)] {
            let claims = fill(&budget, holder, || Some(shared.clone()));
            assert_eq!(claims.len(), expected, "{holder:?}");
            held.push(claims);
        }
        drop((stranger, held));
        assert_eq!(shared.bytes.load(Relaxed) + shared.address.0.load(Relaxed), 0);
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
