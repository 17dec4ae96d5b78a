//! An entry of the list of erasures: who was erased, for copies that are made from older backups.
//!
//! ```text
//! entry   version: u8 = 1, tenant, sealed under the tenant's own key
//! sealed  lookup: 16, erasure: 16
//! ```
//! The tenant's own key and the pepper that lookups are made with are in every backup that has the tenant, whatever became of the server
//! key since. Invariant: an entry names nobody to a reader without the tenant's keys.

use crate::codec::{Malformed, Reader, Writer};
use fantail_ports::keyring::Sealed;
use fantail_rules::ids::{Lookup, TenantId};
use fantail_rules::ulid::Ulid;

const VERSION: u8 = 1;

/// As it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErasedUserEntry {
    pub tenant: TenantId,
    pub sealed: Sealed,
}

impl ErasedUserEntry {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        w.u8(VERSION).tenant(self.tenant).sealed(&self.sealed);
        w.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        match r.u8()? {
            VERSION => {}
            other => return Err(Malformed::Version(other)),
        }
        let entry = Self { tenant: r.tenant()?, sealed: r.sealed()? };
        r.end()?;
        Ok(entry)
    }
}

/// What is sealed in an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErasedUser {
    pub lookup: Lookup,
    pub erasure: Ulid,
}

impl ErasedUser {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        w.fixed(&self.lookup.0).ulid(self.erasure);
        w.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let user = Self { lookup: r.lookup()?, erasure: r.ulid()? };
        r.end()?;
        Ok(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::KeyNo;

    #[test]
    fn entries_have_the_released_bytes() {
        let user = ErasedUser { lookup: Lookup([7; 16]), erasure: Ulid(0x0102) };
        let plain = [[7; 16], 0x0102_u128.to_be_bytes()].concat();
        assert_eq!(user.encode(), plain);
        assert_eq!(ErasedUser::decode(&plain), Ok(user));
        assert!(ErasedUser::decode(&plain[1..]).is_err());
        let sealed = Sealed { key: KeyNo::TENANT, nonce: [3; 12], bytes: vec![4; 5] };
        let entry = ErasedUserEntry { tenant: TenantId(300), sealed };
        let stored = [&[1, 0xac, 0x02, 0][..], &[3; 12], &[5, 4, 4, 4, 4, 4]].concat();
        assert_eq!(entry.encode(), stored);
        assert_eq!(ErasedUserEntry::decode(&stored), Ok(entry));
        for cut in 0..stored.len() {
            assert!(ErasedUserEntry::decode(&stored[..cut]).is_err(), "cut at {cut}");
        }
        assert_eq!(ErasedUserEntry::decode(&[2]), Err(Malformed::Version(2)));
        let longer = [&stored[..], &[0]].concat();
        assert_eq!(ErasedUserEntry::decode(&longer), Err(Malformed::Long));
    }
}
