//! The newest facts of a front, decoded once for all shards.
//!
//! Comes from: the front's leader, after each durable batch. Does: keeps a bounded tail in memory; what is older
//! is read from the journal. Goes to: `take`, and `recover` for the stretches that replayed takes refer to.

use fantail_machine::codec::Malformed;
use fantail_machine::front::fact::FrontFact;
use fantail_ports::journal::{Journal, JournalError, ReadLimit};
use fantail_rules::ids::{FrontNo, PartitionId, Position};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// Facts kept in memory: more than shards lag behind in normal times.
const FACTS_MAX: usize = 32_768;

pub struct Tail {
    front: FrontNo,
    journal: Arc<dyn Journal>,
    facts: Mutex<VecDeque<FrontFact>>,
}

#[derive(Debug, Error)]
pub enum TailError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("front record does not decode: {0}")]
    Record(#[from] Malformed),
}

impl Tail {
    pub fn new(front: FrontNo, journal: Arc<dyn Journal>) -> Self {
        Self { front, journal, facts: Mutex::new(VecDeque::new()) }
    }

    /// Adds facts that are durable, in order.
    pub fn extend(&self, new: &[FrontFact]) {
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        facts.extend(new.iter().cloned());
        let surplus = facts.len().saturating_sub(FACTS_MAX);
        facts.drain(..surplus);
    }

    /// Facts from a position on, at most `limit`, in order and without gaps. Empty at the end.
    pub async fn read(&self, from: Position, limit: usize) -> Result<Vec<FrontFact>, TailError> {
        if let Some(facts) = self.recent(from, limit) {
            return Ok(facts);
        }
        let bound = ReadLimit { records: limit, bytes: 4 << 20 };
        let records = self.journal.read(PartitionId::Front(self.front), from, bound).await?;
        let decode =
            |record: &fantail_ports::journal::Record| FrontFact::decode(record.position, &record.bytes);
        Ok(records.iter().map(decode).collect::<Result<_, _>>()?)
    }

    fn recent(&self, from: Position, limit: usize) -> Option<Vec<FrontFact>> {
        let facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        let first = facts.front()?.position;
        let skip = usize::try_from(from.0.checked_sub(first.0)?).ok()?;
        let wanted = skip.min(facts.len())..facts.len().min(skip.saturating_add(limit));
        Some(facts.range(wanted).cloned().collect())
    }
}
