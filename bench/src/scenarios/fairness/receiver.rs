//! A receiver of webhooks on this machine: it answers what is for the quiet tenant, and nothing else. To a client of a mail
//! server it is a server that never greets.

use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Requests of which nothing is answered have this in their path.
const HANGS: &[u8] = b" /hang";
const ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
/// No webhook of ours is larger.
const REQUEST_BYTES_MAX: usize = 64 << 10;

pub struct Receiver {
    pub port: u16,
    taken: Arc<Taken>,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Taken {
    connections: AtomicU64,
    /// Those of them that got an answer.
    answered: AtomicU64,
}

impl Receiver {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port for a receiver")?;
        let port = listener.local_addr()?.port();
        let (taken, mut tasks) = (Arc::<Taken>::default(), JoinSet::new());
        let counts = taken.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counts.connections.fetch_add(1, Ordering::Relaxed);
                connections.spawn(serve(stream, counts.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, taken, tasks })
    }

    /// Where a user's webhook is called, or a tenant's.
    pub fn url(&self, is_answered: bool, name: &str) -> String {
        let path = if is_answered { "answer" } else { "hang" };
        format!("http://127.0.0.1:{}/{path}/{name}", self.port)
    }

    /// Settings of a server that may reach it.
    pub fn settings(&self) -> [(&'static str, String); 1] {
        [("FANTAIL_OUTBOUND_ALLOW", format!("127.0.0.1:{}", self.port))]
    }

    /// Connections that got no answer.
    pub fn held(&self) -> u64 {
        let answered = self.taken.answered.load(Ordering::Relaxed);
        self.taken.connections.load(Ordering::Relaxed).saturating_sub(answered)
    }

    pub fn stop(mut self) {
        self.tasks.abort_all();
    }
}

/// Answers one request after the other, or reads without an answer until the client gives up.
async fn serve(mut stream: TcpStream, taken: Arc<Taken>) {
    let (mut request, mut buffer, mut is_first) = (Vec::new(), [0; 4_096], true);
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        request.extend_from_slice(&buffer[..read]);
        let Some(end) = end_of_request(&request).filter(|end| *end <= REQUEST_BYTES_MAX) else { continue };
        if request.windows(HANGS.len()).take(16).any(|part| part == HANGS) {
            request.clear();
            continue;
        }
        request.drain(..end);
        if stream.write_all(ANSWER).await.is_err() {
            return;
        }
        if std::mem::take(&mut is_first) {
            taken.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Where the first request ends, if all of it is there.
fn end_of_request(request: &[u8]) -> Option<usize> {
    let head = request.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(Some(0), |length| length.trim().parse().ok())?;
    (request.len() >= head + length).then_some(head + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_end_with_their_body() {
        let check = |text: &str, expected| assert_eq!(end_of_request(text.as_bytes()), expected, "{text}");
        check("POST /answer/a HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}POST", Some(48));
        check("POST /answer/a HTTP/1.1\r\ncontent-length: 2\r\n\r\n{", None);
        check("GET / HTTP/1.1\r\n\r\n", Some(18));
        check("GET / HTTP/1.1\r\n", None);
    }
}
