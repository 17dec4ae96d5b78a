//! Accounts with providers: what a tenant sends through.
//!
//! Comes from: the providers API, with settings that the provider's own code has read. Does: seals credentials under the
//! tenant's own key, asks the root, and tells whoever sends which accounts there are. Goes to: `machine::root::provider`, and
//! to the `accounts` port after every change and at start.
//!
//! What must never happen: credentials in a log, an answer or a list; an account that is used before it is durable.

pub use fantail_machine::tables::provider::ProviderRow;

use crate::Node;
use crate::ask::Refusal;
use crate::ask::templates::Expect;
use crate::core::{answer, internal, locked};
use crate::ports::Ports;
use fantail_machine::records::provider::ProviderPut;
use fantail_machine::root::provider::{Answer, Ask, Change};
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_ports::accounts::{Account, Credentials};
use fantail_ports::keyring::Context;
use fantail_rules::ids::{KeyNo, Millis, TenantId};
use fantail_rules::limits::{CALLBACK_SECRETS_REPLACED_MAX, PROVIDERS_PER_TENANT_MAX};
use fantail_rules::provider_kind::ProviderKind;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::{error, warn};

/// What somebody wants an account to be.
#[derive(Clone, Debug)]
pub struct ProviderAsk {
    pub id: String,
    pub kind: ProviderKind,
    /// JSON, nothing secret in it.
    pub settings: String,
    /// JSON; `None` keeps what is there.
    pub secrets: Option<Secret>,
    pub order: u16,
    pub weight: u16,
    pub per_second: Option<u32>,
    pub concurrency: Option<u32>,
    pub enabled: bool,
    pub expires: Option<Millis>,
}

/// Never shown.
#[derive(Clone)]
pub struct Secret(pub Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a secret")
    }
}

impl Node {
    /// Once it answers, everything that is sent goes by it. `true` if the account is new.
    pub async fn put_provider(
        &self,
        tenant: TenantId,
        expect: Expect,
        ask: ProviderAsk,
    ) -> Result<(ProviderRow, bool), Refusal> {
        self.core.require_tenant(tenant)?;
        let secrets = match &ask.secrets {
            Some(Secret(plain)) => {
                let sealed = self.core.ports.keyring.seal(tenant, KeyNo::TENANT, Context::Credential, plain);
                sealed.map_err(locked)?
            }
            None => self.provider(tenant, &ask.id)?.put.secrets.clone(),
        };
        let ProviderAsk {
            id, kind, settings, order, weight, per_second, concurrency, enabled, expires, ..
        } = ask;
        let put = ProviderPut {
            tenant,
            id: id.clone(),
            kind,
            settings,
            secrets,
            order,
            weight,
            per_second,
            concurrency,
            enabled,
            expires,
        };
        match self.ask_provider(tenant, &id, expect, Change::Put(put)).await? {
            Answer::Provider { row, created } => Ok((*row, created)),
            _ => Err(other()),
        }
    }

    pub async fn delete_provider(&self, tenant: TenantId, id: &str, expect: Expect) -> Result<(), Refusal> {
        let change = Change::Delete { tenant, id: id.to_owned() };
        match self.ask_provider(tenant, id, expect, change).await? {
            Answer::Gone => {
                if self.providers(tenant).is_empty() {
                    warn!(%tenant, provider = id, "the last account is gone: what the tenant sends fails with no_provider");
                }
                Ok(())
            }
            _ => Err(other()),
        }
    }

    pub fn provider(&self, tenant: TenantId, id: &str) -> Result<Arc<ProviderRow>, Refusal> {
        let found = self.core.control.now().providers.get(&(tenant, id.to_owned())).cloned();
        found.ok_or_else(|| Refusal::UnknownProvider { provider: id.to_owned() })
    }

    /// By name.
    pub fn providers(&self, tenant: TenantId) -> Vec<Arc<ProviderRow>> {
        let control = self.core.control.now();
        let own = control.providers.range((tenant, String::new())..);
        own.take_while(|((of, _), _)| *of == tenant).map(|(_, row)| row.clone()).collect()
    }

    /// Accounts of all tenants whose credentials end before a time.
    #[must_use]
    pub fn providers_ending(&self, before: Millis) -> Vec<Arc<ProviderRow>> {
        let control = self.core.control.now();
        let ends = |row: &&Arc<ProviderRow>| {
            row.put.enabled && row.put.expires.is_some_and(|expires| expires < before)
        };
        control.providers.values().filter(ends).cloned().collect()
    }

    /// An account as it would be used, whether it is switched on or not.
    pub fn provider_account(&self, tenant: TenantId, id: &str) -> Result<Account, Refusal> {
        let row = self.provider(tenant, id)?;
        let secrets = self.core.ports.keyring.open(tenant, Context::Credential, &row.put.secrets);
        Ok(account(&row, Credentials::new(secrets.map_err(locked)?)))
    }

    pub(crate) async fn ask_provider(
        &self,
        tenant: TenantId,
        id: &str,
        expect: Expect,
        change: Change,
    ) -> Result<Answer, Refusal> {
        const ASK_BYTES: usize = 8_192;
        let provider = id.to_owned();
        let ask = RootAsk::Provider(Box::new(Ask { expect, change }));
        let pushed = self.core.root.push(tenant, &self.by, vec![ask], ASK_BYTES);
        let RootAnswer::Provider(answer) = answer(pushed).await? else { return Err(other()) };
        match answer {
            done @ (Answer::Provider { .. } | Answer::Gone | Answer::Rotated) => Ok(done),
            Answer::UnknownTenant => Err(Refusal::UnknownTenant),
            Answer::Unknown => Err(Refusal::UnknownProvider { provider }),
            Answer::OtherKind => Err(Refusal::ProviderKind { provider }),
            Answer::Conflict { current } => Err(Refusal::ProviderConflict { current }),
            Answer::TooMany => Err(Refusal::TooMany { limit: PROVIDERS_PER_TENANT_MAX }),
            Answer::TooManySecrets => Err(Refusal::TooManySecrets { limit: CALLBACK_SECRETS_REPLACED_MAX }),
        }
    }
}

fn other() -> Refusal {
    internal("the root answered something else")
}

fn account(row: &ProviderRow, secrets: Credentials) -> Account {
    let ProviderPut { tenant, id, kind, settings, order, weight, per_second, concurrency, enabled, .. } =
        &row.put;
    Account {
        tenant: *tenant,
        id: id.clone(),
        version: row.version,
        kind: *kind,
        settings: settings.clone(),
        secrets,
        order: *order,
        weight: *weight,
        per_second: *per_second,
        concurrency: *concurrency,
        enabled: *enabled,
    }
}

/// The rows of each tenant that the senders have.
#[derive(Default)]
pub struct Known(Mutex<BTreeMap<TenantId, Vec<ProviderRow>>>);

/// Gives the senders the accounts of those tenants whose rows have changed. The credentials of others stay sealed.
/// `with_history`: tenants that once had an account.
pub fn tell(ports: &Ports, known: &Known, (rows, with_history): (&[ProviderRow], &[TenantId])) {
    ports.accounts.leave_sandbox(with_history.to_vec());
    let mut known = known.0.lock().unwrap_or_else(PoisonError::into_inner);
    let mut now: BTreeMap<TenantId, Vec<&ProviderRow>> = BTreeMap::new();
    for row in rows {
        now.entry(row.put.tenant).or_default().push(row);
    }
    let gone: Vec<TenantId> = known.keys().filter(|tenant| !now.contains_key(tenant)).copied().collect();
    for tenant in gone {
        ports.accounts.replace(tenant, Vec::new());
        known.remove(&tenant);
    }
    for (tenant, rows) in now {
        if known.get(&tenant).is_some_and(|known| known.iter().eq(rows.iter().copied())) {
            continue;
        }
        ports.accounts.replace(tenant, rows.iter().map(|row| opened(ports, row)).collect());
        known.insert(tenant, rows.into_iter().cloned().collect());
    }
}

fn opened(ports: &Ports, row: &ProviderRow) -> Account {
    let secrets = ports.keyring.open(row.put.tenant, Context::Credential, &row.put.secrets);
    if let Err(failed) = &secrets {
        error!(provider = row.put.id, tenant = %row.put.tenant, %failed, "credentials do not open");
    }
    account(row, Credentials::new(secrets.unwrap_or_default()))
}
