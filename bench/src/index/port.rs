//! The store under test, driven through its port in this process: commits, background work and sync points come
//! from threads of their own, as in the server. Users of the graph are spread over the shards as there.

use super::graph::{Plan, follows, list_id, since_ever};
use crate::process::{self, Usage};
use anyhow::{Context, Result, anyhow, ensure};
use fantail_local::store::{LocalStore, StoreOptions};
use fantail_ports::inbox::{ArrivalRange, Audience, Inbox, Reader, Window, WindowEvent};
use fantail_ports::lists::{ListEdit, ListKey};
use fantail_ports::store::{Commit, Store, Tended};
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, PartitionId, Position, ShardNo, TenantId, UserNo};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const TENANT: TenantId = TenantId(1);
/// Shards of a server by default.
pub const SHARDS: u64 = 4;
pub const ALL: ArrivalRange = ArrivalRange { after: Arrival::START, before: Arrival(u64::MAX) };

/// Events that one commit brings, as one record of the server does.
const EVENTS_PER_COMMIT: u64 = 256;
const EDITS_PER_COMMIT: usize = 10_000;
/// Positions of events begin here, those of list edits at 1: so a mark tells the arrival.
const EVENTS_FROM: u64 = 1 << 40;

/// As the server does it.
const TEND_REST: Duration = Duration::from_millis(50);
const SYNC_EVERY: Duration = Duration::from_secs(5);
const SYNC_BYTES: u64 = 64 << 20;

/// How soon events are written out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Windows {
    /// As the server has it.
    Served,
    /// Small ones, for runs too short to fill the server's.
    Small,
    /// Every event at once.
    One,
}

/// The one place that knows what the store can be told.
fn options(directory: &Path, windows: Windows) -> StoreOptions {
    let served = StoreOptions::new(directory);
    match windows {
        Windows::Served => served,
        Windows::Small => StoreOptions { window_events_min: 512, ..served },
        Windows::One => StoreOptions { window_events_min: 1, ..served },
    }
}

pub struct Port {
    pub store: Arc<LocalStore>,
    directory: PathBuf,
    runtime: tokio::runtime::Runtime,
    /// Commits of list edits so far.
    edits: u64,
    /// The newest event of each shard: a crash may leave them apart.
    arrivals: Vec<u64>,
    /// The newest event that all shards have.
    pub arrival: u64,
}

/// The shard of a user of the graph, and who that is there.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    pub shard: u64,
    pub user: UserNo,
}

impl Home {
    pub fn of(user: u64, shards: u64) -> Self {
        Self { shard: user % shards, user: UserNo(user / shards) }
    }
}

pub fn partition(shard: u64) -> PartitionId {
    PartitionId::Shard(ShardNo(u16::try_from(shard).expect("few shards")))
}

impl Port {
    pub fn open(directory: &Path, windows: Windows, shards: u64) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let store = LocalStore::open(options(directory, windows)).context("cannot open the store")?;
        let marks = store.marks();
        let mark = |shard| marks.get(&partition(shard)).map_or(0, |position: &Position| position.0);
        let arrivals: Vec<u64> = (0..shards).map(|shard| mark(shard).saturating_sub(EVENTS_FROM)).collect();
        Ok(Self {
            store: Arc::new(store),
            directory: directory.to_owned(),
            runtime: tokio::runtime::Builder::new_current_thread().build()?,
            edits: 0,
            arrival: arrivals.iter().copied().min().unwrap_or(0),
            arrivals,
        })
    }

    pub fn shards(&self) -> u64 {
        self.arrivals.len() as u64
    }

    /// Puts users on lists (list, user), in large commits with a sync point now and then. All before the first event.
    pub fn import(&mut self, follows: impl Iterator<Item = (u64, u64)>) -> Result<u64> {
        let mut count = 0;
        let mut follows = follows.peekable();
        while follows.peek().is_some() {
            let mut batches = vec![Vec::new(); self.arrivals.len()];
            for (list, user) in follows.by_ref().take(EDITS_PER_COMMIT * batches.len()) {
                let home = Home::of(user, self.shards());
                batches[home.shard as usize].push(edit(list, home.user));
                count += 1;
            }
            for (shard, batch) in (0..).zip(batches) {
                self.edit(shard, batch)?;
            }
            if self.store.gauges().unsynced_bytes >= SYNC_BYTES {
                self.sync()?;
            }
        }
        self.sync()?;
        Ok(count)
    }

    /// One commit of list edits.
    pub fn edit(&mut self, shard: u64, edits: Vec<ListEdit>) -> Result<()> {
        self.edits += 1;
        let through = if self.arrival == 0 { self.edits } else { EVENTS_FROM + self.arrival + self.edits };
        let commit = Commit { through: Position(through), edits, ..Commit::default() };
        Ok(self.store.commit(partition(shard), commit)?)
    }

    /// The next events of a plan as one commit in every shard, at most so many. Returns how many.
    pub fn post(&mut self, plan: &Plan, events_max: u64) -> Result<u64> {
        let count = self.next_count(events_max);
        let (first, last, shards) = (self.arrival + 1, self.arrival + count, self.shards());
        for (shard, arrival) in (0..).zip(&mut self.arrivals) {
            let from = first.max(*arrival + 1);
            if from <= last {
                self.store.commit(partition(shard), posts(plan, from, last, shard, shards))?;
                *arrival = last;
            }
        }
        self.arrival = last;
        Ok(count)
    }

    /// How many events the next commit brings.
    pub fn next_count(&self, events_max: u64) -> u64 {
        events_max.min(EVENTS_PER_COMMIT)
    }

    pub fn sync(&self) -> Result<()> {
        self.runtime.block_on(self.store.sync())?;
        Ok(())
    }

    /// Background work until there is none.
    pub fn drain(&self) -> Result<()> {
        while self.store.tend()? == Tended::MoreWaiting {}
        Ok(())
    }

    /// Waits until the files do not change any more: the database below may still be compacting.
    pub fn settle(&self, limit: Duration) {
        const QUIET: Duration = Duration::from_millis(1_500);
        let (began, mut last, mut quiet_since) = (Instant::now(), self.disk_bytes(), Instant::now());
        while began.elapsed() < limit && quiet_since.elapsed() < QUIET {
            std::thread::park_timeout(Duration::from_millis(100));
            let now = self.disk_bytes();
            if now != last {
                (last, quiet_since) = (now, Instant::now());
            }
        }
    }

    pub fn disk_bytes(&self) -> u64 {
        process::disk_bytes(&self.directory)
    }

    /// Asks the inbox of one state of a user's shard.
    pub fn ask<T>(
        &self,
        user: u64,
        mut ask: impl FnMut(&dyn Inbox, UserNo) -> Result<T, TablesError>,
    ) -> Result<T> {
        let (home, mut answer) = (Home::of(user, self.shards()), None);
        self.store.read(partition(home.shard), &mut |view| answer = Some(ask(view.inbox(), home.user)))?;
        Ok(answer.context("the store did not read")??)
    }

    /// Fails unless each of a sample of users has exactly what was posted. Returns how many were asked.
    pub fn check_counts(&self, plan: &Plan, sample: u64) -> Result<u64> {
        let users = plan.sample(sample);
        let lists = plan.graph.lists_of(&users);
        let expected = plan.counts(&users, &lists, self.arrival);
        let range = ArrivalRange { before: Arrival(self.arrival + 1), ..ALL };
        for ((user, lists), expected) in users.iter().zip(&lists).zip(&expected) {
            let follows = follows(lists);
            let found = self.ask(*user, |inbox, user| {
                inbox.count(&Reader { tenant: TENANT, user, follows: &follows }, range)
            })?;
            ensure!(found == *expected, "user {user} has {found} entries, {expected} were posted");
        }
        Ok(users.len() as u64)
    }
}

/// The events of these arrivals as one commit of a shard.
pub fn posts(plan: &Plan, from: u64, to: u64, shard: u64, shards: u64) -> Commit {
    let event = |arrival| {
        let audience = match plan.audience(arrival) {
            Audience::List(list) => Audience::List(list),
            Audience::Members(users) => {
                let homes = users.into_iter().map(|user| Home::of(user.0, shards));
                Audience::Members(homes.filter(|home| home.shard == shard).map(|home| home.user).collect())
            }
        };
        WindowEvent { arrival: Arrival(arrival), audience }
    };
    let windows = vec![Window { tenant: TENANT, events: (from..=to).map(event).collect() }];
    Commit { through: Position(EVENTS_FROM + to), windows, ..Commit::default() }
}

fn edit(list: u64, user: UserNo) -> ListEdit {
    ListEdit {
        key: ListKey { tenant: TENANT, list: list_id(list) },
        user,
        intervals: since_ever(),
        at: Arrival::START,
        floor: Arrival(u64::MAX),
    }
}

/// The threads that the server has for its store.
pub struct Background {
    stops: Vec<Sender<()>>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Background {
    pub fn start(store: &Arc<LocalStore>) -> Result<Self> {
        let (mut stops, mut threads) = (Vec::new(), Vec::new());
        for run in [tend as fn(&LocalStore, &Receiver<()>) -> Result<()>, sync] {
            let (stop, stopped) = channel();
            let store = Arc::clone(store);
            stops.push(stop);
            threads.push(std::thread::Builder::new().spawn(move || run(&store, &stopped))?);
        }
        Ok(Self { stops, threads })
    }

    pub fn stop(self) -> Result<()> {
        drop(self.stops);
        self.threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread of the store panicked"))?)
    }

    /// Whether one of them gave up.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
}

fn goes_on(stopped: &Receiver<()>, rest: Duration) -> bool {
    matches!(stopped.recv_timeout(rest), Err(RecvTimeoutError::Timeout))
}

fn tend(store: &LocalStore, stopped: &Receiver<()>) -> Result<()> {
    let mut rest = TEND_REST;
    while goes_on(stopped, rest) {
        rest = match store.tend()? {
            Tended::MoreWaiting => Duration::ZERO,
            Tended::Idle => TEND_REST,
        };
    }
    Ok(())
}

fn sync(store: &LocalStore, stopped: &Receiver<()>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut last = Instant::now();
    while goes_on(stopped, TEND_REST) {
        let unsynced = store.gauges().unsynced_bytes;
        if unsynced >= SYNC_BYTES || (unsynced > 0 && last.elapsed() >= SYNC_EVERY) {
            runtime.block_on(store.sync())?;
            last = Instant::now();
        }
    }
    Ok(())
}

/// What this process spent from one moment on.
pub struct Meter {
    began: Instant,
    usage: Usage,
}

/// What it spent by another.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Spent {
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Bytes sent towards the disk. `None` where the kernel does not tell.
    pub written_bytes: Option<f64>,
    pub peak_resident_bytes: Option<f64>,
}

impl Meter {
    pub fn begin() -> Result<Self> {
        process::forget_peak();
        Ok(Self { usage: process::usage(std::process::id())?, began: Instant::now() })
    }

    pub fn spent(&self) -> Result<Spent> {
        let seconds = self.began.elapsed().as_secs_f64();
        let now = process::usage(std::process::id())?;
        let written = now.written_bytes.zip(self.usage.written_bytes);
        Ok(Spent {
            seconds,
            cpu_seconds: now.cpu.saturating_sub(self.usage.cpu).as_secs_f64(),
            written_bytes: written.map(|(now, before)| now.saturating_sub(before) as f64),
            peak_resident_bytes: process::peak_resident_bytes(std::process::id()).map(|bytes| bytes as f64),
        })
    }
}

impl Spent {
    pub fn per_second(&self, count: f64) -> f64 {
        count / self.seconds.max(1e-9)
    }

    /// CPU for one of `count` units, in µs.
    pub fn cpu_us_per(&self, count: f64) -> f64 {
        self.cpu_seconds * 1e6 / count.max(1.0)
    }

    pub fn peak_mb(&self) -> Option<f64> {
        self.peak_resident_bytes.map(|bytes| bytes / 1e6)
    }
}
