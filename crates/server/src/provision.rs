//! What the first start makes, so that the first request works: an admin key, the tenant `default` and a key for it.
//!
//! Keys are written to files that only their owner can read, before they are made known to the node: a crash in
//! between is repaired by the next start, which finds the file and finishes.

use crate::config::{Bootstrap, Config, Secret};
use anyhow::{Context, Result, bail, ensure};
use fantail_api::key::{self, NewKey};
use fantail_local::disk::{Disk, RealDisk};
use fantail_node::Node;
use fantail_node::ask::{KeyAsk, Refusal, TenantAsk, TenantView};
use fantail_ports::entropy::Entropy;
use fantail_wire::tenant::Scope;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub const DEFAULT_TENANT: &str = "default";
const ADMIN_FILE: &str = "admin.key";
const DEFAULT_FILE: &str = "default.key";
const SANDBOX_FILE: &str = "sandbox.key";
/// Longer files are not keys.
const KEY_BYTES_MAX: u64 = 1_024;

/// The admin key in use and where it came from.
#[derive(Debug)]
pub struct AdminKey {
    pub key: Secret,
    /// `None`: given by the operator.
    pub file: Option<PathBuf>,
}

/// Makes the data directory, readable only by its owner. Its name is durable on return: without it everything in it that is
/// synced later would be gone with the first power cut.
pub fn data_directory(data: &Path) -> Result<()> {
    let made = RealDisk.create_private_dir(data);
    made.with_context(|| format!("cannot make the data directory {}", data.display()))
}

#[must_use]
pub fn admin_file(data: &Path) -> PathBuf {
    data.join(ADMIN_FILE)
}

#[must_use]
pub fn default_file(data: &Path) -> PathBuf {
    data.join(DEFAULT_FILE)
}

/// The key of the built-in sandbox's viewer.
#[must_use]
pub fn sandbox_file(data: &Path) -> PathBuf {
    data.join(SANDBOX_FILE)
}

/// The key of a sandbox's viewer: the one of an earlier start, else a new one. No server fails to start for want of it.
pub fn viewer_key(file: &Path, entropy: &dyn Entropy) -> Result<String> {
    if let Ok(Some(text)) = read_key(file)
        && key::is_admin_key(&text)
    {
        return Ok(text);
    }
    let text = key::mint_admin(entropy);
    write_key(file, &text)?;
    Ok(text)
}

/// The operator's key, else the one of an earlier start, else a new one.
pub fn admin_key(data: &Path, given: Option<&Secret>, entropy: &dyn Entropy) -> Result<AdminKey> {
    if let Some(key) = given {
        return Ok(AdminKey { key: key.clone(), file: None });
    }
    let file = admin_file(data);
    let text = match read_key(&file)? {
        Some(text) => text,
        None => {
            let text = key::mint_admin(entropy);
            write_key(&file, &text)?;
            text
        }
    };
    ensure!(key::is_admin_key(&text), "{} does not hold an admin key", file.display());
    Ok(AdminKey { key: Secret(text), file: Some(file) })
}

/// Makes sure that the tenant `default` exists on a fresh server and has had a key, unless the operator wants neither.
pub async fn default_tenant(node: &Node, config: &Config, entropy: &dyn Entropy) -> Result<()> {
    // Not to make other keys, and not to send what goes past quiet hours and limits.
    let is_kept_back = |scope: &Scope| matches!(scope, Scope::Admin | Scope::SendCritical);
    let is_full = match config.bootstrap {
        Bootstrap::None => return Ok(()),
        Bootstrap::Default => false,
        Bootstrap::Full => true,
    };
    let scopes = Scope::ALL.iter().filter(|scope| is_full || !is_kept_back(scope));
    let file = default_file(&config.data);
    let Some(tenant) = find_or_create(node).await? else { return Ok(()) };
    let text = match read_key(&file)? {
        Some(text) => text,
        // Someone took the key away on purpose: it is not made again.
        None if !node.keys(tenant.id).is_empty() => return Ok(()),
        None => {
            let text = NewKey::mint(entropy).text;
            write_key(&file, &text)?;
            text
        }
    };
    let Some(presented) = key::read(&text) else { bail!("{} does not hold a key", file.display()) };
    if node.keys(tenant.id).is_empty() {
        let ask = KeyAsk {
            id: presented.id.to_owned(),
            secret_hash: presented.secret_hash,
            scopes: scopes.map(|scope| scope.text().to_owned()).collect(),
            expires_at: None,
            rate: None,
        };
        node.create_key(tenant.id, ask).await.context("cannot make the first key")?;
    }
    Ok(())
}

/// The file with the first key and the key, as long as it is good for anything.
pub fn default_key(node: &Node, data: &Path) -> Result<Option<(PathBuf, String)>> {
    let file = default_file(data);
    let Some(text) = read_key(&file)? else { return Ok(None) };
    let stored = key::read(&text).and_then(|presented| node.key_by_id(presented.id));
    Ok(stored.filter(|key| key.revoked_at.is_none()).map(|_| (file, text)))
}

/// The default tenant; `None` on a server that has other tenants but not this one.
async fn find_or_create(node: &Node) -> Result<Option<TenantView>> {
    if let Some(tenant) = node.tenant_by_slug(DEFAULT_TENANT) {
        return Ok(Some(tenant));
    }
    if !node.tenants().is_empty() {
        return Ok(None);
    }
    let ask = TenantAsk { slug: DEFAULT_TENANT.to_owned(), name: "Default".to_owned() };
    match node.create_tenant(ask).await {
        Ok(tenant) => Ok(Some(tenant)),
        Err(Refusal::TenantExists { .. }) => Ok(node.tenant_by_slug(DEFAULT_TENANT)),
        Err(refusal) => Err(refusal).context("cannot make the tenant default"),
    }
}

/// The key in a file; `None` if there is no file.
pub fn read_key(file: &Path) -> Result<Option<String>> {
    let about = || format!("cannot read the key file {}", file.display());
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(about),
        Ok(metadata) => ensure!(metadata.len() <= KEY_BYTES_MAX, "{} is not a key file", file.display()),
    }
    let text = fs::read_to_string(file).with_context(about)?;
    Ok(Some(text.trim().to_owned()))
}

/// Writes a key so that it is there whole or not at all, for its owner only.
pub fn write_key(file: &Path, text: &str) -> Result<()> {
    let beside = file.with_extension("new");
    let written = || -> io::Result<()> {
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) | Ok(()) => {}
        }
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        writeln!(out, "{text}")?;
        out.sync_all()?;
        fs::rename(&beside, file)?;
        let named = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = named.unwrap_or(Path::new("."));
        fs::File::open(directory)?.sync_all()
    };
    written().with_context(|| format!("cannot write the key file {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::SystemEntropy;
    use std::os::unix::fs::PermissionsExt;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("fantail-provision-{}-{name}", std::process::id()));
            data_directory(&path).expect("a directory");
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("the directory is there");
        }
    }

    #[test]
    fn admin_keys_are_made_once_and_private() {
        let directory = Directory::new("once");
        let entropy = SystemEntropy::default();
        let first = admin_key(&directory.0, None, &entropy).expect("a key");
        let again = admin_key(&directory.0, None, &entropy).expect("the same key");
        assert_eq!(first.key, again.key);
        let mode = fs::metadata(admin_file(&directory.0)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mode = fs::metadata(&directory.0).expect("a directory").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_given_admin_key_is_not_written_down() {
        let directory = Directory::new("given");
        let given = Secret("x".repeat(40));
        let key = admin_key(&directory.0, Some(&given), &SystemEntropy::default()).expect("a key");
        assert_eq!(key.key, given);
        assert!(key.file.is_none() && !admin_file(&directory.0).exists());
    }

    #[test]
    fn a_damaged_key_file_is_refused() {
        let directory = Directory::new("damaged");
        for text in ["", "short", &"x".repeat(5_000)] {
            fs::write(admin_file(&directory.0), text).expect("a file");
            assert!(admin_key(&directory.0, None, &SystemEntropy::default()).is_err(), "{}", text.len());
        }
    }
}
