//! Accounts with providers: made, changed, deleted.
//!
//! Comes from: the providers API, with settings that the provider's own code has read. Decides: whether the caller knows what
//! it replaces, which credentials stay, and whether there is room for another account. Goes to: `control`, from where the ways
//! out are made anew.
//!
//! What must never happen: an account without credentials, one whose kind changes under its name, or a version that names two
//! different accounts.

use super::template::Expect;
use crate::Planned;
use crate::records::difference::Difference;
use crate::records::provider::{CallbackRotated, ProviderPut};
use crate::records::root::{RootRecord, Tenant};
use crate::tables::provider::{self, AccountFloor, CallbackSecretRow, FirstAccountRow, ProviderRow};
use crate::tables::{get, put, root};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::{CALLBACK_SECRETS_REPLACED_MAX, PROVIDERS_PER_TENANT_MAX};
use fantail_rules::provider_kind::ProviderKind;

#[derive(Clone, Debug)]
pub struct Ask {
    pub expect: Expect,
    pub change: Change,
}

#[derive(Clone, Debug)]
pub enum Change {
    Put(ProviderPut),
    Delete {
        tenant: TenantId,
        id: String,
    },
    /// Another secret for the address of an account; the one before is believed until then.
    RotateCallback {
        tenant: TenantId,
        id: String,
        until: Millis,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Provider {
        row: Box<ProviderRow>,
        created: bool,
    },
    Gone,
    Rotated,
    /// Too many replaced secrets are believed.
    TooManySecrets,
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
        Change::RotateCallback { tenant, id, until } => plan_rotate(view, (tenant, id), until, now),
    }
}

fn plan_rotate(
    view: &View<'_>,
    (tenant, id): (TenantId, String),
    until: Millis,
    now: Millis,
) -> Result<Plan, TablesError> {
    let known = match provider::find(view, tenant, &id)? {
        None => return Ok(Planned::nothing(Answer::Unknown)),
        Some(row) if row.put.kind != ProviderKind::Smtp => return Ok(Planned::nothing(Answer::OtherKind)),
        Some(_) => provider::callback_secret(view, tenant, &id)?,
    };
    let before =
        known.clone().unwrap_or_else(|| CallbackSecretRow { tenant, id: id.clone(), ..Default::default() });
    let kept = before.replaced.iter().filter(|(_, until)| *until > now).count();
    if until > now && kept >= CALLBACK_SECRETS_REPLACED_MAX {
        return Ok(Planned::nothing(Answer::TooManySecrets));
    }
    let number = before.number.saturating_add(1);
    let after = rotated(before, number, until, now);
    let difference = Difference::of(known.as_ref(), Some(&after));
    let record = CallbackRotated { tenant, id, number, until, difference };
    Ok(Planned::one(RootRecord::CallbackRotated(record), Answer::Rotated))
}

fn rotated(mut row: CallbackSecretRow, number: u32, until: Millis, at: Millis) -> CallbackSecretRow {
    row.replaced.retain(|(_, end)| *end > at && until > at);
    if until > at {
        row.replaced.push((row.number, until));
    }
    CallbackSecretRow { number, ..row }
}

pub(super) fn apply_rotated(
    view: &mut View<'_>,
    record: &CallbackRotated,
    at: Millis,
) -> Result<(), TablesError> {
    let CallbackRotated { tenant, id, number, until, .. } = record;
    let known = provider::callback_secret(view, *tenant, id)?;
    let before = CallbackSecretRow { tenant: *tenant, id: id.clone(), ..known.unwrap_or_default() };
    put(view, provider::callback_secret_key(*tenant, id), &rotated(before, *number, *until, at));
    Ok(())
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
    let row = row_after(known.as_ref(), &put, provider::floor(view, tenant)?, now);
    let difference = Difference::of(known.as_ref(), Some(&row));
    let answer = Answer::Provider { row: Box::new(row), created: known.is_none() };
    Ok(Planned::one(RootRecord::ProviderPut(Box::new(put), difference), answer))
}

fn conflict(current: Option<u32>) -> Plan {
    Planned::nothing(Answer::Conflict { current })
}

fn row_after(
    known: Option<&ProviderRow>,
    put: &ProviderPut,
    AccountFloor(floor): AccountFloor,
    at: Millis,
) -> ProviderRow {
    ProviderRow {
        put: put.clone(),
        version: known.map_or(floor, |row| row.version).saturating_add(1),
        created: known.map_or(at, |row| row.created),
        updated: at,
    }
}

pub(super) fn apply_put(view: &mut View<'_>, record: &ProviderPut, at: Millis) -> Result<(), TablesError> {
    let known = provider::find(view, record.tenant, &record.id)?;
    let row = row_after(known.as_ref(), record, provider::floor(view, record.tenant)?, at);
    put(view, provider::key(record.tenant, &record.id), &row);
    // An account that was deleted may have had this name: what was in its address is not believed again.
    if known.is_none() && row.version > 1 && record.kind == ProviderKind::Smtp {
        let (tenant, id, number) = (record.tenant, record.id.clone(), row.version);
        let secret = CallbackSecretRow { tenant, id, number, replaced: Vec::new() };
        put(view, provider::callback_secret_key(tenant, &record.id), &secret);
    }
    remember(view, record.tenant, at)
}

pub(super) fn apply_gone(
    view: &mut View<'_>,
    tenant: TenantId,
    id: &str,
    at: Millis,
) -> Result<(), TablesError> {
    if let Some(row) = provider::find(view, tenant, id)? {
        let AccountFloor(before) = provider::floor(view, tenant)?;
        let secret = provider::callback_secret(view, tenant, id)?.map_or(0, |secret| secret.number);
        let floor = before.max(row.version).max(secret);
        put(view, provider::floor_key(tenant), &AccountFloor(floor));
        view.delete(provider::key(tenant, id));
        view.delete(provider::callback_secret_key(tenant, id));
    }
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
