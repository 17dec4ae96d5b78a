//! What deliveries are built from elsewhere: a queue in PostgreSQL whose workers claim rows with `FOR UPDATE SKIP LOCKED`,
//! and a guard in Redis, one `SET NX EX` per delivery.
//!
//! The queue does what ours does: a post becomes a row for each device of each follower; workers, which are clients as
//! those of every queue, claim a hundred or a thousand rows, get the address with each, and say what became of them. It
//! is settled in two ways: each row as it is answered, as queue libraries do, and a whole claim in one statement, which
//! is the most that a queue of rows can do. All clients sit on the same machine, behind a Unix socket, and send nothing.

use super::DEVICES;
use crate::peers::redis::{self, Client, Server, command};
use crate::postgres::{self, Cluster, find_programs};
use crate::report::Row;
use anyhow::{Result, ensure};
use std::path::Path;
use std::time::Instant;

/// Commands in one round trip.
const AT_ONCE: u64 = 1_000;
/// Workers wait for the disk at each commit; with four for each core somebody always works.
const CLIENTS_PER_CORE: u64 = 4;
/// Thirty days, as our own guard.
const GUARD_SECONDS: &str = "2592000";

/// Ours, to be compared with.
#[derive(Clone, Copy, Debug)]
pub struct Ours {
    pub deliveries_per_second: f64,
    pub guard_bytes: f64,
}

pub fn rows(ours: Ours, deliveries: u64, work: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for settling in [Settling::Each, Settling::Together(100), Settling::Together(1_000)] {
        rows.push(queue(ours, deliveries, work, settling)?);
    }
    rows.push(guard(ours, deliveries, work)?);
    Ok(rows)
}

/// How a worker says what became of the rows it has claimed.
#[derive(Clone, Copy)]
enum Settling {
    /// A hundred are claimed, and each is settled by itself, as its provider answers.
    Each,
    /// So many are claimed, and settled by one statement.
    Together(u64),
}

impl Settling {
    fn claim(self) -> u64 {
        match self {
            Self::Each => 100,
            Self::Together(many) => many,
        }
    }

    fn title(self) -> String {
        match self {
            Self::Each => "100 a claim, each settled as it is answered".to_owned(),
            Self::Together(many) => format!("{many} a claim, settled together"),
        }
    }

    /// One claim of a worker, for `psql`: the rows with their addresses come to the client before they are settled.
    fn turn(self) -> String {
        let claim = self.claim();
        let claimed = format!(
            "with got as (select id from jobs where state = 0 order by id limit {claim} for update skip locked),
                  claimed as (update jobs set state = 1, attempts = attempts + 1 from got where jobs.id = got.id
                              returning jobs.id, jobs.user_id, jobs.device),
                  sends as (select id, token from claimed join devices using (user_id, device))"
        );
        match self {
            Self::Each => format!(
                "{claimed}
                 select format('update jobs set state = 2, sent_at = now(), provider_id = %L where id = %s',
                               left(token, 16), id) from sends \\gexec
                 "
            ),
            Self::Together(_) => format!(
                "{claimed}
                 select coalesce(array_agg(id), '{{}}') as ids, coalesce(array_agg(token), '{{}}') as tokens from sends \\gset
                 update jobs set state = 2, sent_at = now(), provider_id = left(answered.token, 16)
                   from unnest(:'ids'::bigint[], :'tokens'::text[]) as answered(id, token) where jobs.id = answered.id;
                 "
            ),
        }
    }
}

fn queue(ours: Ours, deliveries: u64, work: &Path, settling: Settling) -> Result<Row> {
    let what = format!("peer: PostgreSQL queue, FOR UPDATE SKIP LOCKED, {}", settling.title());
    let row = Row::new("deliveries", what, "fsync before commit");
    let Some(programs) = find_programs() else {
        return Ok(row.note(format!("skipped: {}", postgres::ADVICE)));
    };
    let cluster = Cluster::start(programs, work)?;
    cluster.sql_at_once(&[schema(deliveries / DEVICES)])?;
    let clients = CLIENTS_PER_CORE * std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let began = Instant::now();
    cluster.sql(FAN_OUT)?;
    let filled = began.elapsed().as_secs_f64();
    loop {
        let waiting: u64 = cluster.sql("select count(*) from jobs where state = 0")?.trim().parse()?;
        if waiting == 0 {
            break;
        }
        let turns = waiting.div_ceil(settling.claim()).div_ceil(clients);
        let script = settling.turn().repeat(turns as usize);
        cluster.sql_at_once(&vec![script; clients as usize])?;
    }
    let elapsed = began.elapsed().as_secs_f64();
    let sent: u64 = cluster.sql("select count(*) from jobs where state = 2")?.trim().parse()?;
    ensure!(sent == deliveries, "PostgreSQL sent {sent} of {deliveries}");
    let bytes: f64 = cluster.sql("select pg_total_relation_size('jobs')")?.trim().parse()?;
    let (rate, ratio) =
        (deliveries as f64 / elapsed, ours.deliveries_per_second * elapsed / deliveries as f64);
    let row = row
        .fact("queued, claimed and settled", rate, " deliveries/s")
        .fact("claimed and settled alone", deliveries as f64 / (elapsed - filled), " deliveries/s")
        .fact("bytes", bytes / deliveries as f64, " B/delivery")
        .fact("ours", ratio, " times as many");
    Ok(match settling {
        Settling::Each => row.at_least(20.0, ratio, " times"),
        Settling::Together(_) => row,
    })
}

/// Everybody has two devices with tokens of 64 bytes; a tenth of all users follow. A job is lean: who, by which device, what
/// became of it. The content would be stored once elsewhere.
fn schema(followers: u64) -> String {
    format!(
        "create table devices (user_id bigint, device smallint, token text not null, primary key (user_id, device));
         insert into devices select no / 2, no % 2, md5(no::text) || md5((no + 1)::text)
           from generate_series(0, {followers}::bigint * 20 - 1) no;
         create table follows (actor bigint, user_id bigint, primary key (actor, user_id));
         insert into follows select 1, no * 10 from generate_series(0, {followers}::bigint - 1) no;
         create table jobs (
           id bigint generated always as identity primary key, event_id bigint not null, user_id bigint not null,
           device smallint not null, state smallint not null default 0, attempts smallint not null default 0,
           sent_at timestamptz, provider_id text);
         create index jobs_waiting on jobs (id) where state = 0;
         vacuum analyze devices, follows;
         checkpoint;"
    )
}

const FAN_OUT: &str = "insert into jobs (event_id, user_id, device)
     select 1, user_id, device from follows join devices using (user_id) where actor = 1";

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
