//! Fairness: how long a quiet tenant's sends take from the request until the provider has them, alone and beside another
//! tenant that does its worst.
//!
//! Each attack has a server of its own, on which the quiet tenant is measured before the attack begins and while it goes on.
//! An attack of which nothing was accepted is no measurement, and fails.

mod attacks;

mod attackers;
mod receiver;

pub use attacks::Attack;

use crate::Bench;
use crate::http::{Connection, Target};
use crate::quantiles::{Samples, Summary};
use crate::report::{FSYNC_BEFORE_202, Row};
use crate::scenarios::{Span, Spent};
use crate::server::Server;
use anyhow::{Context, Result, bail, ensure};
use attackers::{Attacked, Attackers};
use attacks::{LOUD_USERS, prepare};
use receiver::Receiver;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The p99 beside an attack may be so many times the one alone.
const RATIO_MAX: f64 = 2.0;
const QUIET_USERS: u64 = 20;
/// Sends of the quiet tenant that are under way at a time.
const STREAMS: u64 = 4;
/// Sends that are not measured: the first ones wait for addresses to be granted.
const FIRST_SENDS: u64 = 100;
const SENT_LIMIT: Duration = Duration::from_secs(20);
/// A round that takes longer ends with fewer sends.
const ROUND_LIMIT: Duration = Duration::from_secs(60);
/// An attack goes on for so long before the quiet tenant is measured beside it.
const LEAD: Duration = Duration::from_secs(3);
const REGISTRARS: u64 = 16;
const WEBHOOK_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// By what users are reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reached {
    /// A device with a token that begins like this.
    Push(&'static str),
    Mail,
    Webhook {
        is_answered: bool,
    },
}

impl Reached {
    pub fn channel(self) -> &'static str {
        match self {
            Self::Push(_) => "push",
            Self::Mail => "email",
            Self::Webhook { .. } => "webhook",
        }
    }
}

/// One attack, measured.
struct Found {
    alone: Summary,
    beside: Summary,
    spent: Spent,
    attacked: Attacked,
}

impl Found {
    fn ratio(&self) -> f64 {
        self.beside.p99_ms / self.alone.p99_ms.max(0.001)
    }

    fn row(&self, attack: Attack) -> Row {
        let Self { alone, beside, spent, attacked } = self;
        let channel = attack.quiet().channel();
        let what =
            format!("a quiet tenant's sends by {channel}, until they are sent, beside {}", attack.name());
        let row = Row::new("fairness", what, FSYNC_BEFORE_202)
            .fact("p50 alone", alone.p50_ms, " ms")
            .fact("p50 beside", beside.p50_ms, " ms")
            .fact("p99 alone", alone.p99_ms, " ms")
            .fact("p99 beside", beside.p99_ms, " ms")
            .fact("p99 ratio", self.ratio(), "")
            .fact("sends beside", beside.count as f64, "")
            .fact("attack accepted", attacked.accepted as f64, "")
            .fact("attack accepted per second", attacked.accepted as f64 / attacked.seconds.max(1e-9), "/s")
            .fact("attack refused", attacked.refused as f64, "")
            .fact("attack connections broken", attacked.broken as f64, "")
            .fact("server CPU", 100.0 * spent.server_cpu.as_secs_f64() / spent.elapsed.as_secs_f64(), " %")
            .fact("generator CPU", spent.own_cpu_percent(), " %")
            .at_most(RATIO_MAX, self.ratio(), "");
        match &attacked.first_refusal {
            Some(refusal) => row.note(format!("refused first with {refusal}")),
            None => row,
        }
    }
}

/// All attacks that are wanted; one that fails does not stop the others.
pub async fn run(bench: &mut Bench) -> Result<()> {
    let (mut worst, mut failed) = (0.0_f64, Vec::new());
    let attacks = bench.scale.attacks.clone();
    for attack in &attacks {
        match measure(bench, *attack).await {
            Ok(found) => {
                worst = worst.max(found.ratio());
                bench.report.add(found.row(*attack));
            }
            Err(error) => {
                eprintln!("bench: fairness, {attack:?} failed: {error:#}");
                bench.report.failed("fairness", &error.context(attack.name()));
                failed.push(*attack);
            }
        }
    }
    let what = format!("the largest ratio of {} attacks", attacks.len() - failed.len());
    let row = Row::new("fairness", what, FSYNC_BEFORE_202).fact("p99 ratio", worst, "");
    bench.report.add(row.at_most(RATIO_MAX, worst, ""));
    if failed.is_empty() { Ok(()) } else { bail!("attacks failed: {failed:?}") }
}

async fn measure(bench: &Bench, attack: Attack) -> Result<Found> {
    let (sends, lead) = if bench.scale.quick { (200, LEAD / 3) } else { (2_000, LEAD) };
    let receiver = Receiver::start().await?;
    let settings = receiver.settings();
    let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
    let data = bench.work.join("fairness");
    let server = Server::start_with(&bench.binary, &data, &settings).await?;
    let loud = server.target.clone();
    let quiet = Quiet { target: server.create_tenant("quiet").await?, channel: attack.quiet().channel() };
    people(&loud, "loud", LOUD_USERS, attack.loud(), &receiver).await?;
    people(&quiet.target, "quiet", QUIET_USERS, attack.quiet(), &receiver).await?;
    prepare(attack, &loud, &receiver).await?;
    quiet.round("first", FIRST_SENDS).await?;
    let alone = quiet.round("alone", sends).await?;
    let attackers = Attackers::begin(attack, &server, &loud)?;
    tokio::time::sleep(lead).await;
    let span = Span::begin(&server).await?;
    let beside = quiet.round("beside", sends).await?;
    let spent = span.end(&server).await?;
    let attacked = attackers.stop()?;
    ensure!(attacked.accepted > 0, "the attack did nothing: {attacked}");
    ensure!(!attack.needs_receiver() || receiver.held() > 0, "nothing hangs: {attacked}");
    server.kill()?;
    receiver.stop();
    std::fs::remove_dir_all(&data)?;
    Ok(Found { alone, beside, spent, attacked })
}

fn post(target: &Target, path: &str, body: &Value) -> Vec<u8> {
    target.send("POST", path, body.to_string().as_bytes())
}

/// Users who can be reached by one endpoint each.
async fn people(
    target: &Target,
    name: &'static str,
    count: u64,
    by: Reached,
    receiver: &Receiver,
) -> Result<()> {
    let mut registrars = JoinSet::new();
    for first in 0..REGISTRARS {
        let mut requests = Vec::new();
        for no in (first..count).step_by(REGISTRARS as usize) {
            let user = format!("{name}{no}");
            let profile = match by {
                Reached::Mail => json!({"email": format!("{user}@example.com")}).to_string(),
                Reached::Push(_) | Reached::Webhook { .. } => String::new(),
            };
            requests.push(target.send("PUT", &format!("/api/v1/users/{user}"), profile.as_bytes()));
            requests
                .extend(device(by, &user, receiver).map(|device| post(target, "/api/v1/devices", &device)));
        }
        let address = target.address;
        registrars.spawn(async move {
            let mut connection = Connection::open(address).await?;
            for request in requests {
                connection.exchange(&request).await?.expect(201)?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(registered) = registrars.join_next().await {
        registered??;
    }
    Ok(())
}

fn device(by: Reached, user: &str, receiver: &Receiver) -> Option<Value> {
    match by {
        Reached::Mail => None,
        Reached::Push(token) => Some(json!({"userId": user, "deviceId": "phone", "platform": "android",
            "token": format!("{token}/{user}"), "consent": {"granted": true, "version": "1"}})),
        Reached::Webhook { is_answered } => {
            Some(json!({"userId": user, "deviceId": "hook", "kind": "webhook",
            "url": receiver.url(is_answered, user), "secret": WEBHOOK_SECRET}))
        }
    }
}

/// The tenant that is measured.
#[derive(Clone)]
struct Quiet {
    target: Target,
    channel: &'static str,
}

impl Quiet {
    async fn round(&self, round: &'static str, sends: u64) -> Result<Summary> {
        let (mut streams, began) = (JoinSet::new(), Instant::now());
        for first in 0..STREAMS {
            let quiet = self.clone();
            streams.spawn(async move {
                let mut connection = Connection::open(quiet.target.address).await?;
                let mut samples = Samples::default();
                for no in (first..sends).step_by(STREAMS as usize) {
                    if began.elapsed() >= ROUND_LIMIT {
                        break;
                    }
                    samples.record(quiet.send_one(&mut connection, &format!("{round}-{no}"), no).await?);
                }
                anyhow::Ok(samples)
            });
        }
        let mut all = Samples::default();
        while let Some(samples) = streams.join_next().await {
            all.merge(samples?.with_context(|| format!("the quiet tenant, {round}"))?);
        }
        Ok(all.summarise())
    }

    /// From the request until the status says that it is sent.
    async fn send_one(&self, connection: &mut Connection, id: &str, no: u64) -> Result<Duration> {
        let user = format!("quiet{}", no % QUIET_USERS);
        let body = json!({"notificationId": id, "content": {"title": "Quiet"}, "recipients": [{"userId": user}],
            "channels": [self.channel]});
        let began = Instant::now();
        connection.exchange(&post(&self.target, "/api/v1/notifications", &body)).await?.expect(202)?;
        let status = self.target.get(&format!("/api/v1/notifications/{id}/status"));
        loop {
            let answer = connection.exchange(&status).await?;
            answer.expect(200)?;
            let found: Value = serde_json::from_slice(answer.body).context("a status")?;
            if found["channels"][0]["counts"]["sent"] == 1 {
                return Ok(began.elapsed());
            }
            ensure!(began.elapsed() < SENT_LIMIT, "{id} is not sent: {found}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
