//! Connections: accepted up to a limit, given a time for every wait, drained at the end.
//!
//! What must never happen: a peer that holds a connection without asking or without reading (each wait has a deadline),
//! responses that pile up in memory because a peer does not read them, connections of one address that hold up those of
//! all others, or a request under way that is cut off by a stop that had time for it.

mod connection;
mod deadlines;
mod in_flight;
mod places;
mod request_framing;
mod sliced_body;
mod turns;
mod waiting_responses;
mod watched_stream;

use crate::config::Http;
use axum::Router;
use connection::{Admission, serve_stream};
use deadlines::EndReason;
use fantail_api::known_caller::KnownCaller;
use fantail_api::telemetry::{Counter, Text};
use fantail_rules::limits::PROBE_CONNECTIONS_MAX;
use in_flight::ResponseBudget;
pub use places::Places;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};
use turns::{InTurn, TurnExecutor};
pub use turns::{TurnPlaces, Turns};

const BACKLOG: u32 = 4_096;
/// After a failed accept, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the listener counts.
#[derive(Debug, Default)]
pub struct Connections {
    opened: Counter,
    closed: Counter,
    refused: Counter,
    silent: Counter,
    idle: Counter,
    not_reading: Counter,
    responses: Arc<ResponseBudget>,
}

impl Connections {
    pub fn write(&self, text: &mut Text) {
        text.counter("fantail_connections_total", "Connections served", &self.opened);
        text.counter(
            "fantail_connections_refused_total",
            "Connections beyond a limit, which are answered probes only",
            &self.refused,
        );
        let open = self.opened.get().saturating_sub(self.closed.get());
        text.gauge("fantail_connections_open", "Connections open now", open);
        text.family(
            "fantail_connections_ended_total",
            "counter",
            "Connections that a deadline ended, by reason",
        );
        for (reason, counter) in
            [("silent", &self.silent), ("idle", &self.idle), ("not_reading", &self.not_reading)]
        {
            text.sample("fantail_connections_ended_total", &[("reason", reason)], counter.get());
        }
        text.gauge(
            "fantail_response_bytes",
            "Bytes of responses that peers have not read, and reserves of requests under way",
            self.responses.taken(),
        );
    }

    fn ended_by_deadline(&self, reason: EndReason) {
        debug!(?reason, "connection ended by a deadline");
        match reason {
            EndReason::Silent => self.silent.add(1),
            EndReason::Idle => self.idle.add(1),
            EndReason::NotReading => self.not_reading.add(1),
        }
    }
}

pub struct Listener {
    pub socket: TcpListener,
    pub tls: Option<TlsAcceptor>,
    pub http: Http,
    pub places: Arc<Places>,
    pub turns: Arc<Turns>,
    pub connections: Arc<Connections>,
}

pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// What all connections share.
struct Shared {
    router: Router,
    http: Http,
    tls: Option<TlsAcceptor>,
    connections: Arc<Connections>,
}

impl Listener {
    /// Serves until `stop` says so, then lets requests under way finish, as long as `http.drain` allows.
    pub async fn run(self, router: Router, mut stop: watch::Receiver<bool>) {
        let (places, turns) = (self.places, self.turns);
        let (http, connections) = (self.http, self.connections);
        let shared = Arc::new(Shared { router, http, tls: self.tls, connections });
        let mut probes = ProbeConnections::default();
        // Every connection holds a sender: the receiver ends when the last one is gone.
        let (alive, mut all_gone) = mpsc::channel::<()>(1);
        loop {
            tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let admission = match places.take(peer.ip()) {
                            Some(place) => Admission::Full { place },
                            None => Admission::ProbesOnly,
                        };
                        let is_probe = matches!(admission, Admission::ProbesOnly);
                        let open = Open::new(&shared.connections, alive.clone());
                        let streams = TurnExecutor { turns: turns.lines_for(peer.ip()), caller: KnownCaller::default() };
                        let (of_address, caller) = (streams.turns.clone(), streams.caller.clone());
                        let connection = Connection { stream, peer: peer.ip(), admission, streams, open };
                        let served = serve(shared.clone(), connection, stop.clone());
                        let task = tokio::spawn(InTurn::new(of_address, caller, served));
                        if is_probe {
                            shared.connections.refused.add(1);
                            probes.push(task.abort_handle());
                        }
                    }
                    Err(error) => {
                        warn!(%error, "accept failed");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                () = asked_to_stop(&mut stop) => break,
            }
        }
        drop(self.socket);
        drop(alive);
        if tokio::time::timeout(shared.http.drain, all_gone.recv()).await.is_err() {
            warn!(
                drain_s = shared.http.drain.as_secs(),
                "requests were still under way when the time to drain ended"
            );
        }
    }
}

/// Connections without a place. A new one ends the oldest, so a probe that asks at once is answered however many idle
/// connections come.
#[derive(Default)]
struct ProbeConnections(VecDeque<AbortHandle>);

impl ProbeConnections {
    fn push(&mut self, connection: AbortHandle) {
        self.0.push_back(connection);
        if self.0.len() > PROBE_CONNECTIONS_MAX
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
    }
}

/// Returns when the stop is asked for, or nobody is left to ask for it.
async fn asked_to_stop(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

/// Counts a connection as open while it lives.
struct Open {
    connections: Arc<Connections>,
    _alive: mpsc::Sender<()>,
}

impl Open {
    fn new(connections: &Arc<Connections>, alive: mpsc::Sender<()>) -> Self {
        connections.opened.add(1);
        Self { connections: Arc::clone(connections), _alive: alive }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.connections.closed.add(1);
    }
}

/// What was accepted, and what goes with it to its end.
struct Connection {
    stream: TcpStream,
    peer: IpAddr,
    admission: Admission,
    streams: TurnExecutor,
    open: Open,
}

async fn serve(shared: Arc<Shared>, connection: Connection, stop: watch::Receiver<bool>) {
    let Connection { stream, peer, admission, streams, open } = connection;
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "connection is already gone");
        return;
    }
    match &shared.tls {
        None => serve_stream(&shared, (stream, peer), &admission, streams, stop).await,
        Some(tls) => match tokio::time::timeout(shared.http.header_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => serve_stream(&shared, (stream, peer), &admission, streams, stop).await,
            Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
            Err(_) => debug!("TLS handshake timed out"),
        },
    }
    drop(open);
}

#[cfg(test)]
mod tests;
