//! Tenants and keys.
//!
//! Comes from: the admin API. Does: asks the root, and gives a new tenant its keys before anybody hears of it.
//! Goes to: `machine::root`; everybody else reads `control`.

use crate::ask::{KeyAsk, KeyView, Refusal, TenantAsk, TenantPatch, TenantView};
use crate::control::key_view;
use crate::core::{Core, answer, internal, locked};
use crate::queue::QueueLine;
use crate::take::HOUSE;
use fantail_machine::records::root::Noted;
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_rules::actor::Actor;
use fantail_rules::ids::TenantId;

/// Leaves a trace in the audit log, durable on return.
pub async fn note(core: &Core, by: &Actor, noted: Noted) -> Result<(), Refusal> {
    let line = QueueLine::asked_by(by, noted.tenant);
    match answer(core.root.push(line, by, vec![RootAsk::Note(noted)], 1_024)).await? {
        RootAnswer::Noted => Ok(()),
        _ => Err(other()),
    }
}

async fn ask(core: &Core, by: &Actor, ask: RootAsk) -> Result<RootAnswer, Refusal> {
    match answer(core.root.push(HOUSE, by, vec![ask], 1_024)).await? {
        RootAnswer::UnknownTenant => Err(Refusal::UnknownTenant),
        RootAnswer::UnknownKey => Err(Refusal::UnknownKey),
        RootAnswer::TooMany { limit } => Err(Refusal::TooMany { limit }),
        RootAnswer::Template(_)
        | RootAnswer::Segment(_)
        | RootAnswer::Schedule(_)
        | RootAnswer::Webhook(_)
        | RootAnswer::Provider(_)
        | RootAnswer::Policy(_)
        | RootAnswer::Ending
        | RootAnswer::Wiped(_) => Err(other()),
        done @ (RootAnswer::Layout(_)
        | RootAnswer::Tenant(_)
        | RootAnswer::Key(_)
        | RootAnswer::Revoked
        | RootAnswer::Noted
        | RootAnswer::SlugTaken) => Ok(done),
    }
}

fn other() -> Refusal {
    internal("the root answered something else")
}

pub async fn create(core: &Core, by: &Actor, tenant: TenantAsk) -> Result<TenantView, Refusal> {
    let slug = tenant.slug.clone();
    match ask(core, by, RootAsk::CreateTenant { slug: tenant.slug, name: tenant.name }).await? {
        RootAnswer::Tenant(row) => {
            core.ports.keyring.create_tenant(row.id).map_err(locked)?;
            known(core, row.id)
        }
        RootAnswer::SlugTaken => Err(Refusal::TenantExists { slug }),
        _ => Err(other()),
    }
}

pub async fn patch(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    patch: TenantPatch,
) -> Result<TenantView, Refusal> {
    let TenantPatch { name, tier_up, retention_days, rate, quota } = patch;
    match ask(core, by, RootAsk::PatchTenant { tenant, name, tier_up, retention_days, rate, quota }).await? {
        RootAnswer::Tenant(row) => known(core, row.id),
        _ => Err(other()),
    }
}

/// The control plane has it before the root answers.
fn known(core: &Core, tenant: TenantId) -> Result<TenantView, Refusal> {
    core.control.now().tenants.get(&tenant).cloned().ok_or(Refusal::UnknownTenant)
}

pub async fn create_key(core: &Core, by: &Actor, tenant: TenantId, key: KeyAsk) -> Result<KeyView, Refusal> {
    let KeyAsk { id, secret_hash, scopes, expires_at, rate } = key;
    let create = RootAsk::CreateKey { tenant, id, secret_hash, scopes, expires: expires_at, rate };
    match ask(core, by, create).await? {
        RootAnswer::Key(row) => Ok(key_view(&row)),
        _ => Err(other()),
    }
}

pub async fn revoke_key(core: &Core, by: &Actor, tenant: TenantId, id: &str) -> Result<(), Refusal> {
    match ask(core, by, RootAsk::RevokeKey { tenant, id: id.to_owned() }).await? {
        RootAnswer::Revoked => Ok(()),
        _ => Err(other()),
    }
}
