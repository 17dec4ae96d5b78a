//! Connections: accepted up to a limit, given a time for every wait, drained at the end.
//!
//! What must never happen: a peer that holds a connection without asking anything (each wait has a deadline), or a
//! request under way that is cut off by a stop that had time for it.

use crate::config::Http;
use axum::Router;
use fantail_api::telemetry::{Counter, Text};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

const BACKLOG: u32 = 4_096;
const STREAMS_PER_CONNECTION_MAX: u32 = 256;
/// After a failed accept, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the listener counts.
#[derive(Debug, Default)]
pub struct Connections {
    opened: Counter,
    closed: Counter,
    refused: Counter,
}

impl Connections {
    pub fn write(&self, text: &mut Text) {
        text.counter("fantail_connections_total", "Connections served", &self.opened);
        text.counter("fantail_connections_refused_total", "Connections closed at the limit", &self.refused);
        let open = self.opened.get().saturating_sub(self.closed.get());
        text.gauge("fantail_connections_open", "Connections open now", open);
    }
}

pub struct Listener {
    pub socket: TcpListener,
    pub tls: Option<TlsAcceptor>,
    pub http: Http,
    pub connections: Arc<Connections>,
}

pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Listener {
    /// Serves until `stop` says so, then lets requests under way finish, as long as `http.drain` allows.
    pub async fn run(self, router: Router, mut stop: watch::Receiver<bool>) {
        let permits = Arc::new(Semaphore::new(self.http.connections_max));
        let graceful = GracefulShutdown::new();
        let shared =
            Arc::new(Shared { builder: builder(&self.http), router, http: self.http, tls: self.tls });
        loop {
            tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, _)) => match Arc::clone(&permits).try_acquire_owned() {
                        Ok(permit) => {
                            let open = Open::new(&self.connections, permit);
                            tokio::spawn(serve(Arc::clone(&shared), stream, graceful.watcher(), open));
                        }
                        Err(_) => self.connections.refused.add(1),
                    },
                    Err(error) => {
                        warn!(%error, "accept failed");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                () = asked_to_stop(&mut stop) => break,
            }
        }
        drop(self.socket);
        if tokio::time::timeout(self.http.drain, graceful.shutdown()).await.is_err() {
            warn!(
                drain_s = self.http.drain.as_secs(),
                "requests were still under way when the time to drain ended"
            );
        }
    }
}

/// Returns when the stop is asked for, or nobody is left to ask for it.
async fn asked_to_stop(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

struct Shared {
    builder: auto::Builder<TokioExecutor>,
    router: Router,
    http: Http,
    tls: Option<TlsAcceptor>,
}

/// Counts a connection as open while it lives.
struct Open {
    connections: Arc<Connections>,
    _permit: OwnedSemaphorePermit,
}

impl Open {
    fn new(connections: &Arc<Connections>, permit: OwnedSemaphorePermit) -> Self {
        connections.opened.add(1);
        Self { connections: Arc::clone(connections), _permit: permit }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.connections.closed.add(1);
    }
}

fn builder(http: &Http) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(http.idle_timeout).pipeline_flush(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .keep_alive_interval(Some(http.idle_timeout))
        .keep_alive_timeout(http.header_timeout);
    builder
}

async fn serve(shared: Arc<Shared>, stream: TcpStream, watcher: Watcher, open: Open) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "connection is already gone");
        return;
    }
    match &shared.tls {
        None => serve_stream(&shared, stream, watcher).await,
        Some(tls) => match tokio::time::timeout(shared.http.header_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => serve_stream(&shared, stream, watcher).await,
            Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
            Err(_) => debug!("TLS handshake timed out"),
        },
    }
    drop(open);
}

async fn serve_stream<S>(shared: &Shared, stream: S, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let asked = Arc::new(AtomicBool::new(false));
    let router = TowerToHyperService::new(shared.router.clone());
    let service = {
        let asked = Arc::clone(&asked);
        service_fn(move |request| {
            asked.store(true, Ordering::Relaxed);
            router.call(request)
        })
    };
    let connection = shared.builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let mut connection = std::pin::pin!(watcher.watch(connection));
    // The builder waits without limit while it finds out which HTTP this is; so the first request has its own deadline.
    let first = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = tokio::time::sleep(shared.http.header_timeout) => None,
    };
    let ended = match first {
        Some(ended) => ended,
        None if asked.load(Ordering::Relaxed) => connection.await,
        None => {
            debug!("connection asked nothing in time");
            return;
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended");
    }
}
