//! What a new name may look like: an id of a user, a device, a notification, a topic.
//!
//! Two names that look alike are one name to people, and a name that looks like nothing cannot be found in a log. So what
//! is invisible, and what turns the text around it, is in no new name. Names that exist are read as they are.

/// Why something is no name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameFault {
    Control,
    /// `.` and `..` are steps in a path: clients and proxies take them out of a URL.
    Dots,
    /// White space at an end, or nothing but white space.
    Blank,
    /// A character that is invisible, or that changes how the others are shown.
    Invisible(char),
}

/// Ranges of characters that show nothing, or that only change how others are shown: format characters, default ignorables,
/// variation selectors, blanks that look like nothing and white space other than the space. Ascending.
const INVISIBLE: [(u32, u32); 36] = [
    (0x00a0, 0x00a0),
    (0x00ad, 0x00ad),
    (0x034f, 0x034f),
    (0x0600, 0x0605),
    (0x061c, 0x061c),
    (0x06dd, 0x06dd),
    (0x070f, 0x070f),
    (0x0890, 0x0891),
    (0x08e2, 0x08e2),
    (0x115f, 0x1160),
    (0x1680, 0x1680),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    // Zero-width characters, marks of direction, and spaces of all widths.
    (0x2000, 0x200f),
    // Separators of lines, embeddings and overrides of direction, a narrow space.
    (0x2028, 0x202f),
    (0x205f, 0x206f),
    (0x2800, 0x2800),
    (0x3000, 0x3000),
    (0x3164, 0x3164),
    // Characters for private use, which each font shows as it likes, and those that are none.
    (0xe000, 0xf8ff),
    (0xfdd0, 0xfdef),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffb),
    (0xfffe, 0xffff),
    (0x110bd, 0x110bd),
    (0x110cd, 0x110cd),
    (0x13430, 0x1343f),
    (0x1bca0, 0x1bca3),
    (0x1d173, 0x1d17a),
    (0x1fffe, 0x1ffff),
    (0xe0000, 0xe0fff),
    (0xf0000, 0xffffd),
    (0xffffe, 0xfffff),
    (0x100000, 0x10ffff),
];

/// The ranges that are in no new name, ascending.
#[must_use]
pub fn invisible() -> &'static [(u32, u32)] {
    &INVISIBLE
}

/// What is wrong with a new name, if anything. Its length is checked elsewhere.
#[must_use]
pub fn fault(name: &str) -> Option<NameFault> {
    // Nearly every name has only these, which are neither control characters nor invisible: one look at each byte.
    let is_plain = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let strange = |letter: &char| letter.is_control() || is_invisible(*letter);
    if !is_plain && let Some(letter) = name.chars().find(strange) {
        return Some(if letter.is_control() { NameFault::Control } else { NameFault::Invisible(letter) });
    }
    if name.starts_with(' ') || name.ends_with(' ') {
        return Some(NameFault::Blank);
    }
    matches!(name, "." | "..").then_some(NameFault::Dots)
}

fn is_invisible(letter: char) -> bool {
    let code = u32::from(letter);
    INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_plain_letter_is_invisible() {
        assert!((' '..='~').all(|letter| !letter.is_control() && !is_invisible(letter)));
    }

    // fixes: usability C14
    #[test]
    fn what_cannot_be_seen_is_in_no_new_name() {
        for good in ["a", "urn:user:1", "Ånn & co / 7", "a b", "...", "..a", "%zz", "李", "שלום", "🎉", "é"]
        {
            assert_eq!(fault(good), None, "{good}");
        }
        for (bad, expected) in [
            (".", NameFault::Dots),
            ("..", NameFault::Dots),
            (" ", NameFault::Blank),
            ("   ", NameFault::Blank),
            (" ann", NameFault::Blank),
            ("ann ", NameFault::Blank),
            ("a\nb", NameFault::Control),
            ("a\u{85}b", NameFault::Control),
            ("a\u{202e}b", NameFault::Invisible('\u{202e}')),
            ("a\u{2066}b", NameFault::Invisible('\u{2066}')),
            ("a\u{200b}b", NameFault::Invisible('\u{200b}')),
            ("a\u{200d}b", NameFault::Invisible('\u{200d}')),
            ("\u{feff}a", NameFault::Invisible('\u{feff}')),
            ("a\u{ad}b", NameFault::Invisible('\u{ad}')),
            ("\u{a0}", NameFault::Invisible('\u{a0}')),
            ("\u{3164}", NameFault::Invisible('\u{3164}')),
            ("a\u{fe0f}", NameFault::Invisible('\u{fe0f}')),
            ("a\u{e0041}", NameFault::Invisible('\u{e0041}')),
            ("a\u{2028}b", NameFault::Invisible('\u{2028}')),
        ] {
            assert_eq!(fault(bad), Some(expected), "{bad:?}");
        }
    }

    proptest! {
        // fixes: usability C14
        /// A name without a fault is the same to people and to programs: nothing goes when it is trimmed, and no letter of
        /// it is white space but the plain one.
        #[test]
        fn what_is_left_is_seen(name in "\\PC{1,40}|[ .\\u{200b}\\u{202e}a-z]{1,6}") {
            if fault(&name).is_none() {
                prop_assert_eq!(name.trim(), &name);
                prop_assert!(name.chars().all(|letter| letter == ' ' || !letter.is_whitespace()));
                prop_assert!(name != "." && name != "..");
            }
        }

        /// One such letter anywhere is enough.
        #[test]
        fn an_invisible_letter_is_found_anywhere(before in "[a-z]{0,9}", after in "[a-z]{0,9}", pick in 0..INVISIBLE.len()) {
            let letter = char::from_u32(INVISIBLE[pick].0);
            if let Some(letter) = letter {
                let name = format!("{before}{letter}{after}");
                prop_assert_eq!(fault(&name), Some(NameFault::Invisible(letter)));
            }
        }
    }
}
