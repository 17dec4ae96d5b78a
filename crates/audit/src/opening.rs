//! Openings: what a member's leaf says, kept in the log behind a veil that only this member's secret lifts.
//!
//! ```text
//! opening  device u16 | verdict u8 | consent version u64 | length u8 and reason, filled up to 32
//! veil     0x05 | salt [16] | block u8                                      hashed; two blocks, the first 44 bytes
//! veiled   leaf [32] | opening xor veil [44]
//! ```
//! Where deliveries were asked for one by one, leaves and openings are in the log, so that a recipient can be proven as
//! long as there is a log: without the journal, without the ledger, and whoever else of the parcel was erased meanwhile.
//! Each salt is used for one leaf, so each veil is used once.
//!
//! What must never happen: an opening that somebody else's secret lifts, or one that says what its leaf does not.

use crate::bytes::{Malformed, Reader, Writer};
use crate::digest::{VEIL, sha256};
use crate::member::{ConsentVersion, Member, Pseudonym, Reason, Salt};
use fantail_ports::audit::Digest;
use fantail_rules::attempt::State;
use fantail_rules::ids::DeviceNo;
use fantail_rules::limits::AUDIT_REASON_BYTES_MAX;

pub const OPENING_BYTES: usize = 12 + AUDIT_REASON_BYTES_MAX;
pub const VEILED_BYTES: usize = 32 + OPENING_BYTES;

/// A leaf, and what it says to whoever has the salt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Veiled {
    pub leaf: Digest,
    pub opening: [u8; OPENING_BYTES],
}

impl Veiled {
    #[must_use]
    pub fn of(member: &Member) -> Self {
        let mut plain = Writer::default();
        plain.u16(member.device.0).u8(member.verdict as u8).u64(member.consent.0);
        plain.u8(member.reason.as_str().len() as u8).bytes(member.reason.as_str().as_bytes());
        let mut opening = veil(member.salt);
        opening.iter_mut().zip(plain.0).for_each(|(veil, plain)| *veil ^= plain);
        Self { leaf: member.leaf(), opening }
    }

    /// The member, if the salt and the pseudonym are those of this leaf.
    #[must_use]
    pub fn lift(&self, salt: Salt, pseudonym: Pseudonym) -> Option<Member> {
        let mut plain = veil(salt);
        plain.iter_mut().zip(self.opening).for_each(|(plain, veiled)| *plain ^= veiled);
        let member = read(&plain, salt, pseudonym).ok()?;
        (Self::of(&member) == *self).then_some(member)
    }
}

fn veil(salt: Salt) -> [u8; OPENING_BYTES] {
    let mut veil = [0; OPENING_BYTES];
    for (block, chunk) in (0..).zip(veil.chunks_mut(32)) {
        let mut bytes = [VEIL; 18];
        bytes[1..17].copy_from_slice(&salt.0);
        bytes[17] = block;
        chunk.copy_from_slice(&sha256(&bytes).0[..chunk.len()]);
    }
    veil
}

fn read(plain: &[u8], salt: Salt, pseudonym: Pseudonym) -> Result<Member, Malformed> {
    let mut plain = Reader::new(plain);
    let device = DeviceNo(plain.u16()?);
    let verdict = State::from_stored(plain.u8()?).ok_or(Malformed)?;
    let consent = ConsentVersion(plain.u64()?);
    let length = usize::from(plain.u8()?);
    let reason: [u8; AUDIT_REASON_BYTES_MAX] = plain.array()?;
    let reason = reason.get(..length).and_then(|word| std::str::from_utf8(word).ok()).ok_or(Malformed)?;
    Ok(Member { salt, pseudonym, device, verdict, reason: Reason::of(reason), consent })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // proves: AUD-04, GDP-01
        #[test]
        fn only_the_salt_and_the_pseudonym_of_a_leaf_open_it(
            salt: [u8; 16], pseudonym: [u8; 16], device: u16, state in 0u8..14, consent: u64, reason in ".{0,12}", bit in 0usize..128,
        ) {
            let member = Member {
                salt: Salt(salt),
                pseudonym: Pseudonym(pseudonym),
                device: DeviceNo(device),
                verdict: State::from_stored(state).expect("there are fourteen"),
                reason: Reason::of(&reason),
                consent: ConsentVersion(consent),
            };
            let veiled = Veiled::of(&member);
            prop_assert_eq!(veiled.lift(member.salt, member.pseudonym), Some(member));
            let flipped = |mut bytes: [u8; 16]| {
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            };
            prop_assert_eq!(veiled.lift(Salt(flipped(salt)), member.pseudonym), None);
            prop_assert_eq!(veiled.lift(member.salt, Pseudonym(flipped(pseudonym))), None);
        }
    }
}
