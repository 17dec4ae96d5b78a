//! A batch while it is planned: its records, and what they change besides tables.
//!
//! Comes from: `lead`, empty. Filled by: the machines, ask by ask. Goes to: the journal and the store.
//!
//! What must never happen: a record or an append that is larger than the journal takes. Both are checked here, before the
//! records of an ask change anything.

use crate::endpoint_tally::EndpointTally;
use crate::reasons::Stood;
use fantail_machine::front::fact::FrontFact;
use fantail_machine::records::{Fact, Stamped};
use fantail_machine::shard::Derived;
use fantail_ports::tables::TablesError;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{Millis, Position};
use fantail_rules::knobs::Knobs;
use fantail_rules::limits::{APPEND_BYTES_MAX, RECORD_HEADER_BYTES_MAX};
use thiserror::Error;

/// What a batch appends, and what it changes besides tables.
pub struct Batch {
    pub first: Position,
    /// Who asked for what is decided next.
    pub by: Actor,
    pub records: Vec<Vec<u8>>,
    pub bytes: usize,
    pub derived: Derived,
    /// For fronts: what shards will take.
    pub facts: Vec<FrontFact>,
    /// For shards: what became of endpoints.
    pub endpoints: EndpointTally,
    /// And of deliveries.
    pub deliveries: Stood,
    knobs: Knobs,
}

impl Batch {
    #[must_use]
    pub fn new(first: Position, knobs: Knobs) -> Self {
        Self {
            first,
            by: Actor::default(),
            records: Vec::new(),
            bytes: 0,
            derived: Derived::default(),
            facts: Vec::new(),
            endpoints: EndpointTally::default(),
            deliveries: Stood::default(),
            knobs,
        }
    }

    /// Nothing more is decided in this batch: what is left waits for the next one.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes >= self.knobs.batch_bytes
    }

    /// Adds the records of one ask, all or none, and returns the position of the first of them.
    pub fn add<R: Fact>(&mut self, at: Millis, records: Vec<R>) -> Result<(Position, Vec<R>), TooLarge> {
        let start = self.records.len();
        let position = Position(self.first.0 + start as u64);
        let (mut added, mut written) = (0, Vec::with_capacity(records.len()));
        for record in records {
            let stamped = Stamped { at, by: self.by.clone(), record };
            let bytes = stamped.encode();
            added += bytes.len();
            let too_large = if bytes.len() > self.knobs.record_bytes {
                Some(TooLarge { what: "record", bytes: bytes.len(), max: self.knobs.record_bytes })
            } else {
                let append_bytes = self.bytes + added + (self.records.len() + 1) * RECORD_HEADER_BYTES_MAX;
                let max = APPEND_BYTES_MAX;
                (append_bytes > max).then_some(TooLarge { what: "append", bytes: append_bytes, max })
            };
            if let Some(too_large) = too_large {
                self.records.truncate(start);
                return Err(too_large);
            }
            self.records.push(bytes);
            written.push(stamped.record);
        }
        self.bytes += added;
        Ok((position, written))
    }
}

/// Records that the journal would not take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{what} of {bytes} bytes is above the limit of {max}")]
pub struct TooLarge {
    pub what: &'static str,
    pub bytes: usize,
    pub max: usize,
}

/// Why an ask was not decided.
#[derive(Debug, Error)]
pub enum Undecided {
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error(transparent)]
    Tables(#[from] TablesError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_machine::records::shard::ShardRecord;
    use fantail_rules::ids::{KeyNo, TenantId};

    fn record(keys: u64) -> ShardRecord {
        ShardRecord::Shredded { keys: (0..keys).map(|key| (TenantId(1), KeyNo(key))).collect() }
    }

    // fixes: correctness A3
    #[test]
    fn an_ask_whose_records_do_not_fit_adds_nothing() {
        let knobs = Knobs { record_bytes: 100, ..Knobs::default() };
        let mut batch = Batch::new(Position(7), knobs);
        let (position, written) = batch.add(Millis(1), vec![record(1), record(2)]).expect("they fit");
        assert_eq!((position, written.len(), batch.records.len()), (Position(7), 2, 2));
        let bytes = batch.bytes;
        let too_large =
            batch.add(Millis(1), vec![record(1), record(200)]).expect_err("a record is too large");
        assert_eq!((too_large.what, too_large.max), ("record", 100));
        assert_eq!((batch.records.len(), batch.bytes), (2, bytes), "the batch is as before");
        assert_eq!(batch.add(Millis(1), vec![record(1)]).expect("it fits").0, Position(9));
    }

    // fixes: correctness A3
    #[test]
    fn a_batch_never_holds_more_than_an_append() {
        let mut batch = Batch::new(Position(1), Knobs::default());
        let large = || vec![record(50_000)];
        let refused = std::iter::from_fn(|| Some(batch.add(Millis(1), large()))).find_map(Result::err);
        assert_eq!(refused.map(|too_large| too_large.what), Some("append"));
        let bytes: usize = batch.records.iter().map(|record| record.len() + RECORD_HEADER_BYTES_MAX).sum();
        assert!(bytes <= APPEND_BYTES_MAX && batch.is_full(), "{bytes}");
    }
}
