//! API keys as text. The id finds the key, the secret proves it, the check finds typing errors before any lookup.
//!
//! ```text
//! ft_<id: 12>_<secret: 43>_<check: 6>      base62; 43 characters carry 256 random bits; check = CRC-32
//! ```
//! What must never happen: a secret in a log, a table or the journal. Only its SHA-256 is kept; a slow hash would add
//! nothing to 256 random bits.

use aws_lc_rs::digest;
use fantail_ports::entropy::Entropy;
use std::fmt;

const PREFIX: &str = "ft_";
const ADMIN_PREFIX: &str = "fta_";
const ID_LENGTH: usize = 12;
const SECRET_LENGTH: usize = 43;
const CHECK_LENGTH: usize = 6;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A key that was just made, with its secret.
pub struct NewKey {
    pub id: String,
    /// All of it, as the caller will send it.
    pub text: String,
    pub secret_hash: [u8; 32],
}

impl NewKey {
    #[must_use]
    pub fn mint(entropy: &dyn Entropy) -> Self {
        let id = random_text(entropy, ID_LENGTH);
        let secret = random_text(entropy, SECRET_LENGTH);
        let body = format!("{PREFIX}{id}_{secret}");
        let text = format!("{body}_{}", check_of(&body));
        Self { id, secret_hash: hash(secret.as_bytes()), text }
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The parts of a key that a caller presented.
pub struct Presented<'a> {
    pub id: &'a str,
    pub secret_hash: [u8; 32],
}

/// Reads a tenant's key; `None` if it is not one or was mistyped.
#[must_use]
pub fn read(text: &str) -> Option<Presented<'_>> {
    let length = PREFIX.len() + ID_LENGTH + 1 + SECRET_LENGTH + 1 + CHECK_LENGTH;
    if text.len() != length || !text.is_ascii() {
        return None;
    }
    let (body, check) = text.rsplit_once('_')?;
    let (id, secret) = body.strip_prefix(PREFIX)?.split_once('_')?;
    if id.len() != ID_LENGTH || secret.len() != SECRET_LENGTH || check != check_of(body) {
        return None;
    }
    Some(Presented { id, secret_hash: hash(secret.as_bytes()) })
}

/// A key for the whole server.
#[must_use]
pub fn mint_admin(entropy: &dyn Entropy) -> String {
    format!("{ADMIN_PREFIX}{}", random_text(entropy, SECRET_LENGTH))
}

/// Whether an operator's own admin key can be told from a tenant's key and is not guessable by its length alone.
#[must_use]
pub fn is_admin_key(text: &str) -> bool {
    (32..=256).contains(&text.len())
        && !text.starts_with(PREFIX)
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[must_use]
pub fn hash(secret: &[u8]) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, secret);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Uniform letters: bytes that would favour some letters are drawn again.
fn random_text(entropy: &dyn Entropy, length: usize) -> String {
    let mut text = String::with_capacity(length);
    let mut bytes = [0; 64];
    while text.len() < length {
        entropy.fill(&mut bytes);
        let fair = bytes.iter().filter(|byte| **byte < 248);
        text.extend(fair.take(length - text.len()).map(|byte| char::from(ALPHABET[usize::from(byte % 62)])));
    }
    text
}

fn check_of(body: &str) -> String {
    let mut rest = crc32fast::hash(body.as_bytes());
    let mut letters = [b'0'; CHECK_LENGTH];
    for letter in letters.iter_mut().rev() {
        *letter = ALPHABET[(rest % 62) as usize];
        rest /= 62;
    }
    letters.iter().map(|letter| char::from(*letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Counting(AtomicU64);

    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            for byte in bytes {
                let next = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                *byte = next.to_be_bytes()[0];
            }
        }
    }

    // proves: API-05
    #[test]
    fn minted_keys_are_read_back() {
        let entropy = Counting(AtomicU64::new(1));
        let key = NewKey::mint(&entropy);
        let presented = read(&key.text).expect("its own key");
        assert_eq!(presented.id, key.id);
        assert_eq!(presented.secret_hash, key.secret_hash);
        assert_ne!(NewKey::mint(&entropy).text, key.text);
        assert!(!format!("{key:?}").contains(&key.text), "secrets are not printed");
    }

    #[test]
    fn one_wrong_letter_is_found_before_any_lookup() {
        let key = NewKey::mint(&Counting(AtomicU64::new(9)));
        for at in 0..key.text.len() {
            let mut changed = key.text.clone().into_bytes();
            changed[at] = if changed[at] == b'a' { b'b' } else { b'a' };
            assert!(read(std::str::from_utf8(&changed).expect("ascii")).is_none(), "letter {at}");
        }
    }

    #[test]
    fn admin_keys_are_never_tenant_keys() {
        let entropy = Counting(AtomicU64::new(5));
        let admin = mint_admin(&entropy);
        assert!(is_admin_key(&admin) && read(&admin).is_none());
        let tenant = NewKey::mint(&entropy);
        assert!(!is_admin_key(&tenant.text));
        for bad in ["", "short", "has spaces has spaces has spaces has spaces"] {
            assert!(!is_admin_key(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,90}") {
            prop_assert!(read(&text).is_none());
        }
    }
}
