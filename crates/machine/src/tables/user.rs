//! Users of a shard. The external id is sealed; it is found through its keyed hash.
//!
//! ```text
//! 34 tenant lookup: 16 -> user
//! 35 tenant user: u64  -> lookup: 16, created, updated, id: sealed, attributes: sealed, locale: text,
//!                           zone: text
//! ```

use super::{Family, Key, Row, get};
use crate::codec::{Malformed, Reader, Writer};
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{Lookup, Millis, TenantId, UserNo};

#[must_use]
pub fn lookup_key(tenant: TenantId, lookup: Lookup) -> Vec<u8> {
    Key::new(Family::UserByLookup, tenant).bytes(&lookup.0).finish()
}

#[must_use]
pub fn key(tenant: TenantId, user: UserNo) -> Vec<u8> {
    Key::new(Family::User, tenant).u64(user.0).finish()
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserRow {
    pub lookup: Lookup,
    pub created: Millis,
    pub updated: Millis,
    /// Sealed under the user's own key, like everything about the user.
    pub id: Sealed,
    pub attributes: Sealed,
    pub locale: String,
    pub zone: String,
}

/// What a lookup points at.
pub struct UserRef(pub UserNo);

pub fn number(tables: &dyn Tables, tenant: TenantId, lookup: Lookup) -> Result<Option<UserNo>, TablesError> {
    Ok(get::<UserRef>(tables, &lookup_key(tenant, lookup))?.map(|found| found.0))
}

pub fn find(tables: &dyn Tables, tenant: TenantId, user: UserNo) -> Result<Option<UserRow>, TablesError> {
    get(tables, &key(tenant, user))
}

impl Row for UserRef {
    const NAME: &'static str = "user by lookup";

    fn write(&self, w: &mut Writer) {
        w.user(self.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.user().map(Self)
    }
}

impl Row for UserRow {
    const NAME: &'static str = "user";

    fn write(&self, w: &mut Writer) {
        w.fixed(&self.lookup.0).millis(self.created).millis(self.updated);
        w.sealed(&self.id).sealed(&self.attributes).text(&self.locale).text(&self.zone);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            lookup: r.lookup()?,
            created: r.millis()?,
            updated: r.millis()?,
            id: r.sealed()?,
            attributes: r.sealed()?,
            locale: r.text()?,
            zone: r.text()?,
        })
    }
}
