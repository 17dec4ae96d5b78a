//! The key pair by which push services know an application server (VAPID), as browsers and other libraries write it:
//! base64url of the private number and of the uncompressed public point.
//!
//! What must never happen: a private key that is shown, or one that is stored beside a public key of another pair; all
//! subscriptions are bound to the public one.

use crate::fields::{Fields, SettingsError};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::encoding::{AsBigEndian, EcPrivateKeyBin};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fantail_outbound::jwt::Signer;
use serde_json::{Value, json};
use std::fmt;

const KEY_BYTES_MAX: usize = 128;

/// Never shown.
pub struct Secrets {
    pub(super) signer: Signer,
    public: String,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Secrets(of {})", self.public)
    }
}

impl Secrets {
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::of(value)?;
        let encoded = fields.required_text("vapidPrivateKey", KEY_BYTES_MAX)?;
        let wrong = |reason: &str| fields.wrong("vapidPrivateKey", reason);
        let private =
            URL_SAFE_NO_PAD.decode(encoded.trim_end_matches('=')).map_err(|_| wrong("must be base64url"))?;
        let key = PrivateKey::from_private_key(&ECDH_P256, &private)
            .map_err(|_| wrong("must be a private key on P-256, 32 bytes"))?;
        let unusable = |_| wrong("is not a usable key on P-256");
        let public = key.compute_public_key().map_err(unusable)?;
        let pair = EcdsaKeyPair::from_private_key_and_public_key(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            &private,
            public.as_ref(),
        )
        .map_err(|_| wrong("is not a usable key on P-256"))?;
        let public = URL_SAFE_NO_PAD.encode(public.as_ref());
        let stated = fields.text("vapidPublicKey", KEY_BYTES_MAX)?;
        if stated.is_some_and(|stated| stated.trim_end_matches('=') != public) {
            return Err(fields.wrong("vapidPublicKey", "is not the public key of vapidPrivateKey"));
        }
        fields.end()?;
        Ok(Self { signer: Signer::Es256(pair), public })
    }

    /// What an app gives its browser as `applicationServerKey`.
    #[must_use]
    pub fn public_key(&self) -> &str {
        &self.public
    }
}

/// Secrets for an account that has none yet, as [`Secrets::read`] takes them.
#[must_use]
pub fn generate_vapid() -> Value {
    let key = PrivateKey::generate(&ECDH_P256).expect("the generator of random numbers works");
    let private: EcPrivateKeyBin<'static> = key.as_be_bytes().expect("a key that was made can be written");
    let public = key.compute_public_key().expect("a key that was made has a public one");
    json!({
        "vapidPrivateKey": URL_SAFE_NO_PAD.encode(private.as_ref()),
        "vapidPublicKey": URL_SAFE_NO_PAD.encode(public.as_ref()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_can_be_read_and_is_not_shown() {
        let made = generate_vapid();
        let secrets = Secrets::read(&made).expect("good secrets");
        assert_eq!(made["vapidPublicKey"], secrets.public_key());
        assert_eq!(secrets.public_key().len(), 87);
        let private = made["vapidPrivateKey"].as_str().expect("text");
        assert!(!format!("{secrets:?}").contains(private));
        assert_ne!(generate_vapid(), made);
    }

    #[test]
    fn keys_that_do_not_fit_are_refused() {
        let (one, other) = (generate_vapid(), generate_vapid());
        for (private, public, field) in [
            (json!("!"), Value::Null, "/vapidPrivateKey"),
            (json!("AAAA"), Value::Null, "/vapidPrivateKey"),
            (json!(URL_SAFE_NO_PAD.encode([0; 32])), Value::Null, "/vapidPrivateKey"),
            (json!(URL_SAFE_NO_PAD.encode([255; 32])), Value::Null, "/vapidPrivateKey"),
            (Value::Null, Value::Null, "/vapidPrivateKey"),
            (one["vapidPrivateKey"].clone(), other["vapidPublicKey"].clone(), "/vapidPublicKey"),
        ] {
            let value = json!({"vapidPrivateKey": private, "vapidPublicKey": public});
            assert_eq!(Secrets::read(&value).map(|_| ()).expect_err("a mistake").field, field);
        }
    }
}
