//! A thread that keeps tables of the database from piling up.
//!
//! fjall merges once for every table it is given, and merges first where most is too much: below. When writes come faster than
//! that pays off, new tables pile up, every read has to look into each of them, and with thirty of them fjall halts
//! writers until a merge that nobody has asked for. So somebody asks: as long as there are many new tables and nothing is
//! merged; and, after much was written and nothing is any more, until merging changes nothing.

use super::Shared;
use fantail_ports::store::StoreError;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What was asked for has begun, or changes nothing.
const BEGINS_WITHIN: Duration = Duration::from_millis(500);
/// Between two asks while asking changes nothing.
const REST_MAX: Duration = Duration::from_secs(10);
/// A merge that took less did nothing.
const MERGE_MIN: Duration = Duration::from_millis(5);
/// Nothing is written any more.
const QUIET: Duration = Duration::from_secs(1);
/// So many new tables are not left until it is quiet: each read looks into all of them. Fewer cost less than a merge beside
/// what is being done.
const UNMERGED_TABLES_MAX: usize = 8;
/// Asks in a row that fail, over about a minute, before the store is given up.
const FAILURES_MAX: u32 = 8;
/// Worth merging when it is quiet: fewer rows stay in memory or in few tables.
const ROWS_MIN: u64 = 1 << 16;

pub struct Relief {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Relief {
    pub fn start(shared: Arc<Shared>) -> Result<Self, StoreError> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("store-relief".into());
        let thread = thread.spawn(move || {
            let rows = &shared.rows;
            guard(&shared, || run(&stopped, || rows.seen(), || rows.ask_for_merge()));
        });
        let thread = thread.map_err(|cause| StoreError::Io { reason: cause.to_string() })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Relief {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // What ended it is in the store: the next commit, sync or slice of background work says so.
            let _ended = thread.join();
        }
    }
}

/// Fails the store if the work panics or fails for good: without it tables pile up until the database lets nobody write,
/// and nothing would say why.
fn guard(shared: &Shared, work: impl FnOnce() -> Result<(), StoreError>) {
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    let panicked = |_| Err(StoreError::Io { reason: "the thread that merges tables panicked".to_owned() });
    if let Err(error) = ended.unwrap_or_else(panicked) {
        shared.fail(&error);
    }
}

/// Goes on until it is stopped, or until asking has failed so often that it is no passing trouble.
fn run(
    stopped: &Receiver<()>,
    mut look: impl FnMut() -> Seen,
    mut ask: impl FnMut() -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut watch = Watch::new(look());
    let mut failures = 0;
    while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        if watch.wants_merge(look(), Instant::now()) {
            match ask() {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    if failures == FAILURES_MAX {
                        return Err(error);
                    }
                }
            }
        }
    }
    Ok(())
}

/// What can be seen of the database.
#[derive(Clone, Copy)]
pub struct Seen {
    /// Rows since it was opened.
    pub written: u64,
    pub unmerged_tables: usize,
    pub is_merging: bool,
    /// All merges so far.
    pub merged_for: Duration,
}

/// What was seen so far, and what came of asking.
struct Watch {
    last: Seen,
    last_written_at: Instant,
    /// Rows since merging changed nothing.
    written: u64,
    /// When was asked, and how long merges had taken by then; until it is known what came of it.
    asked: Option<(Instant, Duration)>,
    rest: Duration,
    rests_until: Instant,
}

impl Watch {
    fn new(seen: Seen) -> Self {
        let now = Instant::now();
        // What an earlier process left is merged as if this one had written it.
        let written = if seen.unmerged_tables > 0 { ROWS_MIN } else { 0 };
        let (rest, rests_until) = (Duration::ZERO, now);
        Self { last: seen, last_written_at: now, written, asked: None, rest, rests_until }
    }

    fn wants_merge(&mut self, seen: Seen, now: Instant) -> bool {
        if seen.written != self.last.written {
            self.written += seen.written - self.last.written;
            self.last_written_at = now;
        }
        self.last = seen;
        if seen.is_merging || !self.knows_what_came(seen, now) || now < self.rests_until {
            return false;
        }
        let is_quiet = now >= self.last_written_at + QUIET;
        let is_due = seen.unmerged_tables >= UNMERGED_TABLES_MAX || (is_quiet && self.written >= ROWS_MIN);
        if is_due {
            self.asked = Some((now, seen.merged_for));
        }
        is_due
    }

    /// Of the last ask, if there was one.
    fn knows_what_came(&mut self, seen: Seen, now: Instant) -> bool {
        let Some((asked_at, merged_for)) = self.asked else { return true };
        if now < asked_at + BEGINS_WITHIN {
            return false;
        }
        self.asked = None;
        if seen.merged_for >= merged_for + MERGE_MIN {
            self.rest = Duration::ZERO;
        } else {
            self.written = 0;
            self.rest = (2 * self.rest).clamp(BEGINS_WITHIN, REST_MAX);
        }
        self.rests_until = now + self.rest;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LocalStore, StoreOptions};
    use super::*;
    use fantail_ports::store::Store;

    const SETTLED: Seen =
        Seen { written: 0, unmerged_tables: 0, is_merging: false, merged_for: Duration::ZERO };

    // fixes: correctness C8
    #[test]
    fn the_store_is_failed_when_the_thread_panics_or_fails_for_good() {
        let open = |name: &str| {
            let directory =
                std::env::temp_dir().join(format!("fantail-relief-{}-{name}", std::process::id()));
            let store = LocalStore::open(StoreOptions::new(&directory)).expect("a directory");
            (store, directory)
        };
        let check = |name: &str, work: &dyn Fn() -> Result<(), StoreError>, expected: &str| {
            let (store, directory) = open(name);
            assert!(store.tend().is_ok(), "it is well");
            guard(&store.shared, work);
            let failed = store.tend().expect_err("background work says so, and the server stops");
            assert!(failed.to_string().contains(expected), "{name}: {failed}");
            drop(store);
            std::fs::remove_dir_all(directory).expect("it is there");
        };
        check("panic", &|| panic!("a test wants it"), "the thread that merges tables panicked");
        check("error", &|| Err(StoreError::Io { reason: "no more".to_owned() }), "no more");
        let (store, directory) = open("stopped");
        guard(&store.shared, || Ok(()));
        assert!(store.tend().is_ok());
        drop(store);
        std::fs::remove_dir_all(directory).expect("it is there");
    }

    /// Looks every 50 ms for some seconds; says how often it asked.
    fn asks(watch: &mut Watch, from: &mut Instant, seconds: u32, mut seen: impl FnMut(u32) -> Seen) -> u32 {
        let mut asked = 0;
        for _ in 0..seconds * 20 {
            *from += LOOK_EVERY;
            asked += u32::from(watch.wants_merge(seen(asked), *from));
        }
        asked
    }

    #[test]
    fn it_asks_while_tables_pile_up_and_while_merging_pays() {
        let mut watch = Watch::new(SETTLED);
        let mut now = Instant::now();
        assert_eq!(asks(&mut watch, &mut now, 60, |_| SETTLED), 0, "nothing to merge");
        let little = Seen { written: ROWS_MIN - 1, ..SETTLED };
        assert_eq!(asks(&mut watch, &mut now, 60, |_| little), 0, "not worth it");
        let much = Seen { written: 2 * ROWS_MIN, ..SETTLED };
        let pays = |asked: u32| Seen { merged_for: asked.min(5) * Duration::from_secs(1), ..much };
        assert_eq!(asks(&mut watch, &mut now, 60, pays), 6, "until one changes nothing");
        let busy = Seen { is_merging: true, unmerged_tables: 30, ..much };
        assert_eq!(asks(&mut watch, &mut now, 60, |_| busy), 0, "it is being merged");
    }

    #[test]
    fn it_does_not_wait_for_quiet_when_tables_pile_up_and_rests_when_asking_is_in_vain() {
        let mut watch = Watch::new(SETTLED);
        let mut now = Instant::now();
        let mut written = 0;
        let mut piled = |_| {
            written += 1;
            Seen { written, unmerged_tables: UNMERGED_TABLES_MAX, ..SETTLED }
        };
        let asked = asks(&mut watch, &mut now, 60, &mut piled);
        assert!((8..=12).contains(&asked), "{asked}");
    }
}
