//! From an origin to a connection that HTTP can be spoken on: one of the addresses that the policy allows, TLS with the name
//! of the URL.
//!
//! What must never happen: a wait without an end.

use super::gate::{Gate, Gated};
use super::limits::{ANSWER_BYTES_MAX, ANSWER_HEADERS_MAX, CLOSE_MS_MAX};
use super::payload::Body;
use super::settings::{Settings, SettingsError};
use super::url::{Host, Origin, Scheme};
use fantail_outbound::connector::{self, Judged};
use fantail_outbound::policy::{Destination, Forbidden};
use fantail_outbound::pool::Ports;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::{Millis, TenantId};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tracing::debug;

pub struct Connector {
    tcp: Arc<connector::Connector>,
    tls: TlsConnector,
    pub clock: Arc<dyn Clock>,
    pub tasks: Arc<dyn Tasks>,
    connect_timeout_ms: u64,
}

/// One message at a time. Closed when it is dropped.
pub struct Connection {
    pub sender: SendRequest<Body>,
    pub gate: Arc<Gate>,
    /// Its task hears when this is dropped.
    _handle: oneshot::Sender<()>,
}

/// Why there is no connection. In all cases nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    #[error("no time was left")]
    OutOfTime,
    /// No address, or nothing listens there.
    #[error("{0}")]
    Tcp(connector::ConnectError),
    #[error("TLS failed: {0}")]
    Tls(io::Error),
    #[error("HTTP cannot begin: {0}")]
    Http(hyper::Error),
}

impl From<connector::ConnectError> for ConnectError {
    fn from(error: connector::ConnectError) -> Self {
        match error {
            connector::ConnectError::Forbidden(forbidden) => Self::Forbidden(forbidden),
            error @ (connector::ConnectError::Lookup(_) | connector::ConnectError::Connect(_)) => {
                Self::Tcp(error)
            }
        }
    }
}

impl Connector {
    pub fn new(settings: &Settings, ports: Ports) -> Result<Self, SettingsError> {
        let Ports { clock, tasks, connector: tcp } = ports;
        let tls = tls(settings)?;
        Ok(Self { tcp, tls, clock, tasks, connect_timeout_ms: settings.connect_timeout_ms })
    }

    /// What can be said without a connection.
    pub fn judge(&self, origin: &Origin) -> Result<(), Forbidden> {
        self.tcp.policy().judge(&Destination::web(origin))
    }

    /// The first address that works, in the resolver's order.
    pub async fn connect(
        &self,
        tenant: TenantId,
        origin: &Origin,
        until: Millis,
    ) -> Result<Connection, ConnectError> {
        let mut failed = ConnectError::OutOfTime;
        for address in self.addresses(tenant, origin, until).await? {
            if self.clock.monotonic() >= until {
                return Err(failed);
            }
            let connecting = self.connect_to(origin, address);
            match self.within(self.step_ends(until), connecting).await {
                Some(Ok(connection)) => return Ok(connection),
                Some(Err(error)) => failed = error,
                None => failed = ConnectError::OutOfTime,
            }
        }
        Err(failed)
    }

    /// The output of a future, unless the time comes first. Dropping a future calls off what it was doing.
    pub async fn within<F: Future>(&self, until: Millis, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.tasks.sleep_until(until) => None,
        }
    }

    fn step_ends(&self, until: Millis) -> Millis {
        until.min(self.clock.monotonic().plus(self.connect_timeout_ms))
    }

    async fn addresses(
        &self,
        tenant: TenantId,
        origin: &Origin,
        until: Millis,
    ) -> Result<Vec<Judged>, ConnectError> {
        let (tcp, destination) = (self.tcp.of_tenant(tenant), Destination::web(origin));
        let found = self.within(self.step_ends(until), tcp.addresses(&destination)).await;
        Ok(found.ok_or(ConnectError::OutOfTime)??)
    }

    async fn connect_to(&self, origin: &Origin, address: Judged) -> Result<Connection, ConnectError> {
        let stream = self.tcp.dial(address).await?;
        match origin.scheme {
            Scheme::Http => self.speak_http(TokioIo::new(stream)).await,
            Scheme::Https => {
                let name = server_name(&origin.host)?;
                let stream = self.tls.connect(name, stream).await.map_err(ConnectError::Tls)?;
                self.speak_http(TokioIo::new(stream)).await
            }
        }
    }

    async fn speak_http<S>(&self, stream: S) -> Result<Connection, ConnectError>
    where
        S: Read + Write + Unpin + Send + 'static,
    {
        let gate = Arc::new(Gate::new(Arc::clone(&self.clock)));
        let (sender, connection) = Builder::new()
            .max_headers(ANSWER_HEADERS_MAX)
            .max_buf_size(ANSWER_BYTES_MAX)
            .handshake(Gated::new(stream, Arc::clone(&gate)))
            .await
            .map_err(ConnectError::Http)?;
        let (handle, dropped) = oneshot::channel();
        let tasks = Arc::clone(&self.tasks);
        let clock = Arc::clone(&self.clock);
        self.tasks.spawn(
            "webhook connection",
            Box::pin(async move {
                let mut connection = pin!(connection);
                tokio::select! {
                    biased;
                    ended = connection.as_mut() => return log_end(ended),
                    _ = dropped => {}
                }
                // A peer that reads nothing would otherwise hold the socket for as long as it likes.
                let until = clock.monotonic().plus(CLOSE_MS_MAX);
                tokio::select! {
                    biased;
                    ended = connection => log_end(ended),
                    () = tasks.sleep_until(until) => debug!("webhook connection cut off"),
                }
            }),
        );
        Ok(Connection { sender, gate, _handle: handle })
    }
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        debug!(%error, "webhook connection ended");
    }
}

fn server_name(host: &Host) -> Result<ServerName<'static>, ConnectError> {
    match host {
        Host::Address(address) => Ok(ServerName::from(*address)),
        Host::Name(name) => ServerName::try_from(name.clone())
            .map_err(|error| ConnectError::Tls(io::Error::new(io::ErrorKind::InvalidInput, error))),
    }
}

/// The roots of the web, compiled in: the same on every machine and in an empty container. A private authority is added
/// by its certificate.
fn tls(settings: &Settings) -> Result<TlsConnector, SettingsError> {
    let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for root in settings.extra_roots()? {
        roots.add(root).map_err(|error| SettingsError::BadRoots { cause: error.to_string() })?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| SettingsError::Tls { cause: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
