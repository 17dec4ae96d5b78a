//! Records as bytes: what is written is what is read, and no bytes at all make a decoder panic.

use crate::strategies::{actor, directory_record, front_record, millis, root_record, shard_record};
use fantail_machine::codec::Malformed;
use fantail_machine::records::directory::DirectoryRecord;
use fantail_machine::records::front::FrontRecord;
use fantail_machine::records::root::RootRecord;
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::records::{Fact, Stamped, VERSION, time_of};
use fantail_rules::actor::Actor;
use fantail_rules::ids::Millis;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::fmt::Debug;

/// Written and read again: the same record, the same time, and none of its prefixes is a record.
fn check_round_trip<R: Fact + Clone + PartialEq + Debug>(
    (at, by): (Millis, Actor),
    record: R,
) -> Result<(), TestCaseError> {
    let stamped = Stamped { at, by, record };
    let bytes = stamped.encode();
    prop_assert_eq!(time_of(&bytes), Ok(at));
    let read = Stamped::<R>::decode(&bytes);
    prop_assert_eq!(read.as_ref(), Ok(&stamped));
    for length in 0..bytes.len() {
        prop_assert!(Stamped::<R>::decode(&bytes[..length]).is_err(), "prefix of {length} bytes");
    }
    let mut longer = bytes;
    longer.push(0);
    prop_assert_eq!(Stamped::<R>::decode(&longer), Err(Malformed::Long));
    Ok(())
}

/// Bytes that decode, decode to something that can be written and read again.
fn check_bytes<R: Fact + PartialEq + Debug>(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(stamped) = Stamped::<R>::decode(bytes) {
        prop_assert_eq!(Stamped::<R>::decode(&stamped.encode()), Ok(stamped));
    }
    Ok(())
}

fn check_mutated<R: Fact + PartialEq + Debug>(
    record: R,
    hits: &[(Index, u8)],
    cut: Index,
) -> Result<(), TestCaseError> {
    let mut bytes = Stamped { at: Millis(1_750_000_000_000), by: Actor::Key("k1".into()), record }.encode();
    for (place, byte) in hits {
        let place = place.index(bytes.len());
        bytes[place] = *byte;
    }
    check_bytes::<R>(&bytes)?;
    check_bytes::<R>(&bytes[..cut.index(bytes.len() + 1)])
}

fn hits() -> impl Strategy<Value = Vec<(Index, u8)>> {
    // Bytes that mean much: length 0, a long varint, a large length.
    let byte = prop_oneof![any::<u8>(), Just(0), Just(0x7f), Just(0x80), Just(0xff)];
    vec((any::<Index>(), byte), 1..6)
}

proptest! {
    #[test]
    fn root_records_round_trip(at in millis(), by in actor(), record in root_record()) {
        check_round_trip((at, by), record)?;
    }

    #[test]
    fn front_records_round_trip(at in millis(), by in actor(), record in front_record()) {
        check_round_trip((at, by), record)?;
    }

    #[test]
    fn shard_records_round_trip(at in millis(), by in actor(), record in shard_record()) {
        check_round_trip((at, by), record)?;
    }

    #[test]
    fn directory_records_round_trip(at in millis(), by in actor(), record in directory_record()) {
        check_round_trip((at, by), record)?;
    }

    #[test]
    fn damaged_directory_records_never_panic(record in directory_record(), hits in hits(), cut: Index) {
        check_mutated(record, &hits, cut)?;
    }

    #[test]
    fn damaged_root_records_never_panic(record in root_record(), hits in hits(), cut: Index) {
        check_mutated(record, &hits, cut)?;
    }

    #[test]
    fn damaged_front_records_never_panic(record in front_record(), hits in hits(), cut: Index) {
        check_mutated(record, &hits, cut)?;
    }

    #[test]
    fn damaged_shard_records_never_panic(record in shard_record(), hits in hits(), cut: Index) {
        check_mutated(record, &hits, cut)?;
    }

    /// Mostly with a tag and a version that let the bytes through to the body.
    #[test]
    fn random_bytes_never_panic(tag in 0u8..28, version in 0u8..3, body in vec(any::<u8>(), 0..200)) {
        let mut bytes = vec![tag, version];
        bytes.extend(body);
        check_bytes::<RootRecord>(&bytes)?;
        check_bytes::<FrontRecord>(&bytes)?;
        check_bytes::<DirectoryRecord>(&bytes)?;
        check_bytes::<ShardRecord>(&bytes)?;
        prop_assert!(time_of(&bytes).is_ok() || Stamped::<ShardRecord>::decode(&bytes).is_err());
    }
}

#[test]
fn unknown_tags_and_versions_are_named() {
    let whole = |tag, version| [tag, version, 0, 0];
    assert_eq!(Stamped::<RootRecord>::decode(&whole(99, VERSION)), Err(Malformed::Tag(99)));
    assert_eq!(Stamped::<FrontRecord>::decode(&whole(99, VERSION)), Err(Malformed::Tag(99)));
    assert_eq!(Stamped::<DirectoryRecord>::decode(&whole(6, VERSION)), Err(Malformed::Tag(6)));
    assert_eq!(Stamped::<ShardRecord>::decode(&whole(99, VERSION)), Err(Malformed::Tag(99)));
    assert_eq!(Stamped::<ShardRecord>::decode(&whole(1, 0)), Err(Malformed::Version(0)));
    assert_eq!(Stamped::<ShardRecord>::decode(&[9, VERSION, 0, 5]), Err(Malformed::Value("actor")));
    assert_eq!(Stamped::<ShardRecord>::decode(&whole(1, VERSION + 1)), Err(Malformed::Version(VERSION + 1)));
}

/// A length that no bytes stand behind is refused before memory is asked for.
#[test]
fn forged_lengths_are_refused() {
    let forged: Vec<u8> = [9, VERSION, 0, 0].into_iter().chain([0xff; 9]).chain([0x01]).collect();
    assert_eq!(Stamped::<ShardRecord>::decode(&forged), Err(Malformed::Short));
}
