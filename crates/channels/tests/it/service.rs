//! A provider on 127.0.0.1 that speaks HTTP: every request is written down and answered by a function.

use super::time::Time;
use bytes::Bytes;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;

#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// What the provider does with a request.
#[derive(Clone, Debug)]
pub enum Reaction {
    Answer {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// Closes the connection without a word.
    Close,
}

impl Reaction {
    pub fn body(status: u16, body: &str) -> Self {
        Self::Answer { status, headers: Vec::new(), body: body.to_owned() }
    }

    pub fn with(self, name: &'static str, value: &str) -> Self {
        match self {
            Self::Answer { status, mut headers, body } => {
                headers.push((name, value.to_owned()));
                Self::Answer { status, headers, body }
            }
            Self::Close => Self::Close,
        }
    }
}

pub type React = dyn Fn(&Seen) -> Reaction + Send + Sync;

pub struct Service {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    count: watch::Sender<usize>,
    flight: Arc<Flight>,
}

/// How many requests are under way. With a clock, one to `/wait/<ms>` is answered after so long.
#[derive(Default)]
struct Flight {
    time: Option<Arc<Time>>,
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Flight {
    async fn wait(&self, path: &str) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        let wait_ms = path.strip_prefix("/wait/").and_then(|ms| ms.parse().ok());
        if let Some((time, wait_ms)) = self.time.as_ref().zip(wait_ms) {
            time.sleep_until(time.monotonic().plus(wait_ms)).await;
        }
        self.now.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Service {
    pub async fn start(handle: &Handle, react: Arc<React>) -> Self {
        Self::open(handle, react, Flight::default()).await
    }

    /// Waits by this clock.
    pub async fn timed(handle: &Handle, react: Arc<React>, time: Arc<Time>) -> Self {
        Self::open(handle, react, Flight { time: Some(time), ..Flight::default() }).await
    }

    async fn open(handle: &Handle, react: Arc<React>, flight: Flight) -> Self {
        let flight = Arc::new(flight);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let (seen, count) = (Arc::default(), watch::Sender::new(0));
        let service = Self { address, seen: Arc::clone(&seen), count: count.clone(), flight: flight.clone() };
        let spawner = handle.clone();
        handle.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("a socket");
                let (react, seen, count) = (Arc::clone(&react), Arc::clone(&seen), count.clone());
                let flight = Arc::clone(&flight);
                let serve = service_fn(move |request| {
                    let own = (Arc::clone(&seen), count.clone(), Arc::clone(&flight));
                    answer(request, Arc::clone(&react), own)
                });
                let connection = hyper::server::conn::http1::Builder::new();
                spawner.spawn(connection.serve_connection(TokioIo::new(stream), serve));
            }
        });
        service
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panics inside").clone()
    }

    /// Requests that have come.
    pub fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Requests that were under way together, at most.
    pub fn in_flight_max(&self) -> usize {
        self.flight.most.load(Ordering::Relaxed)
    }

    /// Returns when so many requests have come.
    pub async fn wait_for(&self, requests: usize) {
        self.count.subscribe().wait_for(|count| *count >= requests).await.expect("the service lives");
    }
}

async fn answer(
    request: Request<Incoming>,
    react: Arc<React>,
    (seen, count, flight): (Arc<Mutex<Vec<Seen>>>, watch::Sender<usize>, Arc<Flight>),
) -> io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let one = Seen { path, headers: head.headers, body };
    let (reaction, path) = (react(&one), one.path.clone());
    seen.lock().expect("no test panics inside").push(one);
    count.send_modify(|count| *count += 1);
    flight.wait(&path).await;
    match reaction {
        Reaction::Close => Err(io::Error::other("closed")),
        Reaction::Answer { status, headers, body } => {
            let mut response = Response::new(Full::new(Bytes::from(body)));
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            for (name, value) in headers {
                response.headers_mut().insert(name, value.parse().expect("a header value"));
            }
            Ok(response)
        }
    }
}
