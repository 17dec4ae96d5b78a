//! The keys of one tenant as a file. Everything in it is sealed under the server key.
//!
//! ```text
//! file     magic:8 format:4 tenant:4 head batch*
//! head     sealed(pepper:32 own-key:32)
//! batch    block×16 sealed()             1,024 keys; the last part says that all of it was durable before
//! block    sealed(key:32 × 64)           key number n lies in slot n − 1; zeros: destroyed
//! sealed   nonce:12 ciphertext tag:16    bound to tenant, part and place
//! ```
//! A batch without its last part, or with a part that does not open (it is written again in place if the manifest had no
//! room), was never handed out and is cut off, unless the manifest names it: then the file was cut by something else, and the
//! start is refused. A part that is rewritten (destroying a key)
//! goes into `….redo` first, so that a torn write is repaired. What must never happen: a key that was handed out
//! and is gone, or a destroyed key that comes back.

use super::seal::{KEY_BYTES, NONCE_BYTES, SealKey, TAG_BYTES, random};
use super::vault::{Unwritten, Vault};
use crate::disk::{Disk, DiskFile, How, read_full_at, read_whole, write_all_at};
use fantail_ports::keyring::KeyringError;
use fantail_rules::ids::TenantId;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"FANTKEYS";
const FORMAT: u32 = 1;
const SEAL_BYTES: usize = NONCE_BYTES + TAG_BYTES;
const HEAD_AT: u64 = 16;
const HEAD_BYTES: usize = SEAL_BYTES + 2 * KEY_BYTES;
const BATCHES_AT: u64 = HEAD_AT + HEAD_BYTES as u64;

pub const BLOCK_KEYS: usize = 64;
const BLOCKS_PER_BATCH: usize = 16;
pub const BATCH_KEYS: usize = BLOCK_KEYS * BLOCKS_PER_BATCH;
const BLOCK_BYTES: usize = SEAL_BYTES + BLOCK_KEYS * KEY_BYTES;
/// Batches that are copied at once: about a megabyte, while nobody writes.
const COPY_BATCHES: usize = 32;
pub const BATCH_BYTES: usize = BLOCKS_PER_BATCH * BLOCK_BYTES + SEAL_BYTES;

/// Sixty-four keys, unsealed.
pub type Block = [u8; BLOCK_KEYS * KEY_BYTES];

pub struct Head {
    pub pepper: [u8; KEY_BYTES],
    /// Zeros once it is destroyed.
    pub own: [u8; KEY_BYTES],
}

/// Parts of the file; each is bound to its place.
#[derive(Clone, Copy)]
enum Part {
    Head,
    Block(u64),
    BatchEnd(u64),
}

impl Part {
    fn at(self) -> u64 {
        let batch = |no: u64| BATCHES_AT + no * BATCH_BYTES as u64;
        match self {
            Self::Head => HEAD_AT,
            Self::Block(no) => {
                let (batch_no, inside) = (no / BLOCKS_PER_BATCH as u64, no % BLOCKS_PER_BATCH as u64);
                batch(batch_no) + inside * BLOCK_BYTES as u64
            }
            Self::BatchEnd(no) => batch(no + 1) - SEAL_BYTES as u64,
        }
    }

    fn plain_bytes(self) -> usize {
        match self {
            Self::Head => 2 * KEY_BYTES,
            Self::Block(_) => BLOCK_KEYS * KEY_BYTES,
            Self::BatchEnd(_) => 0,
        }
    }

    fn associated(self, tenant: TenantId) -> [u8; 13] {
        let (kind, no) = match self {
            Self::Head => (1, 0),
            Self::Block(no) => (2, no),
            Self::BatchEnd(no) => (3, no),
        };
        let mut bytes = [0; 13];
        bytes[..4].copy_from_slice(&tenant.0.to_be_bytes());
        bytes[4] = kind;
        bytes[5..].copy_from_slice(&no.to_be_bytes());
        bytes
    }
}

/// Where one tenant's keys lie. Opened for each write; those that were read last are open in the vault.
pub struct KeyFile {
    tenant: TenantId,
    path: PathBuf,
}

impl KeyFile {
    pub fn new(directory: &Path, tenant: TenantId) -> Self {
        Self { tenant, path: directory.join(format!("tenant-{tenant}.keys")) }
    }

    /// The same keys in another file of the directory, whose name begins like this.
    pub fn beside(&self, prefix: &str) -> Self {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        Self { tenant: self.tenant, path: self.path.with_file_name(format!("{prefix}{name}")) }
    }

    /// The tenant of a file by its name.
    pub fn tenant_of(name: &str) -> Option<TenantId> {
        let tenant = TenantId(name.strip_prefix("tenant-")?.strip_suffix(".keys")?.parse().ok()?);
        (format!("tenant-{tenant}.keys") == name).then_some(tenant)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn exists(&self, disk: &dyn Disk) -> Result<bool, KeyringError> {
        match disk.open(&self.path, How::Read) {
            Ok(_) => Ok(true),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(self.failed(&cause)),
        }
    }

    /// Creates the file with a new pepper and a new key of the tenant's own. Durable on return.
    pub fn create(&self, vault: &Vault) -> Result<(), KeyringError> {
        let server = &vault.server;
        let mut bytes = [&MAGIC[..], &FORMAT.to_be_bytes(), &self.tenant.0.to_be_bytes()].concat();
        bytes.extend(self.sealed(server, Part::Head, &random::<{ 2 * KEY_BYTES }>()));
        vault.change(&self.path, |disk| write_whole(disk, &self.path, &bytes))
    }

    /// Repairs what a crash has left, and returns the head and how many batches there are. `certain` is what the manifest
    /// says of them; `None` for files from before it.
    pub fn open(
        &self,
        disk: &dyn Disk,
        server: &SealKey,
        certain: Option<u64>,
    ) -> Result<(Head, u64), KeyringError> {
        let file = self.file(disk)?;
        let mut lead = [0; HEAD_AT as usize];
        self.read_exact(&*file, 0, &mut lead)?;
        let (magic, rest) = lead.split_at(8);
        let found = u32::from_be_bytes(*rest.first_chunk().expect("the lead has sixteen bytes"));
        if magic != MAGIC {
            return Err(self.damaged("is not a file of keys"));
        }
        if found > FORMAT {
            let file = self.path.display().to_string();
            return Err(KeyringError::NewerFormat { file, found, known: FORMAT });
        }
        self.redo(disk, &*file)?;
        let head = self.unsealed(server, &*file, Part::Head)?;
        let (pepper, own) = head.split_at(KEY_BYTES);
        let array = |part: &[u8]| part.try_into().expect("the head is two keys long");
        let batches = self.count(disk, server, &*file, certain)?;
        Ok((Head { pepper: array(pepper), own: array(own) }, batches))
    }

    /// Counts the batches, and cuts off one that was never handed out because it was not finished.
    fn count(
        &self,
        disk: &dyn Disk,
        server: &SealKey,
        file: &dyn DiskFile,
        certain: Option<u64>,
    ) -> Result<u64, KeyringError> {
        let end_of = |batches: u64| BATCHES_AT + batches * BATCH_BYTES as u64;
        let length = file.len().map_err(|cause| self.failed(&cause))?;
        let mut batches = certain.unwrap_or(0);
        if length < end_of(batches) {
            return Err(self.damaged(&format!("has {length} bytes and had {}: it was cut", end_of(batches))));
        }
        if batches > 0 {
            self.unsealed(server, file, Part::BatchEnd(batches - 1))?;
        }
        let is_open = |part| self.unsealed(server, file, part).is_ok();
        let all_open = |batch: u64| {
            let first = batch * BLOCKS_PER_BATCH as u64;
            (first..first + BLOCKS_PER_BATCH as u64).all(|no| is_open(Part::Block(no)))
        };
        // Without a manifest the end alone says that keys were handed out.
        while length >= end_of(batches + 1)
            && is_open(Part::BatchEnd(batches))
            && (certain.is_none() || all_open(batches))
        {
            batches += 1;
        }
        let whole = end_of(batches);
        if length > end_of(batches + 1) {
            return Err(self.damaged("has a batch that does not open before its end"));
        }
        if whole < length {
            if certain.is_none() && all_open(batches) {
                // From before the manifest: its keys may have been handed out, so they stay.
                let end = Part::BatchEnd(batches);
                let finished = write_all_at(file, end.at(), &self.sealed(server, end, &[]));
                finished.and_then(|()| file.sync_data()).map_err(|cause| self.failed(&cause))?;
                return Ok(batches + 1);
            }
            self.cut(disk, file, whole, length).map_err(|cause| self.failed(&cause))?;
        }
        Ok(batches)
    }

    /// Saves what is behind the last whole batch, durably, then cuts it off, durably.
    fn cut(&self, disk: &dyn Disk, file: &dyn DiskFile, whole: u64, length: u64) -> io::Result<()> {
        let mut rest = vec![0; usize::try_from(length - whole).unwrap_or(BATCH_BYTES).min(BATCH_BYTES)];
        let count = read_full_at(file, whole, &mut rest)?;
        let saved = self.path.with_extension("cut");
        write_whole(disk, &saved, &rest[..count]).map_err(Unwritten::into_cause)?;
        file.set_len(whole)?;
        file.sync_data()
    }

    /// Opens every block of a file whose batches are whole: the tag of each is its checksum.
    pub fn verify(&self, disk: &dyn Disk, server: &SealKey, batches: u64) -> Result<(), KeyringError> {
        let file = self.file(disk)?;
        (0..batches * BLOCKS_PER_BATCH as u64)
            .try_for_each(|no| self.unsealed(server, &*file, Part::Block(no)).map(drop))
    }

    /// Copies the file with so many batches, some at a time, each under `lock`, so that no part is copied while it is
    /// rewritten. Returns the bytes.
    pub fn copy<L>(
        &self,
        disk: &dyn Disk,
        to: &Path,
        batches: u64,
        mut lock: impl FnMut() -> L,
    ) -> Result<u64, KeyringError> {
        let end = BATCHES_AT + batches * BATCH_BYTES as u64;
        let source = self.file(disk)?;
        let copy = disk.open(to, How::CreatePrivate).map_err(|cause| self.failed(&cause))?;
        let (mut from, mut next) = (0, BATCHES_AT);
        while from < end {
            let mut chunk = vec![0; (next.min(end) - from) as usize];
            let held = lock();
            self.read_exact(&*source, from, &mut chunk)?;
            drop(held);
            write_all_at(&*copy, from, &chunk).map_err(|cause| self.failed(&cause))?;
            (from, next) = (next, next + (COPY_BATCHES * BATCH_BYTES) as u64);
        }
        copy.sync_data().map_err(|cause| self.failed(&cause))?;
        Ok(end)
    }

    /// Writes the same keys to another file, sealed under another server key; its content is durable on return. Returns the
    /// bytes.
    pub fn reseal(
        &self,
        disk: &dyn Disk,
        server: &SealKey,
        next: &SealKey,
        to: &Self,
        batches: u64,
    ) -> Result<u64, KeyringError> {
        let source = self.file(disk)?;
        let copy = disk.open(&to.path, How::CreatePrivate).map_err(|cause| to.failed(&cause))?;
        let resealed = |part| Ok(self.sealed(next, part, &self.unsealed(server, &*source, part)?));
        let mut first = vec![0; HEAD_AT as usize];
        self.read_exact(&*source, 0, &mut first)?;
        first.extend(resealed(Part::Head)?);
        write_all_at(&*copy, 0, &first).map_err(|cause| to.failed(&cause))?;
        for batch in 0..batches {
            let blocks = batch * BLOCKS_PER_BATCH as u64;
            let parts = (blocks..blocks + BLOCKS_PER_BATCH as u64).map(Part::Block);
            let parts: Result<Vec<Vec<u8>>, KeyringError> =
                parts.chain([Part::BatchEnd(batch)]).map(resealed).collect();
            let written = write_all_at(&*copy, Part::Block(blocks).at(), &parts?.concat());
            written.map_err(|cause| to.failed(&cause))?;
        }
        copy.sync_data().map_err(|cause| to.failed(&cause))?;
        Ok(BATCHES_AT + batches * BATCH_BYTES as u64)
    }

    /// Appends a batch of new keys after those that are there, and names it in the manifest. Durable on return.
    pub fn append_batch(&self, vault: &Vault, batches: u64) -> Result<(), KeyringError> {
        let (server, file) = (&vault.server, self.file(&*vault.disk)?);
        let mut bytes = Vec::with_capacity(BATCH_BYTES);
        for inside in 0..BLOCKS_PER_BATCH as u64 {
            let part = Part::Block(batches * BLOCKS_PER_BATCH as u64 + inside);
            bytes.extend(self.sealed(server, part, &random::<{ BLOCK_KEYS * KEY_BYTES }>()));
        }
        let end = Part::BatchEnd(batches);
        let first = Part::Block(batches * BLOCKS_PER_BATCH as u64).at();
        vault.change(&self.path, |disk| {
            write_all_at(&*file, first, &bytes).map_err(Unwritten::aside)?;
            file.sync_data().map_err(Unwritten::Unknown)?;
            write_all_at(&*file, end.at(), &self.sealed(server, end, &[])).map_err(Unwritten::aside)?;
            file.sync_data().map_err(Unwritten::Unknown)?;
            vault.manifest.set(disk, self.tenant, batches + 1)
        })
    }

    pub fn read_block(&self, vault: &Vault, no: u64) -> Result<Box<Block>, KeyringError> {
        let file = vault.file(self.tenant, || self.file(&*vault.disk))?;
        let plain = self.unsealed(&vault.server, &*file, Part::Block(no))?;
        Ok(plain.into_boxed_slice().try_into().expect("a block has the length of its part"))
    }

    /// Replaces a block. Durable on return.
    pub fn write_block(&self, vault: &Vault, no: u64, block: &Block) -> Result<(), KeyringError> {
        self.rewrite(vault, Part::Block(no), &self.sealed(&vault.server, Part::Block(no), block))
    }

    /// Replaces the head. Durable on return.
    pub fn write_head(&self, vault: &Vault, head: &Head) -> Result<(), KeyringError> {
        let plain = [head.pepper, head.own].concat();
        self.rewrite(vault, Part::Head, &self.sealed(&vault.server, Part::Head, &plain))
    }

    fn rewrite(&self, vault: &Vault, part: Part, sealed: &[u8]) -> Result<(), KeyringError> {
        let mut redo = part.at().to_be_bytes().to_vec();
        redo.extend_from_slice(sealed);
        redo.extend_from_slice(&crc32fast::hash(&redo).to_be_bytes());
        let file = self.file(&*vault.disk)?;
        vault.change(&self.path, |disk| {
            write_whole(disk, &self.redo_path(), &redo)?;
            let rewritten = write_all_at(&*file, part.at(), sealed).and_then(|()| file.sync_data());
            // If it stays it is done again, which changes nothing: the next rewrite replaces it.
            rewritten.and_then(|()| disk.remove(&self.redo_path())).map_err(Unwritten::Unknown)
        })
    }

    fn redo(&self, disk: &dyn Disk, file: &dyn DiskFile) -> Result<(), KeyringError> {
        let path = self.redo_path();
        let redo = match read_whole(disk, &path) {
            Ok(redo) => redo,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(cause) => return Err(self.failed(&cause)),
        };
        let damaged = |reason: &str| super::damaged(&path, reason);
        let (body, crc) = redo.split_last_chunk::<4>().ok_or_else(|| damaged("ends early"))?;
        let (at, sealed) = body.split_first_chunk::<8>().ok_or_else(|| damaged("ends early"))?;
        if crc32fast::hash(body).to_be_bytes() != *crc {
            return Err(damaged("does not match its checksum"));
        }
        let written = write_all_at(file, u64::from_be_bytes(*at), sealed).and_then(|()| file.sync_data());
        written.and_then(|()| disk.remove(&path)).map_err(|cause| self.failed(&cause))
    }

    fn sealed(&self, server: &SealKey, part: Part, plain: &[u8]) -> Vec<u8> {
        let mut bytes = plain.to_vec();
        let nonce = server.seal(&part.associated(self.tenant), &mut bytes);
        [&nonce[..], &bytes].concat()
    }

    fn unsealed(&self, server: &SealKey, file: &dyn DiskFile, part: Part) -> Result<Vec<u8>, KeyringError> {
        let mut sealed = vec![0; SEAL_BYTES + part.plain_bytes()];
        self.read_exact(file, part.at(), &mut sealed)?;
        let (nonce, cipher) = sealed.split_first_chunk().expect("a nonce is in front");
        let plain = server.open(&part.associated(self.tenant), *nonce, cipher.to_vec());
        plain.ok_or_else(|| self.damaged("has a part that does not open"))
    }

    fn read_exact(&self, file: &dyn DiskFile, at: u64, into: &mut [u8]) -> Result<(), KeyringError> {
        let count = read_full_at(file, at, into).map_err(|cause| self.failed(&cause))?;
        if count < into.len() { Err(self.damaged("ends early")) } else { Ok(()) }
    }

    fn file(&self, disk: &dyn Disk) -> Result<Arc<dyn DiskFile>, KeyringError> {
        disk.open(&self.path, How::Write).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => self.damaged("is missing, and keys in it were handed out"),
            _ => self.failed(&cause),
        })
    }

    fn redo_path(&self) -> PathBuf {
        self.path.with_extension("redo")
    }

    fn damaged(&self, reason: &str) -> KeyringError {
        super::damaged(&self.path, reason)
    }

    fn failed(&self, cause: &io::Error) -> KeyringError {
        super::failed(&self.path, cause)
    }
}

/// Writes a file that only its owner may read: all of it or nothing, durable on return.
pub fn write_whole(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), Unwritten> {
    let beside = path.with_extension("new");
    // Opened first: once the file has its name, nothing may be missing to make the name durable.
    let directory = disk.open_dir(path.parent().unwrap_or(Path::new("."))).map_err(Unwritten::aside)?;
    let file = disk.open(&beside, How::CreatePrivate).map_err(Unwritten::aside)?;
    write_all_at(&*file, 0, bytes).map_err(Unwritten::aside)?;
    file.sync_data().map_err(Unwritten::Unknown)?;
    disk.rename(&beside, path).and_then(|()| directory.sync()).map_err(Unwritten::Unknown)
}
