//! How each partition stands after the records so far: its epoch, its next position, how far it is trimmed.
//!
//! What must never happen: a gap or a step back in the positions, or a record of an older epoch behind a newer
//! one. Every scan folds the records through here, so stored bytes that break the order are refused.

use super::format::{Kind, RecordHeader, u64_at};
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    pub epoch: u64,
    /// The position of the next record.
    pub next: u64,
    /// Nobody needs the records before this position.
    pub trimmed: u64,
}

impl Default for Standing {
    fn default() -> Self {
        Self { epoch: 0, next: 1, trimmed: 1 }
    }
}

/// All partitions that ever had a record or a fence, by partition code.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Standings(pub BTreeMap<u16, Standing>);

impl Standings {
    #[must_use]
    pub fn of(&self, partition: u16) -> Standing {
        self.0.get(&partition).copied().unwrap_or_default()
    }

    pub fn fold(&mut self, record: &RecordHeader, bytes: &[u8]) -> Result<(), &'static str> {
        let standing = self.0.entry(record.partition).or_default();
        match record.kind {
            Kind::Data if record.position != standing.next => Err("positions do not continue"),
            Kind::Data if record.epoch != standing.epoch => Err("record of another epoch"),
            Kind::Data => {
                standing.next += 1;
                Ok(())
            }
            Kind::Fence if record.epoch <= standing.epoch => Err("fence does not raise the epoch"),
            Kind::Fence if record.position + 1 != standing.next => Err("fence at a wrong position"),
            Kind::Fence => {
                standing.epoch = record.epoch;
                Ok(())
            }
            Kind::State if bytes.len() != 8 => Err("state record of a wrong length"),
            Kind::State => {
                let trimmed = u64_at(bytes, 0);
                *standing = Standing { epoch: record.epoch, next: record.position + 1, trimmed };
                Ok(())
            }
            Kind::Footer => Err("footer inside the segment"),
        }
    }

    /// Whether both say the same of every partition, trim marks aside: those move without a record.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let facts = |standings: &Self| -> Vec<(u16, u64, u64)> {
            standings.0.iter().map(|(code, standing)| (*code, standing.epoch, standing.next)).collect()
        };
        facts(self) == facts(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: Kind, epoch: u64, position: u64) -> RecordHeader {
        RecordHeader { kind, partition: 0, epoch, position }
    }

    #[test]
    fn only_a_dense_fenced_order_folds() {
        let cases: [(&[RecordHeader], bool); 7] = [
            (&[record(Kind::Data, 0, 1), record(Kind::Data, 0, 2)], true),
            (&[record(Kind::Fence, 1, 0), record(Kind::Data, 1, 1)], true),
            (&[record(Kind::Data, 0, 2)], false),
            (&[record(Kind::Data, 0, 1), record(Kind::Data, 0, 1)], false),
            (&[record(Kind::Fence, 1, 0), record(Kind::Data, 0, 1)], false),
            (&[record(Kind::Fence, 1, 0), record(Kind::Fence, 1, 0)], false),
            (&[record(Kind::Fence, 1, 1)], false),
        ];
        for (records, fine) in cases {
            let mut standings = Standings::default();
            let folded = records.iter().all(|record| standings.fold(record, &[]).is_ok());
            assert_eq!(folded, fine, "{records:?}");
        }
    }
}
