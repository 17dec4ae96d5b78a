//! One recipient is proven, and nobody else is shown.

use super::rig::{EVENT, Log, all_facts, members};
use fantail_audit::entry;
use fantail_audit::fact::{Fact, Parcel};
use fantail_audit::member::{ConsentVersion, Member, Pseudonym, Reason, Salt};
use fantail_audit::proof::{ProofError, check, is_anchored, prove};
use fantail_ports::audit::{ChainId, Digest, Entry, Head, Sequence};
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, PartitionId, Position, ShardNo, TenantId, UserNo};
use proptest::prelude::*;

fn parcel_entry(members: &[Member]) -> Entry {
    let fact = Fact::Parcel(Parcel::of(EVENT, ChannelKind::Push, 1, UserNo(7), members));
    Entry {
        chain: ChainId { tenant: TenantId(1), partition: PartitionId::Shard(ShardNo(0)) },
        sequence: Sequence(1),
        position: Position(3),
        at: Millis(9),
        kind: fact.kind(),
        body: fact.encode().unwrap(),
        previous: Digest::default(),
    }
}

// proves: AUD-04
#[test]
fn every_member_of_a_full_parcel_is_proven() {
    let members = members(1_000);
    let entry = parcel_entry(&members);
    for index in (0..1_000).step_by(37).chain([999]) {
        let proof = prove(&entry, &members, index).unwrap();
        assert!(proof.path.len() <= 10);
        let Fact::Parcel(parcel) = check(&entry, &proof).unwrap() else { panic!("another fact") };
        assert_eq!((parcel.event, parcel.channel), (EVENT, ChannelKind::Push));
        assert_eq!(proof.member, members[index as usize]);
    }
    assert_eq!(prove(&entry, &members, 1_000), Err(ProofError::NoSuchMember { index: 1_000, count: 1_000 }));
    assert_eq!(prove(&entry, &members[..999], 0), Err(ProofError::OtherMembers));
}

#[test]
fn only_facts_about_members_can_be_opened() {
    let members = members(2);
    for fact in all_facts() {
        let entry = Entry { kind: fact.kind(), body: fact.encode().unwrap(), ..parcel_entry(&members) };
        let proven = prove(&entry, &members, 0);
        match fact.members() {
            None => assert_eq!(proven, Err(ProofError::NotAboutMembers)),
            Some(committed) => assert_eq!(proven.is_ok(), committed.count == 2, "{fact:?}"),
        }
    }
}

proptest! {
    #[test]
    fn a_proof_that_was_touched_does_not_hold(count in 1u16..200, at: prop::sample::Index, change in 0u8..7) {
        let members = members(count);
        let entry = parcel_entry(&members);
        let index = at.index(members.len()) as u32;
        let whole = prove(&entry, &members, index).unwrap();
        prop_assert!(check(&entry, &whole).is_ok());
        let mut proof = whole.clone();
        match change {
            0 => proof.member.verdict = State::Delivered,
            1 => proof.member.reason = Reason::of("other"),
            2 => proof.member.consent = ConsentVersion(0),
            3 => proof.member.pseudonym = Pseudonym([0xEE; 16]),
            4 => proof.member.salt = Salt([0xEE; 16]),
            5 => proof.index = (index + 1) % (u32::from(count) + 1),
            _ => proof.path.push(Digest::default()),
        }
        prop_assert_eq!(check(&entry, &proof), Err(ProofError::DoesNotHold));
        let other = parcel_entry(&super::rig::members(count + 1));
        prop_assert_eq!(check(&other, &whole), Err(ProofError::DoesNotHold), "another parcel");
    }
}

// proves: AUD-04
#[test]
fn an_entry_is_anchored_in_a_head_of_its_chain() {
    let log = Log::new();
    let chain = log.entries[0].entry.chain;
    let entries: Vec<&Entry> =
        log.entries.iter().map(|linked| &linked.entry).filter(|entry| entry.chain == chain).collect();
    let last = entries.last().unwrap();
    let head = Head { chain, sequence: last.sequence, hash: entry::hash(last) };
    for (no, entry) in entries.iter().enumerate() {
        let later = || entries[no + 1..].iter().copied();
        assert!(is_anchored(entry, later(), &head));
        let altered = Entry { at: Millis(entry.at.0 + 1), ..(*entry).clone() };
        assert!(!is_anchored(&altered, later(), &head), "altered at {no}");
        if no + 2 < entries.len() {
            assert!(!is_anchored(entry, later().skip(1), &head), "one left out behind {no}");
        }
        assert!(!is_anchored(entry, later(), &Head { sequence: Sequence(head.sequence.0 + 1), ..head }));
    }
}
