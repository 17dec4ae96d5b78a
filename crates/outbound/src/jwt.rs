//! Signed tokens (RFC 7515): what APNs, Google and Web Push want to see.
//!
//! What must never happen: a signature in another form than raw `r‖s` (ES256), or base64 with padding; both are refused by
//! somebody.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::fmt;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// A private key that signs tokens. Never shown.
pub enum Signer {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key is not a private key in PEM")]
    NotPem,
    #[error("the key is not one of {expected}")]
    WrongKind { expected: &'static str },
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.algorithm())
    }
}

impl Signer {
    /// A `.p8` of Apple, or any other P-256 key in PKCS#8.
    pub fn es256_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let wrong = KeyError::WrongKind { expected: "P-256 in PKCS#8" };
        let PrivateKeyDer::Pkcs8(key) = PrivateKeyDer::from_pem_slice(pem).map_err(|_| KeyError::NotPem)?
        else {
            return Err(wrong);
        };
        Self::es256_pkcs8(key.secret_pkcs8_der()).map_err(|_| wrong)
    }

    pub fn es256_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let wrong = KeyError::WrongKind { expected: "P-256 in PKCS#8" };
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).map(Self::Es256).map_err(|_| wrong)
    }

    /// As it stands in the JSON of a service account: PKCS#8, or PKCS#1 as older tools write it.
    pub fn rs256_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let wrong = KeyError::WrongKind { expected: "RSA in PKCS#8 or PKCS#1" };
        let key = match PrivateKeyDer::from_pem_slice(pem).map_err(|_| KeyError::NotPem)? {
            PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
            _ => return Err(wrong),
        };
        key.map(Self::Rs256).map_err(|_| wrong)
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::Rs256(_) => "RS256",
        }
    }

    /// The public key as protocols carry it: the uncompressed point, or the DER of an RSA key.
    #[must_use]
    pub fn public(&self) -> &[u8] {
        match self {
            Self::Es256(key) => key.public_key().as_ref(),
            Self::Rs256(key) => key.public_key().as_ref(),
        }
    }

    /// `header.claims.signature`, with `kid` in the header if there is one.
    #[must_use]
    pub fn token(&self, kid: Option<&str>, claims: &Value) -> String {
        let mut header = json!({"alg": self.algorithm(), "typ": "JWT"});
        if let Some(kid) = kid {
            header["kid"] = kid.into();
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// Of SHA-256 over the bytes.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Es256(key) => {
                key.sign(&random, bytes).expect("a P-256 key that was read signs").as_ref().to_vec()
            }
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, bytes, &mut signature)
                    .expect("an RSA key that was read signs into its own length");
                signature
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    fn signer() -> Signer {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        Signer::es256_pkcs8(key.as_ref()).expect("a key of our own")
    }

    #[test]
    fn tokens_have_three_parts_and_a_raw_signature() {
        let signer = signer();
        let token = signer.token(Some("KEY1"), &json!({"iss": "TEAM", "iat": 1}));
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature] = parts[..] else { panic!("{token}") };
        let read = |part: &str| URL_SAFE_NO_PAD.decode(part).expect("base64url without padding");
        let header: Value = serde_json::from_slice(&read(header)).expect("JSON");
        assert_eq!(header, json!({"alg": "ES256", "kid": "KEY1", "typ": "JWT"}));
        assert_eq!(read(claims), br#"{"iat":1,"iss":"TEAM"}"#);
        assert_eq!(read(signature).len(), 64);
        let signed = token.rsplit_once('.').expect("three parts").0;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, signer.public());
        public.verify(signed.as_bytes(), &read(signature)).expect("our own signature");
    }

    #[test]
    fn what_is_no_key_is_refused_and_never_shown() {
        assert!(matches!(Signer::es256_pem(b"secret"), Err(KeyError::NotPem)));
        assert!(matches!(Signer::rs256_pem(b"secret"), Err(KeyError::NotPem)));
        assert_eq!(format!("{:?}", signer()), "ES256");
    }
}
