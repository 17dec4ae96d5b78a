//! Writes what takes the time of a signature, on as many threads as there are cores: more would only take turns, and a thread
//! for each mail costs as much as composing it.
//!
//! Comes from: the mails of a shipment, each of which waits for its own. Threads come when there is something to write and go
//! when there is nothing left.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Writes, and returns what tells whoever waits.
type Job = Box<dyn FnOnce() -> Tell + Send>;
type Tell = Box<dyn FnOnce() + Send>;

/// Results that are told at once: what is sent together costs fewer system calls than what is sent one by one.
const TOGETHER: usize = 4;

pub struct Scribe {
    desk: Mutex<Desk>,
    writers_max: usize,
}

impl Default for Scribe {
    fn default() -> Self {
        // Asked once: the answer is read from several files.
        let writers_max = std::thread::available_parallelism().map_or(1, usize::from);
        Self { desk: Mutex::default(), writers_max }
    }
}

#[derive(Default)]
struct Desk {
    jobs: VecDeque<Job>,
    writers: usize,
}

impl Scribe {
    /// What `write` returns, once it is its turn. Whoever does not wait any more has nothing written.
    pub async fn write<T: Send + 'static>(self: &Arc<Self>, write: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, waiting) = oneshot::channel();
        let job: Job = Box::new(move || {
            if done.is_closed() {
                return Box::new(|| {});
            }
            let written = write();
            // Whoever waited may have gone meanwhile.
            Box::new(move || drop(done.send(written)))
        });
        let needs_writer = {
            let mut desk = self.desk();
            desk.jobs.push_back(job);
            let needs_writer = desk.writers < self.writers_max;
            desk.writers += usize::from(needs_writer);
            needs_writer
        };
        if needs_writer {
            let mut writer = Writer { scribe: Arc::clone(self), written: Vec::with_capacity(TOGETHER) };
            tokio::task::spawn_blocking(move || while writer.take_one() {});
        }
        waiting.await.expect("what is written does not panic")
    }

    /// Jobs are whole or not there.
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread at the desk.
struct Writer {
    scribe: Arc<Scribe>,
    /// Not told yet.
    written: Vec<Tell>,
}

impl Writer {
    /// `false`: there was nothing to write, and the thread has left.
    fn take_one(&mut self) -> bool {
        let job = {
            let mut desk = self.scribe.desk();
            let job = desk.jobs.pop_front();
            desk.writers -= usize::from(job.is_none() && self.written.is_empty());
            job
        };
        match job {
            // The caller of a job that panics finds its channel closed and panics in turn. The thread goes on: if it left, jobs
            // that came meanwhile would wait for ever.
            Some(job) => self.written.extend(catch_unwind(AssertUnwindSafe(job))),
            None if self.written.is_empty() => return false,
            None => self.tell(),
        }
        if self.written.len() == TOGETHER {
            self.tell();
        }
        true
    }

    fn tell(&mut self) {
        self.written.drain(..).for_each(|tell| tell());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::{FutureExt, join_all};
    use std::sync::mpsc;
    use tokio::join;

    #[tokio::test]
    async fn a_panic_is_the_callers_and_nobody_elses() {
        let scribe = Arc::new(Scribe::default());
        for _ in 0..3 * scribe.writers_max {
            let write = scribe.write(|| panic!("as the test wants it"));
            assert!(AssertUnwindSafe(write).catch_unwind().await.is_err());
        }
        assert_eq!(scribe.write(|| 7).await, 7);
    }

    #[tokio::test]
    async fn what_comes_before_a_panic_is_over_is_written() {
        let scribe = Arc::new(Scribe { writers_max: 1, ..Scribe::default() });
        let (go_on, waits) = mpsc::channel();
        let panics = scribe.write(move || {
            waits.recv().expect("it is told to go on");
            panic!("as the test wants it")
        });
        let all =
            join!(AssertUnwindSafe(panics).catch_unwind(), scribe.write(|| 7), async { go_on.send(()) });
        let (panicked, written, told): (std::thread::Result<()>, i32, _) = all;
        assert!(panicked.is_err());
        assert_eq!((written, told), (7, Ok(())));
    }

    #[tokio::test]
    async fn everything_is_written_and_threads_leave() {
        let scribe = Arc::new(Scribe::default());
        for round in 0..3_usize {
            let all = join_all((0..100).map(|no| scribe.write(move || no * round))).await;
            assert_eq!(all, (0..100).map(|no| no * round).collect::<Vec<_>>());
        }
        drop(scribe.write(|| unreachable!("nobody waits")));
        let whoever_is_next = scribe.write(|| 7).await;
        assert_eq!(whoever_is_next, 7);
        assert!(scribe.desk().writers <= scribe.writers_max);
    }
}
