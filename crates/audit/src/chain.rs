//! Gives drafts their place: sequence, hash of the one before, and how far each partition is derived. Every engine
//! chains through here, so that the same batches give the same hashes wherever they are kept.
//!
//! Comes from: `AuditLog::append` and recovery. Decides: whether a batch continues its partition, and what the entries
//! are. Goes to: the engine, which makes them durable and only then folds them (`Chains::fold`).
//!
//! What must never happen: a gap or a repeat, in a chain or in the records it was derived from.

use crate::entry;
use fantail_ports::audit::{AppendError, Batch, ChainId, Digest, Draft, Entry, Head, Sequence};
use fantail_rules::ids::{PartitionId, Position};
use fantail_rules::limits::{AUDIT_APPEND_BYTES_MAX, AUDIT_BODY_BYTES_MAX, AUDIT_ENTRIES_PER_APPEND_MAX};
use std::collections::BTreeMap;

/// Where every chain ends, and how far every partition is derived.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Chains {
    heads: BTreeMap<ChainId, Link>,
    derived: BTreeMap<PartitionId, Position>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Link {
    sequence: Sequence,
    hash: Digest,
}

/// What an append would add.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Staged {
    /// In the order in which they must be stored.
    pub entries: Vec<Linked>,
    pub derived: BTreeMap<PartitionId, Position>,
}

/// An entry with its place, as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Linked {
    pub entry: Entry,
    pub bytes: Vec<u8>,
    pub hash: Digest,
}

impl Chains {
    /// Chains the drafts behind what is there, or says why they do not follow. Changes nothing.
    pub fn stage(&self, batches: Vec<Batch>) -> Result<Staged, AppendError> {
        check_limits(&batches)?;
        let mut staged = Staged::default();
        let mut ends = BTreeMap::new();
        for batch in batches {
            let known = staged.derived.get(&batch.partition).or(self.derived.get(&batch.partition));
            let expected = known.copied().unwrap_or(Position::START);
            check_order(&batch, expected)?;
            staged.derived.insert(batch.partition, batch.through);
            for draft in batch.drafts {
                let chain = ChainId { tenant: draft.tenant, partition: batch.partition };
                let end = ends.entry(chain).or_insert_with(|| self.end(chain));
                let linked = link(chain, *end, draft);
                *end = Link { sequence: linked.entry.sequence, hash: linked.hash };
                staged.entries.push(linked);
            }
        }
        Ok(staged)
    }

    /// Takes over what has become durable.
    pub fn fold(&mut self, staged: &Staged) {
        for linked in &staged.entries {
            let (chain, sequence) = (linked.entry.chain, linked.entry.sequence);
            self.heads.insert(chain, Link { sequence, hash: linked.hash });
        }
        for (partition, through) in &staged.derived {
            self.fold_derived(*partition, *through);
        }
    }

    /// Recovery: takes over a stored entry if it follows.
    pub fn fold_stored(&mut self, stored: &Entry, hash: Digest) -> Result<(), Head> {
        let end = self.end(stored.chain);
        if stored.sequence.0 != end.sequence.0 + 1 || stored.previous != end.hash {
            return Err(Head { chain: stored.chain, sequence: end.sequence, hash: end.hash });
        }
        self.heads.insert(stored.chain, Link { sequence: stored.sequence, hash });
        Ok(())
    }

    /// Recovery: takes over where a chain stood, from an index.
    pub fn fold_head(&mut self, head: Head) {
        self.heads.insert(head.chain, Link { sequence: head.sequence, hash: head.hash });
    }

    /// Recovery: takes over a stored mark.
    pub fn fold_derived(&mut self, partition: PartitionId, through: Position) {
        self.derived.insert(partition, through);
    }

    #[must_use]
    pub fn derived(&self) -> &BTreeMap<PartitionId, Position> {
        &self.derived
    }

    /// Ascending by chain.
    #[must_use]
    pub fn heads(&self) -> Vec<Head> {
        let head =
            |(chain, end): (&ChainId, &Link)| Head { chain: *chain, sequence: end.sequence, hash: end.hash };
        self.heads.iter().map(head).collect()
    }

    fn end(&self, chain: ChainId) -> Link {
        self.heads.get(&chain).copied().unwrap_or_default()
    }
}

fn link(chain: ChainId, end: Link, draft: Draft) -> Linked {
    let Draft { tenant: _, position, at, kind, body } = draft;
    let sequence = Sequence(end.sequence.0 + 1);
    let entry = Entry { chain, sequence, position, at, kind, body, previous: end.hash };
    let bytes = entry::encode(&entry);
    let hash = entry::hash_of(&bytes);
    Linked { entry, bytes, hash }
}

fn check_order(batch: &Batch, expected: Position) -> Result<(), AppendError> {
    let out_of_order = |after: Position, expected: Position| {
        let what = batch.partition.to_string();
        Err(AppendError::OutOfOrder { what, after: after.0, expected: expected.0 })
    };
    if batch.after != expected || batch.through < batch.after {
        return out_of_order(batch.after, expected);
    }
    let mut least = batch.after.next();
    for draft in &batch.drafts {
        if draft.position < least || draft.position > batch.through {
            return out_of_order(draft.position, least);
        }
        least = draft.position;
    }
    Ok(())
}

fn check_limits(batches: &[Batch]) -> Result<(), AppendError> {
    let drafts = || batches.iter().flat_map(|batch| &batch.drafts);
    let check = |what, found, max| match found > max {
        true => Err(AppendError::TooLarge { what, found, max }),
        false => Ok(()),
    };
    let longest = drafts().map(|draft| draft.body.len()).max().unwrap_or_default();
    check("the body of an audit entry", longest, AUDIT_BODY_BYTES_MAX)?;
    check("an audit append", drafts().count(), AUDIT_ENTRIES_PER_APPEND_MAX)?;
    let bytes = drafts().map(|draft| entry::HEADER_BYTES + draft.body.len()).sum();
    check("the bytes of an audit append", bytes, AUDIT_APPEND_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_ports::audit::Kind;
    use fantail_rules::ids::{Millis, TenantId};

    const ROOT: PartitionId = PartitionId::Root;

    fn batch(after: u64, through: u64, positions: &[u64]) -> Batch {
        let draft = |position: &u64| Draft {
            tenant: TenantId(1),
            position: Position(*position),
            at: Millis(1),
            kind: Kind(1),
            body: Vec::new(),
        };
        let drafts = positions.iter().map(draft).collect();
        Batch { partition: ROOT, after: Position(after), through: Position(through), drafts }
    }

    #[test]
    fn only_what_continues_its_partition_is_chained() {
        let mut chains = Chains::default();
        chains.fold(&chains.stage(vec![batch(0, 5, &[2, 2, 5])]).expect("the first batch"));
        let check = |batches: Vec<Batch>, expected: Option<(u64, u64)>| {
            let refused = chains.stage(batches).err().map(|error| match error {
                AppendError::OutOfOrder { after, expected, .. } => (after, expected),
                other => panic!("{other}"),
            });
            assert_eq!(refused, expected);
        };
        check(vec![], None);
        check(vec![batch(5, 5, &[])], None);
        check(vec![batch(5, 9, &[6, 9])], None);
        check(vec![batch(5, 6, &[6]), batch(6, 7, &[7])], None);
        check(vec![batch(0, 5, &[2])], Some((0, 5)));
        check(vec![batch(6, 7, &[7])], Some((6, 5)));
        check(vec![batch(5, 4, &[])], Some((5, 5)));
        check(vec![batch(5, 6, &[5])], Some((5, 6)));
        check(vec![batch(5, 6, &[7])], Some((7, 6)));
        check(vec![batch(5, 9, &[7, 6])], Some((6, 7)));
        check(vec![batch(5, 6, &[6]), batch(5, 7, &[7])], Some((5, 6)));
    }

    #[test]
    fn what_is_stored_leads_to_the_same_state() {
        let (mut chains, mut recovered) = (Chains::default(), Chains::default());
        let staged = chains.stage(vec![batch(0, 5, &[2, 2, 5]), batch(5, 7, &[])]).expect("in order");
        chains.fold(&staged);
        for linked in &staged.entries {
            let stored = entry::decode(&linked.bytes).expect("what was encoded");
            assert_eq!(stored, linked.entry);
            assert_eq!(recovered.fold_stored(&stored, linked.hash), Ok(()));
            assert!(recovered.fold_stored(&stored, linked.hash).is_err(), "a second time");
        }
        recovered.fold_derived(ROOT, Position(7));
        assert_eq!(recovered, chains);
        let mut by_index = Chains::default();
        chains.heads().into_iter().for_each(|head| by_index.fold_head(head));
        by_index.fold_derived(ROOT, Position(7));
        assert_eq!(by_index, chains);
    }

    #[test]
    fn one_beyond_a_limit_is_refused() {
        let chains = Chains::default();
        let check = |count: usize, body: usize, fine: bool| {
            let mut whole = batch(0, 1, &vec![1; count]);
            whole.drafts.iter_mut().for_each(|draft| draft.body = vec![0; body]);
            let staged = chains.stage(vec![whole]);
            assert_eq!(staged.is_ok(), fine, "{count} of {body}");
            assert!(fine || matches!(staged, Err(AppendError::TooLarge { .. })));
        };
        check(AUDIT_ENTRIES_PER_APPEND_MAX, 0, true);
        check(AUDIT_ENTRIES_PER_APPEND_MAX + 1, 0, false);
        check(1, AUDIT_BODY_BYTES_MAX, true);
        check(1, AUDIT_BODY_BYTES_MAX + 1, false);
        let bytes = entry::HEADER_BYTES + AUDIT_BODY_BYTES_MAX;
        check(AUDIT_APPEND_BYTES_MAX / bytes, AUDIT_BODY_BYTES_MAX, true);
        check(AUDIT_APPEND_BYTES_MAX / bytes + 1, AUDIT_BODY_BYTES_MAX, false);
    }
}
