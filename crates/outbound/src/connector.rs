//! From a destination to a TCP connection: judge it, resolve its name, judge each address, connect to that very address.
//!
//! Everything that leaves the process for a tenant goes through one of these.
//!
//! What must never happen: a second lookup between judging and connecting. Only an address that was judged can be dialled:
//! [`Judged`] is made here alone.

use crate::policy::{Destination, Forbidden, Policy};
use crate::resolve::{Resolve, SystemResolver};
use crate::url::Host;
use fantail_ports::BoxFuture;
use fantail_rules::ids::TenantId;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tracing::debug;

/// Addresses of one name that are tried; each may take the whole time to connect.
pub const ADDRESSES_MAX: usize = 4;

/// Makes TCP connections. Tests count them here and let none leave the machine.
pub trait Dial: Send + Sync {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;
}

/// The sockets of the operating system.
pub struct SystemDialer;

impl Dial for SystemDialer {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(address))
    }
}

pub struct Connector {
    policy: Arc<Policy>,
    resolver: Arc<dyn Resolve>,
    dialer: Arc<dyn Dial>,
    /// Whose share of the lookups is used.
    tenant: Option<TenantId>,
}

/// An address that may be connected to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judged(SocketAddr);

/// Why there is no connection. In all cases nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// Says the same as if the name had forbidden addresses: a tenant does not learn which names there are inside.
    #[error("{}", Forbidden::Resolved)]
    Lookup(io::Error),
    #[error("connecting failed: {0}")]
    Connect(io::Error),
}

impl Connector {
    #[must_use]
    pub fn new(policy: Policy) -> Arc<Self> {
        Self::with(policy, Arc::new(SystemResolver::default()), Arc::new(SystemDialer))
    }

    /// Names have the addresses that the resolver says, and connections are the dialler's.
    #[must_use]
    pub fn with(policy: Policy, resolver: Arc<dyn Resolve>, dialer: Arc<dyn Dial>) -> Arc<Self> {
        Arc::new(Self { policy: Arc::new(policy), resolver, dialer, tenant: None })
    }

    /// The same for one tenant, who has a share of the lookups.
    #[must_use]
    pub fn of_tenant(&self, tenant: TenantId) -> Arc<Self> {
        let (policy, resolver) = (Arc::clone(&self.policy), Arc::clone(&self.resolver));
        Arc::new(Self { policy, resolver, dialer: Arc::clone(&self.dialer), tenant: Some(tenant) })
    }

    /// For what the operator's own settings name: collectors, object storage. Never for what a tenant says.
    #[must_use]
    pub fn of_operator() -> Arc<Self> {
        Self::new(Policy::of_operator())
    }

    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The addresses that may be connected to, in the resolver's order. None is `Forbidden`.
    pub async fn addresses(&self, destination: &Destination) -> Result<Vec<Judged>, ConnectError> {
        self.policy.judge(destination)?;
        let found = match &destination.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => match self.resolver.resolve(self.tenant, name).await {
                Ok(found) => found,
                Err(error) => {
                    debug!(host = name, %error, "a host cannot be looked up");
                    return Err(ConnectError::Lookup(error));
                }
            },
        };
        let allowed =
            found.into_iter().filter(|address| self.policy.judge_address(destination, *address).is_ok());
        let judged: Vec<Judged> = allowed
            .take(ADDRESSES_MAX)
            .map(|address| Judged(SocketAddr::new(address, destination.port)))
            .collect();
        if judged.is_empty() { Err(Forbidden::Resolved.into()) } else { Ok(judged) }
    }

    pub async fn dial(&self, Judged(address): Judged) -> Result<TcpStream, ConnectError> {
        let stream = self.dialer.dial(address).await.map_err(ConnectError::Connect)?;
        stream.set_nodelay(true).map_err(ConnectError::Connect)?;
        Ok(stream)
    }

    /// The first address that takes a connection.
    pub async fn connect(&self, destination: &Destination) -> Result<TcpStream, ConnectError> {
        let mut failed = ConnectError::Forbidden(Forbidden::Resolved);
        for judged in self.addresses(destination).await? {
            match self.dial(judged).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}
