//! Little-endian numbers, fixed bytes and short texts, written and read one behind the other. Every layout of this crate
//! is made of these, so it is documented by the order of the calls.
//!
//! What must never happen: a reader that panics, or takes a length on trust.

/// Bytes that no writer of ours made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Bytes behind their length.
    pub fn counted(&mut self, bytes: &[u8]) -> &mut Self {
        let length = u16::try_from(bytes.len()).expect("lengths are checked against limits below 2^16 first");
        self.u16(length).bytes(bytes)
    }
}

pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*array)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn counted(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::from(self.u16()?);
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub fn text(&mut self) -> Result<String, Malformed> {
        let text = std::str::from_utf8(self.counted()?).map_err(|_| Malformed)?;
        Ok(text.to_owned())
    }

    pub fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}
