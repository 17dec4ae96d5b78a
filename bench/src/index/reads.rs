//! Reads at the port, ids only: the newest 20 with 50 pointers merged in, and unread counts; cold and warm, idle and
//! while fan-out runs at half of its rate. The window of events that are not written out yet is full.

use super::graph::{Plan, follows};
use super::job::answer;
use super::port::{ALL, Background, Meter, Port, SHARDS, Spent, TENANT, Windows, partition, posts};
use crate::event::spread;
use crate::quantiles::{Samples, Summary};
use anyhow::{Context, Result, anyhow, ensure};
use fantail_local::store::LocalStore;
use fantail_ports::inbox::{ArrivalRange, Followed, Inbox, Reader};
use fantail_ports::store::Store;
use fantail_rules::ids::{Arrival, UserNo};
use fantail_rules::merge::{Direction, Source, merge};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 20;
const POINTER_LISTS: u64 = 50;
/// Posts of each celebrity.
const POINTERS: u64 = 200;
/// Readers whose pages are compared with what was posted.
const CHECKED: usize = 50;
/// The fan-out beside the reads posts this often.
const POST_EVERY: Duration = Duration::from_millis(20);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reads {
    pub directory: PathBuf,
    /// Any list posts while the window is filled.
    pub plan: Plan,
    pub window_events: u64,
    pub loop_seconds: u64,
    /// Half of what was measured.
    pub events_per_second: f64,
}

/// Reads one after the other by one thread.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Loop {
    pub latency: Summary,
    pub spent: Spent,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Measured {
    pub readers: u64,
    pub window_events: u64,
    /// `None`: the page cache could not be dropped.
    pub cold: Option<Loop>,
    pub warm: Loop,
    /// Every read is another user's: nothing but the runs' blocks can be in memory.
    pub anyone: Loop,
    pub unread: Loop,
    pub busy: Loop,
    pub busy_anyone: Loop,
    pub busy_unread: Loop,
    /// Entries written beside the busy reads.
    pub busy_entries: f64,
    pub checked: u64,
}

struct Person {
    user: u64,
    lists: Vec<u64>,
    follows: Vec<Followed>,
}

impl Person {
    /// This person, or another who follows the same.
    fn reader(&self, user: UserNo) -> Reader<'_> {
        Reader { tenant: TENANT, user, follows: &self.follows }
    }
}

impl Reads {
    pub fn work(&self) -> Result<()> {
        let people = self.people();
        let mut port = Port::open(&self.directory, Windows::Served, SHARDS)?;
        let window = port.arrival + self.window_events;
        while port.arrival < window {
            port.post(&self.plan, window - port.arrival)?;
        }
        let pointers = pointers(port.arrival);
        let cold = match drop_page_cache() {
            Err(_) => None,
            Ok(()) => Some(self.one_each(&port, &people, &pointers)?),
        };
        let window_events = port.store.gauges().window_events / SHARDS;
        let checked = self.check(&port, &people)?;
        let newest = |at: u64| newest(&port, of(&people, at).user, of(&people, at), &pointers);
        let turn = Cell::new(0);
        let anyone = |at: u64| {
            turn.set(turn.get() + 1);
            let user = spread(turn.get()) % self.plan.graph.users;
            self::newest(&port, user, of(&people, at), &pointers)
        };
        let last = port.arrival;
        let count = |at: u64| {
            let range = ArrivalRange { after: Arrival(spread(!at) % last), ..ALL };
            let person = of(&people, at);
            port.ask(person.user, |inbox, user| inbox.count(&person.reader(user), range)).map(|_| ())
        };
        // Until the operating system has most blocks in memory again.
        self.repeat(anyone)?;
        let (warm, anyone_warm) = (self.repeat(newest)?, self.repeat(anyone)?);
        let unread = self.repeat(count)?;
        let before = port.store.gauges().entries_written;
        let fan_out = FanOut::start(self, &port)?;
        let (busy, busy_anyone) = (self.repeat(newest)?, self.repeat(anyone)?);
        let busy_unread = self.repeat(count)?;
        fan_out.stop()?;
        let busy_entries = (port.store.gauges().entries_written - before) as f64;
        let readers = people.len() as u64;
        answer(&Measured {
            readers,
            window_events,
            cold,
            warm,
            anyone: anyone_warm,
            unread,
            busy,
            busy_anyone,
            busy_unread,
            busy_entries,
            checked,
        });
        Ok(())
    }

    fn people(&self) -> Vec<Person> {
        let graph = self.plan.graph;
        let users: Vec<u64> = (0..graph.readers).map(|at| graph.reader(at)).collect();
        let lists = graph.lists_of(&users);
        let person = |(user, lists): (u64, Vec<u64>)| Person { user, follows: follows(&lists), lists };
        users.into_iter().zip(lists).map(person).collect()
    }

    /// Every reader's first look.
    fn one_each(&self, port: &Port, people: &[Person], pointers: &[Vec<Arrival>]) -> Result<Loop> {
        let (meter, mut samples) = (Meter::begin()?, Samples::default());
        for person in people {
            let began = Instant::now();
            newest(port, person.user, person, pointers)?;
            samples.record(began.elapsed());
        }
        Ok(Loop { latency: samples.summarise(), spent: meter.spent()? })
    }

    fn repeat(&self, read: impl Fn(u64) -> Result<()>) -> Result<Loop> {
        let (meter, mut samples) = (Meter::begin()?, Samples::default());
        let (all, limit) = (Instant::now(), Duration::from_secs(self.loop_seconds));
        let mut at = 0;
        while all.elapsed() < limit {
            let began = Instant::now();
            read(at)?;
            samples.record(began.elapsed());
            at += 1;
        }
        Ok(Loop { latency: samples.summarise(), spent: meter.spent()? })
    }

    /// The newest entries of some readers must be exactly the newest posts of those they follow.
    fn check(&self, port: &Port, people: &[Person]) -> Result<u64> {
        for person in people.iter().take(CHECKED) {
            let posts = (1..=port.arrival).rev();
            let theirs =
                posts.filter(|arrival| person.lists.binary_search(&self.plan.list_of(*arrival)).is_ok());
            let expected: Vec<Arrival> = theirs.take(PAGE).map(Arrival).collect();
            let read = |inbox: &dyn Inbox, user| inbox.page(&person.reader(user), ALL, true, PAGE);
            let found = port.ask(person.user, read)?;
            ensure!(found == expected, "user {} reads {found:?}, posted were {expected:?}", person.user);
        }
        Ok(people.len().min(CHECKED) as u64)
    }
}

fn of(people: &[Person], at: u64) -> &Person {
    &people[(spread(at) % people.len() as u64) as usize]
}

/// Entries and pointers, merged as the reader of the shard does it.
fn newest(port: &Port, user: u64, like: &Person, pointers: &[Vec<Arrival>]) -> Result<()> {
    let limit = PAGE + 1;
    let page = port.ask(user, |inbox, user| inbox.page(&like.reader(user), ALL, true, limit))?;
    let mut sources = vec![Source::fetched(page, limit)];
    for posts in pointers {
        let newest = &posts[..posts.len().min(limit)];
        sources.push(Source::fetched(newest.to_vec(), limit));
    }
    let mut merged = merge(Direction::NewestFirst, &sources).arrivals;
    merged.truncate(PAGE);
    ensure!(merged.len() == PAGE, "a page of {} entries", merged.len());
    Ok(())
}

/// The posts of 50 celebrities, newest first, anywhere among the arrivals.
fn pointers(last: u64) -> Vec<Vec<Arrival>> {
    let posts = |list: u64| {
        let mut posts: Vec<u64> = (0..POINTERS).map(|at| 1 + spread(list << 32 | at) % last).collect();
        posts.sort_unstable_by(|one, other| other.cmp(one));
        posts.dedup();
        posts.into_iter().map(Arrival).collect()
    };
    (0..POINTER_LISTS).map(posts).collect()
}

/// Only root may; what is dirty has to be written before.
fn drop_page_cache() -> Result<()> {
    rustix::fs::sync();
    Ok(std::fs::write("/proc/sys/vm/drop_caches", "3")?)
}

/// Posts on a schedule, and writes the entries out, beside the reads.
struct FanOut {
    background: Background,
    is_over: Arc<AtomicBool>,
    poster: std::thread::JoinHandle<Result<()>>,
}

impl FanOut {
    fn start(reads: &Reads, port: &Port) -> Result<Self> {
        let (is_over, store) = (Arc::new(AtomicBool::new(false)), Arc::clone(&port.store));
        let (plan, arrival, rate) = (reads.plan, port.arrival, reads.events_per_second);
        let over = Arc::clone(&is_over);
        let poster = std::thread::Builder::new().spawn(move || {
            let began = Instant::now();
            let mut posted = 0;
            while !over.load(Ordering::Relaxed) {
                let due = (began.elapsed().as_secs_f64() * rate) as u64;
                if due > posted {
                    post(&store, &plan, arrival + posted + 1, arrival + due)?;
                    posted = due;
                }
                std::thread::park_timeout(POST_EVERY);
            }
            Ok(())
        })?;
        Ok(Self { background: Background::start(&port.store)?, is_over, poster })
    }

    fn stop(self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        self.poster.join().map_err(|_| anyhow!("the poster panicked"))??;
        self.background.stop().context("the background work failed")
    }
}

fn post(store: &LocalStore, plan: &Plan, from: u64, to: u64) -> Result<()> {
    (0..SHARDS)
        .try_for_each(|shard| Ok(store.commit(partition(shard), posts(plan, from, to, shard, SHARDS))?))
}
