//! Mutated inputs: what a reader of bytes must survive. Inputs grow out of a corpus of good ones, so that they get past the
//! first check; a seed gives the same inputs on every machine.
//!
//! `FANTAIL_FUZZ_ROUNDS` is how many inputs each reader gets, `FANTAIL_FUZZ_SEED` chooses them. `make nightly` sets both: the
//! seed is the date, so that every night tries others. A failure prints the reader, the input, and the seed with which the same
//! test reads this input in its first round.

mod corpus;
mod dice;
mod numbers;
mod structure;

pub use corpus::{Corpus, INPUT_BYTES_MAX};
pub use dice::Dice;

/// Rounds of `make test`: a second or two for all readers.
const ROUNDS_DEFAULT: u64 = 3_000;
/// How far apart the seeds of two rounds are: odd and large, so that the inputs of two dates have nothing in common.
const SEED_STRIDE: u64 = 0xd134_2543_de82_ef95;
/// How much of an input a failure prints.
const SHOWN_BYTES_MAX: usize = 4_096;

/// Gives a reader its inputs: first the good ones as they are, then mutated ones. `read` panics if something is wrong.
pub fn fuzz(reader: &str, corpus: &Corpus, read: impl Fn(&[u8])) {
    corpus.inputs.iter().for_each(|input| read(input));
    for seed in seeds(1) {
        let input = corpus.mutated(&mut Dice::new(seed));
        let _printed = Reading { reader, seed, input: &input };
        read(&input);
    }
}

/// One seed for each round. A round that costs as much as many of the others takes as many rounds.
pub fn seeds(cost: u64) -> impl Iterator<Item = u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a whole number"));
    let rounds = number("FANTAIL_FUZZ_ROUNDS").unwrap_or(ROUNDS_DEFAULT);
    let seed: u64 = number("FANTAIL_FUZZ_SEED").unwrap_or(1);
    (0..rounds.div_ceil(cost)).map(move |round| seed.wrapping_add(round.wrapping_mul(SEED_STRIDE)))
}

/// An input that is being read: a panic prints it, and how to read it again.
pub struct Reading<'a> {
    pub reader: &'a str,
    pub seed: u64,
    pub input: &'a [u8],
}

impl Drop for Reading<'_> {
    #[expect(clippy::print_stderr, reason = "a failing test says which input it was")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { reader, seed, input } = self;
            let shown = String::from_utf8_lossy(&input[..input.len().min(SHOWN_BYTES_MAX)]);
            let bytes = input.len();
            eprintln!(
                "{reader} failed: FANTAIL_FUZZ_SEED={seed} FANTAIL_FUZZ_ROUNDS=1, {bytes} bytes\n{shown:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn corpus() -> Corpus {
        Corpus::new(vec![b"{\"a\":[1,2]}".to_vec(), b"<p>x</p>\nend".to_vec()], &["null", "<!--"])
    }

    fn inputs(seeds: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
        seeds.map(|seed| corpus().mutated(&mut Dice::new(seed))).collect()
    }

    #[test]
    fn a_seed_gives_the_same_inputs_and_others_give_others() {
        assert_eq!(inputs(1..201), inputs(1..201));
        let changed = inputs(1..201).iter().filter(|input| !corpus().inputs.contains(input)).count();
        assert!(changed > 150, "{changed} of 200 inputs are new");
        assert!(inputs(1..2_001).iter().all(|input| input.len() <= INPUT_BYTES_MAX));
    }

    #[test]
    fn mutated_json_is_often_still_json() {
        let good = br#"{"id": "e1", "to": [1, 22, {"user": "ann"}], "when": null, "text": "a b c"}"#.to_vec();
        let corpus = Corpus::new(vec![good], &["null", "true"]);
        let inputs: BTreeSet<Vec<u8>> = (1..1_001).map(|seed| corpus.mutated(&mut Dice::new(seed))).collect();
        let is_json = |input: &&Vec<u8>| serde_json::from_slice::<serde_json::Value>(input).is_ok();
        let well_formed = inputs.iter().filter(is_json).count();
        assert!(well_formed > 100, "{well_formed} of {} different inputs are well-formed", inputs.len());
    }

    #[test]
    fn the_seeds_of_two_nights_have_nothing_in_common() {
        let night =
            |date: u64| (0..100_000u64).map(move |round| date.wrapping_add(round.wrapping_mul(SEED_STRIDE)));
        let one: BTreeSet<u64> = night(20_261_116).collect();
        assert!(night(20_261_117).all(|seed| !one.contains(&seed)));
    }
}
