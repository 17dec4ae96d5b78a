//! How many segments a text message takes. GSM-7 if every character is in the default alphabet or its extension table,
//! else UCS-2. One segment holds 160 septets or 70 units; in longer messages a header leaves 153 or 67 in each. A
//! character that takes two is never split between segments.

use fantail_wire::template::SmsEncoding;

/// The default alphabet (3GPP 23.038) but for letters and digits.
const BASIC: &str = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./:;<=>?¡ÄÖÑÜ§¿äöñüà";
/// These cost an escape as well.
const EXTENSION: &str = "\u{c}^{}\\[~]|€";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segments {
    pub encoding: SmsEncoding,
    /// Septets or 16-bit units of the text.
    pub units: usize,
    pub segments: usize,
    /// What one segment of this message holds.
    pub units_per_segment: usize,
}

/// An empty text takes one segment.
#[must_use]
pub fn segments(text: &str) -> Segments {
    let septets: Option<Vec<usize>> = text.chars().map(septets).collect();
    let (encoding, costs, single, multiple) = match septets {
        Some(costs) => (SmsEncoding::Gsm7, costs, 160, 153),
        None => (SmsEncoding::Ucs2, text.chars().map(char::len_utf16).collect(), 70, 67),
    };
    let units = costs.iter().sum();
    if units <= single {
        return Segments { encoding, units, segments: 1, units_per_segment: single };
    }
    let (mut segments, mut used) = (1, 0);
    for cost in costs {
        if used + cost > multiple {
            segments += 1;
            used = 0;
        }
        used += cost;
    }
    Segments { encoding, units, segments, units_per_segment: multiple }
}

fn septets(letter: char) -> Option<usize> {
    if letter.is_ascii_alphanumeric() || BASIC.contains(letter) {
        return Some(1);
    }
    EXTENSION.contains(letter).then_some(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use SmsEncoding::{Gsm7, Ucs2};

    fn check(text: &str, encoding: SmsEncoding, units: usize, count: usize) {
        let found = segments(text);
        let shown: String = text.chars().take(20).collect();
        assert_eq!((found.encoding, found.units, found.segments), (encoding, units, count), "{shown}");
    }

    // proves: SMS-02
    #[test]
    fn segments_by_length_and_alphabet() {
        check("", Gsm7, 0, 1);
        check(&"a".repeat(160), Gsm7, 160, 1);
        check(&"a".repeat(161), Gsm7, 161, 2);
        check(&"a".repeat(306), Gsm7, 306, 2);
        check(&"a".repeat(307), Gsm7, 307, 3);
        check(&"€".repeat(80), Gsm7, 160, 1);
        check(&"€".repeat(81), Gsm7, 162, 2);
        check(&"я".repeat(70), Ucs2, 70, 1);
        check(&"я".repeat(71), Ucs2, 71, 2);
        check(&"я".repeat(134), Ucs2, 134, 2);
        check(&"я".repeat(135), Ucs2, 135, 3);
        check(&"😀".repeat(35), Ucs2, 70, 1);
        check(&"😀".repeat(36), Ucs2, 72, 2);
        check("It\u{2019}s", Ucs2, 4, 1);
        check("ç", Ucs2, 1, 1);
        check("Ç", Gsm7, 1, 1);
        check("`", Ucs2, 1, 1);
        check("\t", Ucs2, 1, 1);
    }

    #[test]
    fn characters_of_two_units_are_not_split() {
        // 66 + 2 does not fit into 67: the emoji begins the second segment.
        check(&format!("{}😀{}", "я".repeat(66), "я".repeat(10)), Ucs2, 78, 2);
        // 33 emoji fill 66 units of each segment; 67 of them need three.
        check(&"😀".repeat(66), Ucs2, 132, 2);
        check(&"😀".repeat(67), Ucs2, 134, 3);
        // 152 + 2 does not fit into 153.
        check(&format!("{}€{}", "a".repeat(152), "a".repeat(151)), Gsm7, 305, 2);
        check(&format!("{}€{}", "a".repeat(152), "a".repeat(152)), Gsm7, 306, 3);
    }

    #[test]
    fn the_tables_are_whole() {
        assert_eq!(BASIC.chars().count() + 26 + 26 + 10, 127, "128 places but for the escape");
        assert_eq!(EXTENSION.chars().count(), 10);
        for letter in EXTENSION.chars() {
            check(&letter.to_string(), Gsm7, 2, 1);
        }
        for letter in BASIC.chars() {
            check(&letter.to_string(), Gsm7, 1, 1);
        }
    }
}
