//! Fairness: how long a quiet tenant's sends take from the request until the provider has them, alone and beside another
//! tenant that does its worst.
//!
//! Each attack has a server of its own, on which the quiet tenant is measured before the attack begins and while it goes on.

mod attacks;

use crate::Bench;
use crate::http::{Connection, Target};
use crate::quantiles::{Samples, Summary};
use crate::report::{FSYNC_BEFORE_202, Row};
use crate::server::Server;
use anyhow::{Context, Result, ensure};
use attacks::{Attack, HangingReceiver, LOUD_USERS, begin, prepare};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The p99 beside an attack may be so many times the one alone.
const RATIO_MAX: f64 = 2.0;
const QUIET_USERS: u64 = 20;
/// Recipients of one request.
const TOGETHER: u64 = 1_000;
/// Sends of the quiet tenant that are under way at a time.
const STREAMS: u64 = 4;
const SENT_LIMIT: Duration = Duration::from_secs(20);
const REGISTRARS: u64 = 16;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let sends = if bench.scale.quick { 200 } else { 2_000 };
    let mut worst = 0.0_f64;
    for attack in Attack::ALL {
        let receiver = HangingReceiver::start().await?;
        let settings = receiver.settings();
        let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
        let data = bench.work.join(format!("fairness-{}", attack as u8));
        let server = Server::start_with(&bench.binary, &data, &settings).await?;
        let (loud, quiet) = (server.target.clone(), server.create_tenant("quiet").await?);
        people(&loud, "loud", LOUD_USERS, attack.token()).await?;
        people(&quiet, "quiet", QUIET_USERS, "stub:ok").await?;
        prepare(attack, &loud, &receiver).await?;
        let alone = measure(&quiet, "alone", sends).await?;
        let mut attackers = begin(attack, &server, &loud);
        let beside = measure(&quiet, "beside", sends).await?;
        if let Some(ended) = attackers.try_join_next() {
            ended?.with_context(|| format!("{} ended early", attack.name()))?;
        }
        attackers.abort_all();
        while attackers.join_next().await.is_some() {}
        let ratio = beside.p99_ms / alone.p99_ms.max(0.001);
        worst = worst.max(ratio);
        let what = format!("a quiet tenant's pushes, until the provider has them, beside {}", attack.name());
        bench.report.add(
            Row::new("fairness", what, FSYNC_BEFORE_202)
                .fact("p99 alone", alone.p99_ms, " ms")
                .fact("p99 beside", beside.p99_ms, " ms")
                .fact("p99 ratio", ratio, "")
                .at_most(RATIO_MAX, ratio, ""),
        );
        server.kill()?;
        receiver.stop();
    }
    eprintln!("bench: fairness: the largest ratio is {worst:.2}");
    Ok(())
}

fn post(target: &Target, path: &str, body: &Value) -> Vec<u8> {
    target.send("POST", path, body.to_string().as_bytes())
}

/// Users with a device each.
async fn people(target: &Target, name: &'static str, count: u64, token: &'static str) -> Result<()> {
    let mut registrars = JoinSet::new();
    for first in 0..REGISTRARS {
        let target = target.clone();
        registrars.spawn(async move {
            for no in (first..count).step_by(REGISTRARS as usize) {
                let user = format!("{name}{no}");
                target.ask(&target.send("PUT", &format!("/api/v1/users/{user}"), b""), 201).await?;
                let device = json!({"userId": user, "deviceId": "phone", "platform": "android",
                    "token": format!("{token}/{user}"), "consent": {"granted": true, "version": "1"}});
                target.ask(&post(&target, "/api/v1/devices", &device), 201).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(registered) = registrars.join_next().await {
        registered??;
    }
    Ok(())
}

async fn measure(quiet: &Target, round: &'static str, sends: u64) -> Result<Summary> {
    let mut streams = JoinSet::new();
    for first in 0..STREAMS {
        let quiet = quiet.clone();
        streams.spawn(async move {
            let mut connection = Connection::open(quiet.address).await?;
            let mut samples = Samples::default();
            for no in (first..sends).step_by(STREAMS as usize) {
                samples.record(send_one(&quiet, &mut connection, &format!("{round}-{no}"), no).await?);
            }
            anyhow::Ok(samples)
        });
    }
    let mut all = Samples::default();
    while let Some(samples) = streams.join_next().await {
        all.merge(samples??);
    }
    Ok(all.summarise())
}

/// From the request until the status says that it is sent.
async fn send_one(quiet: &Target, connection: &mut Connection, id: &str, no: u64) -> Result<Duration> {
    let user = format!("quiet{}", no % QUIET_USERS);
    let body = json!({"notificationId": id, "content": {"title": "Quiet"}, "recipients": [{"userId": user}], "channels": ["push"]});
    let began = Instant::now();
    connection.exchange(&post(quiet, "/api/v1/notifications", &body)).await?.expect(202)?;
    let status = quiet.get(&format!("/api/v1/notifications/{id}/status"));
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
