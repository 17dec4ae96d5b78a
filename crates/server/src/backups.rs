//! Making a backup while serving: a directory inside the data directory that `fantail restore` can start from.
//!
//! What must never happen: a copy whose parts do not fit. The snapshot and the audit log come first (its checkpoints
//! before its entries), then the journal, which reaches at least as far, then the keys, which cover everything in both. A tail that was being written while it was
//! copied is cut when the copy is opened, as after a crash.

use crate::audit_files::{audit_directory, public_file};
use crate::composition::{blobs_directory, journal_directory, keys_directory};
use crate::provision::{admin_file, data_directory, default_file};
use crate::snapshots::Snapshots;
use anyhow::{Context, Result, anyhow};
use fantail_local::blobs::LocalBlobs;
use fantail_node::Node;
use fantail_wire::health::Backup;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::info;

pub struct Backups {
    pub node: Node,
    pub snapshots: Arc<Snapshots>,
    pub data: PathBuf,
}

impl Backups {
    /// Blocks while it copies.
    pub fn make(&self) -> Result<Backup> {
        let taken = self.snapshots.take(&self.node)?;
        let target = self.data.join("backups").join(format!("{:014}", taken.at.0));
        data_directory(&target)?;
        let mut bytes = self.snapshots.copy(&taken, &LocalBlobs::open(blobs_directory(&target))?)?;
        let (audit, copied) = (audit_directory(&self.data), audit_directory(&target));
        for part in ["checkpoints", "log"] {
            bytes += copy_files(&audit.join(part), &copied.join(part))?;
        }
        bytes += copy(&public_file(&self.data), &public_file(&target))?;
        bytes += copy_files(&journal_directory(&self.data), &journal_directory(&target))?;
        bytes += copy_files(&keys_directory(&self.data), &keys_directory(&target))?;
        for file in [admin_file, default_file] {
            if file(&self.data).exists() {
                bytes += copy(&file(&self.data), &file(&target))?;
            }
        }
        info!(path = %target.display(), bytes, "backup made");
        let path = target.to_str().map(str::to_owned);
        Ok(Backup { path: path.ok_or_else(|| anyhow!("the data directory's name is not text"))?, bytes })
    }
}

/// Copies the files of a tree, durably, leaving out locks.
fn copy_files(from: &Path, to: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            bytes += copy_files(&from, &to)?;
        } else if from.extension().is_none_or(|extension| extension != "lock") {
            bytes += copy(&from, &to)?;
        }
    }
    Ok(bytes)
}

fn copy(from: &Path, to: &Path) -> Result<u64> {
    let about = || format!("cannot copy {}", from.display());
    data_directory(to.parent().unwrap_or(Path::new(".")))?;
    let bytes = fs::copy(from, to).with_context(about)?;
    fs::File::open(to).and_then(|file| file.sync_all()).with_context(about)?;
    Ok(bytes)
}
