//! The journal on local files: segments of blocks, one block and one sync per group commit, a hash chain over all.
//!
//! ```text
//!  append, fence ──▶ queue ──▶ writer ──▶ block ──▶ segment file ──▶ fdatasync ──▶ catalog ──▶ answers
//!                                                                                     │
//!  read ◀── cached tail, or segment files by the index ◀──────────────────────────────┘
//! ```
//!
//! Many partitions share the files, so that one sync serves all. `format` draws the bytes; `recover` says what opening
//! does with a crash, and with damage; `verify` is for operators.
//!
//! What must never happen: what `fantail_ports::journal` says must never happen. After a failed write or sync the
//! journal refuses everything for good; the process has to stop, see `JournalOptions::on_failure`.

mod options;

mod queue;
mod writer;

mod block;
mod format;
mod segment;

mod cache;
mod catalog;
mod footer;
mod index;
mod standing;

mod read;
mod trim;

mod manual;

mod copy;
mod mark;

mod recover;
mod scan;
mod torn;
mod walk;

mod damage;
mod room;
mod stats;
mod verify;
pub(crate) mod worker;

pub use copy::{CopiedJournal, SegmentHold};
pub use mark::mark_path;
pub use options::{Drive, FailureCallback, JournalOptions, OpenReport, RoomOptions};
pub use stats::{JournalStats, SYNC_BUCKETS};
pub use torn::TornTail;
pub use verify::{Dump, DumpKind, DumpedRecord, Verdict, dump, segments, verify};

use crate::disk::{Disk, DiskLock};
use catalog::Catalog;
use damage::Place;
use fantail_ports::BoxFuture;
use fantail_ports::journal::{Append, AppendError, Bounds, Journal, JournalError, ReadLimit, Record};
use fantail_rules::ids::{Epoch, PartitionId, Position};
use mark::{Mark, unless_full};
use queue::{End, Queue};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use worker::Worker;
use writer::Writer;

type Answer<T> = tokio::sync::oneshot::Receiver<T>;

pub const LOCK_NAME: &str = "journal.lock";

/// The journal of one data directory. Owns its threads; dropping it finishes what waits and stops without sealing.
pub struct LocalJournal {
    shared: Arc<Shared>,
    engine: Mutex<Engine>,
    /// Serves reads that need input, so that no caller's thread waits for the disk.
    worker: Worker,
    report: OpenReport,
    /// Held until the journal is dropped.
    _lock: DiskLock,
}

enum Engine {
    Thread(JoinHandle<Result<(), JournalError>>),
    Manual(Box<Writer>),
    Ended,
}

struct Shared {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: JournalOptions,
    queue: Queue,
    catalog: Mutex<Catalog>,
    trimming: Mutex<()>,
    mark: Mutex<Mark>,
    counters: stats::Counters,
}

/// Locks a mutex. A panic elsewhere does not make the data worse: every change under our locks is completed by
/// assignments that cannot panic half-way, or the writer poisons the journal.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Changes the mark after what it is about to say has become durable. On a full disk it stays as it was.
    fn set_mark(&self, change: impl FnOnce(&mut Mark)) -> std::io::Result<()> {
        unless_full(self.move_mark(change)).map(|_| ())
    }

    /// Changes the mark, durably, before what it says no longer is removed. After an error it is as it was.
    fn move_mark(&self, change: impl FnOnce(&mut Mark)) -> std::io::Result<()> {
        let mut mark = held(&self.mark);
        let mut next = *mark;
        change(&mut next);
        if next != *mark {
            next.write(&*self.disk, &self.dir)?;
            *mark = next;
        }
        Ok(())
    }
}

impl LocalJournal {
    /// Opens the journal in a directory, which is created if needed. What was found is in [`LocalJournal::report`].
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: JournalOptions) -> Result<Self, JournalError> {
        let place = Place::new(dir);
        disk.create_dir(dir).map_err(|error| place.failed(&error))?;
        let lock_path = dir.join(LOCK_NAME);
        let lock_place = Place::new(&lock_path);
        let lock = disk.lock(&lock_path).map_err(|error| lock_place.failed(&error))?;
        let Some(lock) = lock else { return Err(JournalError::Locked { file: lock_place.file() }) };
        let mut recovered = recover::recover(&*disk, dir, &options)?;
        let report = std::mem::take(&mut recovered.report);
        let catalog = Catalog {
            segments: std::mem::take(&mut recovered.segments),
            standings: recovered.standings.clone(),
            cache: cache::TailCache::new(options.cache_bytes_max),
            holds: 0,
        };
        let shared = Arc::new(Shared {
            disk,
            dir: dir.to_owned(),
            queue: Queue::new(&recovered.standings, options.queue_bytes_max),
            options,
            catalog: Mutex::new(catalog),
            trimming: Mutex::new(()),
            mark: Mutex::new(recovered.mark),
            counters: stats::Counters::default(),
        });
        let writer = Writer::new(Arc::clone(&shared), recovered);
        let (engine, worker) = match shared.options.drive {
            Drive::Manual => (Engine::Manual(Box::new(writer)), Worker::inline()),
            Drive::Threads => {
                let thread = std::thread::Builder::new().name("journal-writer".to_owned());
                let thread = thread.spawn(move || writer.run()).map_err(|error| place.failed(&error))?;
                (
                    Engine::Thread(thread),
                    Worker::start("journal-reader").map_err(|error| place.failed(&error))?,
                )
            }
        };
        Ok(Self { shared, engine: Mutex::new(engine), worker, report, _lock: lock })
    }

    /// What opening found.
    #[must_use]
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    #[must_use]
    pub fn stats(&self) -> JournalStats {
        self.shared.counters.read()
    }

    /// Why the journal refuses everything, if it does.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.shared.queue.failure()
    }

    /// With [`Drive::Manual`]: performs one group commit in the caller's thread; false if nothing waited.
    pub fn commit_next(&self) -> bool {
        let mut engine = held(&self.engine);
        let Engine::Manual(writer) = &mut *engine else { return false };
        let group = self.shared.queue.take();
        let waited = !group.is_empty();
        if waited {
            writer.commit(group);
        }
        waited
    }

    /// The clean stop: finishes what waits, seals the segment, refuses appends from then on. Blocks until done;
    /// again is a no-op. Reads go on.
    pub fn close(&self) -> Result<(), JournalError> {
        self.shared.queue.end(End::Seal);
        while self.commit_next() {}
        match std::mem::replace(&mut *held(&self.engine), Engine::Ended) {
            Engine::Thread(thread) => self.joined(thread),
            Engine::Manual(mut writer) => writer.seal(),
            Engine::Ended => Ok(()),
        }
    }

    /// With [`Drive::Manual`]: seals the segment that is being written, if it holds a record; the next append begins
    /// another. So that what is there can be copied as files that never change again.
    pub fn roll(&self) -> Result<(), JournalError> {
        match &mut *held(&self.engine) {
            Engine::Manual(writer) => writer.roll(),
            Engine::Thread(_) | Engine::Ended => Ok(()),
        }
    }

    /// The files that never change again, oldest first.
    #[must_use]
    pub fn sealed_segments(&self) -> Vec<PathBuf> {
        let catalog = held(&self.shared.catalog);
        catalog.segments.iter().filter(|segment| segment.sealed).map(|segment| segment.path.clone()).collect()
    }

    fn joined(&self, thread: JoinHandle<Result<(), JournalError>>) -> Result<(), JournalError> {
        let file = Place::new(&self.shared.dir).file();
        let panicked = |_| JournalError::Io { file, reason: "the journal's writer panicked".to_owned() };
        thread.join().map_err(panicked)?
    }
}

impl Drop for LocalJournal {
    fn drop(&mut self) {
        self.shared.queue.end(End::Stop);
        if let Engine::Thread(thread) = std::mem::replace(&mut *held(&self.engine), Engine::Ended) {
            // A failure was reported through `on_failure` and to every waiting caller.
            drop(thread.join());
        }
    }
}

impl Journal for LocalJournal {
    fn fence(&self, partition: PartitionId) -> BoxFuture<'_, Result<Epoch, JournalError>> {
        let taken = self.shared.queue.fence(partition);
        let file = Place::new(&self.shared.dir).file();
        Box::pin(async move {
            let failed = |reason: String| JournalError::Io { file, reason };
            match taken {
                Ok(answered) => match answered.await {
                    Ok(answer) => answer,
                    Err(_) => Err(failed(STOPPED.to_owned())),
                },
                Err(error) => Err(failed(error.to_string())),
            }
        })
    }

    fn append(&self, append: Append) -> BoxFuture<'static, Result<Position, AppendError>> {
        let taken = self.shared.queue.append(append);
        Box::pin(async move {
            let stopped = |_| AppendError::Failed { reason: STOPPED.to_owned() };
            taken?.await.map_err(stopped)?
        })
    }

    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        limit: ReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Record>, JournalError>> {
        let ask = read::Ask { partition, from, limit };
        Box::pin(async move {
            if let Some(answer) = read::read_cached(&self.shared, ask) {
                return answer;
            }
            let shared = Arc::clone(&self.shared);
            let answer = self.worker.perform(move || read::read(&shared, ask)).await;
            answer.unwrap_or_else(|| Err(self.worker_stopped()))
        })
    }

    fn bounds(&self, partition: PartitionId) -> Result<Bounds, JournalError> {
        Ok(held(&self.shared.catalog).bounds(partition.code()))
    }

    fn trim(&self, partition: PartitionId, before: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let shared = Arc::clone(&self.shared);
            let answer = self.worker.perform(move || trim::trim(&shared, partition, before)).await;
            answer.unwrap_or_else(|| Err(self.worker_stopped()))
        })
    }
}

const STOPPED: &str = "the journal stopped before the append was durable";

impl LocalJournal {
    fn worker_stopped(&self) -> JournalError {
        let file = Place::new(&self.shared.dir).file();
        JournalError::Io { file, reason: "the journal's reader stopped".to_owned() }
    }
}
