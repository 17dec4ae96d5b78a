//! Which addresses may be connected to. Everything that is not plainly a public unicast address is refused, unless the
//! operator listed its network or its host.
//!
//! What must never happen: a private address that hides in another one. Addresses that carry a v4 address inside
//! (v4-mapped, 6to4, NAT64, Teredo) are refused as a whole; a network behind NAT64 lists its prefix. Metadata services of
//! clouds are refused in every form, listed or not.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// What kind of place an address is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Anyone can reach it.
    Public,
    /// Inside a house, this one or the provider's: loopback, private use, shared address space, unique local. May be
    /// allowed for a named host.
    Private,
    /// No receiver of webhooks lives here: multicast, reserved, documentation, and addresses with another one inside. Only an
    /// explicit network allows it.
    Special,
    /// The machine's own link and what clouds keep there: metadata and credentials of the machine. Nothing allows it.
    Never,
}

#[must_use]
pub fn reach(address: IpAddr) -> Reach {
    let (table, otherwise) = match address {
        IpAddr::V4(_) => (V4, Reach::Public),
        IpAddr::V6(address) if carries_metadata(address) => return Reach::Never,
        // The rest of version 6 has not been given out.
        IpAddr::V6(_) => (V6, Reach::Special),
    };
    table.iter().find(|(network, _)| network.contains(address)).map_or(otherwise, |(_, reach)| *reach)
}

/// Whether a v4 address of a metadata service is inside: v4-mapped, v4-compatible and NAT64 keep it in the last 32 bits, 6to4
/// behind the first 16. Public addresses of version 6 may end in any bits and carry none.
fn carries_metadata(address: Ipv6Addr) -> bool {
    let bits = u128::from(address);
    let v4 = |shift: u32| Ipv4Addr::from(u32::try_from((bits >> shift) & 0xffff_ffff).unwrap_or_default());
    let inside = match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _] | [0, 0, 0, 0, 0xffff, 0, _, _] | [0x64, 0xff9b, ..] => v4(0),
        [0x2002, ..] => v4(80),
        _ => return false,
    };
    reach(IpAddr::V4(inside)) == Reach::Never
}

/// The first that contains the address decides.
const V4: &[(Network, Reach)] = &[
    (four([10, 0, 0, 0], 8), Reach::Private),
    (four([172, 16, 0, 0], 12), Reach::Private),
    (four([192, 168, 0, 0], 16), Reach::Private),
    (four([127, 0, 0, 0], 8), Reach::Private),
    // Metadata of one cloud, inside the shared address space.
    (four([100, 100, 100, 200], 32), Reach::Never),
    (four([100, 64, 0, 0], 10), Reach::Private),
    (four([0, 0, 0, 0], 8), Reach::Special),
    (four([169, 254, 0, 0], 16), Reach::Never),
    // Metadata of another cloud, among the IETF's protocol assignments.
    (four([192, 0, 0, 192], 32), Reach::Never),
    (four([192, 0, 0, 0], 24), Reach::Special),
    (four([192, 0, 2, 0], 24), Reach::Special),
    (four([192, 88, 99, 0], 24), Reach::Special),
    (four([198, 18, 0, 0], 15), Reach::Special),
    (four([198, 51, 100, 0], 24), Reach::Special),
    (four([203, 0, 113, 0], 24), Reach::Special),
    // Looks public, but is the host service of a cloud.
    (four([168, 63, 129, 16], 32), Reach::Never),
    (four([224, 0, 0, 0], 4), Reach::Special),
    (four([240, 0, 0, 0], 4), Reach::Special),
];

const V6: &[(Network, Reach)] = &[
    (six([0, 0, 0, 0, 0, 0, 0, 1], 128), Reach::Private),
    // Metadata of two clouds, inside unique local.
    (six([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32), Reach::Never),
    (six([0xfd20, 0xce, 0, 0, 0, 0, 0, 0], 32), Reach::Never),
    (six([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Reach::Never),
    (six([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Reach::Private),
    // IETF protocol assignments: Teredo, benchmarking, ORCHID.
    (six([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Reach::Special),
    (six([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Reach::Special),
    (six([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), Reach::Special),
    (six([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Reach::Special),
    (six([0x2000, 0, 0, 0, 0, 0, 0, 0], 3), Reach::Public),
];

const fn four([a, b, c, d]: [u8; 4], prefix: u8) -> Network {
    Network { base: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
}

const fn six([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> Network {
    Network { base: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), prefix }
}

/// A range of addresses, written `10.0.0.0/8`, `fd00::/8` or as one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    base: IpAddr,
    prefix: u8,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("`{text}` is no network: write it like 10.0.0.0/8 or fd00::/8")]
    NotANetwork { text: String },
    #[error("`{text}` has bits behind its prefix")]
    HasHostBits { text: String },
    #[error("`{text}` is everything: it would switch the filter off")]
    IsEverything { text: String },
}

impl Network {
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let mask = mask(self.prefix, 32);
                u128::from(u32::from(address)) & mask == u128::from(u32::from(base))
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                u128::from(address) & mask(self.prefix, 128) == u128::from(base)
            }
            // A v4-mapped address is another address: to allow one does not allow the other.
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl Network {
    /// Whether it is a single address.
    #[must_use]
    pub fn is_one_address(&self) -> bool {
        self.prefix == if self.base.is_ipv4() { 32 } else { 128 }
    }
}

fn mask(prefix: u8, bits: u8) -> u128 {
    let all = u128::MAX >> (128 - u32::from(bits));
    let behind = u32::from(bits - prefix);
    all & u128::MAX.checked_shl(behind).unwrap_or(0)
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let not_a_network = || NetworkError::NotANetwork { text: text.to_owned() };
        let (base, prefix) = match text.split_once('/') {
            Some((base, prefix)) => (base, Some(prefix)),
            None => (text, None),
        };
        let base: IpAddr = base.parse().map_err(|_| not_a_network())?;
        let (bits, number) = match base {
            IpAddr::V4(base) => (Ipv4Addr::BITS, u128::from(u32::from(base))),
            IpAddr::V6(base) => (Ipv6Addr::BITS, u128::from(base)),
        };
        let bits = u8::try_from(bits).map_err(|_| not_a_network())?;
        let prefix = prefix.map_or(Ok(bits), str::parse).map_err(|_| not_a_network())?;
        if prefix > bits {
            return Err(not_a_network());
        }
        if prefix == 0 {
            return Err(NetworkError::IsEverything { text: text.to_owned() });
        }
        if number & mask(prefix, bits) != number {
            return Err(NetworkError::HasHostBits { text: text.to_owned() });
        }
        Ok(Self { base, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reach_expected: Reach, addresses: &[&str]) {
        for address in addresses {
            let parsed: IpAddr = address.parse().expect("an address");
            assert_eq!(reach(parsed), reach_expected, "{address}");
        }
    }

    #[test]
    fn public_addresses_are_public() {
        check(
            Reach::Public,
            &[
                "1.1.1.1",
                "8.8.8.8",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.0",
                "168.63.129.15",
                "169.253.255.255",
                "169.255.0.0",
                "172.15.255.255",
                "172.32.0.0",
                "192.0.1.0",
                "192.0.3.0",
                "192.167.255.255",
                "192.169.0.0",
                "198.17.255.255",
                "198.20.0.0",
                "203.0.112.255",
                "203.0.114.0",
                "223.255.255.255",
                "2606:4700::1111",
                "2001:200::1",
                "2001:4860:4860::8888",
                "2a00:1450::1",
                "2003::1",
                "3ffe::1",
            ],
        );
    }

    #[test]
    fn houses_are_private() {
        check(
            Reach::Private,
            &[
                "10.0.0.0",
                "10.255.255.255",
                "172.16.0.1",
                "172.31.255.255",
                "192.168.0.1",
                "127.0.0.1",
                "127.255.255.254",
                "100.64.0.1",
                "100.127.255.255",
                "::1",
                "fc00::1",
                "fd12:3456::1",
            ],
        );
    }

    #[test]
    fn special_addresses_are_special() {
        check(
            Reach::Special,
            &[
                "0.0.0.0",
                "0.1.2.3",
                "192.0.0.1",
                "192.0.2.1",
                "192.88.99.1",
                "198.18.0.1",
                "198.19.255.255",
                "198.51.100.7",
                "203.0.113.9",
                "224.0.0.1",
                "239.255.255.255",
                "240.0.0.1",
                "255.255.255.255",
                "::",
                "::7f00:1",
                "::ffff:127.0.0.1",
                "::ffff:8.8.8.8",
                "::ffff:0:127.0.0.1",
                "64:ff9b::7f00:1",
                "64:ff9b::808:808",
                "64:ff9b:1::a00:1",
                "100::1",
                "2001::1",
                "2001:2::1",
                "2001:10::1",
                "2001:20::1",
                "2001:db8::1",
                "2002:7f00:1::1",
                "2002:808:808::1",
                "3fff::1",
                "5f00::1",
                "fec0::1",
                "ff02::1",
                "4000::1",
            ],
        );
    }

    #[test]
    fn metadata_is_out_of_reach_in_every_form() {
        check(
            Reach::Never,
            &[
                "169.254.0.1",
                "169.254.169.254",
                "169.254.170.2",
                "100.100.100.200",
                "168.63.129.16",
                "192.0.0.192",
                "fe80::1",
                "fd00:ec2::254",
                "fd20:ce::254",
                "::ffff:169.254.169.254",
                "::a9fe:a9fe",
                "::ffff:0:a9fe:a9fe",
                "64:ff9b::a9fe:a9fe",
                "64:ff9b:1::a9fe:a9fe",
                "2002:a9fe:a9fe::1",
                "::ffff:100.100.100.200",
            ],
        );
    }

    #[test]
    fn networks_contain_their_own_and_nothing_else() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.1.2.3", "11.0.0.0"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("192.168.4.0/22", "192.168.7.255", "192.168.8.0"),
            ("128.0.0.0/1", "255.0.0.1", "127.0.0.1"),
            ("fd00::/8", "fdff::1", "fc00::1"),
            ("::1", "::1", "::2"),
            ("127.0.0.0/8", "127.0.0.1", "::ffff:127.0.0.1"),
        ] {
            let parsed: Network = network.parse().expect("a network");
            assert!(parsed.contains(inside.parse().expect("an address")), "{network} {inside}");
            assert!(!parsed.contains(outside.parse().expect("an address")), "{network} {outside}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "fd00::/129", "host", "0x7f.1/8"] {
            assert!(matches!(text.parse::<Network>(), Err(NetworkError::NotANetwork { .. })), "{text}");
        }
        assert!(matches!("10.0.0.1/8".parse::<Network>(), Err(NetworkError::HasHostBits { .. })));
        for text in ["0.0.0.0/0", "::/0"] {
            assert!(matches!(text.parse::<Network>(), Err(NetworkError::IsEverything { .. })), "{text}");
        }
    }
}
