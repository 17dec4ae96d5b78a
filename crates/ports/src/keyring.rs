//! Keys of tenants and users, and what is done with them. Keys never leave the keyring: not into the journal,
//! not into tables, not into snapshots. Destroying a user's key makes everything sealed under it unreadable.

use fantail_rules::ids::{KeyNo, ListId, Lookup, TenantId};
use thiserror::Error;

pub trait Keyring: Send + Sync {
    /// Creates a tenant's pepper and its own key ([`KeyNo::TENANT`]). Durable on return. Again: a no-op.
    fn create_tenant(&self, tenant: TenantId) -> Result<(), KeyringError>;

    /// A new key, never handed out before. Durable on return, so that nothing is ever sealed under a key that a
    /// crash could take away. A key that is never used costs a few bytes.
    fn mint(&self, tenant: TenantId) -> Result<KeyNo, KeyringError>;

    /// Seals `plain` under a key, with a fresh nonce. `context` names what is sealed and must be given again.
    fn seal(
        &self,
        tenant: TenantId,
        key: KeyNo,
        context: Context,
        plain: &[u8],
    ) -> Result<Sealed, KeyringError>;

    /// Opens what [`seal`](Keyring::seal) made. Fails if one bit, the tenant, the key or the context differs.
    fn open(&self, tenant: TenantId, context: Context, sealed: &Sealed) -> Result<Vec<u8>, KeyringError>;

    /// Opens many, in their order; `None` for what does not open, as its key was destroyed. Neighbours under one key cost
    /// little more than one of them.
    fn open_all(
        &self,
        tenant: TenantId,
        context: Context,
        sealed: Vec<Sealed>,
    ) -> Result<Vec<Option<Vec<u8>>>, KeyringError>;

    /// The keyed hash of an external user id: equal ids of one tenant give equal lookups.
    fn lookup_user(&self, tenant: TenantId, external_id: &str) -> Result<Lookup, KeyringError>;

    /// The keyed hash of a list's name.
    fn lookup_list(&self, tenant: TenantId, list: ListName<'_>) -> Result<ListId, KeyringError>;

    /// A keyed hash of anything else (idempotency keys), distinct from the others.
    fn digest(&self, tenant: TenantId, text: &[u8]) -> Result<[u8; 16], KeyringError>;

    /// For each key a secret that is derived from it alone: always the same, of no use for what is sealed under the
    /// key, and gone with it. `None` for a key that does not exist or was destroyed.
    fn secrets(&self, tenant: TenantId, keys: &[KeyNo]) -> Result<Vec<Option<[u8; 32]>>, KeyringError>;

    /// Destroys a key for good. Durable on return. Again: a no-op.
    fn destroy(&self, tenant: TenantId, key: KeyNo) -> Result<(), KeyringError>;
}

/// A list is named by its actor or by its topic; the two never collide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListName<'a> {
    FollowersOf(&'a str),
    Topic(&'a str),
}

/// What a sealed value is, bound to it as associated data. Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Context {
    UserId = 1,
    UserAttributes = 2,
    ListName = 3,
    Actor = 4,
    Content = 5,
    DeviceName = 6,
    Address = 7,
    DeviceMeta = 8,
    CollapseKey = 9,
    Link = 10,
    /// What a tenant proves itself to a provider with.
    Credential = 11,
    /// What a producer calls a notification or a bulk send.
    NotificationName = 12,
    /// Who was erased, in the list of erasures.
    ErasedUser = 13,
}

/// Personal bytes as they travel through journal and tables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sealed {
    pub key: KeyNo,
    pub nonce: [u8; 12],
    /// Ciphertext with its authentication tag.
    pub bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum KeyringError {
    #[error("tenant {tenant} has no keys")]
    UnknownTenant { tenant: TenantId },
    #[error("key {key} of tenant {tenant} does not exist or was destroyed")]
    NoKey { tenant: TenantId, key: KeyNo },
    #[error("sealed bytes do not open under key {key} of tenant {tenant}")]
    DoesNotOpen { tenant: TenantId, key: KeyNo },
    /// Refuse to start: the file does not open under the server key.
    #[error("keyring {file} is damaged or belongs to another server key: {reason}")]
    Damaged { file: String, reason: String },
    #[error("keyring {file} has format {found}, this build reads up to {known}")]
    NewerFormat { file: String, found: u32, known: u32 },
    #[error("keyring input/output failed: {file}: {reason}")]
    Io { file: String, reason: String },
}
