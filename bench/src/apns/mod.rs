//! Pushes to APNs over TLS and HTTP/2: what one costs us, on 1, 4 and 8 connections to a server that takes everything, beside
//! h2load as the floor and beside other people's senders.
//!
//! Rates are per core of the client: pushes divided by its own CPU time, since server and client share this machine's cores.
//! h2load sends the same request again and again, in which almost everything is an index into a table; ours differ in path,
//! id and body, as pushes do.

mod client;
mod echo;
mod server;

use crate::Bench;
use crate::report::Row;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub use client::System;
pub use server::run as serve;

const CONNECTIONS: [usize; 3] = [1, 4, 8];
const GOAL_PER_CORE: f64 = 60_000.0;
const TIMES_PEERS: f64 = 10.0;
const NODE_APN: &str = include_str!("node_apn.js");
const AIOAPNS: &str = include_str!("aioapns_push.py");
/// Where `make bench-peers` puts the peers.
const VENV_PYTHON: &str = "target/bench-peers/bin/python";
const NODE_MODULES: &str = "target/bench-peers/node_modules";
pub const NO_DURABILITY: &str = "none needed";
const START_LIMIT: Duration = Duration::from_secs(10);

pub async fn run(bench: &mut Bench) -> Result<()> {
    let directory = bench.work.join("apns");
    std::fs::create_dir_all(&directory)?;
    let server = Server::start(&directory, false)?;
    let limit = bench.scale.accept_loop;
    let mut of_one = 0.0;
    for connections in CONNECTIONS {
        let run = client::measure(&directory, server.port, connections, limit).await?;
        ensure!(run.connections == connections, "{} connections are open", run.connections);
        let spent = Spent {
            pushes: run.pushes as f64,
            seconds: run.elapsed.as_secs_f64(),
            cpu_seconds: run.cpu.as_secs_f64(),
        };
        if connections == 1 {
            of_one = spent.per_core();
        }
        let row = spent.row(format!("pushes, connections: {connections}"));
        bench.report.add(row.at_least(GOAL_PER_CORE, spent.per_core(), "/s per core"));
    }
    for connections in CONNECTIONS {
        let name = format!("beside: h2load, the same request always, connections: {connections}");
        match h2load(&directory, server.port, connections, limit)? {
            Some(spent) => bench.report.add(spent.row(name)),
            None => bench.report.add(missing("apns", name, "h2load is not installed: `make bench-peers`")),
        }
    }
    drop(server);
    let server = Server::start(&directory, true)?;
    for (name, found) in [
        (
            "beside: @parse/node-apn, one connection",
            node_script("@parse/node-apn", NODE_APN, &directory, server.port, limit)?,
        ),
        ("beside: aioapns, one connection", aioapns(&directory, server.port, limit)?),
    ] {
        match found {
            Some(spent) => {
                let goal = spent.per_core() * TIMES_PEERS;
                bench.report.add(spent.row(name).at_least(goal, of_one, "/s per core by ours"));
            }
            None => bench.report.add(missing("apns", name, "it is not installed: `make bench-peers`")),
        }
    }
    Ok(())
}

/// What a sender did, and what it took of the processor.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
pub struct Spent {
    pub pushes: f64,
    pub seconds: f64,
    pub cpu_seconds: f64,
}

impl Spent {
    pub fn per_core(&self) -> f64 {
        self.pushes / self.cpu_seconds.max(1e-9)
    }

    fn row(&self, name: impl Into<String>) -> Row {
        Row::new("apns", name, NO_DURABILITY)
            .fact("per core", self.per_core(), "/s")
            .fact("CPU", self.cpu_seconds * 1e6 / self.pushes.max(1.0), " µs each")
            .fact("beside its server", self.pushes / self.seconds.max(1e-9), "/s")
    }
}

pub fn missing(scenario: &'static str, name: impl Into<String>, advice: &str) -> Row {
    Row::new(scenario, name, NO_DURABILITY).note(advice)
}

/// The process that takes everything; ends with this.
pub struct Server {
    child: Child,
    pub port: u16,
}

impl Server {
    pub fn start(directory: &Path, echoes: bool) -> Result<Self> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command.arg("apns-server").arg(directory).args(echoes.then_some("--echoes"));
        let old = directory.join("port");
        if old.exists() {
            std::fs::remove_file(old)?;
        }
        let mut child = command.spawn()?;
        let (file, began) = (directory.join("port"), Instant::now());
        while !file.exists() {
            ensure!(child.try_wait()?.is_none(), "the server that takes everything has ended");
            ensure!(began.elapsed() < START_LIMIT, "the server that takes everything does not start");
            std::thread::yield_now();
        }
        let port = std::fs::read_to_string(&file)?.parse().context("no port")?;
        Ok(Self { child, port })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// For as long as ours, by its own measure of how many it can do.
fn h2load(directory: &Path, port: u16, connections: usize, limit: Duration) -> Result<Option<Spent>> {
    if !can_run("h2load", &["--version"]) {
        return Ok(None);
    }
    let body = directory.join("body.json");
    std::fs::write(
        &body,
        format!(
            r#"{{"aps":{{"alert":{{"body":"2 parcels for you","title":"Order A-42 is on its way"}}}},"orderId":"A-42","fantail":{{"reference":"{:0>38}"}}}}"#,
            1
        ),
    )?;
    let headers = [
        format!("authorization: bearer {:a>200}", "a"),
        "apns-topic: com.example.app".to_owned(),
        "apns-push-type: alert".to_owned(),
        "apns-priority: 10".to_owned(),
        "apns-expiration: 1900000000".to_owned(),
        "apns-collapse-id: order-42".to_owned(),
        "apns-id: 00000000-0000-4000-8000-000000000000".to_owned(),
    ];
    let mut command = Command::new("h2load");
    command.args(["-t1", "-m500", &format!("-c{connections}"), &format!("-D{}", limit.as_secs().max(1))]);
    command.arg(format!("--data={}", body.display()));
    for header in &headers {
        command.args(["-H", header]);
    }
    command.arg(format!("https://localhost:{port}/3/device/{:0>64}", 1));
    let before = children_cpu()?;
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    let (seconds, cpu_seconds) = (began.elapsed().as_secs_f64(), children_cpu()? - before);
    let text = String::from_utf8_lossy(&output.stdout);
    let done =
        text.lines().find_map(|line| line.split(", ").find_map(|part| part.strip_suffix(" succeeded")));
    let pushes = done.and_then(|done| done.parse().ok()).context("h2load says nothing")?;
    Ok(Some(Spent { pushes, seconds, cpu_seconds }))
}

/// CPU time of all children that have ended.
fn children_cpu() -> Result<f64> {
    let own = crate::process::own_cpu()?;
    Ok(crate::process::family_cpu_of_ended(std::process::id())?.saturating_sub(own).as_secs_f64())
}

/// A script of Node over a package of the peers; `None` if that is not installed.
pub fn node_script(
    package: &str,
    text: &str,
    directory: &Path,
    port: u16,
    limit: Duration,
) -> Result<Option<Spent>> {
    let modules = std::env::current_dir()?.join(NODE_MODULES);
    if !modules.join(package).exists() {
        return Ok(None);
    }
    let mut command = Command::new("node");
    command.env("NODE_PATH", modules).args(["-e", text]);
    script(command, directory, port, limit).map(Some)
}

fn aioapns(directory: &Path, port: u16, limit: Duration) -> Result<Option<Spent>> {
    if !can_run(VENV_PYTHON, &["-c", "import aioapns"]) {
        return Ok(None);
    }
    let mut command = Command::new(PathBuf::from(VENV_PYTHON));
    command.args(["-c", AIOAPNS]);
    script(command, directory, port, limit).map(Some)
}

fn script(mut command: Command, directory: &Path, port: u16, limit: Duration) -> Result<Spent> {
    command.arg(directory).arg(port.to_string()).arg(limit.as_secs_f64().to_string());
    let output = command.stdin(Stdio::null()).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the script failed: {}", errors.lines().last().unwrap_or_default());
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).context("the script's answer does not parse")
}

fn can_run(program: &str, arguments: &[impl AsRef<OsStr>]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
