//! Good inputs of one reader, and inputs that grow out of them by changes of their bytes and of their structure.

use crate::dice::Dice;
use crate::{numbers, structure};

/// Longer inputs are cut: readers of unbounded bodies are limited before.
pub const INPUT_BYTES_MAX: usize = 64 << 10;
/// Changes made to one input.
const CHANGES_MAX: u64 = 6;

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

    /// Bytes in hex, one input a line.
    #[must_use]
    pub fn from_hex<'a>(lines: impl Iterator<Item = &'a str>, words: &[&str]) -> Self {
        let digits = |pair: &[u8]| {
            let text = std::str::from_utf8(pair).expect("hex is text");
            u8::from_str_radix(text, 16).expect("hex has two digits a byte")
        };
        Self::new(lines.map(|line| line.trim().as_bytes().chunks(2).map(digits).collect()).collect(), words)
    }

    /// One of the inputs with some changes.
    pub fn mutated(&self, dice: &mut Dice) -> Vec<u8> {
        let mut input = dice.pick(&self.inputs).clone();
        // One change in half of the cases: what is nearly good gets furthest.
        let changes = if dice.below(2) == 0 { 1 } else { 1 + dice.roll() % CHANGES_MAX };
        for _ in 0..changes {
            match dice.below(3) {
                0 => self.change_bytes(&mut input, dice),
                1 => numbers::change(&mut input, dice),
                _ => structure::change(&mut input, dice.pick::<Vec<u8>>(&self.inputs), dice),
            }
            input.truncate(INPUT_BYTES_MAX);
        }
        input
    }

    fn change_bytes(&self, input: &mut Vec<u8>, dice: &mut Dice) {
        let at = dice.below(input.len() + 1);
        let end = at + dice.below(input.len() - at + 1);
        match dice.below(9) {
            0 if at < input.len() => input[at] ^= 1 << dice.below(8),
            1 if at < input.len() => input[at] = *dice.pick(&[0, 1, 0x7f, 0x80, 0xff, b'"', b'<', b'\n']),
            2 => input.truncate(at),
            3 => drop(input.drain(at..end)),
            // A piece again, once or very often: lengths, nesting and repetition.
            4 => {
                let piece = input[at..end.min(at + 64)].to_vec();
                let times = if dice.below(8) == 0 { 300 } else { 1 };
                input.splice(at..at, piece.repeat(times));
            }
            5 if !self.words.is_empty() => {
                input.splice(at..at, dice.pick(&self.words).iter().copied());
            }
            6 if !self.words.is_empty() => {
                let word = dice.pick(&self.words);
                input.splice(at..end.min(at + word.len()), word.iter().copied());
            }
            // The end of another input behind the beginning of this one.
            7 => {
                let other = dice.pick(&self.inputs);
                let from = dice.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => input.insert(at, dice.roll() as u8),
        }
    }
}
