//! A subscription: where a browser's push service takes messages for it, and the keys they are encrypted for.

use crate::webhook::url::{Url, UrlError};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fantail_rules::push_address::{PushAddress, Service};

/// An uncompressed point on P-256.
pub const PUBLIC_BYTES: usize = 65;
pub const AUTH_BYTES: usize = 16;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    pub url: Url,
    pub browser: Browser,
}

/// What only the browser can decrypt is encrypted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Browser {
    pub public: [u8; PUBLIC_BYTES],
    pub auth: [u8; AUTH_BYTES],
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TargetError {
    #[error("the endpoint is no subscription to Web Push")]
    NotWebPush,
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("p256dh is no public key on P-256")]
    BadPublic,
    #[error("auth is no secret of {AUTH_BYTES} bytes")]
    BadAuth,
}

impl Target {
    pub fn read(endpoint: &[u8]) -> Result<Self, TargetError> {
        let Some(PushAddress { service: Service::WebPush { url, p256dh, auth }, .. }) =
            PushAddress::read(endpoint)
        else {
            return Err(TargetError::NotWebPush);
        };
        let public =
            decode(p256dh).and_then(|bytes| bytes.try_into().ok()).filter(|key: &[u8; 65]| key[0] == 4);
        let auth = decode(auth).and_then(|bytes| bytes.try_into().ok());
        let browser = Browser {
            public: public.ok_or(TargetError::BadPublic)?,
            auth: auth.ok_or(TargetError::BadAuth)?,
        };
        Ok(Self { url: Url::parse(url)?, browser })
    }
}

/// Some libraries write padding.
fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_read() {
        let (public, auth) = ([4; PUBLIC_BYTES], [7; AUTH_BYTES]);
        let line = |public: &[u8], auth: &[u8], url: &str| {
            format!("web 1 {} {} {url}", URL_SAFE_NO_PAD.encode(public), URL_SAFE_NO_PAD.encode(auth))
                .into_bytes()
        };
        let target = Target::read(&line(&public, &auth, "https://push.example/1")).expect("a subscription");
        assert_eq!(
            (target.browser, target.url.to_string().as_str()),
            (Browser { public, auth }, "https://push.example/1")
        );
        for (bytes, expected) in [
            (line(&public[1..], &auth, "https://a.b/"), TargetError::BadPublic),
            (line(&[3; PUBLIC_BYTES], &auth, "https://a.b/"), TargetError::BadPublic),
            (line(&public, &auth[1..], "https://a.b/"), TargetError::BadAuth),
            (line(&public, &auth, "ftp://a.b/"), TargetError::Url(UrlError::BadScheme)),
            (b"fcm token 1 - x".to_vec(), TargetError::NotWebPush),
            (b"".to_vec(), TargetError::NotWebPush),
        ] {
            assert_eq!(Target::read(&bytes), Err(expected));
        }
    }
}
