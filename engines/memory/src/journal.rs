//! The journal as a model: what the contract says and nothing else. The simulator runs on it.
//!
//! No threads, no clock. With [`Durability::OnFlush`] an append waits, visible to nobody, until the simulator decides:
//! `flush_next` makes the oldest one durable and answers it, `crash` loses a suffix of what waits.
//!
//! What must never happen: a choice in here. Everything that can go either way is the caller's to decide, so that
//! the same seed gives the same bytes.

use fantail_ports::BoxFuture;
use fantail_ports::journal::{Append, AppendError, Bounds, Journal, JournalError, ReadLimit, Record};
use fantail_rules::ids::{Epoch, PartitionId, Position};
use fantail_rules::limits::{APPEND_BYTES_MAX, RECORD_BYTES_MAX, RECORD_HEADER_BYTES_MAX};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// A handle; clones are the same journal.
#[derive(Clone)]
pub struct MemoryJournal {
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Appends and fences are durable and answered when they are called.
    AtOnce,
    /// They wait for [`MemoryJournal::flush_next`].
    OnFlush,
}

struct State {
    durability: Durability,
    partitions: BTreeMap<PartitionId, Partition>,
    waiting: VecDeque<Waiting>,
    failed: Option<String>,
    full: bool,
}

#[derive(Clone)]
struct Partition {
    /// Position of the first kept record.
    first: u64,
    records: VecDeque<Vec<u8>>,
    epoch: u64,
    /// Epoch and next position with everything that waits.
    tail_epoch: u64,
    tail_next: u64,
}

impl Default for Partition {
    fn default() -> Self {
        Self { first: 1, records: VecDeque::new(), epoch: 0, tail_epoch: 0, tail_next: 1 }
    }
}

impl Partition {
    fn next(&self) -> u64 {
        self.first + self.records.len() as u64
    }
}

enum Waiting {
    Append(Append, oneshot::Sender<Result<Position, AppendError>>),
    Fence(PartitionId, Epoch, oneshot::Sender<Result<Epoch, JournalError>>),
}

impl MemoryJournal {
    #[must_use]
    pub fn new(durability: Durability) -> Self {
        Self::with(durability, BTreeMap::new())
    }

    fn with(durability: Durability, partitions: BTreeMap<PartitionId, Partition>) -> Self {
        let state = State { durability, partitions, waiting: VecDeque::new(), failed: None, full: false };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// How many appends and fences wait to become durable.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// Makes the oldest waiting append or fence durable and answers it; false if none waits.
    pub fn flush_next(&self) -> bool {
        self.state().flush_next()
    }

    pub fn flush_all(&self) {
        while self.flush_next() {}
    }

    /// Makes the next `kept` of what waits durable without an answer and loses the rest, as a crash does. The journal
    /// itself stays usable: for a log that outlives the node whose appends these were.
    pub fn lose_waiting(&self, kept: usize) {
        self.state().lose_waiting(kept, "the append was lost");
    }

    /// The process dies: the first `kept` of what waits had reached the disk, the rest is lost, and this handle and
    /// its clones answer `Failed` from now on. The answer is the journal as the next process opens it.
    #[must_use]
    pub fn crash(&self, kept: usize) -> Self {
        let mut state = self.state();
        state.lose_waiting(kept, "the process crashed");
        state.failed = Some("the process crashed".to_owned());
        Self::with(state.durability, state.partitions.clone())
    }

    /// A write or sync failed: everything that waits and everything later answers `Failed`.
    pub fn fail(&self, reason: &str) {
        let mut state = self.state();
        state.lose_waiting(0, reason);
        state.failed = Some(reason.to_owned());
    }

    /// While full, appends answer `NoRoom` when they would become durable. Fences and reads go on.
    pub fn set_full(&self, full: bool) {
        self.state().full = full;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, append: &Append) -> Result<(), AppendError> {
        assert!(!append.records.is_empty(), "an empty batch has no last position");
        let largest = append.records.iter().map(Vec::len).max().unwrap_or(0);
        if largest > RECORD_BYTES_MAX {
            return Err(AppendError::TooLarge { what: "record", bytes: largest, max: RECORD_BYTES_MAX });
        }
        let sizes = append.records.iter().map(|record| record.len() + RECORD_HEADER_BYTES_MAX);
        let bytes: usize = sizes.sum();
        if bytes > APPEND_BYTES_MAX {
            return Err(AppendError::TooLarge { what: "append", bytes, max: APPEND_BYTES_MAX });
        }
        if let Some(reason) = &self.failed {
            return Err(AppendError::Failed { reason: reason.clone() });
        }
        let partition = self.partitions.entry(append.partition).or_default();
        if append.epoch.0 != partition.tail_epoch {
            return Err(AppendError::Fenced { ours: append.epoch, current: Epoch(partition.tail_epoch) });
        }
        if append.first.0 != partition.tail_next {
            let expected = Position(partition.tail_next);
            return Err(AppendError::OutOfOrder {
                partition: append.partition,
                first: append.first,
                expected,
            });
        }
        partition.tail_next += append.records.len() as u64;
        Ok(())
    }

    fn wait(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
        if self.durability == Durability::AtOnce {
            self.flush_next();
        }
    }

    fn flush_next(&mut self) -> bool {
        if self.full && matches!(self.waiting.front(), Some(Waiting::Append(..))) {
            self.refuse_appends();
            return true;
        }
        let Some(waiting) = self.waiting.pop_front() else { return false };
        match waiting {
            Waiting::Append(append, answer) => {
                let last = self.store(append);
                unheard_is_fine(answer.send(Ok(last)));
            }
            Waiting::Fence(partition, epoch, answer) => {
                self.partitions.entry(partition).or_default().epoch = epoch.0;
                unheard_is_fine(answer.send(Ok(epoch)));
            }
        }
        true
    }

    fn store(&mut self, append: Append) -> Position {
        let partition = self.partitions.entry(append.partition).or_default();
        assert_eq!(partition.next(), append.first.0, "what waits continues what is durable");
        partition.records.extend(append.records);
        Position(partition.next() - 1)
    }

    /// All waiting appends fail, and their partitions are set back to what is durable.
    fn refuse_appends(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Append(append, answer) => {
                    let needed_bytes = append.records.iter().map(|record| record.len() as u64).sum();
                    unheard_is_fine(answer.send(Err(AppendError::NoRoom { free_bytes: 0, needed_bytes })));
                }
                Waiting::Fence(..) => self.waiting.push_back(waiting),
            }
        }
        for partition in self.partitions.values_mut() {
            partition.tail_next = partition.next();
        }
    }

    fn lose_waiting(&mut self, kept: usize, reason: &str) {
        for (number, waiting) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            match waiting {
                Waiting::Append(append, answer) => {
                    if number < kept {
                        self.store(append);
                    }
                    unheard_is_fine(answer.send(Err(AppendError::Failed { reason: reason.to_owned() })));
                }
                Waiting::Fence(partition, epoch, answer) => {
                    if number < kept {
                        self.partitions.entry(partition).or_default().epoch = epoch.0;
                    }
                    let error = JournalError::Io { file: "memory".to_owned(), reason: reason.to_owned() };
                    unheard_is_fine(answer.send(Err(error)));
                }
            }
        }
        for partition in self.partitions.values_mut() {
            partition.tail_next = partition.next();
            partition.tail_epoch = partition.epoch;
        }
    }
}

/// The caller may have dropped its future; what happened, happened.
fn unheard_is_fine<T>(sent: Result<(), T>) {
    drop(sent);
}

impl Journal for MemoryJournal {
    fn fence(&self, partition: PartitionId) -> BoxFuture<'_, Result<Epoch, JournalError>> {
        let io = |reason: String| JournalError::Io { file: "memory".to_owned(), reason };
        let mut state = self.state();
        if let Some(reason) = state.failed.clone() {
            return Box::pin(async move { Err(io(reason)) });
        }
        let taken = state.partitions.entry(partition).or_default();
        taken.tail_epoch += 1;
        let epoch = Epoch(taken.tail_epoch);
        let (answer, answered) = oneshot::channel();
        state.wait(Waiting::Fence(partition, epoch, answer));
        Box::pin(async move { answered.await.map_err(|_| io("the journal is gone".to_owned()))? })
    }

    fn append(&self, append: Append) -> BoxFuture<'static, Result<Position, AppendError>> {
        let mut state = self.state();
        if let Err(error) = state.take(&append) {
            return Box::pin(async move { Err(error) });
        }
        let (answer, answered) = oneshot::channel();
        state.wait(Waiting::Append(append, answer));
        let gone = |_| AppendError::Failed { reason: "the journal is gone".to_owned() };
        Box::pin(async move { answered.await.map_err(gone)? })
    }

    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        limit: ReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Record>, JournalError>> {
        let answer = self.state().read(partition, from, limit);
        Box::pin(async move { answer })
    }

    fn bounds(&self, partition: PartitionId) -> Result<Bounds, JournalError> {
        let state = self.state();
        let found = state.partitions.get(&partition);
        let (first, next) = found.map_or((1, 1), |found| (found.first, found.next()));
        Ok(Bounds { first: Position(first), next: Position(next) })
    }

    fn trim(&self, partition: PartitionId, before: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        if let Some(found) = self.state().partitions.get_mut(&partition) {
            while found.first < before.0 && found.records.pop_front().is_some() {
                found.first += 1;
            }
        }
        Box::pin(async { Ok(()) })
    }
}

impl State {
    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        limit: ReadLimit,
    ) -> Result<Vec<Record>, JournalError> {
        let Some(found) = self.partitions.get(&partition) else { return Ok(Vec::new()) };
        // Position 0 is "before all" and no record.
        let from = from.max(Position(1));
        if from.0 < found.first {
            return Err(JournalError::Trimmed { partition, asked: from, first: Position(found.first) });
        }
        let skipped = usize::try_from(from.0 - found.first).unwrap_or(usize::MAX);
        let mut taken: Vec<Record> = Vec::new();
        let mut bytes = 0;
        for (position, record) in (from.0..).zip(found.records.iter().skip(skipped)) {
            bytes += record.len();
            if !taken.is_empty() && (taken.len() >= limit.records || bytes > limit.bytes) {
                break;
            }
            taken.push(Record { position: Position(position), bytes: record.clone() });
        }
        Ok(taken)
    }
}
