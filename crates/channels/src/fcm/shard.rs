//! Which project a user belongs to, where an address names none. The same user always goes to the same project, and when a
//! project is added or taken away only its own users move (rendezvous hashing by weight).

/// A project as far as it is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate<'a> {
    pub id: &'a str,
    pub weight: u32,
}

/// The place of the project that the recipient belongs to; 0 if there is only one.
#[must_use]
pub fn place_of<'a>(recipient: u64, candidates: impl Iterator<Item = Candidate<'a>>) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (place, candidate) in candidates.enumerate() {
        let score = score(recipient, candidate);
        if score > best.1 {
            best = (place, score);
        }
    }
    best.0
}

/// Of `n` exponentially distributed draws with rates by weight, the smallest is each one's in proportion to its weight.
fn score(recipient: u64, candidate: Candidate<'_>) -> f64 {
    let mixed = mix(recipient ^ name_hash(candidate.id));
    // In (0, 1): 53 bits are what a float holds.
    let unit = ((mixed >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    f64::from(candidate.weight.max(1)) / -unit.ln()
}

fn name_hash(id: &str) -> u64 {
    mix(id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    }))
}

/// Every bit of the input changes about half of the output.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: u64 = 20_000;

    fn places(candidates: &[(&'static str, u32)]) -> Vec<&'static str> {
        let of = |recipient| {
            let candidates = candidates.iter().map(|(id, weight)| Candidate { id, weight: *weight });
            place_of(recipient << 16, candidates)
        };
        (0..USERS).map(|recipient| candidates[of(recipient)].0).collect()
    }

    fn count(places: &[&str], id: &str) -> usize {
        places.iter().filter(|place| **place == id).count()
    }

    // proves: PSH-04
    #[test]
    fn users_are_spread_by_weight_and_stay() {
        let two = places(&[("p1", 3), ("p2", 1)]);
        assert_eq!(two, places(&[("p1", 3), ("p2", 1)]));
        assert!((14_500..15_500).contains(&count(&two, "p1")), "{}", count(&two, "p1"));
        let three = places(&[("p3", 1), ("p1", 3), ("p2", 1)]);
        let moved: Vec<&str> = two
            .iter()
            .zip(&three)
            .filter(|(before, after)| before != after)
            .map(|(_, after)| *after)
            .collect();
        assert!(moved.iter().all(|place| *place == "p3"), "only to the new one");
        assert!((3_600..4_400).contains(&moved.len()), "{}", moved.len());
        assert_eq!(count(&places(&[("only", 7)]), "only"), 20_000);
    }
}
