//! `make bench`: starts the real server on an empty directory, drives it over HTTP on 127.0.0.1, and prints one
//! table with the raw disk and PostgreSQL beside it. `index` measures the inbox index at its port instead, beside
//! `peers`. Everything is bounded in count and in time.
//!
//! What must never happen: a number without its durability and its machine, or a rate that counts what was refused.
//! Read `scenarios` for what is measured; the rest is the equipment: `load` (the generator), `server` (the process
//! under test), `report` (rows and files).
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

mod options;

mod scenarios;

mod index;
mod peers;

mod deliveries;

mod apns;
mod mail;
mod outage;
mod webpush;

mod instructions;

mod sending;

mod event;
mod load;
mod people;

mod http;
mod postgres;
mod process;
mod scrape;
mod server;

mod machine;
mod plot;
mod quantiles;
mod report;

use anyhow::{Context, Result};
use clap::Parser;
use index::IndexOptions;
use options::{Hidden, Options, Scale};
use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// As in the server: what is measured in this program must not be slower, or faster, for its allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What every scenario shares.
pub struct Bench {
    pub scale: Scale,
    pub index: IndexOptions,
    /// The server under test.
    pub binary: PathBuf,
    /// All data of this run, on the disk that is measured. Removed at the end.
    pub work: PathBuf,
    pub report: Report,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.hidden {
        Some(Hidden::Worker { job }) => index::job::work(job),
        Some(Hidden::Instructions) => instructions::run(),
        Some(Hidden::Micro { name, units }) => instructions::micro(*name, *units),
        Some(Hidden::ApnsServer { directory, echoes }) => apns::serve(directory, *echoes).map(|()| true),
        Some(Hidden::MailServer { directory }) => mail::serve(directory).map(|()| true),
        None => bench(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(options: &Options) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the load generator")?.block_on(async {
        tokio::select! {
            outcome = run(options) => outcome,
            _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
        }
    })
}

/// Runs the chosen scenarios one after the other. `false`: at least one of them failed.
async fn run(options: &Options) -> Result<bool> {
    let scale = options.scale();
    let binary = match options.scenarios().iter().any(|scenario| scenario.needs_server()) {
        true => server::locate(options.binary.as_deref())?,
        false => PathBuf::new(),
    };
    let work = WorkDirectory::create(options)?;
    let machine = machine::describe(&work.0);
    eprintln!("bench: {}, data in {}", binary.display(), work.0.display());
    let report = Report::new(machine, &scale);
    let index = options.index.clone();
    let mut bench = Bench { report, work: work.0.clone(), binary, index, scale };
    let mut all_well = true;
    for scenario in options.scenarios() {
        let began = Instant::now();
        eprintln!("bench: {} …", scenario.name());
        let limit = scenario.limit(&bench.scale);
        let outcome = match tokio::time::timeout(limit, scenario.run(&mut bench)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(anyhow::anyhow!("not done within {} s", limit.as_secs())),
        };
        if let Err(error) = outcome {
            eprintln!("bench: {} failed: {error:#}", scenario.name());
            bench.report.failed(scenario.name(), &error);
            all_well = false;
        }
        eprintln!("bench: {} took {:.1} s", scenario.name(), began.elapsed().as_secs_f64());
    }
    println!("{}", bench.report.markdown());
    let file = bench.report.write(&options.out)?;
    println!("\nwritten to {}", file.display());
    Ok(all_well)
}

/// Removed with everything in it, however the run ends.
struct WorkDirectory(PathBuf);

impl WorkDirectory {
    fn create(options: &Options) -> Result<Self> {
        let parent = match &options.data {
            Some(parent) => parent.clone(),
            None => server::beside_this_program()?,
        };
        let path = parent.join(format!("bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path.canonicalize()?))
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("bench: {} is left behind: {error}", self.0.display());
        }
    }
}
