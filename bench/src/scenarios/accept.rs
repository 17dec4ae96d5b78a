//! Single events: how many are accepted, how soon, and what one costs the server. Closed loops show the rate, the
//! open loop shows the latency that callers with a schedule of their own see.

use super::Span;
use super::fsync::Probe;
use crate::Bench;
use crate::event::{Audience, EventRequest};
use crate::load::{self, Outcome, Until};
use crate::people;
use crate::quantiles::Summary;
use crate::report::{FSYNC_BEFORE_202, Row};
use crate::server::Server;
use anyhow::Result;

const CLOSED: [u64; 3] = [1, 16, 256];
const OPEN_PER_SECOND: u64 = 5_000;
/// More than can be under way at once while the goal is met.
const OPEN_CONNECTIONS: u64 = 512;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let server = bench.serve("accept").await?;
    people::import_users(&server.target, bench.scale.recipients).await?;
    // What the import left to do is not charged to the events.
    server.settle().await?;
    open_loop(bench, &server, Before::Nothing).await?;
    for connections in CLOSED {
        let source = format!("/bench/closed-{connections}");
        let scripts = requests(bench, &server, &source, connections);
        let probe = Probe::before(bench)?;
        let span = Span::begin(&server).await?;
        let outcome = load::closed(server.address, scripts, Until::After(bench.scale.accept_loop)).await?;
        let spent = span.end(&server).await?;
        let fsync = probe.after(bench)?;
        let rate = outcome.per_second();
        let what = format!("single events, closed loop, {connections} connections");
        let mut row = row(&fsync, &what, outcome, &spent);
        if connections == 256 {
            row = row.at_least(15_000.0, rate, "/s");
        }
        bench.report.add(row);
    }
    open_loop(bench, &server, Before::Saturation).await?;
    server.stop().await
}

/// What the server did right before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// The tables of hundreds of thousands of events are still being compacted.
    Saturation,
}

async fn open_loop(bench: &mut Bench, server: &Server, before: Before) -> Result<()> {
    let (source, when) = match before {
        Before::Nothing => ("/bench/open", ""),
        Before::Saturation => ("/bench/open-after", ", right after saturation"),
    };
    let scripts = requests(bench, server, source, OPEN_CONNECTIONS);
    let probe = Probe::before(bench)?;
    let span = Span::begin(server).await?;
    let outcome = load::open(server.address, scripts, OPEN_PER_SECOND, bench.scale.accept_loop * 2).await?;
    let spent = span.end(server).await?;
    let fsync = probe.after(bench)?;
    let p99 = outcome.samples.clone().summarise().p99_ms;
    let goal = 4.0 * fsync.p99_ms + 10.0;
    let what = format!("single events, open loop, {OPEN_PER_SECOND}/s, latency from the time due{when}");
    let mut row = row(&fsync, &what, outcome, &spent);
    if before == Before::Nothing {
        row = row.at_most(goal, p99, " ms p99 (4 × fsync p99 + 10)");
    }
    bench.report.add(row);
    Ok(())
}

fn requests(bench: &Bench, server: &Server, source: &str, connections: u64) -> Vec<EventRequest> {
    let audience = Audience::OneOf(bench.scale.recipients);
    EventRequest::for_connections(&server.target, source, audience, 1, connections)
}

fn row(fsync: &Summary, what: &str, outcome: Outcome, spent: &super::Spent) -> Row {
    let (rate, done, busy) = (outcome.per_second(), outcome.done, outcome.busy);
    let latency = outcome.samples.summarise();
    let row = Row::new("accept", what, FSYNC_BEFORE_202)
        .fact("rate", rate, "/s")
        .fact("p50", latency.p50_ms, " ms")
        .fact("p99", latency.p99_ms, " ms")
        .fact("max", latency.max_ms, " ms")
        .fact("server CPU", spent.cpu_us_per(done), " µs/request")
        .fact("fsyncs", spent.commits_per_second(), "/s")
        .fact("events per fsync", spent.per_commit(done), "")
        .fact("records per fsync", spent.records.and_then(|records| spent.per_commit(records as u64)), "")
        .fact("raw fsync p50", fsync.p50_ms, " ms")
        .fact("raw fsync p99", fsync.p99_ms, " ms")
        .fact("generator CPU", spent.own_cpu_percent(), " %");
    if busy > 0 { row.fact("refused", busy as f64, " (not counted)") } else { row }
}
