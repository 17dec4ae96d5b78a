//! Responses that their peer has not read yet, counted in bytes per connection and per process.
//!
//! A request is handled only while its connection has room for a response. A peer that sends requests without reading
//! responses therefore holds a bounded number of bytes. Bytes are counted from the moment the response exists until the
//! transport has written them: every slice of a body gives its bytes back when it is dropped.
//! Invariant: `taken` is the reserves of running requests plus the bytes of unwritten responses.

use crate::listen::sliced_body::SlicedBody;
use crate::listen::waiting_responses::WaitingResponses;
use axum::body::HttpBody;
use axum::http::Method;
use axum::response::Response;
use fantail_rules::limits::{
    READ_RESPONSE_BYTES_RESERVED, RESPONSE_BYTES_MAX, RESPONSE_BYTES_PER_CONNECTION_MAX,
    WRITE_RESPONSE_BYTES_RESERVED,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;
use tokio::sync::Notify;

/// Bytes of all connections together.
#[derive(Debug)]
pub struct ResponseBudget {
    taken: AtomicU64,
    bytes_max: u64,
    connection_bytes_max: u64,
}

impl Default for ResponseBudget {
    fn default() -> Self {
        Self::new(RESPONSE_BYTES_MAX, RESPONSE_BYTES_PER_CONNECTION_MAX)
    }
}

impl ResponseBudget {
    pub fn new(bytes_max: u64, connection_bytes_max: u64) -> Self {
        Self { taken: AtomicU64::new(0), bytes_max, connection_bytes_max }
    }

    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    pub fn is_exhausted(&self) -> bool {
        self.taken() >= self.bytes_max
    }
}

/// The connection ended while the request waited for room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the connection is closed")]
pub struct ConnectionClosed;

/// What one connection has under way.
#[derive(Debug)]
pub struct InFlight {
    budget: Arc<ResponseBudget>,
    taken: AtomicU64,
    /// Responses that exist and are not written.
    waiting: Mutex<WaitingResponses>,
    /// Requests that came, whether they are handled or wait for room.
    begun: AtomicU64,
    /// Requests whose response was written or dropped.
    ended: AtomicU64,
    bytes_written: AtomicU64,
    is_write_blocked: AtomicBool,
    /// The connection is gone: what waits is not handled any more.
    is_closed: AtomicBool,
    room: Notify,
}

/// What the deadlines of a connection compare between two looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    pub begun: u64,
    pub bytes_written: u64,
}

impl InFlight {
    pub fn new(budget: Arc<ResponseBudget>) -> Arc<Self> {
        Arc::new(Self {
            budget,
            taken: AtomicU64::new(0),
            waiting: Mutex::default(),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            is_write_blocked: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            room: Notify::new(),
        })
    }

    /// Waits until there is room for one more response.
    pub async fn admit(self: &Arc<Self>, method: &Method) -> Result<RunningRequest, ConnectionClosed> {
        let reserve = match *method {
            Method::GET | Method::HEAD => READ_RESPONSE_BYTES_RESERVED,
            _ => WRITE_RESPONSE_BYTES_RESERVED,
        };
        self.begun.fetch_add(1, Ordering::Relaxed);
        let open = OpenRequest(self.clone());
        while !self.try_reserve(reserve) {
            // Registered before the second look, so that room that comes in between is not missed.
            let room = self.room.notified();
            if self.try_reserve(reserve) {
                break;
            }
            if self.is_closed.load(Ordering::Acquire) {
                return Err(ConnectionClosed);
            }
            room.await;
        }
        let running = RunningRequest { of: self.clone(), reserve, open: Some(open) };
        if self.is_closed.load(Ordering::Acquire) { Err(ConnectionClosed) } else { Ok(running) }
    }

    /// From here on no request is handled.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.room.notify_waiters();
    }

    /// A connection without anything under way may always answer one request. Otherwise a few peers that do not read
    /// could silence all others.
    fn try_reserve(&self, bytes: u64) -> bool {
        if self.is_write_blocked.load(Ordering::Acquire) {
            return false;
        }
        let is_exhausted = self.budget.is_exhausted();
        let with_reserve = |taken: u64| {
            let fits = taken + bytes <= self.budget.connection_bytes_max;
            (taken == 0 || fits && !is_exhausted).then_some(taken + bytes)
        };
        let is_reserved = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, with_reserve).is_ok();
        if is_reserved {
            self.budget.taken.fetch_add(bytes, Ordering::Relaxed);
        }
        is_reserved
    }

    fn take(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::AcqRel);
        self.budget.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::AcqRel);
        self.budget.taken.fetch_sub(bytes, Ordering::Relaxed);
        self.room.notify_waiters();
    }

    pub fn budget(&self) -> &ResponseBudget {
        &self.budget
    }

    pub fn progress(&self) -> Progress {
        Progress {
            begun: self.begun.load(Ordering::Relaxed),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
        }
    }

    /// Whether no request is open.
    pub fn is_idle(&self) -> bool {
        self.ended.load(Ordering::Acquire) == self.begun.load(Ordering::Acquire)
    }

    /// Between how many looks nothing moved of the response that waits longest for the peer to read. This is a look.
    pub fn longest_wait(&self) -> u64 {
        self.waiting().look()
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingResponses> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_write_blocked(&self) -> bool {
        self.is_write_blocked.load(Ordering::Acquire)
    }

    /// The transport took bytes.
    pub fn wrote(&self, bytes: usize) {
        self.bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
        if self.is_write_blocked.swap(false, Ordering::AcqRel) {
            self.room.notify_waiters();
        }
    }

    /// The transport takes no bytes for now.
    pub fn write_blocked(&self) {
        self.is_write_blocked.store(true, Ordering::Release);
    }
}

/// Counts a request as open while it lives.
#[derive(Debug)]
struct OpenRequest(Arc<InFlight>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::AcqRel);
    }
}

/// A request that may be handled. Holds the reserve of its response.
#[derive(Debug)]
pub struct RunningRequest {
    of: Arc<InFlight>,
    reserve: u64,
    open: Option<OpenRequest>,
}

impl RunningRequest {
    /// Counts the response instead of the reserve.
    pub fn respond(mut self, response: Response) -> Response<SlicedBody> {
        let known = response.body().size_hint().exact().unwrap_or(0);
        self.of.take(known);
        let number = self.of.waiting().begin(known);
        let unwritten = UnwrittenBytes { of: self.of.clone(), response: number, bytes: known };
        let open = self.open.take();
        response.map(|body| SlicedBody::new(body, OpenResponse { unwritten, _open: open }))
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.of.give_back(self.reserve);
    }
}

/// A response that is not completely written.
#[derive(Debug)]
pub struct OpenResponse {
    /// Bytes of the body that are not yet cut into slices.
    pub unwritten: UnwrittenBytes,
    _open: Option<OpenRequest>,
}

/// Bytes of a response, counted until this is dropped.
#[derive(Debug)]
pub struct UnwrittenBytes {
    of: Arc<InFlight>,
    /// The number of their response among those that wait.
    response: usize,
    bytes: u64,
}

impl UnwrittenBytes {
    /// Counts a frame of so many bytes, but for those that were announced.
    pub fn cover(&mut self, frame: u64) {
        let more = frame.saturating_sub(self.bytes);
        if more > 0 {
            self.of.take(more);
            self.of.waiting().add_bytes(self.response, more);
            self.bytes += more;
        }
    }

    /// Moves `bytes` of these, which are counted, into a part of their own.
    pub fn split_off(&mut self, bytes: u64) -> Self {
        self.bytes -= bytes;
        self.of.waiting().add_part(self.response);
        Self { of: self.of.clone(), response: self.response, bytes }
    }
}

impl Drop for UnwrittenBytes {
    fn drop(&mut self) {
        self.of.waiting().end_part(self.response, self.bytes);
        if self.bytes > 0 {
            self.of.give_back(self.bytes);
        }
    }
}
