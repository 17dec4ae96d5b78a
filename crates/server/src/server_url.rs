//! Where a server is, as people write it: a URL like the banner prints, or an address and a port.

use std::str::FromStr;
use thiserror::Error;

/// Ends the URL of the API in the banner; every path of ours begins with it.
const API: &str = "/api/v1";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerUrl {
    pub is_tls: bool,
    /// As the header `Host` says it.
    pub host: String,
    /// The host alone, which a certificate is for.
    pub name: String,
    /// Host and port.
    pub address: String,
    /// Where paths begin, without a slash at its end.
    pub prefix: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "`{text}` is no server: write it like https://notify.example.com, http://127.0.0.1:7070 or 127.0.0.1:7070"
)]
pub struct NotAServer {
    text: String,
}

impl FromStr for ServerUrl {
    type Err = NotAServer;

    fn from_str(text: &str) -> Result<Self, NotAServer> {
        let wrong = || NotAServer { text: text.to_owned() };
        let (is_tls, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            Some(_) => return Err(wrong()),
            None => (false, text),
        };
        let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let path = path.trim_end_matches('/');
        let prefix = path.strip_suffix(API).unwrap_or(path).trim_end_matches('/');
        let is_plain =
            |text: &str| text.chars().all(|one| one.is_ascii_graphic() && !"?#@\\\"<>".contains(one));
        let (name, port) = split_port(host).ok_or_else(wrong)?;
        // Without a scheme there is no usual port.
        let has_port = port.is_some() || text.contains("://");
        if !is_plain(host) || !is_plain(prefix) || !has_port {
            return Err(wrong());
        }
        let port = port.unwrap_or(if is_tls { 443 } else { 80 });
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let (address, name) = (format!("{name}:{port}"), bare.to_owned());
        Ok(Self { is_tls, host: host.to_owned(), name, address, prefix: prefix.to_owned() })
    }
}

/// The host, in brackets if it is an IPv6 address, and the port if there is one.
fn split_port(host: &str) -> Option<(&str, Option<u16>)> {
    let end = match host.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => host.find(':').unwrap_or(host.len()),
    };
    let (name, port) = host.split_at_checked(end)?;
    let port = match port {
        "" => None,
        port => Some(port.strip_prefix(':')?.parse().ok()?),
    };
    (!name.is_empty()).then_some((name, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    // fixes: security L2
    #[test]
    fn servers_are_written_as_the_banner_prints_them() {
        for (text, is_tls, name, address, prefix) in [
            ("http://127.0.0.1:7070/api/v1", false, "127.0.0.1", "127.0.0.1:7070", ""),
            ("http://127.0.0.1:7070", false, "127.0.0.1", "127.0.0.1:7070", ""),
            ("127.0.0.1:7070", false, "127.0.0.1", "127.0.0.1:7070", ""),
            ("localhost:7070/", false, "localhost", "localhost:7070", ""),
            ("https://notify.example.com", true, "notify.example.com", "notify.example.com:443", ""),
            ("https://example.com/notify/api/v1/", true, "example.com", "example.com:443", "/notify"),
            ("http://example.com/x/", false, "example.com", "example.com:80", "/x"),
            ("https://[::1]:7070", true, "::1", "[::1]:7070", ""),
            ("https://[::1]", true, "::1", "[::1]:443", ""),
        ] {
            let url: ServerUrl = text.parse().expect("a server");
            let found = (url.is_tls, url.name.as_str(), url.address.as_str(), url.prefix.as_str());
            assert_eq!(found, (is_tls, name, address, prefix), "{text}");
        }
        for bad in [
            "",
            "localhost",
            "ftp://a:1",
            "http://",
            "http://a:99999",
            "http://u@a:1",
            "[::1",
            "http://a:1/?x",
        ] {
            assert!(bad.parse::<ServerUrl>().is_err(), "{bad}");
        }
    }
}
