//! Accounts with providers, in the root.
//!
//! ```text
//! 13 tenant id: text -> the account as it was put, version: varint, created: millis, updated: millis
//! ```

use super::root::of_prefix;
use super::{Family, Key, Row, get};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::provider::ProviderPut;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{Millis, TenantId};

#[must_use]
pub fn key(tenant: TenantId, id: &str) -> Vec<u8> {
    Key::new(Family::Provider, tenant).bytes(id.as_bytes()).finish()
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProviderRow {
    pub put: ProviderPut,
    pub version: u32,
    pub created: Millis,
    pub updated: Millis,
}

pub fn find(tables: &dyn Tables, tenant: TenantId, id: &str) -> Result<Option<ProviderRow>, TablesError> {
    get(tables, &key(tenant, id))
}

/// Of all tenants.
pub fn all(tables: &dyn Tables) -> Result<Vec<ProviderRow>, TablesError> {
    of_prefix(tables, &Key::of_partition(Family::Provider))
}

pub fn of_tenant(tables: &dyn Tables, tenant: TenantId) -> Result<Vec<ProviderRow>, TablesError> {
    of_prefix(tables, &Key::new(Family::Provider, tenant))
}

impl Row for ProviderRow {
    const NAME: &'static str = "provider";

    fn write(&self, w: &mut Writer) {
        self.put.write(w);
        w.varint(self.version.into()).millis(self.created).millis(self.updated);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { put: ProviderPut::read(r)?, version: r.u32()?, created: r.millis()?, updated: r.millis()? })
    }
}
