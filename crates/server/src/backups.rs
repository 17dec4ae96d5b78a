//! Making a backup while serving: a directory inside the data directory that `fantail restore` can start from.
//!
//! What must never happen: a copy whose parts do not fit. The snapshot and the audit log come first (its checkpoints
//! before its entries), then the journal, which reaches at least as far, then the keys, which cover everything in both. A tail that was being written
//! while it was copied is left out: the journals and the keys copy what is durable, and nothing that is being written.
//! Before all of them comes the mark that keeps a server on the copy from sending (`copy_mark`).
//!
//! ```text
//! backups/<milliseconds>.part    a copy that is being made; removed if it fails, and at the next start
//! backups/<milliseconds>         a whole copy
//! ```

use crate::audit_files::{audit_directory, public_file, secret_file};
use crate::composition::{blobs_directory, journal_directory, keys_directory};
use crate::copy_mark::CopyMark;
use crate::erasure_files;
use crate::provision::{admin_file, data_directory, default_file};
use crate::snapshots::Snapshots;
use anyhow::{Context, Result, anyhow, bail};
use fantail_local::audit::LocalAudit;
use fantail_local::blobs::LocalBlobs;
use fantail_local::erasure_list::LocalErasureList;
use fantail_local::journal::LocalJournal;
use fantail_local::keyring::LocalKeyring;
use fantail_node::Node;
use fantail_node::housekeeping::Taken;
use fantail_wire::health::Backup;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::{info, warn};

pub struct Backups {
    pub node: Node,
    pub snapshots: Arc<Snapshots>,
    pub journal: Arc<LocalJournal>,
    pub audit: Arc<LocalAudit>,
    pub keyring: Arc<LocalKeyring>,
    pub erasure_list: Arc<LocalErasureList>,
    pub data: PathBuf,
    /// Held while one is made: each reads everything there is.
    pub making: Mutex<()>,
}

const PART: &str = "part";

#[must_use]
pub fn backups_directory(data: &Path) -> PathBuf {
    data.join("backups")
}

/// Removes copies that an earlier process did not finish.
pub fn remove_unfinished(data: &Path) -> Result<()> {
    let directory = backups_directory(data);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", directory.display())),
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == PART) {
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            info!(path = %path.display(), "unfinished backup removed");
        }
    }
    Ok(())
}

impl Backups {
    /// Blocks while it copies. `is_wanted` is asked between two parts: whoever asked may be gone.
    pub fn make(&self, is_wanted: &dyn Fn() -> bool) -> Result<Backup> {
        let _one_at_a_time = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        // Before everything else: what the list has up to here, the copy has too.
        let erasure_list = erasure_files::remember(&self.data, &self.erasure_list)?;
        let taken = self.snapshots.take(&self.node)?;
        let mark =
            CopyMark { taken_at: Some(taken.at), erasure_list: Some(erasure_list), ..CopyMark::default() };
        let target = backups_directory(&self.data).join(format!("{:014}", taken.at.0));
        let part = target.with_extension(PART);
        let copied = self.copy(&taken, &mark, &part, is_wanted);
        let made = copied.and_then(|bytes| {
            fs::rename(&part, &target).with_context(|| format!("cannot name {}", target.display()))?;
            fs::File::open(backups_directory(&self.data))?.sync_all()?;
            Ok(bytes)
        });
        let bytes = made.inspect_err(|_| {
            if let Err(error) = fs::remove_dir_all(&part) {
                warn!(path = %part.display(), %error, "an unfinished backup stays until the next start");
            }
        })?;
        info!(path = %target.display(), bytes, "backup made");
        let path = target.to_str().map(str::to_owned);
        Ok(Backup { path: path.ok_or_else(|| anyhow!("the data directory's name is not text"))?, bytes })
    }

    fn copy(
        &self,
        taken: &Taken,
        mark: &CopyMark,
        target: &Path,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<u64> {
        let go_on =
            || if is_wanted() { Ok(()) } else { bail!("the request ended before the backup was made") };
        data_directory(target)?;
        mark.write(target)?;
        go_on()?;
        let mut bytes = self.snapshots.copy(taken, &LocalBlobs::open(blobs_directory(target))?)?;
        go_on()?;
        bytes += self.audit.copy_to(&audit_directory(target)).context("cannot copy the audit log")?;
        bytes += copy(&public_file(&self.data), &public_file(target))?;
        go_on()?;
        let copied = self.journal.hold().copy_to(&journal_directory(target));
        bytes += copied.context("cannot copy the journal")?.bytes;
        go_on()?;
        bytes += self.keyring.copy_to(&keys_directory(target)).context("cannot copy the keys")?;
        bytes += copy(&secret_file(&self.data), &secret_file(target))?;
        for file in [admin_file, default_file] {
            if file(&self.data).exists() {
                bytes += copy(&file(&self.data), &file(target))?;
            }
        }
        Ok(bytes)
    }
}

fn copy(from: &Path, to: &Path) -> Result<u64> {
    let about = || format!("cannot copy {}", from.display());
    let parent = to.parent().unwrap_or(Path::new("."));
    data_directory(parent)?;
    let bytes = fs::copy(from, to).with_context(about)?;
    for written in [to, parent] {
        fs::File::open(written).and_then(|file| file.sync_all()).with_context(about)?;
    }
    Ok(bytes)
}
