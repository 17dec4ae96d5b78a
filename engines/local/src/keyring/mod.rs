//! The local keyring: one file of keys per tenant, sealed under the server key.
//!
//! The server key is a file of 32 random bytes, or given by the operator. What must never happen: a key outside of
//! this directory, a new server key over tenants of an old one, or anything secret in a log.

mod file;
mod seal;
mod tenant;
mod vault;

use fantail_ports::keyring::{Context, Keyring, KeyringError, ListName, Sealed};
use fantail_rules::ids::{KeyNo, ListId, Lookup, TenantId};
use file::{KeyFile, write_whole};
use seal::{KEY_BYTES, Kind, SealKey, associated, random};
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tenant::Tenant;
use vault::Vault;

#[derive(Clone)]
pub struct KeyringOptions {
    pub directory: PathBuf,
    /// Given by the operator; otherwise it is made once and kept beside the keys.
    pub server_key: Option<[u8; KEY_BYTES]>,
    /// Memory for the keys of users, 32 bytes each.
    pub cache_bytes: usize,
}

impl KeyringOptions {
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), server_key: None, cache_bytes: 384 << 20 }
    }
}

impl fmt::Debug for KeyringOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server_key = self.server_key.map(|_| "redacted");
        f.debug_struct("KeyringOptions")
            .field("directory", &self.directory)
            .field("server_key", &server_key)
            .field("cache_bytes", &self.cache_bytes)
            .finish()
    }
}

pub struct LocalKeyring {
    directory: PathBuf,
    vault: Vault,
    tenants: RwLock<HashMap<TenantId, Arc<Tenant>>>,
}

impl fmt::Debug for LocalKeyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKeyring").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl LocalKeyring {
    /// Opens the keyring, or creates it in an empty directory. A server key that is not the one the directory
    /// was made with is refused.
    pub fn open(options: KeyringOptions) -> Result<Self, KeyringError> {
        let KeyringOptions { directory, server_key, cache_bytes } = options;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|cause| failed(&directory, &cause))?;
        let server = match server_key {
            Some(given) => given,
            None => server_key_of(&directory)?,
        };
        let server = SealKey::new(&server);
        check_server_key(&directory, &server)?;
        Ok(Self { directory, vault: Vault::new(server, cache_bytes), tenants: RwLock::default() })
    }

    fn tenant(&self, id: TenantId) -> Result<Arc<Tenant>, KeyringError> {
        if let Some(tenant) = self.tenants.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return Ok(Arc::clone(tenant));
        }
        // Under the write lock, so that a tenant is opened, and thus repaired, by one thread only.
        let mut tenants = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(tenant) = tenants.get(&id) {
            return Ok(Arc::clone(tenant));
        }
        let file = KeyFile::new(&self.directory, id);
        if !file.exists()? {
            return Err(KeyringError::UnknownTenant { tenant: id });
        }
        let tenant = Arc::new(Tenant::open(id, file, &self.vault.server)?);
        tenants.insert(id, Arc::clone(&tenant));
        Ok(tenant)
    }
}

impl Keyring for LocalKeyring {
    fn create_tenant(&self, tenant: TenantId) -> Result<(), KeyringError> {
        let _one_at_a_time = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        let file = KeyFile::new(&self.directory, tenant);
        if file.exists()? { Ok(()) } else { file.create(&self.vault.server) }
    }

    fn mint(&self, tenant: TenantId) -> Result<KeyNo, KeyringError> {
        self.tenant(tenant)?.mint(&self.vault)
    }

    fn seal(
        &self,
        tenant: TenantId,
        key: KeyNo,
        context: Context,
        plain: &[u8],
    ) -> Result<Sealed, KeyringError> {
        let seal_key = self.tenant(tenant)?.key(&self.vault, key)?;
        let mut bytes = Vec::with_capacity(plain.len() + seal::TAG_BYTES);
        bytes.extend_from_slice(plain);
        let nonce = seal_key.seal(&associated(tenant, context, key), &mut bytes);
        Ok(Sealed { key, nonce, bytes })
    }

    fn open(&self, tenant: TenantId, context: Context, sealed: &Sealed) -> Result<Vec<u8>, KeyringError> {
        let key = self.tenant(tenant)?.key(&self.vault, sealed.key)?;
        opened(&key, tenant, context, sealed.clone())
            .ok_or(KeyringError::DoesNotOpen { tenant, key: sealed.key })
    }

    fn open_all(
        &self,
        tenant: TenantId,
        context: Context,
        sealed: Vec<Sealed>,
    ) -> Result<Vec<Option<Vec<u8>>>, KeyringError> {
        let keys = self.tenant(tenant)?;
        let mut at_hand: Option<(KeyNo, Option<Arc<SealKey>>)> = None;
        let mut all = Vec::with_capacity(sealed.len());
        for one in sealed {
            let key = match at_hand.take() {
                Some((no, key)) if no == one.key => key,
                _ => match keys.key(&self.vault, one.key) {
                    Ok(key) => Some(key),
                    Err(KeyringError::NoKey { .. }) => None,
                    Err(failed) => return Err(failed),
                },
            };
            let of = one.key;
            all.push(key.as_ref().and_then(|key| opened(key, tenant, context, one)));
            at_hand = Some((of, key));
        }
        Ok(all)
    }

    fn lookup_user(&self, tenant: TenantId, external_id: &str) -> Result<Lookup, KeyringError> {
        Ok(Lookup(self.tenant(tenant)?.lookup(Kind::User, external_id.as_bytes())))
    }

    fn lookup_list(&self, tenant: TenantId, list: ListName<'_>) -> Result<ListId, KeyringError> {
        let (kind, name) = match list {
            ListName::FollowersOf(actor) => (Kind::Followers, actor),
            ListName::Topic(topic) => (Kind::Topic, topic),
        };
        Ok(ListId(self.tenant(tenant)?.lookup(kind, name.as_bytes())))
    }

    fn digest(&self, tenant: TenantId, text: &[u8]) -> Result<[u8; 16], KeyringError> {
        Ok(self.tenant(tenant)?.lookup(Kind::Digest, text))
    }

    fn secrets(&self, tenant: TenantId, keys: &[KeyNo]) -> Result<Vec<Option<[u8; 32]>>, KeyringError> {
        let tenant = self.tenant(tenant)?;
        keys.iter().map(|key| tenant.secret(&self.vault, *key)).collect()
    }

    fn destroy(&self, tenant: TenantId, key: KeyNo) -> Result<(), KeyringError> {
        self.tenant(tenant)?.destroy(&self.vault, key)
    }
}

fn opened(key: &SealKey, tenant: TenantId, context: Context, sealed: Sealed) -> Option<Vec<u8>> {
    let mut bytes = sealed.bytes;
    let length = key.open(&associated(tenant, context, sealed.key), sealed.nonce, &mut bytes)?.len();
    bytes.truncate(length);
    Some(bytes)
}

const CHECK: &str = "server.check";

fn server_key_of(directory: &Path) -> Result<[u8; KEY_BYTES], KeyringError> {
    let path = directory.join("server.key");
    match fs::read(&path) {
        Ok(bytes) => bytes.try_into().map_err(|_| damaged(&path, "is not 32 bytes long")),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            if directory.join(CHECK).exists() {
                return Err(damaged(&path, "is missing, and the keys beside it need it"));
            }
            let key = random();
            write_whole(&path, &key).map_err(|cause| failed(&path, &cause))?;
            Ok(key)
        }
        Err(cause) => Err(failed(&path, &cause)),
    }
}

/// A sealed nothing: it opens under the server key that the directory was made with, and under no other.
fn check_server_key(directory: &Path, server: &SealKey) -> Result<(), KeyringError> {
    let path = directory.join(CHECK);
    match fs::read(&path) {
        Ok(mut bytes) => {
            let split = bytes.split_first_chunk_mut().map(|(nonce, cipher)| (*nonce, cipher));
            let opened = split.and_then(|(nonce, cipher)| server.open(CHECK.as_bytes(), nonce, cipher));
            opened.map(|_| ()).ok_or_else(|| damaged(&path, "was made with another server key"))
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            let mut cipher = Vec::new();
            let nonce = server.seal(CHECK.as_bytes(), &mut cipher);
            write_whole(&path, &[&nonce[..], &cipher].concat()).map_err(|cause| failed(&path, &cause))
        }
        Err(cause) => Err(failed(&path, &cause)),
    }
}

fn damaged(path: &Path, reason: &str) -> KeyringError {
    KeyringError::Damaged { file: path.display().to_string(), reason: reason.to_owned() }
}

fn failed(path: &Path, cause: &io::Error) -> KeyringError {
    KeyringError::Io { file: path.display().to_string(), reason: cause.to_string() }
}
