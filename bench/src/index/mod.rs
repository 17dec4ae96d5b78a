//! The inbox index at its port, in this machine's memory and on its disk, without HTTP: fan-out, reads, lists,
//! recovery. Each part works in a process of its own (see `job`); here are the parts and their rows.
//!
//! What must never happen: a rate of entries that a reader does not have. Every part compares a sample of readers
//! with what was posted, and is a row `FAILED` if one differs.

mod sizes;

mod rows;

mod fill;
mod follows;
mod large;
mod reads;
mod recover;

mod graph;
pub mod job;
mod port;

pub use fill::{Fill, Filled, measure_transposition};
pub use graph::{Graph, Plan, Posting, Sizes as ListSizes};
pub use port::{Meter, Spent, Windows};
pub use sizes::{IndexOptions, Sizes};

use crate::Bench;
use crate::peers;
use crate::plot::Plot;
use crate::report::Row;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use job::{Job, Worker};
use std::path::Path;
use std::time::Duration;

/// Imports, checks and settling, beside what the limits of the sizes allow.
const BESIDE: Duration = Duration::from_secs(1_800);
/// How long the store goes on with its work before it is killed.
const BEFORE_KILL: Duration = Duration::from_millis(700);

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Part {
    /// Fan-out over equal lists, then kill -9 and recovery, then reads
    Uniform,
    /// Fan-out over a power law of distinct lists
    PowerLaw,
    /// Events for explicit users
    Explicit,
    /// Import of follows, and large lists with a post to each
    Lists,
    /// The same fan-out in other stores, in turns with ours
    Peers,
}

impl Part {
    /// Rows are pushed as soon as they are known: a failure takes none of them back.
    fn run(self, work: &Path, sizes: &Sizes, options: &IndexOptions, found: &mut Found) -> Result<()> {
        let rows = &mut found.rows;
        match self {
            Self::Uniform => uniform(work, sizes, rows),
            Self::PowerLaw => power_law(work, sizes, rows),
            Self::Explicit => explicit(work, sizes, rows),
            Self::Lists => lists(work, sizes, rows),
            Self::Peers => peers::run(work, sizes, &options.peers, found),
        }
    }
}

/// What a part found.
#[derive(Default)]
pub struct Found {
    pub rows: Vec<Row>,
    pub plots: Vec<Plot>,
}

/// All parts that are wanted; one that fails does not stop the others.
pub async fn run(bench: &mut Bench) -> Result<()> {
    let wanted = bench.index.parts.clone();
    let mut failed = Vec::new();
    for part in Part::value_variants().iter().filter(|part| wanted.is_empty() || wanted.contains(part)) {
        eprintln!("bench: index, {part:?} …");
        let (part, sizes, options) = (*part, bench.scale.index.clone(), bench.index.clone());
        let work = bench.work.join("index");
        std::fs::create_dir_all(&work)?;
        let place = work.clone();
        // Blocks for minutes; an interrupt must be heard meanwhile.
        let outcome = tokio::task::spawn_blocking(move || {
            let mut found = Found::default();
            let outcome = part.run(&place, &sizes, &options, &mut found);
            (found, outcome)
        });
        let (found, outcome) = outcome.await.context("a part panicked")?;
        found.rows.into_iter().for_each(|row| bench.report.add(row));
        found.plots.into_iter().for_each(|plot| bench.report.plot(plot));
        if let Err(error) = outcome {
            eprintln!("bench: index, {part:?} failed: {error:#}");
            bench.report.failed("index", &error.context(format!("{part:?}")));
            failed.push(part);
        }
        std::fs::remove_dir_all(&work)?;
    }
    if failed.is_empty() { Ok(()) } else { bail!("parts failed: {failed:?}") }
}

/// Fills, kills, recovers and reads one store.
fn uniform(work: &Path, sizes: &Sizes, rows: &mut Vec<Row>) -> Result<()> {
    let graph = Graph {
        users: sizes.users,
        lists: sizes.lists,
        sizes: ListSizes::Equal(sizes.list_size),
        readers: sizes.readers,
        side_lists: sizes.side_lists,
    };
    let plan = Plan { graph, posting: Posting::Lists { any: None } };
    let directory = work.join("uniform");
    let fill = Fill {
        directory: directory.clone(),
        plan,
        windows: Windows::Served,
        events: sizes.entries.div_ceil(sizes.list_size),
        ahead_events_max: sizes.window_events,
        limit_seconds: sizes.limit.as_secs(),
        until_killed: true,
    };
    let mut worker = Worker::start(&Job::Fill(fill), sizes.limit + BESIDE)?;
    let filled: Filled = worker.answer()?;
    rows.push(rows::uniform(&graph, &filled));
    std::thread::park_timeout(BEFORE_KILL);
    let through = worker.kill()?.unwrap_or(filled.events).max(filled.events);
    let recover = recover::Recover { directory: directory.clone(), plan, through };
    let recovered = job::run(&Job::Recover(recover), BESIDE).context("recovery after kill -9")?;
    rows.push(rows::recovery(&filled, &recovered));
    let any = Some((through + 1, through + sizes.window_events));
    let reads = reads::Reads {
        directory,
        plan: Plan { posting: Posting::Lists { any }, ..plan },
        window_events: sizes.window_events,
        loop_seconds: sizes.read_loop.as_secs().max(1),
        events_per_second: filled.spent.per_second(filled.events as f64) / 2.0,
    };
    let read = job::run(&Job::Reads(reads), BESIDE).context("reads")?;
    rows.extend(rows::reads(&filled, &read));
    Ok(())
}

fn power_law(work: &Path, sizes: &Sizes, rows: &mut Vec<Row>) -> Result<()> {
    let graph = Graph {
        users: sizes.users,
        lists: sizes.power_law_lists,
        sizes: ListSizes::PowerLaw(sizes.power_law_mean),
        readers: 0,
        side_lists: 0,
    };
    let fill = Fill {
        directory: work.join("power-law"),
        plan: Plan { graph, posting: Posting::Lists { any: None } },
        windows: Windows::Served,
        events: sizes.power_law_entries.div_ceil(sizes.power_law_mean),
        // Small audiences: as many entries wait as in the uniform case.
        ahead_events_max: sizes.window_events * (sizes.list_size / sizes.power_law_mean).max(1),
        limit_seconds: sizes.limit.as_secs(),
        until_killed: false,
    };
    let filled = job::run(&Job::Fill(fill), sizes.limit + BESIDE)?;
    rows.push(rows::power_law(&graph, &filled));
    Ok(())
}

fn explicit(work: &Path, sizes: &Sizes, rows: &mut Vec<Row>) -> Result<()> {
    for users in [1, 100] {
        let graph =
            Graph { users: sizes.users, lists: 0, sizes: ListSizes::Equal(0), readers: 0, side_lists: 0 };
        let fill = Fill {
            directory: work.join(format!("explicit-{users}")),
            plan: Plan { graph, posting: Posting::Explicit { users } },
            windows: Windows::Served,
            events: sizes.explicit_entries / users,
            ahead_events_max: sizes.window_events * (sizes.list_size / users).clamp(1, 100),
            limit_seconds: sizes.limit.as_secs(),
            until_killed: false,
        };
        let filled = job::run(&Job::Fill(fill), sizes.limit + BESIDE)?;
        rows.push(rows::explicit(users, &filled));
    }
    Ok(())
}

fn lists(work: &Path, sizes: &Sizes, rows: &mut Vec<Row>) -> Result<()> {
    let follows = follows::Follows {
        directory: work.join("follows"),
        follows: sizes.follows,
        lists: (sizes.follows / 1_000).max(1),
        users: sizes.users,
    };
    let imported = job::run(&Job::Follows(follows.clone()), BESIDE).context("import of follows")?;
    rows.push(rows::follows(&follows, &imported));
    std::fs::remove_dir_all(&follows.directory)?;
    for members in sizes.large {
        let large = large::Large { directory: work.join(format!("large-{members}")), members };
        let context = || format!("a list of {members}");
        let measured = job::run(&Job::Large(large.clone()), BESIDE).with_context(context)?;
        rows.extend(rows::large(members, &measured));
        std::fs::remove_dir_all(&large.directory)?;
    }
    Ok(())
}
