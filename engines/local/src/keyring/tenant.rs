//! The keys of one tenant in memory: its pepper, its own key, and the blocks of user keys that were used last.

use super::file::{BATCH_KEYS, BLOCK_KEYS, Block, Head, KeyFile};
use super::seal::{KEY_BYTES, Kind, SealKey, lookup, secret_of};
use aws_lc_rs::hmac;
use fantail_ports::keyring::KeyringError;
use fantail_rules::ids::{KeyNo, TenantId};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Blocks kept per tenant: 2 MiB, the keys of 65,536 users.
const BLOCKS_MAX: usize = 1_024;

pub struct Tenant {
    id: TenantId,
    file: KeyFile,
    pepper: hmac::Key,
    own: RwLock<Option<Arc<SealKey>>>,
    blocks: RwLock<Blocks>,
    /// Guards every write to the file.
    keys: Mutex<Keys>,
}

struct Keys {
    head: Head,
    /// Handed out, or lost with the process that could have.
    given: u64,
    /// In the file.
    made: u64,
}

#[derive(Default)]
struct Blocks {
    cached: HashMap<u64, Box<Block>>,
    /// In the order in which they came.
    order: VecDeque<u64>,
}

impl Tenant {
    pub fn open(id: TenantId, file: KeyFile, server: &SealKey) -> Result<Self, KeyringError> {
        let (head, made) = file.open(server)?;
        let own = (head.own != [0; KEY_BYTES]).then(|| Arc::new(SealKey::new(&head.own)));
        Ok(Self {
            id,
            file,
            pepper: hmac::Key::new(hmac::HMAC_SHA256, &head.pepper),
            own: RwLock::new(own),
            blocks: RwLock::default(),
            // Which keys of the last batch were given is not known: none of them is given again.
            keys: Mutex::new(Keys { head, given: made, made }),
        })
    }

    pub fn lookup(&self, kind: Kind, text: &[u8]) -> [u8; 16] {
        lookup(&self.pepper, kind, text)
    }

    pub fn mint(&self, server: &SealKey) -> Result<KeyNo, KeyringError> {
        let mut keys = self.keys();
        if keys.given == keys.made {
            self.file.append_batch(server, keys.made)?;
            keys.made += BATCH_KEYS as u64;
        }
        keys.given += 1;
        Ok(KeyNo(keys.given))
    }

    pub fn key(&self, server: &SealKey, key: KeyNo) -> Result<Arc<SealKey>, KeyringError> {
        let missing = KeyringError::NoKey { tenant: self.id, key };
        if key == KeyNo::TENANT {
            return self.own.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(missing);
        }
        let bytes = self.bytes(server, key)?;
        bytes.map(|bytes| Arc::new(SealKey::new(&bytes))).ok_or(missing)
    }

    pub fn secret(&self, server: &SealKey, key: KeyNo) -> Result<Option<[u8; 32]>, KeyringError> {
        if key == KeyNo::TENANT {
            let own = self.keys().head.own;
            return Ok((own != [0; KEY_BYTES]).then(|| secret_of(&own)));
        }
        Ok(self.bytes(server, key)?.map(|bytes| secret_of(&bytes)))
    }

    /// The bytes of a user's key; `None` if there is no such key, or none any more.
    fn bytes(&self, server: &SealKey, key: KeyNo) -> Result<Option<[u8; KEY_BYTES]>, KeyringError> {
        let usable = |bytes: [u8; KEY_BYTES]| (bytes != [0; KEY_BYTES]).then_some(bytes);
        let (block, slot) = place(key);
        if let Some(bytes) = self.cached(block, slot) {
            return Ok(usable(bytes));
        }
        // Reading and caching under the lock of all writers: a block that is being rewritten is not cached.
        let keys = self.keys();
        if key.0 > keys.made {
            return Ok(None);
        }
        let read = self.file.read_block(server, block)?;
        let found = usable(slot_of(&read, slot));
        self.blocks.write().unwrap_or_else(PoisonError::into_inner).put(block, read);
        Ok(found)
    }

    pub fn destroy(&self, server: &SealKey, key: KeyNo) -> Result<(), KeyringError> {
        let mut keys = self.keys();
        if key == KeyNo::TENANT {
            keys.head.own = [0; KEY_BYTES];
            self.file.write_head(server, &keys.head)?;
            *self.own.write().unwrap_or_else(PoisonError::into_inner) = None;
            return Ok(());
        }
        // A key that was never given has nothing to destroy, and must not be dead when it is.
        if key.0 > keys.given {
            return Ok(());
        }
        let (no, slot) = place(key);
        let mut block = self.file.read_block(server, no)?;
        if slot_of(&block, slot) != [0; KEY_BYTES] {
            block[slot * KEY_BYTES..][..KEY_BYTES].fill(0);
            self.file.write_block(server, no, &block)?;
        }
        self.blocks.write().unwrap_or_else(PoisonError::into_inner).put(no, block);
        Ok(())
    }

    fn cached(&self, block: u64, slot: usize) -> Option<[u8; KEY_BYTES]> {
        let blocks = self.blocks.read().unwrap_or_else(PoisonError::into_inner);
        blocks.cached.get(&block).map(|block| slot_of(block, slot))
    }

    /// Numbers change only after what they stand for was written, so a panic leaves them right.
    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Blocks {
    fn put(&mut self, no: u64, block: Box<Block>) {
        if self.cached.insert(no, block).is_none() {
            self.order.push_back(no);
        }
        if self.order.len() > BLOCKS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.cached.remove(&oldest);
        }
    }
}

fn place(key: KeyNo) -> (u64, usize) {
    let slot = key.0 - 1;
    (slot / BLOCK_KEYS as u64, (slot % BLOCK_KEYS as u64) as usize)
}

fn slot_of(block: &Block, slot: usize) -> [u8; KEY_BYTES] {
    block[slot * KEY_BYTES..][..KEY_BYTES].try_into().expect("a slot is one key long")
}
