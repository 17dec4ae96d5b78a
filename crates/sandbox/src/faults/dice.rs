//! Chance as arithmetic: numbers that follow from a seed and a key, and from nothing else.

/// A stream of numbers of its own for every (seed, key).
#[derive(Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    #[must_use]
    pub fn new(seed: u64, key: u64) -> Self {
        Self { state: mix(seed ^ mix(key.wrapping_add(GOLDEN))) }
    }

    pub fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// From 0 up to, but not including, 1.
    pub fn below_one(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Close to a normal distribution (mean 0, deviation 1), without its far tails: a sum of twelve.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.below_one()).sum::<f64>() - 6.0
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A number for a name (FNV-1a).
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_frozen() {
        let mut dice = Dice::new(1, 2);
        let first: Vec<u64> = (0..3).map(|_| dice.roll() % 1_000).collect();
        let mut again = Dice::new(1, 2);
        assert_eq!(first, (0..3).map(|_| again.roll() % 1_000).collect::<Vec<_>>());
        assert_ne!(Dice::new(1, 3).roll(), Dice::new(1, 2).roll());
        assert_ne!(Dice::new(2, 2).roll(), Dice::new(1, 2).roll());
    }

    #[test]
    fn they_are_spread() {
        let mean = (0..10_000).map(|key| Dice::new(5, key).below_one()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        let mean = (0..10_000).map(|key| Dice::new(5, key).normal()).sum::<f64>() / 10_000.0;
        assert!(mean.abs() < 0.05, "{mean}");
    }
}
