//! Spans to a collector: OTLP over HTTP, as JSON, by a thread of its own.
//!
//! Comes from: the node, through `ports::trace`. Does: puts spans into a bounded queue and sends them together. Goes to:
//! the address of `otlp.endpoint`. A full queue drops the span, a collector that does not take a batch loses it; both are
//! counted. Nothing is tried again: spans are for looking at, and the ledger is the truth.
//!
//! What must never happen: a delivery that waits for a collector; a header of ours in a log.

mod collector;
mod endpoint;
mod headers;

mod payload;

pub use collector::Settings;
pub use endpoint::{Endpoint, EndpointError};
pub use headers::{Headers, HeadersError};

use collector::Collector;
use fantail_api::telemetry::Text;
use fantail_ports::trace::{Span, Tracer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// Spans that wait, about 300 bytes each.
const QUEUE_MAX: usize = 16_384;
/// Spans of one request.
const BATCH_MAX: usize = 512;
/// A span waits so long for others at most.
const LINGER: Duration = Duration::from_millis(500);
/// How long a stop waits for the last of them.
const FLUSH: Duration = Duration::from_secs(3);
/// A collector that is away is told of in the log this often.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// What became of spans.
#[derive(Debug, Default)]
pub struct Counts {
    exported: AtomicU64,
    /// The queue was full.
    dropped: AtomicU64,
    /// The collector did not take them.
    failed: AtomicU64,
}

impl Counts {
    pub fn write(&self, text: &mut Text) {
        let name = "fantail_trace_spans_total";
        text.family(name, "counter", "Spans, by whether a collector took them");
        let all = [("exported", &self.exported), ("dropped", &self.dropped), ("failed", &self.failed)];
        for (result, count) in all {
            text.sample(name, &[("result", result)], count.load(Relaxed));
        }
    }
}

/// The end that the node has.
struct Queue {
    spans: SyncSender<Span>,
    counts: Arc<Counts>,
}

impl Tracer for Queue {
    fn record(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }
}

/// A running exporter.
pub struct Exporter {
    pub tracer: Arc<dyn Tracer>,
    pub counts: Arc<Counts>,
    stop: SyncSender<()>,
    ended: Receiver<()>,
}

impl Exporter {
    pub fn start(settings: Settings) -> std::io::Result<Self> {
        let collector = Collector::new(settings)?;
        let (spans, waiting) = sync_channel(QUEUE_MAX);
        let (stop, stopped) = sync_channel(1);
        let (end, ended) = sync_channel(1);
        let counts = Arc::new(Counts::default());
        let mut worker = Worker { collector, waiting, stopped, counts: counts.clone(), complained: None };
        Builder::new().name("otlp".to_owned()).spawn(move || {
            worker.run();
            if end.try_send(()).is_err() {
                debug!("whoever stopped went on without the last spans");
            }
        })?;
        Ok(Self { tracer: Arc::new(Queue { spans, counts: counts.clone() }), counts, stop, ended })
    }

    /// Sends what waits, unless that takes too long. Blocks.
    pub fn stop(&self) {
        if self.stop.try_send(()).is_err() || self.ended.recv_timeout(FLUSH).is_err() {
            warn!("the last spans were not exported");
        }
    }
}

struct Worker {
    collector: Collector,
    waiting: Receiver<Span>,
    stopped: Receiver<()>,
    counts: Arc<Counts>,
    complained: Option<Instant>,
}

impl Worker {
    fn run(&mut self) {
        loop {
            // Asked first: what was queued before the stop is in the batches behind it.
            let is_last = self.stopped.try_recv().is_ok();
            loop {
                let batch = self.batch(if is_last { Duration::ZERO } else { LINGER });
                if batch.is_empty() {
                    break;
                }
                self.send(&batch);
            }
            if is_last {
                return;
            }
        }
    }

    /// What comes within the time, or as many as fit.
    fn batch(&self, linger: Duration) -> Vec<Span> {
        let (until, mut batch) = (Instant::now() + linger, Vec::new());
        while batch.len() < BATCH_MAX {
            match self.waiting.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(span) => batch.push(span),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        batch
    }

    fn send(&mut self, batch: &[Span]) {
        let count = batch.len() as u64;
        match self.collector.post(&payload::body(batch)) {
            Ok(()) => {
                self.counts.exported.fetch_add(count, Relaxed);
            }
            Err(reason) => {
                self.counts.failed.fetch_add(count, Relaxed);
                if self.complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) {
                    self.complained = Some(Instant::now());
                    warn!(%reason, spans = count, "collector did not take spans");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
