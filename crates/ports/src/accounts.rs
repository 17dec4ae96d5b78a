//! Accounts with providers, as whoever sends through them must know them.
//!
//! What must never happen: credentials in a log. `Debug` does not show them, and copies share them.

use fantail_rules::ids::TenantId;
use fantail_rules::provider_kind::ProviderKind;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

pub trait Accounts: Send + Sync {
    /// From now on the tenant has these accounts and no others, whichever were there before. What is under way goes on with
    /// what it began. One that cannot be used is told to the operator and refuses what comes to it; the others, and those of
    /// other tenants, are not touched by that.
    fn replace(&self, tenant: TenantId, accounts: Vec<Account>);

    /// Tenants that have, or once had, an account: what they send never goes to accounts that are not theirs. Told before
    /// `replace`; nobody is taken off again.
    fn leave_sandbox(&self, tenants: Vec<TenantId>);
}

/// An account, opened.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    pub tenant: TenantId,
    /// The tenant's name for it.
    pub id: String,
    /// Grows with every change.
    pub version: u32,
    pub kind: ProviderKind,
    /// JSON.
    pub settings: String,
    /// JSON: keys, passwords, tokens. Empty if it cannot be opened.
    pub secrets: Credentials,
    /// Lower ones are asked first.
    pub order: u16,
    /// The share of users among the accounts of one order.
    pub weight: u16,
    pub per_second: Option<u32>,
    pub concurrency: Option<u32>,
    /// Nothing is sent through one that is switched off.
    pub enabled: bool,
}

/// Credentials in the clear. Copies share the bytes, which are overwritten when the last one goes.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials(Arc<Zeroizing<Vec<u8>>>);

impl Credentials {
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Zeroizing::new(bytes)))
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials(hidden)")
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tenant, id, version, kind, .. } = self;
        write!(formatter, "account {id} ({}, version {version}) of tenant {tenant}", kind.name())
    }
}

/// For nodes that have none.
pub struct NoAccounts;

impl Accounts for NoAccounts {
    fn replace(&self, _: TenantId, _: Vec<Account>) {}

    fn leave_sandbox(&self, _: Vec<TenantId>) {}
}
