//! The audit log: entries, the facts in them, checkpoints, and the verifier over all of it.

use fantail_audit::checkpoint::Checkpoint;
use fantail_audit::entry;
use fantail_audit::fact::Fact;
use fantail_audit::key::Keys;
use fantail_audit::verify::{Evidence, Place, verify};
use fantail_fuzz::{Corpus, fuzz};
use fantail_ports::audit::Kind;

const BODIES: &str = include_str!("../../../audit/tests/it/fixtures/bodies-1.txt");
const ENTRY: &str = include_str!("../../../audit/tests/it/fixtures/entry-1.txt");
const CHECKPOINT: &str = include_str!("../../../audit/tests/it/fixtures/checkpoint-1.txt");

#[test]
fn facts_are_read_or_refused() {
    // The kind of a fact stands in its entry: here it is the first byte.
    let corpus = Corpus::from_hex(BODIES.lines(), &["\u{ff}", "\0", "\u{7f}"]);
    let inputs = (1..).zip(corpus.inputs).map(|(kind, body)| [&[kind], &body[..]].concat());
    let corpus = Corpus { inputs: inputs.collect(), words: corpus.words };
    for input in &corpus.inputs {
        assert!(Fact::decode(Kind(input[0]), &input[1..]).is_ok(), "the corpus has good facts: {input:?}");
    }
    fuzz("fact of the audit log", &corpus, |input| {
        let Some((kind, body)) = input.split_first() else { return };
        if let Ok(fact) = Fact::decode(Kind(*kind), body) {
            assert_eq!(fact.kind(), Kind(*kind));
            assert_eq!(fact.encode().as_deref(), Ok(body), "one fact has one body: {fact:?}");
        }
    });
}

#[test]
fn entries_are_read_or_refused() {
    let corpus = Corpus::from_hex(ENTRY.lines(), &["\u{2}\u{1}", "\0", "\u{7f}"]);
    fuzz("entry of the audit log", &corpus, |input| {
        let peeked = entry::peek(input);
        if let Ok(read) = entry::decode(input) {
            assert_eq!(entry::encode(&read), input, "one entry has one text of bytes");
            let peeked = peeked.expect("what decodes can be looked at");
            assert_eq!((peeked.chain, peeked.sequence, peeked.at), (read.chain, read.sequence, read.at));
        }
    });
}

#[test]
fn checkpoints_are_read_or_refused() {
    let words = ["head ", "heads ", "root", "shard-", "front-0", "18446744073709551615", "\n", "key ", "00"];
    fuzz("checkpoint", &Corpus::new(vec![CHECKPOINT.as_bytes().to_vec()], &words), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        if let Ok(checkpoint) = Checkpoint::parse(text) {
            assert_eq!(checkpoint.text(), text, "one checkpoint has one text");
        }
    });
}

/// Whatever a log has become, the verifier says so: only the entry that a checkpoint vouches for verifies.
#[test]
fn a_damaged_log_is_never_clean() {
    let good = Corpus::from_hex(ENTRY.lines(), &[]);
    let original = good.inputs[0].clone();
    let keys = Keys::default();
    let place = Place { segment: 1, offset: 0 };
    let findings = |bytes: &[u8]| {
        let evidence = Evidence { checkpoints: &[], posted: &[], keys: &keys };
        verify([(place, bytes), (place, &original[..])], evidence).findings_in_all
    };
    fuzz("log under verification", &good, |input| {
        let is_other_chain = entry::decode(input).is_ok_and(|read| {
            read.chain != entry::decode(&original).expect("a good entry").chain && read.sequence.0 == 1
        });
        // Two entries where one was: a repeat, another first entry, or bytes that are no entry.
        assert!(is_other_chain || findings(input) > 0, "a changed entry beside the true one is found");
    });
}
