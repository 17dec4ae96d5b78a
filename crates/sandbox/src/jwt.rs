//! Signed tokens as a provider reads them: strictly. Base64url without padding, a raw `r‖s`, a known algorithm. Apple's token
//! service also takes a signature in DER, as `openssl dgst -sign` and some clients write it.
//!
//! Written apart from the code that signs, so that a misunderstanding is not shared.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tokio_rustls::rustls::pki_types::SubjectPublicKeyInfoDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    Es256,
    /// With a raw signature or one in DER.
    Es256EitherForm,
    Rs256,
}

/// A token that has the right form. Nothing is proven yet.
#[derive(Clone, PartialEq, Debug)]
pub struct Token {
    pub header: Value,
    pub claims: Value,
    signed: String,
    signature: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenError {
    #[error("a token has three parts")]
    Parts,
    #[error("a part is not base64url without padding")]
    Encoding,
    #[error("a part is not a JSON object")]
    Json,
    #[error("the algorithm is not the expected one")]
    Algorithm,
    #[error("the signature does not have the length of a raw one")]
    SignatureForm,
    #[error("the signature is not of this key")]
    Signature,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Es256 | Self::Es256EitherForm => "ES256",
            Self::Rs256 => "RS256",
        }
    }

    fn verifier(self, signature: &[u8]) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::Es256EitherForm if is_der(signature) => &ECDSA_P256_SHA256_ASN1,
            Self::Es256 | Self::Es256EitherForm => &ECDSA_P256_SHA256_FIXED,
            Self::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        }
    }
}

impl Token {
    pub fn read(text: &str, algorithm: Algorithm) -> Result<Self, TokenError> {
        let parts: Vec<&str> = text.split('.').collect();
        let [header, claims, signature] = parts[..] else { return Err(TokenError::Parts) };
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Encoding);
        let object = |part: &str| {
            let value: Value = serde_json::from_slice(&decode(part)?).map_err(|_| TokenError::Json)?;
            if value.is_object() { Ok(value) } else { Err(TokenError::Json) }
        };
        let signed = format!("{header}.{claims}");
        let token =
            Self { header: object(header)?, claims: object(claims)?, signed, signature: decode(signature)? };
        if token.header["alg"] != algorithm.name() {
            return Err(TokenError::Algorithm);
        }
        match algorithm {
            Algorithm::Es256EitherForm if is_der(&token.signature) => Ok(token),
            Algorithm::Es256 | Algorithm::Es256EitherForm if token.signature.len() != RAW_BYTES => {
                Err(TokenError::SignatureForm)
            }
            Algorithm::Es256 | Algorithm::Es256EitherForm | Algorithm::Rs256 => Ok(token),
        }
    }

    /// `public` is a point (or RSA key) as protocols carry it, or the DER of a SubjectPublicKeyInfo.
    pub fn verify(&self, algorithm: Algorithm, public: &[u8]) -> Result<(), TokenError> {
        let key = UnparsedPublicKey::new(algorithm.verifier(&self.signature), public);
        key.verify(self.signed.as_bytes(), &self.signature).map_err(|_| TokenError::Signature)
    }

    #[must_use]
    pub fn text(&self, claim: &str) -> Option<&str> {
        self.claims.get(claim).and_then(Value::as_str)
    }

    /// In seconds; some clients write fractions.
    #[must_use]
    pub fn seconds(&self, claim: &str) -> Option<u64> {
        let value = self.claims.get(claim)?;
        value
            .as_u64()
            .or_else(|| value.as_f64().filter(|seconds| *seconds >= 0.0).map(|seconds| seconds as u64))
    }
}

const RAW_BYTES: usize = 64;

/// A sequence of two integers of at most 33 bytes, and nothing behind it. A raw signature is read as one as good as never.
fn is_der(signature: &[u8]) -> bool {
    let integer = |bytes: &[u8]| match bytes {
        [0x02, length @ 1..=33, rest @ ..] => {
            rest.split_at_checked(usize::from(*length)).map(|(_, rest)| rest.len())
        }
        _ => None,
    };
    let Some(([0x30, length], body)) = signature.split_first_chunk() else { return false };
    let is_whole = usize::from(*length) == body.len();
    let behind_first = integer(body).map(|left| &body[body.len() - left..]);
    is_whole && behind_first.and_then(integer) == Some(0)
}

/// A public key as somebody registers it: PEM, or base64url of a point.
#[must_use]
pub fn public_key(text: &str) -> Option<Vec<u8>> {
    if text.trim_start().starts_with("-----BEGIN") {
        let key = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes()).ok()?;
        return Some(key.as_ref().to_vec());
    }
    URL_SAFE_NO_PAD.decode(text.trim()).ok().filter(|key| !key.is_empty())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
    use serde_json::json;

    /// A key for tests and what it signs.
    pub(crate) struct Signer(EcdsaKeyPair);

    impl Signer {
        pub(crate) fn new() -> Self {
            Self(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"))
        }

        pub(crate) fn public(&self) -> Vec<u8> {
            self.0.public_key().as_ref().to_vec()
        }

        /// The same as `token`, but the signature is in DER.
        pub(crate) fn token_in_der(&self, header: &Value, claims: &Value) -> String {
            let token = self.token(header, claims);
            let (signed, raw) = token.rsplit_once('.').expect("three parts");
            let raw = URL_SAFE_NO_PAD.decode(raw).expect("base64url");
            let integer = |half: &[u8]| {
                let bare: Vec<u8> = half.iter().copied().skip_while(|byte| *byte == 0).collect();
                let sign = bare.first().is_none_or(|first| *first >= 0x80).then_some(0);
                let bytes: Vec<u8> = sign.into_iter().chain(bare).collect();
                [&[2, bytes.len() as u8][..], &bytes].concat()
            };
            let body = [integer(&raw[..32]), integer(&raw[32..])].concat();
            let der = [&[0x30, body.len() as u8][..], &body].concat();
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(der))
        }

        pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
            let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let signed = format!("{}.{}", part(header), part(claims));
            let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
        }
    }

    #[test]
    fn a_token_is_read_and_its_signature_checked() {
        let (signer, other) = (Signer::new(), Signer::new());
        let text = signer.token(&json!({"alg": "ES256", "kid": "K"}), &json!({"iss": "T", "iat": 5.0}));
        let token = Token::read(&text, Algorithm::Es256).expect("a token");
        assert_eq!((token.text("iss"), token.seconds("iat")), (Some("T"), Some(5)));
        assert_eq!(token.verify(Algorithm::Es256, &signer.public()), Ok(()));
        assert_eq!(token.verify(Algorithm::Es256, &other.public()), Err(TokenError::Signature));
    }

    // fixes: interop F2
    #[test]
    fn a_signature_in_der_is_taken_where_both_forms_are() {
        let (signer, other) = (Signer::new(), Signer::new());
        for _ in 0..64 {
            let text = signer.token_in_der(&json!({"alg": "ES256"}), &json!({"iss": "T"}));
            assert_eq!(Token::read(&text, Algorithm::Es256), Err(TokenError::SignatureForm));
            let token = Token::read(&text, Algorithm::Es256EitherForm).expect("a token");
            assert_eq!(token.verify(Algorithm::Es256EitherForm, &signer.public()), Ok(()));
            let wrong = token.verify(Algorithm::Es256EitherForm, &other.public());
            assert_eq!(wrong, Err(TokenError::Signature));
            let raw = signer.token(&json!({"alg": "ES256"}), &json!({"iss": "T"}));
            let raw = Token::read(&raw, Algorithm::Es256EitherForm).expect("a token");
            assert_eq!(raw.verify(Algorithm::Es256EitherForm, &signer.public()), Ok(()));
        }
        for bad in [
            &[][..],
            &[0x30],
            &[0x30, 0],
            &[0x30, 6, 2, 1, 1, 2, 1],
            &[0x30, 7, 2, 1, 1, 2, 1, 1, 0],
            &[0x30, 6, 2, 9, 1, 2, 1, 1],
        ] {
            assert!(!is_der(bad), "{bad:?}");
        }
        assert!(is_der(&[0x30, 6, 2, 1, 1, 2, 1, 1]));
    }

    #[test]
    fn what_has_another_form_is_refused() {
        let good = Signer::new().token(&json!({"alg": "ES256"}), &json!({}));
        let (signed, signature) = good.rsplit_once('.').expect("three parts");
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        for (text, expected) in [
            ("a.b".to_owned(), TokenError::Parts),
            (format!("{good}=="), TokenError::Encoding),
            (format!("{signed}.{}", encode(&[0; 70])), TokenError::SignatureForm),
            (format!("{}.{}.{signature}", encode(b"{}"), encode(b"{}")), TokenError::Algorithm),
            (format!("{}.{}.{signature}", encode(b"[]"), encode(b"{}")), TokenError::Json),
        ] {
            assert_eq!(Token::read(&text, Algorithm::Es256), Err(expected), "{text}");
        }
        assert_eq!(Token::read(&good, Algorithm::Rs256), Err(TokenError::Algorithm));
    }
}
