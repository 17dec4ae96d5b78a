//! What a receiver of Standard Webhooks checks: `v1` with a shared secret, `v1a` with a public key, and the time.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::http::HeaderMap;

const TOLERANCE_MS: u64 = 5 * 60 * 1_000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Key {
    Shared(Vec<u8>),
    Public(Vec<u8>),
}

impl Key {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (prefix, encoded) = text.split_once('_')?;
        let bytes = STANDARD.decode(encoded).ok()?;
        match prefix {
            "whsec" if (24..=64).contains(&bytes.len()) => Some(Self::Shared(bytes)),
            "whpk" if bytes.len() == 32 => Some(Self::Public(bytes)),
            _ => None,
        }
    }

    #[must_use]
    pub fn verifies(&self, headers: &HeaderMap, body: &[u8], now_ms: u64) -> bool {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let parts = (text("webhook-id"), text("webhook-timestamp"), text("webhook-signature"));
        let (Some(id), Some(timestamp), Some(signatures)) = parts else { return false };
        let Ok(sent_s) = timestamp.parse::<u64>() else { return false };
        if now_ms.abs_diff(sent_s.saturating_mul(1_000)) > TOLERANCE_MS {
            return false;
        }
        let said = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
        signatures.split(' ').filter_map(|one| one.split_once(',')).any(|(version, encoded)| {
            let Ok(signature) = STANDARD.decode(encoded) else { return false };
            match (self, version) {
                (Self::Shared(secret), "v1") => {
                    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, secret), &said, &signature).is_ok()
                }
                (Self::Public(key), "v1a") => {
                    UnparsedPublicKey::new(&ED25519, key).verify(&said, &signature).is_ok()
                }
                _ => false,
            }
        })
    }
}
