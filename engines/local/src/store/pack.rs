//! A cursor that takes the bytes of a row apart without panicking.

use crate::inbox::numbers;

pub use crate::inbox::numbers::put as put_number;

/// What is left to read. `None` means that the bytes end early or say something impossible.
#[derive(Clone, Copy)]
pub struct Cut<'a>(pub &'a [u8]);

impl<'a> Cut<'a> {
    pub fn number(&mut self) -> Option<u64> {
        numbers::take(&mut self.0)
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
