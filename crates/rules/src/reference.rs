//! The name that a delivery carries out of the house, and by which receipts find it again without a lookup table.
//!
//! ```text
//! text  = base32 (Crockford, lower case) of bytes
//! bytes = tenant, shard, arrival, channel, user, device (varints), seal: 6
//! seal  = SipHash-2-4 of the bytes before it, under a key of the tenant's keyring
//! ```
//! What must never happen: a reference that somebody made up and that is taken for ours. Six bytes are few for a secret
//! but many for a guess that costs a request each.

use crate::channel_kind::ChannelKind;
use crate::ids::{Arrival, DeviceNo, ShardNo, TenantId, UserNo};

const SEAL_BYTES: usize = 6;
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// One delivery, among all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    pub tenant: TenantId,
    pub shard: ShardNo,
    pub arrival: Arrival,
    pub channel: ChannelKind,
    pub user: UserNo,
    pub device: DeviceNo,
}

impl Reference {
    #[must_use]
    pub fn write(&self, key: &[u8; 16]) -> String {
        let mut bytes = Vec::with_capacity(32);
        let numbers = [
            self.tenant.0.into(),
            self.shard.0.into(),
            self.arrival.0,
            self.channel as u64,
            self.user.0,
            self.device.0.into(),
        ];
        numbers.into_iter().for_each(|number| put(&mut bytes, number));
        let seal = siphash(key, &bytes).to_le_bytes();
        bytes.extend_from_slice(&seal[..SEAL_BYTES]);
        base32(&bytes)
    }

    /// `None` for everything that was not written under this key. The tenant can be read before its key is known.
    #[must_use]
    pub fn read(text: &str, key_of: impl FnOnce(TenantId) -> Option<[u8; 16]>) -> Option<Self> {
        let bytes = unbase32(text)?;
        let (mut body, seal) = bytes.split_at_checked(bytes.len().checked_sub(SEAL_BYTES)?)?;
        let sealed = body;
        let mut number = || take(&mut body);
        let tenant = TenantId(u32::try_from(number()?).ok()?);
        let reference = Self {
            tenant,
            shard: ShardNo(u16::try_from(number()?).ok()?),
            arrival: Arrival(number()?),
            channel: ChannelKind::from_stored(u8::try_from(number()?).ok()?)?,
            user: UserNo(number()?),
            device: DeviceNo(u16::try_from(number()?).ok()?),
        };
        let expected = siphash(&key_of(tenant)?, sealed).to_le_bytes();
        let differs =
            expected[..SEAL_BYTES].iter().zip(seal).fold(0, |all, (one, other)| all | (one ^ other));
        (differs == 0 && body.is_empty()).then_some(reference)
    }
}

pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..63).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

pub(crate) fn base32(bytes: &[u8]) -> String {
    let (mut text, mut open, mut width) = (Vec::with_capacity(bytes.len() * 8 / 5 + 1), 0u32, 0);
    for byte in bytes {
        open = open << 8 | u32::from(*byte);
        width += 8;
        while width >= 5 {
            width -= 5;
            text.push(DIGITS[(open >> width) as usize & 31]);
        }
    }
    if width > 0 {
        text.push(DIGITS[(open << (5 - width)) as usize & 31]);
    }
    String::from_utf8(text).expect("every digit is ASCII")
}

pub(crate) fn unbase32(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut open, mut width) = (Vec::with_capacity(text.len() * 5 / 8), 0u32, 0);
    for digit in text.bytes() {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        open = (open << 5 | value as u32) & 0xfff;
        width += 5;
        if width >= 8 {
            width -= 8;
            bytes.push((open >> width) as u8);
        }
    }
    // One text for one reference: no digit more than it needs, and nothing in what is left of the last one.
    let left = open & ((1 << width) - 1);
    (width < 5 && left == 0).then_some(bytes)
}

/// SipHash-2-4 as its authors define it.
pub(crate) fn siphash(key: &[u8; 16], bytes: &[u8]) -> u64 {
    let half = |at: usize| u64::from_le_bytes(key[at..at + 8].try_into().expect("eight bytes"));
    let (k0, k1) = (half(0), half(8));
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        absorb(&mut v, u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
    }
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    last[7] = bytes.len() as u8;
    absorb(&mut v, u64::from_le_bytes(last));
    v[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn absorb(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    (0..2).for_each(|_| round(v));
    v[0] ^= word;
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

    fn reference(user: u64, device: u16) -> Reference {
        Reference {
            tenant: TenantId(7),
            shard: ShardNo(3),
            arrival: Arrival(123_456),
            channel: ChannelKind::Push,
            user: UserNo(user),
            device: DeviceNo(device),
        }
    }

    #[test]
    fn the_hash_is_the_published_one() {
        // From the appendix of the paper: the bytes 0 to 14 under the key 0 to 15.
        let bytes: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(&KEY, &bytes), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn references_are_short_and_their_layout_is_frozen() {
        let text = reference(2_000_000, 2).write(&KEY);
        assert!(text.len() <= 38, "{text}");
        let long =
            Reference { tenant: TenantId(1 << 20), arrival: Arrival(1 << 34), ..reference(1 << 27, 900) };
        assert!(long.write(&KEY).len() <= 38, "{}", long.write(&KEY).len());
        assert_eq!(text, "0w1w1h070608jyg2yy03m1m6t8");
    }

    #[test]
    fn a_reference_has_one_text() {
        for user in [1, 200, 70_000, 1 << 22, 1 << 30] {
            let text = reference(user, 2).write(&KEY);
            for digit in DIGITS {
                let longer = format!("{text}{}", char::from(*digit));
                assert_eq!(Reference::read(&longer, |_| Some(KEY)), None, "{longer}");
                let other = format!("{}{}", &text[..text.len() - 1], char::from(*digit));
                assert!(other == text || Reference::read(&other, |_| Some(KEY)).is_none(), "{other}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_nothing_else(
            user in 0u64..1 << 60, device: u16, place in 0usize..64, digit in 0usize..32, other: [u8; 16],
        ) {
            let written = reference(user, device);
            let text = written.write(&KEY);
            prop_assert_eq!(Reference::read(&text, |_| Some(KEY)), Some(written));
            prop_assert_eq!(Reference::read(&text, |_| None), None);
            prop_assert!(other == KEY || Reference::read(&text, |_| Some(other)).is_none());
            let place = place % text.len();
            let mut forged = text.clone().into_bytes();
            forged[place] = DIGITS[digit];
            let forged = String::from_utf8(forged).expect("ascii");
            // Bits of the last digit that no byte has are not looked at.
            let is_other = unbase32(&forged) != unbase32(&text);
            prop_assert!(!is_other || Reference::read(&forged, |_| Some(KEY)).is_none());
        }

        #[test]
        fn any_text_is_refused_or_read(text in "[0-9a-z]{0,60}") {
            prop_assert_eq!(Reference::read(&text, |_| Some(KEY)), None);
        }
    }
}
