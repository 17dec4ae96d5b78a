//! Names to addresses, in this process, so that what is judged is what is connected to.

use fantail_ports::BoxFuture;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Lookups under way: each holds a thread, also after its caller has given up.
const LOOKUPS_MAX: usize = 32;

pub trait Resolve: Send + Sync {
    /// All addresses of a name, best first. What it returns is believed for one connection and not kept.
    fn resolve(&self, name: &str) -> BoxFuture<'_, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system.
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

impl Resolve for SystemResolver {
    fn resolve(&self, name: &str) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let permit = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
            let lookup = spawn_blocking(move || {
                let addresses = (name.as_str(), 0).to_socket_addrs()?.map(|address| address.ip()).collect();
                // A lookup cannot be called off: its thread keeps the permit, whoever still listens.
                drop(permit);
                Ok(addresses)
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}
