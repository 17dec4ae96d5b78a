//! Which variant a user gets: a pure function of template and user, so that it is the same on every send and on every
//! node, and nothing is stored.

use aws_lc_rs::digest::{SHA256, digest};
use fantail_wire::template::Variant;

/// The seed of one user for one template. Frozen: changing it would move users between variants.
#[must_use]
pub fn variant_seed(template: &str, user: &str) -> u64 {
    let mut bytes = Vec::with_capacity(template.len() + user.len() + 1);
    bytes.extend_from_slice(template.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(user.as_bytes());
    let hash = digest(&SHA256, &bytes);
    let first = hash.as_ref().first_chunk().expect("a SHA-256 has 32 bytes");
    u64::from_be_bytes(*first)
}

/// Where each variant's share of the seeds ends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shares(Vec<u64>);

impl Shares {
    pub fn new(variants: &[Variant]) -> Self {
        let ends = variants.iter().scan(0_u64, |sum, variant| {
            *sum += u64::from(variant.weight);
            Some(*sum)
        });
        Self(ends.collect())
    }

    /// As they were frozen with a message.
    pub fn of_ends(ends: Vec<u64>) -> Self {
        Self(ends)
    }

    /// Where a variant's share ends.
    pub fn end(&self, variant: usize) -> u64 {
        self.0.get(variant).copied().unwrap_or_default()
    }

    /// Nobody gets a variant without a share.
    pub fn is_empty(&self, variant: usize) -> bool {
        let before = variant.checked_sub(1).map_or(0, |before| self.end(before));
        self.end(variant) == before
    }

    /// `None` if there are no variants.
    pub fn choose(&self, seed: u64) -> Option<usize> {
        let total = *self.0.last()?;
        let ticket = (u128::from(seed) * u128::from(total)) >> 64;
        self.0.iter().position(|end| ticket < u128::from(*end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_wire::template::Channels;
    use std::collections::BTreeMap;

    fn shares(weights: &[u32]) -> Shares {
        let variant = |weight: &u32| Variant {
            name: String::new(),
            weight: *weight,
            channels: Channels::default(),
            translations: BTreeMap::new(),
        };
        Shares::new(&weights.iter().map(variant).collect::<Vec<_>>())
    }

    // proves: TPL-07
    #[test]
    fn users_keep_their_variant_and_shares_follow_weights() {
        for weights in [&[1, 1][..], &[9, 1], &[0, 5, 5], &[1, 2, 3, 4]] {
            let shares = shares(weights);
            let users = 20_000;
            let mut counts = vec![0_u32; weights.len()];
            for user in 0..users {
                let seed = variant_seed("welcome", &format!("user-{user}"));
                let choice = shares.choose(seed).expect("a variant");
                assert_eq!(shares.choose(seed), Some(choice));
                counts[choice] += 1;
            }
            let total: u32 = weights.iter().sum();
            for (count, weight) in counts.iter().zip(weights) {
                let expected = f64::from(users) * f64::from(*weight) / f64::from(total);
                assert!((f64::from(*count) - expected).abs() < 400.0, "{weights:?}: {counts:?}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_range_have_a_variant() {
        let one = shares(&[3, 0, 2]);
        assert_eq!(one.choose(0), Some(0));
        assert_eq!(one.choose(u64::MAX), Some(2));
        assert_eq!(shares(&[]).choose(7), None);
    }

    #[test]
    fn seeds_are_frozen_and_differ_by_template() {
        assert_eq!(variant_seed("welcome", "u1"), variant_seed("welcome", "u1"));
        assert_ne!(variant_seed("welcome", "u1"), variant_seed("other", "u1"));
        assert_ne!(variant_seed("a", "bc"), variant_seed("ab", "c"));
    }
}
