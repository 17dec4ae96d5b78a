//! Texts as mail carries them: seven bits, short lines, and nothing in a header that could end it.
//!
//! What must never happen: a bare CR or LF, a line of more than 76 characters in a body, a control character in a header. Seven
//! bits everywhere, because a relay that has to encode a body anew breaks its signature.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// How a body is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    QuotedPrintable,
    Base64,
}

impl Encoding {
    /// The shorter one, roughly: every byte beyond ASCII takes three characters in the first, four thirds in the other.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let beyond = text.bytes().filter(|byte| !byte.is_ascii()).count();
        if beyond * 6 > text.len() { Self::Base64 } else { Self::QuotedPrintable }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::QuotedPrintable => "quoted-printable",
            Self::Base64 => "base64",
        }
    }

    /// Ends with a line break unless it is empty.
    pub fn write(self, out: &mut Vec<u8>, text: &str) {
        match self {
            Self::QuotedPrintable => quoted_printable(out, text),
            Self::Base64 => base64_lines(out, text),
        }
    }
}

const LINE_MAX: usize = 76;
const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn quoted_printable(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + text.len() / 16 + 16);
    for line in lines(text) {
        let bytes = line.as_bytes();
        let mut width = 0;
        for (place, byte) in bytes.iter().enumerate() {
            let is_last = place + 1 == bytes.len();
            let is_plain = match byte {
                b'=' => false,
                b' ' | b'\t' => !is_last,
                _ => byte.is_ascii_graphic(),
            };
            let length = if is_plain { 1 } else { 3 };
            // Room for the `=` that says that the line goes on.
            if width + length > LINE_MAX - usize::from(!is_last) {
                out.extend_from_slice(b"=\r\n");
                width = 0;
            }
            width += length;
            if is_plain {
                out.push(*byte);
            } else {
                out.extend_from_slice(&[b'=', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn base64_lines(out: &mut Vec<u8>, text: &str) {
    let normal = lines(text).collect::<Vec<_>>().join("\r\n");
    let encoded = STANDARD.encode(normal);
    for line in encoded.as_bytes().chunks(LINE_MAX) {
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
    }
}

/// By any of the line breaks that people use.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(place) = text.find(['\r', '\n']) else {
            rest = None;
            return Some(text);
        };
        let behind = &text[place..];
        rest = Some(behind.strip_prefix("\r\n").unwrap_or(&behind[1..]));
        Some(&text[..place])
    })
}

/// The value of an unstructured header, without name and line break, folded so that no line is long. `used` is what stands
/// before it on its line.
#[must_use]
pub fn header_text(text: &str, used: usize) -> String {
    let clean: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let clean = clean.trim();
    let is_plain = clean.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
        && !clean.contains("=?")
        && !clean.contains("  ")
        && clean.split(' ').all(|word| word.len() < LINE_MAX - used.min(LINE_MAX - 1));
    if is_plain { folded(clean, used) } else { encoded_words(clean, used) }
}

fn folded(text: &str, used: usize) -> String {
    let mut value = String::with_capacity(text.len() + 8);
    let mut width = used;
    for (no, word) in text.split(' ').enumerate() {
        if no > 0 {
            if width + 1 + word.len() > LINE_MAX {
                value.push_str("\r\n");
                width = 0;
            }
            value.push(' ');
            width += 1;
        }
        value.push_str(word);
        width += word.len();
    }
    value
}

/// RFC 2047: each at most 75 characters, and none ends inside a letter.
fn encoded_words(text: &str, used: usize) -> String {
    const FRAME: usize = "=?utf-8?B??=".len();
    let mut value = String::new();
    let mut rest = text;
    let mut width = used;
    while !rest.is_empty() {
        if !value.is_empty() {
            value.push_str("\r\n ");
            width = 1;
        }
        let room = (LINE_MAX - 1).saturating_sub(width + FRAME).max(8) / 4 * 3;
        let end = rest.floor_char_boundary(room.min(rest.len()));
        let (word, behind) = rest.split_at(end.max(rest.chars().next().map_or(0, char::len_utf8)));
        value.push_str(&format!("=?utf-8?B?{}?=", STANDARD.encode(word)));
        rest = behind;
    }
    value
}

/// A name and an address. The address was checked: it is ASCII without anything that would need quotes.
#[must_use]
pub fn mailbox(name: Option<&str>, address: &str, used: usize) -> String {
    let Some(name) = name.filter(|name| !name.trim().is_empty()) else { return address.to_owned() };
    let is_atom = |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~ ".contains(letter);
    let is_plain =
        name.chars().all(is_atom) && !name.contains("=?") && !name.contains("  ") && name.trim() == name;
    let words = if is_plain && used + name.len() < LINE_MAX {
        name.to_owned()
    } else {
        let clean: String =
            name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        encoded_words(clean.trim(), used)
    };
    let last = words.rsplit_once("\r\n").map_or(used + words.len(), |(_, last)| last.len());
    let gap = if last + address.len() + 3 > LINE_MAX { "\r\n " } else { " " };
    format!("{words}{gap}<{address}>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(encoding: Encoding, text: &str, expected: &str) {
        let mut out = Vec::new();
        encoding.write(&mut out, text);
        assert_eq!(String::from_utf8(out).expect("ASCII"), expected, "{text:?}");
    }

    #[test]
    fn bodies_are_seven_bits_and_short_lines() {
        check(Encoding::QuotedPrintable, "a = ü\nend ", "a =3D =C3=BC\r\nend=20\r\n");
        check(Encoding::QuotedPrintable, "a\rb\r\nc\n", "a\r\nb\r\nc\r\n\r\n");
        let long = "x".repeat(80);
        check(Encoding::QuotedPrintable, &long, &format!("{}=\r\nxxxxx\r\n", "x".repeat(75)));
        check(Encoding::QuotedPrintable, &"x".repeat(76), &format!("{}\r\n", "x".repeat(76)));
        check(Encoding::Base64, "Привет", "0J/RgNC40LLQtdGC\r\n");
        assert_eq!(Encoding::of("Grüße aus Wien, und alles Gute zum neuen Jahr"), Encoding::QuotedPrintable);
        assert_eq!(Encoding::of("Привет"), Encoding::Base64);
    }

    #[test]
    fn headers_stay_what_they_are() {
        assert_eq!(header_text("Your order", 9), "Your order");
        assert_eq!(header_text("Grüße", 9), "=?utf-8?B?R3LDvMOfZQ==?=");
        assert_eq!(header_text("a\r\nBcc: b@c.example", 9), "=?utf-8?B?YSAgQmNjOiBiQGMuZXhhbXBsZQ==?=");
        assert_eq!(header_text("=?utf-8?B?eA==?=", 9), "=?utf-8?B?PT91dGYtOD9CP2VBPT0/PQ==?=");
        assert_eq!(header_text("", 9), "");
        assert_eq!(mailbox(None, "a@b.example", 6), "a@b.example");
        assert_eq!(mailbox(Some("Shop 24"), "a@b.example", 6), "Shop 24 <a@b.example>");
        assert_eq!(
            mailbox(Some("Shop, Inc."), "a@b.example", 6),
            "=?utf-8?B?U2hvcCwgSW5jLg==?= <a@b.example>"
        );
    }

    // fixes: interop small
    #[test]
    fn a_sender_with_an_encoded_name_keeps_to_76_characters() {
        for letters in 1..80 {
            for letter in ["ü", "x", "Ж"] {
                let name = letter.repeat(letters);
                for address in ["a@b.example", "notifications@mail.shop.example"] {
                    let line = format!("From: {}", mailbox(Some(&name), address, "From: ".len()));
                    for line in line.split("\r\n") {
                        assert!(line.len() <= LINE_MAX, "{} characters: {line}", line.len());
                    }
                }
            }
        }
    }

    fn quoted_printable_decoded(bytes: &[u8]) -> Vec<u8> {
        let text = std::str::from_utf8(bytes).expect("ASCII").replace("=\r\n", "");
        let mut plain = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((first, tail)) = rest.split_first() {
            if *first == b'=' {
                let digits = std::str::from_utf8(&tail[..2]).expect("digits");
                plain.push(u8::from_str_radix(digits, 16).expect("digits"));
                rest = &tail[2..];
            } else {
                plain.push(*first);
                rest = tail;
            }
        }
        plain
    }

    proptest! {
        #[test]
        fn quoted_printable_is_read_back(text in "[ -~üЖ\t\r\n😀]{0,200}") {
            let mut out = Vec::new();
            quoted_printable(&mut out, &text);
            for line in out.split(|byte| *byte == b'\n') {
                prop_assert!(line.len() <= LINE_MAX + 1 && line.is_ascii());
                prop_assert!(!matches!(line.strip_suffix(b"\r").and_then(<[u8]>::last), Some(b' ' | b'\t')));
            }
            let normal = lines(&text).collect::<Vec<_>>().join("\r\n") + "\r\n";
            prop_assert_eq!(quoted_printable_decoded(&out), normal.into_bytes());
        }

        #[test]
        fn no_header_ends_early(text in any::<String>(), used in 0usize..40) {
            for value in [header_text(&text, used), mailbox(Some(&text), "a@b.example", used)] {
                prop_assert!(value.is_ascii());
                for (no, line) in value.split("\r\n").enumerate() {
                    prop_assert!(no == 0 || line.starts_with(' '));
                    prop_assert!(no == 0 || !line.trim().is_empty());
                    prop_assert!(!line.contains(['\r', '\n']) && line.len() <= 100);
                }
            }
        }
    }
}
