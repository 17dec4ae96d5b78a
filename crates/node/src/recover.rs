//! Recovery: fold what the journal holds beyond the store's sync point.
//!
//! Comes from: start, after the partition was fenced. Does: replays record by record, with the front's facts that
//! takes refer to. Goes to: `lead`, at the position behind the last record.

use crate::machines::{Machine, Reference, ReplayError};
use crate::ports::Ports;
use crate::tail::{Tail, TailError};
use fantail_machine::front::fact::FrontFact;
use fantail_machine::records;
use fantail_machine::shard::Derived;
use fantail_machine::view::View;
use fantail_ports::journal::{Journal, JournalError, ReadLimit, Record};
use fantail_ports::store::{Commit, StoreError};
use fantail_ports::tables::Changes;
use fantail_rules::ids::{FrontNo, Millis, PartitionId, Position};
use fantail_rules::knobs::Knobs;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use thiserror::Error;

/// Facts of a front that are read at once.
const FACTS_AHEAD: usize = 1_024;
/// The fronts were replayed before their shards.
const EVERYTHING: Position = Position(u64::MAX - 1);

#[derive(Debug, Error)]
pub enum RecoverError {
    #[error("{partition}: {source}")]
    Journal { partition: PartitionId, source: JournalError },
    #[error("{partition}: {source}")]
    Store { partition: PartitionId, source: StoreError },
    #[error("{partition} at {position}: {source}")]
    Replay { partition: PartitionId, position: Position, source: ReplayError },
    #[error("{partition}: the facts a take refers to are gone: {source}")]
    Facts { partition: PartitionId, source: TailError },
    #[error(
        "{partition}: the store is at {mark}, the journal only reaches {last}: they do not belong together"
    )]
    StoreAhead { partition: PartitionId, mark: Position, last: Position },
    #[error("{partition}: the journal answers nothing from {from} on, but it reaches {last}")]
    Hole { partition: PartitionId, from: Position, last: Position },
}

/// Where a partition stands after recovery.
#[derive(Clone, Copy, Debug)]
pub struct Recovered {
    pub last: Position,
    /// The time of the last record.
    pub time: Millis,
    pub replayed: u64,
}

pub async fn recover<M: Machine>(
    machine: &M,
    ports: &Ports,
    tails: &BTreeMap<FrontNo, Arc<Tail>>,
    knobs: &Knobs,
) -> Result<Recovered, RecoverError> {
    let partition = machine.partition();
    let journal = |source| RecoverError::Journal { partition, source };
    let mark = ports.store.marks().get(&partition).copied().unwrap_or_default();
    let bounds = ports.journal.bounds(partition).map_err(journal)?;
    let last = Position(bounds.next.0 - 1);
    if mark > last {
        return Err(RecoverError::StoreAhead { partition, mark, last });
    }
    let limit = ReadLimit { records: knobs.replay_records, bytes: knobs.replay_bytes };
    let mut at = mark;
    let mut time = Millis(0);
    let mut facts_of = FrontFacts { tails, ahead: BTreeMap::new() };
    while at < last {
        let records = next_records((&*ports.journal, limit), partition, at.next(), last).await?;
        if let Some(newest) = records.last() {
            time = time.max(time_of(newest, partition)?);
            at = newest.position;
        }
        let facts = referred(machine, &mut facts_of, &records).await?;
        replay(machine, ports, &records, &facts)?;
    }
    if time == Millis(0) && last >= bounds.first && last > Position::START {
        let limit = ReadLimit { records: 1, bytes: 1 };
        let records = ports.journal.read(partition, last, limit).await.map_err(journal)?;
        time = records.first().map_or(Ok(time), |record| time_of(record, partition))?;
    }
    Ok(Recovered { last, time, replayed: last.0 - mark.0 })
}

/// Reads the next records of a partition that reaches `last`: at least one.
async fn next_records(
    (journal, limit): (&dyn Journal, ReadLimit),
    partition: PartitionId,
    from: Position,
    last: Position,
) -> Result<Vec<Record>, RecoverError> {
    let records = journal.read(partition, from, limit).await;
    let records = records.map_err(|source| RecoverError::Journal { partition, source })?;
    if records.is_empty() { Err(RecoverError::Hole { partition, from, last }) } else { Ok(records) }
}

fn time_of(record: &Record, partition: PartitionId) -> Result<Millis, RecoverError> {
    records::time_of(&record.bytes).map_err(|malformed| RecoverError::Replay {
        partition,
        position: record.position,
        source: malformed.into(),
    })
}

/// The facts that each record of the stretch refers to.
async fn referred<M: Machine>(
    machine: &M,
    facts_of: &mut FrontFacts<'_>,
    records: &[Record],
) -> Result<Vec<Vec<FrontFact>>, RecoverError> {
    let partition = machine.partition();
    let mut all = Vec::with_capacity(records.len());
    for record in records {
        let reference = machine.refers_to(&record.bytes).map_err(|malformed| RecoverError::Replay {
            partition,
            position: record.position,
            source: malformed.into(),
        })?;
        all.push(match reference {
            Some(reference) => facts_of.take(partition, reference).await?,
            None => Vec::new(),
        });
    }
    Ok(all)
}

/// The facts of the fronts, for takes that refer to them one stretch after the other: each is read once, many at a time.
struct FrontFacts<'a> {
    tails: &'a BTreeMap<FrontNo, Arc<Tail>>,
    /// Read, and behind the last take.
    ahead: BTreeMap<FrontNo, VecDeque<FrontFact>>,
}

impl FrontFacts<'_> {
    async fn take(
        &mut self,
        partition: PartitionId,
        Reference { front, from, to }: Reference,
    ) -> Result<Vec<FrontFact>, RecoverError> {
        let Some(tail) = self.tails.get(&front) else { return Ok(Vec::new()) };
        let ahead = self.ahead.entry(front).or_default();
        if ahead.front().is_some_and(|first| first.position != from) {
            ahead.clear();
        }
        let (mut facts, mut from) = (Vec::new(), from);
        while from <= to {
            if ahead.is_empty() {
                let read = tail.read(from, EVERYTHING, FACTS_AHEAD).await;
                ahead.extend(read.map_err(|source| RecoverError::Facts { partition, source })?);
            }
            let Some(fact) = ahead.pop_front() else {
                return Err(RecoverError::Hole { partition: PartitionId::Front(front), from, last: to });
            };
            from = fact.position.next();
            facts.push(fact);
        }
        Ok(facts)
    }
}

fn replay<M: Machine>(
    machine: &M,
    ports: &Ports,
    records: &[Record],
    facts: &[Vec<FrontFact>],
) -> Result<(), RecoverError> {
    let partition = machine.partition();
    let mut changes = Changes::new();
    let mut derived = Derived::default();
    let mut folded = Ok(());
    let read = ports.store.read(partition, &mut |state| {
        let mut view = View::new(state.tables(), &[], &mut changes);
        folded = records.iter().zip(facts).try_for_each(|(record, facts)| {
            machine
                .replay(&mut view, &record.bytes, facts, &mut derived)
                .map_err(|source| RecoverError::Replay { partition, position: record.position, source })
        });
    });
    read.map_err(|source| RecoverError::Store { partition, source })?;
    folded?;
    let through = records.last().map_or(Position::START, |record| record.position);
    // Offers are in the tables as well: the dispatcher looks there when it starts.
    let Derived { edits, windows, forgets, offers: _ } = derived;
    let commit = Commit { through, changes, edits, windows, forgets };
    ports.store.commit(partition, commit).map_err(|source| RecoverError::Store { partition, source })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use fantail_machine::records::Stamped;
    use fantail_machine::records::front::FrontRecord;
    use fantail_ports::BoxFuture;
    use fantail_ports::journal::{Append, AppendError, Bounds};
    use fantail_rules::actor::Actor;
    use fantail_rules::ids::{Epoch, ShardNo};
    use std::pin::pin;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::task::{Context, Poll, Waker};

    const FRONT: FrontNo = FrontNo(0);

    /// A front with so many records, which counts how often and how much is read.
    struct Counting {
        last: u64,
        record: Vec<u8>,
        reads: AtomicU64,
        records: AtomicU64,
    }

    impl Journal for Counting {
        fn append(&self, _: Append) -> BoxFuture<'static, Result<Position, AppendError>> {
            unreachable!("nothing is written")
        }

        fn fence(&self, _: PartitionId) -> BoxFuture<'_, Result<Epoch, JournalError>> {
            unreachable!("nothing is written")
        }

        fn read(
            &self,
            _: PartitionId,
            from: Position,
            limit: ReadLimit,
        ) -> BoxFuture<'_, Result<Vec<Record>, JournalError>> {
            let to = self.last.min(from.0 + limit.records as u64 - 1);
            let record = |no| Record { position: Position(no), bytes: self.record.clone() };
            let found: Vec<Record> = (from.0..=to).map(record).collect();
            self.reads.fetch_add(1, Relaxed);
            self.records.fetch_add(found.len() as u64, Relaxed);
            Box::pin(async { Ok(found) })
        }

        fn bounds(&self, _: PartitionId) -> Result<Bounds, JournalError> {
            Ok(Bounds { first: Position(1), next: Position(self.last + 1) })
        }

        fn trim(&self, _: PartitionId, _: Position) -> BoxFuture<'_, Result<(), JournalError>> {
            unreachable!("nothing is trimmed")
        }
    }

    /// What a future comes to that does not wait.
    pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing waits here"),
        }
    }

    fn journal(last: u64) -> Arc<Counting> {
        let record = FrontRecord::Counted { shard: ShardNo(0), sizes: Vec::new() };
        let record = Stamped { at: Millis(1), by: Actor::System, record }.encode();
        Arc::new(Counting { last, record, reads: AtomicU64::new(0), records: AtomicU64::new(0) })
    }

    #[test]
    fn a_replay_reads_each_fact_of_a_front_once() {
        let counting = journal(10_000);
        let tails = BTreeMap::from([(FRONT, Arc::new(Tail::new(FRONT, counting.clone(), Knobs::default())))]);
        let mut facts_of = FrontFacts { tails: &tails, ahead: BTreeMap::new() };
        let shard = PartitionId::Shard(ShardNo(0));
        // Takes of two facts each, as when events come one by one.
        for from in (1..=10_000).step_by(2).map(Position) {
            let reference = Reference { front: FRONT, from, to: from.next() };
            let facts = now(facts_of.take(shard, reference)).expect("they are there");
            let positions: Vec<Position> = facts.iter().map(|fact| fact.position).collect();
            assert_eq!(positions, [from, from.next()]);
        }
        assert_eq!((counting.reads.load(Relaxed), counting.records.load(Relaxed)), (10, 10_000));
    }

    // fixes: correctness C1
    #[test]
    fn a_journal_that_answers_nothing_is_not_at_its_end() {
        let counting = journal(10);
        let next = |from| {
            now(next_records(
                (&*counting, ReadLimit { records: 512, bytes: 8 << 20 }),
                PartitionId::Front(FRONT),
                from,
                Position(12),
            ))
        };
        assert_eq!(next(Position(1)).expect("they are there").len(), 10);
        let hole = next(Position(11));
        assert!(matches!(hole, Err(RecoverError::Hole { from: Position(11), last: Position(12), .. })));
    }

    // fixes: correctness C1
    #[test]
    fn facts_that_are_gone_are_an_error() {
        let counting = journal(10);
        let tails = BTreeMap::from([(FRONT, Arc::new(Tail::new(FRONT, counting, Knobs::default())))]);
        let mut facts_of = FrontFacts { tails: &tails, ahead: BTreeMap::new() };
        let reference = Reference { front: FRONT, from: Position(9), to: Position(12) };
        let failed = now(facts_of.take(PartitionId::Shard(ShardNo(0)), reference));
        assert!(matches!(failed, Err(RecoverError::Hole { from: Position(11), .. })));
    }
}
