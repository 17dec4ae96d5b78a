//! The load generator: closed loops (each connection asks again when it was answered) and open loops (requests
//! are due at fixed times, whatever the answers do).
//!
//! What must never happen: a slow answer that hides the waiting of later requests. The latency of an open loop
//! counts from when a request was due, not from when it could be sent.

use crate::http::{Answer, Connection};
use crate::quantiles::Samples;
use anyhow::Result;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A refused connection waits this long, so that refusals do not become the load.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// What one connection asks, one request after the other.
pub trait Script: Send + 'static {
    fn next(&mut self) -> &[u8];
    /// An error ends the load: the answer is not one that a measurement may contain.
    fn judge(&mut self, answer: &Answer<'_>) -> Result<Verdict>;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Done,
    /// Refused for now: counted apart, not as done.
    Busy,
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub done: u64,
    pub busy: u64,
    pub elapsed: Duration,
    /// Of requests that were done.
    pub samples: Samples,
}

impl Outcome {
    pub fn per_second(&self) -> f64 {
        self.done as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn add(&mut self, other: Self) {
        self.done += other.done;
        self.busy += other.busy;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.samples.merge(other.samples);
    }
}

/// When a closed loop ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    After(Duration),
    /// This many requests were begun, all connections together.
    Requests(u64),
}

/// One connection per script, each asking again as soon as it is answered.
pub async fn closed<S: Script>(address: SocketAddr, scripts: Vec<S>, until: Until) -> Result<Outcome> {
    let connections = connect(address, scripts.len()).await?;
    let begun = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let mut workers = Vec::new();
    for (mut connection, mut script) in connections.into_iter().zip(scripts) {
        let begun = Arc::clone(&begun);
        workers.push(tokio::spawn(async move {
            let mut outcome = Outcome::default();
            loop {
                let is_over = match until {
                    Until::After(limit) => start.elapsed() >= limit,
                    Until::Requests(limit) => begun.fetch_add(1, Ordering::Relaxed) >= limit,
                };
                if is_over {
                    break;
                }
                exchange(&mut connection, &mut script, Instant::now(), &mut outcome).await?;
            }
            outcome.elapsed = start.elapsed();
            anyhow::Ok(outcome)
        }));
    }
    gather(workers).await
}

/// Requests due at `per_second` for `duration`, each sent by whichever connection is free first.
pub async fn open<S: Script>(
    address: SocketAddr,
    scripts: Vec<S>,
    per_second: u64,
    duration: Duration,
) -> Result<Outcome> {
    let connections = connect(address, scripts.len()).await?;
    let last = per_second * duration.as_secs();
    let begun = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let mut workers = Vec::new();
    for (mut connection, mut script) in connections.into_iter().zip(scripts) {
        let begun = Arc::clone(&begun);
        workers.push(tokio::spawn(async move {
            let mut outcome = Outcome::default();
            loop {
                let number = begun.fetch_add(1, Ordering::Relaxed);
                if number >= last {
                    break;
                }
                let due = start + Duration::from_nanos(number * 1_000_000_000 / per_second);
                tokio::time::sleep_until(due.into()).await;
                exchange(&mut connection, &mut script, due, &mut outcome).await?;
            }
            outcome.elapsed = start.elapsed();
            anyhow::Ok(outcome)
        }));
    }
    gather(workers).await
}

async fn exchange<S: Script>(
    connection: &mut Connection,
    script: &mut S,
    due: Instant,
    outcome: &mut Outcome,
) -> Result<()> {
    let answer = connection.exchange(script.next()).await?;
    match script.judge(&answer)? {
        Verdict::Done => {
            outcome.done += 1;
            outcome.samples.record(due.elapsed());
        }
        Verdict::Busy => {
            outcome.busy += 1;
            tokio::time::sleep(BUSY_PAUSE).await;
        }
    }
    Ok(())
}

async fn connect(address: SocketAddr, count: usize) -> Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        connections.push(Connection::open(address).await?);
    }
    Ok(connections)
}

async fn gather(workers: Vec<tokio::task::JoinHandle<Result<Outcome>>>) -> Result<Outcome> {
    let mut total = Outcome::default();
    for worker in workers {
        total.add(worker.await??);
    }
    Ok(total)
}
