//! The trace of a run: everything that happened, folded into one number, and shown as text when asked for.
//!
//! What must never happen: something in here that differs between two runs of one seed, such as an address, a
//! real time or the order of a `HashMap`.

use std::fmt::Debug;
use std::io::Write;

#[derive(Default)]
pub struct Trace {
    hash: u128,
    pub step: u64,
    shown: Option<Box<dyn Write>>,
}

impl Trace {
    /// A trace that is also written out, line by line.
    #[must_use]
    pub fn shown(to: Box<dyn Write>) -> Self {
        Self { shown: Some(to), ..Self::default() }
    }

    /// Something happened.
    pub fn note(&mut self, what: &str, detail: &dyn Debug) {
        let line = format!("{what} {detail:?}");
        self.fold(line.as_bytes());
        if let Some(to) = &mut self.shown {
            let shown = writeln!(to, "{:>6} {line}", self.step);
            drop(shown);
        }
    }

    pub fn fold(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().copied().chain([0xff]) {
            self.hash =
                (self.hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
            self.hash ^= self.hash >> 61;
        }
    }

    pub fn fold_number(&mut self, number: u64) {
        self.fold(&number.to_be_bytes());
    }

    #[must_use]
    pub fn hash(&self) -> u128 {
        self.hash
    }
}
