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
        let thread = thread.spawn(move || run(&shared, &stopped));
        let thread = thread.map_err(|cause| StoreError::Io { reason: cause.to_string() })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Relief {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell: a database that fails fails the next sync as well.
            let _ended = thread.join();
        }
    }
}

fn run(shared: &Shared, stopped: &Receiver<()>) {
    let rows = &shared.rows;
    let mut watch = Watch::new(rows.seen());
    while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        if watch.wants_merge(rows.seen(), Instant::now()) {
            // What cannot be written now is told to whoever syncs next.
            let _told_there = rows.ask_for_merge();
        }
    }
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
    use super::*;

    const SETTLED: Seen =
        Seen { written: 0, unmerged_tables: 0, is_merging: false, merged_for: Duration::ZERO };

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
