//! What a tenant has in a partition, kept with every change and never counted.
//!
//! ```text
//! 88 tenant -> users: varint, devices: varint, schedules: varint, bytes: varint
//! ```
//! How many wait for their time is in `scheduled`. `bytes` are those of users, their addresses, events, what single
//! recipients are told, held audiences, schedules and templates, with a fixed weight for each row. Not in it: follows, inboxes,
//! ledgers, indexes and the journal, which grow with what is counted here.
//!
//! Invariant: what a row adds when it comes is what it gives back when it goes, so weights depend on parts of it that do
//! not change in between. Rows that an earlier version wrote were not counted: taking them away stops at zero.

use super::event::EventRow;
use super::{Family, Key, Row, changed_rows, collect, get, put, scheduled};
use crate::codec::{Malformed, Reader, Writer};
use crate::view::View;
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::{Changes, KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::TenantId;
use fantail_rules::quota::{Amounts, Resource};

/// What a row weighs besides its content: keys, hashes, times, flags.
pub const ROW_BYTES: u64 = 128;

/// What is counted here. Others are counted elsewhere.
const COUNTED: [Resource; 4] =
    [Resource::Users, Resource::Devices, Resource::Schedules, Resource::StoredBytes];

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage(pub Amounts);

#[must_use]
pub fn key(tenant: TenantId) -> Vec<u8> {
    Key::new(Family::Usage, tenant).finish()
}

pub fn find(tables: &dyn Tables, tenant: TenantId) -> Result<Usage, TablesError> {
    Ok(get(tables, &key(tenant))?.unwrap_or_default())
}

/// What a record adds and what it takes away.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Balance {
    added: Amounts,
    removed: Amounts,
}

impl Balance {
    /// So many more of something, of so many bytes together.
    pub(crate) fn add(&mut self, resource: Option<Resource>, bytes: u64) {
        self.added = self.added.plus(&one(resource, bytes));
    }

    pub(crate) fn remove(&mut self, resource: Option<Resource>, bytes: u64) {
        self.removed = self.removed.plus(&one(resource, bytes));
    }

    pub(crate) fn write(&self, view: &mut View<'_>, tenant: TenantId) -> Result<(), TablesError> {
        if self.added == self.removed {
            return Ok(());
        }
        let known = find(view, tenant)?;
        let now = Usage(known.0.plus(&self.added).minus(&self.removed));
        if now == Usage::default() {
            view.delete(key(tenant));
        } else {
            put(view, key(tenant), &now);
        }
        Ok(())
    }
}

fn one(resource: Option<Resource>, bytes: u64) -> Amounts {
    let amounts = Amounts::default().with(Resource::StoredBytes, bytes);
    resource.map_or(amounts, |resource| amounts.with(resource, 1))
}

/// What sealed texts weigh in one row.
#[must_use]
pub fn weight(texts: &[&Sealed]) -> u64 {
    ROW_BYTES + texts.iter().map(|text| text.bytes.len() as u64).sum::<u64>()
}

/// What an endpoint weighs: its two rows have these texts.
#[must_use]
pub fn weight_of_endpoint(name: Option<&Sealed>, address: &Sealed, meta: Option<&Sealed>) -> u64 {
    let texts: Vec<&Sealed> = [name, Some(address), meta].into_iter().flatten().collect();
    weight(&texts)
}

/// What an event weighs without what single recipients are told.
#[must_use]
pub fn weight_of_event(row: &EventRow) -> u64 {
    weight(&[&row.content]) + row.actor.as_ref().map_or(0, |actor| actor.bytes.len() as u64)
}

/// What a row weighs that is never written again while it is there.
#[must_use]
pub fn weight_of_row(value: &[u8]) -> u64 {
    ROW_BYTES + value.len() as u64
}

/// How much of something a tenant has in a partition now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UsageNow {
    Kept(Usage),
    Waiting(u64),
}

/// Reads a row of a family; none is nothing.
type ReadRow = fn(Option<&[u8]>) -> Result<UsageNow, TablesError>;

const FAMILIES: [(Family, ReadRow); 2] = [(Family::Usage, kept), (Family::ScheduledCount, waiting)];

/// What changed, of which tenants.
pub fn among(changes: &Changes) -> Result<Vec<(TenantId, UsageNow)>, TablesError> {
    let mut found = Vec::new();
    for (family, read) in FAMILIES {
        for (key, value) in changed_rows(changes, family) {
            found.push((tenant_of(key)?, read(value.as_deref())?));
        }
    }
    Ok(found)
}

/// What all tenants have.
pub fn all(tables: &dyn Tables) -> Result<Vec<(TenantId, UsageNow)>, TablesError> {
    let mut found = Vec::new();
    for (family, read) in FAMILIES {
        let prefix = Key::of_partition(family);
        let (from, to) = (prefix.clone().finish(), prefix.end());
        let range = KeyRange { from: &from, to: &to };
        found.extend(collect(tables, range, Order::Ascending, usize::MAX, |key, value| {
            Ok((tenant_of(key)?, read(Some(value))?))
        })?);
    }
    Ok(found)
}

fn kept(row: Option<&[u8]>) -> Result<UsageNow, TablesError> {
    Ok(UsageNow::Kept(row.map(Usage::decode).transpose()?.unwrap_or_default()))
}

fn waiting(row: Option<&[u8]>) -> Result<UsageNow, TablesError> {
    let count = row.map(scheduled::Count::decode).transpose()?;
    Ok(UsageNow::Waiting(count.map_or(0, |count| count.0)))
}

fn tenant_of(key: &[u8]) -> Result<TenantId, TablesError> {
    let tenant = key.get(1..5).and_then(|tenant| tenant.try_into().ok());
    let tenant = tenant.ok_or_else(|| Malformed::Value("usage key").in_row(Usage::NAME))?;
    Ok(TenantId(u32::from_be_bytes(tenant)))
}

impl Row for Usage {
    const NAME: &'static str = "usage";

    fn write(&self, w: &mut Writer) {
        for resource in COUNTED {
            w.varint(self.0.of(resource));
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut amounts = Amounts::default();
        for resource in COUNTED {
            amounts = amounts.with(resource, r.varint()?);
        }
        Ok(Self(amounts))
    }
}
