//! Facts and entries survive the way to bytes and back, and nothing else decodes.

use super::rig::{all_facts, draft};
use fantail_audit::entry;
use fantail_audit::fact::{DecodeError, EncodeError, Fact};
use fantail_ports::audit::{ChainId, Digest, Entry, Kind, Sequence};
use fantail_rules::ids::{Millis, PartitionId, Position, TenantId};
use fantail_rules::limits::{AUDIT_BODY_BYTES_MAX, AUDIT_NAME_BYTES_MAX};
use proptest::prelude::*;

#[test]
fn every_kind_round_trips() {
    for (number, fact) in (1..).zip(all_facts()) {
        assert_eq!(fact.kind(), Kind(number), "kinds are numbered in this order");
        let body = fact.encode().unwrap();
        assert_eq!(Fact::decode(fact.kind(), &body), Ok(fact.clone()));
        for cut in 0..body.len() {
            let malformed = Err(DecodeError::Malformed { kind: fact.kind() });
            assert_eq!(Fact::decode(fact.kind(), &body[..cut]), malformed, "{fact:?} cut at {cut}");
        }
        let longer = [&body[..], &[0]].concat();
        assert!(Fact::decode(fact.kind(), &longer).is_err());
    }
    let unknown = Err(DecodeError::UnknownKind { kind: Kind(14) });
    assert_eq!(Fact::decode(Kind(14), &[]), unknown);
}

#[test]
fn names_and_proofs_have_limits() {
    let check = |change: &dyn Fn(&mut Fact), what: &'static str, max: usize| {
        let refused: Vec<EncodeError> = all_facts()
            .into_iter()
            .filter_map(|mut fact| {
                change(&mut fact);
                fact.encode().err()
            })
            .collect();
        assert!(!refused.is_empty());
        for refusal in refused {
            assert_eq!(refusal, EncodeError::TooLong { what, bytes: max + 1, max });
        }
    };
    let long = |max: usize| "x".repeat(max + 1);
    let actor = |fact: &mut Fact| match fact {
        Fact::Action(fact) => fact.actor = long(AUDIT_NAME_BYTES_MAX),
        Fact::Accepted(fact) => fact.actor = long(AUDIT_NAME_BYTES_MAX),
        Fact::Erased(fact) => fact.actor = long(AUDIT_NAME_BYTES_MAX),
        Fact::Endpoint(fact) => fact.actor = long(AUDIT_NAME_BYTES_MAX),
        Fact::Redriven(fact) => fact.actor = long(AUDIT_NAME_BYTES_MAX),
        Fact::Cancelled(fact) => fact.actor = long(AUDIT_NAME_BYTES_MAX),
        Fact::ConsentBy(fact) => fact.actor = long(AUDIT_NAME_BYTES_MAX),
        _ => {}
    };
    check(&actor, "actor", AUDIT_NAME_BYTES_MAX);
    let target = |fact: &mut Fact| {
        if let Fact::Action(fact) = fact {
            fact.target = long(256);
        }
    };
    check(&target, "target", 256);
    let proof = |fact: &mut Fact| {
        if let Fact::Consent(fact) = fact {
            fact.proof.bytes = vec![0; 2_049];
        }
    };
    check(&proof, "proof of consent", 2_048);
}

fn entries() -> impl Strategy<Value = Entry> {
    let codes = any::<u16>().prop_filter_map("a partition", PartitionId::from_code);
    let numbers = (any::<u32>(), codes, any::<u64>(), any::<u64>(), any::<u64>(), any::<u8>());
    let body = proptest::collection::vec(any::<u8>(), 0..300);
    (numbers, body, any::<[u8; 32]>()).prop_map(|(numbers, body, previous)| {
        let (tenant, partition, sequence, position, at, kind) = numbers;
        Entry {
            chain: ChainId { tenant: TenantId(tenant), partition },
            sequence: Sequence(sequence),
            position: Position(position),
            at: Millis(at),
            kind: Kind(kind),
            body,
            previous: Digest(previous),
        }
    })
}

proptest! {
    #[test]
    fn entries_round_trip(entry in entries()) {
        let bytes = entry::encode(&entry);
        prop_assert_eq!(entry::decode(&bytes), Ok(entry.clone()));
        let peek = entry::peek(&bytes).unwrap();
        prop_assert_eq!((peek.chain, peek.sequence, peek.at), (entry.chain, entry.sequence, entry.at));
        prop_assert_eq!(entry::hash(&entry), entry::hash_of(&bytes));
    }

    #[test]
    fn an_entry_has_one_text_of_bytes(entry in entries(), at: prop::sample::Index, bit in 0u8..8) {
        let mut bytes = entry::encode(&entry);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(other) = entry::decode(&bytes) {
            prop_assert_ne!(&other, &entry);
            prop_assert_eq!(entry::encode(&other), bytes);
        }
    }

    #[test]
    fn what_decodes_encodes_to_the_same_bytes(kind in 0u8..15, body in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(fact) = Fact::decode(Kind(kind), &body) {
            prop_assert_eq!(fact.encode().unwrap(), body);
        }
    }

    #[test]
    fn a_flipped_body_is_refused_or_says_something_else(which in 0usize..13, at: prop::sample::Index, bit in 0u8..8) {
        let fact = all_facts().swap_remove(which);
        let mut body = draft(1, 1, &fact).body;
        let at = at.index(body.len());
        body[at] ^= 1 << bit;
        if let Ok(other) = Fact::decode(fact.kind(), &body) {
            prop_assert_ne!(&other, &fact);
            prop_assert_eq!(other.encode().unwrap(), body);
        }
    }
}

#[test]
fn a_body_that_is_too_long_does_not_decode() {
    let fact = &all_facts()[0];
    let chain = ChainId { tenant: TenantId(1), partition: PartitionId::Root };
    let entry = Entry {
        chain,
        sequence: Sequence(1),
        position: Position(1),
        at: Millis(1),
        kind: fact.kind(),
        body: vec![0; AUDIT_BODY_BYTES_MAX],
        previous: Digest::default(),
    };
    let mut bytes = entry::encode(&entry);
    assert!(entry::decode(&bytes).is_ok());
    bytes.push(0);
    bytes[10..12].copy_from_slice(&(AUDIT_BODY_BYTES_MAX as u16 + 1).to_le_bytes());
    assert!(entry::decode(&bytes).is_err());
    bytes[1] = 2;
    assert_eq!(entry::decode(&bytes), Err(entry::EntryError::UnknownFormat { found: 2 }));
}
