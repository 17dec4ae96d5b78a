//! The audit log in the data directory: its files, and the key that signs its checkpoints.
//!
//! ```text
//! audit/log, index, checkpoints    the log, see `fantail_local::audit`
//! audit/public.keys                public keys of all signers that there were, a line of hex each
//! keys/audit.key                   the secret of the signer, for its owner only, unless `audit.signing_key` says it
//! ```
//! The first start makes the key. What must never happen: a new key because the old one could not be read. The public
//! keys are here so that a log can be verified at all; who does not trust this machine gives them to `fantail audit
//! verify` from elsewhere.

use crate::composition::keys_directory;
use crate::config::Secret;
use crate::provision::{data_directory, read_key, write_key};
use anyhow::{Context, Result, ensure};
use fantail_audit::key::{Keys, PublicKey, Signer};
use fantail_ports::entropy::Entropy;
use std::path::{Path, PathBuf};

const SECRET_FILE: &str = "audit.key";
const PUBLIC_FILE: &str = "public.keys";

#[must_use]
pub fn audit_directory(data: &Path) -> PathBuf {
    data.join("audit")
}

#[must_use]
pub fn public_file(data: &Path) -> PathBuf {
    audit_directory(data).join(PUBLIC_FILE)
}

#[must_use]
pub fn secret_file(data: &Path) -> PathBuf {
    keys_directory(data).join(SECRET_FILE)
}

/// Whether a text is the secret of a signer.
#[must_use]
pub fn is_signing_key(text: &str) -> bool {
    bytes(text).is_ok()
}

/// The operator's signer, else that of an earlier start, else a new one.
pub fn signer(data: &Path, given: Option<&Secret>, entropy: &dyn Entropy) -> Result<Signer> {
    let file = secret_file(data);
    let text = match given {
        Some(key) => key.0.clone(),
        None => kept_secret(&file, data, entropy)?,
    };
    let seed = bytes(&text).with_context(|| format!("{} does not hold a key", file.display()))?;
    let signer = Signer::from_seed(&seed);
    publish(data, signer.public())?;
    Ok(signer)
}

/// The secret in the data directory, made if there is none.
fn kept_secret(file: &Path, data: &Path, entropy: &dyn Entropy) -> Result<String> {
    if let Some(text) = read_key(file)? {
        return Ok(text);
    }
    let text = hex(&seed(entropy));
    data_directory(&keys_directory(data))?;
    write_key(file, &text)?;
    Ok(text)
}

fn seed(entropy: &dyn Entropy) -> [u8; 32] {
    let mut seed = [0; 32];
    let halves = [entropy.random_u128().to_le_bytes(), entropy.random_u128().to_le_bytes()];
    seed.copy_from_slice(halves.as_flattened());
    seed
}

/// Puts a key among the public ones, if it is not there.
fn publish(data: &Path, key: PublicKey) -> Result<()> {
    data_directory(&audit_directory(data))?;
    let file = public_file(data);
    let known = read_key(&file)?.unwrap_or_default();
    let line = hex(&key.0);
    if known.lines().any(|known| known == line) {
        return Ok(());
    }
    let lines: Vec<&str> = known.lines().chain([line.as_str()]).collect();
    write_key(&file, &lines.join("\n"))
}

/// The public keys beside a log.
pub fn public_keys(data: &Path) -> Result<Keys> {
    let file = public_file(data);
    let text = read_key(&file)?;
    let text = text.with_context(|| format!("there are no public keys in {}: give --key", file.display()))?;
    parse_keys(&text).with_context(|| format!("{} does not hold public keys", file.display()))
}

/// Public keys, a line of hex each.
pub fn parse_keys(text: &str) -> Result<Keys> {
    let keys: Result<Keys> = text.lines().map(|line| Ok(PublicKey(bytes(line.trim())?))).collect();
    keys
}

#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(text: &str) -> Result<[u8; 32]> {
    ensure!(text.len() == 64 && text.is_ascii(), "a key has 64 hexadecimal digits");
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        let digits = &text[2 * at..2 * at + 2];
        *byte = u8::from_str_radix(digits, 16).context("a key has 64 hexadecimal digits")?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::SystemEntropy;
    use std::os::unix::fs::PermissionsExt;

    // proves: AUD-02
    #[test]
    fn the_signer_is_made_once_and_its_secret_is_private() {
        let data = std::env::temp_dir().join(format!("fantail-audit-key-{}", std::process::id()));
        let entropy = SystemEntropy::default();
        let first = signer(&data, None, &entropy).expect("a signer").public();
        assert_eq!(signer(&data, None, &entropy).expect("the same").public(), first);
        let file = keys_directory(&data).join(SECRET_FILE);
        let mode = std::fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&file, "not a key").expect("a file");
        assert!(signer(&data, None, &entropy).is_err(), "a damaged key is not replaced");
        std::fs::remove_file(&file).expect("it was there");
        let second = signer(&data, None, &entropy).expect("another one").public();
        assert_ne!(second, first);
        let text = read_key(&public_file(&data)).expect("a file").unwrap_or_default();
        assert_eq!(text, format!("{}\n{}", hex(&first.0), hex(&second.0)), "the old one stays");
        assert!(public_keys(&data).is_ok());
        let given = Secret("ab".repeat(32));
        let third = signer(&data, Some(&given), &entropy).expect("the given one").public();
        assert!(third != first && third != second);
        let kept = read_key(&file).expect("a file").unwrap_or_default();
        assert_ne!(kept, given.0, "what is given is not written down");
        let text = read_key(&public_file(&data)).expect("a file").unwrap_or_default();
        assert_eq!(text.lines().count(), 3, "logs of all of them can be verified");
        std::fs::remove_dir_all(&data).expect("the directory is there");
    }
}
