//! What an address is, channel by channel: which texts are one, how it is written down, and by what it is known.
//!
//! What must never happen: an address that smuggles a line break into a mail header or a request; two spellings of one
//! mailbox or number that count as two addresses, so that it belongs to two users.

use crate::channel_kind::ChannelKind;
use crate::limits::ADDRESS_BYTES_MAX;

/// RFC 5321: the whole, the part before the `@`, and one label behind it.
pub const EMAIL_BYTES_MAX: usize = 254;
const EMAIL_LOCAL_BYTES_MAX: usize = 64;
const LABEL_BYTES_MAX: usize = 63;
/// E.164: country code included.
const PHONE_DIGITS: std::ops::RangeInclusive<usize> = 8..=15;
/// With separators.
pub const PHONE_BYTES_MAX: usize = 64;
const URL_BYTES_MAX: usize = 2_048;
pub const LOCALE_BYTES_MAX: usize = 35;

/// An address as it is sent to, and as it is told from others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    pub text: String,
    /// Equal for all spellings of the same address.
    pub identity: String,
}

/// Reads an address of a channel; the refusal says what is wrong, for the caller to read.
pub fn read(kind: ChannelKind, text: &str) -> Result<Address, &'static str> {
    match kind {
        ChannelKind::InApp => Err("in-app notifications need no address"),
        ChannelKind::Push => read_token(text),
        ChannelKind::Email => read_email(text),
        ChannelKind::Sms => read_phone(text),
        ChannelKind::Webhook => read_url(text),
    }
}

/// A token means something to its provider only: any printable text without spaces.
fn read_token(text: &str) -> Result<Address, &'static str> {
    if text.is_empty() {
        return Err("must not be empty");
    }
    if text.len() > ADDRESS_BYTES_MAX {
        return Err("must have at most 4096 bytes");
    }
    if text.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return Err("must not contain white space");
    }
    Ok(Address { text: text.to_owned(), identity: text.to_owned() })
}

/// Domains are written in lower case. The part before the `@` is kept as given, but known in lower case: no mail server
/// of today gives two people names that differ in case only.
fn read_email(text: &str) -> Result<Address, &'static str> {
    let wrong = Err("must be a mail address like ann@example.com");
    if text.len() > EMAIL_BYTES_MAX {
        return Err("must have at most 254 bytes");
    }
    let Some((local, domain)) = text.rsplit_once('@') else { return wrong };
    let atoms = local.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(is_atom));
    if !atoms || local.len() > EMAIL_LOCAL_BYTES_MAX || !is_domain(domain) {
        return wrong;
    }
    let domain = domain.to_ascii_lowercase();
    let identity = format!("{}@{domain}", local.to_ascii_lowercase());
    Ok(Address { text: format!("{local}@{domain}"), identity })
}

/// What RFC 5322 allows without quotes.
fn is_atom(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+/=?^_`{|}~-".contains(&byte)
}

/// At least two labels, the last of them not a number.
fn is_domain(domain: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = domain.rsplit('.').next().unwrap_or_default();
    domain.contains('.') && domain.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// `+`, then 8 to 15 digits of which the first is not zero. Separators that people write are dropped.
fn read_phone(text: &str) -> Result<Address, &'static str> {
    let wrong = Err("must be a number like +436601234567: a plus sign and 8 to 15 digits");
    if text.len() > PHONE_BYTES_MAX {
        return wrong;
    }
    let plain: String =
        text.chars().filter(|letter| !matches!(letter, ' ' | '-' | '.' | '(' | ')')).collect();
    let Some(digits) = plain.strip_prefix('+') else { return wrong };
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits || !PHONE_DIGITS.contains(&digits.len()) || digits.starts_with('0') {
        return wrong;
    }
    Ok(Address { identity: plain.clone(), text: plain })
}

/// An http or https URL. Whether the host may be called is decided when it is called: names can move.
fn read_url(text: &str) -> Result<Address, &'static str> {
    let wrong = Err("must be an http or https URL without user and fragment");
    if text.len() > URL_BYTES_MAX {
        return Err("must have at most 2048 bytes");
    }
    if text.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return Err("must not contain white space");
    }
    let Some((scheme, rest)) = text.split_once("://") else { return wrong };
    let scheme = scheme.to_ascii_lowercase();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let is_web = matches!(scheme.as_str(), "http" | "https");
    if !is_web || authority.is_empty() || authority.contains('@') || text.contains(['#', '\\']) {
        return wrong;
    }
    let text = format!("{scheme}://{}{path}", authority.to_ascii_lowercase());
    Ok(Address { identity: text.clone(), text })
}

/// Whether this looks like a language tag (BCP 47): `de`, `pt-BR`, `zh-Hant-TW`.
#[must_use]
pub fn is_locale(text: &str) -> bool {
    let mut parts = text.split('-');
    let language = parts.next().unwrap_or_default();
    (2..=3).contains(&language.len())
        && language.bytes().all(|byte| byte.is_ascii_alphabetic())
        && parts.all(|part| {
            (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
        && text.len() <= LOCALE_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use ChannelKind::{Email, Push, Sms, Webhook};

    fn check(kind: ChannelKind, text: &str, expected: Option<(&str, &str)>) {
        let found = read(kind, text).ok();
        let expected = expected.map(|(text, identity)| (text.to_owned(), identity.to_owned()));
        assert_eq!(found.map(|found| (found.text, found.identity)), expected, "{text:?}");
    }

    fn same(kind: ChannelKind, text: &str) {
        check(kind, text, Some((text, text)));
    }

    // proves: DEV-01
    #[test]
    fn mail_addresses() {
        same(Email, "ann@example.com");
        same(Email, "ann+tag_1.b@mail.example.co.uk");
        check(Email, "Ann.B@Example.COM", Some(("Ann.B@example.com", "ann.b@example.com")));
        let long_local = format!("{}@example.com", "a".repeat(65));
        let long = format!("a@{}.com", "b.".repeat(130));
        for bad in [
            "",
            "ann",
            "@example.com",
            "ann@",
            "ann@example",
            "ann@example.com\r\nBcc: all@example.com",
            "ann\n@example.com",
            "an n@example.com",
            ".ann@example.com",
            "ann..b@example.com",
            "ann@-example.com",
            "ann@example..com",
            "ann@127.0.0.1",
            "ann@[127.0.0.1]",
            "\"ann\"@example.com",
            "änn@example.com",
            long_local.as_str(),
            long.as_str(),
        ] {
            check(Email, bad, None);
        }
    }

    #[test]
    fn phone_numbers() {
        same(Sms, "+12025550123");
        check(Sms, "+43 (660) 123-45.67", Some(("+436601234567", "+436601234567")));
        let bad = [
            "",
            "+",
            "12025550123",
            "0043660123456",
            "+0123456789",
            "+1234567",
            "+1234567890123456",
            "+1202x550123",
        ];
        bad.iter().for_each(|bad| check(Sms, bad, None));
        let long = format!("+1202{}5550123", " ".repeat(PHONE_BYTES_MAX));
        check(Sms, &long, None);
        check(Sms, "+1202555\n0123", None);
    }

    #[test]
    fn tokens_and_urls() {
        same(Push, "stub:ok");
        same(Push, "{\"endpoint\":\"https://push.example/abc\"}");
        let longest = "x".repeat(ADDRESS_BYTES_MAX);
        same(Push, &longest);
        for bad in ["", "a b", "a\n", &format!("{longest}x")] {
            check(Push, bad, None);
        }
        same(Webhook, "https://example.com/hook?u=1");
        same(Webhook, "http://127.0.0.1:8080");
        check(
            Webhook,
            "HTTPS://Example.com/Hook",
            Some(("https://example.com/Hook", "https://example.com/Hook")),
        );
        for bad in ["", "example.com", "ftp://example.com", "https://", "https:///x", "https://u@example.com"]
        {
            check(Webhook, bad, None);
        }
        for bad in ["https://a.b/c d", "https://a.b/#x", "https://a.b\\c"] {
            check(Webhook, bad, None);
        }
        check(ChannelKind::InApp, "x", None);
    }

    #[test]
    fn locales() {
        for good in ["de", "pt-BR", "zh-Hant-TW", "sl-rozaj-1994"] {
            assert!(is_locale(good), "{good}");
        }
        for bad in ["", "d", "de_AT", "de-", "de-toolongpart", "123", "german", &"de-a".repeat(10)] {
            assert!(!is_locale(bad), "{bad}");
        }
    }
}
