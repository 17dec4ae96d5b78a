//! The form of a mail (RFC 5322, 2045): headers in a fixed order, then a text, or a text and a page of which the reader's
//! program shows one.
//!
//! What must never happen: a part whose content looks like a boundary. Neither of our encodings can write `=_`.

use super::encode::Encoding;
use fantail_rules::ids::Millis;
use std::time::{Duration, SystemTime};

/// A header: its value may be folded, and ends without a line break.
pub type Header = (&'static str, String);

const BOUNDARY: &str = "=_fantail";

/// What stands below the headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    /// Of the whole mail.
    pub content_type: String,
    pub transfer_encoding: &'static str,
    pub bytes: Vec<u8>,
}

impl Body {
    #[must_use]
    pub fn text(text: &str) -> Self {
        let encoding = Encoding::of(text);
        let mut bytes = Vec::new();
        encoding.write(&mut bytes, text);
        let content_type = "text/plain; charset=utf-8".to_owned();
        Self { content_type, transfer_encoding: encoding.name(), bytes }
    }

    #[must_use]
    pub fn alternatives(text: &EncodedPart, html: &EncodedPart) -> Self {
        let mut bytes = Vec::with_capacity(text.0.len() + html.0.len() + 64);
        for part in [text, html] {
            bytes.extend_from_slice(format!("--{BOUNDARY}\r\n").as_bytes());
            bytes.extend_from_slice(&part.0);
        }
        bytes.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        let content_type = format!("multipart/alternative; boundary=\"{BOUNDARY}\"");
        Self { content_type, transfer_encoding: "7bit", bytes }
    }
}

/// One of the alternatives, as it goes out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodedPart(Vec<u8>);

impl EncodedPart {
    /// `kind` is `plain` or `html`.
    #[must_use]
    pub fn new(kind: &str, text: &str) -> Self {
        let encoding = Encoding::of(text);
        let head = format!(
            "Content-Type: text/{kind}; charset=utf-8\r\nContent-Transfer-Encoding: {}\r\n\r\n",
            encoding.name()
        );
        let mut bytes = head.into_bytes();
        encoding.write(&mut bytes, text);
        Self(bytes)
    }
}

/// `Mon, 16 Nov 2026 08:30:00 +0000`.
#[must_use]
pub fn date(at: Millis) -> String {
    let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(at.0 / 1_000));
    date.replace("GMT", "+0000")
}

/// All of it.
#[must_use]
pub fn write(headers: &[Header], body: &[u8]) -> Vec<u8> {
    let length: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let mut bytes = Vec::with_capacity(length + 2 + body.len());
    for (name, value) in headers {
        for part in [name.as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_mail() {
        assert_eq!(date(Millis(1_794_817_800_000)), "Mon, 16 Nov 2026 08:30:00 +0000");
    }

    #[test]
    fn alternatives_have_their_boundaries() {
        let body =
            Body::alternatives(&EncodedPart::new("plain", "a =_ b"), &EncodedPart::new("html", "<p>Ж</p>"));
        assert_eq!(
            String::from_utf8(body.bytes).expect("ASCII"),
            "--=_fantail\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\
             \r\na =3D_ b\r\n\
             --=_fantail\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\
             \r\nPHA+0JY8L3A+\r\n\
             --=_fantail--\r\n"
        );
    }
}
