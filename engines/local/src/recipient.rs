//! Sealing to a recipient: one key pair is made, its public half seals, and only who has the other half opens.
//!
//! ```text
//! sealed  "FANTSEAL" format:4 recipient:32 ephemeral:32 ciphertext tag:16        big-endian
//! key     HKDF-SHA-256 of what X25519 gives for ephemeral and recipient, with both as its salt, and a fixed text
//! text    prefix, the key and four bytes of check as hexadecimal digits
//! ```
//! AES-256-GCM with the head as associated data. Each seal has an ephemeral pair of its own, so its key is used once and the nonce is
//! zero. What must never happen: a recipient with a slip of the pen, to whom a backup is sealed that nobody can open; so keys have
//! check digits.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

const MAGIC: &[u8; 8] = b"FANTSEAL";
const FORMAT: u32 = 1;
const KEY_BYTES: usize = 32;
const CHECK_BYTES: usize = 4;
const HEAD_BYTES: usize = 8 + 4 + 2 * KEY_BYTES;
const INFO: &[u8] = b"fantail sealed to a recipient 1";
const RECIPIENT: &str = "fantail-recipient-";
const IDENTITY: &str = "fantail-identity-";

/// Seals. Not a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipient([u8; KEY_BYTES]);

/// Opens what is sealed to its recipient.
#[derive(Clone)]
pub struct Identity {
    secret: [u8; KEY_BYTES],
    recipient: Recipient,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum KeyTextError {
    #[error("must begin with {0}, as `fantail backup keygen` prints it")]
    Prefix(&'static str),
    #[error("has a letter too many, too few or wrong")]
    Wrong,
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OpenError {
    #[error("is not sealed to a recipient, or its head was changed")]
    NotSealed,
    #[error("has format {found}, this build reads up to {known}")]
    NewerFormat { found: u32, known: u32 },
    #[error("is sealed to {sealed_to}, and the identity is that of {given}")]
    OtherRecipient { sealed_to: Recipient, given: Recipient },
    #[error("was cut or changed")]
    Changed,
}

impl Identity {
    /// A new one.
    #[must_use]
    pub fn generate() -> Self {
        let mut secret = [0; KEY_BYTES];
        aws_lc_rs::rand::fill(&mut secret).expect("the system gives random bytes, or this process must stop");
        Self::of(secret)
    }

    fn of(secret: [u8; KEY_BYTES]) -> Self {
        let recipient = Recipient(public_half(&private_key(&secret)));
        Self { secret, recipient }
    }

    #[must_use]
    pub fn recipient(&self) -> Recipient {
        self.recipient
    }

    /// The secret, to be written down.
    #[must_use]
    pub fn to_text(&self) -> String {
        key_text(IDENTITY, &self.secret)
    }

    /// Opens what [`Recipient::seal`] made. Fails if one bit differs.
    pub fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        let (head, ciphertext) = sealed.split_at_checked(HEAD_BYTES).ok_or(OpenError::NotSealed)?;
        let sealed_to = sealed_to(sealed)?;
        if sealed_to != self.recipient {
            return Err(OpenError::OtherRecipient { sealed_to, given: self.recipient });
        }
        let ephemeral: [u8; KEY_BYTES] =
            *head[12 + KEY_BYTES..].first_chunk().expect("a head has two keys of 32 bytes");
        let own = private_key(&self.secret);
        let key =
            shared_key(&own, &ephemeral, &salt(&ephemeral, &self.recipient)).ok_or(OpenError::Changed)?;
        let mut bytes = ciphertext.to_vec();
        let opened = key.open_in_place(nonce(), Aad::from(head), &mut bytes);
        let length = opened.map_err(|_| OpenError::Changed)?.len();
        bytes.truncate(length);
        Ok(bytes)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the identity of {}", self.recipient)
    }
}

impl Recipient {
    /// Seals to the recipient. Nobody else opens it, also not the one who sealed it. `None` for a recipient that is no public key.
    #[must_use]
    pub fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut secret = [0; KEY_BYTES];
        aws_lc_rs::rand::fill(&mut secret).expect("the system gives random bytes, or this process must stop");
        let own = private_key(&secret);
        let ephemeral = public_half(&own);
        let head = [&MAGIC[..], &FORMAT.to_be_bytes(), &self.0, &ephemeral].concat();
        let key = shared_key(&own, &self.0, &salt(&ephemeral, self))?;
        let mut bytes = plain.to_vec();
        let sealed = key.seal_in_place_append_tag(nonce(), Aad::from(&head), &mut bytes);
        sealed.expect("AES-GCM seals everything shorter than 64 GiB");
        Some([head, bytes].concat())
    }
}

/// To whom something is sealed, by its head.
pub fn sealed_to(sealed: &[u8]) -> Result<Recipient, OpenError> {
    let head = sealed.get(..HEAD_BYTES).filter(|head| head.starts_with(MAGIC)).ok_or(OpenError::NotSealed)?;
    let found = head[8..12].iter().fold(0, |format, byte| format << 8 | u32::from(*byte));
    if found > FORMAT {
        return Err(OpenError::NewerFormat { found, known: FORMAT });
    }
    Ok(Recipient(*head[12..].first_chunk().expect("a head has two keys of 32 bytes")))
}

fn private_key(secret: &[u8; KEY_BYTES]) -> PrivateKey {
    PrivateKey::from_private_key(&X25519, secret).expect("X25519 takes every secret of 32 bytes")
}

fn public_half(key: &PrivateKey) -> [u8; KEY_BYTES] {
    let public = key.compute_public_key().expect("a private key has a public half");
    *public.as_ref().first_chunk().expect("a public key of X25519 has 32 bytes")
}

fn salt(ephemeral: &[u8; KEY_BYTES], recipient: &Recipient) -> [u8; 2 * KEY_BYTES] {
    let mut salt = [0; 2 * KEY_BYTES];
    salt[..KEY_BYTES].copy_from_slice(ephemeral);
    salt[KEY_BYTES..].copy_from_slice(&recipient.0);
    salt
}

/// `None` if the other half is no public key, or one that gives the same for everybody.
fn shared_key(own: &PrivateKey, other: &[u8; KEY_BYTES], salt: &[u8]) -> Option<LessSafeKey> {
    let other = UnparsedPublicKey::new(&X25519, other);
    let key = agree(own, other, (), |secret| {
        let secret = Salt::new(HKDF_SHA256, salt).extract(secret);
        let mut key = [0; KEY_BYTES];
        let filled = secret.expand(&[INFO], HKDF_SHA256).and_then(|key_material| key_material.fill(&mut key));
        filled.map(|()| key).map_err(|_| ())
    });
    let key = UnboundKey::new(&AES_256_GCM, &key.ok()?).expect("AES-256 takes every key of 32 bytes");
    Some(LessSafeKey::new(key))
}

/// The key is used once.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

fn check_of(prefix: &str, key: &[u8; KEY_BYTES]) -> [u8; CHECK_BYTES] {
    let hash = digest(&SHA256, &[prefix.as_bytes(), key].concat());
    *hash.as_ref().first_chunk().expect("a SHA-256 hash has more than four bytes")
}

fn key_text(prefix: &str, key: &[u8; KEY_BYTES]) -> String {
    let bytes =
        key.iter().chain(&check_of(prefix, key)).map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("{prefix}{bytes}")
}

fn key_of(prefix: &'static str, text: &str) -> Result<[u8; KEY_BYTES], KeyTextError> {
    let digits = text.strip_prefix(prefix).ok_or(KeyTextError::Prefix(prefix))?;
    if digits.len() != 2 * (KEY_BYTES + CHECK_BYTES) || !digits.is_ascii() {
        return Err(KeyTextError::Wrong);
    }
    let mut bytes = [0; KEY_BYTES + CHECK_BYTES];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).map_err(|_| KeyTextError::Wrong)?;
    }
    let key = *bytes.first_chunk().expect("the array is longer than a key");
    if bytes[KEY_BYTES..] == check_of(prefix, &key) { Ok(key) } else { Err(KeyTextError::Wrong) }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&key_text(RECIPIENT, &self.0))
    }
}

impl FromStr for Recipient {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, KeyTextError> {
        key_of(RECIPIENT, text).map(Self)
    }
}

impl FromStr for Identity {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, KeyTextError> {
        key_of(IDENTITY, text).map(Self::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_identity_opens_and_every_flip_and_cut_is_seen() {
        let (identity, other) = (Identity::generate(), Identity::generate());
        let sealed = identity.recipient().seal(b"the keys").expect("a public key");
        assert_eq!(identity.open(&sealed).expect("its own"), b"the keys");
        assert_ne!(
            identity.recipient().seal(b"the keys").expect("a public key"),
            sealed,
            "each has its own key"
        );
        let refused = OpenError::OtherRecipient { sealed_to: identity.recipient(), given: other.recipient() };
        assert_eq!(other.open(&sealed), Err(refused));
        for at in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1 << (at % 8);
            // The highest bit of a key of X25519 does not count; as associated data it does.
            assert!(identity.open(&flipped).is_err(), "flip at {at}");
            assert!(identity.open(&sealed[..at]).is_err(), "cut at {at}");
        }
        let longer = [&sealed[..], &[0]].concat();
        assert_eq!(identity.open(&longer), Err(OpenError::Changed));
        assert_eq!(sealed_to(&sealed), Ok(identity.recipient()));
        assert_eq!(sealed_to(b"something else"), Err(OpenError::NotSealed));
    }

    #[test]
    fn what_was_sealed_once_opens_with_the_released_identity() {
        let identity = Identity::of([7; KEY_BYTES]);
        let head = [&MAGIC[..], &[0, 0, 0, 1], &identity.recipient().0].concat();
        let sealed = identity.recipient().seal(&[]).expect("a public key");
        assert_eq!(sealed.len(), HEAD_BYTES + 16);
        assert_eq!(sealed[..44], head);
        assert_eq!(identity.open(&sealed).expect("its own"), Vec::<u8>::new());
    }

    #[test]
    fn keys_are_written_with_check_digits() {
        let identity = Identity::generate();
        let (secret, recipient) = (identity.to_text(), identity.recipient().to_string());
        assert_eq!(secret.parse::<Identity>().expect("its text").recipient(), identity.recipient());
        assert_eq!(recipient.parse(), Ok(identity.recipient()));
        assert!(!format!("{identity:?}").contains(&secret[IDENTITY.len()..IDENTITY.len() + 16]));
        assert_eq!(secret.parse::<Recipient>(), Err(KeyTextError::Prefix(RECIPIENT)));
        assert_eq!(recipient.parse::<Identity>().err(), Some(KeyTextError::Prefix(IDENTITY)));
        for at in RECIPIENT.len()..recipient.len() {
            let mut wrong = recipient.clone().into_bytes();
            wrong[at] = if wrong[at] == b'0' { b'1' } else { b'0' };
            let wrong = String::from_utf8(wrong).expect("ASCII");
            assert_eq!(wrong.parse::<Recipient>(), Err(KeyTextError::Wrong), "{at}");
        }
        for wrong in [
            "",
            RECIPIENT,
            &recipient[..recipient.len() - 1],
            &format!("{recipient}0"),
            &format!("{RECIPIENT}{}ü", "0".repeat(70)),
        ] {
            assert!(wrong.parse::<Recipient>().is_err(), "{wrong}");
        }
    }
}
