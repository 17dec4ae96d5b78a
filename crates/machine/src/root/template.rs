//! Templates: versions that never change, one of them in force.
//!
//! Comes from: the template API, through `node`, which has compiled the definition. Decides: whether the caller knows
//! what it replaces, the number of the version, and which old versions make room. Goes to: everybody who renders.
//! What must never happen: two texts under one number of one id, also across a deletion.

use crate::Planned;
use crate::records::difference::{self, Difference};
use crate::records::root::{RootRecord, Tenant};
use crate::records::template::{About, DefinitionBytes, TemplateActivated, TemplatePut};
use crate::tables::root::tenant_key;
use crate::tables::template::{self, Floor, TemplateRow, VersionRow};
use crate::tables::usage::{self, Balance};
use crate::tables::{Row, get, put};
use crate::view::View;
use fantail_ports::audit::Digest;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::{TEMPLATE_VERSIONS_MAX, TEMPLATES_PER_TENANT_MAX};

#[derive(Clone, Debug)]
pub struct Ask {
    pub tenant: TenantId,
    pub id: String,
    pub expect: Expect,
    pub change: Change,
}

/// What the caller believes to be in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// Nothing is said.
    Unsaid,
    Absent,
    /// Some version.
    Present,
    Version(u32),
}

impl Expect {
    /// `current`: the version in force, if there is anything.
    #[must_use]
    pub fn holds(self, current: Option<u32>) -> bool {
        match self {
            Self::Unsaid => true,
            Self::Absent => current.is_none(),
            Self::Present => current.is_some(),
            Self::Version(version) => current == Some(version),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Change {
    Put {
        about: About,
        definition: DefinitionBytes,
    },
    /// What is `None` stays as it is.
    Set {
        version: Option<u32>,
        active: Option<bool>,
    },
    Delete,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// What is in force now.
    Done {
        row: TemplateRow,
        created: bool,
    },
    Gone,
    Unknown,
    UnknownVersion,
    /// Something else is in force than the caller believes; `None` if there is no such template.
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
    if get::<Tenant>(view, &tenant_key(ask.tenant))?.is_none() {
        return Ok(Planned::nothing(Answer::UnknownTenant));
    }
    let row = template::find(view, ask.tenant, &ask.id)?;
    let Ask { tenant, id, expect, change } = ask;
    match change {
        Change::Put { about, definition } => {
            let (dropped, difference) = (Vec::new(), Difference::default());
            let put = TemplatePut { tenant, id, version: 0, about, dropped, definition, difference };
            match row {
                Some(row) => replace(view, row, expect, put, now),
                None => create(view, expect, put, now),
            }
        }
        Change::Set { version, active } => {
            let Some(row) = row else { return Ok(Planned::nothing(Answer::Unknown)) };
            if !expect.holds(Some(row.version)) {
                return Ok(Planned::nothing(Answer::Conflict { current: Some(row.version) }));
            }
            let activated = TemplateActivated {
                tenant,
                id,
                version: version.unwrap_or(row.version),
                active: active.unwrap_or(row.active),
                difference: Difference::default(),
            };
            set(view, row, activated, now)
        }
        Change::Delete => Ok(match row {
            None => Planned::nothing(Answer::Unknown),
            Some(row) if !expect.holds(Some(row.version)) => {
                Planned::nothing(Answer::Conflict { current: Some(row.version) })
            }
            Some(row) => {
                let difference = Difference { before: state(view, tenant, &id, &row)?, after: None };
                Planned::one(RootRecord::TemplateGone { tenant, id, difference }, Answer::Gone)
            }
        }),
    }
}

/// The hash of a template as it is: what its row says, and the text in force.
fn state(
    view: &View<'_>,
    tenant: TenantId,
    id: &str,
    row: &TemplateRow,
) -> Result<Option<Digest>, TablesError> {
    let version = template::version(view, tenant, id, row.version)?;
    Ok(version.map(|version| hash(row, &version.about)))
}

fn hash(row: &TemplateRow, in_force: &About) -> Digest {
    difference::hash(TemplateRow::NAME, &[&row.encode()[..], &in_force.hash].concat())
}

fn create(view: &View<'_>, expect: Expect, put: TemplatePut, now: Millis) -> Result<Plan, TablesError> {
    if !expect.holds(None) {
        return Ok(Planned::nothing(Answer::Conflict { current: None }));
    }
    let limit = TEMPLATES_PER_TENANT_MAX;
    if template::page(view, put.tenant, None, limit)?.len() >= limit {
        return Ok(Planned::nothing(Answer::TooMany { limit }));
    }
    let version = template::floor(view, put.tenant)?.0 + 1;
    let row = TemplateRow { version, newest: version, active: true, created: now, updated: now };
    let difference = Difference { before: None, after: Some(hash(&row, &put.about)) };
    let record = RootRecord::TemplatePut(Box::new(TemplatePut { version, difference, ..put }));
    Ok(Planned::one(record, Answer::Done { row, created: true }))
}

/// Whoever replaces says what. A repeat of what is in force was done already, whatever the caller expects to find.
fn replace(
    view: &View<'_>,
    row: TemplateRow,
    expect: Expect,
    put: TemplatePut,
    now: Millis,
) -> Result<Plan, TablesError> {
    let kept = template::versions(view, put.tenant, &put.id)?;
    let in_force = kept.iter().find(|(version, _)| *version == row.version);
    let is_repeat = in_force.is_some_and(|(_, version)| version.about.hash == put.about.hash);
    if is_repeat && expect != Expect::Absent {
        return Ok(Planned::nothing(Answer::Done { row, created: false }));
    }
    if expect == Expect::Unsaid || !expect.holds(Some(row.version)) {
        return Ok(Planned::nothing(Answer::Conflict { current: Some(row.version) }));
    }
    let version = row.newest + 1;
    let spare = (kept.len() + 1).saturating_sub(TEMPLATE_VERSIONS_MAX);
    // Not the one that is replaced: whoever regrets this wants it back.
    let others = kept.iter().map(|(version, _)| *version).filter(|version| *version != row.version);
    let dropped = others.take(spare).collect();
    let before = in_force.map(|(_, version)| hash(&row, &version.about));
    let row = TemplateRow { version, newest: version, updated: now, ..row };
    let difference = Difference { before, after: Some(hash(&row, &put.about)) };
    let record = RootRecord::TemplatePut(Box::new(TemplatePut { version, dropped, difference, ..put }));
    Ok(Planned::one(record, Answer::Done { row, created: false }))
}

fn set(
    view: &View<'_>,
    row: TemplateRow,
    activated: TemplateActivated,
    now: Millis,
) -> Result<Plan, TablesError> {
    let TemplateActivated { tenant, ref id, version, active, .. } = activated;
    let Some(wanted) = template::version(view, tenant, id, version)? else {
        return Ok(Planned::nothing(Answer::UnknownVersion));
    };
    if (version, active) == (row.version, row.active) {
        return Ok(Planned::nothing(Answer::Done { row, created: false }));
    }
    let before = state(view, tenant, id, &row)?;
    let row = TemplateRow { version, active, updated: now, ..row };
    let difference = Difference { before, after: Some(hash(&row, &wanted.about)) };
    let record = RootRecord::TemplateActivated(TemplateActivated { difference, ..activated });
    Ok(Planned::one(record, Answer::Done { row, created: false }))
}

pub fn apply_put(view: &mut View<'_>, record: &TemplatePut, at: Millis) -> Result<(), TablesError> {
    let TemplatePut { tenant, id, version, about, dropped, definition, .. } = record;
    let known = template::find(view, *tenant, id)?;
    let row = match known {
        Some(row) => TemplateRow { version: *version, newest: *version, updated: at, ..row },
        None => TemplateRow { version: *version, newest: *version, active: true, created: at, updated: at },
    };
    put(view, template::key(*tenant, id), &row);
    put(view, template::version_key(*tenant, id, *version), &VersionRow { about: about.clone(), at });
    let mut balance = Balance::default();
    let definition = definition.encode();
    balance.add(None, usage::weight_of_row(&definition));
    view.put(template::definition_key(*tenant, id, *version), definition);
    for version in dropped {
        drop_version(view, *tenant, (id, *version), &mut balance)?;
    }
    balance.write(view, *tenant)
}

fn drop_version(
    view: &mut View<'_>,
    tenant: TenantId,
    (id, version): (&str, u32),
    balance: &mut Balance,
) -> Result<(), TablesError> {
    view.delete(template::version_key(tenant, id, version));
    let key = template::definition_key(tenant, id, version);
    let definition = view.get(&key)?;
    definition.iter().for_each(|row| balance.remove(None, usage::weight_of_row(row)));
    view.delete(key);
    Ok(())
}

pub fn apply_activated(
    view: &mut View<'_>,
    record: &TemplateActivated,
    at: Millis,
) -> Result<(), TablesError> {
    let TemplateActivated { tenant, id, version, active, .. } = record;
    if let Some(row) = template::find(view, *tenant, id)? {
        let row = TemplateRow { version: *version, active: *active, updated: at, ..row };
        put(view, template::key(*tenant, id), &row);
    }
    Ok(())
}

pub fn apply_gone(view: &mut View<'_>, tenant: TenantId, id: &str) -> Result<(), TablesError> {
    let Some(row) = template::find(view, tenant, id)? else { return Ok(()) };
    let mut balance = Balance::default();
    for (version, _) in template::versions(view, tenant, id)? {
        drop_version(view, tenant, (id, version), &mut balance)?;
    }
    balance.write(view, tenant)?;
    view.delete(template::key(tenant, id));
    let floor = template::floor(view, tenant)?.0.max(row.newest);
    put(view, template::floor_key(tenant), &Floor(floor));
    Ok(())
}
