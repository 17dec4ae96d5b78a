//! Places for connections: so many in all, and so many for one address. A connection beyond them gets no place; the
//! listener serves it probes only, so that health checks work when all places are taken.

use fantail_api::bodies::{AddressBodies, ConnectionBodies};
use fantail_api::client_address::AddressRules;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub struct Places {
    max: usize,
    /// `None`: as many as there are.
    per_address_max: Option<usize>,
    rules: AddressRules,
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
    pub fn new(max: usize, per_address_max: Option<usize>, rules: AddressRules) -> Arc<Self> {
        Arc::new(Self { max, per_address_max, rules, taken: Mutex::default() })
    }

    pub fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let address = self.rules.counted(peer);
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

/// A place, until this is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    address: Option<IpAddr>,
    /// `None` for this machine, as its address.
    pub bodies: Option<Arc<ConnectionBodies>>,
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
        let places = Places::new(5, Some(2), AddressRules::default());
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
            let places = Places::new(3, Some(1), AddressRules::default());
            let held: Vec<Place> = (0..4).filter_map(|_| places.take(ip(peer))).collect();
            assert_eq!(held.len(), 3, "{peer}");
        }
    }
    // fixes: security M6
    #[test]
    fn this_machine_is_limited_if_it_is_said_and_trusted_proxies_are_not() {
        let rules = AddressRules {
            trusted_proxies: vec!["127.0.0.9/32".parse().expect("a network")],
            limits_loopback: true,
        };
        for (peer, expected) in [("127.0.0.2", 1), ("127.0.0.9", 3)] {
            let places = Places::new(3, Some(1), rules.clone());
            let held: Vec<Place> = (0..4).filter_map(|_| places.take(ip(peer))).collect();
            assert_eq!(held.len(), expected, "{peer}");
        }
    }
}
