//! Accounts with providers: made, changed, deleted.
//!
//! Comes from: the providers API, with settings that the provider's own code has read. Decides: whether the caller knows what
//! it replaces, which credentials stay, and whether there is room for another account. Goes to: `control`, from where the ways
//! out are made anew.
//!
//! What must never happen: an account without credentials, or one whose kind changes under its name.

use super::template::Expect;
use crate::Planned;
use crate::records::difference::Difference;
use crate::records::provider::ProviderPut;
use crate::records::root::{RootRecord, Tenant};
use crate::tables::provider::{self, FirstAccountRow, ProviderRow};
use crate::tables::{get, put, root};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::PROVIDERS_PER_TENANT_MAX;

#[derive(Clone, Debug)]
pub struct Ask {
    pub expect: Expect,
    pub change: Change,
}

#[derive(Clone, Debug)]
pub enum Change {
    Put(ProviderPut),
    Delete { tenant: TenantId, id: String },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Provider {
        row: Box<ProviderRow>,
        created: bool,
    },
    Gone,
    UnknownTenant,
    Unknown,
    /// Another kind of provider has this name.
    OtherKind,
    /// Something else is there than its author saw; `None` if there is nothing.
    Conflict {
        current: Option<u32>,
    },
    TooMany,
}

type Plan = Planned<RootRecord, Answer>;

pub(super) fn plan(view: &View<'_>, ask: Ask, now: Millis) -> Result<Plan, TablesError> {
    let Ask { expect, change } = ask;
    match change {
        Change::Put(put) => plan_put(view, expect, put, now),
        Change::Delete { tenant, id } => Ok(match provider::find(view, tenant, &id)? {
            None => Planned::nothing(Answer::Unknown),
            Some(row) if !expect.holds(Some(row.version)) => conflict(Some(row.version)),
            Some(row) => {
                let difference = Difference::of(Some(&row), None);
                Planned::one(RootRecord::ProviderGone { tenant, id, difference }, Answer::Gone)
            }
        }),
    }
}

fn plan_put(view: &View<'_>, expect: Expect, put: ProviderPut, now: Millis) -> Result<Plan, TablesError> {
    let tenant = put.tenant;
    if get::<Tenant>(view, &root::tenant_key(tenant))?.is_none() {
        return Ok(Planned::nothing(Answer::UnknownTenant));
    }
    let known = provider::find(view, tenant, &put.id)?;
    let current = known.as_ref().map(|row| row.version);
    if !expect.holds(current) {
        return Ok(conflict(current));
    }
    match &known {
        Some(row) if row.put.kind != put.kind => return Ok(Planned::nothing(Answer::OtherKind)),
        Some(_) => {}
        None => {
            let own = provider::of_tenant(view, tenant)?.len();
            if own >= PROVIDERS_PER_TENANT_MAX {
                return Ok(Planned::nothing(Answer::TooMany));
            }
        }
    }
    let row = row_after(known.as_ref(), &put, now);
    let difference = Difference::of(known.as_ref(), Some(&row));
    let answer = Answer::Provider { row: Box::new(row), created: known.is_none() };
    Ok(Planned::one(RootRecord::ProviderPut(Box::new(put), difference), answer))
}

fn conflict(current: Option<u32>) -> Plan {
    Planned::nothing(Answer::Conflict { current })
}

fn row_after(known: Option<&ProviderRow>, put: &ProviderPut, at: Millis) -> ProviderRow {
    ProviderRow {
        put: put.clone(),
        version: known.map_or(1, |row| row.version.saturating_add(1)),
        created: known.map_or(at, |row| row.created),
        updated: at,
    }
}

pub(super) fn apply_put(view: &mut View<'_>, record: &ProviderPut, at: Millis) -> Result<(), TablesError> {
    let known = provider::find(view, record.tenant, &record.id)?;
    let row = row_after(known.as_ref(), record, at);
    put(view, provider::key(record.tenant, &record.id), &row);
    remember(view, record.tenant, at)
}

pub(super) fn apply_gone(
    view: &mut View<'_>,
    tenant: TenantId,
    id: &str,
    at: Millis,
) -> Result<(), TablesError> {
    view.delete(provider::key(tenant, id));
    remember(view, tenant, at)
}

/// That the tenant has had an account.
fn remember(view: &mut View<'_>, tenant: TenantId, at: Millis) -> Result<(), TablesError> {
    let key = provider::first_account_key(tenant);
    if get::<FirstAccountRow>(view, &key)?.is_none() {
        put(view, key, &FirstAccountRow { since: at });
    }
    Ok(())
}
