//! The cryptography of the keyring: AES-256-GCM with random nonces, and HMAC-SHA-256 cut to sixteen bytes.
//!
//! What must never happen: a nonce used twice under one key. Random nonces of twelve bytes hold for some 2³²
//! messages under one key; keys of users see a handful.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use fantail_ports::keyring::Context;
use fantail_rules::ids::{KeyNo, TenantId};

pub const KEY_BYTES: usize = 32;
pub const NONCE_BYTES: usize = NONCE_LEN;
pub const TAG_BYTES: usize = 16;

/// A parsed key. Shows nothing of itself.
pub struct SealKey(LessSafeKey);

impl SealKey {
    pub fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, bytes).expect("AES-256 takes every key of 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Encrypts in place under a fresh nonce, and appends the tag.
    pub fn seal(&self, associated: &[u8], bytes: &mut Vec<u8>) -> [u8; NONCE_BYTES] {
        let nonce: [u8; NONCE_BYTES] = random();
        let sealed = self.0.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(associated),
            bytes,
        );
        sealed.expect("AES-GCM seals everything shorter than 64 GiB");
        nonce
    }

    /// Decrypts in place; `None` if anything differs from what was sealed.
    pub fn open<'a>(
        &self,
        associated: &[u8],
        nonce: [u8; NONCE_BYTES],
        bytes: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.0.open_in_place(nonce, Aad::from(associated), bytes).ok()
    }
}

/// A secret that a key gives, and that gives nothing of the key: HMAC-SHA-256 of a fixed text under it.
pub fn secret_of(key: &[u8; KEY_BYTES]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), b"fantail derived secret 1");
    *tag.as_ref().first_chunk().expect("a SHA-256 tag has 32 bytes")
}

pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system gives random bytes, or this process must stop");
    bytes
}

/// What a sealed value is bound to.
pub fn associated(tenant: TenantId, context: Context, key: KeyNo) -> [u8; 13] {
    let mut bytes = [0; 13];
    bytes[..4].copy_from_slice(&tenant.0.to_be_bytes());
    bytes[4] = context as u8;
    bytes[5..].copy_from_slice(&key.0.to_be_bytes());
    bytes
}

/// What is looked up, so that equal texts of different kinds never meet. Frozen numbers.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Kind {
    User = 1,
    Followers = 2,
    Topic = 3,
    Digest = 4,
}

/// The keyed hash of a text under a tenant's pepper.
pub fn lookup(pepper: &hmac::Key, kind: Kind, text: &[u8]) -> [u8; 16] {
    let mut context = hmac::Context::with_key(pepper);
    context.update(&[kind as u8]);
    context.update(text);
    let tag = context.sign();
    *tag.as_ref().first_chunk().expect("a SHA-256 tag has more than sixteen bytes")
}
