//! Event ids: 48 bits of milliseconds, 10 bits that name the front, 70 random bits; 26 Crockford characters.
//!
//! ```text
//! bit 127                 80 79      70 69                                0
//!     |  milliseconds (48)  | front (10)|            random (70)          |
//! ```
//! What must never happen: two events of one front with equal ids, or a later event of a front sorting before an
//! earlier one. `Mint::next` therefore takes the larger of the clock and the last id, and counts up from there.

use crate::ids::{FrontNo, Millis};
use std::fmt;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const RANDOM_BITS: u32 = 70;
const RANDOM_MASK: u128 = (1 << RANDOM_BITS) - 1;
const FRONT_BITS: u32 = 10;
/// Steps between ids of one millisecond are random below this, so that ids cannot be guessed from a neighbour.
const STEP_BITS: u32 = 40;

/// An id whose text order is its time order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ulid(pub u128);

impl Ulid {
    pub const TEXT_LENGTH: usize = 26;

    #[must_use]
    pub fn new(at: Millis, front: FrontNo, random: u128) -> Self {
        let millis = u128::from(at.0) & ((1 << 48) - 1);
        let front = u128::from(front.0) & ((1 << FRONT_BITS) - 1);
        Self((millis << 80) | (front << RANDOM_BITS) | (random & RANDOM_MASK))
    }

    #[must_use]
    pub fn millis(self) -> Millis {
        Millis(u64::try_from(self.0 >> 80).expect("48 bits fit in 64"))
    }

    /// The front that minted it, and so the home of the request.
    #[must_use]
    pub fn front(self) -> FrontNo {
        let bits = (self.0 >> RANDOM_BITS) & ((1 << FRONT_BITS) - 1);
        FrontNo(u16::try_from(bits).expect("10 bits fit in 16"))
    }

    #[must_use]
    pub fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Reads 26 Crockford characters; either case; `I`, `L` and `O` are not accepted, so that an id has one text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != Self::TEXT_LENGTH {
            return None;
        }
        let mut value: u128 = 0;
        for (index, byte) in text.bytes().enumerate() {
            let upper = byte.to_ascii_uppercase();
            let digit = ALPHABET.iter().position(|letter| *letter == upper)?;
            if index == 0 && digit > 7 {
                return None;
            }
            value = (value << 5) | u128::try_from(digit).ok()?;
        }
        Some(Self(value))
    }
}

impl fmt::Display for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; Self::TEXT_LENGTH];
        let mut rest = self.0;
        for slot in text.iter_mut().rev() {
            *slot = ALPHABET[(rest & 31) as usize];
            rest >>= 5;
        }
        f.write_str(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Mints the ids of one front, strictly ascending whatever the clock does.
#[derive(Clone, Copy, Debug)]
pub struct Mint {
    pub front: FrontNo,
    /// The last id minted by this front, from its tables.
    pub last: Ulid,
}

impl Mint {
    /// The next id. `random` is fresh entropy for each call.
    #[must_use]
    pub fn next(&mut self, now: Millis, random: u128) -> Ulid {
        let fresh = Ulid::new(now, self.front, random);
        let next = if fresh.millis() > self.last.millis() { fresh } else { self.after_last(random) };
        assert!(next > self.last, "ids of one front ascend");
        self.last = next;
        next
    }

    fn after_last(&self, random: u128) -> Ulid {
        let step = 1 + (random & ((1 << STEP_BITS) - 1));
        let tail = (self.last.0 & RANDOM_MASK) + step;
        if tail <= RANDOM_MASK {
            return Ulid((self.last.0 & !RANDOM_MASK) | tail);
        }
        // The random bits ran over: borrow the next millisecond.
        Ulid::new(self.last.millis().plus(1), self.front, random & (RANDOM_MASK >> 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // proves: INB-01
    proptest! {
        #[test]
        fn text_and_bytes_round_trip(value: u128) {
            let id = Ulid(value);
            prop_assert_eq!(Ulid::parse(&id.to_string()), Some(id));
            prop_assert_eq!(Ulid::from_bytes(id.bytes()), id);
            prop_assert_eq!(id.to_string().len(), Ulid::TEXT_LENGTH);
        }

        #[test]
        fn text_order_is_value_order(a: u128, b: u128) {
            prop_assert_eq!(Ulid(a).to_string().cmp(&Ulid(b).to_string()), a.cmp(&b));
        }

        // proves: INB-02
        #[test]
        fn ids_of_a_front_ascend_under_any_clock(
            clock in proptest::collection::vec((0u64..2_000, any::<u128>()), 1..200),
        ) {
            let mut mint = Mint { front: FrontNo(3), last: Ulid(0) };
            let mut last = Ulid(0);
            for (now, random) in clock {
                let id = mint.next(Millis(now + 1), random);
                prop_assert!(id > last);
                prop_assert_eq!(id.front(), FrontNo(3));
                last = id;
            }
        }
    }

    #[test]
    fn overflowing_random_bits_borrow_a_millisecond() {
        let last = Ulid::new(Millis(5), FrontNo(1), RANDOM_MASK);
        let mut mint = Mint { front: FrontNo(1), last };
        let next = mint.next(Millis(5), u128::MAX);
        assert!(next > last);
        assert_eq!(next.millis(), Millis(6));
        assert_eq!(next.front(), FrontNo(1));
    }

    #[test]
    fn malformed_texts_are_refused() {
        for text in [
            "",
            "0",
            "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "0000000000000000000000000I",
            "0000000000000000000000000é",
        ] {
            assert_eq!(Ulid::parse(text), None, "{text}");
        }
    }
}
