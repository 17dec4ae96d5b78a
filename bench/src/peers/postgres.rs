//! PostgreSQL: `INSERT … SELECT` of an event's followers, and COPY of the same rows, one transaction per event, by
//! as many clients as there are cores. Lean rows, and fat ones as most inboxes have them. One private cluster for
//! all turns; the tables are emptied in between.

use super::{FAT_ROW_BYTES, Peer, Ready, Turn, Work};
use crate::postgres::{ADVICE, Cluster, find_programs};
use crate::process;
use anyhow::{Result, ensure};
use std::cell::OnceCell;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Events that a client brings between two looks at the clock.
const EVENTS_AT_ONCE: u64 = 8;
/// Two numbers, a time and two flags are the rest of a fat row.
const FAT_TEXT_BYTES: usize = FAT_ROW_BYTES - 26;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    InsertSelect,
    Copy,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rows {
    Lean,
    Fat,
}

pub fn peers(work: &Work, directory: &Path) -> Vec<Peer> {
    let Some(programs) = find_programs() else {
        let advice = format!("{ADVICE}; `make bench-peers` does it");
        return vec![Peer::Missing { name: "PostgreSQL".into(), advice }];
    };
    let shared = Shared { programs, directory: directory.to_owned(), work: *work, cluster: OnceCell::new() };
    let shared = Rc::new(shared);
    let mut peers = Vec::new();
    for (how, rows, what) in [
        (How::InsertSelect, Rows::Lean, "INSERT … SELECT, lean rows"),
        (How::InsertSelect, Rows::Fat, "INSERT … SELECT, fat rows"),
        (How::Copy, Rows::Lean, "COPY, lean rows"),
        (How::Copy, Rows::Fat, "COPY, fat rows"),
    ] {
        let (work, shared) = (*work, Rc::clone(&shared));
        let turn = move |_: &Path| turn(shared.cluster()?, &work, how, rows);
        peers.push(Peer::Ready(Ready {
            name: format!("PostgreSQL {what}"),
            durability: "fsync before commit, one per event",
            goal: Some(150.0),
            turn: Box::new(turn),
        }));
    }
    peers
}

/// The cluster of all four, started by the first turn.
struct Shared {
    programs: PathBuf,
    directory: PathBuf,
    work: Work,
    cluster: OnceCell<Cluster>,
}

impl Shared {
    fn cluster(&self) -> Result<&Cluster> {
        if let Some(cluster) = self.cluster.get() {
            return Ok(cluster);
        }
        let cluster = Cluster::start(self.programs.clone(), &self.directory)?;
        prepare(&cluster, &self.work)?;
        Ok(self.cluster.get_or_init(|| cluster))
    }
}

fn prepare(cluster: &Cluster, work: &Work) -> Result<()> {
    let mut text = String::from(
        "create table follows (actor bigint, user_id bigint, primary key (actor, user_id));\n\
         copy follows from stdin;\n",
    );
    for (actor, list) in work.lists().iter().enumerate() {
        list.iter().try_for_each(|user| writeln!(text, "{actor}\t{user}"))?;
    }
    text.push_str("\\.\n");
    for (table, more) in [("inbox_lean", ""), ("inbox_fat", "content text not null, ")] {
        writeln!(
            text,
            "create table {table} (user_id bigint not null, event_id bigint not null, {more}\
             created_at timestamptz not null default now(), seen boolean not null default false, \
             read boolean not null default false, primary key (user_id, event_id));"
        )?;
    }
    text.push_str("vacuum analyze follows;\ncheckpoint;\n");
    cluster.sql_at_once(&[text])
}

fn turn(cluster: &Cluster, work: &Work, how: How, rows: Rows) -> Result<Turn> {
    let table = match rows {
        Rows::Lean => "inbox_lean",
        Rows::Fat => "inbox_fat",
    };
    let clients = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let lists = work.lists();
    cluster.sql_at_once(&[format!("truncate {table};\ncheckpoint;\n")])?;
    let before = process::family_cpu(cluster.pid()?)?;
    let (mut elapsed, mut event) = (Duration::ZERO, 0);
    while event < work.events && elapsed < work.limit() {
        let mut scripts = vec![String::new(); clients as usize];
        for (at, script) in scripts.iter_mut().enumerate() {
            for own in 0..EVENTS_AT_ONCE {
                let one = event + own * clients + at as u64;
                if one < work.events {
                    put(script, table, how, rows, one, &lists)?;
                }
            }
        }
        let began = Instant::now();
        cluster.sql_at_once(&scripts)?;
        elapsed += began.elapsed();
        event = (event + clients * EVENTS_AT_ONCE).min(work.events);
    }
    let cpu = process::family_cpu(cluster.pid()?)?.saturating_sub(before);
    let written: u64 = (0..event).map(|event| lists[event as usize % lists.len()].len() as u64).sum();
    let found: u64 = cluster.sql(&format!("select count(*) from {table}"))?.trim().parse()?;
    ensure!(found == written, "PostgreSQL has {found} rows instead of {written}");
    let bytes: f64 = cluster.sql(&format!("select pg_total_relation_size('{table}')"))?.trim().parse()?;
    cluster.sql_at_once(&[format!("truncate {table};\n")])?;
    Ok(Turn {
        rows: written as f64,
        seconds: elapsed.as_secs_f64(),
        cpu_seconds: cpu.as_secs_f64(),
        bytes: Some(bytes),
    })
}

/// One event: a statement, and so a transaction, of its own.
fn put(script: &mut String, table: &str, how: How, rows: Rows, event: u64, lists: &[Vec<u64>]) -> Result<()> {
    let actor = event as usize % lists.len();
    let columns = match rows {
        Rows::Lean => "user_id, event_id",
        Rows::Fat => "user_id, event_id, content",
    };
    match (how, rows) {
        (How::InsertSelect, Rows::Lean) => writeln!(
            script,
            "insert into {table} ({columns}) select user_id, {event} from follows where actor = {actor};"
        )?,
        (How::InsertSelect, Rows::Fat) => writeln!(
            script,
            "insert into {table} ({columns}) select user_id, {event}, repeat('x', {FAT_TEXT_BYTES}) \
             from follows where actor = {actor};"
        )?,
        (How::Copy, _) => {
            let content = match rows {
                Rows::Lean => String::new(),
                Rows::Fat => format!("\t{}", "x".repeat(FAT_TEXT_BYTES)),
            };
            writeln!(script, "copy {table} ({columns}) from stdin;")?;
            lists[actor].iter().try_for_each(|user| writeln!(script, "{user}\t{event}{content}"))?;
            script.push_str("\\.\n");
        }
    }
    Ok(())
}
