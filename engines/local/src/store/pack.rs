//! Numbers in as few bytes as they need (LEB128), and a cursor that takes bytes apart without panicking.

/// Appends a number: seven bits per byte, low bits first, the high bit says that more follow.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// What is left to read. `None` means that the bytes end early or say something impossible.
#[derive(Clone, Copy)]
pub struct Cut<'a>(pub &'a [u8]);

impl<'a> Cut<'a> {
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for (index, byte) in self.0.iter().enumerate().take(10) {
            if index == 9 && *byte > 1 {
                return None;
            }
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Some(number);
            }
        }
        None
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_round_trip(numbers in proptest::collection::vec(any::<u64>(), 0..20)) {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| put_number(&mut bytes, *number));
            let mut cut = Cut(&bytes);
            for number in numbers {
                prop_assert_eq!(cut.number(), Some(number));
            }
            prop_assert!(cut.is_empty());
        }

        #[test]
        fn any_bytes_are_taken_apart_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
            let mut cut = Cut(&bytes);
            while cut.number().is_some() {}
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused() {
        assert_eq!(Cut(&[0xff; 10]).number(), None);
        assert_eq!(Cut(&[0x80, 0x80]).number(), None);
        let mut largest = Vec::new();
        put_number(&mut largest, u64::MAX);
        assert_eq!(Cut(&largest).number(), Some(u64::MAX));
    }
}
