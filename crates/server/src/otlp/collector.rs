//! One request to the collector.
//!
//! Who is believed: the roots of the web, compiled in as for webhooks, and those of `otlp.roots`.

use super::endpoint::Endpoint;
use super::headers::Headers;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const TIMEOUT: Duration = Duration::from_secs(5);
/// Of an answer only its first line is read.
const ANSWER_BYTES_MAX: u64 = 1_024;

/// What was set.
#[derive(Clone, Debug)]
pub struct Settings {
    pub endpoint: Endpoint,
    pub headers: Headers,
    /// More authorities to believe, in PEM.
    pub roots: Option<PathBuf>,
}

pub struct Collector {
    endpoint: Endpoint,
    headers: Headers,
    tls: Option<Arc<ClientConfig>>,
}

impl Collector {
    pub fn new(settings: Settings) -> io::Result<Self> {
        let Settings { endpoint, headers, roots } = settings;
        let tls = endpoint.is_tls.then(|| tls(roots.as_deref())).transpose()?;
        Ok(Self { endpoint, headers, tls })
    }

    /// Taken, or why not. A connection for each request: there are two a second at most.
    pub fn post(&self, body: &[u8]) -> io::Result<()> {
        let stream = self.endpoint.connect()?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        match &self.tls {
            None => self.ask(stream, body),
            Some(config) => self.ask(self.encrypted(config, stream)?, body),
        }
    }

    fn encrypted(
        &self,
        config: &Arc<ClientConfig>,
        stream: TcpStream,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let name = ServerName::try_from(self.endpoint.host.clone()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        Ok(StreamOwned::new(connection, stream))
    }

    fn ask(&self, mut stream: impl Read + Write, body: &[u8]) -> io::Result<()> {
        let head = format!("{}{}\r\n", self.endpoint.head(body.len()), self.headers.lines());
        stream.write_all(&[head.as_bytes(), body].concat())?;
        stream.flush()?;
        let mut line = Vec::new();
        BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_until(b'\n', &mut line)?;
        let line = String::from_utf8_lossy(&line);
        match line.split(' ').nth(1) {
            Some(status) if status.len() == 3 && status.starts_with('2') => Ok(()),
            Some(status) => Err(io::Error::other(format!("it answered {}", status.escape_debug()))),
            None => Err(io::Error::other("it did not answer in HTTP")),
        }
    }
}

fn tls(more: Option<&Path>) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(file) = more {
        let wrong = |error: &dyn std::fmt::Display| {
            io::Error::other(format!("otlp.roots {}: {error}", file.display()))
        };
        for root in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
            let root = root.map_err(|error| wrong(&error))?;
            roots.add(root).map_err(|error| wrong(&error))?;
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
