//! A tenant is deleted: at once for everybody, then row by row, until nothing but its number is left.
//!
//! Comes from: the admin API, then the node's tenant deletion. Decides: whether there is such a tenant, and in which state. Goes
//! to: `DeletionRecord`.
//!
//! Invariant: the number of a tenant is never given to another one. Its slug is free once `Ended` is durable.

use super::{Plan, RootAnswer};
use crate::Planned;
use crate::records::deletion::DeletionRecord;
use crate::records::difference::Difference;
use crate::records::root::{RootRecord, Tenant};
use crate::tables::root::{self, TenantEnd};
use crate::tables::{get, put};
use crate::view::View;
use crate::wipe;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Millis, TenantId};

#[derive(Clone, Debug)]
pub enum Ask {
    /// Delete the tenant for everybody.
    Begin { tenant: TenantId },
    /// Remove what the control plane keeps of it, some rows from this key on.
    Wipe { tenant: TenantId, from: Option<Vec<u8>>, rows_max: usize },
    /// So many more rows were removed. `is_done`: nothing is left, and its keys are destroyed.
    Wiped { tenant: TenantId, rows: u64, is_done: bool },
}

pub(super) fn plan(view: &View<'_>, ask: Ask) -> Result<Plan, TablesError> {
    match ask {
        Ask::Begin { tenant } => plan_begin(view, tenant),
        Ask::Wipe { tenant, from, rows_max } => {
            if running(view, tenant)?.is_none() {
                return Ok(Planned::nothing(RootAnswer::UnknownTenant));
            }
            let (stretch, wiped) = wipe::plan(view, tenant, from.as_deref(), rows_max)?;
            let records = stretch
                .into_iter()
                .map(|stretch| RootRecord::Deletion(DeletionRecord::Wiped(stretch)))
                .collect();
            Ok(Planned { records, answer: RootAnswer::Wiped(wiped) })
        }
        Ask::Wiped { tenant, rows, is_done } => Ok(match running(view, tenant)? {
            None => Planned::nothing(RootAnswer::Noted),
            Some(Tenant { slug, .. }) if is_done => {
                one(DeletionRecord::Ended { tenant, slug, rows }, RootAnswer::Noted)
            }
            Some(_) if rows == 0 => Planned::nothing(RootAnswer::Noted),
            Some(_) => one(DeletionRecord::Counted { tenant, rows }, RootAnswer::Noted),
        }),
    }
}

fn plan_begin(view: &View<'_>, tenant: TenantId) -> Result<Plan, TablesError> {
    if running(view, tenant)?.is_some() {
        return Ok(Planned::nothing(RootAnswer::Ending));
    }
    Ok(match get::<Tenant>(view, &root::tenant_key(tenant))? {
        None => Planned::nothing(RootAnswer::UnknownTenant),
        Some(row) => {
            let difference = Difference::of(Some(&row), None);
            one(DeletionRecord::Ending { tenant, slug: row.slug, difference }, RootAnswer::Ending)
        }
    })
}

fn one(record: DeletionRecord, answer: RootAnswer) -> Plan {
    Planned::one(RootRecord::Deletion(record), answer)
}

/// The tenant as it was, while it is being deleted.
fn running(view: &View<'_>, tenant: TenantId) -> Result<Option<Tenant>, TablesError> {
    Ok(root::end_of(view, tenant)?.and_then(|end| end.tenant))
}

pub(super) fn apply(view: &mut View<'_>, record: &DeletionRecord, at: Millis) -> Result<(), TablesError> {
    match record {
        DeletionRecord::Wiped(stretch) => wipe::apply(view, stretch, |_, _, _| Ok(())),
        DeletionRecord::Ending { tenant, .. } => apply_ending(view, *tenant, at),
        DeletionRecord::Counted { tenant, rows } => apply_counted(view, *tenant, *rows, None),
        DeletionRecord::Ended { tenant, rows, .. } => apply_counted(view, *tenant, *rows, Some(at)),
    }
}

fn apply_ending(view: &mut View<'_>, tenant: TenantId, at: Millis) -> Result<(), TablesError> {
    let key = root::tenant_key(tenant);
    let Some(row) = get::<Tenant>(view, &key)? else { return Ok(()) };
    view.delete(key);
    put(view, root::end_key(tenant), &TenantEnd { tenant: Some(row), begun: at, ended: None, rows: 0 });
    Ok(())
}

/// `ended`: when nothing was left.
fn apply_counted(
    view: &mut View<'_>,
    tenant: TenantId,
    rows: u64,
    ended: Option<Millis>,
) -> Result<(), TablesError> {
    let Some(mut end) = root::end_of(view, tenant)? else { return Ok(()) };
    end.rows = end.rows.saturating_add(rows);
    if ended.is_some() {
        (end.tenant, end.ended) = (None, ended);
    }
    put(view, root::end_key(tenant), &end);
    Ok(())
}
