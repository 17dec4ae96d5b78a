//! The keys of a backup: sealed to a recipient, left out, or in the clear.
//!
//! ```text
//! keys.sealed    what the files below hold, sealed to a recipient; they are not beside it then
//! sealed         (length of the name: 1, name, length: 4, content)*        big-endian
//! ```
//! Only the keys that open everything else are sealed: the server key, the signer of the audit log, and the API keys that the server
//! wrote down. The keys of tenants and users are in the backup as they lie on the disk, sealed under the server key.
//!
//! What must never happen: a name out of a sealed part that leads out of the directory; a key in the clear beside its sealed copy.

use crate::audit_files::secret_file;
use crate::composition::keys_directory;
use crate::provision::{admin_file, data_directory, default_file};
use anyhow::{Context, Result, bail, ensure};
use fantail_local::disk::{Disk, RealDisk};
use fantail_local::recipient::{Identity, Recipient, sealed_to};
use fantail_wire::health::KeysInBackup;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const SEALED: &str = "keys.sealed";
/// A key file has less than 200 bytes.
const FILE_BYTES_MAX: u64 = 4_096;
const SEALED_BYTES_MAX: u64 = 64 << 10;
const IDENTITY_BYTES_MAX: u64 = 4_096;

/// What becomes of the keys in a backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyHandling {
    Sealed(Recipient),
    LeftOut,
    Clear,
}

impl KeyHandling {
    #[must_use]
    pub fn shown(self) -> KeysInBackup {
        match self {
            Self::Sealed(_) => KeysInBackup::Sealed,
            Self::LeftOut => KeysInBackup::LeftOut,
            Self::Clear => KeysInBackup::Clear,
        }
    }
}

type FileOf = fn(&Path) -> PathBuf;

/// The keys that open everything else, by their names in a sealed part. Frozen names.
const KEY_FILES: &[(&str, FileOf)] = &[
    ("keys/server.key", |data| keys_directory(data).join("server.key")),
    ("keys/audit.key", secret_file),
    ("admin.key", admin_file),
    ("default.key", default_file),
];

#[must_use]
pub fn sealed_file(directory: &Path) -> PathBuf {
    directory.join(SEALED)
}

/// Puts the keys of a data directory into a copy of it. Returns the bytes.
pub fn copy(data: &Path, target: &Path, handling: KeyHandling) -> Result<u64> {
    match handling {
        KeyHandling::Clear => {
            let mut bytes = 0;
            for (name, content) in read_all(data)? {
                bytes += content.len() as u64;
                write_private(&target.join(name), &content)?;
            }
            Ok(bytes)
        }
        KeyHandling::LeftOut => remove_clear(target).map(|()| 0),
        KeyHandling::Sealed(recipient) => {
            let sealed =
                recipient.seal(&encode(&read_all(data)?)).context("the recipient is no public key")?;
            write_private(&sealed_file(target), &sealed)?;
            remove_clear(target)?;
            Ok(sealed.len() as u64)
        }
    }
}

type NamedFiles = Vec<(&'static str, Vec<u8>)>;

/// Those that there are: a server key may be kept elsewhere, and an operator may have given or taken away the others.
fn read_all(data: &Path) -> Result<NamedFiles> {
    let mut found = Vec::new();
    for (name, file) in KEY_FILES {
        let path = file(data);
        if path.exists() {
            found.push((*name, read_small(&path, FILE_BYTES_MAX)?));
        }
    }
    Ok(found)
}

fn read_small(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let about = || format!("cannot read {}", path.display());
    let length = fs::metadata(path).with_context(about)?.len();
    ensure!(length <= bytes_max, "{} has {length} bytes: that is no key", path.display());
    fs::read(path).with_context(about)
}

/// The keyring copies its server key along: it lies on the disk that it came from, and goes.
fn remove_clear(target: &Path) -> Result<()> {
    for (_, file) in KEY_FILES {
        let path = file(target);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            Err(_) | Ok(()) => {}
        }
    }
    RealDisk.sync_dir(&keys_directory(target)).context("cannot sync the keys")
}

fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    data_directory(parent)?;
    let written = || -> io::Result<()> {
        let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        out.write_all(content)?;
        out.sync_all()?;
        RealDisk.sync_dir(parent)
    };
    written().with_context(|| format!("cannot write {}", path.display()))
}

fn encode(files: &NamedFiles) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in files {
        let length = u32::try_from(content.len()).expect("a key file has at most 4,096 bytes");
        bytes.push(u8::try_from(name.len()).expect("names of keys have less than 256 bytes"));
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(content);
    }
    bytes
}

/// `None` for what was not written by `encode`, or has a name that is none of ours.
fn decode(mut bytes: &[u8]) -> Option<NamedFiles> {
    let mut files = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (name, _) = KEY_FILES.iter().find(|(known, _)| known.as_bytes() == name)?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (content, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        files.push((*name, content.to_vec()));
        bytes = rest;
    }
    Some(files)
}

/// The keys of a backup, opened.
pub struct OpenedKeys(NamedFiles);

impl OpenedKeys {
    /// Opens the keys of a backup if they are sealed. Refused if there is no identity for them, or one for nothing.
    pub fn open(backup: &Path, identity: Option<&Path>) -> Result<Option<Self>> {
        let file = sealed_file(backup);
        if !file.exists() {
            if let Some(identity) = identity {
                bail!(
                    "{} has no {SEALED}: the identity in {} opens nothing",
                    backup.display(),
                    identity.display()
                );
            }
            return Ok(None);
        }
        let named = || file.display().to_string();
        let sealed = read_small(&file, SEALED_BYTES_MAX)?;
        let recipient = sealed_to(&sealed).with_context(named)?;
        let Some(identity) = identity else {
            bail!(
                "the keys of this backup are sealed to {recipient}: give its identity with --identity FILE"
            );
        };
        let plain = read_identity(identity)?.open(&sealed).with_context(named)?;
        let files = decode(&plain).with_context(|| format!("{} holds no keys", file.display()))?;
        Ok(Some(Self(files)))
    }

    pub fn put_into(&self, data: &Path) -> Result<()> {
        self.0.iter().try_for_each(|(name, content)| write_private(&data.join(name), content))
    }
}

/// The identity in a file: the word that is one, so that all that `fantail backup keygen` prints may stand there.
fn read_identity(file: &Path) -> Result<Identity> {
    let text = String::from_utf8(read_small(file, IDENTITY_BYTES_MAX)?).unwrap_or_default();
    let identity = text.split_whitespace().find_map(|word| word.parse::<Identity>().ok());
    identity.with_context(|| {
        format!("{} holds no identity, as `fantail backup keygen` prints it", file.display())
    })
}

/// Writes an identity to a file that does not exist yet.
pub fn write_identity(file: &Path, identity: &Identity) -> Result<()> {
    ensure!(!file.exists(), "{} exists already", file.display());
    write_private(file, format!("{}\n", identity.to_text()).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("fantail-keys-{}-{name}", std::process::id()));
            fs::create_dir_all(path.join("data/keys")).expect("a directory");
            fs::create_dir_all(path.join("copy/keys")).expect("a directory");
            Self(path)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("the directory is there");
        }
    }

    /// A data directory with keys, and a copy as the keyring makes it.
    fn made(name: &str) -> Scratch {
        let scratch = Scratch::new(name);
        for (name, content) in
            [("data/keys/server.key", "01"), ("data/keys/audit.key", "23"), ("data/admin.key", "45")]
        {
            fs::write(scratch.path(name), content).expect("written");
        }
        fs::write(scratch.path("copy/keys/server.key"), "01").expect("written");
        scratch
    }

    #[test]
    fn keys_are_sealed_left_out_or_copied() {
        let scratch = made("handling");
        let (data, target) = (scratch.path("data"), scratch.path("copy"));
        let identity = Identity::generate();
        copy(&data, &target, KeyHandling::Sealed(identity.recipient())).expect("sealed");
        assert!(KEY_FILES.iter().all(|(name, _)| !target.join(name).exists()), "nothing is in the clear");
        let kept = scratch.path("identity");
        write_identity(&kept, &identity).expect("written");
        assert!(write_identity(&kept, &identity).is_err(), "another one is not written over");
        let opened = OpenedKeys::open(&target, Some(&kept)).expect("its own").expect("it is sealed");
        opened.put_into(&scratch.path("restored")).expect("written");
        for (name, content) in [("keys/server.key", "01"), ("keys/audit.key", "23"), ("admin.key", "45")] {
            assert_eq!(fs::read_to_string(scratch.path("restored").join(name)).expect("a key"), content);
        }
        assert!(!scratch.path("restored/default.key").exists());
        copy(&data, &target, KeyHandling::Clear).expect("copied");
        assert_eq!(fs::read_to_string(target.join("admin.key")).expect("a key"), "45");
        copy(&data, &target, KeyHandling::LeftOut).expect("left out");
        assert!(KEY_FILES.iter().all(|(name, _)| !target.join(name).exists()));
    }

    // fixes: security M11
    #[test]
    fn a_sealed_part_that_is_cut_flipped_or_for_another_is_refused_by_name() {
        let scratch = made("refused");
        let target = scratch.path("copy");
        let [own, other] = ["own", "other"].map(|name| {
            let identity = Identity::generate();
            write_identity(&scratch.path(name), &identity).expect("written");
            identity
        });
        copy(&scratch.path("data"), &target, KeyHandling::Sealed(own.recipient())).expect("sealed");
        let refused = |identity: Option<&str>, what: &str| {
            let identity = identity.map(|name| scratch.path(name));
            let error =
                format!("{:#}", OpenedKeys::open(&target, identity.as_deref()).err().expect("it is refused"));
            assert!(error.contains(what), "{error}");
        };
        refused(None, &format!("sealed to {}", own.recipient()));
        refused(Some("other"), &format!("keys.sealed: is sealed to {}", own.recipient()));
        refused(Some("other"), &other.recipient().to_string());
        fs::write(scratch.path("nothing"), "something else").expect("written");
        refused(Some("nothing"), "nothing holds no identity");
        let whole = fs::read(sealed_file(&target)).expect("a file");
        for at in [0, 9, 30, 60, whole.len() - 1] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(sealed_file(&target), flipped).expect("written");
            refused(Some("own"), "keys.sealed");
            fs::write(sealed_file(&target), &whole[..at]).expect("written");
            refused(Some("own"), "keys.sealed");
        }
        // Sealed rightly, and yet not by us: a name that leads elsewhere.
        for plain in [&b"\x09../../key\0\0\0\x01x"[..], b"\x09admin.key\0\0\0\x09x", b"\x09admin"] {
            let sealed = own.recipient().seal(plain).expect("a public key");
            fs::write(sealed_file(&target), sealed).expect("written");
            refused(Some("own"), "keys.sealed holds no keys");
        }
        fs::remove_file(sealed_file(&target)).expect("it is there");
        refused(Some("own"), "opens nothing");
    }
}
