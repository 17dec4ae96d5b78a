//! The browser's half of RFC 8291: what was encrypted for a subscription is opened with its private key.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

const SALT: usize = 16;
const POINT: usize = 65;
/// Salt, record size, length of the key id, key id.
const HEAD: usize = SALT + 4 + 1 + POINT;
const TAG: usize = 16;
/// What ends the text of the last record; only zeroes follow.
const LAST: u8 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecryptError {
    #[error("the header of the body is not that of aes128gcm with a point as key id")]
    Header,
    #[error("the body is not one record")]
    Records,
    #[error("the keys do not agree")]
    Agreement,
    #[error("the text does not open with the keys of the subscription")]
    Sealed,
    #[error("the padding has no end")]
    Padding,
}

/// What the browser keeps to itself, and what it shows.
pub struct Keys {
    private: PrivateKey,
    pub public: Vec<u8>,
    pub auth: [u8; 16],
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Keys {
    #[must_use]
    pub fn new(private: PrivateKey, auth: [u8; 16]) -> Self {
        let public = private.compute_public_key().expect("a private key has a public one").as_ref().to_vec();
        Self { private, public, auth }
    }

    #[must_use]
    pub fn generate() -> Self {
        Self::new(PrivateKey::generate(&ECDH_P256).expect("the system has randomness"), crate::ids::bytes())
    }

    pub fn open(&self, body: &[u8]) -> Result<Vec<u8>, DecryptError> {
        let (head, sealed) = body.split_at_checked(HEAD).ok_or(DecryptError::Header)?;
        let (salt, rest) = head.split_at(SALT);
        let (sizes, sender) = rest.split_at(5);
        let record_size = u32::from_be_bytes([sizes[0], sizes[1], sizes[2], sizes[3]]) as usize;
        if usize::from(sizes[4]) != POINT {
            return Err(DecryptError::Header);
        }
        if sealed.len() > record_size || sealed.len() <= TAG || record_size < TAG + 2 {
            return Err(DecryptError::Records);
        }
        let material = self.material(sender)?;
        let secret = Salt::new(HKDF_SHA256, salt).extract(&material);
        let key: [u8; 16] = expand(&secret, &[b"Content-Encoding: aes128gcm\0"]);
        let nonce: [u8; 12] = expand(&secret, &[b"Content-Encoding: nonce\0"]);
        let key = UnboundKey::new(&AES_128_GCM, &key).map_err(|_| DecryptError::Sealed)?;
        let mut text = sealed.to_vec();
        let opened = LessSafeKey::new(key)
            .open_in_place(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut text)
            .map_err(|_| DecryptError::Sealed)?
            .len();
        text.truncate(opened);
        let end = text.iter().rposition(|byte| *byte != 0).ok_or(DecryptError::Padding)?;
        if text[end] != LAST {
            return Err(DecryptError::Padding);
        }
        text.truncate(end);
        Ok(text)
    }

    /// What both sides derive from their keys and the shared secret of the subscription.
    fn material(&self, sender: &[u8]) -> Result<[u8; 32], DecryptError> {
        let peer = UnparsedPublicKey::new(&ECDH_P256, sender);
        agree(&self.private, peer, DecryptError::Agreement, |secret| {
            let agreed = Salt::new(HKDF_SHA256, &self.auth).extract(secret);
            Ok(expand(&agreed, &[b"WebPush: info\0", &self.public, sender]))
        })
    }
}

fn expand<const N: usize>(secret: &Prk, info: &[&[u8]]) -> [u8; N] {
    let mut out = [0; N];
    secret
        .expand(info, Length(N))
        .and_then(|derived| derived.fill(&mut out))
        .expect("a few bytes are within the limit of HKDF");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    fn decode(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).expect("base64url")
    }

    /// The example of RFC 8291, section 5.
    fn example() -> (Keys, Vec<u8>) {
        let private = decode("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94");
        let private = PrivateKey::from_private_key(&ECDH_P256, &private).expect("a key");
        let auth = decode("BTBZMqHH6r4Tts7J_aSIgg").try_into().expect("16 bytes");
        let body = concat!(
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6Tlz",
            "AC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
        );
        (Keys::new(private, auth), decode(body))
    }

    #[test]
    fn the_example_of_the_standard_opens() {
        let (keys, body) = example();
        assert_eq!(keys.open(&body).expect("opened"), b"When I grow up, I want to be a watermelon");
    }

    #[test]
    fn what_was_changed_does_not_open() {
        let (keys, body) = example();
        assert_eq!(keys.open(&body[..HEAD - 1]), Err(DecryptError::Header));
        assert_eq!(keys.open(&body[..HEAD + TAG]), Err(DecryptError::Records));
        let changed = |at: usize, value: u8| {
            let mut body = body.clone();
            body[at] = value;
            body
        };
        assert_eq!(keys.open(&changed(20, 64)), Err(DecryptError::Header));
        assert_eq!(keys.open(&changed(18, 0)), Err(DecryptError::Records));
        assert_eq!(keys.open(&changed(30, 0)), Err(DecryptError::Agreement));
        assert_eq!(keys.open(&changed(body.len() - 1, 0)), Err(DecryptError::Sealed));
        assert_eq!(Keys::generate().open(&body), Err(DecryptError::Sealed));
    }
}
