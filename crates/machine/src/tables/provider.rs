//! Accounts with providers, in the root.
//!
//! ```text
//! 13 tenant id: text -> the account as it was put, version: varint, created: millis, updated: millis
//! 26 tenant          -> floor: varint
//! 30 tenant          -> since: millis
//! 31 tenant id: text -> tenant, id: text, number: varint, list of (number: varint, until: millis)
//! ```
//! The one before the last stays when the accounts are gone: what such a tenant sends never goes to the sandbox again. Of a tenant whose
//! accounts are older than this row, it is written when the first of them goes.

use super::root::of_prefix;
use super::{Family, Key, Row, collect, get};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::provider::ProviderPut;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Millis, TenantId};

#[must_use]
pub fn key(tenant: TenantId, id: &str) -> Vec<u8> {
    Key::new(Family::Provider, tenant).bytes(id.as_bytes()).finish()
}

#[must_use]
pub fn first_account_key(tenant: TenantId) -> Vec<u8> {
    Key::new(Family::FirstAccount, tenant).finish()
}

#[must_use]
pub fn floor_key(tenant: TenantId) -> Vec<u8> {
    Key::new(Family::AccountFloor, tenant).finish()
}

/// The highest version of all accounts of a tenant that were deleted. New ones begin above it, so that a version that
/// a caller has seen never names other credentials.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccountFloor(pub u32);

/// The tenant has, or once had, an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstAccountRow {
    pub since: Millis,
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

pub fn floor(tables: &dyn Tables, tenant: TenantId) -> Result<AccountFloor, TablesError> {
    Ok(get(tables, &floor_key(tenant))?.unwrap_or_default())
}

#[must_use]
pub fn callback_secret_key(tenant: TenantId, id: &str) -> Vec<u8> {
    Key::new(Family::CallbackSecret, tenant).bytes(id.as_bytes()).finish()
}

/// Which secret is in the address at which reports about an account are believed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallbackSecretRow {
    pub tenant: TenantId,
    pub id: String,
    /// 0, also without a row: the first one of an account.
    pub number: u32,
    /// Those that it replaced, and until when they are believed. Ascending by number.
    pub replaced: Vec<(u32, Millis)>,
}

pub fn callback_secret(
    tables: &dyn Tables,
    tenant: TenantId,
    id: &str,
) -> Result<Option<CallbackSecretRow>, TablesError> {
    get(tables, &callback_secret_key(tenant, id))
}

/// Of all tenants.
pub fn callback_secrets(tables: &dyn Tables) -> Result<Vec<CallbackSecretRow>, TablesError> {
    of_prefix(tables, &Key::of_partition(Family::CallbackSecret))
}

/// Of all tenants.
pub fn all(tables: &dyn Tables) -> Result<Vec<ProviderRow>, TablesError> {
    of_prefix(tables, &Key::of_partition(Family::Provider))
}

/// Tenants that have no accounts any more, and others that once made one.
pub fn tenants_with_history(tables: &dyn Tables) -> Result<Vec<TenantId>, TablesError> {
    let prefix = Key::of_partition(Family::FirstAccount);
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    collect(tables, range, Order::Ascending, usize::MAX, |key, _| {
        let tenant = key.get(1..5).and_then(|tenant| tenant.try_into().ok());
        let tenant = tenant.ok_or_else(|| Malformed::Value("tenant").in_row(FirstAccountRow::NAME))?;
        Ok(TenantId(u32::from_be_bytes(tenant)))
    })
}

pub fn of_tenant(tables: &dyn Tables, tenant: TenantId) -> Result<Vec<ProviderRow>, TablesError> {
    of_prefix(tables, &Key::new(Family::Provider, tenant))
}

impl Row for AccountFloor {
    const NAME: &'static str = "account floor";

    fn write(&self, w: &mut Writer) {
        w.varint(self.0.into());
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.u32().map(Self)
    }
}

impl Row for CallbackSecretRow {
    const NAME: &'static str = "callback secret";

    fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.id).varint(self.number.into());
        w.list(self.replaced.iter(), |w, (number, until)| {
            w.varint((*number).into()).millis(*until);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, id, number) = (r.tenant()?, r.text()?, r.u32()?);
        Ok(Self { tenant, id, number, replaced: r.list(|r| Ok((r.u32()?, r.millis()?)))? })
    }
}

impl Row for FirstAccountRow {
    const NAME: &'static str = "first account";

    fn write(&self, w: &mut Writer) {
        w.millis(self.since);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { since: r.millis()? })
    }
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
