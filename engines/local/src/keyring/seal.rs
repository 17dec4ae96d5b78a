//! The cryptography of the keyring: AES-256 with random nonces, and HMAC-SHA-256 cut to sixteen bytes.
//!
//! | key | cipher | why |
//! |---|---|---|
//! | of a user, of the server | AES-256-GCM | holds for some 2³² messages under one key; these keys see a handful |
//! | of a tenant | AES-256-GCM-SIV under a key derived from it | seals every event to a list, and reaches 2³² within days |
//!
//! AES-256-GCM-SIV derives its keys from each nonce anew. A nonce that comes twice is likely after 2⁴⁸ messages, and says only
//! whether the same was sealed twice. A sealed value is as long as under AES-256-GCM, and carries no mark: what does not
//! open under the derived key is from an earlier version, and opens under the key itself.
//!
//! What must never happen: a key that seals in both ways, or a nonce of AES-256-GCM used twice under one key.

use aws_lc_rs::aead::{
    AES_256_GCM, AES_256_GCM_SIV, Aad, Algorithm, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use aws_lc_rs::hmac;
use fantail_ports::keyring::Context;
use fantail_rules::ids::{KeyNo, TenantId};

pub const KEY_BYTES: usize = 32;
pub const NONCE_BYTES: usize = NONCE_LEN;
pub const TAG_BYTES: usize = 16;

/// A parsed key. Shows nothing of itself.
pub struct SealKey {
    newest: LessSafeKey,
    /// What earlier versions sealed with under this key, if they did it in another way.
    earlier: Option<LessSafeKey>,
}

impl SealKey {
    /// The key of a user, or of the server.
    pub fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        Self { newest: parsed(&AES_256_GCM, bytes), earlier: None }
    }

    /// The own key of a tenant. It seals with a key that is derived from it once, and opens what it sealed itself before.
    pub fn of_tenant(own: &[u8; KEY_BYTES]) -> Self {
        let derived = derived(own, b"fantail seal of a tenant 2");
        Self { newest: parsed(&AES_256_GCM_SIV, &derived), earlier: Some(parsed(&AES_256_GCM, own)) }
    }

    /// Encrypts in place under a fresh nonce, and appends the tag.
    pub fn seal(&self, associated: &[u8], bytes: &mut Vec<u8>) -> [u8; NONCE_BYTES] {
        let nonce = random();
        self.seal_under(nonce, associated, bytes);
        nonce
    }

    fn seal_under(&self, nonce: [u8; NONCE_BYTES], associated: &[u8], bytes: &mut Vec<u8>) {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = self.newest.seal_in_place_append_tag(nonce, Aad::from(associated), bytes);
        sealed.expect("both ciphers seal everything shorter than 64 GiB");
    }

    /// What was sealed; `None` if anything differs from it.
    pub fn open(&self, associated: &[u8], nonce: [u8; NONCE_BYTES], bytes: Vec<u8>) -> Option<Vec<u8>> {
        let length = bytes.len().checked_sub(TAG_BYTES)?;
        let Some(earlier) = &self.earlier else {
            return opened_in_place(&self.newest, associated, nonce, bytes);
        };
        // Beside what was sealed, which the earlier way may have to read: a key that fails leaves nothing of what it read.
        let (cipher, tag) = bytes.split_at(length);
        let (nonce_of_newest, mut plain) = (Nonce::assume_unique_for_key(nonce), vec![0; length]);
        let newest =
            self.newest.open_separate_gather(nonce_of_newest, Aad::from(associated), cipher, tag, &mut plain);
        if newest.is_ok() {
            return Some(plain);
        }
        opened_in_place(earlier, associated, nonce, bytes)
    }
}

fn opened_in_place(
    key: &LessSafeKey,
    associated: &[u8],
    nonce: [u8; NONCE_BYTES],
    mut bytes: Vec<u8>,
) -> Option<Vec<u8>> {
    let nonce = Nonce::assume_unique_for_key(nonce);
    let length = key.open_in_place(nonce, Aad::from(associated), &mut bytes).ok()?.len();
    bytes.truncate(length);
    Some(bytes)
}

fn parsed(algorithm: &'static Algorithm, bytes: &[u8; KEY_BYTES]) -> LessSafeKey {
    let key = UnboundKey::new(algorithm, bytes).expect("AES-256 takes every key of 32 bytes");
    LessSafeKey::new(key)
}

/// A secret that a key gives, and that gives nothing of the key.
pub fn secret_of(key: &[u8; KEY_BYTES]) -> [u8; 32] {
    derived(key, b"fantail derived secret 1")
}

/// HMAC-SHA-256 of a fixed text under a key.
fn derived(key: &[u8; KEY_BYTES], purpose: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), purpose);
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

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; KEY_BYTES] = [7; KEY_BYTES];
    const NONCE: [u8; NONCE_BYTES] = [9; NONCE_BYTES];

    fn sealed_under(key: &SealKey, plain: &[u8]) -> Vec<u8> {
        let mut bytes = plain.to_vec();
        key.seal_under(NONCE, b"context", &mut bytes);
        bytes
    }

    /// How far apart two texts are, byte by byte: under AES-256-GCM a nonce that comes twice tells it to everybody.
    // fixes: security L5
    #[test]
    fn a_nonce_that_comes_twice_under_a_tenants_key_tells_nothing_of_the_texts() {
        let (one, other) = (b"a text of one event".as_slice(), b"and another of them".as_slice());
        let between = |one: &[u8], other: &[u8]| -> Vec<u8> {
            one.iter().zip(other).map(|(one, other)| one ^ other).collect()
        };
        let tells = |key: &SealKey| {
            let sealed = between(&sealed_under(key, one), &sealed_under(key, other));
            sealed[..one.len()] == between(one, other)[..]
        };
        assert!(tells(&SealKey::new(&KEY)), "what a tenant's key did before");
        assert!(!tells(&SealKey::of_tenant(&KEY)));
    }

    // fixes: security L5
    #[test]
    fn what_a_tenants_key_sealed_in_either_way_opens_and_is_equally_long() {
        let (user, tenant) = (SealKey::new(&KEY), SealKey::of_tenant(&KEY));
        for plain in [b"".as_slice(), b"x", &[3; 5_000]] {
            let (earlier, newest) = (sealed_under(&user, plain), sealed_under(&tenant, plain));
            assert_eq!((earlier.len(), newest.len()), (plain.len() + TAG_BYTES, plain.len() + TAG_BYTES));
            for sealed in [&earlier, &newest] {
                assert_eq!(tenant.open(b"context", NONCE, sealed.clone()).as_deref(), Some(plain));
                assert_eq!(tenant.open(b"another", NONCE, sealed.clone()), None);
                let mut flipped = sealed.clone();
                flipped[plain.len() / 2] ^= 1;
                assert_eq!(tenant.open(b"context", NONCE, flipped), None);
            }
            assert_eq!(user.open(b"context", NONCE, newest), None, "the derived key is another one");
        }
        for short in 0..TAG_BYTES {
            assert_eq!(tenant.open(b"context", NONCE, vec![0; short]), None);
            assert_eq!(user.open(b"context", NONCE, vec![0; short]), None);
        }
    }

    /// Bytes of released versions. They never change: a new way is added, and the old ones stay.
    #[test]
    fn released_bytes_open() {
        let tenant = SealKey::of_tenant(&KEY);
        for (version, sealed) in [
            (1, "54eae9f1dc9fa5188012a44b928fc7b56614219e4937c8617fce65684ed9ef"),
            (2, "a67e3b902a1d8d23bc282998be57a127e53938b9bfef6f6ace2eddc6fecf59"),
        ] {
            let digits = sealed.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).expect("ASCII"));
            let bytes: Vec<u8> = digits.map(|two| u8::from_str_radix(two, 16).expect("digits")).collect();
            let opened = tenant.open(b"context", NONCE, bytes);
            assert_eq!(opened.as_deref(), Some(&b"somebody posted"[..]), "version {version}");
        }
    }
}
