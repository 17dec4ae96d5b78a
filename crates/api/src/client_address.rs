//! The client address of a request, and whether it has limits.
//!
//! Input: the peer of the connection, and the headers that a proxy adds. Invariant: a header counts only if a proxy that the
//! operator trusts has sent it, and of its entries only those that trusted proxies have added: what stands to the left of the first
//! untrusted address is what that client wrote itself.

use axum::http::{HeaderMap, HeaderName, header};
use fantail_outbound::address::Network;
use std::net::{IpAddr, SocketAddr};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The peer of a request's connection. The listener puts it into the extensions.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

#[derive(Clone, Debug, Default)]
pub struct AddressRules {
    /// Proxies that say for whom they ask.
    pub trusted_proxies: Vec<Network>,
    /// Whether this machine has the limits of every other.
    pub limits_loopback: bool,
}

impl AddressRules {
    #[must_use]
    pub fn is_trusted(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted_proxies.iter().any(|network| network.contains(address))
    }

    /// The client: the peer, or the rightmost address that no trusted proxy has. Where it is unclear (both headers are there and differ,
    /// so that a client wrote one of them, or an entry is no address) the proxy is taken for the client, and has a limit then: what a
    /// client writes must not free it of limits.
    #[must_use]
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Client {
        let peer = peer.to_canonical();
        if !self.is_trusted(peer) {
            // A proxy on this machine that is not configured forwards strangers.
            let is_free = self.counted(peer).is_none() && !is_forwarded(headers);
            return Client { address: peer, limited_as: (!is_free).then(|| network_of(peer)) };
        }
        let listed = self.rightmost(peer, &entries(headers, &X_FORWARDED_FOR, str::trim));
        let forwarded = self.rightmost(peer, &entries(headers, &header::FORWARDED, forwarded_for));
        match (listed, forwarded) {
            (None, None) => Client { address: peer, limited_as: None },
            (Some(Ok(one)), None) | (None, Some(Ok(one))) => self.forwarded(one),
            (Some(Ok(one)), Some(Ok(other))) if one == other => self.forwarded(one),
            (Some(_), _) | (_, Some(_)) => Client { address: peer, limited_as: Some(network_of(peer)) },
        }
    }

    /// Whom a proxy speaks for is never on this machine, whatever the address says.
    fn forwarded(&self, address: IpAddr) -> Client {
        Client { address, limited_as: (!self.is_trusted(address)).then(|| network_of(address)) }
    }

    /// `None` if there are no entries; an error if what stands to the left of the trusted ones is no address.
    fn rightmost(&self, peer: IpAddr, entries: &[&str]) -> Option<Result<IpAddr, NotAnAddress>> {
        let mut nearest = peer;
        for entry in entries.iter().rev() {
            match address_of(entry) {
                None => return Some(Err(NotAnAddress)),
                Some(address) if self.is_trusted(address) => nearest = address,
                Some(address) => return Some(Ok(address)),
            }
        }
        (!entries.is_empty()).then_some(Ok(nearest))
    }

    /// The address that limits are counted by. `None` if it has no limits: a trusted proxy speaks for many, and so may a proxy on this machine.
    #[must_use]
    pub fn counted(&self, address: IpAddr) -> Option<IpAddr> {
        let address = address.to_canonical();
        let is_free = self.is_trusted(address) || (address.is_loopback() && !self.limits_loopback);
        (!is_free).then(|| network_of(address))
    }
}

/// The client of a request, and the address its limits are counted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Client {
    pub address: IpAddr,
    /// `None`: it has no limits.
    pub limited_as: Option<IpAddr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct NotAnAddress;

/// The address itself, or the network of an IPv6 address, because a host has the whole of it.
#[must_use]
pub fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
    }
}

/// Whether a proxy, trusted or not, has forwarded the request.
#[must_use]
pub fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(&X_FORWARDED_FOR) || headers.contains_key(header::FORWARDED)
}

/// All entries of a header, which may come in several lines. One that is no text counts as unreadable.
fn entries<'a>(headers: &'a HeaderMap, name: &HeaderName, read: fn(&'a str) -> &'a str) -> Vec<&'a str> {
    let lines = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"));
    lines.flat_map(|line| line.split(',')).map(read).collect()
}

/// `for=` of an element of `Forwarded` (RFC 7239); empty if there is none.
fn forwarded_for(element: &str) -> &str {
    let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let found = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    found.map_or("", |(_, value)| value.trim().trim_matches('"'))
}

/// An address, with or without a port: `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1`, `[2001:db8::1]:443`.
fn address_of(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    let address = bare.parse::<IpAddr>().ok();
    let address = address.or_else(|| entry.parse::<SocketAddr>().ok().map(|address| address.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use proptest::prelude::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn rules() -> AddressRules {
        let networks = ["10.0.0.0/8", "127.0.0.1/32", "fd00::/8"];
        let trusted_proxies = networks.iter().map(|network| network.parse().expect("a network")).collect();
        AddressRules { trusted_proxies, limits_loopback: false }
    }

    fn check(peer: &str, headers: &[(&'static str, &'static str)], expected: &str) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let client = rules().client(ip(peer), &map);
        assert_eq!(client.address, ip(expected), "{peer} {headers:?}");
        // A client that sends unreadable headers is limited, like every client that is no proxy.
        let is_own = headers.is_empty() || headers.iter().all(|(_, value)| value.starts_with("10.0.0.3"));
        assert_eq!(client.limited_as.is_none(), is_own, "{peer} {headers:?}");
    }

    /// A proxy on this machine forwards strangers, configured or not, and no header frees them of limits.
    #[test]
    fn what_comes_through_a_proxy_on_this_machine_has_limits() {
        let unnamed = AddressRules::default();
        let mut headers = HeaderMap::new();
        assert_eq!(unnamed.client(ip("127.0.0.1"), &headers).limited_as, None);
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("127.0.0.9"));
        assert_eq!(unnamed.client(ip("127.0.0.1"), &headers).limited_as, Some(ip("127.0.0.1")));
        assert_eq!(rules().client(ip("127.0.0.1"), &headers).limited_as, Some(ip("127.0.0.9")));
    }

    // fixes: security M12
    #[test]
    fn the_client_is_the_rightmost_address_that_no_trusted_proxy_has() {
        let list = "x-forwarded-for";
        check("10.0.0.1", &[(list, "192.0.2.1")], "192.0.2.1");
        check("10.0.0.1", &[(list, "203.0.113.9, 192.0.2.1")], "192.0.2.1");
        check("10.0.0.1", &[(list, "203.0.113.9, 192.0.2.1, 10.0.0.2")], "192.0.2.1");
        check("10.0.0.1", &[(list, "203.0.113.9"), (list, "192.0.2.1,10.0.0.2")], "192.0.2.1");
        check("::ffff:10.0.0.1", &[(list, "192.0.2.1:4711")], "192.0.2.1");
        check("127.0.0.1", &[(list, "[2001:db8::1]:443")], "2001:db8::1");
        check("fd00::1", &[(list, "2001:db8::1")], "2001:db8::1");
        check("10.0.0.1", &[(list, "10.0.0.3, 10.0.0.2")], "10.0.0.3");
        check("10.0.0.1", &[(list, "192.0.2.1, unknown, 10.0.0.2")], "10.0.0.1");
        check("10.0.0.1", &[], "10.0.0.1");
        check("192.0.2.7", &[(list, "203.0.113.9")], "192.0.2.7");
        check("192.0.2.7", &[("forwarded", "for=203.0.113.9")], "192.0.2.7");
    }

    #[test]
    fn forwarded_is_read_and_two_headers_must_agree() {
        check("10.0.0.1", &[("forwarded", "for=192.0.2.1;proto=https, for=10.0.0.2")], "192.0.2.1");
        check("10.0.0.1", &[("forwarded", "proto=https; For=\"[2001:db8::1]:443\"")], "2001:db8::1");
        check("10.0.0.1", &[("forwarded", "for=_hidden")], "10.0.0.1");
        check("10.0.0.1", &[("forwarded", "by=10.0.0.1")], "10.0.0.1");
        let both = |one, other| [("x-forwarded-for", one), ("forwarded", other)];
        check("10.0.0.1", &both("192.0.2.1", "for=192.0.2.1"), "192.0.2.1");
        check("10.0.0.1", &both("192.0.2.1", "for=203.0.113.9"), "10.0.0.1");
    }

    #[test]
    fn proxies_and_this_machine_have_no_limits_unless_it_is_said() {
        let limited = AddressRules { limits_loopback: true, ..AddressRules::default() };
        for (address, usual, said) in [
            ("127.0.0.1", None, Some("127.0.0.1")),
            ("::1", None, Some("::")),
            ("::ffff:127.9.9.9", None, Some("127.9.9.9")),
            ("10.1.2.3", None, Some("10.1.2.3")),
            ("192.0.2.1", Some("192.0.2.1"), Some("192.0.2.1")),
            ("2001:db8:0:1:2:3:4:5", Some("2001:db8:0:1::"), Some("2001:db8:0:1::")),
        ] {
            assert_eq!(rules().counted(ip(address)), usual.map(ip), "{address}");
            assert_eq!(limited.counted(ip(address)), said.map(ip), "{address}");
        }
    }

    proptest! {
        /// Its proxy adds the address that it has seen to one header, and passes the other on.
        #[test]
        fn whatever_a_client_writes_it_has_limits(
            written in "[ -~]{0,60}",
            beside in proptest::option::of("[ -~]{0,60}"),
            adds_forwarded in any::<bool>(),
        ) {
            let text = |text: String| HeaderValue::from_str(&text).expect("printable");
            let mut headers = HeaderMap::new();
            let (seen, other) = match adds_forwarded {
                true => (header::FORWARDED, X_FORWARDED_FOR),
                false => (X_FORWARDED_FOR, header::FORWARDED),
            };
            let added = if adds_forwarded { "for=192.0.2.1" } else { "192.0.2.1" };
            headers.append(seen, text(format!("{written}, {added}")));
            if let Some(beside) = beside {
                headers.append(other, text(beside));
            }
            let client = rules().client(ip("10.0.0.1"), &headers);
            prop_assert!(client.limited_as.is_some());
            prop_assert!([ip("192.0.2.1"), ip("10.0.0.1")].contains(&client.address));
        }
    }
}
