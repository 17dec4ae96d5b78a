//! A keyring that behaves like a real one and hides nothing: keys and ciphertexts are hashes of a seed.
//!
//! It exists so that simulations are deterministic. What must never happen: real personal data under it.

use crate::hash::hash_parts;
use fantail_ports::keyring::{Context, DestroyFrom, Keyring, KeyringError, ListName, Sealed};
use fantail_rules::ids::{KeyNo, ListId, Lookup, TenantId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys that one call of `destroy_tenant` destroys.
const KEYS_AT_ONCE: u64 = 16;

/// Everything is "durable" at once: a node that crashes and comes back is given the same keyring.
#[derive(Debug)]
pub struct MemoryKeyring {
    seed: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    tenants: BTreeMap<TenantId, Keys>,
    sealed: u64,
}

#[derive(Debug, Default)]
struct Keys {
    /// The last key handed out; 0 is the tenant's own.
    last: u64,
    destroyed: BTreeSet<KeyNo>,
}

impl MemoryKeyring {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, state: Mutex::default() }
    }

    /// Each call leaves the state whole, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hash(&self, tenant: TenantId, purpose: &[u8], parts: &[&[u8]]) -> u128 {
        let (seed, tenant) = (self.seed.to_be_bytes(), tenant.0.to_be_bytes());
        let mut all: Vec<&[u8]> = vec![&seed, &tenant, purpose];
        all.extend_from_slice(parts);
        hash_parts(&all)
    }

    fn lookup(&self, tenant: TenantId, purpose: &[u8], text: &[u8]) -> Result<[u8; 16], KeyringError> {
        self.lock().known(tenant)?;
        Ok(self.hash(tenant, purpose, &[text]).to_be_bytes())
    }

    /// Encrypts and decrypts: the stream depends on everything the authentication tag depends on.
    fn apply_stream(&self, tenant: TenantId, key: KeyNo, nonce: &[u8; 12], bytes: &mut [u8]) {
        for (block, chunk) in bytes.chunks_mut(16).enumerate() {
            let parts: [&[u8]; 3] = [&key.0.to_be_bytes(), nonce, &(block as u64).to_be_bytes()];
            let pad = self.hash(tenant, b"stream", &parts).to_be_bytes();
            chunk.iter_mut().zip(pad).for_each(|(byte, pad)| *byte ^= pad);
        }
    }

    fn tag(&self, tenant: TenantId, context: Context, sealed: &Sealed, cipher: &[u8]) -> [u8; 16] {
        let parts: [&[u8]; 4] = [&[context as u8], &sealed.key.0.to_be_bytes(), &sealed.nonce, cipher];
        self.hash(tenant, b"tag", &parts).to_be_bytes()
    }
}

impl State {
    fn known(&mut self, tenant: TenantId) -> Result<&mut Keys, KeyringError> {
        self.tenants.get_mut(&tenant).ok_or(KeyringError::UnknownTenant { tenant })
    }

    fn usable(&mut self, tenant: TenantId, key: KeyNo) -> Result<(), KeyringError> {
        let keys = self.known(tenant)?;
        if key.0 <= keys.last && !keys.destroyed.contains(&key) {
            Ok(())
        } else {
            Err(KeyringError::NoKey { tenant, key })
        }
    }
}

impl Keyring for MemoryKeyring {
    fn create_tenant(&self, tenant: TenantId) -> Result<(), KeyringError> {
        self.lock().tenants.entry(tenant).or_default();
        Ok(())
    }

    fn mint(&self, tenant: TenantId) -> Result<KeyNo, KeyringError> {
        let mut state = self.lock();
        let keys = state.known(tenant)?;
        keys.last += 1;
        Ok(KeyNo(keys.last))
    }

    fn seal(
        &self,
        tenant: TenantId,
        key: KeyNo,
        context: Context,
        plain: &[u8],
    ) -> Result<Sealed, KeyringError> {
        let mut state = self.lock();
        state.usable(tenant, key)?;
        state.sealed += 1;
        let mut sealed = Sealed { key, nonce: [0; 12], bytes: plain.to_vec() };
        sealed.nonce[4..].copy_from_slice(&state.sealed.to_be_bytes());
        drop(state);
        self.apply_stream(tenant, key, &sealed.nonce, &mut sealed.bytes);
        let tag = self.tag(tenant, context, &sealed, &sealed.bytes);
        sealed.bytes.extend_from_slice(&tag);
        Ok(sealed)
    }

    fn open(&self, tenant: TenantId, context: Context, sealed: &Sealed) -> Result<Vec<u8>, KeyringError> {
        let key = sealed.key;
        self.lock().usable(tenant, key)?;
        let split = sealed.bytes.split_last_chunk::<16>();
        let (cipher, tag) = split.ok_or(KeyringError::DoesNotOpen { tenant, key })?;
        if *tag != self.tag(tenant, context, sealed, cipher) {
            return Err(KeyringError::DoesNotOpen { tenant, key });
        }
        let mut plain = cipher.to_vec();
        self.apply_stream(tenant, key, &sealed.nonce, &mut plain);
        Ok(plain)
    }

    fn open_all(
        &self,
        tenant: TenantId,
        context: Context,
        sealed: Vec<Sealed>,
    ) -> Result<Vec<Option<Vec<u8>>>, KeyringError> {
        self.lock().known(tenant)?;
        Ok(sealed.iter().map(|one| self.open(tenant, context, one).ok()).collect())
    }

    fn lookup_user(&self, tenant: TenantId, external_id: &str) -> Result<Lookup, KeyringError> {
        self.lookup(tenant, b"user", external_id.as_bytes()).map(Lookup)
    }

    fn lookup_list(&self, tenant: TenantId, list: ListName<'_>) -> Result<ListId, KeyringError> {
        match list {
            ListName::FollowersOf(actor) => self.lookup(tenant, b"followers", actor.as_bytes()).map(ListId),
            ListName::Topic(topic) => self.lookup(tenant, b"topic", topic.as_bytes()).map(ListId),
        }
    }

    fn digest(&self, tenant: TenantId, text: &[u8]) -> Result<[u8; 16], KeyringError> {
        self.lookup(tenant, b"digest", text)
    }

    fn secrets(&self, tenant: TenantId, keys: &[KeyNo]) -> Result<Vec<Option<[u8; 32]>>, KeyringError> {
        let mut state = self.lock();
        state.known(tenant)?;
        let usable: Vec<bool> = keys.iter().map(|key| state.usable(tenant, *key).is_ok()).collect();
        drop(state);
        let secret = |(key, usable): (&KeyNo, bool)| {
            let mut secret = [0; 32];
            for (half, bytes) in secret.chunks_mut(16).enumerate() {
                let parts: [&[u8]; 2] = [&key.0.to_be_bytes(), &(half as u64).to_be_bytes()];
                bytes.copy_from_slice(&self.hash(tenant, b"secret", &parts).to_be_bytes());
            }
            usable.then_some(secret)
        };
        Ok(keys.iter().zip(usable).map(secret).collect())
    }

    fn destroy(&self, tenant: TenantId, key: KeyNo) -> Result<(), KeyringError> {
        let mut state = self.lock();
        let keys = state.known(tenant)?;
        // A key that was never handed out has nothing to destroy, and must not be dead when it is.
        if key.0 <= keys.last {
            keys.destroyed.insert(key);
        }
        Ok(())
    }

    /// Some keys at a time, as a real engine does.
    fn destroy_tenant(
        &self,
        tenant: TenantId,
        DestroyFrom(from): DestroyFrom,
    ) -> Result<Option<DestroyFrom>, KeyringError> {
        let mut state = self.lock();
        let Ok(keys) = state.known(tenant) else { return Ok(None) };
        let end = from.saturating_add(KEYS_AT_ONCE);
        keys.destroyed.extend((from..end.min(keys.last + 1)).map(KeyNo));
        Ok((end <= keys.last).then_some(DestroyFrom(end)))
    }
}
