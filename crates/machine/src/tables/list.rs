//! What a shard knows of a list besides its members: the sealed name and how many of its users are on it.
//!
//! ```text
//! 38 tenant list: 16 -> members: varint, reported: varint, name: sealed
//! ```

use super::look::{FoundRows, LookMax, look};
use super::{Family, Key, Row, get};
use crate::codec::{Malformed, Reader, Writer};
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
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

/// Topics behind a list, ascending, and the list that was looked at last if there are more. Lists of actors lie among them and
/// count as rows.
pub fn topics_behind(
    tables: &dyn Tables,
    tenant: TenantId,
    behind: Option<ListId>,
    most: LookMax,
) -> Result<FoundRows<ListId, ListRow>, TablesError> {
    let all = Key::new(Family::List, tenant);
    let from = behind.map_or_else(|| all.clone().finish(), |list| [key(tenant, list), vec![0]].concat());
    let range = KeyRange { from: &from, to: &all.end() };
    let looked = look(tables, range, Order::Ascending, most, |key, row| {
        let list = list_of(key)?;
        if list.is_topic() { Ok(Some((list, ListRow::decode(row)?))) } else { Ok(None) }
    })?;
    Ok((looked.found, looked.cut_at.map(|key| list_of(&key)).transpose()?))
}

fn list_of(key: &[u8]) -> Result<ListId, TablesError> {
    let list = key.get(5..).and_then(|tail| tail.try_into().ok());
    list.map(ListId).ok_or_else(|| Malformed::Short.in_row(ListRow::NAME))
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
