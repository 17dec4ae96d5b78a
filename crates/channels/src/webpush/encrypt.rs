//! Message encryption for Web Push (RFC 8291) in one record of aes128gcm (RFC 8188).
//!
//! ```text
//! body   = salt: 16, record size: u32, length of the key: u8 = 65, our public key: 65, sealed
//! sealed = AES-128-GCM of (plaintext, 2, zeros)
//! ```
//! What must never happen: a key pair or a salt that is used twice. Both come from a [`Fresh`], which is used up.

use super::payload::PLAINTEXT_BYTES_MAX;
use super::target::{Browser, PUBLIC_BYTES};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::rand;

const SALT_BYTES: usize = 16;
const RECORD_BYTES: u32 = 4_096;
const HEADER_BYTES: usize = SALT_BYTES + 4 + 1 + PUBLIC_BYTES;
const TAG_BYTES: usize = 16;
/// The last record.
const DELIMITER: u8 = 2;
/// What encryption adds.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES + 1;

/// A key pair and a salt for one message.
pub struct Fresh {
    private: PrivateKey,
    public: [u8; PUBLIC_BYTES],
    salt: [u8; SALT_BYTES],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EncryptError {
    #[error("the key of the browser is no point on P-256")]
    BadPublic,
    #[error("the plaintext is larger than {PLAINTEXT_BYTES_MAX} bytes")]
    TooLarge,
}

impl Fresh {
    #[must_use]
    pub fn generate() -> Self {
        let private = PrivateKey::generate(&ECDH_P256).expect("the generator of random numbers works");
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).expect("the generator of random numbers works");
        Self::new(private, salt)
    }

    fn new(private: PrivateKey, salt: [u8; SALT_BYTES]) -> Self {
        let public = private.compute_public_key().expect("a private key has a public one");
        let public = public.as_ref().try_into().expect("an uncompressed point has 65 bytes");
        Self { private, public, salt }
    }

    /// The body of a request. The plaintext is filled up to a multiple of `pad_to` as far as there is room.
    pub fn encrypt(
        self,
        browser: &Browser,
        plaintext: &[u8],
        pad_to: usize,
    ) -> Result<Vec<u8>, EncryptError> {
        if plaintext.len() > PLAINTEXT_BYTES_MAX {
            return Err(EncryptError::TooLarge);
        }
        let peer = UnparsedPublicKey::new(&ECDH_P256, &browser.public[..]);
        let prk =
            agree(&self.private, peer, EncryptError::BadPublic, |secret| Ok(hmac(&browser.auth, &[secret])))?;
        let input = hmac(&prk, &[b"WebPush: info\0", &browser.public, &self.public, &[1]]);
        let prk = hmac(&self.salt, &[&input]);
        let content_key = hmac(&prk, &[b"Content-Encoding: aes128gcm\0", &[1]]);
        let nonce = hmac(&prk, &[b"Content-Encoding: nonce\0", &[1]]);
        let filled = plaintext.len().next_multiple_of(pad_to.max(1)).min(PLAINTEXT_BYTES_MAX);
        let mut body = Vec::with_capacity(filled + OVERHEAD_BYTES);
        body.extend_from_slice(&self.salt);
        body.extend_from_slice(&RECORD_BYTES.to_be_bytes());
        body.push(PUBLIC_BYTES as u8);
        body.extend_from_slice(&self.public);
        body.extend_from_slice(plaintext);
        body.push(DELIMITER);
        body.resize(HEADER_BYTES + filled + 1, 0);
        let key = UnboundKey::new(&AES_128_GCM, &content_key[..16]).expect("sixteen bytes are a key");
        let nonce = Nonce::try_assume_unique_for_key(&nonce[..12]).expect("twelve bytes are a nonce");
        let tag = LessSafeKey::new(key)
            .seal_in_place_separate_tag(nonce, Aad::empty(), &mut body[HEADER_BYTES..])
            .expect("a record is within the limits of the cipher");
        body.extend_from_slice(tag.as_ref());
        Ok(body)
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let key = Key::new(HMAC_SHA256, key);
    let tag = match parts {
        [one] => sign(&key, one),
        many => sign(&key, &many.concat()),
    };
    tag.as_ref().try_into().expect("SHA-256 gives 32 bytes")
}

/// The other end, for tests: as a browser does it, step by step.
#[cfg(test)]
pub fn decrypt(private: &PrivateKey, auth: [u8; 16], body: &[u8]) -> Option<Vec<u8>> {
    let own: [u8; PUBLIC_BYTES] = private.compute_public_key().ok()?.as_ref().try_into().ok()?;
    let (salt, rest) = body.split_at_checked(SALT_BYTES)?;
    let (_record_size, rest) = rest.split_at_checked(4)?;
    let (length, rest) = rest.split_first()?;
    let (peer, sealed) = rest.split_at_checked(usize::from(*length))?;
    let prk =
        agree(private, UnparsedPublicKey::new(&ECDH_P256, peer), (), |secret| Ok(hmac(&auth, &[secret])))
            .ok()?;
    let input = hmac(&prk, &[b"WebPush: info\0", &own, peer, &[1]]);
    let prk = hmac(salt, &[&input]);
    let key = hmac(&prk, &[b"Content-Encoding: aes128gcm\0", &[1]]);
    let nonce = hmac(&prk, &[b"Content-Encoding: nonce\0", &[1]]);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key[..16]).ok()?);
    let mut sealed = sealed.to_vec();
    let nonce = Nonce::try_assume_unique_for_key(&nonce[..12]).ok()?;
    let plain = key.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
    let end = plain.iter().rposition(|byte| *byte != 0).filter(|end| plain[*end] == DELIMITER)?;
    Some(plain[..end].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use proptest::prelude::*;

    fn bytes(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).expect("base64url")
    }

    fn array<const N: usize>(text: &str) -> [u8; N] {
        bytes(text).try_into().expect("its length")
    }

    // The example of RFC 8291, section 5 and appendix A.
    const PLAINTEXT: &str = "V2hlbiBJIGdyb3cgdXAsIEkgd2FudCB0byBiZSBhIHdhdGVybWVsb24";
    const OUR_PRIVATE: &str = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw";
    const BROWSER_PRIVATE: &str = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94";
    const BROWSER_PUBLIC: &str =
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";
    const SALT: &str = "DGv6ra1nlYgDCS1FRnbzlw";
    const BODY: &str = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";

    fn browser() -> Browser {
        Browser { public: array(BROWSER_PUBLIC), auth: array(AUTH) }
    }

    // proves: PSH-09
    #[test]
    fn the_example_of_the_rfc_is_met() {
        let private = PrivateKey::from_private_key(&ECDH_P256, &bytes(OUR_PRIVATE)).expect("a key");
        let body = Fresh::new(private, array(SALT)).encrypt(&browser(), &bytes(PLAINTEXT), 0);
        assert_eq!(body.map(|body| URL_SAFE_NO_PAD.encode(body)), Ok(BODY.to_owned()));
        let private = PrivateKey::from_private_key(&ECDH_P256, &bytes(BROWSER_PRIVATE)).expect("a key");
        assert_eq!(decrypt(&private, array(AUTH), &bytes(BODY)), Some(bytes(PLAINTEXT)));
    }

    #[test]
    fn sizes_are_kept() {
        let length = |plaintext: usize, pad_to| {
            Fresh::generate().encrypt(&browser(), &vec![b'x'; plaintext], pad_to).map(|body| body.len())
        };
        assert_eq!(length(5, 0), Ok(108));
        assert_eq!(length(5, 128), Ok(128 + OVERHEAD_BYTES));
        assert_eq!(length(128, 128), Ok(128 + OVERHEAD_BYTES));
        assert_eq!(length(PLAINTEXT_BYTES_MAX, 0), Ok(4_096));
        assert_eq!(length(3_900, 1_000), Ok(4_096), "as far as there is room");
        assert_eq!(length(PLAINTEXT_BYTES_MAX + 1, 0), Err(EncryptError::TooLarge));
        let nowhere = Browser { public: [4; PUBLIC_BYTES], ..browser() };
        assert_eq!(Fresh::generate().encrypt(&nowhere, b"x", 0), Err(EncryptError::BadPublic));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        // proves: PSH-09
        #[test]
        fn the_browser_reads_what_was_written(
            plaintext in proptest::collection::vec(any::<u8>(), 0..=PLAINTEXT_BYTES_MAX), pad_to in 0usize..5_000,
            auth in any::<[u8; 16]>(),
        ) {
            let private = PrivateKey::generate(&ECDH_P256).expect("a key");
            let public = private.compute_public_key().expect("its public one");
            let browser = Browser { public: public.as_ref().try_into().expect("a point"), auth };
            let body = Fresh::generate().encrypt(&browser, &plaintext, pad_to).expect("it fits");
            prop_assert!(body.len() <= 4_096);
            prop_assert_eq!(decrypt(&private, auth, &body), Some(plaintext));
        }
    }
}
