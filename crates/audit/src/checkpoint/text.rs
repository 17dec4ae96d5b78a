//! The text of a checkpoint: lines of words, each ended by a newline, numbers in decimal, bytes in lowercase hex.
//!
//! ```text
//! fantail audit checkpoint 1          the format
//! number 12
//! time 1760000000000                  milliseconds since 1970
//! previous 9f86d0…                    zeros for the first
//! heads 3 2c26b4…                     how many, and the root over all
//! key 5feceb66ffc86f38
//! signature 4a44dc…                   Ed25519 over all lines above, newlines included
//! head 1 root 42 fcde2b…              tenant, partition, sequence, hash; none, some or all of them
//! head 1 shard-0 7 19581e…
//! ```
//! The lines up to the signature are complete without the heads: that is what is posted. What must never happen: two
//! texts of one checkpoint. Reading refuses whatever writing would not have given.

use super::{Checkpoint, Statement};
use crate::key::{KeyId, SIGNATURE_BYTES};
use fantail_ports::audit::{ChainId, Digest, Head, Sequence};
use fantail_rules::ids::{DirectoryNo, FrontNo, Millis, PartitionId, ShardNo, TenantId};
use std::fmt::Write;
use std::str::Lines;
use thiserror::Error;

const TITLE: &str = "fantail audit checkpoint 1";

impl Statement {
    /// The lines that are signed.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { number, at, previous, chains, root, key } = self;
        format!(
            "{TITLE}\nnumber {number}\ntime {at}\nprevious {previous}\nheads {chains} {root}\nkey {key}\n"
        )
    }

    fn parse(lines: &mut Lines<'_>) -> Option<Self> {
        if lines.next()? != TITLE {
            return None;
        }
        let number = lines.next()?.strip_prefix("number ")?.parse().ok()?;
        let at = Millis(lines.next()?.strip_prefix("time ")?.parse().ok()?);
        let previous = digest(lines.next()?.strip_prefix("previous ")?)?;
        let (chains, root) = lines.next()?.strip_prefix("heads ")?.split_once(' ')?;
        let key = KeyId(bytes(lines.next()?.strip_prefix("key ")?)?);
        Some(Self { number, at, previous, chains: chains.parse().ok()?, root: digest(root)?, key })
    }
}

impl Checkpoint {
    /// What is posted elsewhere: everything but the heads. It can be read again like the whole.
    #[must_use]
    pub fn note(&self) -> String {
        let mut text = self.statement.text();
        text.push_str("signature ");
        self.signature.iter().for_each(|byte| put(&mut text, format_args!("{byte:02x}")));
        text.push('\n');
        text
    }

    /// What is stored.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.note();
        for Head { chain: ChainId { tenant, partition }, sequence, hash } in &self.heads {
            put(&mut text, format_args!("head {tenant} {partition} {sequence} {hash}\n"));
        }
        text
    }

    pub fn parse(text: &str) -> Result<Self, TextError> {
        let parsed = Self::parse_lines(&mut text.lines()).ok_or(TextError::Malformed)?;
        let ascends = parsed.heads.is_sorted_by(|one, next| one.chain < next.chain);
        if !ascends || parsed.text() != text {
            return Err(TextError::Malformed);
        }
        Ok(parsed)
    }

    fn parse_lines(lines: &mut Lines<'_>) -> Option<Self> {
        let statement = Statement::parse(lines)?;
        let signature: [u8; SIGNATURE_BYTES] = bytes(lines.next()?.strip_prefix("signature ")?)?;
        let heads = lines.map(head).collect::<Option<_>>()?;
        Some(Self { statement, signature, heads })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum TextError {
    #[error("malformed, or of a later format")]
    Malformed,
}

fn put(text: &mut String, words: std::fmt::Arguments<'_>) {
    text.write_fmt(words).expect("writing to a string does not fail");
}

fn head(line: &str) -> Option<Head> {
    let mut words = line.strip_prefix("head ")?.split(' ');
    let tenant = TenantId(words.next()?.parse().ok()?);
    let partition = partition(words.next()?)?;
    let sequence = Sequence(words.next()?.parse().ok()?);
    let hash = digest(words.next()?)?;
    words.next().is_none().then_some(Head { chain: ChainId { tenant, partition }, sequence, hash })
}

fn partition(word: &str) -> Option<PartitionId> {
    let named = match word.split_once('-') {
        None => (word == "root").then_some(PartitionId::Root),
        Some(("front", no)) => Some(PartitionId::Front(FrontNo(no.parse().ok()?))),
        Some(("directory", no)) => Some(PartitionId::Directory(DirectoryNo(no.parse().ok()?))),
        Some(("shard", no)) => Some(PartitionId::Shard(ShardNo(no.parse().ok()?))),
        Some(_) => None,
    };
    named.filter(|partition| PartitionId::from_code(partition.code()) == Some(*partition))
}

fn digest(word: &str) -> Option<Digest> {
    bytes(word).map(Digest)
}

fn bytes<const N: usize>(word: &str) -> Option<[u8; N]> {
    let digits = word.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn heads() -> impl Strategy<Value = Vec<Head>> {
        let partition = prop_oneof![
            Just(PartitionId::Root),
            (0u16..1024).prop_map(|no| PartitionId::Front(FrontNo(no))),
            (0u16..1024).prop_map(|no| PartitionId::Directory(DirectoryNo(no))),
            (0u16..4096).prop_map(|no| PartitionId::Shard(ShardNo(no))),
        ];
        let head = (any::<u32>(), partition, any::<u64>(), any::<[u8; 32]>());
        proptest::collection::vec(head, 0..8).prop_map(|heads| {
            let mut heads: Vec<Head> = heads
                .into_iter()
                .map(|(tenant, partition, sequence, hash)| Head {
                    chain: ChainId { tenant: TenantId(tenant), partition },
                    sequence: Sequence(sequence),
                    hash: Digest(hash),
                })
                .collect();
            heads.sort_by_key(|head| head.chain);
            heads.dedup_by_key(|head| head.chain);
            heads
        })
    }

    prop_compose! {
        fn checkpoint()(
            number: u64, at: u64, previous: [u8; 32], chains: u64, root: [u8; 32], key: [u8; 8],
            signature in proptest::collection::vec(any::<u8>(), 64), heads in heads(),
        ) -> Checkpoint {
            let (at, previous, root, key) = (Millis(at), Digest(previous), Digest(root), KeyId(key));
            let statement = Statement { number, at, previous, chains, root, key };
            let signature = signature.try_into().expect("as long as a signature");
            Checkpoint { statement, signature, heads }
        }
    }

    proptest! {
        #[test]
        fn text_round_trips(checkpoint in checkpoint()) {
            prop_assert_eq!(Checkpoint::parse(&checkpoint.text()), Ok(checkpoint.clone()));
            let note = Checkpoint::parse(&checkpoint.note()).expect("a note is a checkpoint without heads");
            prop_assert_eq!((note.statement, note.heads), (checkpoint.statement, Vec::new()));
        }

        #[test]
        fn a_changed_text_is_refused_or_another_checkpoint(
            checkpoint in checkpoint(), at: prop::sample::Index, to in 0u8..128,
        ) {
            let mut bytes = checkpoint.text().into_bytes();
            let at = at.index(bytes.len());
            prop_assume!(bytes[at] != to);
            bytes[at] = to;
            let text = String::from_utf8(bytes).expect("ASCII");
            prop_assert_ne!(Checkpoint::parse(&text), Ok(checkpoint));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,300}") {
            prop_assert!(Checkpoint::parse(&text).is_err());
        }
    }

    #[test]
    fn a_number_has_one_text() {
        let text =
            "fantail audit checkpoint 1\nnumber 1\ntime 5\nprevious P\nheads 0 P\nkey K\nsignature S\n";
        let text =
            text.replace('P', &"0".repeat(64)).replace('K', &"0".repeat(16)).replace('S', &"0".repeat(128));
        assert!(Checkpoint::parse(&text).is_ok());
        for (from, to) in [("r 1", "r 01"), ("r 1", "r +1"), ("\n", "\r\n"), ("e 5\n", "e 5\n\n")] {
            assert!(Checkpoint::parse(&text.replacen(from, to, 1)).is_err(), "{to}");
        }
        assert!(Checkpoint::parse(text.trim_end()).is_err());
    }
}
