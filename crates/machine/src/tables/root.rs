//! Layout, tenants, their quotas and API keys.
//!
//! ```text
//! 1                 -> shards, fronts, directories
//! 2 tenant          -> slug, name, tierUp, retentionDays, created, rate
//! 3 tenant id: text -> hash, scopes, created, expires, rate, revoked: option millis
//! 15 tenant         -> tenant, quota (see `records::root`)
//! 31 tenant         -> tenant: option (as in 2), begun: millis, ended: option millis, rows: varint
//! ```

use super::{Family, Key, Row, collect, get};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::root::{ApiKey, Layout, Tenant, TenantQuota};
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Millis, TenantId};

#[must_use]
pub fn layout_key() -> Vec<u8> {
    Key::of_partition(Family::Layout).finish()
}

#[must_use]
pub fn tenant_key(tenant: TenantId) -> Vec<u8> {
    Key::new(Family::Tenant, tenant).finish()
}

#[must_use]
pub fn quota_key(tenant: TenantId) -> Vec<u8> {
    Key::new(Family::Quota, tenant).finish()
}

#[must_use]
pub fn end_key(tenant: TenantId) -> Vec<u8> {
    Key::new(Family::TenantEnd, tenant).finish()
}

#[must_use]
pub fn api_key(tenant: TenantId, id: &str) -> Vec<u8> {
    Key::new(Family::ApiKey, tenant).bytes(id.as_bytes()).finish()
}

/// A key with what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiKeyRow {
    pub key: ApiKey,
    pub revoked: Option<Millis>,
}

/// A tenant that is deleted. The row stays for good, so that no later tenant gets its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantEnd {
    /// As it was; `None` once nothing else is left of it.
    pub tenant: Option<Tenant>,
    pub begun: Millis,
    pub ended: Option<Millis>,
    /// Rows that were removed, in all partitions.
    pub rows: u64,
}

pub fn end_of(tables: &dyn Tables, tenant: TenantId) -> Result<Option<TenantEnd>, TablesError> {
    get(tables, &end_key(tenant))
}

/// Tenants that are being deleted.
pub fn ending(tables: &dyn Tables) -> Result<Vec<TenantEnd>, TablesError> {
    let all: Vec<TenantEnd> = all(tables, Family::TenantEnd)?;
    Ok(all.into_iter().filter(|end| end.tenant.is_some()).collect())
}

/// The largest number that a tenant ever had.
pub fn last_id(tables: &dyn Tables) -> Result<TenantId, TablesError> {
    let mut last = TenantId(0);
    for family in [Family::Tenant, Family::TenantEnd] {
        let prefix = Key::of_partition(family);
        let (from, to) = (prefix.clone().finish(), prefix.end());
        let of_key = |key: &[u8]| key.get(1..5)?.try_into().ok().map(u32::from_be_bytes).map(TenantId);
        let newest = collect(tables, KeyRange { from: &from, to: &to }, Order::Descending, 1, |key, _| {
            of_key(key).ok_or_else(|| Malformed::Short.in_row(Tenant::NAME))
        })?;
        last = newest.into_iter().fold(last, TenantId::max);
    }
    Ok(last)
}

pub fn layout(tables: &dyn Tables) -> Result<Option<Layout>, TablesError> {
    get(tables, &layout_key())
}

pub fn tenants(tables: &dyn Tables) -> Result<Vec<Tenant>, TablesError> {
    all(tables, Family::Tenant)
}

/// Of those tenants that have one of their own.
pub fn quotas(tables: &dyn Tables) -> Result<Vec<TenantQuota>, TablesError> {
    all(tables, Family::Quota)
}

pub fn api_keys(tables: &dyn Tables) -> Result<Vec<ApiKeyRow>, TablesError> {
    all(tables, Family::ApiKey)
}

/// Keys of one tenant, revoked ones too.
pub fn api_keys_of(tables: &dyn Tables, tenant: TenantId) -> Result<Vec<ApiKeyRow>, TablesError> {
    of_prefix(tables, &Key::new(Family::ApiKey, tenant))
}

fn all<R: Row>(tables: &dyn Tables, family: Family) -> Result<Vec<R>, TablesError> {
    of_prefix(tables, &Key::of_partition(family))
}

/// Rows whose keys begin so.
pub(super) fn of_prefix<R: Row>(tables: &dyn Tables, prefix: &Key) -> Result<Vec<R>, TablesError> {
    let (from, to) = (prefix.clone().finish(), prefix.end());
    let range = KeyRange { from: &from, to: &to };
    collect(tables, range, Order::Ascending, usize::MAX, |_, value| R::decode(value))
}

impl Row for Layout {
    const NAME: &'static str = "layout";

    fn write(&self, w: &mut Writer) {
        Self::write(self, w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::read(r)
    }
}

impl Row for Tenant {
    const NAME: &'static str = "tenant";

    fn write(&self, w: &mut Writer) {
        Self::write(self, w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::read(r)
    }
}

impl Row for TenantEnd {
    const NAME: &'static str = "deleted tenant";

    fn write(&self, w: &mut Writer) {
        w.option(self.tenant.as_ref(), |w, tenant| tenant.write(w)).millis(self.begun);
        w.option(self.ended, |w, at| {
            w.millis(at);
        });
        w.varint(self.rows);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let tenant = r.option(Tenant::read)?;
        Ok(Self { tenant, begun: r.millis()?, ended: r.option(Reader::millis)?, rows: r.varint()? })
    }
}

impl Row for TenantQuota {
    const NAME: &'static str = "quota";

    fn write(&self, w: &mut Writer) {
        Self::write(self, w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::read(r)
    }
}

impl Row for ApiKeyRow {
    const NAME: &'static str = "api key";

    fn write(&self, w: &mut Writer) {
        self.key.write(w);
        w.option(self.revoked, |w, at| {
            w.millis(at);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { key: ApiKey::read(r)?, revoked: r.option(Reader::millis)? })
    }
}
