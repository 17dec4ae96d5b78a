//! The keys of one tenant as a file. Everything in it is sealed under the server key.
//!
//! ```text
//! file     magic:8 format:4 tenant:4 head batch*
//! head     sealed(pepper:32 own-key:32)
//! batch    block×16 sealed()             1,024 keys; the last part says that all of it was durable before
//! block    sealed(key:32 × 64)           key number n lies in slot n − 1; zeros: destroyed
//! sealed   nonce:12 ciphertext tag:16    bound to tenant, part and place
//! ```
//! A batch without its last part was never handed out and is cut off. A part that is rewritten (destroying a key)
//! goes into `….redo` first, so that a torn write is repaired. What must never happen: a key that was handed out
//! and is gone, or a destroyed key that comes back.

use super::seal::{KEY_BYTES, NONCE_BYTES, SealKey, TAG_BYTES, random};
use super::vault::Vault;
use fantail_ports::keyring::KeyringError;
use fantail_rules::ids::TenantId;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

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
const BATCH_BYTES: usize = BLOCKS_PER_BATCH * BLOCK_BYTES + SEAL_BYTES;

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

    pub fn exists(&self) -> Result<bool, KeyringError> {
        self.path.try_exists().map_err(|cause| self.failed(&cause))
    }

    /// Creates the file with a new pepper and a new key of the tenant's own. Durable on return.
    pub fn create(&self, server: &SealKey) -> Result<(), KeyringError> {
        let mut bytes = [&MAGIC[..], &FORMAT.to_be_bytes(), &self.tenant.0.to_be_bytes()].concat();
        bytes.extend(self.sealed(server, Part::Head, &random::<{ 2 * KEY_BYTES }>()));
        write_whole(&self.path, &bytes).map_err(|cause| self.failed(&cause))
    }

    /// Repairs what a crash has left, and returns the head and how many keys there are.
    pub fn open(&self, server: &SealKey) -> Result<(Head, u64), KeyringError> {
        let file = self.file()?;
        let mut lead = [0; HEAD_AT as usize];
        file.read_exact_at(&mut lead, 0).map_err(|cause| self.unreadable(&cause))?;
        let (magic, rest) = lead.split_at(8);
        let found = u32::from_be_bytes(*rest.first_chunk().expect("the lead has sixteen bytes"));
        if magic != MAGIC {
            return Err(self.damaged("is not a file of keys"));
        }
        if found > FORMAT {
            let file = self.path.display().to_string();
            return Err(KeyringError::NewerFormat { file, found, known: FORMAT });
        }
        self.redo(&file)?;
        let head = self.unsealed(server, &file, Part::Head)?;
        let (pepper, own) = head.split_at(KEY_BYTES);
        let array = |part: &[u8]| part.try_into().expect("the head is two keys long");
        let keys = self.cut_unfinished(server, &file)?;
        Ok((Head { pepper: array(pepper), own: array(own) }, keys))
    }

    /// Counts the keys, and cuts off a batch that was never handed out because it was not finished.
    fn cut_unfinished(&self, server: &SealKey, file: &File) -> Result<u64, KeyringError> {
        let length = file.metadata().map_err(|cause| self.failed(&cause))?.len();
        let body = length.saturating_sub(BATCHES_AT);
        let mut batches = body / BATCH_BYTES as u64;
        // Only the last one can be unfinished: it was made durable before the next one began.
        if batches > 0 && self.unsealed(server, file, Part::BatchEnd(batches - 1)).is_err() {
            batches -= 1;
        }
        let whole = BATCHES_AT + batches * BATCH_BYTES as u64;
        if whole < length {
            let cut = file.set_len(whole).and_then(|()| file.sync_all());
            cut.map_err(|cause| self.failed(&cause))?;
        }
        Ok(batches * BATCH_KEYS as u64)
    }

    /// Appends a batch of new keys after the `keys` that are there. Durable on return.
    pub fn append_batch(&self, server: &SealKey, keys: u64) -> Result<(), KeyringError> {
        let batch = keys / BATCH_KEYS as u64;
        let file = self.file()?;
        let mut bytes = Vec::with_capacity(BATCH_BYTES);
        for inside in 0..BLOCKS_PER_BATCH as u64 {
            let part = Part::Block(batch * BLOCKS_PER_BATCH as u64 + inside);
            bytes.extend(self.sealed(server, part, &random::<{ BLOCK_KEYS * KEY_BYTES }>()));
        }
        let end = Part::BatchEnd(batch);
        let first = Part::Block(batch * BLOCKS_PER_BATCH as u64).at();
        let write = || {
            file.write_all_at(&bytes, first)?;
            file.sync_all()?;
            file.write_all_at(&self.sealed(server, end, &[]), end.at())?;
            file.sync_all()
        };
        write().map_err(|cause| self.failed(&cause))
    }

    pub fn read_block(&self, vault: &Vault, no: u64) -> Result<Box<Block>, KeyringError> {
        let file = vault.file(self.tenant, || self.file())?;
        let plain = self.unsealed(&vault.server, &file, Part::Block(no))?;
        Ok(plain.into_boxed_slice().try_into().expect("a block has the length of its part"))
    }

    /// Replaces a block. Durable on return.
    pub fn write_block(&self, server: &SealKey, no: u64, block: &Block) -> Result<(), KeyringError> {
        self.rewrite(Part::Block(no), &self.sealed(server, Part::Block(no), block))
    }

    /// Replaces the head. Durable on return.
    pub fn write_head(&self, server: &SealKey, head: &Head) -> Result<(), KeyringError> {
        let plain = [head.pepper, head.own].concat();
        self.rewrite(Part::Head, &self.sealed(server, Part::Head, &plain))
    }

    fn rewrite(&self, part: Part, sealed: &[u8]) -> Result<(), KeyringError> {
        let mut redo = part.at().to_be_bytes().to_vec();
        redo.extend_from_slice(sealed);
        redo.extend_from_slice(&crc32fast::hash(&redo).to_be_bytes());
        let write = || {
            write_whole(&self.redo_path(), &redo)?;
            let file = OpenOptions::new().write(true).open(&self.path)?;
            file.write_all_at(sealed, part.at())?;
            file.sync_all()?;
            // If it stays it is done again, which changes nothing: the next rewrite replaces it.
            fs::remove_file(self.redo_path())
        };
        write().map_err(|cause| self.failed(&cause))
    }

    fn redo(&self, file: &File) -> Result<(), KeyringError> {
        let redo = match fs::read(self.redo_path()) {
            Ok(redo) => redo,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(cause) => return Err(self.failed(&cause)),
        };
        let (body, crc) = redo.split_last_chunk::<4>().ok_or_else(|| self.damaged("has a cut redo"))?;
        let (at, sealed) = body.split_first_chunk::<8>().ok_or_else(|| self.damaged("has a cut redo"))?;
        if crc32fast::hash(body).to_be_bytes() != *crc {
            return Err(self.damaged("has a redo that does not match its checksum"));
        }
        let write = || {
            file.write_all_at(sealed, u64::from_be_bytes(*at))?;
            file.sync_all()?;
            fs::remove_file(self.redo_path())
        };
        write().map_err(|cause| self.failed(&cause))
    }

    fn sealed(&self, server: &SealKey, part: Part, plain: &[u8]) -> Vec<u8> {
        let mut bytes = plain.to_vec();
        let nonce = server.seal(&part.associated(self.tenant), &mut bytes);
        [&nonce[..], &bytes].concat()
    }

    fn unsealed(&self, server: &SealKey, file: &File, part: Part) -> Result<Vec<u8>, KeyringError> {
        let mut sealed = vec![0; SEAL_BYTES + part.plain_bytes()];
        file.read_exact_at(&mut sealed, part.at()).map_err(|cause| self.unreadable(&cause))?;
        let (nonce, cipher) = sealed.split_first_chunk_mut().expect("a nonce is in front");
        let plain = server.open(&part.associated(self.tenant), *nonce, cipher);
        plain.map(|plain| plain.to_vec()).ok_or_else(|| self.damaged("has a part that does not open"))
    }

    fn file(&self) -> Result<File, KeyringError> {
        OpenOptions::new().read(true).write(true).open(&self.path).map_err(|cause| self.failed(&cause))
    }

    fn redo_path(&self) -> PathBuf {
        self.path.with_extension("redo")
    }

    fn unreadable(&self, cause: &io::Error) -> KeyringError {
        match cause.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("ends early"),
            _ => self.failed(cause),
        }
    }

    fn damaged(&self, reason: &str) -> KeyringError {
        KeyringError::Damaged { file: self.path.display().to_string(), reason: reason.to_owned() }
    }

    fn failed(&self, cause: &io::Error) -> KeyringError {
        KeyringError::Io { file: self.path.display().to_string(), reason: cause.to_string() }
    }
}

/// Writes a file that only its owner may read: all of it or nothing, durable on return.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}
