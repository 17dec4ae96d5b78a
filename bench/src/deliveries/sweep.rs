//! The guard sweep: how fast the store gets rid of what it keeps about sends that are past the guard, beside a running load.
//!
//! Single sends are imported as facts, three records each: given, decided, accepted by the provider. Then the clock is 31 days
//! later, and a node sweeps them while another tenant's single sends go through it at a fixed rate. Two sizes show whether a
//! kept send costs more to remove where more are kept.

use super::door::Door;
use super::house::{House, SHARDS};
use super::import::{Import, user_name};
use super::{LIMIT, LOOK, refused};
use crate::Bench;
use crate::index::job::{Job, answer, run as run_job};
use crate::index::{Meter, Spent};
use crate::report::Row;
use anyhow::{Result, ensure};
use fantail_machine::tables::guard;
use fantail_node::Node;
use fantail_node::ask::{ChannelKind, ChannelSet, NotifyAsk, OptionsAsk, Priority, Who};
use fantail_ports::store::Store;
use fantail_rules::ids::{Arrival, ShardNo, TenantId};
use fantail_rules::limits::BACKLOG_EVENTS_MAX;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DURABLE: &str = "fsync before anything is removed";
/// Twice as many as a node accepted in a second when the sweep was too slow.
const PER_SECOND_MIN: f64 = 23_000.0;
/// A kept send of the larger size may cost so many times one of the smaller.
const COST_RATIO_MAX: f64 = 1.25;
const USERS: u64 = 10_000;
const LOAD_PER_SECOND: u64 = 500;
const LATER_MS: u64 = 31 * 86_400_000;
/// The sweep begins a minute after the start.
const BEGIN_LIMIT: Duration = Duration::from_secs(90);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sweep {
    pub directory: PathBuf,
    pub sends: u64,
    pub part: Part,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Part {
    /// Answers with the tenant.
    Import,
    Measure {
        tenant: u32,
    },
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Swept {
    pub spent: Spent,
    /// Sends of the load in the meantime, and what they cost alone.
    pub load: u64,
    pub load_alone: Spent,
    pub load_alone_sends: u64,
    /// Events about which anything is kept at the end.
    pub left: u64,
}

impl Swept {
    /// CPU time of one removed send, without what the load beside it costs.
    fn cpu_us(&self, sends: u64) -> f64 {
        let load = self.load_alone.cpu_us_per(self.load_alone_sends as f64) * self.load as f64;
        (self.spent.cpu_us_per(1.0) - load).max(0.0) / sends as f64
    }
}

pub async fn run(bench: &mut Bench) -> Result<()> {
    let mut costs = Vec::new();
    for sends in bench.scale.swept_sends {
        let directory = bench.work.join(format!("sweep-{sends}"));
        let job = |part| Job::Sweep(Sweep { directory: directory.clone(), sends, part });
        let tenant: u32 = run_job(&job(Part::Import), LIMIT)?;
        let found: Swept = run_job(&job(Part::Measure { tenant }), 2 * LIMIT)?;
        let (rate, cpu) = (found.spent.per_second(sends as f64), found.cpu_us(sends));
        costs.push(cpu);
        bench.report.add(
            Row::new(
                "sweep",
                format!("{sends} single sends past the guard, beside {LOAD_PER_SECOND} sends/s"),
                DURABLE,
            )
            .fact("removed", rate, " sends/s")
            .fact("CPU", cpu, " µs/send")
            .fact("CPU as in the smaller size", cpu / costs[0].max(1e-9), " times")
            .fact("sent beside it", found.load as f64, "")
            .fact("left", found.left as f64, "")
            .fact("peak memory", found.spent.peak_mb(), " MB")
            .at_least(PER_SECOND_MIN, rate, " sends/s"),
        );
        ensure!(found.left == 0, "{} events are past the guard and still there", found.left);
        std::fs::remove_dir_all(&directory)?;
    }
    let ratio = costs.last().copied().unwrap_or_default() / costs.first().copied().unwrap_or(1.0).max(1e-9);
    bench.report.add(
        Row::new("sweep", "a kept send of the larger size, compared with one of the smaller", DURABLE)
            .at_most(COST_RATIO_MAX, ratio, " times"),
    );
    Ok(())
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
        let mut import = Import::new(&house, tenant).await?;
        import.users(USERS, &|_| 1).await?;
        import.single_sends(self.sends).await?;
        Import::new(&house, other).await?.users(USERS, &|_| 1).await?;
        house.close()?;
        answer(&tenant.0);
        Ok(())
    }

    async fn measure(&self, tenant: TenantId) -> Result<()> {
        let house = House::open_later(&self.directory, LATER_MS)?;
        let push = Arc::new(Door::new(house.stub()?));
        let node = house.start(push).await?;
        node.accept_clock();
        let began = Instant::now();
        let is_behind = || house.store.gauges().backlog_events > BACKLOG_EVENTS_MAX / 2;
        while is_behind() || node.health().audit_lag > 0 {
            ensure!(began.elapsed() < LIMIT, "what was imported is not merged, or not in the audit log");
            tokio::time::sleep(LOOK).await;
        }
        // Tenants are numbered in the order in which they came.
        let mut load =
            Load { node: node.clone(), tenant: TenantId(tenant.0 + 1), run: house.clock.wall().0, sent: 0 };
        let mut oldest = Oldest::new(&house, tenant);
        let (meter, kept) = (Meter::begin()?, oldest.find()?);
        load.send_until(|| Ok(oldest.find()? != kept), BEGIN_LIMIT).await?;
        let (load_alone, load_alone_sends) = (meter.spent()?, load.sent);
        let meter = Meter::begin()?;
        load.send_until(|| Ok(oldest.find()?.iter().all(Option::is_none)), LIMIT).await?;
        let (spent, load) = (meter.spent()?, load.sent - load_alone_sends);
        answer(&Swept { spent, load, load_alone, load_alone_sends, left: count_kept(&house, tenant)? });
        node.stop().await.map_err(refused)?;
        house.close()
    }
}

/// Single sends of another tenant, at a fixed rate.
struct Load {
    node: Node,
    tenant: TenantId,
    run: u64,
    sent: u64,
}

impl Load {
    async fn send_until(&mut self, mut is_over: impl FnMut() -> Result<bool>, limit: Duration) -> Result<()> {
        let (began, before) = (Instant::now(), self.sent);
        while !is_over()? {
            ensure!(began.elapsed() < limit, "the sweep does not get on");
            let due = before + began.elapsed().as_millis() as u64 * LOAD_PER_SECOND / 1_000;
            while self.sent < due {
                self.send().await?;
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<()> {
        let user = Who::User(user_name(self.sent % USERS));
        let recipients = self.node.recipients(self.tenant, &[user]).await.map_err(refused)?;
        let ask = NotifyAsk {
            id: format!("load-{}-{}", self.run, self.sent),
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
        self.node.notify(self.tenant, ask).await.map_err(refused)?;
        self.sent += 1;
        Ok(())
    }
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
