//! Recovery: fold what the journal holds beyond the store's sync point.
//!
//! Comes from: start, after the partition was fenced. Does: replays record by record, with the front's facts that
//! takes refer to. Goes to: `lead`, at the position behind the last record.

use crate::machines::{Machine, ReplayError};
use crate::ports::Ports;
use crate::tail::{Tail, TailError};
use fantail_machine::front::fact::FrontFact;
use fantail_machine::records;
use fantail_machine::shard::Derived;
use fantail_machine::view::View;
use fantail_ports::journal::{JournalError, ReadLimit, Record};
use fantail_ports::store::{Commit, StoreError};
use fantail_ports::tables::Changes;
use fantail_rules::ids::{FrontNo, Millis, PartitionId, Position};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

const REPLAY_RECORDS: usize = 512;
const REPLAY_BYTES: usize = 8 << 20;

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
) -> Result<Recovered, RecoverError> {
    let partition = machine.partition();
    let journal = |source| RecoverError::Journal { partition, source };
    let mark = ports.store.marks().get(&partition).copied().unwrap_or_default();
    let bounds = ports.journal.bounds(partition).map_err(journal)?;
    let last = Position(bounds.next.0 - 1);
    if mark > last {
        return Err(RecoverError::StoreAhead { partition, mark, last });
    }
    let mut at = mark;
    let mut time = Millis(0);
    while at < last {
        let limit = ReadLimit { records: REPLAY_RECORDS, bytes: REPLAY_BYTES };
        let records = ports.journal.read(partition, at.next(), limit).await.map_err(journal)?;
        let Some(newest) = records.last() else {
            return Err(RecoverError::Hole { partition, from: at.next(), last });
        };
        time = time.max(time_of(newest, partition)?);
        at = newest.position;
        let facts = referred(machine, tails, &records).await?;
        replay(machine, ports, &records, &facts)?;
    }
    if time == Millis(0) && last >= bounds.first && last > Position::START {
        let limit = ReadLimit { records: 1, bytes: 1 };
        let records = ports.journal.read(partition, last, limit).await.map_err(journal)?;
        time = records.first().map_or(Ok(time), |record| time_of(record, partition))?;
    }
    Ok(Recovered { last, time, replayed: last.0 - mark.0 })
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
    tails: &BTreeMap<FrontNo, Arc<Tail>>,
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
        let mut facts = Vec::new();
        if let Some(reference) = reference
            && let Some(tail) = tails.get(&reference.front)
        {
            let mut from = reference.from;
            while from <= reference.to {
                let wanted = (reference.to.0 - from.0 + 1) as usize;
                let read = tail.read(from, wanted).await;
                let read = read.map_err(|source| RecoverError::Facts { partition, source })?;
                let Some(newest) = read.last() else {
                    let partition = PartitionId::Front(reference.front);
                    return Err(RecoverError::Hole { partition, from, last: reference.to });
                };
                from = newest.position.next();
                facts.extend(read);
            }
        }
        all.push(facts);
    }
    Ok(all)
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
