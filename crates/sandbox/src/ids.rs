//! Names that providers hand out: random, in their usual forms.

use crate::record::hex;
use aws_lc_rs::rand;

/// Random bytes.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).expect("the system has randomness");
    bytes
}

/// Version 4, lower case.
#[must_use]
pub fn uuid() -> String {
    let mut bytes: [u8; 16] = bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex(&bytes);
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

/// 8-4-4-4-12 hexadecimal digits.
#[must_use]
pub fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_uuids_and_each_is_another() {
        assert!(is_uuid(&uuid()));
        assert_ne!(uuid(), uuid());
        for text in
            ["", "1234", "123e4567-e89b-12d3-a456-4266141740000", "123e4567-e89b-12d3-a456-42661417400g"]
        {
            assert!(!is_uuid(text), "{text}");
        }
    }
}
