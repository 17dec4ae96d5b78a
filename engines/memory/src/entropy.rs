//! Chance from a seed (SplitMix64): the same seed gives the same bytes.

use crate::hash::mix;
use fantail_ports::entropy::Entropy;
use std::sync::atomic::{AtomicU64, Ordering};

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
}

impl SeededEntropy {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    pub fn random_u64(&self) -> u64 {
        mix(self.state.fetch_add(GAMMA, Ordering::SeqCst).wrapping_add(GAMMA))
    }

    /// A number in `0..bound`; zero if `bound` is zero.
    pub fn below(&self, bound: u64) -> u64 {
        self.random_u64() % bound.max(1)
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.random_u64().to_be_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let draw = |seed| {
            let entropy = SeededEntropy::new(seed);
            let mut bytes = [0; 21];
            entropy.fill(&mut bytes);
            (bytes, entropy.random_u128())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
