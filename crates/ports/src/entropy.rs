//! Chance. One stream per consumer in the simulator, so that one more draw in one place shifts no other.

pub trait Entropy: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);

    fn random_u128(&self) -> u128 {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        u128::from_be_bytes(bytes)
    }
}
