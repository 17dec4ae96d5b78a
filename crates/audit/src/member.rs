//! One recipient in a parcel: the leaf of the tree that the parcel's entry commits to.
//!
//! ```text
//! leaf   0x00 | salt [16] | pseudonym [16] | device u16 | verdict u8 | consent version u64 | reason, the rest     hashed
//! salt   0x04 | secret [32] | kind u8 | position u64 | index u32                             hashed, first 16 bytes
//! pseudonym  0x06 | secret [32]                                                              hashed, first 16 bytes
//! ```
//! The salt keeps everybody else's leaf closed when one is shown: without it a verdict among a handful could be guessed.
//! Its secret belongs to one user and is destroyed with the user's key; from then on no leaf of theirs can be opened
//! or recognised by anybody, while the tree, the chain and the proofs of all others stay as they are.
//!
//! What must never happen: one salt for two leaves, or a salt that somebody else's secret gives.

use crate::digest::{LEAF, PSEUDONYM, SALT, sha256};
use crate::tree;
use fantail_ports::audit::{Digest, Kind};
use fantail_rules::attempt::State;
use fantail_rules::ids::{DeviceNo, Position};
use fantail_rules::limits::AUDIT_REASON_BYTES_MAX;
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    pub salt: Salt,
    pub pseudonym: Pseudonym,
    /// Which of the user's endpoints; 0 where the user alone is meant.
    pub device: DeviceNo,
    pub verdict: State,
    pub reason: Reason,
    pub consent: ConsentVersion,
}

/// Stands for a user of a tenant, and cannot be told from chance without the user's secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pseudonym(pub [u8; 16]);

/// Sixteen bytes that nobody can guess.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Salt(pub [u8; 16]);

/// Why a member got its verdict, in the word that the ledger has; empty if the verdict says it all. A longer word is
/// cut, so that a leaf costs one step of the hash function or two.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Reason {
    length: u8,
    bytes: [u8; AUDIT_REASON_BYTES_MAX],
}

/// Which state of the user's consent the verdict was made on; 0 if none was needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConsentVersion(pub u64);

/// What a salt is for: never twice the same, as a user's records lie in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SaltUse {
    /// Of the entry that will commit to it.
    pub kind: Kind,
    /// Of the record that the entry is derived from.
    pub position: Position,
    /// The member's place among those that the entry commits to.
    pub index: u32,
}

impl Salt {
    /// The salt of one user's leaf, from a secret that only this user's key gives.
    #[must_use]
    pub fn derive(secret: &[u8; 32], usage: SaltUse) -> Self {
        let mut bytes = [0; 46];
        bytes[0] = SALT;
        bytes[1..33].copy_from_slice(secret);
        bytes[33] = usage.kind.0;
        bytes[34..42].copy_from_slice(&usage.position.0.to_le_bytes());
        bytes[42..].copy_from_slice(&usage.index.to_le_bytes());
        let mut salt = [0; 16];
        salt.copy_from_slice(&sha256(&bytes).0[..16]);
        Self(salt)
    }
}

impl Pseudonym {
    /// What a user is called, from a secret that only this user's key gives.
    #[must_use]
    pub fn derive(secret: &[u8; 32]) -> Self {
        let mut bytes = [PSEUDONYM; 33];
        bytes[1..].copy_from_slice(secret);
        let mut pseudonym = [0; 16];
        pseudonym.copy_from_slice(&sha256(&bytes).0[..16]);
        Self(pseudonym)
    }
}

impl Reason {
    /// As much of a word as there is room for.
    #[must_use]
    pub fn of(word: &str) -> Self {
        let end = (0..=word.len().min(AUDIT_REASON_BYTES_MAX)).rfind(|end| word.is_char_boundary(*end));
        let word = &word[..end.unwrap_or_default()];
        let mut bytes = [0; AUDIT_REASON_BYTES_MAX];
        bytes[..word.len()].copy_from_slice(word.as_bytes());
        Self { length: word.len() as u8, bytes }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).expect("it was made of a text")
    }
}

impl Member {
    #[must_use]
    pub fn leaf(&self) -> Digest {
        let reason = self.reason.as_str().as_bytes();
        let mut bytes = [0; 44 + AUDIT_REASON_BYTES_MAX];
        bytes[0] = LEAF;
        bytes[1..17].copy_from_slice(&self.salt.0);
        bytes[17..33].copy_from_slice(&self.pseudonym.0);
        bytes[33..35].copy_from_slice(&self.device.0.to_le_bytes());
        bytes[35] = self.verdict as u8;
        bytes[36..44].copy_from_slice(&self.consent.0.to_le_bytes());
        bytes[44..44 + reason.len()].copy_from_slice(reason);
        sha256(&bytes[..44 + reason.len()])
    }
}

/// All members of a parcel, in their order, as an entry names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commitment {
    pub root: Digest,
    pub count: u32,
}

impl Commitment {
    #[must_use]
    pub fn to(members: &[Member]) -> Self {
        let count = u32::try_from(members.len()).expect("a parcel has at most PARCEL_MEMBERS_MAX members");
        Self { root: tree::root(leaves(members)), count }
    }
}

#[must_use]
pub fn leaves(members: &[Member]) -> Vec<Digest> {
    members.iter().map(Member::leaf).collect()
}

/// How many members have which verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally([u32; State::ALL.len()]);

impl Tally {
    #[must_use]
    pub fn of(members: &[Member]) -> Self {
        let mut tally = Self::default();
        members.iter().for_each(|member| tally.add(member.verdict, 1));
        tally
    }

    pub fn add(&mut self, state: State, count: u32) {
        self.0[state as usize] += count;
    }

    #[must_use]
    pub fn count(&self, state: State) -> u32 {
        self.0[state as usize]
    }

    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    /// Those that are not zero, in the order of their numbers.
    pub fn counts(&self) -> impl Iterator<Item = (State, u32)> {
        State::ALL.into_iter().map(|state| (state, self.count(state))).filter(|(_, count)| *count > 0)
    }
}

impl fmt::Display for Pseudonym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for Pseudonym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Who has the salt can open the leaf, so it does not show in logs.
impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBER: Member = Member {
        salt: Salt([1; 16]),
        pseudonym: Pseudonym([2; 16]),
        device: DeviceNo(3),
        verdict: State::Suppressed,
        reason: Reason { length: 0, bytes: [0; AUDIT_REASON_BYTES_MAX] },
        consent: ConsentVersion(5),
    };

    #[test]
    fn every_part_of_a_member_is_in_its_leaf() {
        let changed = [
            Member { salt: Salt([9; 16]), ..MEMBER },
            Member { pseudonym: Pseudonym([9; 16]), ..MEMBER },
            Member { verdict: State::Intent, ..MEMBER },
            Member { device: DeviceNo(9), ..MEMBER },
            Member { reason: Reason::of("x"), ..MEMBER },
            Member { reason: Reason::of("x\0"), ..MEMBER },
            Member { consent: ConsentVersion(9), ..MEMBER },
        ];
        for other in changed {
            assert_ne!(other.leaf(), MEMBER.leaf(), "{other:?}");
        }
        assert_ne!(changed[5].leaf(), changed[6].leaf());
    }

    #[test]
    fn a_long_reason_is_cut_between_letters() {
        let check = |word: &str, kept: &str| assert_eq!(Reason::of(word).as_str(), kept);
        check("", "");
        check("no_endpoint", "no_endpoint");
        check(&"x".repeat(40), &"x".repeat(32));
        check(&"ä".repeat(17), &"ä".repeat(16));
        check(&format!("x{}", "ä".repeat(17)), &format!("x{}", "ä".repeat(15)));
    }

    // proves: GDP-01
    #[test]
    fn salts_differ_with_the_secret_and_with_every_part_of_their_use() {
        let usage = SaltUse { kind: Kind(4), position: Position(7), index: 1 };
        let salt = Salt::derive(&[1; 32], usage);
        assert_eq!(Salt::derive(&[1; 32], usage), salt);
        let others = [
            Salt::derive(&[2; 32], usage),
            Salt::derive(&[1; 32], SaltUse { kind: Kind(5), ..usage }),
            Salt::derive(&[1; 32], SaltUse { position: Position(8), ..usage }),
            Salt::derive(&[1; 32], SaltUse { index: 2, ..usage }),
        ];
        assert!(others.iter().all(|other| *other != salt));
    }

    #[test]
    fn a_tally_counts_every_member_once() {
        let members = [MEMBER, Member { verdict: State::Intent, ..MEMBER }, MEMBER];
        let tally = Tally::of(&members);
        assert_eq!(tally.counts().collect::<Vec<_>>(), [(State::Intent, 1), (State::Suppressed, 2)]);
        assert_eq!(tally.sum(), 3);
    }
}
