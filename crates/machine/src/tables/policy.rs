//! What a tenant says about its categories, and about users who say nothing.
//!
//! ```text
//! 10 tenant name: text -> version: varint, updated: millis, policy
//! 11 tenant            -> newest: varint, version: varint, updated: millis, defaults
//! ```
//! Versions count all changes of both together, so that none is used twice.

use super::{Family, Key, Row, collect, get};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::policy::{read_defaults, read_policy, write_defaults, write_policy};
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::category::CategoryId;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::policy::{CategoryPolicy, Defaults, Policies, TenantPolicies};
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CategoryRow {
    pub version: u32,
    pub updated: Millis,
    pub policy: CategoryPolicy,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DefaultsRow {
    /// Of the latest change of anything here.
    pub newest: u32,
    /// Of the defaults; 0 if nothing was ever said.
    pub version: u32,
    pub updated: Millis,
    pub defaults: Defaults,
}

#[must_use]
pub fn category_key(tenant: TenantId, name: &str) -> Vec<u8> {
    Key::new(Family::Category, tenant).bytes(name.as_bytes()).finish()
}

#[must_use]
pub fn defaults_key(tenant: TenantId) -> Vec<u8> {
    Key::new(Family::Defaults, tenant).finish()
}

pub fn category(
    tables: &dyn Tables,
    tenant: TenantId,
    name: &str,
) -> Result<Option<CategoryRow>, TablesError> {
    get(tables, &category_key(tenant, name))
}

pub fn defaults(tables: &dyn Tables, tenant: TenantId) -> Result<DefaultsRow, TablesError> {
    Ok(get(tables, &defaults_key(tenant))?.unwrap_or_default())
}

/// Those of a tenant by name: as many as the records before let in.
pub fn categories(tables: &dyn Tables, tenant: TenantId) -> Result<Vec<(String, CategoryRow)>, TablesError> {
    let found = named(tables, &Key::new(Family::Category, tenant))?;
    Ok(found.into_iter().map(|((_, name), row)| (name, row)).collect())
}

/// All of it, as the shards are given it.
pub fn policies(tables: &dyn Tables) -> Result<Policies, TablesError> {
    let mut tenants: BTreeMap<TenantId, TenantPolicies> = BTreeMap::new();
    for ((tenant, name), row) in named(tables, &Key::of_partition(Family::Category))? {
        tenants.entry(tenant).or_default().categories.insert(CategoryId::of(&name), row.policy);
    }
    let prefix = Key::of_partition(Family::Defaults);
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    let said = collect(tables, range, Order::Ascending, usize::MAX, |key, value| {
        Ok((owner(key, DefaultsRow::NAME)?.0, DefaultsRow::decode(value)?.defaults))
    })?;
    for (tenant, defaults) in said {
        tenants.entry(tenant).or_default().defaults = defaults;
    }
    Ok(Policies::new(tenants))
}

type Named = ((TenantId, String), CategoryRow);

fn named(tables: &dyn Tables, prefix: &Key) -> Result<Vec<Named>, TablesError> {
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    collect(tables, range, Order::Ascending, usize::MAX, |key, value| {
        let (tenant, name) = owner(key, CategoryRow::NAME)?;
        let name = str::from_utf8(name).map_err(|_| Malformed::Value("text").in_row(CategoryRow::NAME))?;
        Ok(((tenant, name.to_owned()), CategoryRow::decode(value)?))
    })
}

/// The tenant of a key, and what follows it.
fn owner<'a>(key: &'a [u8], family: &'static str) -> Result<(TenantId, &'a [u8]), TablesError> {
    let found = key.get(1..).and_then(<[u8]>::split_first_chunk);
    let (tenant, rest) = found.ok_or_else(|| Malformed::Short.in_row(family))?;
    Ok((TenantId(u32::from_be_bytes(*tenant)), rest))
}

impl Row for CategoryRow {
    const NAME: &'static str = "category";

    fn write(&self, w: &mut Writer) {
        w.varint(self.version.into()).millis(self.updated);
        write_policy(w, &self.policy);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { version: r.u32()?, updated: r.millis()?, policy: read_policy(r)? })
    }
}

impl Row for DefaultsRow {
    const NAME: &'static str = "defaults";

    fn write(&self, w: &mut Writer) {
        w.varint(self.newest.into()).varint(self.version.into()).millis(self.updated);
        write_defaults(w, &self.defaults);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { newest: r.u32()?, version: r.u32()?, updated: r.millis()?, defaults: read_defaults(r)? })
    }
}
