//! Numbers in as few bytes as they need (LEB128), read and skipped fast: this is the inner loop of everything.

/// Appends a number: seven bits per byte, low bits first, the high bit says that more follow.
#[inline]
pub fn put(out: &mut Vec<u8>, number: u64) {
    if number < 0x80 {
        out.push(number as u8);
    } else if number < 0x4000 {
        out.extend_from_slice(&[number as u8 | 0x80, (number >> 7) as u8]);
    } else {
        put_long(out, number);
    }
}

fn put_long(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front. `None` if the bytes end early or the number does not fit.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    match **bytes {
        [low, ref rest @ ..] if low < 0x80 => {
            *bytes = rest;
            Some(u64::from(low))
        }
        [low, high, ref rest @ ..] if high < 0x80 => {
            *bytes = rest;
            Some(u64::from(low & 0x7f) | u64::from(high) << 7)
        }
        _ => take_long(bytes),
    }
}

fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        if index == 9 && *byte > 1 {
            return None;
        }
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Some(number);
        }
    }
    None
}

/// How many bytes the next `count` numbers take: bytes without the high bit end a number.
#[inline]
pub fn length_of(bytes: &[u8], count: u64) -> Option<usize> {
    let (mut left, mut at) = (count, 0);
    while let Some(word) = bytes.get(at..at + 8).filter(|_| left >= 8) {
        let word = u64::from_le_bytes(word.try_into().ok()?);
        left -= u64::from((!word & 0x8080_8080_8080_8080).count_ones());
        at += 8;
    }
    while left > 0 {
        left -= u64::from(bytes.get(at)? & 0x80 == 0);
        at += 1;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = u64> {
        (0u32..=64, any::<u64>()).prop_map(|(bits, number)| number.checked_shr(bits).unwrap_or(0))
    }

    proptest! {
        #[test]
        fn numbers_round_trip_and_are_skipped(numbers in proptest::collection::vec(number(), 0..60), skip in 0u64..60) {
            let mut bytes = Vec::new();
            let mut ends = vec![0];
            for number in &numbers {
                put(&mut bytes, *number);
                ends.push(bytes.len());
            }
            prop_assert_eq!(length_of(&bytes, skip), ends.get(skip as usize).copied());
            let mut rest = &bytes[..];
            for number in numbers {
                prop_assert_eq!(take(&mut rest), Some(number));
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_taken_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
            let mut rest = &bytes[..];
            while take(&mut rest).is_some() {}
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused() {
        assert_eq!(take(&mut &[0xff; 10][..]), None);
        assert_eq!(take(&mut &[0x80, 0x80][..]), None);
    }
}
