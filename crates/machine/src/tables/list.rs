//! What a shard knows of a list besides its members: the sealed name and how many of its users are on it.
//!
//! ```text
//! 38 tenant list: 16 -> members: varint, reported: varint, name: sealed
//! ```

use super::{Family, Key, Row, get};
use crate::codec::{Malformed, Reader, Writer};
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{ListId, TenantId};

#[must_use]
pub fn key(tenant: TenantId, list: ListId) -> Vec<u8> {
    Key::new(Family::List, tenant).bytes(&list.0).finish()
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListRow {
    pub members: u64,
    /// The size the fronts have.
    pub reported: u64,
    pub name: Sealed,
}

pub fn find(tables: &dyn Tables, tenant: TenantId, list: ListId) -> Result<Option<ListRow>, TablesError> {
    get(tables, &key(tenant, list))
}

impl Row for ListRow {
    const NAME: &'static str = "list";

    fn write(&self, w: &mut Writer) {
        w.varint(self.members).varint(self.reported).sealed(&self.name);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { members: r.varint()?, reported: r.varint()?, name: r.sealed()? })
    }
}
