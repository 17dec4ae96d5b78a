//! A URL, read so strictly that no two readers could disagree about its host.
//!
//! What must never happen: a host that we take for a name and the resolver for a number (`0x7f.1`, `2130706433`,
//! `0177.0.0.1`), or a part before an `@` that looks like the host. There is no repair: what is unusual is refused, and
//! whoever registered the URL can write it plainly. Names outside ASCII are written in punycode.

use hyper::http::uri::PathAndQuery;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scheme {
    Https,
    Http,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Host {
    Address(IpAddr),
    /// Lower case.
    Name(String),
}

/// What connections are shared by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Origin {
    pub scheme: Scheme,
    pub host: Host,
    pub port: u16,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    pub origin: Origin,
    pub path: PathAndQuery,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UrlError {
    #[error("the URL is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    #[error("the URL holds a character that must be encoded")]
    BadCharacter,
    #[error("the URL does not begin with https:// or http://")]
    BadScheme,
    #[error("the URL names a user or password: use a header")]
    HasUser,
    #[error("the URL has a fragment")]
    HasFragment,
    #[error("the host of the URL is no name and no plain address")]
    BadHost,
    #[error("the port of the URL is no number from 1 to 65535")]
    BadPort,
    #[error("the path of the URL is malformed")]
    BadPath,
}

/// Longer URLs are refused by many receivers.
pub const URL_BYTES_MAX: usize = 2_048;
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

impl Url {
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
            return Err(UrlError::BadCharacter);
        }
        let (scheme, rest) = scheme(text)?;
        let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        if authority.contains('@') {
            return Err(UrlError::HasUser);
        }
        if path.contains('#') {
            return Err(UrlError::HasFragment);
        }
        let (host, port) = host_and_port(authority)?;
        let port = match port {
            Some(digits) => read_port(digits)?,
            None => scheme.default_port(),
        };
        let origin = Origin { scheme, host, port };
        Ok(Self { origin, path: read_path(path)? })
    }
}

fn scheme(text: &str) -> Result<(Scheme, &str), UrlError> {
    let (scheme, rest) = text.split_once("://").ok_or(UrlError::BadScheme)?;
    if scheme.eq_ignore_ascii_case("https") {
        Ok((Scheme::Https, rest))
    } else if scheme.eq_ignore_ascii_case("http") {
        Ok((Scheme::Http, rest))
    } else {
        Err(UrlError::BadScheme)
    }
}

fn host_and_port(authority: &str) -> Result<(Host, Option<&str>), UrlError> {
    if let Some(bracketed) = authority.strip_prefix('[') {
        let (inside, after) = bracketed.split_once(']').ok_or(UrlError::BadHost)?;
        let address: Ipv6Addr = inside.parse().map_err(|_| UrlError::BadHost)?;
        let port = match after {
            "" => None,
            _ => Some(after.strip_prefix(':').ok_or(UrlError::BadHost)?),
        };
        return Ok((Host::Address(address.into()), port));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    Ok((read_host(host)?, port))
}

fn read_host(text: &str) -> Result<Host, UrlError> {
    // Rust reads four decimal numbers without leading zeros, and nothing else.
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(Host::Address(address.into()));
    }
    let name = text.to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_name = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label) && !could_be_number(last);
    if is_name { Ok(Host::Name(name)) } else { Err(UrlError::BadHost) }
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Whether a host that ends in this label is an address to some resolver.
fn could_be_number(label: &str) -> bool {
    let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    label.bytes().all(|byte| byte.is_ascii_digit()) || label.strip_prefix("0x").is_some_and(is_hex)
}

fn read_port(digits: &str) -> Result<u16, UrlError> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(UrlError::BadPort);
    }
    digits.parse().ok().filter(|port| *port != 0).ok_or(UrlError::BadPort)
}

fn read_path(text: &str) -> Result<PathAndQuery, UrlError> {
    let path = match text {
        "" => "/".to_owned(),
        _ if text.starts_with('?') => format!("/{text}"),
        _ => text.to_owned(),
    };
    path.try_into().map_err(|_| UrlError::BadPath)
}

impl Scheme {
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

impl Origin {
    /// As the `host` header has it: without the port that the scheme implies.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.port == self.scheme.default_port() {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl Host {
    /// A host that stands alone, not in a URL: an address, with brackets or without, or a name. What a name resolves to is
    /// judged, so nothing is refused here.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        inside.parse().map_or_else(|_| Self::Name(text.to_ascii_lowercase()), Self::Address)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.origin.scheme {
            Scheme::Https => "https",
            Scheme::Http => "http",
        };
        write!(f, "{scheme}://{}{}", self.origin.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, UrlError>) {
        let parsed = Url::parse(text).map(|url| url.to_string());
        assert_eq!(parsed, expected.map(str::to_owned), "{text}");
    }

    #[test]
    fn plain_urls_are_read() {
        check("https://example.org", Ok("https://example.org/"));
        check("HTTPS://Example.ORG:443/Hook?a=B", Ok("https://example.org/Hook?a=B"));
        check("https://example.org?x", Ok("https://example.org/?x"));
        check("http://example.org:8080/a/../b", Ok("http://example.org:8080/a/../b"));
        check("https://1.2.3.4/", Ok("https://1.2.3.4/"));
        check("https://[2606:4700:0::1]:8443/", Ok("https://[2606:4700::1]:8443/"));
        check("https://xn--bcher-kva.example/", Ok("https://xn--bcher-kva.example/"));
        check("https://1.2.3.4.example/", Ok("https://1.2.3.4.example/"));
        check("https://a/%40?u=b@c", Ok("https://a/%40?u=b@c"));
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        for host in [
            "2130706433",
            "0177.0.0.1",
            "0x7f.0.0.1",
            "0x7f000001",
            "127.1",
            "127.0.1",
            "0",
            "0x",
            "1.2.3.4.5",
            "1.2.3.256",
            "01.2.3.4",
            "a.0x7f",
            "a.1",
            "127.0.0.1.",
            "example.org.",
            ".",
            "",
            "a..b",
            "-a.b",
            "a-.b",
            "a%2eb",
            "a,b",
            "[::1",
            "::1]",
            "[::1]a",
            "[127.0.0.1]",
            "[fe80::1%251]",
            "[v1.a]",
            "[]",
            "a:b:1",
        ] {
            let refused = Url::parse(&format!("https://{host}/"));
            assert!(matches!(refused, Err(UrlError::BadHost | UrlError::BadPort)), "{host}: {refused:?}");
        }
        for (text, expected) in [
            ("https://a@b/", UrlError::HasUser),
            ("https://a:b@c/", UrlError::HasUser),
            ("https://a#@b/", UrlError::HasFragment),
            ("https://a/#b", UrlError::HasFragment),
            ("https://a\\@b/", UrlError::BadCharacter),
            ("https://a b/", UrlError::BadCharacter),
            ("https://a/\r\nx: y", UrlError::BadCharacter),
            ("https://bücher.example/", UrlError::BadCharacter),
            ("https:/a/", UrlError::BadScheme),
            ("//a/", UrlError::BadScheme),
            ("ftp://a/", UrlError::BadScheme),
            ("file:///etc/passwd", UrlError::BadScheme),
            (" https://a/", UrlError::BadCharacter),
            ("https://a:/", UrlError::BadPort),
            ("https://a:0/", UrlError::BadPort),
            ("https://a:65536/", UrlError::BadPort),
            ("https://a:+80/", UrlError::BadPort),
        ] {
            check(text, Err(expected));
        }
        check(&format!("https://a/{}", "x".repeat(URL_BYTES_MAX)), Err(UrlError::TooLong));
    }
}
