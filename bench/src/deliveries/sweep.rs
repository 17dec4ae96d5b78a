//! The guard sweep: how fast the store gets rid of what it keeps about sends that are past the guard, beside a running load.
//!
//! Single sends are imported as facts, three records each: given, decided, accepted by the provider. Then the clock is 31 days
//! later, and a node sweeps them while another tenant's single sends go through it at a fixed rate. Two sizes show whether a
//! kept send costs more to remove where more are kept.
//!
//! The node does not believe that clock before it is accepted, so nothing is swept until the audit log and the inbox index have
//! caught up with the import. A sweep that is too slow is ended and reported with what it removed by then.

use super::door::Door;
use super::house::{House, SHARDS};
use super::import::{Import, user_name};
use super::{LOOK, refused};
use crate::Bench;
use crate::index::job::{Job, answer, run as run_job};
use crate::index::{Meter, Spent};
use crate::process;
use crate::report::Row;
use anyhow::{Result, ensure};
use fantail_machine::tables::guard;
use fantail_node::Node;
use fantail_node::ask::{ChannelKind, ChannelSet, NotifyAsk, OptionsAsk, Priority, Refusal, Who};
use fantail_ports::store::Store;
use fantail_rules::ids::{Arrival, ShardNo, TenantId};
use fantail_rules::limits::BACKLOG_EVENTS_MAX;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const DURABLE: &str = "fsync before anything is removed";
/// Twice as many as a node accepted in a second when the sweep was too slow.
const PER_SECOND_MIN: f64 = 23_000.0;
/// A kept send of the larger size may cost so many times one of the smaller.
const COST_RATIO_MAX: f64 = 1.25;
const USERS: u64 = 10_000;
const LOAD_PER_SECOND: u64 = 500;
/// The load has to go on: so much of its rate is under way beside the sweep.
const LOAD_KEPT: f64 = 0.9;
/// Sends of the load that are under way at a time.
const UNDER_WAY_MAX: usize = 64;
const LATER_MS: u64 = 31 * 86_400_000;
/// The sweep begins within a minute after the clock is accepted.
const BEGIN_LIMIT: Duration = Duration::from_secs(90);
/// Each stage of a size may take so long, and the time for its sends at the slowest rate that is worth waiting for.
const STAGE_LIMIT: Duration = Duration::from_secs(300);
const SLOWEST_PER_SECOND: u64 = 5_000;
/// A look at the node's health reads some of its tables.
const HEALTH_EVERY: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sweep {
    pub directory: PathBuf,
    pub sends: u64,
    pub part: Part,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Part {
    Import,
    Measure { tenant: u32 },
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Imported {
    pub tenant: u32,
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Swept {
    /// From the start of the node until the audit log and the inbox index had everything.
    pub caught_up_seconds: f64,
    /// From the first look that found something removed, until nothing was left or the time was over.
    pub spent: Spent,
    pub tables_bytes_before: f64,
    pub tables_bytes_after: f64,
    /// Sends of the load in the meantime, those that were refused, and what sends cost alone.
    pub load: u64,
    pub load_refused: u64,
    pub load_alone: Spent,
    pub load_alone_sends: u64,
    pub removed: u64,
    /// Events about which anything is kept at the end.
    pub left: u64,
}

impl Swept {
    fn per_second(&self) -> f64 {
        self.spent.per_second(self.removed as f64)
    }

    /// CPU time of one removed send, without what the load beside it costs.
    fn cpu_us(&self) -> f64 {
        let load = self.load_alone.cpu_us_per(self.load_alone_sends as f64) * self.load as f64;
        (self.spent.cpu_us_per(1.0) - load).max(0.0) / self.removed.max(1) as f64
    }

    fn row(&self, sends: u64, imported: &Imported, first_cpu_us: f64) -> Row {
        let what = format!("{sends} single sends past the guard, beside {LOAD_PER_SECOND} sends/s");
        let (load_rate, removed) = (self.spent.per_second(self.load as f64), self.removed.max(1) as f64);
        Row::new("sweep", what, DURABLE)
            .fact("imported", sends as f64 / imported.seconds.max(1e-9), " sends/s")
            .fact("caught up after", self.caught_up_seconds, " s")
            .fact("removed", self.per_second(), " sends/s")
            .fact("CPU", self.cpu_us(), " µs/send")
            .fact("CPU of the first size", self.cpu_us() / first_cpu_us.max(1e-9), " times")
            .fact("process CPU", self.spent.cpu_seconds / self.spent.seconds.max(1e-9), " cores")
            .fact("sent to disk", self.spent.written_bytes.map(|bytes| bytes / removed), " B/send")
            .fact("tables before", self.tables_bytes_before / 1e6, " MB")
            .fact("tables after", self.tables_bytes_after / 1e6, " MB")
            .fact("sent beside it", load_rate, "/s")
            .fact("refused beside it", self.load_refused as f64, "")
            .fact("left", self.left as f64, "")
            .fact("peak memory", self.spent.peak_mb(), " MB")
            .at_least(PER_SECOND_MIN, self.per_second(), " sends/s")
            .at_least(LOAD_KEPT * LOAD_PER_SECOND as f64, load_rate, "/s beside it")
    }
}

pub async fn run(bench: &mut Bench) -> Result<()> {
    let mut costs = Vec::new();
    for sends in bench.scale.swept_sends.clone() {
        let directory = bench.work.join(format!("sweep-{sends}"));
        let job = |part| Job::Sweep(Sweep { directory: directory.clone(), sends, part });
        eprintln!("bench: sweep, importing {sends} sends …");
        let imported: Imported = run_job(&job(Part::Import), stage_limit(sends))?;
        eprintln!("bench: sweep, imported within {:.0} s …", imported.seconds);
        let measure = job(Part::Measure { tenant: imported.tenant });
        // Catching up, sweeping, and counting what is left.
        let found: Swept = run_job(&measure, 3 * stage_limit(sends))?;
        costs.push(found.cpu_us());
        bench.report.add(found.row(sends, &imported, costs[0]));
        ensure!(found.left == 0, "{} events are past the guard and still there", found.left);
        std::fs::remove_dir_all(&directory)?;
    }
    if let [first, .., last] = costs[..] {
        let what = "a kept send of the last size, compared with one of the first";
        let row = Row::new("sweep", what, DURABLE).fact("CPU", last / first.max(1e-9), " times");
        bench.report.add(row.at_most(COST_RATIO_MAX, last / first.max(1e-9), " times"));
    }
    Ok(())
}

fn stage_limit(sends: u64) -> Duration {
    STAGE_LIMIT + Duration::from_secs(sends / SLOWEST_PER_SECOND)
}

impl Sweep {
    pub fn work(&self) -> Result<()> {
        let threads = fantail_server::serve::threads();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
        runtime.block_on(async {
            match self.part {
                Part::Import => self.import().await,
                Part::Measure { tenant } => self.measure(TenantId(tenant)).await,
            }
        })
    }

    async fn import(&self) -> Result<()> {
        let house = House::open(&self.directory)?;
        let [tenant, other] = house.tenants(["kept", "load"]).await?;
        let tending = house.tend()?;
        let mut import = Import::new(&house, tenant).await?;
        import.users(USERS, &|_| 1).await?;
        let began = Instant::now();
        import.single_sends(self.sends).await?;
        let seconds = began.elapsed().as_secs_f64();
        Import::new(&house, other).await?.users(USERS, &|_| 1).await?;
        tending.stop()?;
        house.close()?;
        answer(&Imported { tenant: tenant.0, seconds });
        Ok(())
    }

    async fn measure(&self, tenant: TenantId) -> Result<()> {
        let house = House::open_later(&self.directory, LATER_MS)?;
        let tending = house.tend()?;
        let push = Arc::new(Door::new(house.stub()?));
        let node = house.start(push).await?;
        let mut oldest = Oldest::new(&house, tenant);
        let kept = oldest.find()?;
        let caught_up_seconds = self.caught_up(&house, &node).await?;
        ensure!(oldest.find()? == kept, "something was removed before the clock was accepted");
        node.accept_clock();
        // Tenants are numbered in the order in which they came.
        let mut load = Load::new(&node, TenantId(tenant.0 + 1), house.clock.wall().0);
        let meter = Meter::begin()?;
        let has_begun = load.send_until(|| Ok(oldest.find()? != kept), BEGIN_LIMIT).await?;
        ensure!(has_begun, "the sweep does not begin");
        let (load_alone, load_alone_sends) = (meter.spent()?, std::mem::take(&mut load.sent));
        let tables = self.directory.join("tables");
        let tables_bytes_before = process::disk_bytes(&tables) as f64;
        let meter = Meter::begin()?;
        load.send_until(|| Ok(oldest.find()?.iter().all(Option::is_none)), stage_limit(self.sends)).await?;
        let spent = meter.spent()?;
        let left = count_kept(&house, tenant)?;
        answer(&Swept {
            caught_up_seconds,
            spent,
            tables_bytes_before,
            tables_bytes_after: process::disk_bytes(&tables) as f64,
            load: load.sent,
            load_refused: load.refused,
            load_alone,
            load_alone_sends,
            removed: self.sends.saturating_sub(left),
            left,
        });
        node.stop().await.map_err(refused)?;
        tending.stop()?;
        house.close()
    }

    /// Waits until what was imported is in the inbox index and in the audit log; the seconds that took.
    async fn caught_up(&self, house: &House, node: &Node) -> Result<f64> {
        let began = Instant::now();
        let is_behind = || house.store.gauges().backlog_events > BACKLOG_EVENTS_MAX / 2;
        while is_behind() || node.health().audit_lag > 0 {
            let limit = stage_limit(self.sends);
            ensure!(began.elapsed() < limit, "what was imported is not merged, or not in the audit log");
            tokio::time::sleep(HEALTH_EVERY).await;
        }
        let seconds = began.elapsed().as_secs_f64();
        eprintln!("bench: sweep, caught up after {seconds:.0} s …");
        Ok(seconds)
    }
}

/// Single sends of another tenant, at a fixed rate, whatever the ones before take.
struct Load {
    node: Node,
    tenant: TenantId,
    run: u64,
    next: u64,
    under_way: JoinSet<Result<(), Refusal>>,
    sent: u64,
    refused: u64,
}

impl Load {
    fn new(node: &Node, tenant: TenantId, run: u64) -> Self {
        let under_way = JoinSet::new();
        Self { node: node.clone(), tenant, run, next: 0, under_way, sent: 0, refused: 0 }
    }

    /// Says whether it was over before the limit.
    async fn send_until(
        &mut self,
        mut is_over: impl FnMut() -> Result<bool>,
        limit: Duration,
    ) -> Result<bool> {
        let (began, first) = (Instant::now(), self.next);
        while !is_over()? {
            if began.elapsed() >= limit {
                return Ok(false);
            }
            let due = first + began.elapsed().as_millis() as u64 * LOAD_PER_SECOND / 1_000;
            while self.next < due && self.under_way.len() < UNDER_WAY_MAX {
                self.under_way.spawn(send(self.node.clone(), self.tenant, self.run, self.next));
                self.next += 1;
            }
            while let Some(done) = self.under_way.try_join_next() {
                match done? {
                    Ok(()) => self.sent += 1,
                    Err(Refusal::Busy { .. }) => self.refused += 1,
                    Err(other) => return Err(refused(other)),
                }
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(true)
    }
}

async fn send(node: Node, tenant: TenantId, run: u64, no: u64) -> Result<(), Refusal> {
    let recipients = node.recipients(tenant, &[Who::User(user_name(no % USERS))]).await?;
    let ask = NotifyAsk {
        id: format!("load-{run}-{no}"),
        kind: "notification".to_owned(),
        category: "bench".to_owned(),
        priority: Priority::Normal,
        channels: ChannelSet::EMPTY.with(ChannelKind::Push),
        ttl_ms: 86_400_000,
        content: b"{\"title\":\"hello\"}".to_vec(),
        recipients: recipients.into_iter().map(|one| (one, None)).collect(),
        options: OptionsAsk::default(),
        body_hash: [1; 16],
    };
    node.notify(tenant, ask).await.map(drop)
}

/// The oldest event of each shard about which something is kept. Looks behind the place where it found one before: rows that
/// are gone lie about until they are compacted, and a search from the beginning would pass all of them.
struct Oldest<'a> {
    house: &'a House,
    tenant: TenantId,
    behind: Vec<Arrival>,
}

impl<'a> Oldest<'a> {
    fn new(house: &'a House, tenant: TenantId) -> Self {
        Self { house, tenant, behind: vec![Arrival::START; usize::from(SHARDS)] }
    }

    fn find(&mut self) -> Result<Vec<Option<Arrival>>> {
        let mut all = Vec::new();
        for (no, behind) in (0..SHARDS).zip(&mut self.behind) {
            let found =
                self.house.read(ShardNo(no), |tables| guard::guarded(tables, self.tenant, *behind, 1))?;
            let oldest = found.first().copied();
            *behind = oldest.map_or(*behind, |oldest| Arrival(oldest.0 - 1));
            all.push(oldest);
        }
        Ok(all)
    }
}

fn count_kept(house: &House, tenant: TenantId) -> Result<u64> {
    const PAGE: usize = 10_000;
    let mut count = 0;
    for no in 0..SHARDS {
        let mut behind = Arrival::START;
        loop {
            let found = house.read(ShardNo(no), |tables| guard::guarded(tables, tenant, behind, PAGE))?;
            let Some(last) = found.last() else { break };
            (behind, count) = (*last, count + found.len() as u64);
        }
    }
    Ok(count)
}
