//! The local keyring: one file of keys per tenant, sealed under the server key.
//!
//! The server key is a file of 32 random bytes, or given by the operator. What must never happen: a key outside of
//! this directory, a new server key over tenants of an old one, or anything secret in a log.

mod file;
mod manifest;
mod rotation;
mod seal;
mod tenant;
mod vault;

pub use rotation::{InterruptedRotation, NextServerKey, Rotated, settle_rotation};
pub use seal::KEY_BYTES;

use crate::disk::{Disk, RealDisk, read_whole};
use crate::journal::FailureCallback;
use fantail_ports::keyring::{Context, DestroyFrom, Keyring, KeyringError, ListName, Sealed};
use fantail_rules::ids::{KeyNo, ListId, Lookup, TenantId};
use file::BATCH_KEYS;
use file::{KeyFile, write_whole};
use manifest::{Batches, Manifest, manifest_path};
use seal::{Kind, SealKey, associated, random};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tenant::Tenant;
use vault::Vault;

#[derive(Clone)]
pub struct KeyringOptions {
    pub directory: PathBuf,
    /// Given by the operator; otherwise it is made once and kept beside the keys.
    pub server_key: Option<[u8; KEY_BYTES]>,
    /// Where the server key comes from, for the message that it is a wrong one.
    pub server_key_source: String,
    /// Memory for the keys of users, 32 bytes each.
    pub cache_bytes: usize,
    /// Every key is opened once on open, up to this many bytes of files.
    pub verify_bytes_max: u64,
    /// Called once when a write or sync failed. Nothing more can be promised: stop the process.
    pub on_failure: Option<FailureCallback>,
}

impl KeyringOptions {
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            server_key: None,
            server_key_source: "keys/server.key".to_owned(),
            cache_bytes: 384 << 20,
            verify_bytes_max: 1 << 30,
            on_failure: None,
        }
    }
}

impl fmt::Debug for KeyringOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server_key = self.server_key.map(|_| "redacted");
        f.debug_struct("KeyringOptions")
            .field("directory", &self.directory)
            .field("server_key", &server_key)
            .field("server_key_source", &self.server_key_source)
            .field("cache_bytes", &self.cache_bytes)
            .field("verify_bytes_max", &self.verify_bytes_max)
            .finish_non_exhaustive()
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
    /// was made with is refused, and so is a file of keys that is missing or has less than was handed out.
    pub fn open(options: KeyringOptions) -> Result<Self, KeyringError> {
        Self::open_on(Arc::new(RealDisk), options)
    }

    /// Opens the keyring on another disk.
    pub fn open_on(disk: Arc<dyn Disk>, options: KeyringOptions) -> Result<Self, KeyringError> {
        let KeyringOptions {
            directory,
            server_key,
            server_key_source,
            cache_bytes,
            verify_bytes_max,
            on_failure,
        } = options;
        let made = disk.create_private_dir(&directory);
        // What a process has named that was killed before it synced the name counts from now on.
        made.and_then(|()| disk.sync_dir(&directory)).map_err(|cause| failed(&directory, &cause))?;
        settle_rotation(&*disk, &directory)?;
        let server = match server_key {
            Some(given) => given,
            None => server_key_of(&*disk, &directory)?,
        };
        let server = SealKey::new(&server);
        let batches = named(&*disk, &directory, &server, &server_key_source)?;
        let manifest = Manifest::new(&directory, batches);
        let vault = Vault::new(disk, server, manifest, on_failure, cache_bytes);
        let keyring = Self { directory, vault, tenants: RwLock::default() };
        keyring.verify(verify_bytes_max)?;
        Ok(keyring)
    }

    /// Whether every file has all keys that were handed out.
    fn verify(&self, bytes_max: u64) -> Result<(), KeyringError> {
        let Vault { disk, server, manifest, .. } = &self.vault;
        let mut left = bytes_max;
        for (id, certain) in manifest.tenants() {
            let file = KeyFile::new(&self.directory, id);
            let (_, batches) = file.open(&**disk, server, Some(certain))?;
            let bytes = batches * BATCH_KEYS as u64 * KEY_BYTES as u64;
            if bytes <= left {
                file.verify(&**disk, server, batches)?;
                left -= bytes;
            }
        }
        Ok(())
    }

    /// Copies all keys to a directory that opens as a keyring, while they are used. Returns the bytes.
    pub fn copy_to(&self, directory: &Path) -> Result<u64, KeyringError> {
        let disk = &*self.vault.disk;
        disk.create_private_dir(directory).map_err(|cause| failed(directory, &cause))?;
        let (mut batches, mut bytes) = (Batches::new(), 0);
        for id in self.vault.manifest.tenants().into_keys() {
            let (copied, more) = self.tenant(id)?.copy(&self.vault, directory)?;
            batches.insert(id, copied);
            bytes += more;
        }
        let mut write = |name: &str, content: &[u8]| {
            bytes += content.len() as u64;
            let path = directory.join(name);
            write_whole(disk, &path, content).map_err(|unwritten| failed(&path, &unwritten.into_cause()))
        };
        for name in [SERVER_KEY, CHECK] {
            match read_whole(disk, &self.directory.join(name)) {
                Ok(content) => write(name, &content)?,
                // A server key that the operator gives is not stored.
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => return Err(failed(&self.directory.join(name), &cause)),
            }
        }
        write(MANIFEST, &manifest::encode(&batches))?;
        Ok(bytes)
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
        if self.vault.manifest.batches(id).is_none() {
            return Err(KeyringError::UnknownTenant { tenant: id });
        }
        let file = KeyFile::new(&self.directory, id);
        let tenant = Arc::new(Tenant::open(id, file, &self.vault)?);
        tenants.insert(id, Arc::clone(&tenant));
        Ok(tenant)
    }
}

impl Keyring for LocalKeyring {
    fn create_tenant(&self, tenant: TenantId) -> Result<(), KeyringError> {
        let _one_at_a_time = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        let (file, vault) = (KeyFile::new(&self.directory, tenant), &self.vault);
        if vault.manifest.batches(tenant).is_some() {
            return Ok(());
        }
        // One that is there and not named was created before a crash, and nothing was sealed with it.
        if !file.exists(&*vault.disk)? {
            file.create(vault)?;
        }
        vault.change(vault.manifest.path(), |disk| vault.manifest.set(disk, tenant, 0))
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

    fn destroy_tenant(
        &self,
        tenant: TenantId,
        DestroyFrom(from): DestroyFrom,
    ) -> Result<Option<DestroyFrom>, KeyringError> {
        if self.vault.manifest.batches(tenant).is_none() {
            return Ok(None);
        }
        let next = self.tenant(tenant)?.destroy_from(&self.vault, from)?;
        if next.is_none() {
            // What is opened next has no pepper in memory either.
            self.tenants.write().unwrap_or_else(PoisonError::into_inner).remove(&tenant);
        }
        Ok(next.map(DestroyFrom))
    }
}

fn opened(key: &SealKey, tenant: TenantId, context: Context, sealed: Sealed) -> Option<Vec<u8>> {
    key.open(&associated(tenant, context, sealed.key), sealed.nonce, sealed.bytes)
}

const SERVER_KEY: &str = "server.key";
const CHECK: &str = "server.check";
const MANIFEST: &str = "manifest";

/// What the check is bound to: once there is a manifest, and in directories from before it.
const WITH_MANIFEST: &[u8] = b"server.check 2";
const WITHOUT_MANIFEST: &[u8] = b"server.check";

/// A server key for a rotation.
#[must_use]
pub fn new_server_key() -> [u8; KEY_BYTES] {
    random()
}

fn server_key_of(disk: &dyn Disk, directory: &Path) -> Result<[u8; KEY_BYTES], KeyringError> {
    let path = directory.join(SERVER_KEY);
    match read_whole(disk, &path) {
        Ok(bytes) => bytes.try_into().map_err(|_| damaged(&path, "is not 32 bytes long")),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            let names = disk.list(directory).map_err(|cause| failed(directory, &cause))?;
            if names.iter().any(|name| name == CHECK || KeyFile::tenant_of(name).is_some()) {
                return Err(damaged(
                    &path,
                    "is missing, and the keys beside it need it, unless the server key is kept elsewhere",
                ));
            }
            let key = random();
            write_whole(disk, &path, &key).map_err(|unwritten| failed(&path, &unwritten.into_cause()))?;
            Ok(key)
        }
        Err(cause) => Err(failed(&path, &cause)),
    }
}

/// The batches of all tenants, as the manifest names them. A new directory gets a manifest, and so does one from before it.
fn named(disk: &dyn Disk, directory: &Path, server: &SealKey, source: &str) -> Result<Batches, KeyringError> {
    let path = directory.join(CHECK);
    let names = disk.list(directory).map_err(|cause| failed(directory, &cause))?;
    let tenants: Vec<TenantId> = names.iter().filter_map(|name| KeyFile::tenant_of(name)).collect();
    let has_manifest = match read_whole(disk, &path) {
        Ok(bytes) if opens(server, &bytes, WITH_MANIFEST) => true,
        Ok(bytes) if opens(server, &bytes, WITHOUT_MANIFEST) => false,
        Ok(_) => {
            let reason =
                format!("does not open under {source}: it is another key, or one of the two was changed");
            return Err(damaged(&path, &reason));
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound && tenants.is_empty() => false,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            return Err(damaged(&path, "is missing, and there are keys beside it"));
        }
        Err(cause) => return Err(failed(&path, &cause)),
    };
    let found = manifest::read(disk, directory)?;
    if has_manifest {
        return found
            .ok_or_else(|| damaged(&manifest_path(directory), "is missing, and says which keys there are"));
    }
    let mut batches = found.unwrap_or_default();
    for id in tenants {
        let (_, made) = KeyFile::new(directory, id).open(disk, server, None)?;
        batches.insert(id, made);
    }
    // The check last: from then on the manifest must be there.
    let contents = [(manifest_path(directory), manifest::encode(&batches)), (path, check_of(server))];
    for (path, content) in contents {
        write_whole(disk, &path, &content).map_err(|unwritten| failed(&path, &unwritten.into_cause()))?;
    }
    Ok(batches)
}

/// The check of a directory with a manifest.
fn check_of(server: &SealKey) -> Vec<u8> {
    let mut cipher = Vec::new();
    let nonce = server.seal(WITH_MANIFEST, &mut cipher);
    [&nonce[..], &cipher].concat()
}

/// A sealed nothing: it opens under the server key that the directory was made with, and under no other.
fn opens(server: &SealKey, check: &[u8], bound_to: &[u8]) -> bool {
    let Some((nonce, cipher)) = check.split_first_chunk() else { return false };
    server.open(bound_to, *nonce, cipher.to_vec()).is_some()
}

fn damaged(path: &Path, reason: &str) -> KeyringError {
    KeyringError::Damaged { file: path.display().to_string(), reason: reason.to_owned() }
}

fn failed(path: &Path, cause: &io::Error) -> KeyringError {
    KeyringError::Io { file: path.display().to_string(), reason: cause.to_string() }
}

#[cfg(test)]
mod tests;
