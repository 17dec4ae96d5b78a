//! Links of a mail that lead through us, so that a click is told of, and the picture by which an opened mail shows.
//!
//! ```text
//! click = {base}/t/c/{reference}/{url, base64url without padding}/{seal}
//! open  = {base}/t/o/{reference}.gif
//! seal  = base32 (Crockford, lower case) of SipHash-2-4 of "click", 0, reference, 0, url, under the key for links
//! ```
//! What must never happen: a link of ours that leads where no mail of ours led. What somebody made up has no seal.

use crate::reference::{base32, siphash};

/// Longer ones stay as they are: mail programs cut long lines.
pub const TRACKED_URL_BYTES_MAX: usize = 2_048;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Where a link leads instead. `None` for what is not tracked: other schemes, very long ones, and those with white space.
#[must_use]
pub fn click(base_url: &str, reference: &str, url: &str, key: &[u8; 16]) -> Option<String> {
    is_trackable(url).then(|| {
        format!("{base_url}/t/c/{reference}/{}/{}", base64url(url.as_bytes()), seal(reference, url, key))
    })
}

/// The picture of one delivery.
#[must_use]
pub fn open(base_url: &str, reference: &str) -> String {
    format!("{base_url}/t/o/{reference}.gif")
}

/// The URL behind the last two parts of a click's path; `None` if it was not sealed by us for this delivery.
#[must_use]
pub fn target(reference: &str, url: &str, sealed: &str, key: &[u8; 16]) -> Option<String> {
    if url.len() > TRACKED_URL_BYTES_MAX * 4 / 3 + 1 {
        return None;
    }
    let url = String::from_utf8(unbase64url(url)?).ok()?;
    let expected = seal(reference, &url, key);
    let differs = expected.bytes().zip(sealed.bytes()).fold(0, |all, (one, other)| all | (one ^ other)) != 0;
    (!differs && expected.len() == sealed.len() && is_trackable(&url)).then_some(url)
}

/// A target as a `Location` has it: in ASCII. Whatever is not is written as the percent-encoded bytes of its UTF-8 (RFC 3987, 3.1).
#[must_use]
pub fn location(target: &str) -> String {
    let mut text = String::with_capacity(target.len());
    for byte in target.bytes() {
        match byte {
            b'!'..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn is_trackable(url: &str) -> bool {
    let is_web = ["http://", "https://"].iter().any(|scheme| {
        url.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
            && url.len() > scheme.len()
    });
    let is_plain = !url.chars().any(|letter| letter.is_control() || letter.is_whitespace() || letter == '\\');
    is_web && is_plain && url.len() <= TRACKED_URL_BYTES_MAX
}

fn seal(reference: &str, url: &str, key: &[u8; 16]) -> String {
    let sealed = [b"click".as_slice(), reference.as_bytes(), url.as_bytes()].join(&0);
    base32(&siphash(key, &sealed).to_le_bytes())
}

fn base64url(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + 3);
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..=chunk.len() {
            text.push(char::from(LETTERS[(bits >> (18 - 6 * place)) as usize & 63]));
        }
    }
    text
}

/// `None` for everything that `base64url` does not write.
fn unbase64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in text.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for place in 0..4 {
            let value = match chunk.get(place) {
                Some(letter) => LETTERS.iter().position(|known| known == letter)?,
                None => 0,
            };
            bits = bits << 6 | value as u32;
        }
        let three = bits.to_be_bytes();
        let length = chunk.len().checked_sub(1).filter(|length| *length > 0)?;
        bytes.extend_from_slice(&three[1..=length]);
    }
    (base64url(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: [u8; 16] = [7; 16];
    const BASE: &str = "https://notify.example.com";

    fn parts(link: &str) -> (String, String) {
        let mut parts = link.strip_prefix("https://notify.example.com/t/c/r1/").expect("a click").split('/');
        let mut next = || parts.next().expect("a part").to_owned();
        (next(), next())
    }

    // proves: EML-04
    #[test]
    fn links_are_frozen_and_lead_back() {
        let link = click(BASE, "r1", "https://shop.example/a?b=1&c=ü", &KEY).expect("a link");
        let frozen =
            "https://notify.example.com/t/c/r1/aHR0cHM6Ly9zaG9wLmV4YW1wbGUvYT9iPTEmYz3DvA/hwymvmx7214ra";
        assert_eq!(link, frozen);
        let (url, sealed) = parts(&link);
        assert_eq!(sealed.len(), 13);
        assert_eq!(target("r1", &url, &sealed, &KEY).as_deref(), Some("https://shop.example/a?b=1&c=ü"));
        assert_eq!(open(BASE, "r1"), "https://notify.example.com/t/o/r1.gif");
    }

    // proves: EML-04
    #[test]
    fn nobody_else_makes_a_link() {
        let (url, sealed) = parts(&click(BASE, "r1", "https://shop.example/", &KEY).expect("a link"));
        let other = base64url(b"https://evil.example/");
        for (reference, url, sealed, key) in [
            ("r2", url.as_str(), sealed.as_str(), KEY),
            ("r1", other.as_str(), sealed.as_str(), KEY),
            ("r1", url.as_str(), sealed.as_str(), [8; 16]),
            ("r1", url.as_str(), "", KEY),
            ("r1", url.as_str(), &sealed[1..], KEY),
            ("r1", "", sealed.as_str(), KEY),
        ] {
            assert_eq!(target(reference, url, sealed, &key), None, "{reference} {url} {sealed}");
        }
    }

    // fixes: security L13
    #[test]
    fn locations_are_ascii() {
        for (target, expected) in [
            ("https://shop.example/a?b=1&c=%C3%BC#d", "https://shop.example/a?b=1&c=%C3%BC#d"),
            ("https://shop.example/a?b=1&c=ü", "https://shop.example/a?b=1&c=%C3%BC"),
            ("https://bücher.example/東京", "https://b%C3%BCcher.example/%E6%9D%B1%E4%BA%AC"),
            ("https://shop.example/a\r\nb c", "https://shop.example/a%0D%0Ab%20c"),
        ] {
            assert_eq!(location(target), expected);
        }
    }

    #[test]
    fn only_links_of_the_web_are_tracked() {
        let long = format!("https://shop.example/{}", "a".repeat(TRACKED_URL_BYTES_MAX));
        let other = ["mailto:a@b.example", "tel:+43", "#top", "", "https://", "javascript:x", "/a", &long];
        for url in other.into_iter().chain(["https://a b", "https://a\nb", "https://a\\b"]) {
            assert_eq!(click(BASE, "r1", url, &KEY), None, "{url}");
        }
        assert!(click(BASE, "r1", "HTTP://shop.example", &KEY).is_some());
    }

    proptest! {
        #[test]
        fn every_url_comes_back(path in "[ -~]{0,200}", reference in "[0-9a-z]{1,38}") {
            let url = format!("https://shop.example/{path}");
            if let Some(link) = click(BASE, &reference, &url, &KEY) {
                let rest = link.strip_prefix(&format!("{BASE}/t/c/{reference}/")).expect("a click");
                let (text, sealed) = rest.split_once('/').expect("two parts");
                prop_assert_eq!(target(&reference, text, sealed, &KEY), Some(url));
            }
        }

        #[test]
        fn any_text_is_refused_or_read(url in "[ -~]{0,80}", sealed in "[0-9a-z]{0,20}") {
            prop_assert_eq!(target("r1", &url, &sealed, &KEY), None);
            prop_assert!(location(&url).bytes().all(|byte| byte.is_ascii_graphic()));
        }

        #[test]
        fn bytes_have_one_text(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            prop_assert_eq!(unbase64url(&base64url(&bytes)), Some(bytes));
        }
    }
}
