//! A bulk send to everybody, by the real binary: how fast it passes users, what memory it needs, and that nothing is lost or told
//! twice when it is killed over and over.
//!
//! Users are brought in as facts before; every n-th of them has a device that the stub answers for. Two sends follow: one that is
//! left alone and measured, and one that is killed (kill -9) at moments spread by chance over its walk. The second is judged by
//! `judge`: by what the server says of every recipient, and by the stub's own record of what arrived.

mod judge;

use crate::Bench;
use crate::deliveries::house::House;
use crate::deliveries::import::Import;
use crate::process;
use crate::report::Row;
use crate::scrape::Reading;
use crate::server::{Server, log_of};
use anyhow::{Context, Result, ensure};
use fantail_machine::tables::root;
use fantail_ports::store::Store;
use fantail_rules::ids::{PartitionId, TenantId};
use fantail_rules::limits::WALK_RATE_MAX;
use judge::{Judged, Judging};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What columns take, and what everything else of a walk may.
const COLUMN_BYTES: u64 = 32;
const ROOM_BYTES: u64 = 128 << 20;
/// The shortest time that the send takes which is killed.
const KILLED_S: u64 = 20;

/// How many users, how many of them have a device, and how often the second send is killed.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    pub users: u64,
    /// Every so many-th has a device.
    pub told_every: u64,
    pub kills: u64,
}

impl Crowd {
    fn members(&self) -> u64 {
        self.users.div_ceil(self.told_every)
    }
}

pub async fn run(bench: &mut Bench) -> Result<()> {
    let crowd = bench.scale.bulk;
    let place = Place { data: bench.work.join("bulk"), arrivals: bench.work.join("bulk-arrivals") };
    fill(bench, &place, crowd).await?;
    alone(bench, &place, crowd).await?;
    if crowd.kills == 0 { Ok(()) } else { killed(bench, &place, crowd).await }
}

struct Place {
    data: PathBuf,
    arrivals: PathBuf,
}

impl Place {
    /// With a stub that writes down what arrives.
    async fn serve(&self, binary: &Path) -> Result<Server> {
        let arrivals = self.arrivals.to_str().context("a path that is no text")?;
        Server::start_with(binary, &self.data, &[("FANTAIL_DELIVERY_STUB_ARRIVALS", arrivals)]).await
    }
}

/// A tenant by the server itself, and its users as facts.
async fn fill(bench: &mut Bench, place: &Place, crowd: Crowd) -> Result<()> {
    Server::start(&bench.binary, &place.data).await?.stop().await?;
    let began = Instant::now();
    let house = House::open(&place.data)?;
    let mut tenants = Ok(Vec::new());
    house.store.read(PartitionId::Root, &mut |state| tenants = root::tenants(state.tables()))?;
    let tenant: TenantId = tenants?.first().context("the server made no tenant")?.id;
    let mut import = Import::new(&house, tenant).await?;
    import.users(crowd.users, &|no| u16::from(no.is_multiple_of(crowd.told_every))).await?;
    drop(import);
    house.close()?;
    drop(house);
    let bytes = process::disk_bytes(&place.data);
    let row = Row::new("bulk", format!("{} users brought in", crowd.users), "sync points")
        .fact("users", crowd.users as f64 / began.elapsed().as_secs_f64(), "/s")
        .fact("disk", bytes as f64, " B")
        .fact("each", bytes as f64 / crowd.users as f64, " B");
    bench.report.add(row);
    Ok(())
}

/// Nobody disturbs it.
async fn alone(bench: &mut Bench, place: &Place, crowd: Crowd) -> Result<()> {
    let server = Server::start(&bench.binary, &place.data).await?;
    let job = Job::new(&server, crowd);
    job.caught_up().await?;
    let idle_bytes = server.usage()?.resident_bytes;
    let journal = server.metrics().await?.require(Reading::JournalBytes)?;
    let id = job.create("alone", None).await?;
    let began = Instant::now();
    let done = job.until(&id, |found| found["status"] == "done").await?;
    let elapsed = began.elapsed().as_secs_f64();
    let members = crowd.members();
    ensure!(
        done["members"] == members && done["lookedAt"] == crowd.users,
        "not everybody was passed: {done}"
    );
    let journal = server.metrics().await?.require(Reading::JournalBytes)? - journal;
    let peak = server.peak_bytes().context("the kernel does not tell the peak")?;
    let base = idle_bytes + COLUMN_BYTES * crowd.users;
    let row = Row::new("bulk", format!("{members} of {} users told", crowd.users), "fsync")
        .fact("members", members as f64 / elapsed, "/s")
        .fact("users", crowd.users as f64 / elapsed, "/s")
        .fact("took", elapsed, " s")
        .fact("journal", journal / members as f64, " B each")
        .fact("idle", idle_bytes as f64, " B")
        .fact("peak", peak as f64, " B")
        .fact("above base", peak as f64 - base as f64, " B");
    bench.report.add(row.at_most((base + ROOM_BYTES) as f64, peak as f64, " B"));
    server.stop().await
}

/// Killed at moments by chance, and judged.
async fn killed(bench: &mut Bench, place: &Place, crowd: Crowd) -> Result<()> {
    let mut server = place.serve(&bench.binary).await?;
    let bound = bound_of(&place.data)?;
    // Slow enough for the kills to meet it on its way.
    let pace = (crowd.members() / KILLED_S).clamp(1, u64::from(WALK_RATE_MAX));
    let id = Job::new(&server, crowd).create("killed", Some(pace)).await?;
    let (began, mut peak, mut chance) = (Instant::now(), 0, Chance::seeded());
    for kill in 0..crowd.kills {
        let share = crowd.users / crowd.kills;
        let at = kill * share + chance.below(share.max(1));
        let job = Job::new(&server, crowd);
        job.until(&id, |found| found["lookedAt"].as_u64() >= Some(at) || found["status"] == "done").await?;
        peak = peak.max(server.peak_bytes().unwrap_or_default());
        server.kill()?;
        server = place.serve(&bench.binary).await?;
    }
    let job = Job::new(&server, crowd);
    let done = job.until(&id, |found| found["status"] == "done").await?;
    let elapsed = began.elapsed().as_secs_f64();
    peak = peak.max(server.peak_bytes().unwrap_or_default());
    ensure!(
        done["members"] == crowd.members() && done["lookedAt"] == crowd.users,
        "a gap or a repeat: {done}"
    );
    let judging = Judging { target: &server.target, id: &id, arrivals: &place.arrivals, crowd };
    let Judged { sent, unconfirmed, arrived, copies } = judging.judge().await?;
    server.stop().await?;
    let unseen = crowd.members() - arrived;
    ensure!(copies == 0, "{copies} copies too many");
    ensure!(sent + unconfirmed == crowd.members(), "{sent} sent and {unconfirmed} unconfirmed: {done}");
    ensure!(unseen <= unconfirmed, "{unseen} were not told, and {unconfirmed} are listed as unconfirmed");
    let allowed = bound * crowd.kills;
    let row = Row::new("bulk", format!("killed {} times, {} told", crowd.kills, crowd.members()), "fsync")
        .fact("took", elapsed, " s")
        .fact("sent", sent as f64, "")
        .fact("unconfirmed", unconfirmed as f64, "")
        .fact("never seen", unseen as f64, "")
        .fact("copies", copies as f64, "")
        .fact("peak", peak as f64, " B")
        .note(format!("seed {}", chance.seed));
    bench.report.add(row.at_most(allowed as f64, unconfirmed as f64, ""));
    Ok(())
}

/// How many deliveries one crash may leave ambiguous, as the server said when it started.
fn bound_of(data: &Path) -> Result<u64> {
    let log = log_of(data);
    let line = log.lines().find(|line| line.contains("ambiguous after a crash"));
    let line = line.context("the server did not say how much a crash may leave ambiguous")?;
    let number = line.split("per_channel=").nth(1).context("it said no number")?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().context("it said no number")
}

/// Bulk sends as a producer sees them.
struct Job<'a> {
    server: &'a Server,
    crowd: Crowd,
}

impl<'a> Job<'a> {
    fn new(server: &'a Server, crowd: Crowd) -> Self {
        Self { server, crowd }
    }

    /// Nothing of what came before is left to be done.
    async fn caught_up(&self) -> Result<()> {
        while self.server.metrics().await?.require(Reading::AuditLag)? > 0.0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.server.settle().await
    }

    async fn create(&self, name: &str, per_second: Option<u64>) -> Result<String> {
        let target = &self.server.target;
        let segment = json!({"filter": "everyone"}).to_string();
        let put = target.send("PUT", "/api/v1/segments/everybody", segment.as_bytes());
        // New, or the same as before.
        if target.ask(&put, 201).await.is_err() {
            target.ask(&put, 200).await?;
        }
        let mut body = json!({"notificationId": name, "recipientQuery": {"segment": "everybody"},
            "channels": ["push"], "content": {"title": "Sale"}});
        if let Some(per_second) = per_second {
            body["ratePerSecond"] = json!(per_second);
        }
        let create = target.send("POST", "/api/v1/notifications/bulk", body.to_string().as_bytes());
        let accepted: Value = serde_json::from_slice(&target.ask(&create, 202).await?)?;
        Ok(accepted["eventId"].as_str().context("no id")?.to_owned())
    }

    /// Looks until it is so.
    async fn until(&self, id: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        let target = &self.server.target;
        let look = target.get(&format!("/api/v1/notifications/bulk/{id}"));
        loop {
            let found: Value = serde_json::from_slice(&target.ask(&look, 200).await?)?;
            ensure!(found["lookedAt"].as_u64() <= Some(self.crowd.users), "more than everybody: {found}");
            if is_so(&found) {
                return Ok(found);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Numbers that look as if by chance; the seed is shown.
struct Chance {
    seed: u64,
    state: u64,
}

impl Chance {
    fn seeded() -> Self {
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seed = seed.map_or(1, |passed| passed.subsec_nanos().into());
        Self { seed, state: seed }
    }

    fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}
