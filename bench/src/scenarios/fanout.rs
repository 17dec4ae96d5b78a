//! Fan-out: every event becomes an inbox entry of each of its 10,000 followers, until the wanted number of entries
//! is written. Beside it, the same shape as plain rows in PostgreSQL.
//!
//! Events wait in windows before their entries are written, and entries reach the platter with the next sync point;
//! the journal holds the events meanwhile, and readers see them. So two rates are shown: until the entries are
//! written, and until they are fsynced; goals are held against the second. Readers' exact counts are compared with
//! what was posted.

use super::unread;
use crate::Bench;
use crate::event::{Audience, EventRequest, spread};
use crate::http::Connection;
use crate::load::{Script, Verdict};
use crate::options::Shape;
use crate::people::{self, Follow};
use crate::postgres;
use crate::process::{Usage, disk_bytes};
use crate::report::{FSYNC_BEFORE_200, FSYNC_BEFORE_202, Row};
use crate::scrape::Reading;
use crate::server::Server;
use anyhow::{Result, bail, ensure};
use std::path::Path;
use std::time::{Duration, Instant};

const EVENTS_PER_BATCH: usize = 20;
/// Events posted ahead of their entries: several windows of a shard, so that fan-out never waits for the generator.
const AHEAD_EVENTS_MAX: u64 = 24_576;
const CHECKED_READERS: u64 = 50;
/// A sync point comes every few seconds.
const SYNC_LIMIT: Duration = Duration::from_secs(60);

pub async fn run(bench: &mut Bench) -> Result<()> {
    for shape in bench.scale.fanout {
        let rate = fan_out(bench, &shape).await?;
        beside_postgres(bench, &shape, rate);
    }
    Ok(())
}

/// Returns the rate of fsynced entries.
async fn fan_out(bench: &mut Bench, shape: &Shape) -> Result<f64> {
    let name = format!("fanout-{}", shape.name);
    let server = bench.serve(&name).await?;
    // Far above any list here: all of them stay in the written tier.
    server.set_threshold("default", 100_000_000).await?;
    let lists = import(bench, &server, shape).await?;
    server.settle().await?;
    let data = bench.work.join(&name);
    let before = (server.usage()?, store_bytes(&data));
    let written = write_entries(bench, &server, shape).await?;
    let cpu = server.usage()?.cpu.saturating_sub(before.0.cpu);
    check_readers(&server, &lists, shape.users, written.events).await?;
    server.settle().await?;
    let rate = written.entries / written.fsynced_in.as_secs_f64();
    let grown = store_bytes(&data).saturating_sub(before.1) as f64;
    let (users, actors, followers) = (shape.users, shape.actors, shape.followers);
    let what = format!("fan-out, {}: {users} users, {actors} actors, {followers} followers each", shape.name);
    let mut row = Row::new("fanout", what, FSYNC_BEFORE_202)
        .fact("fsynced", rate, " entries/s")
        .fact("written", written.entries / written.written_in.as_secs_f64(), " entries/s")
        .fact("entries", written.entries, "")
        .fact("written in", written.written_in.as_secs_f64(), " s")
        .fact("fsynced in", written.fsynced_in.as_secs_f64(), " s")
        .fact("server CPU", cpu.as_secs_f64() * 1e6 / written.entries.max(1.0), " µs/entry")
        .fact("on disk", grown / written.entries.max(1.0), " B/entry")
        .fact("sent to disk", written_per_entry(&before.0, &server.usage()?, written.entries), " B/entry")
        .note(format!("{CHECKED_READERS} readers' unread counts exact"))
        .at_least(150_000.0, rate, " entries/s, fsynced");
    if written.is_cut {
        row = row.note("stopped at its time limit");
    }
    bench.report.add(row);
    server.stop().await?;
    std::fs::remove_dir_all(&data)?;
    Ok(rate)
}

/// Users and follows through the batch API. Returns the followers of each actor.
async fn import(bench: &mut Bench, server: &Server, shape: &Shape) -> Result<Vec<Vec<u64>>> {
    let users = people::import_users(&server.target, shape.users).await?;
    let lists: Vec<Vec<u64>> = (0..shape.actors)
        .map(|actor| people::choose_followers(actor, shape.users, shape.followers))
        .collect();
    let follows =
        lists.iter().zip(0..).flat_map(|(users, actor)| users.iter().map(move |user| (*user, actor)));
    let follows = follows.map(|(user, actor)| Follow { user, actor }).collect();
    let follows = people::import_follows(&server.target, follows).await?;
    let what = format!("import in batches of 10,000, {}", shape.name);
    let row = Row::new("fanout", what, FSYNC_BEFORE_200)
        .fact("users", users.per_second(), "/s")
        .fact("follows", follows.per_second(), "/s")
        .note(format!("{} users, {} follows", users.count, follows.count));
    bench.report.add(row);
    Ok(lists)
}

struct Written {
    events: u64,
    entries: f64,
    written_in: Duration,
    /// Until the sync point after the last of them.
    fsynced_in: Duration,
    /// The time limit came first.
    is_cut: bool,
}

/// Posts until enough entries are written, never far ahead of them; then waits until they are fsynced.
async fn write_entries(bench: &Bench, server: &Server, shape: &Shape) -> Result<Written> {
    let audience = Audience::FollowersOfOneOf(shape.actors);
    let mut request = EventRequest::new(&server.target, "/bench/fanout", audience, EVENTS_PER_BATCH, 0);
    let mut connection = Connection::open(server.address).await?;
    let base = server.metrics().await?.require(Reading::EntriesWritten)?;
    let (began, mut events) = (Instant::now(), 0_u64);
    let (entries, written_in, is_cut) = loop {
        let entries = server.metrics().await?.require(Reading::EntriesWritten)? - base;
        let elapsed = began.elapsed();
        let is_cut = elapsed >= bench.scale.fanout_limit;
        if entries >= shape.entries as f64 || is_cut {
            break (entries, elapsed, is_cut);
        }
        let ahead = events.saturating_sub(entries as u64 / shape.followers);
        if ahead >= AHEAD_EVENTS_MAX {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        }
        events += post(&mut connection, &mut request).await?;
    };
    // One batch more, so that there is something to sync: the sync point it waits for began after the entries.
    events += post(&mut connection, &mut request).await?;
    wait_for_unsynced(server, true).await?;
    wait_for_unsynced(server, false).await?;
    Ok(Written { events, entries, written_in, fsynced_in: began.elapsed(), is_cut })
}

async fn post(connection: &mut Connection, request: &mut EventRequest) -> Result<u64> {
    let answer = connection.exchange(request.next()).await?;
    if request.judge(&answer)? == Verdict::Busy {
        bail!("the server refused a batch although the backlog is bounded");
    }
    Ok(EVENTS_PER_BATCH as u64)
}

/// Waits until the store has, or has not, anything that no sync point covers.
async fn wait_for_unsynced(server: &Server, wanted: bool) -> Result<()> {
    let began = Instant::now();
    while (server.metrics().await?.require(Reading::UnsyncedBytes)? > 0.0) != wanted {
        ensure!(began.elapsed() < SYNC_LIMIT, "no sync point within {} s", SYNC_LIMIT.as_secs());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Some readers' counts must be exactly what was posted by those they follow.
async fn check_readers(server: &Server, lists: &[Vec<u64>], users: u64, events: u64) -> Result<()> {
    let mut posted = vec![0; lists.len()];
    for event in 0..events {
        posted[(spread(event) % lists.len() as u64) as usize] += 1;
    }
    let mut connection = Connection::open(server.address).await?;
    for at in 0..CHECKED_READERS {
        let user = spread(at) % users;
        let followed = lists.iter().zip(&posted).filter(|(list, _)| list.contains(&user));
        let expected: u64 = followed.map(|(_, posts)| *posts).sum();
        let name = people::user(user);
        let began = Instant::now();
        loop {
            let found = unread(&mut connection, &server.target, &name).await?;
            if found == expected {
                break;
            }
            // Events just accepted may still be on their way to a shard.
            let is_late = began.elapsed() > Duration::from_secs(10);
            ensure!(!is_late && found < expected, "{name} has {found} unread, {expected} were posted");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

fn written_per_entry(before: &Usage, after: &Usage, entries: f64) -> Option<f64> {
    Some((after.written_bytes? - before.written_bytes?) as f64 / entries.max(1.0))
}

/// Everything but the journal, whose segments are reserved in advance.
fn store_bytes(data: &Path) -> u64 {
    disk_bytes(data).saturating_sub(disk_bytes(&data.join("journal")))
}

/// A peer that cannot run here is a row that says why, not a failure of ours.
fn beside_postgres(bench: &mut Bench, shape: &Shape, rate: f64) {
    let rows = bench.scale.postgres_rows;
    if rows == 0 {
        return;
    }
    let Shape { name, users, actors, followers, .. } = *shape;
    let size = postgres::Size { users, actors, followers, rows };
    let what = format!("plain rows in PostgreSQL, {name}, INSERT … SELECT, one transaction per event");
    let row = match postgres::measure(&bench.work, &size) {
        Err(error) => Row::new("fanout", what, "–").note(format!("could not run: {error:#}")),
        Ok(postgres::Outcome::Missing(advice)) => Row::new("fanout", what, "–").note(advice),
        Ok(postgres::Outcome::Measured(measured)) => {
            let ratio = rate / measured.rows_per_second;
            Row::new("fanout", what, "fsync before commit")
                .fact("rate", measured.rows_per_second, " rows/s")
                .fact("rows", measured.rows, "")
                .fact("on disk", measured.bytes_per_row, " B/row")
                .fact("fan-out is", ratio, "×")
                .note(format!("{}, {} clients", measured.version, measured.clients))
                .at_least(3.0, ratio, "× of it")
        }
    };
    bench.report.add(row);
}
