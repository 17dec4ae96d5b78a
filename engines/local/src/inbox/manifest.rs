//! The manifest of a partition: which runs there are, oldest first, and how far each tenant is materialised.
//!
//! ```text
//! manifest  "FANTINBX" format:4 crc:4 body        crc of the body; numbers with a size are little-endian
//! body      tenants (tenant through)* runs (number bytes contents-crc)*      packed
//! ```
//! Replaced whole: written beside, synced, renamed, the directory synced. What must never happen: a manifest that
//! names a run which is not durable, or a run that is removed while a durable manifest names it.

use super::numbers;
use super::run::{RunName, damage, io_error};
use crate::disk::{Disk, How, read_full_at, write_all_at};
use fantail_ports::store::StoreError;
use fantail_rules::ids::{Arrival, TenantId};
use std::collections::BTreeMap;
use std::path::Path;

const MAGIC: &[u8; 8] = b"FANTINBX";
/// The newest format this build reads and the one it writes.
const FORMAT: u32 = 1;
const HEAD_BYTES: usize = 16;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Manifest {
    pub through: BTreeMap<TenantId, Arrival>,
    /// Oldest first.
    pub runs: Vec<RunName>,
}

impl Manifest {
    /// Durable under `path` on return; after an error the old one or this one is.
    pub fn write(&self, disk: &dyn Disk, directory: &Path, path: &Path) -> Result<(), StoreError> {
        let beside = path.with_extension("new");
        let failed = |cause: std::io::Error| io_error(&beside, &cause);
        let file = disk.open(&beside, How::Create).map_err(failed)?;
        write_all_at(&*file, 0, &self.encode()).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        disk.rename(&beside, path).map_err(|cause| io_error(path, &cause))?;
        disk.sync_dir(directory).map_err(|cause| io_error(directory, &cause))
    }

    pub fn read(disk: &dyn Disk, path: &Path) -> Result<Self, StoreError> {
        let failed = |cause: std::io::Error| io_error(path, &cause);
        let file = disk.open(path, How::Read).map_err(failed)?;
        let length =
            usize::try_from(file.len().map_err(failed)?).map_err(|_| damage(path, 0, "is too large"))?;
        let mut bytes = vec![0; length];
        let count = read_full_at(&*file, 0, &mut bytes).map_err(failed)?;
        bytes.truncate(count);
        let (head, body) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(|| damage(path, 0, "ends early"))?;
        if head[..8] != *MAGIC {
            return Err(damage(path, 0, "is not a manifest"));
        }
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if number(8) > FORMAT {
            let what = path.display().to_string();
            return Err(StoreError::NewerFormat { what, found: number(8), known: FORMAT });
        }
        if number(8) != FORMAT || crc32fast::hash(body) != number(12) {
            return Err(damage(path, 8, "does not match its checksum"));
        }
        Self::decode(body).ok_or_else(|| damage(path, HEAD_BYTES as u64, "does not decode"))
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        numbers::put(&mut body, self.through.len() as u64);
        for (tenant, through) in &self.through {
            numbers::put(&mut body, u64::from(tenant.0));
            numbers::put(&mut body, through.0);
        }
        numbers::put(&mut body, self.runs.len() as u64);
        for run in &self.runs {
            numbers::put(&mut body, run.number);
            numbers::put(&mut body, run.bytes);
            numbers::put(&mut body, u64::from(run.contents_crc));
        }
        let crc = crc32fast::hash(&body);
        [&MAGIC[..], &FORMAT.to_le_bytes(), &crc.to_le_bytes(), &body].concat()
    }

    fn decode(mut body: &[u8]) -> Option<Self> {
        let (mut manifest, body) = (Self::default(), &mut body);
        for _ in 0..numbers::take(body)? {
            let tenant = TenantId(u32::try_from(numbers::take(body)?).ok()?);
            manifest.through.insert(tenant, Arrival(numbers::take(body)?));
        }
        for _ in 0..numbers::take(body)? {
            let (number, bytes) = (numbers::take(body)?, numbers::take(body)?);
            let contents_crc = u32::try_from(numbers::take(body)?).ok()?;
            manifest.runs.push(RunName { number, bytes, contents_crc });
        }
        body.is_empty().then_some(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FaultDisk;

    fn manifest() -> Manifest {
        Manifest {
            through: BTreeMap::from([(TenantId(1), Arrival(300)), (TenantId(9), Arrival(2))]),
            runs: vec![
                RunName { number: 4, bytes: 70_000, contents_crc: 0xdead_beef },
                RunName { number: 2, bytes: 64, contents_crc: 0 },
            ],
        }
    }

    #[test]
    fn manifests_round_trip_and_every_flip_is_named() {
        let (disk, directory, path) =
            (FaultDisk::new(1), Path::new("/inbox"), Path::new("/inbox/c001.manifest"));
        disk.create_dir(directory).expect("a healthy disk");
        manifest().write(&disk, directory, path).expect("a healthy disk");
        assert_eq!(Manifest::read(&disk, path).expect("a healthy disk"), manifest());
        for offset in 0..disk.contents(path).len() {
            disk.flip(path, offset, 4);
            match Manifest::read(&disk, path) {
                Err(StoreError::Damaged { what, .. }) => assert!(what.contains("c001.manifest"), "{what}"),
                Err(StoreError::NewerFormat { .. }) if (8..12).contains(&offset) => {}
                other => panic!("flip at {offset}: {other:?}"),
            }
            disk.flip(path, offset, 4);
        }
    }

    #[test]
    fn layout_is_frozen() {
        let bytes = manifest().encode();
        assert_eq!(bytes[..12], *b"FANTINBX\x01\0\0\0");
        let body = [2, 1, 0xac, 2, 9, 2, 2, 4, 0xf0, 0xa2, 4, 0xef, 0xfd, 0xb6, 0xf5, 0xd, 2, 64, 0];
        assert_eq!(bytes[16..], body);
    }
}
