//! The manifest of the keyring: which tenants have keys, and how many batches of them were durable before one was handed
//! out.
//!
//! ```text
//! manifest  "FANTKEYM" format:4 count:4 (tenant:4 batches:8)* crc:4       crc of everything before it; big-endian
//! ```
//! What must never happen: keys that were handed out and are not in it. Without it a key file that was cut looks like one
//! whose last batch was never finished, and a deleted one like a tenant that has none yet. So a batch is named here before
//! its first key is handed out, and a file that has less than is named here refuses the start.

use super::file::write_whole;
use super::vault::Unwritten;
use crate::disk::{Disk, read_whole};
use fantail_ports::keyring::KeyringError;
use fantail_rules::ids::TenantId;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const MAGIC: &[u8; 8] = b"FANTKEYM";
const FORMAT: u32 = 1;
const HEAD_BYTES: usize = 16;
const ROW_BYTES: usize = 12;

/// Batches by tenant.
pub type Batches = BTreeMap<TenantId, u64>;

#[derive(Default)]
pub struct Manifest {
    path: PathBuf,
    batches: Mutex<Batches>,
}

pub fn manifest_path(directory: &Path) -> PathBuf {
    directory.join("manifest")
}

impl Manifest {
    /// A manifest that is as durable as said.
    pub fn new(directory: &Path, batches: Batches) -> Self {
        Self { path: manifest_path(directory), batches: Mutex::new(batches) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many batches a tenant has for certain; `None` if it has no keys.
    pub fn batches(&self, tenant: TenantId) -> Option<u64> {
        self.held().get(&tenant).copied()
    }

    pub fn tenants(&self) -> Batches {
        self.held().clone()
    }

    /// Names a tenant's batches. Durable on return. Fewer than before are not believed.
    pub fn set(&self, disk: &dyn Disk, tenant: TenantId, batches: u64) -> Result<(), Unwritten> {
        let mut held = self.held();
        if held.get(&tenant).is_some_and(|known| *known >= batches) {
            return Ok(());
        }
        let mut next = held.clone();
        next.insert(tenant, batches);
        write_whole(disk, &self.path, &encode(&next))?;
        *held = next;
        Ok(())
    }

    fn held(&self) -> MutexGuard<'_, Batches> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the manifest of a directory says, if there is one.
pub fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<Batches>, KeyringError> {
    let path = manifest_path(directory);
    let bytes = match read_whole(disk, &path) {
        Ok(bytes) => bytes,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(super::failed(&path, &cause)),
    };
    let (body, crc) = bytes.split_last_chunk::<4>().ok_or_else(|| super::damaged(&path, "ends early"))?;
    if crc32fast::hash(body).to_be_bytes() != *crc {
        return Err(super::damaged(&path, "does not match its checksum"));
    }
    let number =
        |at: usize| body.get(at..at + 4).and_then(|four| Some(u32::from_be_bytes(four.try_into().ok()?)));
    if !body.starts_with(MAGIC) {
        return Err(super::damaged(&path, "is not a manifest of keys"));
    }
    if let Some(found) = number(8).filter(|found| *found > FORMAT) {
        let file = path.display().to_string();
        return Err(KeyringError::NewerFormat { file, found, known: FORMAT });
    }
    let batches = number(12).and_then(|count| decode(body, count));
    batches.ok_or_else(|| super::damaged(&path, "does not decode")).map(Some)
}

fn decode(body: &[u8], count: u32) -> Option<Batches> {
    let rows = body.get(HEAD_BYTES..)?;
    let row = |row: &[u8]| {
        let (tenant, batches) = row.split_first_chunk::<4>()?;
        let batches = u64::from_be_bytes(batches.try_into().ok()?);
        Some((TenantId(u32::from_be_bytes(*tenant)), batches))
    };
    let is_whole = rows.len() == count as usize * ROW_BYTES;
    rows.chunks(ROW_BYTES).map(row).collect::<Option<Batches>>().filter(|_| is_whole)
}

pub fn encode(batches: &Batches) -> Vec<u8> {
    let count = u32::try_from(batches.len()).expect("a tenant's number has 32 bits");
    let mut bytes = [&MAGIC[..], &FORMAT.to_be_bytes(), &count.to_be_bytes()].concat();
    for (tenant, batches) in batches {
        bytes.extend_from_slice(&tenant.0.to_be_bytes());
        bytes.extend_from_slice(&batches.to_be_bytes());
    }
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FaultDisk;

    #[test]
    fn manifests_round_trip_and_every_flip_and_cut_is_named() {
        let (disk, directory) = (FaultDisk::new(1), Path::new("/keys"));
        let path = manifest_path(directory);
        let batches = Batches::from([(TenantId(1), 3), (TenantId(900), 0)]);
        assert_eq!(read(&disk, directory).expect("a healthy disk"), None);
        let bytes = encode(&batches);
        assert_eq!(bytes[..20], *b"FANTKEYM\0\0\0\x01\0\0\0\x02\0\0\0\x01");
        disk.set_contents(&path, bytes.clone());
        assert_eq!(read(&disk, directory).expect("a healthy disk"), Some(batches));
        let is_named = |what: &str| {
            let error = read(&disk, directory).expect_err("damage is seen");
            assert!(
                matches!(&error, KeyringError::Damaged { file, .. } if file == "/keys/manifest"),
                "{what}: {error}"
            );
        };
        for at in 0..bytes.len() {
            disk.flip(&path, at, 4);
            is_named(&format!("flip at {at}"));
            disk.set_contents(&path, bytes[..at].to_vec());
            is_named(&format!("cut at {at}"));
            disk.set_contents(&path, bytes.clone());
        }
    }
}
