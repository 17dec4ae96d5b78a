//! Mutated inputs: what a reader of bytes must survive. Inputs grow out of a corpus of good ones, so that they get past the
//! first check; a seed gives the same inputs on every machine.
//!
//! `FANTAIL_FUZZ_ROUNDS` says how many inputs each reader gets, `FANTAIL_FUZZ_SEED` where they begin. `make nightly` sets the
//! first. A failure names the reader, the seed and the round, and prints the input.

/// Rounds of `make test`: a second or two for all readers.
const ROUNDS_DEFAULT: u64 = 3_000;
/// Longer inputs are cut: readers of unbounded bodies are limited before.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Changes made to one input.
const CHANGES_MAX: u64 = 6;

/// Reproducible numbers, good enough to choose places (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        (self.roll() % end.max(1) as u64) as usize
    }
}

/// Good inputs of one reader, and the words that its format is made of.
pub struct Corpus {
    pub inputs: Vec<Vec<u8>>,
    pub words: Vec<Vec<u8>>,
}

impl Corpus {
    #[must_use]
    pub fn new(inputs: Vec<Vec<u8>>, words: &[&str]) -> Self {
        assert!(!inputs.is_empty(), "a corpus has good inputs");
        Self { inputs, words: words.iter().map(|word| word.as_bytes().to_vec()).collect() }
    }

    /// One of the inputs with some changes.
    pub fn mutated(&self, dice: &mut Dice) -> Vec<u8> {
        let mut input = self.inputs[dice.below(self.inputs.len())].clone();
        for _ in 0..=dice.roll() % CHANGES_MAX {
            self.change(&mut input, dice);
            input.truncate(INPUT_BYTES_MAX);
        }
        input
    }

    fn change(&self, input: &mut Vec<u8>, dice: &mut Dice) {
        let at = dice.below(input.len() + 1);
        let end = at + dice.below(input.len() - at + 1);
        match dice.below(9) {
            0 if at < input.len() => input[at] ^= 1 << dice.below(8),
            1 if at < input.len() => input[at] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'<', b'\n'][dice.below(8)],
            2 => input.truncate(at),
            3 => drop(input.drain(at..end)),
            // A piece again, once or very often: lengths, nesting and repetition.
            4 => {
                let piece = input[at..end.min(at + 64)].to_vec();
                let times = if dice.below(8) == 0 { 300 } else { 1 };
                input.splice(at..at, piece.repeat(times));
            }
            5 if !self.words.is_empty() => {
                let word = &self.words[dice.below(self.words.len())];
                input.splice(at..at, word.iter().copied());
            }
            6 if !self.words.is_empty() => {
                let word = &self.words[dice.below(self.words.len())];
                input.splice(at..end.min(at + word.len()), word.iter().copied());
            }
            // The end of another input behind the beginning of this one.
            7 => {
                let other = &self.inputs[dice.below(self.inputs.len())];
                let from = dice.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => input.insert(at, dice.roll() as u8),
        }
    }
}

/// Gives a reader its inputs: first the good ones as they are, then mutated ones. `read` panics if something is wrong.
pub fn fuzz(reader: &str, corpus: &Corpus, read: impl Fn(&[u8])) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a whole number"));
    let rounds = number("FANTAIL_FUZZ_ROUNDS").unwrap_or(ROUNDS_DEFAULT);
    let seed = number("FANTAIL_FUZZ_SEED").unwrap_or(1);
    corpus.inputs.iter().for_each(|input| read(input));
    for round in 0..rounds {
        let input = corpus.mutated(&mut Dice::new(seed.wrapping_add(round)));
        let mut failing = Failing { reader, seed: seed.wrapping_add(round), input: &input, is_over: false };
        read(&input);
        failing.is_over = true;
    }
}

/// Says on a panic which input it was.
struct Failing<'a> {
    reader: &'a str,
    seed: u64,
    input: &'a [u8],
    is_over: bool,
}

impl Drop for Failing<'_> {
    #[expect(clippy::print_stderr, reason = "a failing test says which input it was")]
    fn drop(&mut self) {
        if !self.is_over {
            let shown = String::from_utf8_lossy(&self.input[..self.input.len().min(4_096)]);
            eprintln!(
                "{} failed: FANTAIL_FUZZ_SEED={} FANTAIL_FUZZ_ROUNDS=1, {} bytes\n{shown:?}",
                self.reader,
                self.seed,
                self.input.len()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_inputs_and_others_give_others() {
        let corpus = Corpus::new(vec![b"{\"a\":[1,2]}".to_vec(), b"<p>x</p>".to_vec()], &["null", "<!--"]);
        let inputs = |seed: u64| -> Vec<Vec<u8>> {
            (0..200).map(|round| corpus.mutated(&mut Dice::new(seed + round))).collect()
        };
        assert_eq!(inputs(1), inputs(1));
        let changed = inputs(1).iter().filter(|input| !corpus.inputs.contains(input)).count();
        assert!(changed > 150, "{changed} of 200 inputs are new");
        assert!(inputs(1).iter().all(|input| input.len() <= INPUT_BYTES_MAX));
    }
}
