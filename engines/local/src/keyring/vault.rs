//! What all tenants share: the server key that seals their files, the files that are open, and the blocks of user keys that
//! were used last. A post to a million followers opens a million keys: most of them come from here, and the others cost one
//! read without a lock.
//!
//! What must never happen: a destroyed key that stays. Whoever rewrites a block puts the new one in its place before the
//! tenant's count of rewrites is even again, and whoever read it meanwhile does not put it in.

use super::file::Block;
use super::manifest::Manifest;
use super::seal::SealKey;
use crate::disk::{Disk, DiskFile, is_out_of_descriptors};
use crate::journal::FailureCallback;
use crate::spread::BySpread;
use fantail_ports::keyring::KeyringError;
use fantail_rules::ids::TenantId;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Ten thousand tenants must not hold as many files open.
const FILES_MAX: usize = 64;
/// Shelves with a lock of their own.
const SHELVES: usize = 16;

pub struct Vault {
    pub disk: Arc<dyn Disk>,
    pub server: SealKey,
    /// Which keys there are.
    pub manifest: Manifest,
    /// Set by the first write of which nobody knows what the disk holds now: nothing more is written.
    failed: OnceLock<String>,
    on_failure: Option<FailureCallback>,
    shelves: [RwLock<Shelf>; SHELVES],
    shelf_blocks_max: usize,
    /// In the order in which they were opened.
    files: Mutex<VecDeque<(TenantId, Arc<dyn DiskFile>)>>,
}

/// Why something was not written.
pub enum Unwritten {
    /// There was no room, or no descriptor, and nothing that counts was touched.
    Full(io::Error),
    /// Nobody knows what the disk holds now.
    Unknown(io::Error),
}

impl Unwritten {
    /// Of a step that touches nothing that counts: a write beside, or an open before one.
    pub fn aside(cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(cause),
            _ if is_out_of_descriptors(&cause) => Self::Full(cause),
            _ => Self::Unknown(cause),
        }
    }

    pub fn into_cause(self) -> io::Error {
        match self {
            Self::Full(cause) | Self::Unknown(cause) => cause,
        }
    }
}

#[derive(Default)]
struct Shelf {
    blocks: HashMap<(TenantId, u64), Box<Block>, BySpread>,
    /// In the order in which they came.
    order: VecDeque<(TenantId, u64)>,
}

/// How often blocks of a tenant were rewritten, twice: odd while one is.
#[derive(Default)]
pub struct Rewrites(AtomicU64);

impl Rewrites {
    /// `None` while a block is being rewritten.
    pub fn seen(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|seen| seen % 2 == 0)
    }

    /// Before and after a block is rewritten, by the one who may.
    pub fn turn(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl Vault {
    pub fn new(
        disk: Arc<dyn Disk>,
        server: SealKey,
        manifest: Manifest,
        on_failure: Option<FailureCallback>,
        cache_bytes: usize,
    ) -> Self {
        let shelf_blocks_max = (cache_bytes / size_of::<Block>() / SHELVES).max(1);
        let (failed, files) = (OnceLock::new(), Mutex::default());
        Self {
            disk,
            server,
            manifest,
            failed,
            on_failure,
            shelves: Default::default(),
            shelf_blocks_max,
            files,
        }
    }

    /// Writes to the keys, unless an earlier write failed. A failure may have left a torn block which only the redo beside
    /// it mends at the next start: another write would replace that redo, and take 64 keys with it.
    pub fn change<T>(
        &self,
        path: &Path,
        write: impl FnOnce(&dyn Disk) -> Result<T, Unwritten>,
    ) -> Result<T, KeyringError> {
        let file = path.display().to_string();
        if let Some(reason) = self.failed.get() {
            return Err(KeyringError::Io { file, reason: format!("an earlier write failed: {reason}") });
        }
        match write(&*self.disk) {
            Ok(written) => Ok(written),
            Err(Unwritten::Full(cause)) => Err(KeyringError::Io { file, reason: cause.to_string() }),
            Err(Unwritten::Unknown(cause)) => {
                let reason = format!("{file}: {cause}");
                if self.failed.set(reason.clone()).is_ok()
                    && let Some(on_failure) = &self.on_failure
                {
                    on_failure(&format!("the keyring failed: {reason}"));
                }
                Err(KeyringError::Io { file, reason: cause.to_string() })
            }
        }
    }

    fn shelf(&self, no: u64) -> &RwLock<Shelf> {
        &self.shelves[no as usize % SHELVES]
    }

    fn read(&self, no: u64) -> RwLockReadGuard<'_, Shelf> {
        self.shelf(no).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, no: u64) -> RwLockWriteGuard<'_, Shelf> {
        self.shelf(no).write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks into a block, if it is here.
    pub fn look<T>(&self, tenant: TenantId, no: u64, into: impl FnOnce(&Block) -> T) -> Option<T> {
        self.read(no).blocks.get(&(tenant, no)).map(|block| into(block))
    }

    pub fn put(&self, tenant: TenantId, no: u64, block: Box<Block>) {
        self.write(no).put((tenant, no), block, self.shelf_blocks_max);
    }

    /// Keeps a block that was read without a lock; not if some block was rewritten since.
    pub fn put_if(&self, tenant: TenantId, no: u64, block: Box<Block>, seen: u64, rewrites: &Rewrites) {
        let mut shelf = self.write(no);
        if rewrites.seen() == Some(seen) {
            shelf.put((tenant, no), block, self.shelf_blocks_max);
        }
    }

    /// A tenant's file, opened by `open` if it is not yet.
    pub fn file<E>(
        &self,
        tenant: TenantId,
        open: impl FnOnce() -> Result<Arc<dyn DiskFile>, E>,
    ) -> Result<Arc<dyn DiskFile>, E> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, file)) = files.iter().find(|(of, _)| *of == tenant) {
            return Ok(Arc::clone(file));
        }
        let file = open()?;
        if files.len() == FILES_MAX {
            files.pop_front();
        }
        files.push_back((tenant, Arc::clone(&file)));
        Ok(file)
    }
}

impl Shelf {
    fn put(&mut self, key: (TenantId, u64), block: Box<Block>, blocks_max: usize) {
        if self.blocks.insert(key, block).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > blocks_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.blocks.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::BLOCK_KEYS;
    use super::super::seal::KEY_BYTES;
    use super::*;
    use crate::disk::FaultDisk;

    const TENANT: TenantId = TenantId(1);

    fn block(of: u8) -> Box<Block> {
        Box::new([of; BLOCK_KEYS * KEY_BYTES])
    }

    fn vault(cache_bytes: usize) -> Vault {
        let server = SealKey::new(&[1; KEY_BYTES]);
        Vault::new(Arc::new(FaultDisk::new(1)), server, Manifest::default(), None, cache_bytes)
    }

    fn first(vault: &Vault, tenant: TenantId, no: u64) -> Option<u8> {
        vault.look(tenant, no, |block| block[0])
    }

    #[test]
    fn what_was_read_before_a_rewrite_is_not_kept() {
        let (vault, rewrites) = (vault(1 << 20), Rewrites::default());
        let seen = rewrites.seen().expect("nothing is being rewritten");
        vault.put_if(TENANT, 7, block(1), seen, &rewrites);
        assert_eq!(first(&vault, TENANT, 7), Some(1));
        rewrites.turn();
        assert_eq!(rewrites.seen(), None);
        vault.put_if(TENANT, 8, block(1), seen, &rewrites);
        vault.put(TENANT, 7, block(2));
        rewrites.turn();
        vault.put_if(TENANT, 7, block(1), seen, &rewrites);
        assert_eq!((first(&vault, TENANT, 7), first(&vault, TENANT, 8)), (Some(2), None));
    }

    #[test]
    fn memory_is_bounded_and_tenants_are_apart() {
        let vault = vault(0);
        for no in 0..3 * SHELVES as u64 {
            vault.put(TENANT, no, block(no as u8));
        }
        let kept = |vault: &Vault| (0..3 * SHELVES as u64).filter_map(|no| first(vault, TENANT, no)).count();
        assert_eq!(kept(&vault), SHELVES);
        assert_eq!(first(&vault, TenantId(2), 3 * SHELVES as u64 - 1), None);
    }
}
