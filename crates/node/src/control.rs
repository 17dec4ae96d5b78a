//! The control plane as everybody reads it: in memory, replaced whole after each change of the root.

use crate::ask::{KeyView, TenantView};
use crate::lead::Settled;
use crate::ports::Ports;
use crate::providers;
use fantail_machine::records::root::Tenant;
use fantail_machine::root::{Control, control};
use fantail_machine::tables::provider::{CallbackSecretRow, ProviderRow};
use fantail_machine::tables::root::ApiKeyRow;
use fantail_machine::tables::webhook::WebhookRow;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{PartitionId, TenantId};
use fantail_rules::policy::Policies;
use fantail_rules::quota::Quota;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

#[derive(Default)]
pub struct ControlPlane(RwLock<Arc<Snapshot>>);

/// One state of the control plane.
#[derive(Default)]
pub struct Snapshot {
    pub tenants: BTreeMap<TenantId, TenantView>,
    slugs: HashMap<String, TenantId>,
    keys: HashMap<String, Arc<KeyView>>,
    /// By tenant and id.
    pub webhooks: BTreeMap<(TenantId, String), Arc<WebhookRow>>,
    /// By tenant and id.
    pub providers: BTreeMap<(TenantId, String), Arc<ProviderRow>>,
    /// Of accounts whose secret is not the first one. By tenant and id.
    pub callback_secrets: BTreeMap<(TenantId, String), CallbackSecretRow>,
    /// What tenants say about categories and the silent.
    pub policies: Arc<Policies>,
}

impl Snapshot {
    #[must_use]
    pub fn tenant_by_slug(&self, slug: &str) -> Option<&TenantView> {
        self.slugs.get(slug).and_then(|id| self.tenants.get(id))
    }

    #[must_use]
    pub fn key(&self, id: &str) -> Option<Arc<KeyView>> {
        self.keys.get(id).cloned()
    }

    #[must_use]
    pub fn keys_of(&self, tenant: TenantId) -> Vec<KeyView> {
        let mut keys: Vec<KeyView> =
            self.keys.values().filter(|key| key.tenant == tenant).map(|key| (**key).clone()).collect();
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        keys
    }
}

impl ControlPlane {
    #[must_use]
    pub fn now(&self) -> Arc<Snapshot> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn replace(&self, control: &Control) {
        let quotas: BTreeMap<_, _> = control.quotas.iter().map(|row| (row.tenant, row.quota)).collect();
        let view = |row: &Tenant| tenant_view(row, quotas.get(&row.id).copied().unwrap_or_default());
        let tenants: BTreeMap<_, _> = control.tenants.iter().map(|row| (row.id, view(row))).collect();
        let slugs = control.tenants.iter().map(|row| (row.slug.clone(), row.id)).collect();
        let keys = control.keys.iter().map(|row| (row.key.id.clone(), Arc::new(key_view(row)))).collect();
        let webhook = |row: &WebhookRow| ((row.put.tenant, row.put.id.clone()), Arc::new(row.clone()));
        let webhooks = control.webhooks.iter().map(webhook).collect();
        let provider = |row: &ProviderRow| ((row.put.tenant, row.put.id.clone()), Arc::new(row.clone()));
        let providers = control.providers.iter().map(provider).collect();
        let secret = |row: &CallbackSecretRow| ((row.tenant, row.id.clone()), row.clone());
        let callback_secrets = control.callback_secrets.iter().map(secret).collect();
        let policies = Arc::new(control.policies.clone());
        let snapshot =
            Arc::new(Snapshot { tenants, slugs, keys, webhooks, providers, callback_secrets, policies });
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }
}

/// Rebuilds the control plane after each batch of the root.
pub fn refresh(ports: Arc<Ports>, plane: Arc<ControlPlane>, accounts: Arc<providers::Known>) -> Settled {
    Box::new(move |_, _| {
        let mut found = Err(TablesError::Io { reason: "the store gave no state".to_owned() });
        let read = ports.store.read(PartitionId::Root, &mut |state| found = control(state.tables()));
        match (read, found) {
            (Ok(()), Ok(control)) => {
                providers::tell(&ports, &accounts, (&control.providers, &control.with_history));
                plane.replace(&control);
            }
            (Err(failed), _) => ports.stop.set(&failed.to_string()),
            (Ok(()), Err(failed)) => ports.stop.set(&failed.to_string()),
        }
    })
}

fn tenant_view(row: &Tenant, quota: Quota) -> TenantView {
    TenantView {
        id: row.id,
        slug: row.slug.clone(),
        name: row.name.clone(),
        tier_up: row.tier_up,
        retention_days: row.retention_days,
        created_at: row.created,
        rate: row.rate,
        quota,
    }
}

#[must_use]
pub fn key_view(row: &ApiKeyRow) -> KeyView {
    KeyView {
        tenant: row.key.tenant,
        id: row.key.id.clone(),
        secret_hash: row.key.secret_hash,
        scopes: row.key.scopes.clone(),
        created_at: row.key.created,
        expires_at: row.key.expires,
        revoked_at: row.revoked,
        rate: row.key.rate,
    }
}
