//! Signatures of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, one for each secret, so that a receiver can
//! change from one secret to the next without losing a message. `verify` is what a receiver does.
//!
//! What must never happen: a secret in a log, or a comparison whose time tells how much of a signature was right.

use super::limits::SECRET_BYTES;
use aws_lc_rs::hmac;
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

const PREFIX: &str = "whsec_";
const VERSION: &str = "v1,";

/// A shared secret. Shows nothing of itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SecretError {
    #[error("the secret does not begin with {PREFIX}")]
    NoPrefix,
    #[error("the secret is no base64")]
    NotBase64,
    #[error("the secret has {bytes} bytes, wanted are {} to {}", SECRET_BYTES.start(), SECRET_BYTES.end())]
    BadLength { bytes: usize },
}

impl Secret {
    /// The form that receivers are given: `whsec_` and base64.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(SecretError::NoPrefix)?;
        Self::from_bytes(&STANDARD.decode(encoded).map_err(|_| SecretError::NotBase64)?)
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SecretError> {
        if SECRET_BYTES.contains(&bytes.len()) {
            Ok(Self(bytes.to_vec()))
        } else {
            Err(SecretError::BadLength { bytes: bytes.len() })
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// For showing it once to whoever registers an endpoint.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The value of the signature header: one signature per secret, in their order.
#[must_use]
pub fn sign(secrets: &[Secret], id: &str, timestamp_s: u64, body: &[u8]) -> String {
    let timestamp = timestamp_s.to_string();
    let mut value = String::new();
    for secret in secrets {
        if !value.is_empty() {
            value.push(' ');
        }
        let mut context = hmac::Context::with_key(&secret.key());
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            context.update(part);
        }
        value.push_str(VERSION);
        value.push_str(&STANDARD.encode(context.sign()));
    }
    value
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

/// Whether a message comes from whoever shares the secret, unchanged and just now. Signatures of versions that are not
/// known are passed over.
pub fn verify(secret: &Secret, headers: &HeaderMap, body: &[u8], now: Millis) -> Result<(), Untrusted> {
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
    let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat();
    let key = secret.key();
    let fits = |signature: &str| {
        let tag = signature.strip_prefix(VERSION).and_then(|encoded| STANDARD.decode(encoded).ok());
        tag.is_some_and(|tag| hmac::verify(&key, &signed, &tag).is_ok())
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
        assert_eq!(sign(&[secret()], MESSAGE, SENT_S, BODY), EXPECTED);
        check(&headers(EXPECTED), BODY, SENT_S, Ok(()));
    }

    #[test]
    fn either_secret_verifies_while_they_are_changed() {
        let new = Secret::from_bytes(&[7; 32]).expect("a secret");
        let value = sign(&[new.clone(), secret()], MESSAGE, SENT_S, BODY);
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
        ] {
            assert_eq!(Secret::parse(text), Err(expected), "{text}");
        }
        assert_eq!(Secret::from_bytes(&[0; 65]), Err(SecretError::BadLength { bytes: 65 }));
    }
}
