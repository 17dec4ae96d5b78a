//! Rotation of the server key: everything that it seals is sealed again, under another one.
//!
//! ```text
//! rotated-NAME   the next content of NAME: the files of keys, server.check, and server.key if the next key is kept there
//! rotation       "FANTKEYR" format:4 kept:1 crc:4      the rotation counts; kept: whether the next key is kept in server.key
//! ```
//! All of the next content is durable before `rotation` is, and the rotation counts from then on. Whoever opens the directory
//! first removes the next content of a rotation that does not count, or finishes one that does. Both are renames and removals
//! that may be repeated, and need no key.
//!
//! What must never happen: parts under two server keys in files that count, or an old server key that stays.

use super::file::{KeyFile, write_whole};
use super::seal::{KEY_BYTES, SealKey};
use super::{CHECK, LocalKeyring, SERVER_KEY, check_of, damaged, failed};
use crate::disk::{Disk, How, read_whole, write_all_at};
use fantail_ports::keyring::KeyringError;
use fantail_rules::ids::TenantId;
use std::io;
use std::path::Path;

const ROTATION: &str = "rotation";
const ROTATED: &str = "rotated-";
const MAGIC: &[u8; 8] = b"FANTKEYR";
const FORMAT: u32 = 1;
const ROTATION_BYTES: usize = 17;

/// The key that the server key is replaced by.
#[derive(Clone, Copy)]
pub enum NextServerKey {
    /// Kept in the directory, beside what it seals.
    Kept([u8; KEY_BYTES]),
    /// The operator has it. None is kept in the directory any more.
    Given([u8; KEY_BYTES]),
}

impl NextServerKey {
    fn parts(&self) -> (&[u8; KEY_BYTES], bool) {
        match self {
            Self::Kept(key) => (key, true),
            Self::Given(key) => (key, false),
        }
    }
}

/// What a rotation has sealed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rotated {
    pub tenants: u64,
    pub bytes: u64,
}

/// What became of a rotation that a crash has interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterruptedRotation {
    /// There was none.
    None,
    /// It did not count yet: the server key is the one from before.
    Discarded,
    /// It counted: the server key is the next one.
    Finished,
}

impl LocalKeyring {
    /// Seals everything that the server key seals under another one. On return only that one opens the directory; after an
    /// error it is one of the two. Nobody else may use the directory meanwhile.
    pub fn rotate(self, next: &NextServerKey) -> Result<Rotated, KeyringError> {
        let disk = &*self.vault.disk;
        let prepared = self.prepare_rotation(next);
        if prepared.is_err() {
            // What cannot be removed now is removed by the next open.
            discard(disk, &self.directory).ok();
        }
        let rotated = prepared?;
        let path = self.directory.join(ROTATION);
        let counts = write_whole(disk, &path, &encode(next.parts().1));
        counts.map_err(|unwritten| failed(&path, &unwritten.into_cause()))?;
        finish(disk, &self.directory, next.parts().1)?;
        Ok(rotated)
    }

    /// Makes the next content of every file, and reads it again.
    pub(super) fn prepare_rotation(&self, next: &NextServerKey) -> Result<Rotated, KeyringError> {
        let (disk, directory) = (&*self.vault.disk, &self.directory);
        let (key, is_kept) = next.parts();
        let server = SealKey::new(key);
        let names = disk.list(directory).map_err(|cause| failed(directory, &cause))?;
        let mut rotated = Rotated::default();
        for id in names.iter().filter_map(|name| KeyFile::tenant_of(name)) {
            rotated.bytes += self.reseal(id, &server)?;
            rotated.tenants += 1;
        }
        let kept = is_kept.then_some((SERVER_KEY, key.to_vec()));
        for (name, content) in [(CHECK, check_of(&server))].into_iter().chain(kept) {
            let path = directory.join(format!("{ROTATED}{name}"));
            write_whole(disk, &path, &content).map_err(|unwritten| failed(&path, &unwritten.into_cause()))?;
        }
        disk.sync_dir(directory).map_err(|cause| failed(directory, &cause))?;
        Ok(rotated)
    }

    fn reseal(&self, id: TenantId, next: &SealKey) -> Result<u64, KeyringError> {
        let disk = &*self.vault.disk;
        let file = KeyFile::new(&self.directory, id);
        let batches = match self.vault.manifest.batches(id) {
            Some(_) => self.tenant(id)?.batches(),
            // Created before a crash, and not named: it gets its name when its tenant is created again.
            None => file.open(disk, &self.vault.server, Some(0))?.1,
        };
        let rotated = file.beside(ROTATED);
        let bytes = file.reseal(disk, &self.vault.server, next, &rotated, batches)?;
        rotated.open(disk, next, Some(batches))?;
        rotated.verify(disk, next, batches)?;
        Ok(bytes)
    }
}

/// Ends what a crash has interrupted. Must come before anything in the directory is read.
pub fn settle_rotation(disk: &dyn Disk, directory: &Path) -> Result<InterruptedRotation, KeyringError> {
    let path = directory.join(ROTATION);
    match read_whole(disk, &path) {
        Ok(bytes) => {
            let is_kept = decode(&path, &bytes)?;
            // A process that was killed may have named it, and not made the name durable.
            disk.sync_dir(directory).map_err(|cause| failed(directory, &cause))?;
            finish(disk, directory, is_kept)?;
            Ok(InterruptedRotation::Finished)
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            let discarded = discard(disk, directory).map_err(|cause| failed(directory, &cause))?;
            Ok(if discarded { InterruptedRotation::Discarded } else { InterruptedRotation::None })
        }
        Err(cause) => Err(failed(&path, &cause)),
    }
}

fn finish(disk: &dyn Disk, directory: &Path, is_kept: bool) -> Result<(), KeyringError> {
    let replace = || -> io::Result<()> {
        let names = rotated_names(disk, directory)?;
        // Before its successor has its name, or not at all: then it is the next key, or gone already.
        let old_stays = !is_kept || names.iter().any(|name| name == &format!("{ROTATED}{SERVER_KEY}"));
        if old_stays {
            overwrite(disk, &directory.join(SERVER_KEY))?;
        }
        for name in &names {
            disk.rename(&directory.join(name), &directory.join(&name[ROTATED.len()..]))?;
        }
        if !is_kept {
            remove(disk, &directory.join(SERVER_KEY))?;
        }
        disk.sync_dir(directory)?;
        disk.remove(&directory.join(ROTATION))?;
        disk.sync_dir(directory)
    };
    replace().map_err(|cause| failed(directory, &cause))
}

/// Removes the next content of a rotation that does not count. Whether there was any.
fn discard(disk: &dyn Disk, directory: &Path) -> io::Result<bool> {
    let names = rotated_names(disk, directory)?;
    for name in &names {
        disk.remove(&directory.join(name))?;
    }
    remove(disk, &directory.join(ROTATION).with_extension("new"))?;
    Ok(!names.is_empty())
}

fn rotated_names(disk: &dyn Disk, directory: &Path) -> io::Result<Vec<String>> {
    match disk.list(directory) {
        Ok(mut names) => {
            names.retain(|name| name.starts_with(ROTATED));
            Ok(names)
        }
        // There is no keyring yet.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(cause) => Err(cause),
    }
}

/// Writes zeros over the old server key: its place on the disk may be read later.
fn overwrite(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.open(path, How::Write) {
        Ok(file) => write_all_at(&*file, 0, &[0; KEY_BYTES]).and_then(|()| file.sync_data()),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(cause),
    }
}

fn remove(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

pub fn encode(is_kept: bool) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], &FORMAT.to_be_bytes(), &[u8::from(is_kept)]].concat();
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

fn decode(path: &Path, bytes: &[u8]) -> Result<bool, KeyringError> {
    let (body, crc) = bytes.split_last_chunk::<4>().ok_or_else(|| damaged(path, "ends early"))?;
    if crc32fast::hash(body).to_be_bytes() != *crc {
        return Err(damaged(path, "does not match its checksum"));
    }
    let format = body.strip_prefix(MAGIC).and_then(|rest| rest.first_chunk());
    let format = format.ok_or_else(|| damaged(path, "is not the mark of a rotation"))?;
    let found = u32::from_be_bytes(*format);
    if found > FORMAT {
        let file = path.display().to_string();
        return Err(KeyringError::NewerFormat { file, found, known: FORMAT });
    }
    match (bytes.len(), body.last()) {
        (ROTATION_BYTES, Some(0)) => Ok(false),
        (ROTATION_BYTES, Some(1)) => Ok(true),
        _ => Err(damaged(path, "does not decode")),
    }
}
