//! Connections to the server: over TLS, over plain HTTP, or over plain HTTP to this machine alone.
//!
//! What must never happen: a key on a plain connection that leaves this machine. The addresses that are connected to
//! decide, not the name that was given.

use super::Stream;
use anyhow::{Context, Result};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, version};

const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Dial {
    /// Host and port.
    pub address: String,
    pub way: Way,
}

pub enum Way {
    Plain,
    /// Only to this machine.
    PlainHere,
    Tls(Tls),
}

/// What vouches for a server, and its name.
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// The roots of the web, and those of a file.
    pub fn new(name: &str, ca: Option<&Path>) -> Result<Self> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(file) = ca {
            let shown = file.display();
            let pem = CertificateDer::pem_file_iter(file).with_context(|| format!("cannot read {shown}"))?;
            for certificate in pem {
                let certificate = certificate.with_context(|| format!("{shown} is not PEM"))?;
                roots
                    .add(certificate)
                    .with_context(|| format!("{shown} holds something else than certificates"))?;
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .context("the crypto provider has no TLS")?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name =
            ServerName::try_from(name.to_owned()).with_context(|| format!("{name} is no host name"))?;
        Ok(Self { config: Arc::new(config), name })
    }
}

impl Dial {
    pub fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let about = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.address));
        let addresses: Vec<SocketAddr> = self.address.to_socket_addrs().map_err(about)?.collect();
        let is_here = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
        if matches!(self.way, Way::PlainHere) && !addresses.iter().all(is_here) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{} is another machine and the key would travel in the clear: use https://, or --plain if you mean it",
                    self.address
                ),
            ));
        }
        let stream = TcpStream::connect(&addresses[..]).map_err(about)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        match &self.way {
            Way::Plain | Way::PlainHere => Ok(Box::new(stream)),
            Way::Tls(tls) => {
                let connection = ClientConnection::new(tls.config.clone(), tls.name.clone());
                let connection = connection.map_err(io::Error::other)?;
                Ok(Box::new(StreamOwned::new(connection, stream)))
            }
        }
    }
}
