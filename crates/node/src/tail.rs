//! The newest facts of a front, decoded once for all shards.
//!
//! Comes from: the front's leader, after each durable batch. Does: keeps a tail in memory, bounded in facts and in bytes;
//! what is older is read from the journal. Goes to: `take`, and `recover` for the stretches that replayed takes refer to.

use crate::queue::Held;
use fantail_machine::codec::Malformed;
use fantail_machine::front::fact::FrontFact;
use fantail_ports::journal::{Journal, JournalError, ReadLimit};
use fantail_rules::ids::{FrontNo, PartitionId, Position};
use fantail_rules::knobs::Knobs;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// Bytes of records that are read from the journal at once. Their content is most of it.
const READ_BYTES_MAX: usize = 4 << 20;

pub struct Tail {
    front: FrontNo,
    journal: Arc<dyn Journal>,
    facts: Mutex<Facts>,
    knobs: Knobs,
}

#[derive(Default)]
struct Facts {
    newest: VecDeque<FrontFact>,
    bytes: usize,
}

#[derive(Debug, Error)]
pub enum TailError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("front record does not decode: {0}")]
    Record(#[from] Malformed),
}

impl Tail {
    pub fn new(front: FrontNo, journal: Arc<dyn Journal>, knobs: Knobs) -> Self {
        Self { front, journal, facts: Mutex::default(), knobs }
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds facts that are durable, in order.
    pub fn extend(&self, new: &[FrontFact]) {
        let mut facts = self.facts();
        facts.bytes += new.iter().map(FrontFact::bytes).sum::<usize>();
        facts.newest.extend(new.iter().cloned());
        while facts.newest.len() > self.knobs.tail_facts || facts.bytes > self.knobs.tail_bytes {
            let Some(oldest) = facts.newest.pop_front() else { break };
            facts.bytes -= oldest.bytes();
        }
    }

    /// What is in memory.
    #[must_use]
    pub fn held(&self) -> Held {
        let facts = self.facts();
        Held { items: facts.newest.len(), bytes: facts.bytes }
    }

    /// Facts from a position on through another one, at most `limit` and no more bytes than a take may have, but at least one
    /// if there is any; in order and without gaps. Empty at the end. The journal has records before their front has applied
    /// them; a shard that takes them would show events that nobody can read yet.
    pub async fn read(
        &self,
        from: Position,
        through: Position,
        limit: usize,
    ) -> Result<Vec<FrontFact>, TailError> {
        let between = usize::try_from((through.0 + 1).saturating_sub(from.0)).unwrap_or(usize::MAX);
        let limit = limit.min(between);
        if limit == 0 {
            return Ok(Vec::new());
        }
        if let Some(facts) = self.recent(from, limit) {
            return Ok(facts);
        }
        let bound = ReadLimit { records: limit, bytes: READ_BYTES_MAX };
        let records = self.journal.read(PartitionId::Front(self.front), from, bound).await?;
        let decode =
            |record: &fantail_ports::journal::Record| FrontFact::decode(record.position, &record.bytes);
        let facts: Vec<FrontFact> = records.iter().map(decode).collect::<Result<_, _>>()?;
        Ok(self.within(facts.into_iter()))
    }

    fn recent(&self, from: Position, limit: usize) -> Option<Vec<FrontFact>> {
        let facts = &self.facts().newest;
        let first = facts.front()?.position;
        let skip = usize::try_from(from.0.checked_sub(first.0)?).ok()?;
        let wanted = skip.min(facts.len())..facts.len().min(skip.saturating_add(limit));
        Some(self.within(facts.range(wanted).cloned()))
    }

    /// As many of the facts as fit into the bytes of a take, at least one.
    fn within(&self, facts: impl Iterator<Item = FrontFact>) -> Vec<FrontFact> {
        let mut bytes = 0;
        let fits = |fact: &FrontFact| {
            let is_first = bytes == 0;
            bytes += fact.bytes();
            is_first || bytes <= self.knobs.take_bytes
        };
        facts.take_while(fits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recover::tests::now;
    use fantail_machine::front::fact::Said;
    use fantail_machine::records::walk::{Pace, Walk};
    use fantail_memory::journal::{Durability, MemoryJournal};
    use fantail_ports::journal::Append;
    use fantail_rules::ids::TenantId;
    use fantail_rules::ulid::Ulid;

    /// A fact that holds so many bytes, about.
    fn fact(position: u64, bytes: usize) -> FrontFact {
        let walk = Walk {
            segment: String::new(),
            filter: Some("x".repeat(bytes)),
            list: None,
            excludes_opted_out: false,
            ignores_quiet_hours: false,
            is_paused: false,
            pace: Pace::Free,
            window: None,
        };
        let (tenant, event) = (TenantId(1), Ulid(0));
        let said = Said::Walked { tenant, event, walk: Arc::new(walk), delivery: None, is_late: false };
        FrontFact { position: Position(position), said }
    }

    fn tail(knobs: Knobs) -> Tail {
        Tail::new(FrontNo(0), Arc::new(MemoryJournal::new(Durability::AtOnce)), knobs)
    }

    // fixes: correctness A15
    #[test]
    fn large_facts_make_the_tail_short() {
        let knobs = Knobs { tail_bytes: 10_000, tail_facts: 50, ..Knobs::default() };
        let tail = tail(knobs);
        for position in 1..=1_000 {
            tail.extend(&[fact(position, if position % 2 == 0 { 3_000 } else { 0 })]);
            let facts = tail.facts();
            let bytes: usize = facts.newest.iter().map(FrontFact::bytes).sum();
            assert_eq!(facts.bytes, bytes);
            assert!(bytes <= knobs.tail_bytes && facts.newest.len() <= knobs.tail_facts);
            assert_eq!(facts.newest.back().map(|fact| fact.position), Some(Position(position)));
        }
    }

    #[test]
    fn what_the_front_has_not_applied_is_not_read() {
        let journal = Arc::new(MemoryJournal::new(Durability::AtOnce));
        let partition = PartitionId::Front(FrontNo(0));
        let epoch = now(journal.fence(partition)).expect("fenced");
        let records = vec![b"does not decode".to_vec(); 3];
        now(journal.append(Append { partition, epoch, first: Position(1), records })).expect("appended");
        let tail = Tail::new(FrontNo(0), journal, Knobs::default());
        let read = |through| now(tail.read(Position(1), Position(through), 10));
        assert!(matches!(read(0).as_deref(), Ok([])), "durable, and not applied");
        assert!(matches!(read(1), Err(TailError::Record(_))), "the record is there");

        tail.extend(&(1..=3).map(|position| fact(position, 0)).collect::<Vec<_>>());
        for through in 0..=5 {
            assert_eq!(read(through).expect("in memory").len() as u64, through.min(3));
        }
    }

    // fixes: correctness A15
    #[test]
    fn a_take_is_cut_by_bytes_and_has_at_least_one_fact() {
        let tail = tail(Knobs { take_bytes: 10_000, ..Knobs::default() });
        let facts: Vec<_> =
            (1..=20).map(|position| fact(position, 3_000)).chain([fact(21, 50_000)]).collect();
        tail.extend(&facts);
        let taken = |from| tail.recent(Position(from), 1_024).map(|facts| facts.len());
        assert_eq!((taken(1), taken(20), taken(21), taken(22)), (Some(3), Some(1), Some(1), Some(0)));
    }
}
