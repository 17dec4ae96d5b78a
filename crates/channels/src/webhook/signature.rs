//! Signatures of Standard Webhooks over `id.timestamp.body`: `v1` is HMAC-SHA256 under a secret that both sides have
//! (`whsec_`), `v1a` is Ed25519 under a key that only the sender has (`whsk_`; receivers get the public one, `whpk_`). There is
//! one for each secret, so that a receiver can change from one to the next without losing a message. `verify` is what a
//! receiver does.
//!
//! What must never happen: a secret in a log, or a comparison whose time tells how much of a signature was right.

use super::limits::SECRET_BYTES;
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fantail_rules::ids::Millis;
use hyper::HeaderMap;
use std::fmt;

pub const ID: &str = "webhook-id";
pub const TIMESTAMP: &str = "webhook-timestamp";
pub const SIGNATURE: &str = "webhook-signature";

/// How far a receiver lets the timestamp be from its own clock.
pub const TOLERANCE_MS: u64 = 5 * 60 * 1_000;

const SHARED_PREFIX: &str = "whsec_";
const PRIVATE_PREFIX: &str = "whsk_";
const PUBLIC_PREFIX: &str = "whpk_";
const SHARED_VERSION: &str = "v1,";
const PRIVATE_VERSION: &str = "v1a,";
/// Of a private key; the public one has as many.
pub(super) const SEED_BYTES: usize = 32;

/// What messages are signed with. Shows nothing of itself.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// Both sides have it.
    Shared(Shared),
    /// Only the sender has it.
    Private(Private),
}

#[derive(Clone, PartialEq, Eq)]
pub struct Shared(Vec<u8>);

/// The seed of an Ed25519 key.
#[derive(Clone, PartialEq, Eq)]
pub struct Private([u8; SEED_BYTES]);

/// What a receiver needs to check signatures of a [`Secret::Private`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Public([u8; SEED_BYTES]);

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SecretError {
    #[error("the secret does not begin with {SHARED_PREFIX} or {PRIVATE_PREFIX}")]
    NoPrefix,
    #[error("the secret is no base64")]
    NotBase64,
    #[error("the secret has {bytes} bytes, wanted are {} to {}", SECRET_BYTES.start(), SECRET_BYTES.end())]
    BadLength { bytes: usize },
    #[error("the key is not the 32 bytes of an Ed25519 seed, with or without its public key behind it")]
    BadKey,
}

impl Secret {
    /// The form that people are given: a prefix and base64.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let decode = |encoded: &str| STANDARD.decode(encoded).map_err(|_| SecretError::NotBase64);
        if let Some(encoded) = text.strip_prefix(SHARED_PREFIX) {
            return Self::from_bytes(&decode(encoded)?);
        }
        let encoded = text.strip_prefix(PRIVATE_PREFIX).ok_or(SecretError::NoPrefix)?;
        Self::from_private(&decode(encoded)?)
    }

    /// One that both sides have.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SecretError> {
        if SECRET_BYTES.contains(&bytes.len()) {
            Ok(Self::Shared(Shared(bytes.to_vec())))
        } else {
            Err(SecretError::BadLength { bytes: bytes.len() })
        }
    }

    /// An Ed25519 seed, or seed and public key as many tools write them; then both must fit together.
    pub fn from_private(bytes: &[u8]) -> Result<Self, SecretError> {
        let (seed, public) = bytes.split_first_chunk().ok_or(SecretError::BadKey)?;
        let private = Private(*seed);
        if public.is_empty() || private.public().0 == public {
            Ok(Self::Private(private))
        } else {
            Err(SecretError::BadKey)
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Shared(shared) => &shared.0,
            Self::Private(private) => &private.0,
        }
    }

    /// For showing it once to whoever registers an endpoint.
    #[must_use]
    pub fn reveal(&self) -> String {
        match self {
            Self::Shared(shared) => format!("{SHARED_PREFIX}{}", STANDARD.encode(&shared.0)),
            Self::Private(private) => {
                let both = [private.0, private.public().0];
                format!("{PRIVATE_PREFIX}{}", STANDARD.encode(both.as_flattened()))
            }
        }
    }

    /// What receivers check with; a shared secret has nothing that could be shown.
    #[must_use]
    pub fn public(&self) -> Option<Public> {
        match self {
            Self::Shared(_) => None,
            Self::Private(private) => Some(private.public()),
        }
    }
}

impl Shared {
    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }
}

impl Private {
    fn pair(&self) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&self.0).expect("any 32 bytes are a seed")
    }

    fn public(&self) -> Public {
        let mut public = [0; SEED_BYTES];
        public.copy_from_slice(self.pair().public_key().as_ref());
        Public(public)
    }
}

impl Public {
    /// `whpk_` and base64.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let encoded = text.strip_prefix(PUBLIC_PREFIX).ok_or(SecretError::NoPrefix)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| SecretError::NotBase64)?;
        bytes.try_into().map(Self).map_err(|_| SecretError::BadKey)
    }
}

impl fmt::Display for Public {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC_PREFIX}{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The value of the signature header: one signature per secret, in their order.
#[must_use]
pub fn sign<'a>(
    secrets: impl IntoIterator<Item = &'a Secret>,
    id: &str,
    timestamp_s: u64,
    body: &[u8],
) -> String {
    let signed = signed(id, &timestamp_s.to_string(), body);
    let mut value = String::new();
    for secret in secrets {
        if !value.is_empty() {
            value.push(' ');
        }
        match secret {
            Secret::Shared(shared) => {
                value.push_str(SHARED_VERSION);
                value.push_str(&STANDARD.encode(hmac::sign(&shared.key(), &signed)));
            }
            Secret::Private(private) => {
                value.push_str(PRIVATE_VERSION);
                value.push_str(&STANDARD.encode(private.pair().sign(&signed)));
            }
        }
    }
    value
}

fn signed(id: &str, timestamp: &str, body: &[u8]) -> Vec<u8> {
    [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat()
}

/// Why a receiver must not believe a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Untrusted {
    #[error("the header {name} is missing or not text")]
    NoHeader { name: &'static str },
    #[error("the timestamp is no number")]
    BadTimestamp,
    #[error("the timestamp is more than {} s in the past", TOLERANCE_MS / 1_000)]
    TooOld,
    #[error("the timestamp is more than {} s in the future", TOLERANCE_MS / 1_000)]
    TooNew,
    #[error("no signature fits")]
    NoMatch,
}

/// Whether a message comes from whoever has the secret, unchanged and just now. Signatures of versions that are not
/// known are passed over.
pub fn verify(secret: &Secret, headers: &HeaderMap, body: &[u8], now: Millis) -> Result<(), Untrusted> {
    match secret {
        Secret::Shared(shared) => {
            let key = shared.key();
            let fits = |signed: &[u8], tag: &[u8]| hmac::verify(&key, signed, tag).is_ok();
            check(headers, body, now, SHARED_VERSION, fits)
        }
        Secret::Private(private) => verify_public(private.public(), headers, body, now),
    }
}

/// The same for a receiver who has the public key only.
pub fn verify_public(key: Public, headers: &HeaderMap, body: &[u8], now: Millis) -> Result<(), Untrusted> {
    let key = UnparsedPublicKey::new(&ED25519, key.0);
    check(headers, body, now, PRIVATE_VERSION, |signed, signature| key.verify(signed, signature).is_ok())
}

fn check(
    headers: &HeaderMap,
    body: &[u8],
    now: Millis,
    version: &str,
    fits: impl Fn(&[u8], &[u8]) -> bool,
) -> Result<(), Untrusted> {
    let text =
        |name| headers.get(name).and_then(|value| value.to_str().ok()).ok_or(Untrusted::NoHeader { name });
    let (id, timestamp, signatures) = (text(ID)?, text(TIMESTAMP)?, text(SIGNATURE)?);
    let sent = timestamp.parse::<u64>().ok().and_then(|seconds| seconds.checked_mul(1_000));
    let sent = sent.ok_or(Untrusted::BadTimestamp)?;
    if now.0 > sent.saturating_add(TOLERANCE_MS) {
        return Err(Untrusted::TooOld);
    }
    if sent > now.0.saturating_add(TOLERANCE_MS) {
        return Err(Untrusted::TooNew);
    }
    let signed = signed(id, timestamp, body);
    let fits = |signature: &str| {
        let bytes = signature.strip_prefix(version).and_then(|encoded| STANDARD.decode(encoded).ok());
        bytes.is_some_and(|bytes| fits(&signed, &bytes))
    };
    if signatures.split(' ').any(fits) { Ok(()) } else { Err(Untrusted::NoMatch) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    // The vector that the specification gives.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const MESSAGE: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const SENT_S: u64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const EXPECTED: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn secret() -> Secret {
        Secret::parse(SECRET).expect("the vector's secret")
    }

    fn headers(signature: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ID, HeaderValue::from_static(MESSAGE));
        headers.insert(TIMESTAMP, HeaderValue::from(SENT_S));
        headers.insert(SIGNATURE, HeaderValue::from_str(signature).expect("a header value"));
        headers
    }

    fn check(headers: &HeaderMap, body: &[u8], now_s: u64, expected: Result<(), Untrusted>) {
        assert_eq!(verify(&secret(), headers, body, Millis(now_s * 1_000)), expected);
    }

    #[test]
    fn the_vector_of_the_specification_is_met() {
        assert_eq!(sign([&secret()], MESSAGE, SENT_S, BODY), EXPECTED);
        check(&headers(EXPECTED), BODY, SENT_S, Ok(()));
    }

    #[test]
    fn either_secret_verifies_while_they_are_changed() {
        let new = Secret::from_bytes(&[7; 32]).expect("a secret");
        let value = sign([&new, &secret()], MESSAGE, SENT_S, BODY);
        assert_eq!(value.split(' ').count(), 2);
        assert!(value.ends_with(EXPECTED));
        let now = Millis(SENT_S * 1_000);
        assert_eq!(verify(&new, &headers(&value), BODY, now), Ok(()));
        assert_eq!(verify(&secret(), &headers(&value), BODY, now), Ok(()));
        let third = Secret::from_bytes(&[8; 32]).expect("a secret");
        assert_eq!(verify(&third, &headers(&value), BODY, now), Err(Untrusted::NoMatch));
    }

    #[test]
    fn what_was_changed_is_not_believed() {
        check(&headers(EXPECTED), b"{}", SENT_S, Err(Untrusted::NoMatch));
        let mut other_id = headers(EXPECTED);
        other_id.insert(ID, HeaderValue::from_static("msg_other"));
        check(&other_id, BODY, SENT_S, Err(Untrusted::NoMatch));
        let mut other_time = headers(EXPECTED);
        other_time.insert(TIMESTAMP, HeaderValue::from(SENT_S + 1));
        check(&other_time, BODY, SENT_S, Err(Untrusted::NoMatch));
        for signature in ["", "v1,", "v1,AAAA", "v1a,g0hM", "v2,x v1,!", &EXPECTED[3..], &EXPECTED[..40]] {
            check(&headers(signature), BODY, SENT_S, Err(Untrusted::NoMatch));
        }
    }

    #[test]
    fn an_old_or_early_message_is_not_believed() {
        check(&headers(EXPECTED), BODY, SENT_S + 300, Ok(()));
        check(&headers(EXPECTED), BODY, SENT_S + 301, Err(Untrusted::TooOld));
        check(&headers(EXPECTED), BODY, SENT_S - 300, Ok(()));
        check(&headers(EXPECTED), BODY, SENT_S - 301, Err(Untrusted::TooNew));
    }

    #[test]
    fn missing_headers_are_named() {
        for name in [ID, TIMESTAMP, SIGNATURE] {
            let mut headers = headers(EXPECTED);
            headers.remove(name);
            check(&headers, BODY, SENT_S, Err(Untrusted::NoHeader { name }));
        }
        let mut headers = headers(EXPECTED);
        headers.insert(TIMESTAMP, HeaderValue::from_static("soon"));
        check(&headers, BODY, SENT_S, Err(Untrusted::BadTimestamp));
    }

    #[test]
    fn secrets_are_read_and_not_shown() {
        assert_eq!(secret().reveal(), SECRET);
        assert_eq!(format!("{:?}", secret()), "Secret");
        for (text, expected) in [
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", SecretError::NoPrefix),
            ("whsec_!", SecretError::NotBase64),
            ("whsec_AAAA", SecretError::BadLength { bytes: 3 }),
            ("whsec_", SecretError::BadLength { bytes: 0 }),
            ("whsk_AAAA", SecretError::BadKey),
            ("whsk_!", SecretError::NotBase64),
        ] {
            assert_eq!(Secret::parse(text), Err(expected), "{text}");
        }
        assert_eq!(Secret::from_bytes(&[0; 65]), Err(SecretError::BadLength { bytes: 65 }));
    }
    // Made with another program (Python's cryptography): the seed is the bytes 0 to 31.
    const PRIVATE: &str =
        "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8DoQe/884Qvh1w3RjnS8CZZ+TWMJulDV8d3IZkElUxuA==";
    const PUBLIC: &str = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";
    const EXPECTED_PRIVATE: &str =
        "v1a,yoUrgEkc12aGqm0n4Sydmdz55xJfTz4AsAgieHFjmkR7LJtqVCZOQYzvvHjI5kAey+r4iaBGxTFRrl2iBQxtDQ==";

    // proves: WHK-01
    #[test]
    fn private_keys_sign_and_public_ones_verify() {
        let private = Secret::parse(PRIVATE).expect("a key");
        let public = Public::parse(PUBLIC).expect("a key");
        assert_eq!((private.reveal().as_str(), private.public()), (PRIVATE, Some(public)));
        assert_eq!(public.to_string(), PUBLIC);
        let seed: Vec<u8> = (0..32).collect();
        assert_eq!(Secret::from_private(&seed), Ok(private.clone()), "a seed alone is enough");
        assert_eq!(Secret::from_private(&[seed, vec![7; 32]].concat()), Err(SecretError::BadKey));
        let value = sign([&private], MESSAGE, SENT_S, BODY);
        assert_eq!(value, EXPECTED_PRIVATE);
        let now = Millis(SENT_S * 1_000);
        assert_eq!(verify(&private, &headers(&value), BODY, now), Ok(()));
        assert_eq!(verify_public(public, &headers(&value), BODY, now), Ok(()));
        assert_eq!(verify_public(public, &headers(&value), b"{}", now), Err(Untrusted::NoMatch));
        assert_eq!(verify(&secret(), &headers(&value), BODY, now), Err(Untrusted::NoMatch));
    }

    // proves: WHK-01
    #[test]
    fn both_kinds_go_together() {
        let private = Secret::parse(PRIVATE).expect("a key");
        let value = sign([&secret(), &private], MESSAGE, SENT_S, BODY);
        assert_eq!(value, format!("{EXPECTED} {EXPECTED_PRIVATE}"));
        let now = Millis(SENT_S * 1_000);
        for secret in [secret(), private] {
            assert_eq!(verify(&secret, &headers(&value), BODY, now), Ok(()));
        }
        // A tag of one kind under the name of the other is nothing.
        let swapped = value.replace("v1,", "v1x,").replace("v1a,", "v1,").replace("v1x,", "v1a,");
        assert_eq!(verify(&secret(), &headers(&swapped), BODY, now), Err(Untrusted::NoMatch));
    }
}
