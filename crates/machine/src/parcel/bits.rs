//! Numbers of any width, packed without gaps: lowest bits first.
//!
//! What must never happen: a reader that runs past its bytes, or loops longer than it has bits.

use crate::codec::Malformed;

#[derive(Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that wait for a whole byte, and how many.
    open: u64,
    width: u32,
}

impl BitWriter {
    /// At most 56 bits at a time.
    pub fn put(&mut self, value: u64, width: u32) {
        debug_assert!(width <= 56 && (width == 64 || value >> width == 0));
        self.open |= value << self.width;
        self.width += width;
        while self.width >= 8 {
            self.bytes.push(self.open as u8);
            self.open >>= 8;
            self.width -= 8;
        }
    }

    /// So many ones and a zero.
    pub fn put_unary(&mut self, mut count: u64) {
        while count >= 32 {
            self.put((1 << 32) - 1, 32);
            count -= 32;
        }
        self.put((1 << count) - 1, count as u32 + 1);
    }

    pub fn finish(mut self) -> Vec<u8> {
        if self.width > 0 {
            self.bytes.push(self.open as u8);
        }
        self.bytes
    }
}

pub struct BitReader<'a> {
    bytes: &'a [u8],
    open: u64,
    width: u32,
}

impl<'a> BitReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, open: 0, width: 0 }
    }

    pub fn take(&mut self, width: u32) -> Result<u64, Malformed> {
        while self.width < width {
            let (first, rest) = self.bytes.split_first().ok_or(Malformed::Short)?;
            self.bytes = rest;
            self.open |= u64::from(*first) << self.width;
            self.width += 8;
        }
        let value = self.open & ((1 << width) - 1);
        self.open >>= width;
        self.width -= width;
        Ok(value)
    }

    pub fn take_unary(&mut self) -> Result<u64, Malformed> {
        let mut count = 0;
        while self.take(1)? == 1 {
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_is_taken(items in proptest::collection::vec((any::<u64>(), 0u32..=56, 0u64..100), 0..50)) {
            let mut writer = BitWriter::default();
            for (value, width, ones) in &items {
                writer.put(value & ((1 << width) - 1), *width);
                writer.put_unary(*ones);
            }
            let bytes = writer.finish();
            let mut reader = BitReader::new(&bytes);
            for (value, width, ones) in &items {
                prop_assert_eq!(reader.take(*width), Ok(value & ((1 << width) - 1)));
                prop_assert_eq!(reader.take_unary(), Ok(*ones));
            }
        }

        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = BitReader::new(&bytes);
            while reader.take_unary().is_ok() {}
        }
    }
}
