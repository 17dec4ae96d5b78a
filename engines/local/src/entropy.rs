//! The operating system's randomness, through the one crypto provider.

use fantail_ports::entropy::Entropy;

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        // Keys and ids depend on it: a process without randomness must not go on.
        aws_lc_rs::rand::fill(bytes).expect("the system gives random bytes, or this process must stop");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_differ() {
        assert_ne!(SystemEntropy.random_u128(), SystemEntropy.random_u128());
    }
}
