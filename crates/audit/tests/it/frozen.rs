//! Bytes that were released never change. The fixtures were computed by another implementation, written from the layouts
//! in the headers alone.

use super::rig::{all_facts, draft, members};
use fantail_audit::chain::Chains;
use fantail_audit::checkpoint::{Checkpoint, Series};
use fantail_audit::key::Signer;
use fantail_audit::member::{Commitment, Salt, SaltUse};
use fantail_ports::audit::{Batch, Kind};
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
        "c09c30bab669d8360b73c8628f845ac604a0d83a81e91833a3b01050c882542f",
    );
    check(
        Commitment::to(&members(7)).root.to_string(),
        "e33568dba5320f2e87fd2d9ead75be87b6acf885bf26c160fcc22d30f1a2687b",
    );
    let usage = SaltUse { kind: Kind(4), position: Position(0x0102_0304), index: 3 };
    check(hex(&Salt::derive(&[9; 32], usage).0), "c83e5d5e5130994339dec0fcad7e1229");
}

/// The kinds that the frozen chain has; later ones are among the bodies alone.
const CHAINED: usize = 12;

/// One chain of these kinds, and the checkpoint over it: entries, links, root over heads, statement and signature.
#[test]
fn entries_chains_and_checkpoints_are_frozen() {
    let drafts: Vec<_> = (1..).zip(all_facts()).take(CHAINED).map(|(no, fact)| draft(1, no, &fact)).collect();
    let partition = PartitionId::Shard(ShardNo(2));
    let mut chains = Chains::default();
    let batch = Batch { partition, after: Position(0), through: Position(12), drafts };
    let staged = chains.stage(vec![batch]).unwrap();
    chains.fold(&staged);
    assert_eq!(hex(&staged.entries[0].bytes), ENTRY.trim_end());

    let signer = Signer::from_seed(&[5; 32]);
    let checkpoint = Series::new().sign(&chains.heads(), Millis(1_760_000_000_000), &signer).unwrap();
    assert_eq!(checkpoint.text(), CHECKPOINT);
    assert_eq!(Checkpoint::parse(CHECKPOINT), Ok(checkpoint.clone()));
    let hash = checkpoint.statement.hash().to_string();
    assert_eq!(hash, "5c21755e4591ef9373d935b97404c25053551310762d63666cb33bbb0d223e27");
}
