//! Who signs checkpoints, and whose signatures are believed.
//!
//! What must never happen: a secret that shows in a log, or a signature that is believed by the name of its key alone.
//! A key is named by the hash of its public part, so no other key has the name.

use crate::digest::sha256;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use std::collections::BTreeMap;
use std::fmt;

pub const SIGNATURE_BYTES: usize = 64;

/// The beginning of the hash of a public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 8]);

/// The key of this server. The seed comes from the keyring; it never leaves.
pub struct Signer {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

/// An Ed25519 public key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicKey(pub [u8; 32]);

/// The keys that are believed. A retired one stays, for what it signed.
#[derive(Clone, Default, Debug)]
pub struct Keys(BTreeMap<KeyId, PublicKey>);

impl Signer {
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("every 32 bytes are a seed");
        let mut public = [0; 32];
        public.copy_from_slice(pair.public_key().as_ref());
        Self { pair, public: PublicKey(public) }
    }

    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut signature = [0; SIGNATURE_BYTES];
        signature.copy_from_slice(self.pair.sign(message).as_ref());
        signature
    }
}

impl PublicKey {
    #[must_use]
    pub fn id(&self) -> KeyId {
        let mut id = [0; 8];
        id.copy_from_slice(&sha256(&self.0).0[..8]);
        KeyId(id)
    }
}

impl Keys {
    /// Whether the key of this name is believed and made this signature.
    #[must_use]
    pub fn confirm(&self, key: KeyId, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> Confirmed {
        let Some(public) = self.0.get(&key) else { return Confirmed::UnknownKey };
        match UnparsedPublicKey::new(&ED25519, public.0).verify(message, signature) {
            Ok(()) => Confirmed::Yes,
            Err(_) => Confirmed::No,
        }
    }
}

impl FromIterator<PublicKey> for Keys {
    fn from_iter<I: IntoIterator<Item = PublicKey>>(keys: I) -> Self {
        Self(keys.into_iter().map(|key| (key.id(), key)).collect())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confirmed {
    Yes,
    No,
    UnknownKey,
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("public", &self.public).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_signer_of_the_message_is_confirmed() {
        let (ours, theirs) = (Signer::from_seed(&[1; 32]), Signer::from_seed(&[2; 32]));
        let keys: Keys = [ours.public(), theirs.public()].into_iter().collect();
        let signature = ours.sign(b"said");
        assert_eq!(keys.confirm(ours.public().id(), b"said", &signature), Confirmed::Yes);
        assert_eq!(keys.confirm(ours.public().id(), b"sold", &signature), Confirmed::No);
        assert_eq!(keys.confirm(theirs.public().id(), b"said", &signature), Confirmed::No);
        let few: Keys = [theirs.public()].into_iter().collect();
        assert_eq!(few.confirm(ours.public().id(), b"said", &signature), Confirmed::UnknownKey);
    }
}
