//! A definition as the bytes that are stored, with their hash: equal definitions have equal bytes, however they were
//! written by their author.

use aws_lc_rs::digest::{SHA256, digest};
use fantail_wire::template::Definition;

#[derive(Clone, PartialEq, Eq)]
pub struct Canonical {
    pub bytes: Vec<u8>,
    /// SHA-256 of the bytes.
    pub hash: [u8; 32],
}

#[must_use]
pub fn canonical(definition: &Definition) -> Canonical {
    let bytes = serde_json::to_vec(definition).expect("a definition has string keys only");
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, &bytes).as_ref());
    Canonical { bytes, hash }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_and_the_order_of_fields_do_not_matter() {
        let read = |text: &str| canonical(&serde_json::from_str::<Definition>(text).expect("a definition"));
        let one = read(r#"{"id":"a","category":"c","channels":{"sms":{"body":"x"}},"defaultLocale":"en"}"#);
        let other = read(
            r#"{ "defaultLocale": "en", "channels": {"sms": {"body": "\u0078"}},
                 "category": "c", "id": "a", "variants": [] }"#,
        );
        assert!(one == other);
        let changed =
            read(r#"{"id":"a","category":"c","channels":{"sms":{"body":"y"}},"defaultLocale":"en"}"#);
        assert_ne!(one.hash, changed.hash);
        assert_eq!(canonical(&serde_json::from_slice(&one.bytes).expect("a definition")).hash, one.hash);
    }
}
