//! Work that is measured runs in a process of its own, so that its CPU time, memory and bytes are its own: this
//! program again, with a hidden command and the job as JSON. Its answer is the last line it prints.

use super::fill::Fill;
use super::follows::Follows;
use super::large::Large;
use super::reads::Reads;
use super::recover::Recover;
use crate::deliveries::Deliver;
use crate::deliveries::sweep::Sweep;
use crate::peers::{embedded::Embedded, raw::Raw};
use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Job {
    Fill(Fill),
    Recover(Recover),
    Reads(Reads),
    Follows(Follows),
    Large(Large),
    Raw(Raw),
    Embedded(Embedded),
    Deliver(Deliver),
    Sweep(Sweep),
}

/// Runs a job in a process of its own and waits for its answer, at most so long.
pub fn run<T: DeserializeOwned>(job: &Job, limit: Duration) -> Result<T> {
    let mut worker = Worker::start(job, limit)?;
    let answer = worker.answer()?;
    worker.child.wait()?;
    Ok(answer)
}

/// The process of a job. It dies with this one, and when its time is over.
pub struct Worker {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    /// Dropped to call off the watch.
    _watch: Sender<()>,
}

impl Worker {
    pub fn start(job: &Job, limit: Duration) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("worker").arg(serde_json::to_string(job)?);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().context("a worker without output")?).lines();
        let (watch, over) = channel::<()>();
        let pid = Pid::from_child(&child);
        std::thread::spawn(move || {
            if over.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                // Gone already is as good.
                let _gone = kill_process(pid, Signal::KILL);
            }
        });
        Ok(Self { child, lines, _watch: watch })
    }

    pub fn answer<T: DeserializeOwned>(&mut self) -> Result<T> {
        for line in self.lines.by_ref() {
            let line = line?;
            if let Some(reason) = line.strip_prefix("failed ") {
                bail!("{reason}");
            }
            if let Some(answer) = line.strip_prefix("done ") {
                return serde_json::from_str(answer).context("a worker's answer does not parse");
            }
        }
        let status = self.child.wait()?;
        Err(anyhow!("the worker ended without an answer, or was overdue: {status}"))
    }

    /// Kills it while it works, and returns the last number that it announced.
    pub fn kill(mut self) -> Result<Option<u64>> {
        self.child.kill()?;
        self.child.wait()?;
        let mut last = None;
        for line in self.lines.by_ref().map_while(std::io::Result::ok) {
            last = line.strip_prefix("through ").and_then(|number| number.parse().ok()).or(last);
        }
        Ok(last)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Whoever has ended already does not mind.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The hidden command.
pub fn work(job: &str) -> Result<bool> {
    // Only tidiness is lost where the kernel has no such thing.
    let _unsupported = set_parent_process_death_signal(Some(Signal::KILL));
    let job: Job = serde_json::from_str(job).context("the job does not parse")?;
    let done = match &job {
        Job::Fill(job) => job.work(),
        Job::Recover(job) => job.work(),
        Job::Reads(job) => job.work(),
        Job::Follows(job) => job.work(),
        Job::Large(job) => job.work(),
        Job::Raw(job) => job.work(),
        Job::Embedded(job) => job.work(),
        Job::Deliver(job) => job.work(),
        Job::Sweep(job) => job.work(),
    };
    if let Err(error) = &done {
        println!("failed {}", format!("{error:#}").replace('\n', " "));
    }
    Ok(done.is_ok())
}

/// What a worker answers with.
pub fn answer(done: &impl Serialize) {
    println!("done {}", json!(done));
}
