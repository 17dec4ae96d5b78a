//! What deliveries are built from elsewhere: a queue in PostgreSQL whose workers claim rows with `FOR UPDATE SKIP LOCKED`,
//! and a guard in Redis, one `SET NX EX` per delivery. Both are given every advantage that leaves them what they are:
//! workers inside the database, a hundred rows per claim as queues usually have it and a thousand as our parcels, a
//! thousand commands per round trip, no network.

use crate::peers::redis::{self, Client, Server, command};
use crate::postgres::{self, Cluster, find_programs};
use crate::report::Row;
use anyhow::{Result, ensure};
use std::path::Path;
use std::time::Instant;

/// Commands in one round trip.
const AT_ONCE: u64 = 1_000;
/// Thirty days, as our own guard.
const GUARD_SECONDS: &str = "2592000";

/// Ours, to be compared with.
#[derive(Clone, Copy, Debug)]
pub struct Ours {
    pub deliveries_per_second: f64,
    pub guard_bytes: f64,
}

pub fn rows(ours: Ours, deliveries: u64, work: &Path) -> Result<Vec<Row>> {
    Ok(vec![
        queue(ours, deliveries, work, 100)?,
        queue(ours, deliveries, work, 1_000)?,
        guard(ours, deliveries, work)?,
    ])
}

fn queue(ours: Ours, deliveries: u64, work: &Path, at_once: u64) -> Result<Row> {
    let what = format!("peer: PostgreSQL queue, FOR UPDATE SKIP LOCKED, {at_once} at once");
    let row = Row::new("deliveries", what, "fsync before commit");
    let Some(programs) = find_programs() else {
        return Ok(row.note(format!("skipped: {}", postgres::ADVICE)));
    };
    let cluster = Cluster::start(programs, work)?;
    let clients = std::thread::available_parallelism().map_or(1, usize::from);
    cluster.sql_at_once(&[schema(at_once)])?;
    let began = Instant::now();
    cluster.sql(&fill(deliveries))?;
    let filled = began.elapsed().as_secs_f64();
    cluster.sql_at_once(&vec!["call drain();".to_owned(); clients])?;
    let elapsed = began.elapsed().as_secs_f64();
    let sent: u64 = cluster.sql("select count(*) from jobs where state = 2")?.trim().parse()?;
    ensure!(sent == deliveries, "PostgreSQL sent {sent} of {deliveries}");
    let bytes: f64 = cluster.sql("select pg_total_relation_size('jobs')")?.trim().parse()?;
    let (rate, ratio) =
        (deliveries as f64 / elapsed, ours.deliveries_per_second * elapsed / deliveries as f64);
    Ok(row
        .fact("queued, claimed and settled", rate, " deliveries/s")
        .fact("claimed and settled alone", deliveries as f64 / (elapsed - filled), " deliveries/s")
        .fact("bytes", bytes / deliveries as f64, " B/delivery")
        .fact("ours", ratio, " times as many")
        .at_least(20.0, ratio, " times"))
}

/// A lean row: who, by which device, what became of it. The content would be stored once elsewhere.
fn schema(at_once: u64) -> String {
    format!(
        "create table jobs (
           id bigint generated always as identity primary key, event_id bigint not null, user_id bigint not null,
           device smallint not null, state smallint not null default 0, attempts smallint not null default 0,
           sent_at timestamptz);
         create index jobs_waiting on jobs (id) where state = 0;
         create procedure drain() language plpgsql as $$
         declare ids bigint[];
         begin
           loop
             with got as (select id from jobs where state = 0 order by id limit {at_once} for update skip locked),
                  claimed as (update jobs set state = 1, attempts = attempts + 1 from got where jobs.id = got.id
                              returning jobs.id)
             select array_agg(id) into ids from claimed;
             commit;
             exit when ids is null;
             update jobs set state = 2, sent_at = now() where id = any(ids);
             commit;
           end loop;
         end $$;"
    )
}

fn fill(deliveries: u64) -> String {
    format!(
        "insert into jobs (event_id, user_id, device) select 1, no / 2, no % 2 from generate_series(0, {deliveries} - 1) no"
    )
}

fn guard(ours: Ours, deliveries: u64, work: &Path) -> Result<Row> {
    let row = Row::new(
        "deliveries",
        "peer: Redis guard, one SET NX EX per delivery, pipelined by 1,000",
        "AOF fsynced every second",
    );
    if !redis::is_installed() {
        return Ok(row.note(format!("skipped: {}", redis::ADVICE)));
    }
    let directory = work.join("redis-guard");
    std::fs::create_dir_all(&directory)?;
    let server = Server::start(&directory, "everysec")?;
    let mut client = Client::connect(&server.socket)?;
    let empty = client.number_in_info("used_memory:")?;
    let began = Instant::now();
    for first in (0..deliveries).step_by(AT_ONCE as usize) {
        let many = AT_ONCE.min(deliveries - first);
        let mut commands = String::with_capacity(many as usize * 128);
        for no in first..first + many {
            let key = format!("guard:1:01J0SF5V0301KN445M28RN0641:push:{}:{}", no / 2, no % 2);
            command(&mut commands, &["SET", &key, "1", "NX", "EX", GUARD_SECONDS]);
        }
        client.exchange(commands.as_bytes(), many as usize)?;
    }
    let elapsed = began.elapsed().as_secs_f64();
    let bytes = (client.number_in_info("used_memory:")? - empty) / deliveries as f64;
    Ok(row
        .fact("rate", deliveries as f64 / elapsed, " guards/s")
        .fact("memory", bytes, " B/delivery")
        .fact("ours on disk", ours.guard_bytes, " B/delivery")
        .at_most(4.0, ours.guard_bytes, " B/delivery for our guard"))
}
