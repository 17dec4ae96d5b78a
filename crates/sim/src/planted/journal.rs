//! Journals that promise too much.

use super::Bug;
use fantail_memory::journal::MemoryJournal;
use fantail_ports::BoxFuture;
use fantail_ports::journal::{Append, AppendError, Bounds, Journal, JournalError, ReadLimit, Record};
use fantail_rules::ids::{Epoch, PartitionId, Position};

/// The tags of `Intend` and `Wake`.
const ALLOW: [u8; 2] = [20, 21];

pub struct Lying {
    pub bug: Bug,
    pub journal: MemoryJournal,
}

impl Journal for Lying {
    fn fence(&self, partition: PartitionId) -> BoxFuture<'_, Result<Epoch, JournalError>> {
        self.journal.fence(partition)
    }

    fn append(&self, mut append: Append) -> BoxFuture<'static, Result<Position, AppendError>> {
        let last = Position(append.first.0 + append.records.len() as u64 - 1);
        let allows = append.records.iter().any(|record| ALLOW.iter().any(|tag| record.first() == Some(tag)));
        let is_shard = matches!(append.partition, PartitionId::Shard(_));
        let is_early = match self.bug {
            Bug::AcksBeforeDurable => true,
            Bug::SendsBeforeDurable => allows && is_shard,
            _ => false,
        };
        if is_early {
            drop(self.journal.append(append));
            return Box::pin(async move { Ok(last) });
        }
        if append.records.len() == 1 || self.bug != Bug::TearsBatches {
            return self.journal.append(append);
        }
        let torn = append.records.split_off(append.records.len() - 1);
        let rest = Append { first: last, records: torn, ..append.clone() };
        let first = self.journal.append(append);
        drop(self.journal.append(rest));
        Box::pin(async move { first.await.map(|_| last) })
    }

    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        limit: ReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Record>, JournalError>> {
        self.journal.read(partition, from, limit)
    }

    fn bounds(&self, partition: PartitionId) -> Result<Bounds, JournalError> {
        self.journal.bounds(partition)
    }

    fn trim(&self, partition: PartitionId, before: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        self.journal.trim(partition, before)
    }
}
