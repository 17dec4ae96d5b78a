//! Bytes that were released never change. The fixtures were computed by another implementation, written from the layouts
//! in the headers alone.

use super::rig::{EVENT, all_facts, draft, members};
use fantail_audit::chain::Chains;
use fantail_audit::checkpoint::{Checkpoint, Series};
use fantail_audit::key::Signer;
use fantail_audit::member::{Commitment, Salt, SaltUse};
use fantail_ports::audit::{Batch, Kind};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, PartitionId, Position, ShardNo};

const BODIES: &str = include_str!("fixtures/bodies-1.txt");
const ENTRY: &str = include_str!("fixtures/entry-1.txt");
const CHECKPOINT: &str = include_str!("fixtures/checkpoint-1.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn bodies_of_all_kinds_are_frozen() {
    let facts = all_facts();
    assert_eq!(BODIES.lines().count(), facts.len());
    for (fact, frozen) in facts.iter().zip(BODIES.lines()) {
        assert_eq!(hex(&fact.encode().unwrap()), frozen, "{fact:?}");
    }
}

#[test]
fn leaves_roots_and_salts_are_frozen() {
    let check = |found: String, frozen: &str| assert_eq!(found, frozen);
    check(
        members(2)[1].leaf().to_string(),
        "742df67aff61745c16ad7a8c95666d43a5a2464b16e6ff6402e2ad6ead9eee48",
    );
    check(
        Commitment::to(&members(7)).root.to_string(),
        "3c45b9b70f2467e3f545326efc8d3c3f1e8e59ede201e0491c81c0a2a2d736e3",
    );
    let usage = SaltUse { kind: Kind(4), event: EVENT, channel: ChannelKind::Email, round: 3 };
    check(hex(&Salt::derive(&[9; 32], usage).0), "c8f56d7905e9e8cf5b05a438701b1e30");
}

/// One chain of all kinds, and the checkpoint over it: entries, links, root over heads, statement and signature.
#[test]
fn entries_chains_and_checkpoints_are_frozen() {
    let drafts: Vec<_> = (1..).zip(all_facts()).map(|(no, fact)| draft(1, no, &fact)).collect();
    let partition = PartitionId::Shard(ShardNo(2));
    let mut chains = Chains::default();
    let batch = Batch { partition, after: Position(0), through: Position(10), drafts };
    let staged = chains.stage(vec![batch]).unwrap();
    chains.fold(&staged);
    assert_eq!(hex(&staged.entries[0].bytes), ENTRY.trim_end());

    let signer = Signer::from_seed(&[5; 32]);
    let checkpoint = Series::new().sign(&chains.heads(), Millis(1_760_000_000_000), &signer).unwrap();
    assert_eq!(checkpoint.text(), CHECKPOINT);
    assert_eq!(Checkpoint::parse(CHECKPOINT), Ok(checkpoint.clone()));
    let hash = checkpoint.statement.hash().to_string();
    assert_eq!(hash, "bb68fce402278c2c1a39ec34ee38b4429d8bc46b34e05b57efb86bc6f3227b8e");
}
