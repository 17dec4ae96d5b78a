//! Bytes for records and rows: varints, fixed bytes, length-prefixed bytes. No self-description, no allocation
//! beyond the value, every length checked before it is trusted.
//!
//! What must never happen: a decoder that panics, loops or allocates more than it was given bytes.

use fantail_ports::keyring::Sealed;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{
    AddressHash, Arrival, ClaimNo, DeviceHash, DeviceNo, KeyNo, ListId, Lookup, Millis, Position, ShardNo,
    TenantId, UserNo,
};
use fantail_rules::interval::{Interval, Intervals};
use fantail_rules::ulid::Ulid;
use thiserror::Error;

/// Bytes that no writer of ours made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Malformed {
    #[error("bytes end too early")]
    Short,
    #[error("bytes are left over")]
    Long,
    #[error("unknown tag {0}")]
    Tag(u8),
    #[error("unknown version {0}")]
    Version(u8),
    #[error("value out of range: {0}")]
    Value(&'static str),
}

impl Malformed {
    /// The error of a table row that does not decode.
    #[must_use]
    pub fn in_row(self, family: &'static str) -> TablesError {
        TablesError::Damaged { family, reason: self.to_string() }
    }
}

#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    /// Seven bits a byte, lowest first, the high bit says that more follow.
    pub fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.0.push((value as u8 & 0x7f) | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    /// Small magnitudes stay small in either sign.
    pub fn signed(&mut self, value: i64) -> &mut Self {
        self.varint(((value << 1) ^ (value >> 63)) as u64)
    }

    pub fn fixed(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.varint(bytes.len() as u64).fixed(bytes)
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    pub fn flag(&mut self, flag: bool) -> &mut Self {
        self.u8(u8::from(flag))
    }

    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) -> &mut Self {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
        self
    }

    pub fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.varint(items.len() as u64);
        items.for_each(|item| write(self, item));
        self
    }

    pub fn tenant(&mut self, tenant: TenantId) -> &mut Self {
        self.varint(u64::from(tenant.0))
    }

    pub fn user(&mut self, user: UserNo) -> &mut Self {
        self.varint(user.0)
    }

    pub fn device(&mut self, device: DeviceNo) -> &mut Self {
        self.varint(device.0.into())
    }

    pub fn claim(&mut self, claim: ClaimNo) -> &mut Self {
        self.varint(claim.0.into())
    }

    pub fn list_id(&mut self, list: ListId) -> &mut Self {
        self.fixed(&list.0)
    }

    pub fn arrival(&mut self, arrival: Arrival) -> &mut Self {
        self.varint(arrival.0)
    }

    pub fn millis(&mut self, at: Millis) -> &mut Self {
        self.varint(at.0)
    }

    pub fn position(&mut self, position: Position) -> &mut Self {
        self.varint(position.0)
    }

    pub fn ulid(&mut self, id: Ulid) -> &mut Self {
        self.fixed(&id.bytes())
    }

    pub fn sealed(&mut self, sealed: &Sealed) -> &mut Self {
        self.varint(sealed.key.0).fixed(&sealed.nonce).bytes(&sealed.bytes)
    }

    /// Ascending numbers as differences.
    pub fn ascending(&mut self, numbers: impl ExactSizeIterator<Item = u64>) -> &mut Self {
        let mut last = 0;
        self.list(numbers, |w, number| {
            w.varint(number.checked_sub(last).expect("callers sort before they write"));
            last = number;
        })
    }

    pub fn intervals(&mut self, intervals: &Intervals) -> &mut Self {
        self.list(intervals.as_slice().iter(), |w, one| {
            w.arrival(one.from).option(one.until, |w, until| {
                w.arrival(until);
            });
        })
    }
}

pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Nothing may be left over.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Long) }
    }

    pub fn fixed(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(head)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.fixed(N)?.try_into().map_err(|_| Malformed::Short)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.fixed(1)?[0])
    }

    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed::Value("varint"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed::Value("varint"))
    }

    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| Malformed::Value("u32"))
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        u16::try_from(self.varint()?).map_err(|_| Malformed::Value("u16"))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.varint()?).map_err(|_| Malformed::Short)?;
        self.fixed(length)
    }

    pub fn text(&mut self) -> Result<String, Malformed> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::Value("text"))?;
        Ok(text.to_owned())
    }

    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Value("flag")),
        }
    }

    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    /// A list whose items take at least one byte each, so a forged length cannot ask for memory.
    pub fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = usize::try_from(self.varint()?).map_err(|_| Malformed::Short)?;
        if count > self.0.len() {
            return Err(Malformed::Short);
        }
        (0..count).map(|_| read(self)).collect()
    }

    pub fn tenant(&mut self) -> Result<TenantId, Malformed> {
        self.u32().map(TenantId)
    }

    pub fn shard(&mut self) -> Result<ShardNo, Malformed> {
        self.u16().map(ShardNo)
    }

    pub fn user(&mut self) -> Result<UserNo, Malformed> {
        self.varint().map(UserNo)
    }

    pub fn device(&mut self) -> Result<DeviceNo, Malformed> {
        let device = DeviceNo(self.u16()?);
        if device <= DeviceNo::MAX { Ok(device) } else { Err(Malformed::Value("device")) }
    }

    pub fn claim(&mut self) -> Result<ClaimNo, Malformed> {
        self.u32().map(ClaimNo)
    }

    pub fn address(&mut self) -> Result<AddressHash, Malformed> {
        self.array().map(AddressHash)
    }

    pub fn device_hash(&mut self) -> Result<DeviceHash, Malformed> {
        self.array().map(DeviceHash)
    }

    pub fn list_id(&mut self) -> Result<ListId, Malformed> {
        self.array().map(ListId)
    }

    pub fn lookup(&mut self) -> Result<Lookup, Malformed> {
        self.array().map(Lookup)
    }

    pub fn arrival(&mut self) -> Result<Arrival, Malformed> {
        self.varint().map(Arrival)
    }

    pub fn millis(&mut self) -> Result<Millis, Malformed> {
        self.varint().map(Millis)
    }

    pub fn position(&mut self) -> Result<Position, Malformed> {
        self.varint().map(Position)
    }

    pub fn ulid(&mut self) -> Result<Ulid, Malformed> {
        self.array().map(Ulid::from_bytes)
    }

    pub fn sealed(&mut self) -> Result<Sealed, Malformed> {
        let key = KeyNo(self.varint()?);
        Ok(Sealed { key, nonce: self.array()?, bytes: self.bytes()?.to_vec() })
    }

    pub fn skip_sealed(&mut self) -> Result<(), Malformed> {
        let (_key, _nonce, _bytes) = (self.varint()?, self.array::<12>()?, self.bytes()?);
        Ok(())
    }

    pub fn ascending(&mut self) -> Result<Vec<u64>, Malformed> {
        let mut last = 0u64;
        self.list(|r| {
            last = last.checked_add(r.varint()?).ok_or(Malformed::Value("ascending"))?;
            Ok(last)
        })
    }

    pub fn intervals(&mut self) -> Result<Intervals, Malformed> {
        let interval = |r: &mut Self| Ok(Interval { from: r.arrival()?, until: r.option(Self::arrival)? });
        let found = if self.0.first() == Some(&1) {
            self.u8()?;
            Intervals::from_stored(&[interval(self)?])
        } else {
            Intervals::from_stored(&self.list(interval)?)
        };
        found.ok_or(Malformed::Value("intervals"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_round_trip(value: u64, signed: i64, mut numbers: Vec<u64>) {
            numbers.sort_unstable();
            let mut w = Writer::default();
            w.varint(value).signed(signed).ascending(numbers.iter().copied());
            let bytes = w.finish();
            let mut r = Reader::new(&bytes);
            prop_assert_eq!(r.varint(), Ok(value));
            prop_assert_eq!(r.signed(), Ok(signed));
            prop_assert_eq!(r.ascending(), Ok(numbers));
            prop_assert_eq!(r.end(), Ok(()));
        }

        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let results = [
                Reader::new(&bytes).varint().is_ok(),
                Reader::new(&bytes).ascending().is_ok(),
                Reader::new(&bytes).intervals().is_ok(),
                Reader::new(&bytes).sealed().is_ok(),
                Reader::new(&bytes).text().is_ok(),
            ];
            prop_assert!(!bytes.is_empty() || results.iter().all(|whole| !whole), "nothing is in no bytes");
        }
    }
}
