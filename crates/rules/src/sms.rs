//! How a text message is cut into segments, which is what senders are limited by and what is paid for. GSM-7 if every
//! character is in the default alphabet or its extension table, else UCS-2. One segment holds 160 septets or 70 units; in
//! longer messages a header leaves 153 or 67 in each.
//!
//! What must never happen: a character that takes two (an escape and its letter, a surrogate pair) split between segments.

use std::borrow::Cow;

/// The default alphabet (3GPP 23.038) but for letters and digits.
const BASIC: &str = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./:;<=>?¡ÄÖÑÜ§¿äöñüà";
/// These cost an escape as well.
const EXTENSION: &str = "\u{c}^{}\\[~]|€";

/// What word processors and phones write where the alphabet has something plainer. An empty replacement drops it.
const PLAINER: &[(&str, &str)] = &[
    ("\u{2018}\u{2019}\u{201a}\u{201b}\u{2032}\u{2039}\u{203a}\u{2bc}\u{b4}`", "'"),
    ("\u{201c}\u{201d}\u{201e}\u{201f}\u{2033}\u{ab}\u{bb}", "\""),
    ("\u{2010}\u{2011}\u{2012}\u{2013}\u{2014}\u{2015}\u{2212}", "-"),
    ("\u{2022}\u{2023}\u{25cf}\u{b7}", "*"),
    ("\u{2026}", "..."),
    ("\u{a0}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\u{200a}\u{202f}\u{3000}\t", " "),
    ("\u{2028}\u{2029}", "\n"),
    ("\u{ad}\u{200b}\u{2060}\u{feff}", ""),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    Gsm7,
    Ucs2,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segments {
    pub encoding: Encoding,
    /// Septets or 16-bit units of the text.
    pub units: usize,
    pub segments: usize,
    /// What one segment of this message holds.
    pub units_per_segment: usize,
}

/// An empty text takes one segment.
#[must_use]
pub fn segments(text: &str) -> Segments {
    let encoding = encoding(text);
    let (cost, single, multiple): (fn(char) -> usize, _, _) = match encoding {
        Encoding::Gsm7 => (|letter| septets(letter).unwrap_or(1), 160, 153),
        Encoding::Ucs2 => (char::len_utf16, 70, 67),
    };
    let units = text.chars().map(cost).sum();
    if units <= single {
        return Segments { encoding, units, segments: 1, units_per_segment: single };
    }
    let (mut segments, mut used) = (1, 0);
    for cost in text.chars().map(cost) {
        if used + cost > multiple {
            segments += 1;
            used = 0;
        }
        used += cost;
    }
    Segments { encoding, units, segments, units_per_segment: multiple }
}

/// The text with typographic characters made plain, if then all of it is GSM-7 and no longer: one curly apostrophe more than halves what
/// a segment holds. Whatever needs UCS-2 all the same stays as it is.
#[must_use]
pub fn plainer(text: &str) -> Cow<'_, str> {
    if encoding(text) == Encoding::Gsm7 {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match PLAINER.iter().find(|(letters, _)| letters.contains(letter)) {
            Some((_, replacement)) => plain.push_str(replacement),
            None => plain.push(letter),
        }
    }
    match encoding(&plain) {
        Encoding::Gsm7 if segments(&plain).segments <= segments(text).segments => Cow::Owned(plain),
        // Three dots for an ellipsis may cost more than they save.
        Encoding::Gsm7 | Encoding::Ucs2 => Cow::Borrowed(text),
    }
}

fn encoding(text: &str) -> Encoding {
    if text.chars().all(|letter| septets(letter).is_some()) { Encoding::Gsm7 } else { Encoding::Ucs2 }
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
    use Encoding::{Gsm7, Ucs2};
    use proptest::prelude::*;

    fn check(text: &str, encoding: Encoding, units: usize, count: usize) {
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
        // Characters of the extension table take one unit like any other once the text is UCS-2.
        check("€я", Ucs2, 2, 1);
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
        for (letters, replacement) in PLAINER {
            assert!(letters.chars().all(|letter| septets(letter).is_none()), "{letters} need no replacement");
            assert_eq!(encoding(replacement), Gsm7, "{replacement}");
        }
    }

    #[test]
    fn typography_is_made_plain_only_if_that_helps() {
        for (text, expected) in [
            ("It\u{2019}s \u{201c}here\u{201d}\u{2026}", "It's \"here\"..."),
            ("5\u{a0}km \u{2013} 6\u{202f}km", "5 km - 6 km"),
            ("soft\u{ad}ware", "software"),
            ("plain 'text' €", "plain 'text' €"),
            ("It\u{2019}s 😀", "It\u{2019}s 😀"),
            ("\u{2019}я", "\u{2019}я"),
            (&"\u{2026}".repeat(70), &"\u{2026}".repeat(70)),
        ] {
            assert_eq!(plainer(text), expected, "{text}");
        }
    }

    /// The same by cutting: segments are filled one after the other, each as far as it goes.
    fn cut(text: &str) -> usize {
        let found = segments(text);
        let costs: Vec<usize> = text
            .chars()
            .map(|letter| match found.encoding {
                Gsm7 => 1 + usize::from(EXTENSION.contains(letter)),
                Ucs2 => letter.len_utf16(),
            })
            .collect();
        let mut rest = &costs[..];
        let mut count = 0;
        while !rest.is_empty() {
            let fits = (0..=rest.len())
                .rev()
                .find(|end| rest[..*end].iter().sum::<usize>() <= found.units_per_segment);
            rest = &rest[fits.unwrap_or(1)..];
            count += 1;
        }
        count.max(1)
    }

    proptest! {
        #[test]
        fn counting_is_cutting(text in "[a-z€^|я😀\u{2019} ]{0,400}") {
            let found = segments(&text);
            prop_assert_eq!(found.segments, cut(&text));
            prop_assert!(found.segments * found.units_per_segment >= found.units);
            prop_assert_eq!(found.segments == 1, found.units <= match found.encoding { Gsm7 => 160, Ucs2 => 70 });
        }

        #[test]
        fn segments_hold_the_text(text in ".{0,400}") {
            let counted = segments(&text);
            prop_assert!(counted.units <= counted.segments * counted.units_per_segment);
            // At most one unit of each segment but the last is left free.
            let least = (counted.segments - 1) * (counted.units_per_segment - 1);
            prop_assert!(counted.segments == 1 || counted.units > least);
        }

        #[test]
        fn any_text_has_segments_and_more_text_never_has_fewer(text: String, more: String) {
            let both = format!("{text}{more}");
            prop_assert!(segments(&both).segments >= segments(&text).segments);
        }

        #[test]
        fn plainer_texts_never_cost_more(text in "[a-z\u{2019}\u{2026}\u{a0}😀]{0,200}") {
            let plain = plainer(&text);
            prop_assert!(plain == text || segments(&plain).encoding == Gsm7);
            prop_assert!(segments(&plain).segments <= segments(&text).segments);
        }
    }
}
