//! The control plane: layout, tenants, keys, templates (in `template`), and policies (in `policy`). Small, read by all.
//!
//! Comes from: the admin API. Decides: who exists, under which number and with which policy.
//! Goes to: every other machine's asks, which carry what they need of it.

pub mod policy;
pub mod provider;
pub mod schedule;
pub mod segment;
pub mod template;
pub mod webhook;

use crate::Planned;
use crate::records::difference::Difference;
use crate::records::root::{ApiKey, Layout, Noted, RootRecord, Tenant, TenantQuota};
use crate::tables::provider::{CallbackSecretRow, ProviderRow};
use crate::tables::root::{self, ApiKeyRow};
use crate::tables::webhook::WebhookRow;
use crate::tables::{get, put};
use crate::view::View;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::{KEYS_PER_TENANT_MAX, RETENTION_DAYS_DEFAULT, TENANTS_MAX, TIER_UP_DEFAULT};
use fantail_rules::pacing::Rate;
use fantail_rules::policy::Policies;
use fantail_rules::quota::Quota;

#[derive(Clone, Debug)]
pub enum RootAsk {
    /// Fixes the layout of a new data directory; later ones are answered with the first.
    Layout(Layout),
    CreateTenant {
        slug: String,
        name: String,
    },
    PatchTenant {
        tenant: TenantId,
        name: Option<String>,
        tier_up: Option<u32>,
        retention_days: Option<u32>,
        rate: Option<Rate>,
        /// All of it is replaced.
        quota: Option<Quota>,
    },
    CreateKey {
        tenant: TenantId,
        id: String,
        secret_hash: [u8; 32],
        scopes: Vec<String>,
        expires: Option<Millis>,
        rate: Option<Rate>,
    },
    RevokeKey {
        tenant: TenantId,
        id: String,
    },
    Template(Box<template::Ask>),
    Segment(segment::Ask),
    Schedule(Box<schedule::Ask>),
    Webhook(webhook::Ask),
    Policy(Box<policy::Ask>),
    Provider(Box<provider::Ask>),
    /// Leaves a trace in the audit log and nowhere else.
    Note(Noted),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RootAnswer {
    Layout(Layout),
    Tenant(Tenant),
    Key(ApiKeyRow),
    Revoked,
    Noted,
    SlugTaken,
    UnknownTenant,
    UnknownKey,
    TooMany { limit: usize },
    Template(template::Answer),
    Segment(segment::Answer),
    Schedule(schedule::Answer),
    Webhook(webhook::Answer),
    Policy(policy::Answer),
    Provider(provider::Answer),
}

type Plan = Planned<RootRecord, RootAnswer>;

pub fn plan(view: &View<'_>, ask: RootAsk, now: Millis) -> Result<Plan, TablesError> {
    match ask {
        RootAsk::Layout(wanted) => Ok(match root::layout(view)? {
            Some(layout) => Planned::nothing(RootAnswer::Layout(layout)),
            None => Planned::one(RootRecord::Layout(wanted), RootAnswer::Layout(wanted)),
        }),
        RootAsk::CreateTenant { slug, name } => create_tenant(view, slug, name, now),
        RootAsk::PatchTenant { tenant, name, tier_up, retention_days, rate, quota } => {
            let Some(known) = get::<Tenant>(view, &root::tenant_key(tenant))? else {
                return Ok(Planned::nothing(RootAnswer::UnknownTenant));
            };
            let mut row = known.clone();
            row.name = name.unwrap_or(row.name);
            row.tier_up = tier_up.unwrap_or(row.tier_up);
            row.retention_days = retention_days.unwrap_or(row.retention_days);
            row.rate = rate.or(row.rate);
            let mut records = Vec::new();
            if quota.is_none() || row != known {
                let difference = Difference::of(Some(&known), Some(&row));
                records.push(RootRecord::TenantPut(row.clone(), difference));
            }
            records.extend(quota.map(|quota| put_quota(view, tenant, quota)).transpose()?);
            Ok(Planned { records, answer: RootAnswer::Tenant(row) })
        }
        RootAsk::CreateKey { tenant, id, secret_hash, scopes, expires, rate } => {
            create_key(view, ApiKey { tenant, id, secret_hash, scopes, created: now, expires, rate })
        }
        RootAsk::RevokeKey { tenant, id } => Ok(match get::<ApiKeyRow>(view, &root::api_key(tenant, &id))? {
            None => Planned::nothing(RootAnswer::UnknownKey),
            Some(row) if row.revoked.is_some() => Planned::nothing(RootAnswer::Revoked),
            Some(row) => {
                let revoked = ApiKeyRow { key: row.key.clone(), revoked: Some(now) };
                let difference = Difference::of(Some(&row), Some(&revoked));
                Planned::one(RootRecord::KeyRevoked { tenant, id, difference }, RootAnswer::Revoked)
            }
        }),
        RootAsk::Note(noted) => Ok(Planned::one(RootRecord::Noted(noted), RootAnswer::Noted)),
        RootAsk::Template(ask) => {
            let Planned { records, answer } = template::plan(view, *ask, now)?;
            Ok(Planned { records, answer: RootAnswer::Template(answer) })
        }
        RootAsk::Segment(ask) => {
            let Planned { records, answer } = segment::plan(view, ask, now)?;
            Ok(Planned { records, answer: RootAnswer::Segment(answer) })
        }
        RootAsk::Schedule(ask) => {
            let Planned { records, answer } = schedule::plan(view, *ask, now)?;
            Ok(Planned { records, answer: RootAnswer::Schedule(answer) })
        }
        RootAsk::Webhook(ask) => {
            let Planned { records, answer } = webhook::plan(view, ask, now)?;
            Ok(Planned { records, answer: RootAnswer::Webhook(answer) })
        }
        RootAsk::Policy(ask) => {
            let Planned { records, answer } = policy::plan(view, *ask, now)?;
            Ok(Planned { records, answer: RootAnswer::Policy(answer) })
        }
        RootAsk::Provider(ask) => {
            let Planned { records, answer } = provider::plan(view, *ask, now)?;
            Ok(Planned { records, answer: RootAnswer::Provider(answer) })
        }
    }
}

fn put_quota(view: &View<'_>, tenant: TenantId, quota: Quota) -> Result<RootRecord, TablesError> {
    let known = get::<TenantQuota>(view, &root::quota_key(tenant))?;
    let put = TenantQuota { tenant, quota };
    Ok(RootRecord::QuotaPut(put, Difference::of(known.as_ref(), Some(&put))))
}

fn create_tenant(view: &View<'_>, slug: String, name: String, now: Millis) -> Result<Plan, TablesError> {
    let tenants = root::tenants(view)?;
    if tenants.iter().any(|tenant| tenant.slug == slug) {
        return Ok(Planned::nothing(RootAnswer::SlugTaken));
    }
    if tenants.len() >= TENANTS_MAX {
        return Ok(Planned::nothing(RootAnswer::TooMany { limit: TENANTS_MAX }));
    }
    let tenant = Tenant {
        id: TenantId(tenants.last().map_or(1, |last| last.id.0 + 1)),
        slug,
        name,
        tier_up: TIER_UP_DEFAULT,
        retention_days: RETENTION_DAYS_DEFAULT,
        created: now,
        rate: None,
    };
    let difference = Difference::of(None, Some(&tenant));
    Ok(Planned::one(RootRecord::TenantPut(tenant.clone(), difference), RootAnswer::Tenant(tenant)))
}

fn create_key(view: &View<'_>, key: ApiKey) -> Result<Plan, TablesError> {
    if get::<Tenant>(view, &root::tenant_key(key.tenant))?.is_none() {
        return Ok(Planned::nothing(RootAnswer::UnknownTenant));
    }
    let own = root::api_keys_of(view, key.tenant)?;
    let is_over = |row: &ApiKeyRow| row.key.expires.is_some_and(|expires| expires <= key.created);
    let live = own.iter().filter(|row| row.revoked.is_none() && !is_over(row)).count();
    if live >= KEYS_PER_TENANT_MAX {
        return Ok(Planned::nothing(RootAnswer::TooMany { limit: KEYS_PER_TENANT_MAX }));
    }
    let row = ApiKeyRow { key: key.clone(), revoked: None };
    let known = get::<ApiKeyRow>(view, &root::api_key(key.tenant, &key.id))?;
    let difference = Difference::of(known.as_ref(), Some(&row));
    Ok(Planned::one(RootRecord::KeyPut(key, difference), RootAnswer::Key(row)))
}

pub fn apply(view: &mut View<'_>, record: &RootRecord, at: Millis) -> Result<(), TablesError> {
    match record {
        RootRecord::Layout(layout) => put(view, root::layout_key(), layout),
        RootRecord::TenantPut(tenant, _) => put(view, root::tenant_key(tenant.id), tenant),
        RootRecord::QuotaPut(quota, _) => put(view, root::quota_key(quota.tenant), quota),
        RootRecord::KeyPut(key, _) => {
            let row = ApiKeyRow { key: key.clone(), revoked: None };
            put(view, root::api_key(key.tenant, &key.id), &row);
        }
        RootRecord::KeyRevoked { tenant, id, .. } => {
            let key = root::api_key(*tenant, id);
            if let Some(mut row) = get::<ApiKeyRow>(view, &key)? {
                row.revoked = Some(at);
                put(view, key, &row);
            }
        }
        RootRecord::TemplatePut(record) => template::apply_put(view, record, at)?,
        RootRecord::TemplateActivated(record) => template::apply_activated(view, record, at)?,
        RootRecord::TemplateGone { tenant, id, .. } => template::apply_gone(view, *tenant, id)?,
        RootRecord::SegmentPut(record, _) => segment::apply_put(view, record, at)?,
        RootRecord::SegmentListed(record) => segment::apply_listed(view, record, at)?,
        RootRecord::SegmentGone { tenant, id, .. } => segment::apply_gone(view, *tenant, id),
        RootRecord::SchedulePut(record) => schedule::apply_put(view, record, at)?,
        RootRecord::ScheduleRan(record) => schedule::apply_ran(view, record)?,
        RootRecord::ScheduleGone { tenant, id, .. } => schedule::apply_gone(view, *tenant, id)?,
        RootRecord::WebhookPut(record, _) => webhook::apply_put(view, record, at)?,
        RootRecord::WebhookSwitched(record) => webhook::apply_switched(view, record, at)?,
        RootRecord::WebhookGone { tenant, id, .. } => webhook::apply_gone(view, *tenant, id),
        RootRecord::WebhookFailing { tenant, id, is_failing } => {
            webhook::apply_failing(view, (*tenant, id), *is_failing, at);
        }
        RootRecord::CategoryPut(record) => policy::apply_category(view, record, at)?,
        RootRecord::CategoryGone { tenant, name, .. } => policy::apply_category_gone(view, *tenant, name),
        RootRecord::DefaultsPut(record) => policy::apply_defaults(view, record, at),
        RootRecord::ProviderPut(record, _) => provider::apply_put(view, record, at)?,
        RootRecord::ProviderGone { tenant, id, .. } => provider::apply_gone(view, *tenant, id, at)?,
        RootRecord::CallbackRotated(rotated) => provider::apply_rotated(view, rotated, at)?,
        RootRecord::Noted(_) => {}
    }
    Ok(())
}

/// Everything the other parts need of the control plane, read once after every change.
#[derive(Clone, Debug, Default)]
pub struct Control {
    pub layout: Option<Layout>,
    pub tenants: Vec<Tenant>,
    pub quotas: Vec<TenantQuota>,
    pub keys: Vec<ApiKeyRow>,
    pub webhooks: Vec<WebhookRow>,
    pub providers: Vec<ProviderRow>,
    pub callback_secrets: Vec<CallbackSecretRow>,
    /// Tenants that once made an account, whether they have one or not.
    pub with_history: Vec<TenantId>,
    pub policies: Policies,
}

pub fn control(tables: &dyn Tables) -> Result<Control, TablesError> {
    Ok(Control {
        layout: root::layout(tables)?,
        tenants: root::tenants(tables)?,
        quotas: root::quotas(tables)?,
        keys: root::api_keys(tables)?,
        webhooks: crate::tables::webhook::all(tables)?,
        providers: crate::tables::provider::all(tables)?,
        callback_secrets: crate::tables::provider::callback_secrets(tables)?,
        with_history: crate::tables::provider::tenants_with_history(tables)?,
        policies: crate::tables::policy::policies(tables)?,
    })
}
