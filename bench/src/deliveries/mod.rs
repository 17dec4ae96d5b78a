//! Deliveries through the stub channel, with durable Intent and outcome: a node on local files in a process of its own.
//!
//! Half of the members come from one dense list (a tenth of all users), half from sparse lists of 10,000; everybody has
//! two devices. The page cache is dropped before anything is sent. Critical notifications are timed alone and beside
//! backlogs, those of another tenant alone and beside a flood; direct sends have content of their own for each recipient.

mod door;
pub mod house;
pub mod import;
mod peers;
pub mod sweep;
mod work;

use crate::Bench;
use crate::event::spread;
use crate::index::job::{Job, answer, run as run_job};
use crate::index::{Meter, Spent};
use crate::process;
use crate::quantiles::Summary;
use crate::report::Row;
use anyhow::{Result, anyhow, ensure};
use door::Door;
use fantail_node::ask::{Priority, Refusal};
use fantail_rules::ids::TenantId;
use house::House;
use import::Import;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use work::Work;

const DURABLE: &str = "fsync before each send, and each outcome";
const LIMIT: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_millis(5);
/// A store that writes nothing for so long has merged everything.
const SETTLED: Duration = Duration::from_secs(4);
const SPARSE_MEMBERS: u64 = 10_000;
const DEVICES: u64 = 2;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Deliver {
    pub directory: PathBuf,
    pub users: u64,
    pub critical: u64,
    pub requests: u64,
    pub part: Part,
}

/// Each in a process of its own: what is measured starts cold.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Part {
    /// Users, devices and lists; answers with the tenant.
    Import,
    /// The audit log tells of millions of devices, and the store merges them, before anything is delivered, not beside it.
    CatchUp,
    Measure {
        tenant: u32,
    },
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Delivered {
    pub deliveries: f64,
    pub spent: Spent,
    /// The same until the audit log has told of all of them.
    pub audited: Spent,
    pub journal_bytes: f64,
    pub critical_idle: Summary,
    /// Beside a backlog that drains as fast as it can, and one whose provider takes 100,000 a second.
    pub critical_busy: Summary,
    pub critical_paced: Summary,
    pub busy_backlog: f64,
    /// Another tenant's, alone and beside the flood.
    pub other_alone: Summary,
    pub other_beside: Summary,
    /// Ledgers as they are stored, for each fan-out delivery.
    pub guard_bytes: f64,
    pub recipients: f64,
    pub accepted_seconds: f64,
    pub direct_seconds: f64,
}

/// The tenant that is flooded around has so many users.
const OTHER_USERS: u64 = 1_000;
/// Of singles that no backlog has to outlast: with 300 the third slowest decided, and it was another one in every run.
const MANY_SINGLES: u64 = 900;
/// Deliveries that peers are measured with.
const PEER_DELIVERIES: u64 = 400_000;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let users = bench.scale.delivery_users;
    let directory = bench.work.join("deliveries");
    let job =
        Deliver { directory: directory.clone(), users, critical: 300, requests: 100, part: Part::Import };
    let tenant: u32 = run_job(&Job::Deliver(job.clone()), LIMIT)?;
    let () = run_job(&Job::Deliver(Deliver { part: Part::CatchUp, ..job.clone() }), LIMIT)?;
    let found: Delivered = run_job(&Job::Deliver(Deliver { part: Part::Measure { tenant }, ..job }), LIMIT)?;
    let rate = found.spent.per_second(found.deliveries);
    let what =
        format!("fan-out push through the stub, {users} users with 2 devices, half dense, half sparse lists");
    bench.report.add(
        Row::new("deliveries", what, DURABLE)
            .fact("sent", rate, " deliveries/s")
            .fact("CPU", found.spent.cpu_us_per(found.deliveries), " µs/delivery")
            .fact("CPU with its audit log", found.audited.cpu_us_per(found.deliveries), " µs/delivery")
            .fact("audited after", found.audited.seconds - found.spent.seconds, " s")
            .fact("journal", found.journal_bytes / found.deliveries, " B/delivery")
            .fact("deliveries", found.deliveries, "")
            .fact("peak memory", found.spent.peak_mb(), " MB")
            .at_least(300_000.0, rate, " deliveries/s"),
    );
    let per_second = found.recipients / found.accepted_seconds.max(1e-9);
    bench.report.add(
        Row::new("deliveries", "requests with 1,000 recipients, content of their own of 300 bytes", DURABLE)
            .fact("accepted", per_second, " recipients/s")
            .fact("sent", found.recipients / found.direct_seconds.max(1e-9), " recipients/s")
            .at_least(50_000.0, per_second, " recipients/s"),
    );
    for (what, summary, goal) in [
        ("critical, from asking to the provider's door, idle".to_owned(), found.critical_idle, 15.0),
        (
            format!("critical, beside an unpaced backlog of {:.0} deliveries", found.busy_backlog),
            found.critical_busy,
            250.0,
        ),
        (
            format!("critical, beside a backlog of {:.0} that drains at 100,000/s", found.busy_backlog),
            found.critical_paced,
            100.0,
        ),
    ] {
        bench.report.add(
            Row::new("deliveries", what, DURABLE)
                .fact("p50", summary.p50_ms, " ms")
                .fact("p99", summary.p99_ms, " ms")
                .at_most(goal, summary.p99_ms, " ms p99"),
        );
    }
    let moved = found.other_beside.p99_ms / found.other_alone.p99_ms;
    bench.report.add(
        Row::new(
            "deliveries",
            "another tenant's single sends, beside a flood that drains at 100,000/s",
            DURABLE,
        )
        .fact("p99 alone", found.other_alone.p99_ms, " ms")
        .fact("p99 beside", found.other_beside.p99_ms, " ms")
        .at_most(2.0, moved, " times"),
    );
    let ours = peers::Ours { deliveries_per_second: rate, guard_bytes: found.guard_bytes };
    for row in peers::rows(ours, PEER_DELIVERIES.min(2 * users), &bench.work)? {
        bench.report.add(row);
    }
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

impl Deliver {
    pub fn work(&self) -> Result<()> {
        let threads = fantail_server::serve::threads();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
        runtime.block_on(async {
            match self.part {
                Part::Import => self.import().await,
                Part::CatchUp => self.catch_up().await,
                Part::Measure { tenant } => self.measure(TenantId(tenant)).await,
            }
        })
    }

    fn sparse_lists(&self) -> u64 {
        (self.users / 10 / SPARSE_MEMBERS).max(1)
    }

    async fn import(&self) -> Result<()> {
        let house = House::open(&self.directory)?;
        let [tenant, other] = house.tenants(["bench", "other"]).await?;
        let mut import = Import::new(&house, tenant).await?;
        import.users(self.users, &|_| DEVICES as u16).await?;
        import.follow("dense", (0..self.users).filter(|no| spread(*no).is_multiple_of(10))).await?;
        for list in 0..self.sparse_lists() {
            let members = (0..SPARSE_MEMBERS).map(|at| spread(list << 32 | at) % self.users);
            import.follow(&sparse_name(list), members).await?;
        }
        import.flush().await?;
        let mut import = Import::new(&house, other).await?;
        import.users(OTHER_USERS, &|_| DEVICES as u16).await?;
        house.close()?;
        answer(&tenant.0);
        Ok(())
    }

    /// A node that stops has told everything. What was imported is merged before, as it would be a day later.
    async fn catch_up(&self) -> Result<()> {
        let house = House::open(&self.directory)?;
        let node = house.start(house.stub()?).await?;
        let (began, mut written, mut since) = (Instant::now(), None, Instant::now());
        while since.elapsed() < SETTLED {
            ensure!(began.elapsed() < LIMIT, "what was imported is not merged");
            tokio::time::sleep(LOOK).await;
            let now = process::usage(std::process::id())?.written_bytes;
            if now != written {
                (written, since) = (now, Instant::now());
            }
        }
        node.stop().await.map_err(refused)?;
        house.close()?;
        answer(&());
        Ok(())
    }

    async fn measure(&self, tenant: TenantId) -> Result<()> {
        let house = House::open(&self.directory)?;
        let sparse = self.sparse_lists();
        // Only root may.
        let _is_cold = std::fs::write("/proc/sys/vm/drop_caches", "3");
        let push = Arc::new(Door::new(house.stub()?));
        let node = house.start(push.clone()).await?;
        let run = house.clock.wall().0;
        let work = Work { node: &node, tenant, push: &push, run };
        // Tenants are numbered in the order in which they came.
        let other = Work { tenant: TenantId(tenant.0 + 1), ..work };
        let critical_idle = work.singles(Priority::Critical, MANY_SINGLES, 0).await?;
        let other_alone = other.singles(Priority::Normal, MANY_SINGLES, 0).await?;
        let (before, journal_before) = (work.sent(), node.health().counters.record_bytes);
        let meter = Meter::begin()?;
        work.post("dense", "dense").await?;
        for list in 0..sparse {
            work.post(&sparse_name(list), "sparse").await?;
        }
        work.drained().await?;
        let spent = meter.spent()?;
        work.audited().await?;
        let audited = meter.spent()?;
        let deliveries = work.sent() - before;
        let expected = DEVICES * (self.users / 10 + sparse * SPARSE_MEMBERS) * 9 / 10;
        ensure!(deliveries >= expected, "{deliveries} deliveries, at least {expected} were expected");
        let journal_bytes = (node.health().counters.record_bytes - journal_before) as f64;
        let guard_bytes = house.ledger_bytes().await? / deliveries as f64;
        let (accepted_seconds, direct_seconds) = work.direct(self.requests, self.users).await?;
        work.post("dense", "backlog").await?;
        let critical_busy = work.singles(Priority::Critical, self.critical, 1).await?;
        let busy_backlog = (DEVICES * self.users / 10) as f64;
        work.drained().await?;
        push.is_paced.store(true, Ordering::Relaxed);
        work.post("dense", "paced").await?;
        let critical_paced = work.singles(Priority::Critical, self.critical, 2).await?;
        let other_beside = other.singles(Priority::Normal, MANY_SINGLES, 1).await?;
        push.is_paced.store(false, Ordering::Relaxed);
        work.drained().await?;
        answer(&Delivered {
            deliveries: deliveries as f64,
            spent,
            audited,
            journal_bytes,
            critical_idle,
            critical_busy,
            critical_paced,
            busy_backlog,
            other_alone,
            other_beside,
            guard_bytes,
            recipients: (self.requests * 1_000) as f64,
            accepted_seconds,
            direct_seconds,
        });
        node.stop().await.map_err(refused)
    }
}

fn sparse_name(list: u64) -> String {
    format!("sparse-{list}")
}

fn refused(refusal: Refusal) -> anyhow::Error {
    anyhow!("{refusal}")
}
