//! Requests that were refused because of who asked: why, how many of each tenant, and the sums that the audit log gets.
//!
//! Invariant: a stranger cannot cause a durable write per request. What happens within a minute is one record of a tenant, and one of
//! the server for everybody whose key is not known. Addresses are in the log alone: the audit log has how many there were.

use crate::app::App;
use crate::client_address::Client;
use crate::time;
use fantail_node::Node;
use fantail_node::audit::notes::HOUSE;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::REFUSED_PEERS_COUNTED_MAX;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::warn;

/// How often the sums go to the audit log.
const SUM_EVERY_MS: u64 = 60_000;
/// The action under which the audit log has them.
const ACTION: &str = "login.refuse";

/// Why a request is refused because of its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum AccessFault {
    NoKey,
    UnknownKey,
    WrongSecret,
    RevokedKey,
    ExpiredKey,
    MissingScope,
    OtherTenant,
    ServerKeyNeeded,
    /// A handler says so.
    Forbidden,
    /// Too many logins of this address have failed.
    TooManyFailures,
    /// A callback that no signature, secret or key proves.
    NotProven,
}

impl AccessFault {
    pub const ALL: [Self; 11] = [
        Self::NoKey,
        Self::UnknownKey,
        Self::WrongSecret,
        Self::RevokedKey,
        Self::ExpiredKey,
        Self::MissingScope,
        Self::OtherTenant,
        Self::ServerKeyNeeded,
        Self::Forbidden,
        Self::TooManyFailures,
        Self::NotProven,
    ];

    /// In logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoKey => "no_key",
            Self::UnknownKey => "unknown_key",
            Self::WrongSecret => "wrong_secret",
            Self::RevokedKey => "revoked_key",
            Self::ExpiredKey => "expired_key",
            Self::MissingScope => "missing_scope",
            Self::OtherTenant => "other_tenant",
            Self::ServerKeyNeeded => "server_key_needed",
            Self::Forbidden => "forbidden",
            Self::TooManyFailures => "too_many_failures",
            Self::NotProven => "not_proven",
        }
    }
}

/// The sender of a request, as far as it is known.
#[derive(Clone, Debug)]
pub struct Requester {
    pub client: Client,
    /// The public id of the key that was presented, or `admin`; never the secret.
    pub key: Option<String>,
    /// The tenant of the key.
    pub tenant: Option<TenantId>,
}

/// Refused requests since the last sums.
#[derive(Debug, Default)]
pub struct RefusedSums(Mutex<BTreeMap<TenantId, RefusedSum>>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedSum {
    count: u64,
    first: Millis,
    last: Millis,
    peers: BTreeSet<IpAddr>,
}

impl RefusedSum {
    /// As the audit log has it.
    fn text(&self) -> String {
        let peers = self.peers.len();
        let more = if peers == REFUSED_PEERS_COUNTED_MAX { "+" } else { "" };
        let (first, last) = (time::text(self.first), time::text(self.last));
        format!("count={} peers={peers}{more} first={first} last={last}", self.count)
    }
}

impl RefusedSums {
    fn sums(&self) -> MutexGuard<'_, BTreeMap<TenantId, RefusedSum>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one for the tenant of the key, or for the server.
    pub fn add(&self, requester: &Requester, at: Millis) {
        let mut sums = self.sums();
        let sum = sums.entry(requester.tenant.unwrap_or(HOUSE)).or_insert_with(|| RefusedSum {
            count: 0,
            first: at,
            last: at,
            peers: BTreeSet::new(),
        });
        sum.count += 1;
        sum.last = sum.last.max(at);
        if sum.peers.len() < REFUSED_PEERS_COUNTED_MAX {
            sum.peers.insert(requester.client.address);
        }
    }

    fn take(&self) -> BTreeMap<TenantId, RefusedSum> {
        std::mem::take(&mut *self.sums())
    }

    /// Puts a sum back that could not be written.
    fn put_back(&self, tenant: TenantId, old: RefusedSum) {
        let mut sums = self.sums();
        match sums.get_mut(&tenant) {
            None => {
                sums.insert(tenant, old);
            }
            Some(sum) => {
                sum.count += old.count;
                sum.first = sum.first.min(old.first);
                let room = REFUSED_PEERS_COUNTED_MAX.saturating_sub(sum.peers.len());
                sum.peers.extend(old.peers.into_iter().take(room));
            }
        }
    }

    /// Writes one record for each tenant with refused requests.
    pub async fn write(&self, node: &Node) {
        for (tenant, sum) in self.take() {
            if let Err(refusal) = node.note(tenant, ACTION, &sum.text()).await {
                warn!(%tenant, %refusal, "refused logins are not in the audit log yet");
                self.put_back(tenant, sum);
            }
        }
    }
}

/// Writes the sums once a minute, until the node stops: to the audit log, and to the log how many have no line there.
pub async fn run(app: Arc<App>, node: Node) {
    while node.sleep(SUM_EVERY_MS).await {
        app.refused.write(&node).await;
        app.refusal_lines.write_sums();
    }
    app.refusal_lines.write_sums();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requester(peer: u8, tenant: Option<u32>) -> Requester {
        let client = Client { address: [192, 0, 2, peer].into(), limited_as: None };
        Requester { client, key: None, tenant: tenant.map(TenantId) }
    }

    // fixes: security M12
    #[test]
    fn however_many_are_refused_a_tenant_has_one_sum() {
        let sums = RefusedSums::default();
        for no in 0..10_000_u64 {
            sums.add(&requester((no % 100) as u8, None), Millis(no));
        }
        sums.add(&requester(1, Some(7)), Millis(60_000));
        let taken = sums.take();
        assert_eq!(taken.len(), 2);
        let strangers = taken[&HOUSE].text();
        assert!(strangers.starts_with("count=10000 peers=64+ first=1970-01-01T00:00:00"), "{strangers}");
        assert_eq!(taken[&TenantId(7)].peers.len(), 1);
        assert!(sums.take().is_empty());
        sums.add(&requester(2, Some(7)), Millis(70_000));
        sums.put_back(TenantId(7), taken[&TenantId(7)].clone());
        let text = sums.take()[&TenantId(7)].text();
        assert!(text.starts_with("count=2 peers=2 first=1970-01-01T00:01:00"), "{text}");
    }

    #[test]
    fn faults_are_numbered_in_their_order() {
        for (no, fault) in AccessFault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, no, "{}", fault.name());
        }
    }
}
