//! Connections to one host, and a request on one of them.
//!
//! Comes from: a client of a provider. Does: connects (TLS, ALPN), sends one request, reads its answer within its limits.
//! Goes to: the client, which alone knows what the answer means.

use bytes::Bytes;
use fantail_ports::channel::Proof;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use http_body_util::{BodyExt, Full, Limited};
use hyper::http::{HeaderMap, StatusCode};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tracing::debug;

/// What a pool needs of the world.
#[derive(Clone)]
pub struct Ports {
    pub clock: Arc<dyn Clock>,
    pub tasks: Arc<dyn Tasks>,
}

/// Whom to connect to.
#[derive(Clone, Debug)]
pub struct Target {
    /// The name that is looked up, and that TLS checks.
    pub host: String,
    pub port: u16,
    /// Connect here instead of looking the name up: emulators on this machine.
    pub connect_to: Option<SocketAddr>,
    /// `None` speaks HTTP/1.1 without TLS: emulators and tests.
    pub tls: Option<Arc<ClientConfig>>,
}

/// When a request must have left, and how long its answer may take.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// On the monotonic clock: no first byte leaves after this.
    pub start_by: Millis,
    pub answer_within_ms: u64,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is no answer. Messages carry no secrets.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// Proof that the other side took nothing.
    #[error("not sent: {message}")]
    NotSent { proof: Proof, message: String },
    /// It may have been taken.
    #[error("no answer: {message}")]
    Unknown { code: &'static str, message: String },
}

/// An answer has at most so many bytes.
const REPLY_BYTES_MAX: usize = 4 << 20;
const CONNECT_MS_MAX: u64 = 10_000;

/// Must be used inside a tokio runtime: its sockets belong to one.
pub struct Pool {
    target: Target,
    ports: Ports,
}

impl Pool {
    #[must_use]
    pub fn new(target: Target, ports: Ports) -> Self {
        Self { target, ports }
    }

    /// Sends once. The request's URI is path and query only; the host is the target's.
    pub async fn call(&self, request: Request<Bytes>, timing: Timing) -> Result<Reply, Failure> {
        let clock = &self.ports.clock;
        let connected = clock.monotonic().plus(CONNECT_MS_MAX).min(timing.start_by);
        let stream = match self.within(connected, self.connect()).await {
            None => return Err(unsent(Proof::NoConnection, "no connection in time")),
            Some(Err(error)) => return Err(unsent(Proof::NoConnection, &error.to_string())),
            Some(Ok(stream)) => stream,
        };
        if clock.monotonic() > timing.start_by {
            return Err(unsent(Proof::Deadline, "the deadline passed before the first byte"));
        }
        let until = clock.monotonic().plus(timing.answer_within_ms);
        match self.within(until, self.exchange(stream, request)).await {
            None => Err(Failure::Unknown { code: "timeout", message: "no answer in time".to_owned() }),
            Some(result) => result,
        }
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let Target { host, port, connect_to, tls } = &self.target;
        let stream = match connect_to {
            Some(address) => TcpStream::connect(address).await?,
            None => TcpStream::connect((host.as_str(), *port)).await?,
        };
        stream.set_nodelay(true)?;
        let Some(tls) = tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        Ok(Box::new(TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?))
    }

    async fn exchange(&self, stream: Box<dyn Stream>, mut request: Request<Bytes>) -> Result<Reply, Failure> {
        let began = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) =
            began.map_err(|error| unsent(Proof::NoConnection, &error.to_string()))?;
        self.ports.tasks.spawn(
            "outbound connection",
            Box::pin(async move {
                if let Err(error) = connection.await {
                    debug!(%error, "connection ended");
                }
            }),
        );
        let host =
            self.target.host.parse().map_err(|_| unsent(Proof::NoConnection, "the host is no header"))?;
        request.headers_mut().entry("host").or_insert(host);
        match sender.try_send_request(request.map(Full::new)).await {
            Ok(response) => read(response).await,
            Err(mut error) => match error.take_message() {
                Some(_) => Err(unsent(Proof::Unprocessed, "the connection gave the request back")),
                None => Err(lost(&error.into_error())),
            },
        }
    }

    async fn within<F: Future>(&self, until: Millis, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.ports.tasks.sleep_until(until) => None,
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn read(response: Response<hyper::body::Incoming>) -> Result<Reply, Failure> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, REPLY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| Failure::Unknown { code: "reset", message: error.to_string() })?;
    Ok(Reply { status: head.status, headers: head.headers, body: body.to_bytes() })
}

fn unsent(proof: Proof, message: &str) -> Failure {
    Failure::NotSent { proof, message: message.to_owned() }
}

fn lost(error: &hyper::Error) -> Failure {
    let code = if error.is_parse() { "protocol" } else { "reset" };
    Failure::Unknown { code, message: format!("the connection was lost: {error}") }
}
