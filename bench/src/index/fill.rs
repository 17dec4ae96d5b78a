//! Fan-out at the port: events are committed until all their entries are in fsynced runs and nothing is left to
//! merge. Then a sample of readers must have exactly what was posted.

use super::graph::{Graph, Plan, Posting, Sizes};
use super::job::answer;
use super::port::{Background, Meter, Port, SHARDS, Spent, Windows};
use anyhow::{Result, ensure};
use fantail_ports::store::Store;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SAMPLE: u64 = 200;
/// How long the files may still change after the last entry: other than ours, the database below compacts when it
/// likes.
const SETTLE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fill {
    pub directory: PathBuf,
    pub plan: Plan,
    pub windows: Windows,
    pub events: u64,
    /// Events that may wait to be written out: not a backlog of minutes.
    pub ahead_events_max: u64,
    /// No more is posted after this.
    pub limit_seconds: u64,
    /// Goes on posting afterwards, until it is killed.
    pub until_killed: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Filled {
    pub follows: f64,
    pub imported: Spent,
    pub events: u64,
    pub entries: f64,
    pub spent: Spent,
    /// What the entries take.
    pub index_bytes: f64,
    pub written_bytes: Option<f64>,
    pub checked: u64,
    pub is_cut: bool,
}

impl Fill {
    pub fn work(&self) -> Result<()> {
        let mut port = Port::open(&self.directory, self.windows, SHARDS)?;
        let (follows, imported) = self.import(&mut port)?;
        port.settle(SETTLE);
        let (bytes_before, entries_before) = (port.disk_bytes(), port.store.gauges().entries_written);
        let meter = Meter::begin()?;
        let is_cut = self.post(&mut port)?;
        port.drain()?;
        port.sync()?;
        let spent = meter.spent()?;
        port.settle(SETTLE);
        let entries = (port.store.gauges().entries_written - entries_before) as f64;
        let filled = Filled {
            follows,
            imported,
            events: port.arrival,
            entries,
            spent,
            index_bytes: port.disk_bytes().saturating_sub(bytes_before) as f64,
            written_bytes: meter.spent()?.written_bytes,
            checked: port.check_counts(&self.plan, SAMPLE)?,
            is_cut,
        };
        answer(&filled);
        if self.until_killed { self.go_on(port) } else { Ok(()) }
    }

    fn import(&self, port: &mut Port) -> Result<(f64, Spent)> {
        let meter = Meter::begin()?;
        let graph = self.plan.graph;
        let all = (0..graph.all_lists())
            .flat_map(|list| graph.members(list).into_iter().map(move |user| (list, user)));
        let follows = port.import(all)? as f64;
        port.drain()?;
        Ok((follows, meter.spent()?))
    }

    /// Posts everything, never far ahead of what is written. Returns whether the time was over first.
    fn post(&self, port: &mut Port) -> Result<bool> {
        let background = Background::start(&port.store)?;
        let (began, limit) = (Instant::now(), Duration::from_secs(self.limit_seconds));
        while port.arrival < self.events && began.elapsed() < limit {
            if port.store.gauges().window_events >= self.ahead_events_max * SHARDS {
                ensure!(!background.has_failed(), "the background work failed: {:?}", background.stop());
                std::thread::park_timeout(LOOK);
                continue;
            }
            port.post(&self.plan, self.events - port.arrival)?;
        }
        background.stop()?;
        Ok(port.arrival < self.events)
    }

    /// Every arrival is announced before it is committed, so that whoever kills this knows what may be there.
    fn go_on(&self, mut port: Port) -> Result<()> {
        let background = Background::start(&port.store)?;
        loop {
            if port.store.gauges().window_events >= self.ahead_events_max * SHARDS {
                ensure!(!background.has_failed(), "the background work failed: {:?}", background.stop());
                std::thread::park_timeout(LOOK);
                continue;
            }
            println!("through {}", port.arrival + port.next_count(u64::MAX));
            port.post(&self.plan, u64::MAX)?;
        }
    }
}

/// A fixed small store: so many events, each to a list of so many, written out and merged. Nothing is measured
/// here; whoever counts instructions does.
pub fn measure_transposition(events: u64, followers: u64) -> Result<()> {
    let directory = std::env::temp_dir().join(format!("fantail-transposition-{}", std::process::id()));
    let graph =
        Graph { users: 100_000, lists: 16, sizes: Sizes::Equal(followers), readers: 0, side_lists: 0 };
    let plan = Plan { graph, posting: Posting::Lists { any: None } };
    {
        let mut port = Port::open(&directory, Windows::Small, 1)?;
        let members = |list| graph.members(list).into_iter().map(move |user| (list, user));
        port.import((0..graph.lists).flat_map(members))?;
        while port.arrival < events {
            port.post(&plan, events - port.arrival)?;
            port.drain()?;
        }
        port.sync()?;
    }
    Ok(std::fs::remove_dir_all(&directory)?)
}

impl Filled {
    pub fn rate(&self) -> f64 {
        self.spent.per_second(self.entries)
    }

    pub fn bytes_per_entry(&self) -> f64 {
        self.index_bytes / self.entries.max(1.0)
    }

    pub fn write_amplification(&self) -> Option<f64> {
        Some(self.written_bytes? / self.index_bytes.max(1.0))
    }
}
