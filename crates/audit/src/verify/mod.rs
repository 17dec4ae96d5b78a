//! Whether a log is still what was written: every chain without a gap, every entry as its successor and the signed
//! checkpoints know it.
//!
//! Comes from: an operator, with the checkpoints of the log, those that were posted elsewhere, and the keys that are
//! believed; then every entry in the order in which it is stored. Decides: which records were altered, removed,
//! reordered, repeated or cut off. Goes to: a report that names tenant, partition, sequence and place.
//!
//! Entries behind the newest checkpoint are only held by their chain: who can write the files can cut them off unseen,
//! until the next checkpoint is posted. What must never happen: a change before it that is not found.

mod follow;

use crate::checkpoint::{Checkpoint, Series, Statement, Trouble};
use crate::entry;
use crate::key::Keys;
use fantail_ports::audit::{ChainId, Digest, Sequence};
use fantail_rules::limits::AUDIT_FINDINGS_MAX;
use follow::Followed;
use std::collections::BTreeMap;
use std::fmt;

/// Where a record lies, as the caller names places.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The file, by its number.
    pub segment: u64,
    pub offset: u64,
}

/// Which entry, and where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At {
    pub chain: ChainId,
    pub sequence: Sequence,
    pub place: Place,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The entry is not what its successor, or a checkpoint, says it was. If it was its successor that was changed, that
    /// one is named too, unless it is the last.
    Altered { at: At },
    /// Entries are gone; the next one that is there lies at `before`.
    Removed { chain: ChainId, first: Sequence, last: Sequence, before: Place },
    /// The entry comes behind one that follows it.
    Reordered { at: At },
    /// The entry was there before.
    Repeated { at: At },
    /// The chain ends before the entry that a checkpoint knows.
    CutOff { chain: ChainId, last: Sequence, expected: Sequence, checkpoint: u64 },
    /// The bytes at this place are no entry.
    Unreadable { place: Place, reason: String },
    /// `number` is the place among the checkpoints, from 1 on; of a posted one it is its own number.
    Checkpoint { number: u64, trouble: Trouble },
}

/// What a verification found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    pub entries: u64,
    pub chains: u64,
    pub checkpoints: u64,
    /// The newest checkpoint: compare it with what was posted elsewhere.
    pub newest: Option<Statement>,
    /// Entries behind the newest checkpoint, which nobody vouches for yet.
    pub uncovered: u64,
    /// The first ones; `findings_in_all` counts the rest too.
    pub findings: Vec<Finding>,
    pub findings_in_all: u64,
}

impl Report {
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings_in_all == 0
    }
}

/// What vouches for a log.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub keys: &'a Keys,
    /// Texts of the checkpoints beside the log, in order.
    pub checkpoints: &'a [&'a str],
    /// Texts of checkpoints that were posted elsewhere and must be among them, in any order.
    pub posted: &'a [&'a str],
}

/// Verifies a log that fits in memory, or streams: bytes of entries with their places, in the order of the log.
#[must_use]
pub fn verify<'a>(entries: impl IntoIterator<Item = (Place, &'a [u8])>, evidence: Evidence<'_>) -> Report {
    let mut verifier = Verifier::new(evidence);
    entries.into_iter().for_each(|(place, bytes)| verifier.take(place, bytes));
    verifier.finish()
}

/// A verification in steps, for logs of any length: memory is one state per chain and one hash per listed head.
#[derive(Debug)]
pub struct Verifier {
    chains: BTreeMap<ChainId, Followed>,
    report: Report,
}

/// An entry that a checkpoint vouches for.
#[derive(Clone, Copy, Debug)]
struct Vouched {
    sequence: Sequence,
    hash: Digest,
    checkpoint: u64,
}

impl Verifier {
    #[must_use]
    pub fn new(evidence: Evidence<'_>) -> Self {
        let mut verifier = Self { chains: BTreeMap::new(), report: Report::default() };
        let mut statements = BTreeMap::new();
        let mut series = Series::new();
        for (number, text) in (1..).zip(evidence.checkpoints) {
            match Checkpoint::parse(text) {
                Ok(checkpoint) => {
                    if let Err(trouble) = series.admit(&checkpoint, evidence.keys) {
                        verifier.find(Finding::Checkpoint { number, trouble });
                    }
                    verifier.expect(&checkpoint);
                    statements.insert(checkpoint.statement.number, checkpoint.statement);
                }
                Err(error) => {
                    series.skip();
                    verifier.find(Finding::Checkpoint { number, trouble: Trouble::Text(error) });
                }
            }
            verifier.report.checkpoints += 1;
        }
        verifier.compare_posted(&evidence, &statements);
        verifier.report.newest = statements.into_values().next_back();
        verifier
    }

    /// Takes the next entry of the log.
    pub fn take(&mut self, place: Place, bytes: &[u8]) {
        self.report.entries += 1;
        let entry = match entry::decode(bytes) {
            Ok(entry) => entry,
            Err(error) => return self.find(Finding::Unreadable { place, reason: error.to_string() }),
        };
        let followed = self.chains.entry(entry.chain).or_default();
        for finding in followed.take(&entry, entry::hash_of(bytes), place) {
            self.find(finding);
        }
    }

    /// A place that the caller could not even read.
    pub fn unreadable(&mut self, place: Place, reason: String) {
        self.find(Finding::Unreadable { place, reason });
    }

    /// No entry follows: says what is missing.
    #[must_use]
    pub fn finish(mut self) -> Report {
        for (chain, followed) in std::mem::take(&mut self.chains) {
            self.report.chains += u64::from(!followed.is_empty());
            self.report.uncovered += followed.uncovered();
            for finding in followed.finish(chain) {
                self.find(finding);
            }
        }
        self.report
    }

    fn expect(&mut self, checkpoint: &Checkpoint) {
        for head in &checkpoint.heads {
            let (sequence, hash) = (head.sequence, head.hash);
            let vouched = Vouched { sequence, hash, checkpoint: checkpoint.statement.number };
            self.chains.entry(head.chain).or_default().expect(vouched);
        }
    }

    fn compare_posted(&mut self, evidence: &Evidence<'_>, statements: &BTreeMap<u64, Statement>) {
        for text in evidence.posted {
            let (number, trouble) = match Checkpoint::parse(text) {
                Err(error) => (0, Trouble::Text(error)),
                Ok(posted) => {
                    let statement = posted.statement;
                    if statements.get(&statement.number) == Some(&statement) {
                        continue;
                    }
                    (statement.number, Trouble::Missing)
                }
            };
            self.find(Finding::Checkpoint { number, trouble });
        }
    }

    fn find(&mut self, finding: Finding) {
        self.report.findings_in_all += 1;
        if self.report.findings.len() < AUDIT_FINDINGS_MAX {
            self.report.findings.push(finding);
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {} offset {}", self.segment, self.offset)
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} entry {} ({})", self.chain, self.sequence, self.place)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Altered { at } => write!(f, "altered: {at}"),
            Self::Removed { chain, first, last, before } => {
                write!(f, "removed: {chain} entries {first} to {last}, before {before}")
            }
            Self::Reordered { at } => write!(f, "out of order: {at}"),
            Self::Repeated { at } => write!(f, "repeated: {at}"),
            Self::CutOff { chain, last, expected, checkpoint } => {
                write!(f, "cut off: {chain} ends at {last}, checkpoint {checkpoint} knows {expected}")
            }
            Self::Unreadable { place, reason } => write!(f, "unreadable: {place}: {reason}"),
            Self::Checkpoint { number, trouble } => write!(f, "checkpoint {number}: {trouble}"),
        }
    }
}
