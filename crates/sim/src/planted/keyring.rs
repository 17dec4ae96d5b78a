//! A keyring that hashes the names of all users with the pepper of one tenant.

use fantail_memory::keyring::MemoryKeyring;
use fantail_ports::keyring::{Context, DestroyFrom, Keyring, KeyringError, ListName, Sealed};
use fantail_rules::ids::{KeyNo, ListId, Lookup, TenantId};
use std::sync::Arc;

pub struct OnePepper(pub Arc<MemoryKeyring>);

impl Keyring for OnePepper {
    fn create_tenant(&self, tenant: TenantId) -> Result<(), KeyringError> {
        self.0.create_tenant(tenant)
    }

    fn mint(&self, tenant: TenantId) -> Result<KeyNo, KeyringError> {
        self.0.mint(tenant)
    }

    fn seal(
        &self,
        tenant: TenantId,
        key: KeyNo,
        context: Context,
        plain: &[u8],
    ) -> Result<Sealed, KeyringError> {
        self.0.seal(tenant, key, context, plain)
    }

    fn open(&self, tenant: TenantId, context: Context, sealed: &Sealed) -> Result<Vec<u8>, KeyringError> {
        self.0.open(tenant, context, sealed)
    }

    fn open_all(
        &self,
        tenant: TenantId,
        context: Context,
        sealed: Vec<Sealed>,
    ) -> Result<Vec<Option<Vec<u8>>>, KeyringError> {
        self.0.open_all(tenant, context, sealed)
    }

    fn lookup_user(&self, _: TenantId, external_id: &str) -> Result<Lookup, KeyringError> {
        self.0.lookup_user(TenantId(1), external_id)
    }

    fn lookup_list(&self, tenant: TenantId, list: ListName<'_>) -> Result<ListId, KeyringError> {
        self.0.lookup_list(tenant, list)
    }

    fn digest(&self, tenant: TenantId, text: &[u8]) -> Result<[u8; 16], KeyringError> {
        self.0.digest(tenant, text)
    }

    fn secrets(&self, tenant: TenantId, keys: &[KeyNo]) -> Result<Vec<Option<[u8; 32]>>, KeyringError> {
        self.0.secrets(tenant, keys)
    }

    fn destroy(&self, tenant: TenantId, key: KeyNo) -> Result<(), KeyringError> {
        self.0.destroy(tenant, key)
    }

    fn destroy_tenant(
        &self,
        tenant: TenantId,
        from: DestroyFrom,
    ) -> Result<Option<DestroyFrom>, KeyringError> {
        self.0.destroy_tenant(tenant, from)
    }
}
