//! Names to addresses, in this process, so that what is judged is what is connected to.
//!
//! What must never happen: a tenant whose names do not answer, and whose lookups therefore take all places.

use fantail_ports::BoxFuture;
use fantail_rules::ids::TenantId;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Lookups under way: each holds a thread, also after its caller has given up.
const LOOKUPS_MAX: usize = 64;
/// The same of one tenant. Working names answer within milliseconds, so this is room for hundreds in a second; and eight
/// tenants at once have to use nothing but dead names before another one waits.
const LOOKUPS_PER_TENANT_MAX: usize = 8;

pub trait Resolve: Send + Sync {
    /// All addresses of a name, best first. What it returns is believed for one connection and not kept. `whose` is the
    /// tenant who named it, if one did.
    fn resolve(&self, whose: Option<TenantId>, name: &str) -> BoxFuture<'_, io::Result<Vec<IpAddr>>>;
}

/// Asks for the addresses of a name and blocks until they are known.
type LookUp = fn(&str) -> io::Result<Vec<IpAddr>>;

/// The resolver of the operating system.
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
    /// Of tenants that are looking something up, or wait to.
    shares: Mutex<BTreeMap<TenantId, Weak<Semaphore>>>,
    look_up: LookUp,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::with(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }
}

impl SystemResolver {
    fn with(look_up: LookUp) -> Self {
        Self { lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)), shares: Mutex::default(), look_up }
    }

    fn share_of(&self, tenant: TenantId) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(&tenant).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(LOOKUPS_PER_TENANT_MAX));
        shares.insert(tenant, Arc::downgrade(&share));
        share
    }
}

impl Resolve for SystemResolver {
    fn resolve(&self, whose: Option<TenantId>, name: &str) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        let (name, look_up) = (name.to_owned(), self.look_up);
        Box::pin(async move {
            // The share first: whoever waits for it takes no place from others.
            let share = match whose {
                Some(tenant) => Some(self.share_of(tenant).acquire_owned().await.map_err(io::Error::other)?),
                None => None,
            };
            let place = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
            let lookup = spawn_blocking(move || {
                let addresses = look_up(&name);
                // A lookup cannot be called off: its thread keeps both, whoever still listens.
                drop((share, place));
                addresses
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{Future, poll_fn};
    use std::net::Ipv4Addr;
    use std::pin::Pin;
    use std::sync::Condvar;
    use std::task::Poll;
    use tokio::runtime::Builder;

    /// Whether lookups of dead names may end.
    static IS_OVER: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

    fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
        if name == "dead.example" {
            let mut is_over = IS_OVER.0.lock().expect("nobody panics here");
            while !*is_over {
                is_over = IS_OVER.1.wait(is_over).expect("nobody panics here");
            }
        }
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }

    /// Begins each of these as far as it goes now.
    async fn begin<T>(all: &mut [Pin<Box<dyn Future<Output = T> + Send + '_>>]) {
        poll_fn(|context| {
            for one in all.iter_mut() {
                assert!(one.as_mut().poll(context).is_pending(), "dead names do not answer");
            }
            Poll::Ready(())
        })
        .await;
    }

    // fixes: security P9
    #[test]
    fn a_tenant_with_dead_names_holds_up_no_other() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let resolver = SystemResolver::with(look_up);
        runtime.block_on(async {
            for tenant in [1, 2, 3] {
                let dead = || resolver.resolve(Some(TenantId(tenant)), "dead.example");
                let mut all: Vec<_> = (0..LOOKUPS_MAX).map(|_| dead()).collect();
                begin(&mut all).await;
                // Their callers give up; what has begun goes on.
                drop(all);
                let mut again: Vec<_> = (0..LOOKUPS_MAX).map(|_| dead()).collect();
                begin(&mut again).await;
            }
            assert_eq!(resolver.lookups.available_permits(), LOOKUPS_MAX - 3 * LOOKUPS_PER_TENANT_MAX);
            for whose in [Some(TenantId(4)), None] {
                let found = resolver.resolve(whose, "works.example").await.expect("an address");
                assert_eq!(found, [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
            }
            *IS_OVER.0.lock().expect("nobody panics here") = true;
            IS_OVER.1.notify_all();
            let found = resolver.resolve(Some(TenantId(1)), "works.example").await;
            assert!(found.is_ok(), "places come back");
        });
        drop(runtime);
        assert_eq!(resolver.lookups.available_permits(), LOOKUPS_MAX);
    }

    #[test]
    fn shares_of_tenants_that_ask_for_nothing_are_forgotten() {
        let resolver = SystemResolver::default();
        let held = resolver.share_of(TenantId(0));
        (1..1_000).for_each(|tenant| drop(resolver.share_of(TenantId(tenant))));
        assert!(Arc::ptr_eq(&held, &resolver.share_of(TenantId(0))));
        assert!(resolver.shares.lock().expect("nobody panics here").len() <= 2);
    }
}
