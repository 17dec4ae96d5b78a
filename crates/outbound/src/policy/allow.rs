//! What an operator lists in `outbound.allow`: targets inside the house, each as `HOST` or `HOST:PORT`.
//!
//! A host is an address, a network (`10.0.0.0/8`), a name, or all names below one (`.internal`). With a port (or `*` for every
//! port of one host) an entry allows TLS and plain connections there; without one it allows TLS to the usual ports.
//!
//! Invariant: no entry opens a network on every port. That would make each service inside reachable.

use crate::address::{Network, NetworkError, Reach};
use crate::url::Host;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allow {
    place: Place,
    port: AllowedPort,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    Network(Network),
    /// Of this very name.
    Name(String),
    /// Below this one, which begins with a dot.
    Below(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AllowedPort {
    /// Those that targets of its kind may have anyway.
    Usual,
    One(u16),
    Any,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AllowError {
    #[error(
        "`{text}` is no target: write it like 127.0.0.1:8080, 10.0.0.0/8:443, hooks.internal:8080 or .internal"
    )]
    NotATarget { text: String },
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error("`{text}` is a whole network on every port: name the port")]
    TooOpen { text: String },
}

/// What an entry says about a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Covers {
    No,
    /// With TLS, to a usual port.
    Usual,
    /// This very port, also without TLS.
    Port,
}

impl Allow {
    /// A connection to a host at one of its addresses. A name opens private addresses, never special ones: only a network
    /// does.
    #[must_use]
    pub fn covers(
        &self,
        host: &Host,
        (address, reach): (IpAddr, Reach),
        port: u16,
        is_usual: bool,
    ) -> Covers {
        let is_here = match (&self.place, host) {
            (Place::Network(network), _) => network.contains(address),
            (_, Host::Address(_)) => false,
            (_, Host::Name(name)) => self.names(name) && matches!(reach, Reach::Public | Reach::Private),
        };
        if is_here { self.port.covers(port, is_usual) } else { Covers::No }
    }

    /// A connection to a name before it is looked up: what the entry may say at most.
    #[must_use]
    pub fn could_cover(&self, name: &str, port: u16, is_usual: bool) -> Covers {
        let could_be_here = matches!(self.place, Place::Network(_)) || self.names(name);
        if could_be_here { self.port.covers(port, is_usual) } else { Covers::No }
    }

    /// Whether it is about this name, not about a network.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        match &self.place {
            Place::Network(_) => false,
            Place::Name(listed) => name == listed,
            Place::Below(suffix) => name.ends_with(suffix.as_str()),
        }
    }
}

impl AllowedPort {
    fn covers(self, port: u16, is_usual: bool) -> Covers {
        match self {
            Self::Usual if is_usual => Covers::Usual,
            Self::One(one) if one == port => Covers::Port,
            Self::Any => Covers::Port,
            Self::Usual | Self::One(_) => Covers::No,
        }
    }
}

impl FromStr for Allow {
    type Err = AllowError;

    fn from_str(text: &str) -> Result<Self, AllowError> {
        let (host, port) = split(text);
        let bad = || AllowError::NotATarget { text: text.to_owned() };
        let port = match port {
            None => AllowedPort::Usual,
            Some("*") => AllowedPort::Any,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                AllowedPort::One(digits.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?)
            }
            Some(_) => return Err(bad()),
        };
        let place = match host {
            host if host.contains(['/', ':']) || host.parse::<IpAddr>().is_ok() => {
                Place::Network(host.parse()?)
            }
            host if !is_name(host.strip_prefix('.').unwrap_or(host)) => return Err(bad()),
            host if host.starts_with('.') => Place::Below(host.to_owned()),
            host => Place::Name(host.to_owned()),
        };
        let is_wide = match &place {
            Place::Network(network) => !network.is_one_address(),
            Place::Below(_) => true,
            Place::Name(_) => false,
        };
        if is_wide && port == AllowedPort::Any {
            return Err(AllowError::TooOpen { text: text.to_owned() });
        }
        Ok(Self { place, port })
    }
}

/// Host and port. Addresses of version 6 need brackets before a port.
fn split(text: &str) -> (&str, Option<&str>) {
    if let Some((inside, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return match rest {
            "" => (inside, None),
            rest => (inside, Some(rest.strip_prefix(':').unwrap_or(rest))),
        };
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        Some(_) | None => (text, None),
    }
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    !name.is_empty()
        && name.bytes().all(is_plain)
        && name.split('.').all(|label| !label.is_empty())
        && !name.rsplit('.').next().is_some_and(is_number)
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, is_bracketed) = match &self.place {
            Place::Network(network) => (network.to_string(), network.to_string().contains(':')),
            Place::Name(name) | Place::Below(name) => (name.clone(), false),
        };
        let place = if is_bracketed { format!("[{place}]") } else { place };
        match self.port {
            AllowedPort::Usual => f.write_str(&place),
            AllowedPort::One(port) => write!(f, "{place}:{port}"),
            AllowedPort::Any => write!(f, "{place}:*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_a_host_with_a_port_or_without() {
        for (text, shown) in [
            ("127.0.0.1:8080", "127.0.0.1/32:8080"),
            ("127.0.0.1", "127.0.0.1/32"),
            ("127.0.0.1:*", "127.0.0.1/32:*"),
            ("10.0.0.0/8:443", "10.0.0.0/8:443"),
            ("[::1]:9", "[::1/128]:9"),
            ("::1", "[::1/128]"),
            ("[fd00::/8]:443", "[fd00::/8]:443"),
            ("fd00::/8", "[fd00::/8]"),
            ("hooks.internal:8080", "hooks.internal:8080"),
            ("localhost:*", "localhost:*"),
            (".internal", ".internal"),
            (".internal:25", ".internal:25"),
        ] {
            let read: Result<Allow, _> = text.parse();
            assert_eq!(read.map(|allow| allow.to_string()).as_deref(), Ok(shown), "{text}");
        }
    }

    #[test]
    fn what_is_no_entry_or_opens_too_much_is_refused() {
        for text in [
            "",
            ".",
            "..a",
            "A.b",
            "a b",
            "a.",
            "*.a",
            "http://a",
            "a:0",
            "a:65536",
            "a:+1",
            "a:",
            "a:b",
            "*",
            "*:*",
            "1.2.3",
            "a.1",
            "[::1]9a",
            "127.0.0.1:80/x",
        ] {
            assert!(text.parse::<Allow>().is_err(), "{text}");
        }
        for text in ["10.0.0.0/8:*", "[fd00::/8]:*", ".internal:*"] {
            assert!(matches!(text.parse::<Allow>(), Err(AllowError::TooOpen { .. })), "{text}");
        }
        for text in ["0.0.0.0/0", "::/0", "10.0.0.1/8"] {
            assert!(matches!(text.parse::<Allow>(), Err(AllowError::Network(_))), "{text}");
        }
    }
}
