//! Connections to one host, and a request on one of them.
//!
//! Comes from: a client of a provider. Does: connects (TLS, ALPN), keeps connections, sends a request on one of them and
//! reads its answer within its limits. Goes to: the client, which alone knows what the answer means.
//!
//! What must never happen: a first byte after the deadline, more streams than the server allows, a request that is sent
//! again without proof that nobody took it, or callers without number that wait.

mod limits;

mod state;

mod streams;

mod connect;

mod gathered;

mod http2;

mod http1;

mod lease;

pub use limits::Limits;

use crate::connector::{Connector, Judged};
use crate::policy::{Destination, Service};
use crate::pool::lease::Lease;
use crate::url::Host;
use bytes::Bytes;
use fantail_ports::channel::Proof;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use hyper::Request;
use hyper::http::uri::Authority;
use hyper::http::{HeaderMap, StatusCode};
use state::State;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_rustls::rustls::ClientConfig;

/// What a pool needs of the world.
#[derive(Clone)]
pub struct Ports {
    pub clock: Arc<dyn Clock>,
    pub tasks: Arc<dyn Tasks>,
    /// Where connections may go, and how they are made.
    pub connector: Arc<Connector>,
}

/// Whom to connect to.
#[derive(Clone, Debug)]
pub struct Target {
    /// The name that TLS checks.
    pub host: String,
    pub port: u16,
    pub at: At,
    /// `None` speaks HTTP/1.1 without TLS: emulators and tests. Otherwise the protocol is what ALPN agrees on.
    pub tls: Option<Arc<ClientConfig>>,
}

/// Where the host of a target is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// Where its name says: looked up and judged for each connection.
    Name,
    /// Here, whatever the name says, if that may be connected to: emulators.
    Address(SocketAddr),
    /// Here: the name was looked up and judged before.
    Judged(Judged),
}

impl From<Option<SocketAddr>> for At {
    fn from(connect_to: Option<SocketAddr>) -> Self {
        connect_to.map_or(Self::Name, Self::Address)
    }
}

impl Target {
    /// What the policy judges.
    #[must_use]
    pub fn destination(&self) -> Destination {
        let (host, port) = match self.at {
            At::Address(address) => (Host::Address(address.ip()), address.port()),
            At::Name | At::Judged(_) => (Host::of(&self.host), self.port),
        };
        Destination { host, port, is_plain: self.tls.is_none(), service: Service::Web }
    }
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

/// What a pool is doing at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gauge {
    /// Connections that take requests.
    pub connections: usize,
    /// Connections that were ever made.
    pub opened: u64,
    pub in_flight: usize,
    pub waiting: usize,
    /// Requests that may be under way at the same time, over the connections there are.
    pub permits: usize,
}

/// Must be used inside a tokio runtime: its sockets belong to one. Dropping it closes connections once their answers came.
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    target: Target,
    ports: Ports,
    limits: Limits,
    /// Of requests that name no host; `None` if the host is none.
    authority: Option<Authority>,
    state: Mutex<State>,
}

impl Pool {
    #[must_use]
    pub fn new(target: Target, ports: Ports) -> Self {
        Self::with_limits(target, Limits::default(), ports)
    }

    #[must_use]
    pub fn with_limits(target: Target, limits: Limits, ports: Ports) -> Self {
        let authority = authority(&target);
        let state = Mutex::new(State::new(limits));
        Self { shared: Arc::new(Shared { target, ports, limits, authority, state }) }
    }

    /// Sends once. The request's URI is path and query only; the host is the target's, unless a `host` header says
    /// otherwise.
    ///
    /// "Once" counts what may have been taken. What certainly was not (the connection gave it back, the server refused its
    /// stream or went away before it) is sent again at once on another connection, a few times and while the deadline
    /// allows; after that it is `NotSent` with [`Proof::Unprocessed`]. Everything else that ends without an answer is
    /// [`Failure::Unknown`] and never sent again here.
    pub async fn call(&self, request: Request<Bytes>, timing: Timing) -> Result<Reply, Failure> {
        self.call_made(|| request.clone(), timing).await
    }

    /// The same for whoever makes the request anew for each time that it is sent, which is cheaper than keeping a copy.
    pub async fn call_made(
        &self,
        mut make: impl FnMut() -> Request<Bytes>,
        timing: Timing,
    ) -> Result<Reply, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let is_late = || self.shared.now() > timing.start_by;
            if is_late() {
                return Err(too_late());
            }
            let mut lease = self.shared.lease(timing.start_by).await?;
            if is_late() {
                return Err(too_late());
            }
            // Begun at once, so that a request is not carried through everything that waits for its answer.
            let begun = lease.begin(make());
            match lease.answer(begun, timing.answer_within_ms).await {
                Err(Failure::NotSent { proof: Proof::Unprocessed, .. }) if tries < limits::TRIES_MAX => {}
                outcome => return outcome,
            }
        }
    }

    #[must_use]
    pub fn gauge(&self) -> Gauge {
        self.shared.lock().gauge()
    }
}

impl Shared {
    fn now(&self) -> Millis {
        self.ports.clock.monotonic()
    }

    /// Every critical section leaves the state whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place on a connection, as soon as there is one.
    async fn lease(self: &Arc<Self>, start_by: Millis) -> Result<Lease, Failure> {
        let waiting = {
            let now = self.now();
            let mut state = self.lock();
            if let Some(way) = state.take(now) {
                self.open_if_wanted(&mut state, now);
                return Ok(Lease::new(self, way));
            }
            let waiting = state.wait(now)?;
            self.open_if_wanted(&mut state, now);
            waiting
        };
        match self.within(start_by, waiting).await {
            None => Err(too_late()),
            Some(Ok(given)) => given,
            Some(Err(_)) => Err(unsent(Proof::NoConnection, "nobody connects any more")),
        }
    }

    /// Opens what is needed, in tasks of their own.
    fn open_if_wanted(self: &Arc<Self>, state: &mut State, now: Millis) {
        for _ in 0..state.wanted(now) {
            state.connecting += 1;
            let shared = Arc::clone(self);
            let connecting = async move {
                let result = connect::connect(&shared).await;
                shared.connected(result);
            };
            self.ports.tasks.spawn("outbound connect", Box::pin(connecting));
        }
    }

    /// Gives what is free to those who wait, and opens more if they need it.
    fn serve(self: &Arc<Self>, state: &mut State, now: Millis) {
        while state.has_waiting() {
            let Some(way) = state.take_for_waiting(now) else { break };
            let Some(waiting) = state.waiting.pop_front() else { break };
            if let Err(Ok(lease)) = waiting.give(Ok(Lease::new(self, way))) {
                lease.give_back(state, now);
            }
        }
        self.open_if_wanted(state, now);
        state.dismiss_if_resting(now);
    }

    /// Takes what is pinned where it stands: a future that were moved in here would take its room twice.
    async fn within<F: Future + Unpin>(&self, until: Millis, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.ports.tasks.sleep_until(until) => None,
        }
    }
}

fn authority(target: &Target) -> Option<Authority> {
    let usual = if target.tls.is_some() { 443 } else { 80 };
    match target.port == usual {
        true => target.host.parse().ok(),
        false => format!("{}:{}", target.host, target.port).parse().ok(),
    }
}

fn unsent(proof: Proof, message: &str) -> Failure {
    Failure::NotSent { proof, message: message.to_owned() }
}

fn too_late() -> Failure {
    unsent(Proof::Deadline, "the deadline passed before the first byte")
}
