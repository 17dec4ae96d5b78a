//! Starting, resting, and coming back: the time of a start on an empty directory, what an idle server costs, and
//! how long a server needs after kill -9 with many events behind its last sync point.

use super::unread;
use crate::Bench;
use crate::event::{Audience, EventRequest, spread};
use crate::http::Connection;
use crate::load::{self, Until};
use crate::people;
use crate::report::{FSYNC_BEFORE_202, Row};
use crate::scrape::Reading;
use crate::server::Server;
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

const EVENTS_PER_BATCH: u64 = 100;
const CONNECTIONS: u64 = 8;
const RECIPIENTS: u64 = 1_000;
const CHECKED_READERS: u64 = 20;
/// What a start does at once, it has done by then.
const CALM: Duration = Duration::from_secs(1);

pub async fn run(bench: &mut Bench) -> Result<()> {
    start(bench).await?;
    idle(bench).await?;
    recovery(bench).await
}

async fn start(bench: &mut Bench) -> Result<()> {
    let mut times = Vec::new();
    for at in 0..bench.scale.starts {
        let server = bench.serve(&format!("start-{at}")).await?;
        times.push(server.started_in.as_secs_f64() * 1e3);
        server.stop().await?;
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let row =
        Row::new("lifecycle", "start on an empty directory until /readyz is 200", "keys and tenant fsynced")
            .fact("median", median, " ms")
            .fact("max", times.last().copied(), " ms")
            .fact("starts", times.len() as f64, "")
            .at_most(200.0, median, " ms");
    bench.report.add(row);
    Ok(())
}

async fn idle(bench: &mut Bench) -> Result<()> {
    let server = bench.serve("idle").await?;
    tokio::time::sleep(CALM).await;
    let (before, began) = (server.usage()?, Instant::now());
    tokio::time::sleep(bench.scale.idle).await;
    let (after, elapsed) = (server.usage()?, began.elapsed());
    let percent = 100.0 * (after.cpu - before.cpu).as_secs_f64() / elapsed.as_secs_f64();
    let mebibytes = after.resident_bytes as f64 / f64::from(1 << 20);
    let row = Row::new("lifecycle", "idle on an empty store, CPU", "–")
        .fact("CPU", percent, " % of a core")
        .fact("over", elapsed.as_secs_f64(), " s")
        .at_most(1.0, percent, " %");
    bench.report.add(row);
    let row = Row::new("lifecycle", "idle on an empty store, memory", "–")
        .fact("RSS", mebibytes, " MiB")
        .at_most(64.0, mebibytes, " MiB");
    bench.report.add(row);
    server.stop().await
}

async fn recovery(bench: &mut Bench) -> Result<()> {
    let server = bench.serve("recovery").await?;
    people::import_users(&server.target, RECIPIENTS).await?;
    server.settle().await?;
    let batches = bench.scale.recovery_events.div_ceil(EVENTS_PER_BATCH);
    // One connection's ids have no gaps, so that what each reader must have is known.
    let audience = Audience::OneOf(RECIPIENTS);
    let per_connection = batches.div_ceil(CONNECTIONS);
    let mut loads = Vec::new();
    for connection in 0..CONNECTIONS {
        let first = connection * per_connection * EVENTS_PER_BATCH;
        let events = EVENTS_PER_BATCH as usize;
        let script = EventRequest::new(&server.target, "/bench/recovery", audience, events, first);
        loads.push(tokio::spawn(load::closed(server.address, vec![script], Until::Requests(per_connection))));
    }
    for load in loads {
        ensure!(load.await??.busy == 0, "the server refused some of the events to be recovered");
    }
    let unsynced = server.metrics().await?.get(Reading::UnsyncedBytes);
    server.kill()?;
    let server = bench.serve("recovery").await?;
    let events = per_connection * CONNECTIONS * EVENTS_PER_BATCH;
    check_readers(&server, events).await?;
    let row = Row::new("lifecycle", "recovery after kill -9 until /readyz is 200", FSYNC_BEFORE_202)
        .fact("time", server.started_in.as_secs_f64() * 1e3, " ms")
        .fact("events", events as f64, " posted just before")
        .fact("unsynced", unsynced, " B in tables when killed")
        .note(journal_detail(&server).await?)
        .note(format!("{CHECKED_READERS} readers' unread counts exact"));
    bench.report.add(row);
    server.stop().await
}

async fn check_readers(server: &Server, events: u64) -> Result<()> {
    let mut expected = vec![0; RECIPIENTS as usize];
    for event in 0..events {
        expected[(spread(event) % RECIPIENTS) as usize] += 1;
    }
    let mut connection = Connection::open(server.address).await?;
    for at in 0..CHECKED_READERS {
        let user = spread(at) % RECIPIENTS;
        let (name, expected) = (people::user(user), expected[user as usize]);
        let began = Instant::now();
        loop {
            let found = unread(&mut connection, &server.target, &name).await?;
            if found == expected {
                break;
            }
            // Shards take what the fronts recovered after the server is ready.
            let is_late = began.elapsed() > Duration::from_secs(30);
            ensure!(!is_late && found < expected, "{name} has {found} unread, {expected} were acknowledged");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// What the server says about the journal it opened.
async fn journal_detail(server: &Server) -> Result<String> {
    let answer = server.target.ask(&server.target.get("/readyz?verbose"), 200).await?;
    let readiness: serde_json::Value = serde_json::from_slice(&answer)?;
    let checks = readiness["checks"].as_array().cloned().unwrap_or_default();
    let journal = checks.iter().find(|check| check["name"] == "journal");
    let detail = journal.and_then(|check| check["detail"].as_str());
    Ok(detail.unwrap_or("readyz says nothing about the journal").to_owned())
}
