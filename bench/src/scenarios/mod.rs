//! What is measured, one file each. Every scenario has a server and a directory of its own, and pushes its rows to
//! the report as soon as they are known.

mod accept;
mod batches;
pub mod bulk;
mod celebrity;
pub mod fairness;
mod fanout;
mod fsync;
pub mod gates;
mod lifecycle;
mod notify;
mod planned;
mod reads;
mod timers;
mod waiting;

use crate::Bench;
use crate::http::{Connection, Target};
use crate::options::Scale;
use crate::process;
use crate::scrape::{Metrics, Reading};
use crate::server::Server;
use crate::{apns, deliveries, index, mail, outage, webpush};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Scenario {
    Fsync,
    Accept,
    Batches,
    Fanout,
    Reads,
    Celebrity,
    Lifecycle,
    Index,
    Notify,
    Deliveries,
    Gates,
    Timers,
    Waiting,
    Bulk,
    Apns,
    Webpush,
    Mail,
    Outage,
    Fairness,
    Sweep,
}

impl Scenario {
    pub const ALL: &[Self] = &[
        Self::Fsync,
        Self::Accept,
        Self::Batches,
        Self::Fanout,
        Self::Reads,
        Self::Celebrity,
        Self::Lifecycle,
        Self::Index,
        Self::Notify,
        Self::Deliveries,
        Self::Gates,
        Self::Timers,
        Self::Waiting,
        Self::Bulk,
        Self::Apns,
        Self::Webpush,
        Self::Mail,
        Self::Outage,
        Self::Fairness,
        Self::Sweep,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Accept => "accept",
            Self::Batches => "batches",
            Self::Fanout => "fanout",
            Self::Reads => "reads",
            Self::Celebrity => "celebrity",
            Self::Lifecycle => "lifecycle",
            Self::Index => "index",
            Self::Notify => "notify",
            Self::Deliveries => "deliveries",
            Self::Gates => "gates",
            Self::Timers => "timers",
            Self::Waiting => "waiting",
            Self::Bulk => "bulk",
            Self::Apns => "apns",
            Self::Webpush => "webpush",
            Self::Mail => "mail",
            Self::Outage => "outage",
            Self::Fairness => "fairness",
            Self::Sweep => "sweep",
        }
    }

    /// Whether it drives a server; the others drive the store or the rules themselves, or only the disk.
    pub fn needs_server(self) -> bool {
        !matches!(
            self,
            Self::Fsync
                | Self::Index
                | Self::Deliveries
                | Self::Gates
                | Self::Timers
                | Self::Waiting
                | Self::Apns
                | Self::Webpush
                | Self::Mail
                | Self::Sweep
        )
    }

    /// When it is given up.
    pub fn limit(self, scale: &Scale) -> Duration {
        let is_long = matches!(
            self,
            Self::Index
                | Self::Deliveries
                | Self::Waiting
                | Self::Bulk
                | Self::Outage
                | Self::Fairness
                | Self::Sweep
        );
        if is_long { scale.index_limit } else { scale.scenario_limit }
    }

    pub async fn run(self, bench: &mut Bench) -> Result<()> {
        match self {
            Self::Fsync => fsync::run(bench),
            Self::Accept => accept::run(bench).await,
            Self::Batches => batches::run(bench).await,
            Self::Fanout => fanout::run(bench).await,
            Self::Reads => reads::run(bench).await,
            Self::Celebrity => celebrity::run(bench).await,
            Self::Lifecycle => lifecycle::run(bench).await,
            Self::Index => index::run(bench).await,
            Self::Notify => notify::run(bench).await,
            Self::Deliveries => deliveries::run(bench).await,
            Self::Gates => gates::run(bench),
            Self::Timers => timers::run(bench).await,
            Self::Waiting => waiting::run(bench),
            Self::Bulk => bulk::run(bench).await,
            Self::Apns => apns::run(bench).await,
            Self::Webpush => webpush::run(bench).await,
            Self::Mail => mail::run(bench).await,
            Self::Outage => outage::run(bench).await,
            Self::Fairness => fairness::run(bench).await,
            Self::Sweep => deliveries::sweep::run(bench).await,
        }
    }
}

impl Bench {
    /// A server on a directory of this name.
    pub async fn serve(&self, name: &str) -> Result<Server> {
        Server::start(&self.binary, &self.work.join(name)).await
    }
}

/// What server and generator spent between two looks.
struct Span {
    began: Instant,
    server_cpu: Duration,
    own_cpu: Duration,
    metrics: Metrics,
}

struct Spent {
    elapsed: Duration,
    server_cpu: Duration,
    own_cpu: Duration,
    commits: Option<f64>,
    records: Option<f64>,
}

impl Span {
    async fn begin(server: &Server) -> Result<Self> {
        Ok(Self {
            metrics: server.metrics().await?,
            server_cpu: server.usage()?.cpu,
            own_cpu: process::own_cpu()?,
            began: Instant::now(),
        })
    }

    async fn end(self, server: &Server) -> Result<Spent> {
        let elapsed = self.began.elapsed();
        let (server_cpu, own_cpu) = (server.usage()?.cpu, process::own_cpu()?);
        let metrics = server.metrics().await?;
        Ok(Spent {
            elapsed,
            server_cpu: server_cpu.saturating_sub(self.server_cpu),
            own_cpu: own_cpu.saturating_sub(self.own_cpu),
            commits: metrics.since(&self.metrics, Reading::JournalCommits),
            records: metrics.since(&self.metrics, Reading::JournalRecords),
        })
    }
}

impl Spent {
    /// Server CPU for one of `count` units of work.
    fn cpu_us_per(&self, count: u64) -> f64 {
        self.server_cpu.as_secs_f64() * 1e6 / count.max(1) as f64
    }

    /// Share of one core that the generator used.
    fn own_cpu_percent(&self) -> f64 {
        100.0 * self.own_cpu.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn commits_per_second(&self) -> Option<f64> {
        Some(self.commits? / self.elapsed.as_secs_f64().max(1e-9))
    }

    /// How many of `count` units shared one fsync.
    fn per_commit(&self, count: u64) -> Option<f64> {
        self.commits.filter(|commits| *commits > 0.0).map(|commits| count as f64 / commits)
    }
}

/// Fails if any event became inbox entries since: then what was measured were not pointers. Entries wait in windows
/// before they are written, so both are looked at.
fn ensure_pointers(before: &Metrics, after: &Metrics) -> Result<()> {
    for reading in [Reading::EntriesWritten, Reading::WindowEvents] {
        let (before, after) = (before.require(reading)?, after.require(reading)?);
        ensure!(
            before == after,
            "celebrities' events were written out: {reading:?} grew from {before} to {after}"
        );
    }
    Ok(())
}

/// Asks until the newest notification of a user has this in it. Returns when it was first seen.
async fn wait_until_shown(
    connection: &mut Connection,
    target: &Target,
    user: &str,
    part: &str,
) -> Result<Instant> {
    const LIMIT: Duration = Duration::from_secs(30);
    let request = target.get(&format!("/api/v1/users/{user}/notifications?limit=1"));
    let began = Instant::now();
    loop {
        let answer = connection.exchange(&request).await?;
        answer.expect(200)?;
        if crate::event::contains(answer.body, part.as_bytes()) {
            return Ok(Instant::now());
        }
        ensure!(began.elapsed() < LIMIT, "{user} does not see {part} within {} s", LIMIT.as_secs());
    }
}

/// A user's exact unread count.
async fn unread(connection: &mut Connection, target: &Target, user: &str) -> Result<u64> {
    let answer = connection.exchange(&target.get(&format!("/api/v1/users/{user}/unread"))).await?;
    answer.expect(200)?;
    let counts: serde_json::Value = serde_json::from_slice(answer.body)?;
    counts["unread"].as_u64().context("no unread count in the answer")
}
