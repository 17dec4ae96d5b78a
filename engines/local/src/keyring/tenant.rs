//! The keys of one tenant: its pepper and its own key in memory, those of its users through the vault.

use super::file::{BATCH_KEYS, BLOCK_KEYS, Block, Head, KeyFile};
use super::seal::{KEY_BYTES, Kind, SealKey, lookup, secret_of};
use super::vault::{Rewrites, Vault};
use aws_lc_rs::hmac;
use fantail_ports::keyring::KeyringError;
use fantail_rules::ids::{KeyNo, TenantId};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Blocks that one call of `destroy_from` rewrites, each with two syncs.
const BLOCKS_AT_ONCE: u64 = 16;

pub struct Tenant {
    id: TenantId,
    file: KeyFile,
    pepper: hmac::Key,
    own: RwLock<Option<Arc<SealKey>>>,
    /// Keys in the file. Written by whoever has `keys`.
    made: AtomicU64,
    rewrites: Rewrites,
    /// Guards every write to the file.
    keys: Mutex<Keys>,
}

struct Keys {
    head: Head,
    /// Handed out, or lost with the process that could have.
    given: u64,
}

impl Tenant {
    pub fn open(id: TenantId, file: KeyFile, vault: &Vault) -> Result<Self, KeyringError> {
        let certain = vault.manifest.batches(id);
        let (head, batches) = file.open(&*vault.disk, &vault.server, certain)?;
        if certain != Some(batches) {
            vault.change(vault.manifest.path(), |disk| vault.manifest.set(disk, id, batches))?;
        }
        let made = batches * BATCH_KEYS as u64;
        let own = (head.own != [0; KEY_BYTES]).then(|| Arc::new(SealKey::of_tenant(&head.own)));
        Ok(Self {
            id,
            file,
            pepper: hmac::Key::new(hmac::HMAC_SHA256, &head.pepper),
            own: RwLock::new(own),
            made: AtomicU64::new(made),
            rewrites: Rewrites::default(),
            // Which keys of the last batch were given is not known: none of them is given again.
            keys: Mutex::new(Keys { head, given: made }),
        })
    }

    pub fn lookup(&self, kind: Kind, text: &[u8]) -> [u8; 16] {
        lookup(&self.pepper, kind, text)
    }

    pub fn mint(&self, vault: &Vault) -> Result<KeyNo, KeyringError> {
        let mut keys = self.keys();
        let made = self.made();
        if keys.given == made {
            self.file.append_batch(vault, made / BATCH_KEYS as u64)?;
            self.made.store(made + BATCH_KEYS as u64, Ordering::Release);
        }
        keys.given += 1;
        Ok(KeyNo(keys.given))
    }

    pub fn key(&self, vault: &Vault, key: KeyNo) -> Result<Arc<SealKey>, KeyringError> {
        let missing = KeyringError::NoKey { tenant: self.id, key };
        if key == KeyNo::TENANT {
            return self.own.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(missing);
        }
        let bytes = self.bytes(vault, key)?;
        bytes.map(|bytes| Arc::new(SealKey::new(&bytes))).ok_or(missing)
    }

    pub fn secret(&self, vault: &Vault, key: KeyNo) -> Result<Option<[u8; 32]>, KeyringError> {
        if key == KeyNo::TENANT {
            let own = self.keys().head.own;
            return Ok((own != [0; KEY_BYTES]).then(|| secret_of(&own)));
        }
        Ok(self.bytes(vault, key)?.map(|bytes| secret_of(&bytes)))
    }

    /// The bytes of a user's key; `None` if there is no such key, or none any more.
    fn bytes(&self, vault: &Vault, key: KeyNo) -> Result<Option<[u8; KEY_BYTES]>, KeyringError> {
        let usable = |bytes: [u8; KEY_BYTES]| (bytes != [0; KEY_BYTES]).then_some(bytes);
        if key.0 > self.made() {
            return Ok(None);
        }
        let (no, slot) = place(key);
        if let Some(bytes) = vault.look(self.id, no, |block| slot_of(block, slot)) {
            return Ok(usable(bytes));
        }
        if let Some(seen) = self.rewrites.seen()
            && let Ok(block) = self.file.read_block(vault, no)
        {
            let found = usable(slot_of(&block, slot));
            vault.put_if(self.id, no, block, seen, &self.rewrites);
            return Ok(found);
        }
        // It may have been read while it was rewritten: once more, while nobody writes.
        let _nobody_writes = self.keys();
        let block = self.file.read_block(vault, no)?;
        let found = usable(slot_of(&block, slot));
        vault.put(self.id, no, block);
        Ok(found)
    }

    pub fn destroy(&self, vault: &Vault, key: KeyNo) -> Result<(), KeyringError> {
        let mut keys = self.keys();
        if key == KeyNo::TENANT {
            let head = Head { pepper: keys.head.pepper, own: [0; KEY_BYTES] };
            self.file.write_head(vault, &head)?;
            keys.head = head;
            *self.own.write().unwrap_or_else(PoisonError::into_inner) = None;
            return Ok(());
        }
        // A key that was never given has nothing to destroy, and must not be dead when it is.
        if key.0 > keys.given {
            return Ok(());
        }
        let (no, slot) = place(key);
        self.rewrites.turn();
        let rewritten = self.without(vault, no, slot).map(|block| vault.put(self.id, no, block));
        self.rewrites.turn();
        rewritten
    }

    /// Destroys the tenant's own key and its pepper, then the keys of some blocks. Returns the block to go on from.
    pub fn destroy_from(&self, vault: &Vault, from: u64) -> Result<Option<u64>, KeyringError> {
        let mut keys = self.keys();
        if from == 0 && (keys.head.own, keys.head.pepper) != ([0; KEY_BYTES], [0; KEY_BYTES]) {
            let head = Head { pepper: [0; KEY_BYTES], own: [0; KEY_BYTES] };
            self.file.write_head(vault, &head)?;
            keys.head = head;
            *self.own.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
        // None of the keys that were not given yet is given any more.
        keys.given = self.made();
        let blocks = self.made() / BLOCK_KEYS as u64;
        let end = from.saturating_add(BLOCKS_AT_ONCE).min(blocks);
        for no in from..end {
            self.rewrites.turn();
            let emptied = self.emptied(vault, no).map(|block| vault.put(self.id, no, block));
            self.rewrites.turn();
            emptied?;
        }
        Ok((end < blocks).then_some(end))
    }

    /// A block in whose file every slot is empty from now on.
    fn emptied(&self, vault: &Vault, no: u64) -> Result<Box<Block>, KeyringError> {
        let mut block = self.file.read_block(vault, no)?;
        if block.iter().any(|byte| *byte != 0) {
            block.fill(0);
            self.file.write_block(vault, no, &block)?;
        }
        Ok(block)
    }

    /// A block in whose file this slot is empty from now on.
    fn without(&self, vault: &Vault, no: u64, slot: usize) -> Result<Box<Block>, KeyringError> {
        let mut block = self.file.read_block(vault, no)?;
        if slot_of(&block, slot) != [0; KEY_BYTES] {
            block[slot * KEY_BYTES..][..KEY_BYTES].fill(0);
            self.file.write_block(vault, no, &block)?;
        }
        Ok(block)
    }

    /// Copies the file to a directory. Returns how many batches are in the copy, and its bytes.
    pub fn copy(&self, vault: &Vault, directory: &Path) -> Result<(u64, u64), KeyringError> {
        let batches = self.batches();
        let to = directory.join(self.file.path().file_name().unwrap_or_default());
        Ok((batches, self.file.copy(&*vault.disk, &to, batches, || self.keys())?))
    }

    /// Batches in the file.
    pub fn batches(&self) -> u64 {
        self.made() / BATCH_KEYS as u64
    }

    fn made(&self) -> u64 {
        self.made.load(Ordering::Acquire)
    }

    /// Numbers change only after what they stand for was written, so a panic leaves them right.
    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(key: KeyNo) -> (u64, usize) {
    let slot = key.0 - 1;
    (slot / BLOCK_KEYS as u64, (slot % BLOCK_KEYS as u64) as usize)
}

fn slot_of(block: &Block, slot: usize) -> [u8; KEY_BYTES] {
    block[slot * KEY_BYTES..][..KEY_BYTES].try_into().expect("a slot is one key long")
}
