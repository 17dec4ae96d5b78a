//! Other people's senders, as scripts over the packages that `make bench-peers` installs.

use super::Spent;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where `make bench-peers` puts the peers.
const VENV_PYTHON: &str = "target/bench-peers/bin/python";
const NODE_MODULES: &str = "target/bench-peers/node_modules";

/// What a script is told: where certificates are, where to send, for how long.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    pub directory: &'a Path,
    pub port: u16,
    pub limit: Duration,
}

/// `None` if the package is not installed.
pub fn node(package: &str, text: &str, task: Task<'_>) -> Result<Option<Spent>> {
    let modules = std::env::current_dir()?.join(NODE_MODULES);
    if !modules.join(package).exists() {
        return Ok(None);
    }
    let mut command = Command::new("node");
    command.env("NODE_PATH", modules).args(["-e", text]);
    run(command, task).map(Some)
}

/// `None` if the package is not installed.
pub fn python(package: &str, text: &str, task: Task<'_>) -> Result<Option<Spent>> {
    if !can_run(VENV_PYTHON, &["-c", &format!("import {package}")]) {
        return Ok(None);
    }
    let mut command = Command::new(PathBuf::from(VENV_PYTHON));
    command.args(["-c", text]);
    run(command, task).map(Some)
}

fn run(mut command: Command, task: Task<'_>) -> Result<Spent> {
    command.arg(task.directory).arg(task.port.to_string()).arg(task.limit.as_secs_f64().to_string());
    let output = command.stdin(Stdio::null()).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the script failed: {}", errors.lines().last().unwrap_or_default());
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).context("the script's answer does not parse")
}

pub fn can_run(program: &str, arguments: &[impl AsRef<OsStr>]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
