//! Peers that are driven from Python: SQLite, which comes with it, and Stream-Framework on a private Redis. The
//! scripts read the lists from a file and print one line of JSON.

use super::redis::{self, Server};
use super::{Peer, Ready, Turn, Work};
use crate::process;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SQLITE: &str = include_str!("sqlite.py");
const STREAM: &str = include_str!("stream.py");
/// Where `make bench-peers` puts Stream-Framework.
const VENV_PYTHON: &str = "target/bench-peers/bin/python";

pub fn peers(work: &Work, directory: &Path) -> Result<Vec<Peer>> {
    let lists = directory.join("lists");
    write_lists(work, &lists)?;
    Ok(vec![sqlite(*work, lists.clone()), stream(*work, lists)])
}

/// Each list as its length and its members, eight bytes each.
fn write_lists(work: &Work, file: &Path) -> Result<()> {
    let mut bytes = Vec::new();
    for list in work.lists() {
        bytes.extend((list.len() as u64).to_le_bytes());
        list.iter().for_each(|user| bytes.extend(user.to_le_bytes()));
    }
    Ok(std::fs::write(file, bytes)?)
}

fn sqlite(work: Work, lists: PathBuf) -> Peer {
    let name = "SQLite, small rows".to_owned();
    if !can_import("python3", "sqlite3") {
        let advice = "python3 with its sqlite3 module is not installed: `apt-get install python3`".to_owned();
        return Peer::Missing { name, advice };
    }
    let turn = move |directory: &Path| {
        let database = directory.join("inbox.sqlite");
        let found = run("python3", SQLITE, &work, &lists, &database.display().to_string())?;
        let bytes = process::disk_bytes(directory) as f64;
        Ok(Turn { bytes: Some(bytes), ..found })
    };
    Peer::Ready(Ready { name, durability: "WAL, fsync per event", goal: None, turn: Box::new(turn) })
}

fn stream(work: Work, lists: PathBuf) -> Peer {
    let name = "Stream-Framework on Redis, AOF everysec".to_owned();
    if !redis::is_installed() {
        return Peer::Missing { name, advice: redis::ADVICE.to_owned() };
    }
    if !can_import(VENV_PYTHON, "stream_framework.feeds.redis") {
        let advice = format!("{VENV_PYTHON} does not have it: `make bench-peers`");
        return Peer::Missing { name, advice };
    }
    let turn = move |directory: &Path| {
        let server = Server::start(directory, "everysec")?;
        let before = process::family_cpu(server.child.id())?;
        let turn = run(VENV_PYTHON, STREAM, &work, &lists, &server.port.to_string())?;
        let redis_cpu = process::family_cpu(server.child.id())?.saturating_sub(before);
        // Most of what it costs is its own Python, which is what it is.
        Ok(Turn { cpu_seconds: turn.cpu_seconds + redis_cpu.as_secs_f64(), ..turn })
    };
    Peer::Ready(Ready { name, durability: "AOF fsynced every second", goal: None, turn: Box::new(turn) })
}

fn can_import(python: &str, module: &str) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", &format!("import {module}")]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// `place` is whatever the script writes to.
fn run(python: &str, script: &str, work: &Work, lists: &Path, place: &str) -> Result<Turn> {
    let mut command = Command::new(python);
    command.args(["-c", script]).arg(lists).arg(place);
    command.args([work.events.to_string(), (work.limit().as_secs_f64()).to_string()]);
    let output = command.stdin(Stdio::null()).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the script failed: {}", errors.lines().last().unwrap_or_default());
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).context("the script's answer does not parse")
}
