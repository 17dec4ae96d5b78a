//! One connection: its HTTP, its responses in flight and its deadlines.

use crate::config::Http;
use crate::listen::deadlines::{DeadlineVerdict, Deadlines, EndReason};
use crate::listen::in_flight::{ConnectionClosed, InFlight};
use crate::listen::places::Place;
use crate::listen::request_framing::{AmbiguousRequest, RequestFraming};
use crate::listen::turns::TurnExecutor;
use crate::listen::watched_stream::WatchedStream;
use crate::listen::{Shared, asked_to_stop};
use fantail_api::bodies::ConnectionBodies;
use fantail_api::client_address::Peer;
use fantail_api::known_caller::KnownCaller;
use fantail_api::{ProbesOnly, TwoLengths};
use fantail_rules::limits::HEAD_BYTES_MAX;
use hyper::Request;
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::debug;

/// Handled at the same time for one peer.
const STREAMS_PER_CONNECTION_MAX: u32 = 256;

/// What a connection may do.
#[derive(Debug)]
pub enum Admission {
    /// Everything, while it holds this place.
    Full { place: Place },
    /// One probe: all places are taken.
    ProbesOnly,
}

impl Admission {
    fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// What the bodies of the connection's requests without a key are counted by. Probes have none.
    fn bodies(&self) -> Option<Arc<ConnectionBodies>> {
        match self {
            Self::Full { place } => place.bodies.clone(),
            Self::ProbesOnly => None,
        }
    }
}

/// A pipelined request is read only after the response before it was written: `pipeline_flush` would collect responses
/// without a limit.
pub fn builder(http: &Http, admission: &Admission, streams: TurnExecutor) -> auto::Builder<TurnExecutor> {
    let mut builder = auto::Builder::new(streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(http.idle_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(admission.is_full());
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .keep_alive_interval(Some(http.idle_timeout))
        .keep_alive_timeout(http.header_timeout);
    builder
}

/// What the listener knows of a request and its routes do not.
struct Marks {
    peer: Peer,
    caller: KnownCaller,
    is_full: bool,
    bodies: Option<Arc<ConnectionBodies>>,
    ambiguous: AmbiguousRequest,
    /// So far. Of HTTP/1 they come one after the other.
    requests: AtomicU64,
}

impl Marks {
    fn new(peer: Peer, caller: KnownCaller, admission: &Admission, ambiguous: AmbiguousRequest) -> Self {
        let (is_full, bodies) = (admission.is_full(), admission.bodies());
        Self { peer, caller, is_full, bodies, ambiguous, requests: AtomicU64::new(0) }
    }

    /// Returns whether the connection ends behind the request: nobody can tell where the next one begins.
    fn mark(&self, request: &mut Request<Incoming>) -> bool {
        request.extensions_mut().insert(self.peer);
        request.extensions_mut().insert(self.caller.clone());
        let is_last = self.ambiguous.is_at_or_before(self.requests.fetch_add(1, Relaxed) + 1);
        if is_last {
            request.extensions_mut().insert(TwoLengths);
        }
        if let Some(bodies) = self.bodies.as_ref().filter(|_| !request.body().is_end_stream()) {
            request.extensions_mut().insert(bodies.clone());
        }
        if !self.is_full {
            request.extensions_mut().insert(ProbesOnly);
        }
        is_last
    }
}

/// Serves a connection to its end.
pub async fn serve_stream<S>(
    shared: &Shared,
    (stream, peer): (S, IpAddr),
    admission: &Admission,
    streams: TurnExecutor,
    mut stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let in_flight = InFlight::new(shared.connections.responses.clone());
    let (ambiguous, is_full) = (AmbiguousRequest::default(), admission.is_full());
    let framing = RequestFraming::new(ambiguous.clone());
    let stream = WatchedStream::new(stream, in_flight.clone(), shared.http.header_timeout, framing);
    let router = TowerToHyperService::new(shared.router.clone());
    let service = {
        let in_flight = in_flight.clone();
        let marks = Marks::new(Peer(peer), streams.caller.clone(), admission, ambiguous);
        service_fn(move |mut request: Request<Incoming>| {
            let is_last = marks.mark(&mut request);
            let (in_flight, router) = (in_flight.clone(), router.clone());
            async move {
                let running = in_flight.admit(request.method()).await?;
                let mut response = router.call(request).await.unwrap_or_else(|never| match never {});
                if is_last {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, ConnectionClosed>(running.respond(response))
            }
        })
    };
    // Streams of HTTP/2 are tasks of their own and outlive their connection.
    let _closes = CloseOnDrop(in_flight.clone());
    let builder = builder(&shared.http, admission, streams);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut deadlines = Deadlines::new(&shared.http);
    // A probe is answered at once; what does not ask in time only takes room from the next one.
    let step = if is_full { deadlines.step() } else { shared.http.header_timeout };
    let mut look = std::pin::pin!(tokio::time::sleep(step));
    let mut is_leaving = false;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(%error, "connection ended");
                }
                return;
            }
            () = asked_to_stop(&mut stop), if !is_leaving => {
                is_leaving = true;
                connection.as_mut().graceful_shutdown();
            }
            () = look.as_mut() => {
                let verdict = if is_full { deadlines.look(&in_flight) } else { DeadlineVerdict::End(EndReason::Silent) };
                match verdict {
                    DeadlineVerdict::Stay => {}
                    DeadlineVerdict::Leave(reason) => {
                        shared.connections.ended_by_deadline(reason);
                        connection.as_mut().graceful_shutdown();
                    }
                    DeadlineVerdict::End(reason) => {
                        shared.connections.ended_by_deadline(reason);
                        return;
                    }
                }
                look.as_mut().reset(Instant::now() + step);
            }
        }
    }
}

struct CloseOnDrop(Arc<InFlight>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}
