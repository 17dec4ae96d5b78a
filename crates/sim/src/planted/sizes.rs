//! A journal that takes no record above a limit of which nobody asks first, as the journal on disk did.

use fantail_ports::BoxFuture;
use fantail_ports::journal::{Append, AppendError, Bounds, Journal, JournalError, ReadLimit, Record};
use fantail_rules::ids::{Epoch, PartitionId, Position};
use std::sync::Arc;

/// The tag of `Outcome`.
const OUTCOME: u8 = 22;

pub struct Asserting {
    pub journal: Arc<dyn Journal>,
    pub record_bytes: usize,
}

impl Journal for Asserting {
    fn fence(&self, partition: PartitionId) -> BoxFuture<'_, Result<Epoch, JournalError>> {
        self.journal.fence(partition)
    }

    fn append(&self, append: Append) -> BoxFuture<'static, Result<Position, AppendError>> {
        if matches!(append.partition, PartitionId::Shard(_)) {
            for record in append.records.iter().filter(|record| record.first() == Some(&OUTCOME)) {
                assert!(record.len() <= self.record_bytes, "an outcome of {} bytes", record.len());
            }
        }
        self.journal.append(append)
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
