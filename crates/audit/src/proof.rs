//! The proof that one recipient was, or was not, sent something, when, over which channel and why, without a word about
//! anybody else.
//!
//! ```text
//! member ── leaf, path ──► root in the entry ── hash, chain ──► head ── tree ──► checkpoint that was signed, and posted
//!          check                               is_anchored              verify
//! ```
//! What must never happen: a proof that holds for another member, another parcel or another verdict.

use crate::entry;
use crate::fact::{DecodeError, Fact};
use crate::member::{Commitment, Member, leaves};
use crate::tree;
use fantail_ports::audit::{Digest, Entry, Head};
use thiserror::Error;

/// Opens one member of the parcel that an entry is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proof {
    pub member: Member,
    /// The member's place in the parcel.
    pub index: u32,
    /// From the leaf up; says nothing of the others.
    pub path: Vec<Digest>,
}

/// Makes the proof of one member. The members are those of the parcel, all of them, in their order.
pub fn prove(entry: &Entry, members: &[Member], index: u32) -> Result<Proof, ProofError> {
    let (_, committed) = committed(entry)?;
    if Commitment::to(members) != committed {
        return Err(ProofError::OtherMembers);
    }
    let place = usize::try_from(index).unwrap_or(usize::MAX);
    let member = members.get(place).ok_or(ProofError::NoSuchMember { index, count: committed.count })?;
    let path = tree::path(leaves(members), place);
    Ok(Proof { member: *member, index, path: path.expect("the member is one of the leaves") })
}

/// Makes the proof of one member from the leaves of all, which say nothing of the others.
pub fn prove_by_leaves(
    entry: &Entry,
    leaves: Vec<Digest>,
    member: Member,
    index: u32,
) -> Result<Proof, ProofError> {
    let (_, committed) = committed(entry)?;
    let count = committed.count;
    let path = tree::path(leaves, index as usize).ok_or(ProofError::NoSuchMember { index, count })?;
    let proof = Proof { member, index, path };
    check(entry, &proof).map(|_| proof)
}

/// Checks a proof against the entry, and says what the entry is about: with the member's verdict and the entry's time
/// that is everything that was proven.
pub fn check(entry: &Entry, proof: &Proof) -> Result<Fact, ProofError> {
    let (fact, committed) = committed(entry)?;
    let (index, count) = (proof.index as usize, committed.count as usize);
    let root = tree::root_by_path(proof.member.leaf(), index, count, &proof.path);
    if root == Some(committed.root) { Ok(fact) } else { Err(ProofError::DoesNotHold) }
}

/// Whether an entry leads to a head: `later` are the entries of its chain behind it, in order, up to the head. With
/// the head in a signed checkpoint, nothing about the entry can have been altered since.
#[must_use]
pub fn is_anchored<'a>(entry: &Entry, later: impl IntoIterator<Item = &'a Entry>, head: &Head) -> bool {
    let (mut sequence, mut hash) = (entry.sequence, entry::hash(entry));
    for next in later {
        if next.chain != head.chain || next.sequence.0 != sequence.0 + 1 || next.previous != hash {
            return false;
        }
        (sequence, hash) = (next.sequence, entry::hash(next));
    }
    entry.chain == head.chain && sequence == head.sequence && hash == head.hash
}

fn committed(entry: &Entry) -> Result<(Fact, Commitment), ProofError> {
    let fact = Fact::decode(entry.kind, &entry.body)?;
    let members = fact.members().ok_or(ProofError::NotAboutMembers)?;
    Ok((fact, members))
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ProofError {
    #[error("the entry is not about members of a parcel")]
    NotAboutMembers,
    /// They were changed, left out or put in another order.
    #[error("the entry does not commit to these members")]
    OtherMembers,
    #[error("there is no member {index} among {count}")]
    NoSuchMember { index: u32, count: u32 },
    #[error("the proof does not hold for this entry")]
    DoesNotHold,
    #[error(transparent)]
    Unreadable(#[from] DecodeError),
}
