//! The loud tenant at work: a fixed number of connections, each asking again when answered, on a thread of its own.
//!
//! Generator, server and attackers share the machine, and an attacker would have one of its own. So its thread has the lowest
//! priority, and its requests are made once and patched: what disturbs the quiet tenant is what the server does.

use super::attacks::{Attack, EXPORTED_USERS, NUMBER};
use crate::event::{contains, put_digits};
use crate::http::{Answer, Connection, Target};
use crate::server::Server;
use anyhow::{Result, anyhow};
use rustix::process::setpriority_process;
use serde_json::Value;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const ATTACKERS: u64 = 8;
/// Connections of an attacker that say nothing, and requests that it sends without reading an answer.
const IDLE_CONNECTIONS: usize = 32;
const PIPELINED: usize = 2_000;
/// How long an attacker keeps what it does not read.
const UNREAD_FOR: Duration = Duration::from_secs(2);
/// After a connection broke.
const PAUSE: Duration = Duration::from_millis(50);
/// Numbers of one attacker are this far from those of the next.
const NUMBERS_EACH: u64 = 1_000_000_000;

pub struct Attackers {
    began: Instant,
    tally: Arc<Tally>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<()>>,
}

/// What became of the requests of an attack.
#[derive(Default)]
struct Tally {
    accepted: AtomicU64,
    refused: AtomicU64,
    broken: AtomicU64,
    first_refusal: OnceLock<String>,
}

/// The same at its end.
#[derive(Debug)]
pub struct Attacked {
    pub seconds: f64,
    /// Answered with 2xx. Of connections that only wait: opened.
    pub accepted: u64,
    pub refused: u64,
    /// Connections that ended before an answer.
    pub broken: u64,
    pub first_refusal: Option<String>,
}

impl fmt::Display for Attacked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, refused, broken, first_refusal, .. } = self;
        write!(out, "{accepted} requests accepted, {refused} refused, {broken} connections broken")?;
        first_refusal.as_ref().map_or(Ok(()), |refusal| write!(out, "; refused first with {refusal}"))
    }
}

impl Tally {
    fn count(&self, answer: &Answer<'_>) {
        // Items of a batch are refused one by one.
        let is_whole = !contains(answer.body, b"\"errors\"") && !contains(answer.body, b"\"refused\"");
        if (200..300).contains(&answer.status) && is_whole {
            self.accepted.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.first_refusal.get_or_init(|| {
            let body = String::from_utf8_lossy(answer.body);
            let found = serde_json::from_str::<Value>(&body).unwrap_or_default();
            let code = found["code"].as_str().map_or_else(|| body.chars().take(200).collect(), str::to_owned);
            format!("{} {code}", answer.status)
        });
    }
}

impl Attackers {
    /// Begins an attack, which goes on until it is stopped.
    pub fn begin(attack: Attack, server: &Server, loud: &Target) -> Result<Self> {
        let tally = Arc::<Tally>::default();
        let (stop, stopped) = oneshot::channel();
        let all: Vec<_> = (0..ATTACKERS)
            .map(|no| Attacker {
                attack,
                no,
                loud: loud.clone(),
                admin: server.admin.clone(),
                tally: tally.clone(),
            })
            .collect();
        let thread = Builder::new().name("attackers".to_owned()).spawn(move || {
            // Of this thread alone. A kernel that refuses only makes the attack dearer.
            let _refused = setpriority_process(None, 19);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async move {
                let mut attackers = JoinSet::new();
                for attacker in all {
                    attackers.spawn(attacker.run());
                }
                // Dropped, or used: both mean the end.
                drop(stopped.await);
            });
            Ok(())
        })?;
        Ok(Self { began: Instant::now(), tally, stop, thread })
    }

    pub fn stop(self) -> Result<Attacked> {
        drop(self.stop);
        let seconds = self.began.elapsed().as_secs_f64();
        self.thread.join().map_err(|_| anyhow!("the attackers panicked"))??;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Ok(Attacked {
            seconds,
            accepted: load(&self.tally.accepted),
            refused: load(&self.tally.refused),
            broken: load(&self.tally.broken),
            first_refusal: self.tally.first_refusal.get().cloned(),
        })
    }
}

struct Attacker {
    attack: Attack,
    no: u64,
    loud: Target,
    admin: Target,
    tally: Arc<Tally>,
}

impl Attacker {
    /// Begins again whenever a connection ends.
    async fn run(self) {
        let requests = match (self.attack, self.no) {
            (Attack::Exports, 0) => vec![self.admin.send("POST", "/api/v1/backups", b"{}")],
            _ => self.attack.requests(&self.loud),
        };
        let mut requests: Vec<Numbered> =
            requests.into_iter().map(|bytes| Numbered::new(bytes, self.no * NUMBERS_EACH)).collect();
        loop {
            let ended = match self.attack {
                Attack::Connections => self.pipeline().await,
                Attack::Exports if self.no > 0 => self.export().await,
                _ => self.ask(&mut requests).await,
            };
            if ended.is_err() {
                self.tally.broken.fetch_add(1, Ordering::Relaxed);
                sleep(PAUSE).await;
            }
        }
    }

    /// Asks as fast as it is answered.
    async fn ask(&self, requests: &mut [Numbered]) -> Result<()> {
        let mut connection = Connection::open(self.loud.address).await?;
        loop {
            for request in &mut *requests {
                self.tally.count(&connection.exchange(request.next()).await?);
            }
        }
    }

    /// Holds connections that say nothing, and one that sends requests without reading an answer.
    async fn pipeline(&self) -> Result<()> {
        let requests = self.loud.get("/api/v1/users/loud0").repeat(PIPELINED);
        let mut idle = Vec::with_capacity(IDLE_CONNECTIONS);
        for _ in 0..IDLE_CONNECTIONS {
            idle.push(TcpStream::connect(self.loud.address).await?);
        }
        let mut stream = TcpStream::connect(self.loud.address).await?;
        self.tally.accepted.fetch_add(idle.len() as u64 + 1, Ordering::Relaxed);
        // The server stops reading, or ends the connection: both are its right.
        drop(timeout(UNREAD_FOR, stream.write_all(&requests)).await);
        sleep(UNREAD_FOR).await;
        Ok(())
    }

    /// Reads an export to its end.
    async fn export(&self) -> Result<()> {
        let Target { address, key } = &self.loud;
        let head = format!(
            "GET /api/v1/users/loud{}/export HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n",
            self.no % EXPORTED_USERS,
        );
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let status = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let body = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |end| end + 4);
        let status = status.ok_or_else(|| anyhow!("no answer"))?;
        // The user's own data may say anything.
        let body = if status == 200 { &[] } else { &answer[body..] };
        self.tally.count(&Answer { status, body });
        Ok(())
    }
}

/// A request that was made once, with another number in all of its places every time.
struct Numbered {
    bytes: Vec<u8>,
    places: Vec<usize>,
    next: u64,
}

impl Numbered {
    fn new(bytes: Vec<u8>, first: u64) -> Self {
        let number = NUMBER.as_bytes();
        let windows = bytes.windows(number.len()).enumerate();
        let places = windows.filter(|(_, window)| *window == number).map(|(place, _)| place).collect();
        Self { bytes, places, next: first }
    }

    fn next(&mut self) -> &[u8] {
        for place in &self.places {
            put_digits(&mut self.bytes[*place..*place + NUMBER.len()], self.next);
            self.next += 1;
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_request_gets_a_number_of_its_own() {
        let mut request = Numbered::new(format!("a{NUMBER}, b{NUMBER}").into_bytes(), 7);
        assert_eq!(request.next(), b"a0000000007, b0000000008");
        assert_eq!(request.next(), b"a0000000009, b0000000010");
        assert_eq!(Numbered::new(b"none".to_vec(), 0).next(), b"none");
    }

    #[test]
    fn requests_that_are_refused_in_part_are_not_accepted() {
        let tally = Tally::default();
        for (status, body) in [
            (202, &b"{}"[..]),
            (200, br#"{"users":[],"errors":[{"index":0}]}"#),
            (429, br#"{"code":"RATE_LIMITED"}"#),
        ] {
            tally.count(&Answer { status, body });
        }
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        assert_eq!((count(&tally.accepted), count(&tally.refused)), (1, 2));
        assert!(tally.first_refusal.get().is_some_and(|refusal| refusal.starts_with("200 ")));
    }
}
