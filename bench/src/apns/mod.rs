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
use crate::sending::scripts::{Task, can_run, node, python};
use crate::sending::{Spent, Taker, missing};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub use server::run as serve;

const CONNECTIONS: [usize; 3] = [1, 4, 8];
const GOAL_PER_CORE: f64 = 60_000.0;
const TIMES_PEERS: f64 = 10.0;
const NODE_APN: &str = include_str!("node_apn.js");
const AIOAPNS: &str = include_str!("aioapns_push.py");

pub async fn run(bench: &mut Bench) -> Result<()> {
    let directory = bench.work.join("apns");
    std::fs::create_dir_all(&directory)?;
    let server = Taker::start(&["apns-server"], &directory)?;
    let limit = bench.scale.accept_loop;
    let mut of_one = 0.0;
    for connections in CONNECTIONS {
        let spent = client::run(&directory, server.port, connections, limit).await?;
        if connections == 1 {
            of_one = spent.per_core();
        }
        let row = spent.row("apns", format!("pushes, connections: {connections}"));
        bench.report.add(row.at_least(GOAL_PER_CORE, spent.per_core(), "/s per core"));
    }
    for connections in CONNECTIONS {
        let name = format!("beside: h2load, the same request always, connections: {connections}");
        match h2load(&directory, server.port, connections, limit)? {
            Some(spent) => bench.report.add(spent.row("apns", name)),
            None => bench.report.add(missing("apns", name, "h2load is not installed: `make bench-peers`")),
        }
    }
    drop(server);
    let server = Taker::start(&["apns-server", "--echoes"], &directory)?;
    let task = Task { directory: &directory, port: server.port, limit };
    for (name, found) in [
        ("beside: @parse/node-apn, one connection", node("@parse/node-apn", NODE_APN, task)?),
        ("beside: aioapns, one connection", python("aioapns", AIOAPNS, task)?),
    ] {
        match found {
            Some(spent) => {
                let goal = spent.per_core() * TIMES_PEERS;
                bench.report.add(spent.row("apns", name).at_least(goal, of_one, "/s per core by ours"));
            }
            None => bench.report.add(missing("apns", name, "it is not installed: `make bench-peers`")),
        }
    }
    Ok(())
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
