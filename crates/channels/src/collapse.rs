//! Collapse keys within what providers take: a key that is too long or holds other letters becomes its hash, the same every
//! time, so that a later message still replaces the earlier one.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::borrow::Cow;

/// What APNs takes; FCM's own limit is not documented and not below it.
const ID_BYTES_MAX: usize = 64;
/// RFC 8030, 5.4.
const TOPIC_BYTES_MAX: usize = 32;

/// For APNs and FCM: printable ASCII, because it travels in a header.
#[must_use]
pub fn collapse_id(key: &str) -> Cow<'_, str> {
    let is_plain = key.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && (1..=ID_BYTES_MAX).contains(&key.len()) {
        Cow::Borrowed(key)
    } else {
        Cow::Owned(hash(key))
    }
}

/// For Web Push: at most 32 letters of base64url.
#[must_use]
pub fn topic(key: &str) -> Cow<'_, str> {
    let is_plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if is_plain && (1..=TOPIC_BYTES_MAX).contains(&key.len()) {
        return Cow::Borrowed(key);
    }
    let mut hash = hash(key);
    hash.truncate(TOPIC_BYTES_MAX);
    Cow::Owned(hash)
}

fn hash(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, key.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: PSH-06
    #[test]
    fn keys_fit_and_stay_apart() {
        let long = "k".repeat(65);
        for (key, id_stays, topic_stays) in [
            ("order-42", true, true),
            ("order:42", true, false),
            (&long[..32], true, true),
            (&long[..33], true, false),
            (&long[..64], true, false),
            (&long, false, false),
            ("grüße", false, false),
            ("two words", false, false),
            ("", false, false),
        ] {
            let (id, topic) = (collapse_id(key), topic(key));
            assert_eq!((id == key, topic == key), (id_stays, topic_stays), "{key}");
            assert!((1..=64).contains(&id.len()) && (1..=32).contains(&topic.len()));
        }
        assert_ne!(topic("a:1"), topic("a:2"));
        assert_eq!(topic("a:1"), topic("a:1"));
    }
}
