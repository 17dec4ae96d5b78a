//! Says of most users that a run has nothing of them, without a read. A blocked Bloom filter: one cache line per
//! question. Large runs have no filter, because nearly every user is in them.

/// Users above which a run gets no filter.
pub const USERS_MAX: usize = 1 << 20;
/// Bits per user: about one wrong "maybe" in two hundred.
const BITS_PER_USER: usize = 12;
const WORDS: usize = 8;
const PROBES: u32 = 6;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Blocks of eight words. None: every user may be here.
    words: Vec<u64>,
}

/// Spreads the bits of a tenant and a user. Stored filters depend on it: frozen.
pub fn hash(tenant: u32, user: u64) -> u64 {
    let mixed = (user ^ u64::from(tenant).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 32
}

impl Filter {
    pub fn new(hashes: &[u64]) -> Self {
        let blocks = (hashes.len() * BITS_PER_USER).div_ceil(WORDS * 64);
        let mut filter = Self { words: vec![0; blocks * WORDS] };
        for hash in hashes {
            let block = filter.block(*hash);
            for (word, bit) in probes(*hash) {
                filter.words[block + word] |= bit;
            }
        }
        filter
    }

    pub fn from_words(words: Vec<u64>) -> Option<Self> {
        words.len().is_multiple_of(WORDS).then_some(Self { words })
    }

    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// `false`: certainly not here.
    #[inline]
    pub fn may_have(&self, hash: u64) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let block = self.block(hash);
        probes(hash).all(|(word, bit)| self.words[block + word] & bit != 0)
    }

    fn block(&self, hash: u64) -> usize {
        let blocks = (self.words.len() / WORDS) as u64;
        (((hash >> 32) * blocks) >> 32) as usize * WORDS
    }
}

/// Bits inside a block: nine bits of the lower half of the hash for each.
fn probes(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    let mut bits = u64::from(hash as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..PROBES).map(move |_| {
        let at = bits >> 55;
        bits <<= 9;
        ((at >> 6) as usize, 1 << (at & 63))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_missed_and_few_are_taken_for_others() {
        for count in [1u64, 10, 1_000, 50_000] {
            let hashes: Vec<u64> = (0..count).map(|user| hash(3, user * 7)).collect();
            let filter = Filter::new(&hashes);
            assert!(hashes.iter().all(|hash| filter.may_have(*hash)));
            let wrong = (0..20_000u64).filter(|user| filter.may_have(hash(4, *user))).count();
            assert!(wrong < 400, "{wrong} of 20,000 with {count} users");
            assert_eq!(Filter::from_words(filter.words().to_vec()), Some(filter));
        }
        assert!(Filter::default().may_have(9), "no filter refuses nobody");
    }

    #[test]
    fn layout_is_frozen() {
        assert_eq!(hash(1, 2), 14_003_269_778_130_373_372);
        let words = [0, 550_292_684_800, 0, 2_048, 0, 1_099_511_627_776, 4, 1_125_899_906_842_624];
        assert_eq!(Filter::new(&[hash(1, 2)]).words(), words);
    }
}
