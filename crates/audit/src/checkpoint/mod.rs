//! A checkpoint: a signed statement about where every chain stood at one moment. Whoever keeps one elsewhere can tell
//! later whether anything before it was changed or cut off. `text` is its form; the node posts it where an intruder
//! cannot follow (object lock, mail, a second machine): a file beside the log protects nothing from root.
//!
//! ```text
//! head leaf   0x00 | tenant u32 | partition u16 | sequence u64 | hash [32]     tree over all, by tenant and partition
//! statement   number, time, hash of the statement before, number of heads, root over heads, key id         signed
//! ```
//! The statement is small and complete. Beside it a checkpoint lists the heads that moved since the one before, or all
//! of them, so that ten thousand quiet tenants cost nothing, and a cut chain can be named.
//!
//! What must never happen: two statements with one number, or one whose heads are behind those of an earlier one.

mod text;

pub use text::TextError;

use crate::digest::{CHECKPOINT, LEAF, sha256};
use crate::key::{Confirmed, KeyId, Keys, SIGNATURE_BYTES, Signer};
use crate::tree;
use fantail_ports::audit::{ChainId, Digest, Head, Sequence};
use fantail_rules::ids::Millis;
use fantail_rules::limits::CHECKPOINT_HEADS_MAX;
use std::collections::BTreeMap;
use thiserror::Error;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    pub statement: Statement,
    pub signature: [u8; SIGNATURE_BYTES],
    /// At least those that moved since the checkpoint before, ascending by chain.
    pub heads: Vec<Head>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statement {
    /// 1, 2, 3, …
    pub number: u64,
    pub at: Millis,
    /// The hash of the statement before; zeros for the first.
    pub previous: Digest,
    /// How many chains there are, and the root over their heads.
    pub chains: u64,
    pub root: Digest,
    pub key: KeyId,
}

impl Statement {
    #[must_use]
    pub fn hash(&self) -> Digest {
        sha256(&[&[CHECKPOINT], self.text().as_bytes()].concat())
    }
}

impl Checkpoint {
    /// Whether it lists every head, so that it can be checked without the ones before.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.heads.len() as u64 == self.statement.chains
    }
}

/// The checkpoints of one log, one after the other: makes the next one, and checks those that are given.
#[derive(Clone, Default, Debug)]
pub struct Series {
    last: Option<Last>,
    /// Where every chain stood at the last one; `None` if that is not known.
    heads: Option<BTreeMap<ChainId, Head>>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    number: u64,
    /// Of its statement; `None` if that cannot be believed.
    hash: Option<Digest>,
}

impl Last {
    fn of(statement: &Statement) -> Self {
        Self { number: statement.number, hash: Some(statement.hash()) }
    }
}

impl Series {
    /// The series of a log without checkpoints.
    #[must_use]
    pub fn new() -> Self {
        Self { last: None, heads: Some(BTreeMap::new()) }
    }

    /// Goes on behind the last checkpoint of a log. The next one lists all heads.
    #[must_use]
    pub fn after(last: Statement) -> Self {
        Self { last: Some(Last::of(&last)), heads: None }
    }

    /// Signs where the chains stand now. Changes nothing: call [`fold`](Series::fold) once it is durable.
    pub fn sign(&self, heads: &[Head], at: Millis, signer: &Signer) -> Result<Checkpoint, SignError> {
        let known =
            |head: &&Head| self.heads.as_ref().is_some_and(|known| known.get(&head.chain) == Some(head));
        let moved: Vec<Head> = heads.iter().filter(|head| !known(head)).copied().collect();
        if moved.len() > CHECKPOINT_HEADS_MAX {
            return Err(SignError::TooManyHeads { found: moved.len() });
        }
        let statement = Statement {
            number: self.next_number(),
            at,
            previous: self.last_hash().unwrap_or_default(),
            chains: heads.len() as u64,
            root: heads_root(heads),
            key: signer.public().id(),
        };
        let signature = signer.sign(statement.text().as_bytes());
        Ok(Checkpoint { statement, signature, heads: moved })
    }

    /// Takes over a checkpoint that [`sign`](Series::sign) made, or that was checked.
    pub fn fold(&mut self, checkpoint: &Checkpoint) {
        self.last = Some(Last::of(&checkpoint.statement));
        if checkpoint.is_whole() {
            self.heads = Some(BTreeMap::new());
        }
        if let Some(heads) = &mut self.heads {
            heads.extend(checkpoint.heads.iter().map(|head| (head.chain, *head)));
        }
    }

    /// Checks that a checkpoint is the next one, and takes it over. Behind one that is not, the next is checked as
    /// far as that is possible, so that it is not blamed for the one before.
    pub fn admit(&mut self, checkpoint: &Checkpoint, keys: &Keys) -> Result<(), Trouble> {
        let statement = &checkpoint.statement;
        let signed = match keys.confirm(statement.key, statement.text().as_bytes(), &checkpoint.signature) {
            Confirmed::Yes => Ok(()),
            Confirmed::No => Err(Trouble::BadSignature),
            Confirmed::UnknownKey => Err(Trouble::UnknownKey { key: statement.key }),
        };
        if signed.is_err() {
            self.skip();
            return signed;
        }
        let follows = self.check_order(statement);
        let step_back = self.step_back(checkpoint);
        self.fold(checkpoint);
        let outcome = follows.and_then(|()| self.check_heads(statement, step_back));
        if outcome.is_err() {
            self.heads = None;
        }
        outcome
    }

    /// Passes over a checkpoint that cannot be believed or read.
    pub fn skip(&mut self) {
        self.last = Some(Last { number: self.next_number(), hash: None });
        self.heads = None;
    }

    fn check_order(&self, statement: &Statement) -> Result<(), Trouble> {
        let expected = self.next_number();
        if statement.number != expected {
            return Err(Trouble::OutOfOrder { expected });
        }
        match self.last_hash() {
            Some(hash) if hash != statement.previous => Err(Trouble::OtherPredecessor),
            Some(_) | None => Ok(()),
        }
    }

    fn check_heads(&self, statement: &Statement, step_back: Option<Head>) -> Result<(), Trouble> {
        if let Some(Head { chain, sequence, .. }) = step_back {
            return Err(Trouble::StepBack { chain, sequence });
        }
        let Some(heads) = &self.heads else { return Err(Trouble::Unknowable) };
        let heads: Vec<Head> = heads.values().copied().collect();
        if heads.len() as u64 != statement.chains || heads_root(&heads) != statement.root {
            return Err(Trouble::OtherHeads);
        }
        Ok(())
    }

    /// A head that was further at the checkpoint before, if there is one.
    fn step_back(&self, checkpoint: &Checkpoint) -> Option<Head> {
        let known = self.heads.as_ref()?;
        let further =
            |head: &&Head| known.get(&head.chain).is_some_and(|known| known.sequence > head.sequence);
        checkpoint.heads.iter().find(further).copied()
    }

    fn next_number(&self) -> u64 {
        self.last.map_or(1, |last| last.number.saturating_add(1))
    }

    fn last_hash(&self) -> Option<Digest> {
        self.last.map_or(Some(Digest::default()), |last| last.hash)
    }
}

/// The root over heads, which must be ascending by chain.
#[must_use]
pub fn heads_root(heads: &[Head]) -> Digest {
    assert!(heads.is_sorted_by(|one, next| one.chain < next.chain), "every chain has one head");
    tree::root(heads.iter().map(head_leaf).collect())
}

/// The place of a chain's head among all heads, and its path to the root over them.
#[must_use]
pub fn head_path(heads: &[Head], chain: ChainId) -> Option<(u32, Vec<Digest>)> {
    let index = heads.iter().position(|head| head.chain == chain)?;
    let path = tree::path(heads.iter().map(head_leaf).collect(), index)?;
    Some((u32::try_from(index).ok()?, path))
}

/// Whether a head is one of those that a statement was made about.
#[must_use]
pub fn is_stated(statement: &Statement, head: &Head, index: u32, path: &[Digest]) -> bool {
    let chains = usize::try_from(statement.chains).unwrap_or(usize::MAX);
    tree::root_by_path(head_leaf(head), index as usize, chains, path) == Some(statement.root)
}

fn head_leaf(head: &Head) -> Digest {
    let mut bytes = [0; 47];
    bytes[0] = LEAF;
    bytes[1..5].copy_from_slice(&head.chain.tenant.0.to_le_bytes());
    bytes[5..7].copy_from_slice(&head.chain.partition.code().to_le_bytes());
    bytes[7..15].copy_from_slice(&head.sequence.0.to_le_bytes());
    bytes[15..].copy_from_slice(&head.hash.0);
    sha256(&bytes)
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SignError {
    /// More chains moved between two checkpoints than one can list.
    #[error("{found} heads moved since the last checkpoint, at most {CHECKPOINT_HEADS_MAX} can be listed")]
    TooManyHeads { found: usize },
}

/// What is wrong with a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Trouble {
    #[error("its text is not one of a checkpoint: {0}")]
    Text(#[from] TextError),
    #[error("key {key} is not known")]
    UnknownKey { key: KeyId },
    #[error("the signature does not match")]
    BadSignature,
    #[error("checkpoint {expected} was expected here")]
    OutOfOrder { expected: u64 },
    #[error("it does not follow the checkpoint before")]
    OtherPredecessor,
    #[error("{chain} was further than {sequence} at the checkpoint before")]
    StepBack { chain: ChainId, sequence: Sequence },
    #[error("the listed heads are not those that were signed")]
    OtherHeads,
    /// Not wrong in itself: it lists only what moved, and one before it is missing or wrong.
    #[error("its heads cannot be checked without the checkpoints before")]
    Unknowable,
    #[error("it was posted elsewhere and is not among the checkpoints")]
    Missing,
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::{PartitionId, TenantId};

    fn head(tenant: u32, sequence: u64) -> Head {
        let chain = ChainId { tenant: TenantId(tenant), partition: PartitionId::Root };
        Head { chain, sequence: Sequence(sequence), hash: sha256(&[tenant as u8, sequence as u8]) }
    }

    /// Three checkpoints over chains that grow; the third lists one head of two.
    fn three(signer: &Signer) -> Vec<Checkpoint> {
        let moments = [vec![head(1, 4)], vec![head(1, 4), head(2, 1)], vec![head(1, 9), head(2, 1)]];
        let mut series = Series::new();
        let mut made = Vec::new();
        for (no, heads) in moments.iter().enumerate() {
            let checkpoint = series.sign(heads, Millis(no as u64), signer).expect("few heads");
            series.fold(&checkpoint);
            made.push(checkpoint);
        }
        made
    }

    fn admit(checkpoints: &[Checkpoint], keys: &Keys) -> Vec<Result<(), Trouble>> {
        let mut series = Series::new();
        checkpoints.iter().map(|checkpoint| series.admit(checkpoint, keys)).collect()
    }

    #[test]
    fn what_was_signed_is_admitted_and_nothing_else() {
        let signer = Signer::from_seed(&[1; 32]);
        let keys: Keys = [signer.public()].into_iter().collect();
        let whole = three(&signer);
        assert_eq!(whole.iter().map(|made| made.heads.len()).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(admit(&whole, &keys), [Ok(()), Ok(()), Ok(())]);
        let check = |change: &dyn Fn(&mut Vec<Checkpoint>), at: usize, expected: Trouble| {
            let mut changed = whole.clone();
            change(&mut changed);
            assert_eq!(admit(&changed, &keys)[at], Err(expected));
        };
        check(&|all| drop(all.remove(1)), 1, Trouble::OutOfOrder { expected: 2 });
        check(&|all| all.swap(0, 1), 0, Trouble::OutOfOrder { expected: 1 });
        check(&|all| all[1].statement.root.0[0] ^= 1, 1, Trouble::BadSignature);
        check(&|all| all[1].signature[0] ^= 1, 1, Trouble::BadSignature);
        check(&|all| all[1].signature[0] ^= 1, 2, Trouble::Unknowable);
        check(&|all| all[1].heads[0].hash.0[0] ^= 1, 1, Trouble::OtherHeads);
        check(&|all| all[1].heads.clear(), 1, Trouble::OtherHeads);
        check(&|all| all[1].heads[0].sequence.0 += 1, 2, Trouble::Unknowable);
        check(
            &|all| all[2].heads[0].sequence.0 = 3,
            2,
            Trouble::StepBack { chain: head(1, 0).chain, sequence: Sequence(3) },
        );
        let other = Signer::from_seed(&[2; 32]);
        let expected = Trouble::UnknownKey { key: other.public().id() };
        check(&|all| all[0] = three(&other)[0].clone(), 0, expected);
    }

    #[test]
    fn a_checkpoint_of_another_past_does_not_follow() {
        let signer = Signer::from_seed(&[1; 32]);
        let keys: Keys = [signer.public()].into_iter().collect();
        let mut checkpoints = three(&signer);
        let mut other = Series::new();
        let made = other.sign(&[head(1, 3)], Millis(7), &signer).expect("few heads");
        checkpoints[0] = made;
        assert_eq!(admit(&checkpoints, &keys)[..2], [Ok(()), Err(Trouble::OtherPredecessor)]);
        other.fold(&checkpoints[0]);
        assert_eq!(other.next_number(), 2);
    }

    #[test]
    fn after_a_restart_all_heads_are_listed_and_trust_is_regained() {
        let signer = Signer::from_seed(&[1; 32]);
        let keys: Keys = [signer.public()].into_iter().collect();
        let mut checkpoints = three(&signer);
        let series = Series::after(checkpoints[2].statement);
        checkpoints.push(series.sign(&[head(1, 9), head(2, 2)], Millis(9), &signer).expect("few heads"));
        assert!(checkpoints[3].is_whole());
        assert_eq!(admit(&checkpoints, &keys), [Ok(()), Ok(()), Ok(()), Ok(())]);
        checkpoints[2].heads.clear();
        assert_eq!(admit(&checkpoints, &keys)[2..], [Err(Trouble::OtherHeads), Ok(())]);
    }

    // proves: AUD-04
    #[test]
    fn a_head_leads_to_the_statement_by_its_path() {
        let signer = Signer::from_seed(&[1; 32]);
        let heads: Vec<Head> = (1..=7).map(|tenant| head(tenant, 3)).collect();
        let made = Series::new().sign(&heads, Millis(1), &signer).expect("few heads");
        for one in &heads {
            let (index, path) = head_path(&heads, one.chain).expect("it is there");
            assert!(is_stated(&made.statement, one, index, &path));
            assert!(!is_stated(&made.statement, &Head { sequence: Sequence(4), ..*one }, index, &path));
            assert!(!is_stated(&made.statement, one, (index + 1) % 7, &path));
        }
        assert_eq!(head_path(&heads, head(8, 1).chain), None);
    }

    #[test]
    fn one_head_too_many_is_refused() {
        let signer = Signer::from_seed(&[1; 32]);
        let heads: Vec<Head> = (0..=CHECKPOINT_HEADS_MAX as u32).map(|tenant| head(tenant, 1)).collect();
        let refused = Series::new().sign(&heads, Millis(1), &signer);
        assert_eq!(refused, Err(SignError::TooManyHeads { found: CHECKPOINT_HEADS_MAX + 1 }));
        assert!(Series::new().sign(&heads[1..], Millis(1), &signer).is_ok());
    }
}
