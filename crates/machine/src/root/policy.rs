//! What a tenant says about its categories, and about users who say nothing.
//!
//! Comes from: the category and default preference APIs, checked. Decides: whether the caller knows what it replaces, and the
//! number of the version. Goes to: `control`, from where everybody who plans has it as one value.
//! What must never happen: two policies under one version, also across a deletion.

use super::template::Expect;
use crate::Planned;
use crate::records::difference::Difference;
use crate::records::policy::{CategoryPut, DefaultsPut};
use crate::records::root::{RootRecord, Tenant};
use crate::tables::policy::{self, CategoryRow, DefaultsRow};
use crate::tables::root::tenant_key;
use crate::tables::{get, put};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::CATEGORIES_PER_TENANT_MAX;
use fantail_rules::policy::{CategoryPolicy, Defaults};

#[derive(Clone, Debug)]
pub struct Ask {
    pub tenant: TenantId,
    pub expect: Expect,
    pub change: Change,
}

#[derive(Clone, Debug)]
pub enum Change {
    PutCategory {
        name: String,
        policy: CategoryPolicy,
    },
    DeleteCategory {
        name: String,
    },
    /// Nobody has to create them: version 0 says nothing.
    PutDefaults(Defaults),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Category {
        row: CategoryRow,
        created: bool,
    },
    Gone,
    Defaults(DefaultsRow),
    Unknown,
    /// Something else is in force than the caller believes; `None` if there is nothing.
    Conflict {
        current: Option<u32>,
    },
    UnknownTenant,
    TooMany {
        limit: usize,
    },
}

type Plan = Planned<RootRecord, Answer>;

pub fn plan(view: &View<'_>, ask: Ask, now: Millis) -> Result<Plan, TablesError> {
    let Ask { tenant, expect, change } = ask;
    if get::<Tenant>(view, &tenant_key(tenant))?.is_none() {
        return Ok(Planned::nothing(Answer::UnknownTenant));
    }
    match change {
        Change::PutCategory { name, policy } => {
            let version = policy::defaults(view, tenant)?.newest + 1;
            let difference = Difference::default();
            put_category(view, expect, CategoryPut { tenant, name, version, policy, difference }, now)
        }
        Change::DeleteCategory { name } => Ok(match policy::category(view, tenant, &name)? {
            None => Planned::nothing(Answer::Unknown),
            Some(row) if !expect.holds(Some(row.version)) => conflict(Some(row.version)),
            Some(row) => {
                let difference = Difference::of(Some(&row), None);
                Planned::one(RootRecord::CategoryGone { tenant, name, difference }, Answer::Gone)
            }
        }),
        Change::PutDefaults(defaults) => put_defaults(view, tenant, expect, defaults, now),
    }
}

fn conflict(current: Option<u32>) -> Plan {
    Planned::nothing(Answer::Conflict { current })
}

/// Whoever replaces says what. A repeat of what is in force was done already, whatever the caller expects to find.
fn put_category(view: &View<'_>, expect: Expect, put: CategoryPut, now: Millis) -> Result<Plan, TablesError> {
    let known = policy::category(view, put.tenant, &put.name)?;
    let created = known.is_none();
    match &known {
        Some(row) if row.policy == put.policy && expect != Expect::Absent => {
            return Ok(Planned::nothing(Answer::Category { row: row.clone(), created }));
        }
        Some(row) if expect == Expect::Unsaid || !expect.holds(Some(row.version)) => {
            return Ok(conflict(Some(row.version)));
        }
        None if !expect.holds(None) => return Ok(conflict(None)),
        Some(_) => {}
        None => {
            let limit = CATEGORIES_PER_TENANT_MAX;
            if policy::categories(view, put.tenant)?.len() >= limit {
                return Ok(Planned::nothing(Answer::TooMany { limit }));
            }
        }
    }
    let row = CategoryRow { version: put.version, updated: now, policy: put.policy.clone() };
    let difference = Difference::of(known.as_ref(), Some(&row));
    let record = RootRecord::CategoryPut(Box::new(CategoryPut { difference, ..put }));
    Ok(Planned::one(record, Answer::Category { row, created }))
}

fn put_defaults(
    view: &View<'_>,
    tenant: TenantId,
    expect: Expect,
    defaults: Defaults,
    now: Millis,
) -> Result<Plan, TablesError> {
    let known = policy::defaults(view, tenant)?;
    if !expect.holds((known.version > 0).then_some(known.version)) {
        return Ok(conflict(Some(known.version)));
    }
    if known.defaults == defaults {
        return Ok(Planned::nothing(Answer::Defaults(known)));
    }
    let version = known.newest + 1;
    let row = DefaultsRow { newest: version, version, updated: now, defaults: defaults.clone() };
    // The counter beside them is no part of what changed.
    let said = |row: &DefaultsRow| DefaultsRow { newest: row.version, ..row.clone() };
    let before = (known.version > 0).then(|| said(&known));
    let difference = Difference::of(before.as_ref(), Some(&said(&row)));
    let record = RootRecord::DefaultsPut(Box::new(DefaultsPut { tenant, version, defaults, difference }));
    Ok(Planned::one(record, Answer::Defaults(row)))
}

pub(super) fn apply_category(
    view: &mut View<'_>,
    record: &CategoryPut,
    at: Millis,
) -> Result<(), TablesError> {
    let CategoryPut { tenant, name, version, policy, .. } = record;
    let row = CategoryRow { version: *version, updated: at, policy: policy.clone() };
    put(view, policy::category_key(*tenant, name), &row);
    let newest = DefaultsRow { newest: *version, ..policy::defaults(view, *tenant)? };
    put(view, policy::defaults_key(*tenant), &newest);
    Ok(())
}

pub(super) fn apply_category_gone(view: &mut View<'_>, tenant: TenantId, name: &str) {
    view.delete(policy::category_key(tenant, name));
}

pub(super) fn apply_defaults(view: &mut View<'_>, record: &DefaultsPut, at: Millis) {
    let DefaultsPut { tenant, version, defaults, .. } = record;
    let row = DefaultsRow { newest: *version, version: *version, updated: at, defaults: defaults.clone() };
    put(view, policy::defaults_key(*tenant), &row);
}
