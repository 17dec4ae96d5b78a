//! Files that nobody but their owner reads.

use crate::config::Config;
use rustix::fs::Mode;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tracing::warn;

/// The bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// From here on what this process makes is its owner's alone.
pub fn keep_private() {
    rustix::process::umask(Mode::from_raw_mode(OTHERS));
}

/// Warns of what existed before and is open to others: the data directory, the private key, files with secrets. They are not
/// refused: container platforms hand secrets over in files that everybody in the container may read.
pub fn warn_of_open_files(config: &Config) {
    let key = config.tls.as_ref().map(|tls| tls.key.as_path());
    let secrets = config.secret_files.iter().map(PathBuf::as_path);
    for path in [config.data.as_path()].into_iter().chain(key).chain(secrets) {
        if let Some(mode) = open_to_others(path) {
            let (path, mode) = (path.display(), format!("{mode:o}"));
            warn!(%path, mode, "others on this machine may read this: take their rights away (chmod go=)");
        }
    }
}

/// The mode, if others have any right.
fn open_to_others(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o7777;
    (mode & OTHERS != 0).then_some(mode)
}
