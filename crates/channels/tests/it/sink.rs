//! A receiver of webhooks on 127.0.0.1. The path of a request says how it behaves; it never waits for time to pass.
//!
//! | path | behaviour |
//! |---|---|
//! | `/status/<n>` | answers so, and keeps the connection |
//! | `/retry/<n>/<after>` | the same with `Retry-After` |
//! | `/redirect/<port>` | 302 to that port of 127.0.0.1 |
//! | `/reset` | reads the request, then closes |
//! | `/garbage` | answers what is no HTTP |
//! | `/silent` | reads the request and says nothing, until the client goes |
//! | `/hold` | answers 200 when the test releases it |
//! | `/huge` | 200 with a body without end |
//! | `/trickle` | 200 with a body that stops in the middle |
//! | `/early` | 200 before the body is read; it never is |

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Seen {
    pub fn reference(&self) -> &str {
        &self.headers["webhook-id"]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub connections: usize,
    pub closed: usize,
    pub requests: usize,
    pub in_flight: usize,
    pub in_flight_max: usize,
}

pub struct Sink {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    seen: Mutex<Vec<Seen>>,
    counts: watch::Sender<Counts>,
    releases: Semaphore,
    closing: watch::Sender<()>,
}

impl Sink {
    pub async fn start(handle: &Handle, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            counts: watch::Sender::default(),
            releases: Semaphore::new(0),
            closing: watch::Sender::default(),
        });
        let accepting = shared.clone();
        let spawner = handle.clone();
        handle.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepting.count(|counts| counts.connections += 1);
                let (shared, tls) = (accepting.clone(), tls.clone());
                spawner.spawn(async move {
                    match tls {
                        None => shared.serve(stream).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => shared.serve(stream).await,
                            Err(_) => Some(()),
                        },
                    };
                    shared.count(|counts| counts.closed += 1);
                });
            }
        });
        Self { address, shared }
    }

    pub fn counts(&self) -> Counts {
        *self.shared.counts.borrow()
    }

    pub async fn wait_for(&self, reached: impl FnMut(&Counts) -> bool) {
        self.shared.counts.subscribe().wait_for(reached).await.expect("the sink lives");
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().expect("no test panics inside").clone()
    }

    /// Closes every connection on which no request is under way, without a word.
    pub fn close_idle(&self) {
        self.shared.closing.send_replace(());
    }

    pub fn release(&self, requests: usize) {
        self.shared.releases.add_permits(requests);
    }
}

impl Shared {
    fn count(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(|counts| {
            change(counts);
            counts.in_flight_max = counts.in_flight_max.max(counts.in_flight);
        });
    }

    /// Request after request, until one side closes.
    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(&self, mut stream: S) -> Option<()> {
        let mut closing = self.closing.subscribe();
        loop {
            let (mut seen, length) = tokio::select! {
                head = read_head(&mut stream) => head?,
                _ = closing.changed() => return None,
            };
            let path = seen.path.clone();
            let mut segments = path.split('?').next().unwrap_or_default().split('/').skip(1);
            let behaviour = segments.next().unwrap_or_default();
            if behaviour != "early" {
                seen.body = vec![0; length];
                stream.read_exact(&mut seen.body).await.ok()?;
            }
            self.seen.lock().expect("no test panics inside").push(seen);
            self.count(|counts| {
                counts.requests += 1;
                counts.in_flight += 1;
            });
            let kept = self.answer(&mut stream, behaviour, segments.collect()).await;
            self.count(|counts| counts.in_flight -= 1);
            kept?;
        }
    }

    /// `None` closes the connection.
    async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        behaviour: &str,
        arguments: Vec<&str>,
    ) -> Option<()> {
        let whole = |status: &str, headers: &str| {
            format!("HTTP/1.1 {status} X\r\ncontent-length: 4\r\n{headers}\r\nbody")
        };
        let text = match (behaviour, arguments.as_slice()) {
            ("status", [status]) => whole(status, ""),
            ("retry", [status, after]) => whole(status, &format!("retry-after: {after}\r\n")),
            ("redirect", [port]) => {
                whole("302", &format!("location: http://127.0.0.1:{port}/status/200\r\n"))
            }
            ("reset", _) => return None,
            ("garbage", _) => "SMTP ready\r\n\r\n".into(),
            ("hold", _) => {
                self.releases.acquire().await.ok()?.forget();
                whole("200", "")
            }
            ("silent", _) => {
                until_closed(stream).await;
                return None;
            }
            ("early", _) => whole("200", ""),
            ("trickle", _) => "HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nbody".into(),
            ("huge", _) => {
                stream.write_all(b"HTTP/1.1 200 X\r\n\r\n").await.ok()?;
                while stream.write_all(&[b'x'; 10_000]).await.is_ok() {}
                return None;
            }
            _ => panic!("no behaviour is called {behaviour} {arguments:?}"),
        };
        stream.write_all(text.as_bytes()).await.ok()?;
        stream.flush().await.ok()?;
        if behaviour == "early" {
            until_closed(stream).await;
            return None;
        }
        Some(())
    }
}

async fn until_closed<S: AsyncRead + Unpin>(stream: &mut S) {
    let mut buffer = [0; 1_024];
    while stream.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
}

async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> Option<(Seen, usize)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).expect("a head of ASCII");
    let mut lines = head.lines();
    let path = lines.next()?.strip_prefix("POST ")?.strip_suffix(" HTTP/1.1")?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let length = headers["content-length"].parse().expect("a length");
    Some((Seen { path, headers, body: Vec::new() }, length))
}
