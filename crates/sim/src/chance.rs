//! Chance: one seeded stream per consumer, so that one more draw in one place shifts no other.

use fantail_memory::entropy::SeededEntropy;

pub struct Chance(SeededEntropy);

impl Chance {
    /// The stream of one consumer of a run.
    #[must_use]
    pub fn of(seed: u64, consumer: &str) -> Self {
        Self(SeededEntropy::new(stream(seed, consumer)))
    }

    /// A number in `0..bound`; zero if `bound` is zero.
    pub fn below(&self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// A place in something of this length.
    pub fn index(&self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn percent(&self, of_hundred: u64) -> bool {
        self.below(100) < of_hundred
    }

    pub fn pick<'a, T>(&self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.index(from.len()))
    }

    /// One of the numbers `0..weights.len()`, each as likely as its weight says.
    pub fn weighted(&self, weights: &[u64]) -> usize {
        let mut place = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if place < *weight {
                return index;
            }
            place -= weight;
        }
        0
    }
}

/// The seed of a consumer's stream.
#[must_use]
pub fn stream(seed: u64, consumer: &str) -> u64 {
    let mut state = seed ^ 0x5851_f42d_4c95_7f2d;
    for byte in consumer.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_draw_from_streams_of_their_own() {
        let draw = |seed, consumer| Chance::of(seed, consumer).below(u64::MAX);
        assert_eq!(draw(1, "order"), draw(1, "order"));
        assert_ne!(draw(1, "order"), draw(1, "faults"));
        assert_ne!(draw(1, "order"), draw(2, "order"));
    }

    #[test]
    fn a_weight_of_zero_is_never_chosen() {
        let chance = Chance::of(7, "weights");
        assert!((0..200).all(|_| chance.weighted(&[0, 3, 0, 1]) % 2 == 1));
    }
}
