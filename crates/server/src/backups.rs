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

use crate::audit_files::{audit_directory, public_file};
use crate::backup_keys::{self, KeyHandling};
use crate::composition::{blobs_directory, journal_directory, keys_directory};
use crate::copy_mark::CopyMark;
use crate::erasure_files;
use crate::provision::data_directory;
use crate::snapshots::Snapshots;
use anyhow::{Context, Result, anyhow, bail};
use fantail_local::audit::LocalAudit;
use fantail_local::blobs::LocalBlobs;
use fantail_local::erasure_list::LocalErasureList;
use fantail_local::journal::LocalJournal;
use fantail_local::keyring::LocalKeyring;
use fantail_local::recipient::Recipient;
use fantail_node::Node;
use fantail_node::housekeeping::Taken;
use fantail_rules::ids::Millis;
use fantail_wire::health::Backup;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::{info, warn};

/// What the operator says about backups.
#[derive(Clone, Copy, Debug)]
pub struct BackupSettings {
    /// To whom keys are sealed; without it they are in the clear.
    pub recipient: Option<Recipient>,
    /// Whole copies that stay in the data directory; 0: all.
    pub keep_max: usize,
    /// How long they stay there; 0: for good.
    pub keep_ms: u64,
}

pub struct Backups {
    pub node: Node,
    pub snapshots: Arc<Snapshots>,
    pub journal: Arc<LocalJournal>,
    pub audit: Arc<LocalAudit>,
    pub keyring: Arc<LocalKeyring>,
    pub erasure_list: Arc<LocalErasureList>,
    pub data: PathBuf,
    pub settings: BackupSettings,
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

/// Removes whole copies beyond the settings: they have the keys of their time. Blocks while it deletes.
pub fn remove_old(data: &Path, settings: BackupSettings, now: Millis) -> Result<()> {
    let directory = backups_directory(data);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", directory.display())),
    };
    let mut whole = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        // Anything else was not made by us.
        if let Some(at) = name.to_str().and_then(|name| name.parse().ok()) {
            whole.push((Millis(at), directory.join(name)));
        }
    }
    whole.sort();
    for (_, path) in old(&whole, settings, now) {
        fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))?;
        info!(path = %path.display(), "old backup removed");
    }
    Ok(())
}

/// Those of these, oldest first, that go.
fn old(whole: &[(Millis, PathBuf)], settings: BackupSettings, now: Millis) -> &[(Millis, PathBuf)] {
    let BackupSettings { keep_max, keep_ms, .. } = settings;
    let too_many = if keep_max == 0 { 0 } else { whole.len().saturating_sub(keep_max) };
    let too_old = whole.partition_point(|(at, _)| keep_ms > 0 && now.since(*at) >= keep_ms);
    &whole[..too_many.max(too_old)]
}

impl Backups {
    fn handling(&self, has_keys: bool) -> KeyHandling {
        match self.settings.recipient {
            _ if !has_keys => KeyHandling::LeftOut,
            Some(recipient) => KeyHandling::Sealed(recipient),
            None => KeyHandling::Clear,
        }
    }

    /// Blocks while it copies. `is_wanted` is asked between two parts: whoever asked may be gone.
    pub fn make(&self, has_keys: bool, is_wanted: &dyn Fn() -> bool) -> Result<Backup> {
        let handling = self.handling(has_keys);
        let _one_at_a_time = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        // Before everything else: what the list has up to here, the copy has too.
        let place = erasure_files::remember(&self.data, &self.erasure_list)?;
        // A copy to which erasures are still to be applied hands on the place from which they are.
        let unapplied = CopyMark::read(&self.data)?.filter(|mark| !mark.erasures_applied);
        let erasure_list = unapplied.and_then(|mark| mark.erasure_list).unwrap_or(place);
        let taken = self.snapshots.take(&self.node)?;
        let mark = CopyMark {
            taken_at: Some(taken.at),
            is_without_keys: handling == KeyHandling::LeftOut,
            erasure_list: Some(erasure_list),
            ..CopyMark::default()
        };
        let target = backups_directory(&self.data).join(format!("{:014}", taken.at.0));
        let part = target.with_extension(PART);
        let copied = self.copy(&taken, &mark, handling, &part, is_wanted);
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
        let keys = handling.shown();
        info!(path = %target.display(), bytes, ?keys, "backup made");
        if let Err(failed) = remove_old(&self.data, self.settings, taken.at) {
            warn!(%failed, "old backups were not removed");
        }
        let path = target.to_str().map(str::to_owned);
        let path = path.ok_or_else(|| anyhow!("the data directory's name is not text"))?;
        Ok(Backup { path, bytes, keys })
    }

    fn copy(
        &self,
        taken: &Taken,
        mark: &CopyMark,
        handling: KeyHandling,
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
        bytes += backup_keys::copy(&self.data, target, handling)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_beyond_their_number_or_age_go_oldest_first() {
        const DAY_MS: u64 = 86_400_000;
        let whole = [1, 2, 3, 9].map(|day| (Millis(day * DAY_MS), PathBuf::from(day.to_string())));
        let check = |keep_max: usize, keep_days: u64, expected: usize| {
            let settings = BackupSettings { recipient: None, keep_max, keep_ms: keep_days * DAY_MS };
            let gone = old(&whole, settings, Millis(9 * DAY_MS));
            assert_eq!(gone.len(), expected, "{keep_max} of {keep_days} days");
        };
        check(0, 0, 0);
        check(3, 0, 1);
        check(4, 0, 0);
        check(1, 0, 3);
        check(0, 7, 2);
        check(0, 6, 3);
        check(3, 7, 2);
        check(1, 30, 3);
        check(9, 30, 0);
    }

    #[test]
    fn only_whole_copies_of_ours_are_removed() {
        let data = std::env::temp_dir().join(format!("fantail-old-backups-{}", std::process::id()));
        let directory = backups_directory(&data);
        for name in ["00000000000001", "00000000000002", "00000000000003.part", "mine"] {
            fs::create_dir_all(directory.join(name)).expect("a directory");
        }
        let settings = BackupSettings { recipient: None, keep_max: 1, keep_ms: 0 };
        remove_old(&data, settings, Millis(5)).expect("removed");
        let left = fs::read_dir(&directory).expect("a directory");
        let mut left: Vec<_> = left.map(|entry| entry.expect("an entry").file_name()).collect();
        left.sort();
        assert_eq!(left, ["00000000000002", "00000000000003.part", "mine"]);
        fs::remove_dir_all(&data).expect("the directory is there");
    }
}
