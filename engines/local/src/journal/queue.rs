//! What waits for the writer, in the order of the calls.
//!
//! Comes from: `append` and `fence`, which take their place here when they are called. Decides: fenced, out of order,
//! too much waiting. Goes to: the writer, which takes everything that came while it was syncing, as one group.
//!
//! What must never happen: an append that is taken behind one that failed on the same partition. Failing resets
//! the partition to what is durable, so whatever was built on the failed one no longer continues it.

use super::block::record_bytes;
use super::standing::Standings;
use super::{Answer, held};
use fantail_ports::journal::{Append, AppendError, JournalError};
use fantail_rules::ids::{Epoch, PartitionId, Position};
use fantail_rules::limits::{APPEND_BYTES_MAX, RECORD_BYTES_MAX};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex};
use tokio::sync::oneshot;

/// A group stops growing here, so that a flood does not make one sync last for ever.
const GROUP_BYTES_MAX: usize = 4 << 20;

pub struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    bytes_max: usize,
}

struct State {
    /// How partitions will stand when everything that waits or is being written is durable.
    tails: BTreeMap<u16, Tail>,
    waiting: VecDeque<Pending>,
    bytes: usize,
    end: Option<End>,
    failed: Option<String>,
}

#[derive(Clone, Copy)]
struct Tail {
    epoch: u64,
    next: u64,
}

/// How the writer ends, once nothing waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Seal,
    Stop,
}

pub enum Pending {
    Append(PendingAppend),
    Fence(PendingFence),
}

pub struct PendingAppend {
    pub append: Append,
    /// With headers, as it counts in a block.
    pub bytes: usize,
    pub answer: oneshot::Sender<Result<Position, AppendError>>,
}

pub struct PendingFence {
    pub partition: PartitionId,
    pub epoch: u64,
    pub answer: oneshot::Sender<Result<Epoch, JournalError>>,
}

impl Pending {
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Append(append) => append.bytes,
            Self::Fence(_) => record_bytes(0),
        }
    }
}

impl Queue {
    #[must_use]
    pub fn new(standings: &Standings, bytes_max: usize) -> Self {
        let tails = standings.0.iter();
        let tails = tails.map(|(code, now)| (*code, Tail { epoch: now.epoch, next: now.next })).collect();
        let state = State { tails, waiting: VecDeque::new(), bytes: 0, end: None, failed: None };
        Self { state: Mutex::new(state), wake: Condvar::new(), bytes_max }
    }

    /// Takes a place in the order for an append, or refuses it.
    pub fn append(&self, append: Append) -> Result<Answer<Result<Position, AppendError>>, AppendError> {
        assert!(!append.records.is_empty(), "an empty batch has no last position");
        let bytes = check_size(&append)?;
        let mut state = held(&self.state);
        state.check_open()?;
        let tail = state.tail(append.partition.code());
        if append.epoch.0 != tail.epoch {
            return Err(AppendError::Fenced { ours: append.epoch, current: Epoch(tail.epoch) });
        }
        if append.first.0 != tail.next {
            let (partition, first) = (append.partition, append.first);
            return Err(AppendError::OutOfOrder { partition, first, expected: Position(tail.next) });
        }
        let left = self.bytes_max.saturating_sub(state.bytes);
        if bytes > left && !state.waiting.is_empty() {
            return Err(AppendError::NoRoom { free_bytes: left as u64, needed_bytes: bytes as u64 });
        }
        let next = tail.next + append.records.len() as u64;
        state.tails.insert(append.partition.code(), Tail { next, ..tail });
        let (answer, answered) = oneshot::channel();
        self.push(&mut state, Pending::Append(PendingAppend { append, bytes, answer }));
        Ok(answered)
    }

    /// Takes a place in the order for a new epoch. Appends of older epochs are refused from here on.
    pub fn fence(&self, partition: PartitionId) -> Result<Answer<Result<Epoch, JournalError>>, AppendError> {
        let mut state = held(&self.state);
        state.check_open()?;
        let tail = state.tail(partition.code());
        let epoch = tail.epoch + 1;
        state.tails.insert(partition.code(), Tail { epoch, ..tail });
        let (answer, answered) = oneshot::channel();
        self.push(&mut state, Pending::Fence(PendingFence { partition, epoch, answer }));
        Ok(answered)
    }

    fn push(&self, state: &mut State, pending: Pending) {
        state.bytes += pending.bytes();
        state.waiting.push_back(pending);
        if state.waiting.len() == 1 {
            self.wake.notify_one();
        }
    }

    /// Waits for something to write and takes the next group; the end is answered once nothing waits.
    pub fn wait(&self) -> Result<Vec<Pending>, End> {
        let state = held(&self.state);
        let idle = |state: &mut State| state.waiting.is_empty() && state.end.is_none();
        let mut state = self.wake.wait_while(state, idle).unwrap_or_else(std::sync::PoisonError::into_inner);
        match state.end {
            Some(end) if state.waiting.is_empty() => Err(end),
            _ => Ok(state.take_group()),
        }
    }

    /// Takes the next group without waiting; may be empty.
    pub fn take(&self) -> Vec<Pending> {
        held(&self.state).take_group()
    }

    /// Nothing more is taken in; the writer ends after what waits.
    pub fn end(&self, end: End) {
        let mut state = held(&self.state);
        state.end.get_or_insert(end);
        self.wake.notify_all();
    }

    /// Takes all waiting appends out, because one before them failed, and sets their partitions back to what is
    /// durable. Fences stay: they do not build on it.
    pub fn refuse_appends(&self, durable: &Standings) -> Vec<PendingAppend> {
        let mut state = held(&self.state);
        let mut refused = Vec::new();
        for pending in std::mem::take(&mut state.waiting) {
            match pending {
                Pending::Append(append) => {
                    state.bytes -= append.bytes;
                    refused.push(append);
                }
                Pending::Fence(_) => state.waiting.push_back(pending),
            }
        }
        for (code, tail) in &mut state.tails {
            tail.next = durable.of(*code).next;
        }
        refused
    }

    /// Refuses everything from now on, and answers what waited.
    pub fn fail(&self, reason: &str) -> Vec<Pending> {
        let mut state = held(&self.state);
        state.failed.get_or_insert_with(|| reason.to_owned());
        state.bytes = 0;
        std::mem::take(&mut state.waiting).into()
    }

    #[must_use]
    pub fn failure(&self) -> Option<String> {
        held(&self.state).failed.clone()
    }
}

/// The bytes of an append as they count in a block, if it and its records are within their limits.
fn check_size(append: &Append) -> Result<usize, AppendError> {
    let too_large = |what, bytes, max| Err(AppendError::TooLarge { what, bytes, max });
    let largest = append.records.iter().map(Vec::len).max().unwrap_or(0);
    if largest > RECORD_BYTES_MAX {
        return too_large("record", largest, RECORD_BYTES_MAX);
    }
    let bytes: usize = append.records.iter().map(|record| record_bytes(record.len())).sum();
    if bytes > APPEND_BYTES_MAX { too_large("append", bytes, APPEND_BYTES_MAX) } else { Ok(bytes) }
}

impl State {
    fn check_open(&self) -> Result<(), AppendError> {
        match (&self.failed, self.end) {
            (Some(reason), _) => Err(AppendError::Failed { reason: reason.clone() }),
            (None, Some(_)) => Err(AppendError::Failed { reason: "the journal is closed".to_owned() }),
            (None, None) => Ok(()),
        }
    }

    fn tail(&self, partition: u16) -> Tail {
        self.tails.get(&partition).copied().unwrap_or(Tail { epoch: 0, next: 1 })
    }

    fn take_group(&mut self) -> Vec<Pending> {
        let mut bytes = 0;
        let fits = |pending: &&Pending| {
            bytes += pending.bytes();
            bytes <= GROUP_BYTES_MAX
        };
        let count = self.waiting.iter().take_while(fits).count().max(1).min(self.waiting.len());
        let group: Vec<Pending> = self.waiting.drain(..count).collect();
        self.bytes -= group.iter().map(Pending::bytes).sum::<usize>();
        group
    }
}
