//! Digests: what one user is told instead of many things, frozen.
//!
//! ```text
//! 78 tenant event: ulid -> arrival, user, collapse: 8, events: list of ulid, content: sealed
//! ```
//! A digest is delivered as an event to a named user is: it has an arrival, work and ledgers, under an id whose front is
//! none. No front and no inbox has it; the things it tells of are there. It stays as long as its ledger.

use super::{Family, Key, Row, get};
use crate::codec::{Malformed, Reader, Writer};
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{Arrival, FrontNo, TenantId, UserNo};
use fantail_rules::ulid::Ulid;

/// The front that ids of digests name. There is none with this number.
pub const NO_FRONT: FrontNo = FrontNo(1_023);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DigestRow {
    pub arrival: Arrival,
    pub user: UserNo,
    /// On a device a later digest of the same key takes the place of an earlier one.
    pub collapse: u64,
    /// What it tells of, in the order of arrival.
    pub events: Vec<Ulid>,
    pub content: Sealed,
}

#[must_use]
pub fn is_digest(event: Ulid) -> bool {
    event.front() == NO_FRONT
}

#[must_use]
pub fn key(tenant: TenantId, digest: Ulid) -> Vec<u8> {
    Key::new(Family::Digest, tenant).bytes(&digest.bytes()).finish()
}

pub fn find(tables: &dyn Tables, tenant: TenantId, digest: Ulid) -> Result<Option<DigestRow>, TablesError> {
    get(tables, &key(tenant, digest))
}

impl Row for DigestRow {
    const NAME: &'static str = "digest";

    fn write(&self, w: &mut Writer) {
        w.arrival(self.arrival).user(self.user).fixed(&self.collapse.to_le_bytes());
        w.list(self.events.iter(), |w, event| {
            w.ulid(*event);
        });
        w.sealed(&self.content);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            arrival: r.arrival()?,
            user: r.user()?,
            collapse: u64::from_le_bytes(r.array()?),
            events: r.list(Reader::ulid)?,
            content: r.sealed()?,
        })
    }
}
