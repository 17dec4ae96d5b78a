//! A connection of HTTP/2: many requests at once. A task drives it, asks now and then whether the server lives, and tells
//! the pool what the server allows.
//!
//! What was proven unsent is told apart here: a stream that the server refused, one above the last that it says to have
//! looked at (GOAWAY), and one that never began. All else may have been taken.

use super::connect::Watched;
use super::gathered::Gathered;
use super::limits::{REPLY_BYTES_MAX, REPLY_HEADER_BYTES_MAX};
use super::streams::End;
use super::{Failure, Reply, Shared, unsent};
use bytes::{Bytes, BytesMut};
use fantail_ports::channel::Proof;
use fantail_rules::ids::Millis;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, Scheme};
use hyper::{Request, StatusCode, Uri};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use tokio_rustls::client::TlsStream;
use tracing::debug;

type Wire = Connection<Gathered, Bytes>;

/// A connection that nobody drives yet.
pub struct Begun {
    pub sender: SendRequest<Bytes>,
    pub connection: Wire,
    pub stalled: Arc<AtomicBool>,
}

/// Answers are small; the windows are large enough that they never wait for one.
const WINDOW_BYTES: u32 = 1 << 20;

pub async fn begin(stream: TlsStream<Watched>, stalled: Arc<AtomicBool>) -> io::Result<Begun> {
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        // Until the server's settings are here.
        .initial_max_send_streams(1)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_header_list_size(REPLY_HEADER_BYTES_MAX);
    let (sender, connection) = builder.handshake(Gathered(stream)).await.map_err(io::Error::other)?;
    Ok(Begun { sender, connection, stalled })
}

/// Both halves of a request that has begun. Dropping the first before the end calls it off.
pub struct Streams {
    sending: SendStream<Bytes>,
    response: ResponseFuture,
}

pub fn begin_request(
    shared: &Shared,
    sender: &mut SendRequest<Bytes>,
    request: Request<Bytes>,
) -> Result<Streams, (End, Failure)> {
    let (mut head, body) = request.into_parts();
    let Some(uri) = absolute(shared, &mut head) else {
        return Err((End::CalledOff, unsent(Proof::NoConnection, "the host is none")));
    };
    head.uri = uri;
    let begun = sender.send_request(Request::from_parts(head, ()), body.is_empty());
    let Ok((response, mut sending)) = begun else {
        return Err((End::Gone, unsent(Proof::Unprocessed, "the connection takes no more requests")));
    };
    if !body.is_empty() {
        sending.send_data(body, true).map_err(|error| failed(&error))?;
    }
    Ok(Streams { sending, response })
}

pub async fn answer(shared: &Shared, streams: Streams, until: Millis) -> (End, Result<Reply, Failure>) {
    let Streams { sending, response } = streams;
    let read = shared.within(until, pin!(read(response))).await;
    drop(sending);
    match read {
        None => {
            let message = "no answer in time".to_owned();
            (End::TimedOut, Err(Failure::Unknown { code: "timeout", message }))
        }
        Some(Err(ReadError::TooLarge)) => {
            let message = "the answer is too large".to_owned();
            (End::Reset, Err(Failure::Unknown { code: "protocol", message }))
        }
        Some(Err(ReadError::Wire(error))) => {
            let (end, failure) = failed(&error);
            (end, Err(failure))
        }
        Some(Ok(reply)) => (ending(reply.status), Ok(reply)),
    }
}

/// A refused credential or a server in trouble does not make a cold connection a warm one.
fn ending(status: StatusCode) -> End {
    let is_refusal = matches!(status.as_u16(), 401 | 403 | 429 | 500..);
    if is_refusal { End::Refused } else { End::Answered }
}

/// The host goes where HTTP/2 has it.
fn absolute(shared: &Shared, head: &mut Parts) -> Option<Uri> {
    let authority = match head.headers.remove(HOST) {
        Some(host) => Authority::try_from(host.as_bytes()).ok()?,
        None => shared.authority.clone()?,
    };
    let mut parts = std::mem::take(&mut head.uri).into_parts();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(authority);
    Uri::from_parts(parts).ok()
}

enum ReadError {
    Wire(h2::Error),
    TooLarge,
}

impl From<h2::Error> for ReadError {
    fn from(error: h2::Error) -> Self {
        Self::Wire(error)
    }
}

async fn read(response: ResponseFuture) -> Result<Reply, ReadError> {
    let (head, mut stream) = response.await?.into_parts();
    let body = match stream.is_end_stream() {
        true => Bytes::new(),
        false => read_body(&mut stream).await?,
    };
    Ok(Reply { status: head.status, headers: head.headers, body })
}

async fn read_body(stream: &mut RecvStream) -> Result<Bytes, ReadError> {
    let mut whole = BytesMut::new();
    while let Some(part) = stream.data().await {
        let part = part?;
        if whole.len() + part.len() > REPLY_BYTES_MAX {
            return Err(ReadError::TooLarge);
        }
        stream.flow_control().release_capacity(part.len())?;
        if whole.is_empty() && stream.is_end_stream() {
            return Ok(part);
        }
        whole.extend_from_slice(&part);
    }
    Ok(whole.freeze())
}

/// What a stream's end without an answer proves.
fn failed(error: &h2::Error) -> (End, Failure) {
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    if error.is_go_away() && error.is_remote() {
        (End::Gone, unsent(Proof::Unprocessed, "the server goes away and did not look at it"))
    } else if is_refused && error.is_remote() {
        (End::Reset, unsent(Proof::Unprocessed, "the server refused the stream"))
    } else {
        let end = if error.is_reset() { End::Reset } else { End::Gone };
        let code = if error.is_library() { "protocol" } else { "reset" };
        (end, Failure::Unknown { code, message: format!("the connection was lost: {error}") })
    }
}

/// Until the connection ends, or does not answer. Holds the pool only weakly: whoever drops it lets its connections go.
pub fn drive(
    shared: &Arc<Shared>,
    id: u64,
    mut connection: Wire,
    stalled: Arc<AtomicBool>,
) -> impl Future<Output = ()> + Send + use<> {
    let pings = connection.ping_pong();
    let watch = Watch { shared: Arc::downgrade(shared), id, stalled, allowed: None };
    let living =
        lives(Arc::clone(&shared.ports.tasks), Arc::clone(&shared.ports.clock), shared.limits, pings);
    async move {
        let mut watch = watch;
        tokio::select! {
            result = poll_fn(|context| watch.poll(&mut connection, context)) => match result {
                Ok(()) => debug!("connection ended"),
                Err(error) => debug!(%error, "connection ended"),
            },
            () = living => debug!("connection does not answer any more"),
        }
        drop(connection);
        if let Some(shared) = watch.shared.upgrade() {
            let now = shared.now();
            let mut state = shared.lock();
            state.close(id, now);
            shared.serve(&mut state, now);
        }
    }
}

/// Tells the pool what the connection allows, whenever that changes.
struct Watch {
    shared: Weak<Shared>,
    id: u64,
    stalled: Arc<AtomicBool>,
    allowed: Option<(usize, bool)>,
}

impl Watch {
    fn poll(&mut self, connection: &mut Wire, context: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        let poll = Pin::new(&mut *connection).poll(context);
        let (server_max, is_stalled) =
            (connection.max_concurrent_send_streams(), self.stalled.load(Ordering::Relaxed));
        if self.allowed != Some((server_max, is_stalled))
            && let Some(shared) = self.shared.upgrade()
        {
            self.allowed = Some((server_max, is_stalled));
            let now = shared.now();
            let mut state = shared.lock();
            state.adjust(self.id, server_max, is_stalled);
            shared.serve(&mut state, now);
        }
        poll
    }
}

/// Returns when the other side does not answer.
async fn lives(
    tasks: Arc<dyn fantail_ports::tasks::Tasks>,
    clock: Arc<dyn fantail_ports::clock::Clock>,
    limits: super::Limits,
    pings: Option<PingPong>,
) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        tasks.sleep_until(clock.monotonic().plus(limits.ping_every_ms)).await;
        let answered = tokio::select! {
            pong = pings.ping(Ping::opaque()) => pong.is_ok(),
            () = tasks.sleep_until(clock.monotonic().plus(limits.pong_within_ms)) => false,
        };
        if !answered {
            return;
        }
    }
}
