//! Notifications over HTTP: single sends with their content, and requests with 1,000 recipients, each with variables of
//! its own for a template, rendered and frozen before the answer, then sent to one push device each.

use super::Span;
use crate::Bench;
use crate::http::{Answer, Target};
use crate::load::{self, Script, Until, Verdict};
use crate::people;
use crate::report::{FSYNC_BEFORE_202, Row};
use crate::scrape::Reading;
use crate::server::Server;
use anyhow::{Result, ensure};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const USERS: u64 = 10_000;
const RECIPIENTS: u64 = 1_000;
const SINGLE_CONNECTIONS: u64 = 256;
const MANY_CONNECTIONS: u64 = 8;
const MANY_REQUESTS: u64 = 300;
/// Devices are registered by so many at a time.
const REGISTRARS: u64 = 64;
const SEND_LIMIT: Duration = Duration::from_secs(120);
const TEMPLATE: &str = r#"{"id":"left","name":"Left","category":"orders","defaultLocale":"en",
    "schema":{"type":"object","properties":{"order":{"type":"string"},"name":{"type":"string"}},"required":["order","name"]},
    "channels":{"push":{"title":"Order {{ order }} is on its way, {{ name }}",
    "body":"We have packed everything that you wanted, and the parcel with the number {{ order }} has left our house this morning. It should be with you by the end of the week, {{ name }}; here you can see where it is."}}}"#;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let server = bench.serve("notify").await?;
    people::import_users(&server.target, USERS).await?;
    let next = Arc::new(AtomicU64::new(0));
    let devices = (0..REGISTRARS).map(|_| Devices {
        target: server.target.clone(),
        next: next.clone(),
        bytes: Vec::new(),
    });
    load::closed(server.address, devices.collect(), Until::Requests(USERS)).await?;
    let template = server.target.send("PUT", "/api/v1/templates/left", TEMPLATE.as_bytes());
    server.target.ask(&template, 201).await?;
    server.settle().await?;
    singles(bench, &server).await?;
    server.settle().await?;
    many(bench, &server).await?;
    server.stop().await
}

async fn singles(bench: &mut Bench, server: &Server) -> Result<()> {
    let scripts = (0..SINGLE_CONNECTIONS).map(|at| Single::new(&server.target, at)).collect();
    let span = Span::begin(server).await?;
    let outcome = load::closed(server.address, scripts, Until::After(bench.scale.accept_loop)).await?;
    let spent = span.end(server).await?;
    let (rate, done) = (outcome.per_second(), outcome.done);
    let latency = outcome.samples.summarise();
    let what = format!("single notifications to a device, closed loop, {SINGLE_CONNECTIONS} connections");
    bench.report.add(
        Row::new("notify", what, FSYNC_BEFORE_202)
            .fact("accepted", rate, "/s")
            .fact("p50", latency.p50_ms, " ms")
            .fact("p99", latency.p99_ms, " ms")
            .fact("server CPU, sending included", spent.cpu_us_per(done), " µs/request"),
    );
    Ok(())
}

async fn many(bench: &mut Bench, server: &Server) -> Result<()> {
    let requests = if bench.scale.quick { MANY_REQUESTS / 10 } else { MANY_REQUESTS };
    let before = server.metrics().await?.require(Reading::DeliveryAttempts)?;
    let scripts =
        (0..MANY_CONNECTIONS).map(|at| Many { target: server.target.clone(), no: at, bytes: Vec::new() });
    let span = Span::begin(server).await?;
    let began = Instant::now();
    let outcome = load::closed(server.address, scripts.collect(), Until::Requests(requests)).await?;
    let wanted = (outcome.done * RECIPIENTS) as f64;
    while server.metrics().await?.require(Reading::DeliveryAttempts)? < before + wanted {
        ensure!(began.elapsed() < SEND_LIMIT, "not everything is sent");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let sent = began.elapsed().as_secs_f64();
    let spent = span.end(server).await?;
    let accepted = wanted / outcome.elapsed.as_secs_f64().max(1e-9);
    let refused = outcome.busy as f64;
    bench.report.add(
        Row::new(
            "notify",
            "requests with 1,000 recipients, variables of their own, rendered, one push each",
            FSYNC_BEFORE_202,
        )
        .fact("accepted", accepted, " recipients/s")
        .fact("sent", wanted / sent, " recipients/s")
        .fact("server CPU, sending included", spent.cpu_us_per(wanted as u64), " µs/recipient")
        .fact("refused", refused, " requests")
        .at_least(50_000.0, accepted, " recipients/s"),
    );
    Ok(())
}

fn judged(answer: &Answer<'_>, expected: u16) -> Result<Verdict> {
    if answer.status == 503 {
        return Ok(Verdict::Busy);
    }
    answer.expect(expected)?;
    Ok(Verdict::Done)
}

/// Registers a device for the next user.
struct Devices {
    target: Target,
    next: Arc<AtomicU64>,
    bytes: Vec<u8>,
}

impl Script for Devices {
    fn next(&mut self) -> &[u8] {
        let no = self.next.fetch_add(1, Ordering::Relaxed);
        let body = format!(
            r#"{{"userId":"u{no:07}","deviceId":"phone","platform":"android","token":"stub:ok/{no}","consent":{{"granted":true,"version":"1"}}}}"#
        );
        self.bytes = self.target.send("POST", "/api/v1/devices", body.as_bytes());
        &self.bytes
    }

    fn judge(&mut self, answer: &Answer<'_>) -> Result<Verdict> {
        // One that is refused has no device, and what is sent to it would be waited for in vain.
        answer.expect(201)?;
        Ok(Verdict::Done)
    }
}

struct Single {
    target: Target,
    connection: u64,
    no: u64,
    bytes: Vec<u8>,
}

impl Single {
    fn new(target: &Target, connection: u64) -> Self {
        Self { target: target.clone(), connection, no: 0, bytes: Vec::new() }
    }
}

impl Script for Single {
    fn next(&mut self) -> &[u8] {
        self.no += 1;
        let (connection, no) = (self.connection, self.no);
        let user = crate::event::spread(connection << 32 | no) % USERS;
        let body = format!(
            r#"{{"notificationId":"s-{connection}-{no}","content":{{"title":"Your order has left","body":"{:0>240}"}},"recipients":[{{"userId":"u{user:07}"}}],"channels":["push"]}}"#,
            no
        );
        self.bytes = self.target.send("POST", "/api/v1/notifications", body.as_bytes());
        &self.bytes
    }

    fn judge(&mut self, answer: &Answer<'_>) -> Result<Verdict> {
        judged(answer, 202)
    }
}

struct Many {
    target: Target,
    no: u64,
    bytes: Vec<u8>,
}

impl Script for Many {
    fn next(&mut self) -> &[u8] {
        let no = self.no;
        self.no += MANY_CONNECTIONS;
        let mut body =
            format!(r#"{{"notificationId":"m-{no}","templateId":"left","channels":["push"],"recipients":["#);
        for at in 0..RECIPIENTS {
            let user = (no * RECIPIENTS + at) % USERS;
            let comma = if at > 0 { "," } else { "" };
            write!(body, r#"{comma}{{"userId":"u{user:07}","variables":{{"order":"{no:06}-{at:04}","name":"User {user}"}}}}"#)
                .expect("writing to a String cannot fail");
        }
        body.push_str("]}");
        self.bytes = self.target.send("POST", "/api/v1/notifications", body.as_bytes());
        &self.bytes
    }

    fn judge(&mut self, answer: &Answer<'_>) -> Result<Verdict> {
        judged(answer, 202)
    }
}
