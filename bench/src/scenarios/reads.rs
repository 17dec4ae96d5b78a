//! The newest 20 of an inbox: how many pages a second and how soon, for users whose inbox is all written entries,
//! and for users who follow 50 celebrities whose events are merged in when they read; both idle and under a load of
//! writes.

use super::ensure_pointers;
use crate::Bench;
use crate::event::{Audience, EventRequest, event_json, spread};
use crate::http::{Answer, Target};
use crate::load::{self, Outcome, Script, Until, Verdict};
use crate::people::{self, Follow};
use crate::report::{DURABLE_READ, Row};
use crate::server::Server;
use anyhow::{Result, ensure};
use std::sync::Arc;

const PAGE: usize = 20;
/// The smallest threshold that a tenant may choose, so that a small crowd makes a celebrity.
const THRESHOLD: u64 = 100;
const CELEBRITIES: u64 = 50;
const CROWD: u64 = 150;
const POSTS_PER_CELEBRITY: u64 = 20;
const DIRECT_EVENTS: u64 = 40;
/// Actors whose events are written out, and what each of them posts.
const ACTORS: u64 = 100;
const POSTS_PER_ACTOR: u64 = 20;
const WRITES_PER_SECOND: u64 = 2_000;
const WRITERS: u64 = 128;
const READERS: [usize; 2] = [1, 16];

pub async fn run(bench: &mut Bench) -> Result<()> {
    let server = bench.serve("reads").await?;
    let plain = Inboxes { target: server.target.clone(), users: bench.scale.read_users, kind: "no pointers" };
    fill_plain(&plain).await?;
    let merged = fill_merged(&server).await?;
    server.settle().await?;
    for readers in READERS {
        for inboxes in [&plain, &merged] {
            let outcome = read(bench, inboxes, readers).await?;
            add_row(bench, inboxes, readers, "idle", outcome);
        }
    }
    for readers in READERS {
        for inboxes in [&plain, &merged] {
            let source = format!("/bench/reads-{readers}-{}", inboxes.users);
            let audience = Audience::OneOf(plain.users);
            let writers = EventRequest::for_connections(&plain.target, &source, audience, 1, WRITERS);
            let writing = load::open(server.address, writers, WRITES_PER_SECOND, bench.scale.read_loop);
            let (outcome, writing) = tokio::join!(read(bench, inboxes, readers), writing);
            let load = format!("under {:.0} events/s", writing?.per_second());
            add_row(bench, inboxes, readers, &load, outcome?);
        }
    }
    server.stop().await
}

/// Users whose pages are read.
struct Inboxes {
    target: Target,
    users: u64,
    kind: &'static str,
}

/// Each user follows about a tenth of the actors, all in the written tier.
async fn fill_plain(inboxes: &Inboxes) -> Result<()> {
    let target = &inboxes.target;
    people::import_users(target, inboxes.users).await?;
    let followers = (inboxes.users / 10).max(1);
    let mut follows = Vec::new();
    for actor in 0..ACTORS {
        let users = people::choose_followers(actor, inboxes.users, followers);
        follows.extend(users.into_iter().map(|user| Follow { user, actor }));
    }
    people::import_follows(target, follows).await?;
    post(target, "/bench/plain", Audience::FollowersOfOneOf(ACTORS), ACTORS * POSTS_PER_ACTOR).await?;
    // Every page is full, however few a user's actors posted.
    post(target, "/bench/plain-direct", Audience::OneOf(inboxes.users), inboxes.users * PAGE as u64 * 2).await
}

/// Each user follows all celebrities and has entries of its own.
async fn fill_merged(server: &Server) -> Result<Inboxes> {
    let target = server.create_tenant("crowd").await?;
    server.set_threshold("crowd", THRESHOLD).await?;
    people::import_users(&target, CROWD).await?;
    let pairs = (0..CELEBRITIES).flat_map(|actor| (0..CROWD).map(move |user| Follow { user, actor }));
    people::import_follows(&target, pairs.collect()).await?;
    // The fronts learn the sizes of lists a moment later.
    server.settle().await?;
    let before = server.metrics().await?;
    let audience = Audience::FollowersOfOneOf(CELEBRITIES);
    post(&target, "/bench/celebrities", audience, CELEBRITIES * POSTS_PER_CELEBRITY).await?;
    server.settle().await?;
    ensure_pointers(&before, &server.metrics().await?)?;
    let users: Vec<String> = (0..CROWD).map(|user| format!("\"{}\"", people::user(user))).collect();
    for event in 0..DIRECT_EVENTS {
        let audience = format!(r#"{{"users":[{}]}}"#, users.join(","));
        let body = event_json("/bench/crowd", &event.to_string(), &audience, "to all of you");
        target.ask(&target.send("POST", "/api/v1/events", body.as_bytes()), 202).await?;
    }
    Ok(Inboxes { target, users: CROWD, kind: "50 pointers" })
}

async fn post(target: &Target, source: &str, audience: Audience, events: u64) -> Result<()> {
    const EVENTS_PER_BATCH: u64 = 100;
    let batches = events.div_ceil(EVENTS_PER_BATCH);
    let scripts = EventRequest::for_connections(target, source, audience, EVENTS_PER_BATCH as usize, 4);
    let outcome = load::closed(target.address, scripts, Until::Requests(batches)).await?;
    ensure!(outcome.busy == 0, "the server refused some of the events to be read");
    Ok(())
}

async fn read(bench: &Bench, inboxes: &Inboxes, readers: usize) -> Result<Outcome> {
    let requests = page_requests(inboxes);
    let script = |reader: usize| PageScript { requests: Arc::clone(&requests), next: (reader as u64) << 32 };
    let scripts = (0..readers).map(script).collect();
    load::closed(inboxes.target.address, scripts, Until::After(bench.scale.read_loop)).await
}

fn add_row(bench: &mut Bench, inboxes: &Inboxes, readers: usize, load: &str, outcome: Outcome) {
    let rate = outcome.per_second();
    let latency = outcome.samples.summarise();
    let what = format!("newest {PAGE}, {}, {readers} readers, {load}", inboxes.kind);
    let mut row = Row::new("reads", what, DURABLE_READ)
        .fact("rate", rate, "/s")
        .fact("p50", latency.p50_ms, " ms")
        .fact("p99", latency.p99_ms, " ms")
        .fact("max", latency.max_ms, " ms");
    if inboxes.users == CROWD && readers == 1 {
        row = row.at_most(2.0, latency.p99_ms, " ms p99");
    }
    bench.report.add(row);
}

/// Pages of one user after another, scattered.
struct PageScript {
    requests: Arc<Vec<Vec<u8>>>,
    next: u64,
}

fn page_requests(inboxes: &Inboxes) -> Arc<Vec<Vec<u8>>> {
    let path = |user| format!("/api/v1/users/{}/notifications?limit={PAGE}", people::user(user));
    Arc::new((0..inboxes.users).map(|user| inboxes.target.get(&path(user))).collect())
}

impl Script for PageScript {
    fn next(&mut self) -> &[u8] {
        self.next += 1;
        let at = spread(self.next) % self.requests.len() as u64;
        &self.requests[at as usize]
    }

    /// A full page has at least its contents' bytes; the first one of each connection is counted exactly.
    fn judge(&mut self, answer: &Answer<'_>) -> Result<Verdict> {
        answer.expect(200)?;
        ensure!(answer.body.len() > PAGE * 300, "a page of only {} bytes", answer.body.len());
        if self.next & 0xffff_ffff == 1 {
            let page: serde_json::Value = serde_json::from_slice(answer.body)?;
            let found = page["notifications"].as_array().map_or(0, Vec::len);
            ensure!(found == PAGE, "a page of {found} instead of {PAGE}");
        }
        Ok(Verdict::Done)
    }
}
