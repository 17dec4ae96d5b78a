//! How many attempts are under way to one host, across all shipments and tenants.

use super::url::Host;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Hosts nobody sends to are forgotten when there are so many, then whenever their number has doubled.
const FORGET_AT: usize = 1_024;

pub struct Hosts {
    concurrency_max: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    permits: BTreeMap<Host, Arc<Semaphore>>,
    forget_at: usize,
}

impl Hosts {
    pub fn new(concurrency_max: usize) -> Self {
        Self { concurrency_max, known: Mutex::default() }
    }

    /// The permits of a host. Kept as long as someone holds them or waits for one.
    pub fn permits(&self, host: &Host) -> Arc<Semaphore> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(permits) = known.permits.get(host) {
            return Arc::clone(permits);
        }
        if known.permits.len() >= known.forget_at {
            known.permits.retain(|_, permits| Arc::strong_count(permits) > 1);
            known.forget_at = FORGET_AT.max(known.permits.len() * 2);
        }
        let permits = Arc::new(Semaphore::new(self.concurrency_max));
        known.permits.insert(host.clone(), Arc::clone(&permits));
        permits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: usize) -> Host {
        Host::Name(format!("{number}.example"))
    }

    #[test]
    fn hosts_in_use_are_kept_and_others_forgotten() {
        let hosts = Hosts::new(2);
        let held = hosts.permits(&host(0)).try_acquire_owned().expect("a permit");
        for number in 1..10 * FORGET_AT {
            drop(hosts.permits(&host(number)));
        }
        assert_eq!(hosts.permits(&host(0)).available_permits(), 1, "the same permits");
        assert!(hosts.known.lock().expect("no test panics here").permits.len() <= FORGET_AT);
        drop(held);
    }
}
