//! Events in batches of 100: the rate of bulk senders, with the shards taking what the fronts accept. A rate that
//! leaves work behind would be borrowed, so an event posted at the end must be seen by its reader soon.

use super::{Span, wait_until_shown};
use crate::Bench;
use crate::event::{Audience, EventRequest, event_json};
use crate::http::Connection;
use crate::load::{self, Until};
use crate::people;
use crate::report::{FSYNC_BEFORE_202, Row};
use crate::scrape::Reading;
use crate::server::Server;
use anyhow::Result;
use std::time::{Duration, Instant};

const EVENTS_PER_BATCH: usize = 100;
const CONNECTIONS: u64 = 16;
const MARKER: &str = "posted after the load";

pub async fn run(bench: &mut Bench) -> Result<()> {
    let server = bench.serve("batches").await?;
    people::import_users(&server.target, bench.scale.recipients).await?;
    server.settle().await?;
    let audience = Audience::OneOf(bench.scale.recipients);
    let scripts = EventRequest::for_connections(
        &server.target,
        "/bench/batches",
        audience,
        EVENTS_PER_BATCH,
        CONNECTIONS,
    );
    let span = Span::begin(&server).await?;
    let outcome = load::closed(server.address, scripts, Until::After(bench.scale.batch_loop)).await?;
    let lag_facts = server.metrics().await?.get(Reading::TakeLagFacts);
    let lag = visible_lag(&server).await?;
    let spent = span.end(&server).await?;
    let events = outcome.done * EVENTS_PER_BATCH as u64;
    let rate = events as f64 / outcome.elapsed.as_secs_f64();
    let busy = outcome.busy;
    let latency = outcome.samples.summarise();
    let what = format!("batches of {EVENTS_PER_BATCH} events, 300-byte content, {CONNECTIONS} connections");
    let mut row = Row::new("batches", what, FSYNC_BEFORE_202)
        .fact("rate", rate, " events/s")
        .fact("for", outcome.elapsed.as_secs_f64(), " s")
        .fact("batch p50", latency.p50_ms, " ms")
        .fact("p99", latency.p99_ms, " ms")
        .fact("server CPU", spent.cpu_us_per(events), " µs/event")
        .fact("events per fsync", spent.per_commit(events), "")
        .fact("generator CPU", spent.own_cpu_percent(), " %")
        .at_least(60_000.0, rate, " events/s");
    if busy > 0 {
        row = row.fact("refused", busy as f64, " batches (not counted)");
    }
    bench.report.add(row);
    let lag_s = lag.as_secs_f64();
    let row = Row::new(
        "batches",
        "take lag at the end: an event posted then is seen by its reader",
        FSYNC_BEFORE_202,
    )
    .fact("lag", lag_s, " s")
    .fact("facts waiting", lag_facts, "")
    .at_most(1.0, lag_s, " s");
    bench.report.add(row);
    server.stop().await
}

/// From posting an event until its reader is shown it.
async fn visible_lag(server: &Server) -> Result<Duration> {
    let (target, user) = (&server.target, people::user(0));
    let audience = format!(r#"{{"users":["{user}"]}}"#);
    let body = event_json("/bench/marker", "marker", &audience, MARKER);
    let began = Instant::now();
    target.ask(&target.send("POST", "/api/v1/events", body.as_bytes()), 202).await?;
    let mut connection = Connection::open(server.address).await?;
    let seen = wait_until_shown(&mut connection, target, &user, MARKER).await?;
    Ok(seen - began)
}
