//! Places for connections: so many in all, and so many for one address. A connection beyond them gets no place; the
//! listener serves it probes only, so that health checks work when all places are taken.

use fantail_api::bodies::{AddressBodies, ConnectionBodies};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub struct Places {
    max: usize,
    /// `None`: as many as there are.
    per_address_max: Option<usize>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: BTreeMap<IpAddr, OfAddress>,
}

#[derive(Debug, Default)]
struct OfAddress {
    connections: usize,
    /// What its callers without a key hold.
    bodies: Arc<AddressBodies>,
}

impl Places {
    pub fn new(max: usize, per_address_max: Option<usize>) -> Arc<Self> {
        Arc::new(Self { max, per_address_max, taken: Mutex::default() })
    }

    pub fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let address = counted_address(peer);
        let mut taken = self.taken();
        if taken.all >= self.max {
            return None;
        }
        let bodies = match address {
            None => None,
            Some(address) => {
                let of_address = taken.by_address.entry(address).or_default();
                if self.per_address_max.is_some_and(|max| of_address.connections >= max) {
                    return None;
                }
                of_address.connections += 1;
                Some(ConnectionBodies::new(of_address.bodies.clone()))
            }
        };
        taken.all += 1;
        Some(Place { places: self.clone(), address, bodies })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What connections of a peer are counted by: its IPv4 address, or the network of its IPv6 address, because a host has
/// the whole of it. `None` for this machine: a proxy on it speaks for many.
fn counted_address(peer: IpAddr) -> Option<IpAddr> {
    match peer.to_canonical() {
        own if own.is_loopback() => None,
        IpAddr::V4(address) => Some(IpAddr::V4(address)),
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            Some(IpAddr::V6(network.into()))
        }
    }
}

/// A place, until this is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    address: Option<IpAddr>,
    /// `None` for this machine, as its address.
    pub bodies: Option<Arc<ConnectionBodies>>,
}

impl Place {
    /// Whether the peer is this machine, which is not counted.
    pub fn is_local(&self) -> bool {
        self.address.is_none()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        let Some(address) = self.address else { return };
        if let Some(of_address) = taken.by_address.get_mut(&address) {
            of_address.connections -= 1;
            if of_address.connections == 0 {
                taken.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    // fixes: security M6
    #[test]
    fn one_address_cannot_take_all_places() {
        let places = Places::new(5, Some(2));
        let mut held: Vec<Place> = Vec::new();
        for (peer, has_place) in [
            ("192.0.2.1", true),
            ("192.0.2.1", true),
            ("192.0.2.1", false),
            ("::ffff:192.0.2.1", false),
            ("2001:db8::1", true),
            ("2001:db8::2", true),
            ("2001:db8::3", false),
            ("2001:db8:0:1::1", true),
            ("192.0.2.2", false),
        ] {
            let place = places.take(ip(peer));
            assert_eq!(place.is_some(), has_place, "{peer}");
            held.extend(place);
        }
        held.remove(0);
        held.extend(places.take(ip("192.0.2.1")));
        assert_eq!(held.len(), 5, "a place that is given back can be taken again");
        drop(held);
        let taken = places.taken();
        assert!(taken.all == 0 && taken.by_address.is_empty(), "nothing is remembered of closed connections");
    }

    #[test]
    fn this_machine_is_limited_by_the_whole_only() {
        for peer in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            let places = Places::new(3, Some(1));
            let held: Vec<Place> = (0..4).filter_map(|_| places.take(ip(peer))).collect();
            assert_eq!(held.len(), 3, "{peer}");
        }
    }
}
