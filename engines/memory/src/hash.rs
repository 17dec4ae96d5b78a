//! One deterministic hash for digests and for the keys of the reference keyring: FNV-1a over 128 bits with a
//! final mix, because FNV alone leaves the high bits of short inputs poor.
//!
//! Not cryptographic: nothing that must stay secret may rest on it.

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// The hash of several parts, each with its length, so that moving a byte between parts changes it.
#[must_use]
pub fn hash_parts(parts: &[&[u8]]) -> u128 {
    let mut state = OFFSET;
    for part in parts {
        fold(&mut state, &(part.len() as u64).to_be_bytes());
        fold(&mut state, part);
    }
    finish(state)
}

fn fold(state: &mut u128, bytes: &[u8]) {
    for byte in bytes {
        *state = (*state ^ u128::from(*byte)).wrapping_mul(PRIME);
    }
}

/// Spreads every input bit over both halves.
fn finish(state: u128) -> u128 {
    let low = mix(state as u64);
    let high = mix((state >> 64) as u64 ^ low);
    let low = mix(low.wrapping_add(high));
    u128::from(high) << 64 | u128::from(low)
}

/// The finaliser of SplitMix64.
#[must_use]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(hash_parts(&[b"ab", b"c"]), hash_parts(&[b"a", b"bc"]));
        assert_ne!(hash_parts(&[b""]), hash_parts(&[]));
    }

    #[test]
    fn short_inputs_spread_over_the_high_bits() {
        let mut shards = [0; 4];
        for no in 0..4_000u32 {
            let hash = hash_parts(&[no.to_string().as_bytes()]);
            shards[(hash >> 64) as usize % 4] += 1;
        }
        assert!(shards.iter().all(|count| (900..1_100).contains(count)), "{shards:?}");
    }
}
