//! Opaque cursors. A cursor belongs to the reader it was given to: one of another user or list is refused, since
//! places in two orders cannot be compared and a client would miss entries without noticing.
//!
//! ```text
//! base64url( version 1 | kind 1 | check 4 | place n )     check = CRC-32 of version, kind, owner and place
//! ```

use fantail_node::ask::InboxFrom;
use fantail_rules::ids::{Arrival, TenantId};

const VERSION: u8 = 1;
const HEAD: usize = 6;
/// Longest text that is looked at.
const TEXT_MAX: usize = 2_048;

/// Whose order the place is in.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    pub tenant: TenantId,
    /// The user, or the list with its kind in front.
    pub name: &'a str,
}

/// Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Before = 1,
    Since = 2,
    Names = 3,
}

#[must_use]
pub fn of_inbox(owner: Owner<'_>, from: InboxFrom) -> Option<String> {
    match from {
        InboxFrom::Newest => None,
        InboxFrom::Before(arrival) => Some(write(owner, Kind::Before, &arrival.0.to_be_bytes())),
        InboxFrom::Since(arrival) => Some(write(owner, Kind::Since, &arrival.0.to_be_bytes())),
    }
}

#[must_use]
pub fn to_before(owner: Owner<'_>, text: &str) -> Option<Arrival> {
    read(owner, Kind::Before, text).and_then(|place| arrival(&place))
}

#[must_use]
pub fn to_since(owner: Owner<'_>, text: &str) -> Option<Arrival> {
    read(owner, Kind::Since, text).and_then(|place| arrival(&place))
}

/// Wraps the node's own cursor, so that only what the node gave out comes back to it.
#[must_use]
pub fn of_names(owner: Owner<'_>, place: &str) -> String {
    write(owner, Kind::Names, place.as_bytes())
}

#[must_use]
pub fn to_names(owner: Owner<'_>, text: &str) -> Option<String> {
    read(owner, Kind::Names, text).and_then(|place| String::from_utf8(place).ok())
}

fn arrival(place: &[u8]) -> Option<Arrival> {
    place.try_into().ok().map(|bytes| Arrival(u64::from_be_bytes(bytes)))
}

fn write(owner: Owner<'_>, kind: Kind, place: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(HEAD + place.len());
    bytes.extend([VERSION, kind as u8]);
    bytes.extend(check(owner, kind, place));
    bytes.extend(place);
    base64url::encode(&bytes)
}

fn read(owner: Owner<'_>, kind: Kind, text: &str) -> Option<Vec<u8>> {
    if text.len() > TEXT_MAX {
        return None;
    }
    let mut bytes = base64url::decode(text)?;
    if bytes.len() < HEAD || bytes[0] != VERSION || bytes[1] != kind as u8 {
        return None;
    }
    let place = bytes.split_off(HEAD);
    (bytes[2..HEAD] == check(owner, kind, &place)).then_some(place)
}

fn check(owner: Owner<'_>, kind: Kind, place: &[u8]) -> [u8; 4] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[VERSION, kind as u8]);
    crc.update(&owner.tenant.0.to_be_bytes());
    crc.update(owner.name.as_bytes());
    crc.update(&[0]);
    crc.update(place);
    crc.finalize().to_be_bytes()
}

/// RFC 4648 §5 without padding.
mod base64url {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    pub fn encode(bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
        for chunk in bytes.chunks(3) {
            let word = (0..3).fold(0u32, |word, at| word << 8 | u32::from(*chunk.get(at).unwrap_or(&0)));
            for at in 0..=chunk.len() {
                let digit = word >> (18 - 6 * at) & 63;
                text.push(char::from(ALPHABET[digit as usize]));
            }
        }
        text
    }

    /// `None` for other characters, impossible lengths, and bits that `encode` would not have set.
    pub fn decode(text: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
        for chunk in text.as_bytes().chunks(4) {
            if chunk.len() == 1 {
                return None;
            }
            let mut word = 0u32;
            for at in 0..4 {
                let digit = match chunk.get(at) {
                    Some(letter) => ALPHABET.iter().position(|known| known == letter)?,
                    None => 0,
                };
                word = word << 6 | u32::try_from(digit).ok()?;
            }
            bytes.extend(&word.to_be_bytes()[1..chunk.len()]);
        }
        (encode(&bytes) == text).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANN: Owner<'static> = Owner { tenant: TenantId(1), name: "ann" };

    // proves: INB-12
    proptest! {
        #[test]
        fn base64url_round_trips(bytes: Vec<u8>) {
            prop_assert_eq!(base64url::decode(&base64url::encode(&bytes)), Some(bytes));
        }

        #[test]
        fn cursors_round_trip(arrival: u64, place in "\\PC{0,40}") {
            let arrival = Arrival(arrival);
            let before = of_inbox(ANN, InboxFrom::Before(arrival)).expect("a cursor");
            prop_assert_eq!(to_before(ANN, &before), Some(arrival));
            prop_assert_eq!(to_since(ANN, &before), None);
            let since = of_inbox(ANN, InboxFrom::Since(arrival)).expect("a cursor");
            prop_assert_eq!(to_since(ANN, &since), Some(arrival));
            prop_assert_eq!(to_names(ANN, &of_names(ANN, &place)), Some(place));
        }

        #[test]
        fn any_text_is_refused_without_panic(text in "\\PC{0,80}") {
            prop_assert_eq!(to_before(ANN, &text), None);
            prop_assert_eq!(to_names(ANN, &text), None);
        }
    }

    #[test]
    fn cursors_of_others_are_refused() {
        let cursor = of_inbox(ANN, InboxFrom::Since(Arrival(7))).expect("a cursor");
        let bob = Owner { name: "bob", ..ANN };
        let ann_elsewhere = Owner { tenant: TenantId(2), ..ANN };
        assert_eq!(to_since(bob, &cursor), None);
        assert_eq!(to_since(ann_elsewhere, &cursor), None);
        assert_eq!(of_inbox(ANN, InboxFrom::Newest), None);
    }

    #[test]
    fn changed_cursors_are_refused() {
        let cursor = of_inbox(ANN, InboxFrom::Before(Arrival(7))).expect("a cursor");
        for at in 0..cursor.len() {
            let mut changed = cursor.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("still text");
            assert_eq!(to_before(ANN, &changed), None, "{changed}");
        }
    }
}
