//! Push services, each with its connections, its token and how it is doing. Connections go to an address that the policy
//! allowed.
//!
//! What must never happen: a pool that connects to a name by itself, or more push services in memory than the limit:
//! anybody can make up a subscription.

use super::vapid::{USED_MS, Vapid};
use crate::webhook::hosts::HostGate;
use crate::webhook::url::{Host, Origin, Scheme};
use fantail_outbound::connector::ConnectError;
use fantail_outbound::policy::{Destination, Forbidden};
use fantail_outbound::pool::{At, Pool, Ports, Target};
use fantail_ports::channel::Proof;
use fantail_rules::ids::Millis;
use hyper::header::HeaderValue;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;
use tokio_rustls::rustls::ClientConfig;

/// The web has a handful of push services.
const ORIGINS_MAX: usize = 256;
/// After so long a name is looked up again.
const LOOKUP_MS: u64 = 300_000;
/// A key that was taken within this time is not what a push service refuses.
const KEY_TRUSTED_MS: u64 = 24 * 3_600 * 1_000;

/// How pools are made.
pub struct Connector {
    pub connect_to: Option<SocketAddr>,
    pub tls: Arc<ClientConfig>,
    pub ports: Ports,
}

#[derive(Default)]
pub struct Origins {
    known: Mutex<BTreeMap<Origin, Arc<Service>>>,
}

/// One push service.
pub struct Service {
    pub origin: Origin,
    pub gate: Arc<HostGate>,
    used_at: AtomicU64,
    /// When the key was last taken here, on the monotonic clock; 0 is never.
    taken_at: AtomicU64,
    token: Mutex<Option<(HeaderValue, Millis)>>,
    link: Mutex<Arc<Link>>,
}

/// Connections to an address that was judged, for a while.
struct Link {
    born: Millis,
    pool: OnceCell<Arc<Pool>>,
}

/// Why there is no pool.
pub struct NoPool {
    pub proof: Proof,
    pub message: String,
}

impl Origins {
    /// Those that nobody uses make room, the longest unused first.
    pub fn service(&self, origin: &Origin, now: Millis) -> Arc<Service> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(service) = known.get(origin) {
            service.used_at.store(now.0, Ordering::Relaxed);
            return Arc::clone(service);
        }
        while known.len() >= ORIGINS_MAX {
            let idle = known.iter().filter(|(_, service)| Arc::strong_count(service) == 1);
            let oldest = idle.min_by_key(|(_, service)| service.used_at.load(Ordering::Relaxed));
            let Some(oldest) = oldest.map(|(origin, _)| origin.clone()) else { break };
            known.remove(&oldest);
        }
        let service = Arc::new(Service::new(origin.clone(), now));
        // Where all are in use, this one lives as long as its message.
        if known.len() < ORIGINS_MAX {
            known.insert(origin.clone(), Arc::clone(&service));
        }
        service
    }
}

impl Service {
    fn new(origin: Origin, now: Millis) -> Self {
        Self {
            origin,
            gate: Arc::new(HostGate::new(1, now)),
            used_at: AtomicU64::new(now.0),
            taken_at: AtomicU64::new(0),
            token: Mutex::default(),
            link: Mutex::new(Arc::new(Link { born: now, pool: OnceCell::new() })),
        }
    }

    /// One token for all messages of half a day.
    pub fn authorization(&self, vapid: &Vapid, wall: Millis, now: Millis) -> HeaderValue {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((header, until)) = &*token
            && now < *until
        {
            return header.clone();
        }
        let header = vapid.header(&serialized(&self.origin), wall);
        *token = Some((header.clone(), now.plus(USED_MS)));
        header
    }

    pub fn key_was_taken(&self, now: Millis) {
        self.taken_at.store(now.0.max(1), Ordering::Relaxed);
    }

    /// Whether messages under the same key were taken here lately.
    pub fn trusts_key(&self, now: Millis) -> bool {
        let taken_at = self.taken_at.load(Ordering::Relaxed);
        taken_at > 0 && now.since(Millis(taken_at)) < KEY_TRUSTED_MS
    }

    /// Connections that somebody asked for before.
    pub fn pool_at_hand(&self, now: Millis) -> Option<Arc<Pool>> {
        let link = self.link();
        link.pool.get().filter(|_| now.since(link.born) < LOOKUP_MS).cloned()
    }

    /// Connections; the first caller looks the name up for all.
    pub async fn pool(&self, connector: &Connector) -> Result<Arc<Pool>, NoPool> {
        let link = {
            let now = connector.ports.clock.monotonic();
            let mut link = self.link();
            if now.since(link.born) >= LOOKUP_MS {
                *link = Arc::new(Link { born: now, pool: OnceCell::new() });
            }
            Arc::clone(&link)
        };
        link.pool.get_or_try_init(|| connector.pool(&self.origin)).await.cloned()
    }

    /// No connection could be made: the next message looks the name up again.
    pub fn look_again(&self, now: Millis) {
        *self.link() = Arc::new(Link { born: now, pool: OnceCell::new() });
    }

    fn link(&self) -> MutexGuard<'_, Arc<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connector {
    /// What can be said without a connection.
    pub fn judge(&self, origin: &Origin) -> Result<(), Forbidden> {
        self.ports.connector.policy().judge(&self.destination(origin))
    }

    /// Where connections to a push service go.
    fn destination(&self, origin: &Origin) -> Destination {
        let named = Destination::web(origin);
        match self.connect_to {
            Some(at) => Destination { host: Host::Address(at.ip()), port: at.port(), ..named },
            None => named,
        }
    }

    async fn pool(&self, origin: &Origin) -> Result<Arc<Pool>, NoPool> {
        let judged = self.ports.connector.addresses(&self.destination(origin)).await.map_err(NoPool::of)?;
        let at = judged.first().copied().map_or(At::Name, At::Judged);
        let host = match &origin.host {
            Host::Address(address) => address.to_string(),
            Host::Name(name) => name.clone(),
        };
        let tls = match origin.scheme {
            Scheme::Https => Some(Arc::clone(&self.tls)),
            Scheme::Http => None,
        };
        let target = Target { host, port: origin.port, at, tls };
        Ok(Arc::new(Pool::new(target, self.ports.clone())))
    }
}

impl NoPool {
    fn of(error: ConnectError) -> Self {
        let proof = match &error {
            ConnectError::Forbidden(_) => Proof::Forbidden,
            ConnectError::Lookup(_) | ConnectError::Connect(_) => Proof::NoConnection,
        };
        Self { proof, message: error.to_string() }
    }
}

/// As a token's audience has it.
fn serialized(origin: &Origin) -> String {
    let scheme = match origin.scheme {
        Scheme::Https => "https",
        Scheme::Http => "http",
    };
    format!("{scheme}://{}", origin.authority())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::url::Url;

    fn origin(number: usize) -> Origin {
        Url::parse(&format!("https://p{number}.example:8443/x")).expect("a URL").origin
    }

    #[test]
    fn push_services_are_bounded_and_those_in_use_stay() {
        let origins = Origins::default();
        let held = origins.service(&origin(0), Millis(1));
        for number in 1..1_000 {
            drop(origins.service(&origin(number), Millis(1 + number as u64)));
        }
        assert!(Arc::ptr_eq(&held, &origins.service(&origin(0), Millis(2_000))));
        assert_eq!(origins.known.lock().expect("no panic").len(), ORIGINS_MAX);
        let all: Vec<_> =
            (0..ORIGINS_MAX + 9).map(|number| origins.service(&origin(number), Millis(9))).collect();
        assert_eq!(origins.known.lock().expect("no panic").len(), ORIGINS_MAX, "also when all are in use");
        drop(all);
    }

    #[test]
    fn a_token_is_for_one_origin_and_half_a_day() {
        let secrets = super::super::Secrets::read(&super::super::generate_vapid()).expect("good secrets");
        let vapid = Vapid::new(secrets, "mailto:push@example.com".to_owned());
        let (one, other) = (Service::new(origin(1), Millis(0)), Service::new(origin(2), Millis(0)));
        let first = one.authorization(&vapid, Millis(1_000), Millis(0));
        assert_eq!(one.authorization(&vapid, Millis(2_000), Millis(USED_MS - 1)), first);
        assert_ne!(one.authorization(&vapid, Millis(2_000), Millis(USED_MS)), first);
        assert_ne!(other.authorization(&vapid, Millis(1_000), Millis(0)), first);
        assert_eq!(serialized(&origin(1)), "https://p1.example:8443");
        assert!(!one.trusts_key(Millis(5)));
        one.key_was_taken(Millis(0));
        assert!(one.trusts_key(Millis(5)) && !one.trusts_key(Millis(2 * KEY_TRUSTED_MS)));
    }
}
