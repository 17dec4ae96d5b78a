//! Categories as gates compare them: a number that follows from the name, so that a delivery carries eight bytes of it.
//!
//! What must never happen: another number for the same name. It is stored with every ledger.

/// Frozen: FNV-1a of the name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct CategoryId(pub u64);

impl CategoryId {
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        }))
    }

    /// One of sixteen bits, for a first look.
    #[must_use]
    pub fn bit(self) -> u16 {
        1 << (self.0 >> 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_names_are_frozen() {
        for (name, number) in [("", 0xCBF2_9CE4_8422_2325), ("a", 0xAF63_DC4C_8601_EC8C)] {
            assert_eq!(CategoryId::of(name), CategoryId(number), "{name}");
        }
        assert_eq!(CategoryId(0).bit(), 1);
        assert_eq!(CategoryId(u64::MAX).bit(), 1 << 15);
    }
}
