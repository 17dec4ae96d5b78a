//! Each host for itself, across all shipments and tenants: how many attempts are under way, whether it wants a rest, and
//! whether it answers at all. So a host that is slow or gone takes nothing from the others.

use super::url::Host;
use fantail_rules::ids::Millis;
use fantail_rules::limits::PAUSE_MS_DEFAULT;
use fantail_rules::pacing::{Breaker, Call, News, Pause, Signal};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// Hosts nobody sends to are forgotten when there are so many, then whenever their number has doubled.
const FORGET_AT: usize = 1_024;
/// Those that did not answer the last time are remembered longer, up to so many.
const FAILING_MAX: usize = 16 * FORGET_AT;

pub struct Hosts {
    concurrency_max: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    ways: BTreeMap<Host, Arc<Way>>,
    forget_at: usize,
}

/// The way to one host.
pub struct Way {
    /// Attempts that may be under way.
    pub permits: Arc<Semaphore>,
    health: Mutex<Health>,
}

struct Health {
    breaker: Breaker,
    pause: Pause,
    is_failing: bool,
}

impl Way {
    pub fn new(concurrency_max: usize, now: Millis) -> Self {
        let health = Health { breaker: Breaker::new(now), pause: Pause::default(), is_failing: false };
        Self { permits: Arc::new(Semaphore::new(concurrency_max)), health: Mutex::new(health) }
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before an attempt. `Err`: how long it rests. Whoever gets through ends by [`ended`](Self::ended).
    pub fn enter(&self, now: Millis) -> Result<(), u64> {
        let mut health = self.health();
        if let Some(until) = health.pause.until(now) {
            return Err(until.since(now));
        }
        if health.breaker.take(now, 1) == 1 {
            return Ok(());
        }
        // Probes are under way: whoever comes back in a while knows more.
        let ready_at = health.breaker.ready_at().unwrap_or(now).max(now.plus(PAUSE_MS_DEFAULT));
        Err(ready_at.since(now))
    }

    /// Left alone for so long, whatever single attempts said.
    pub fn rest(&self, now: Millis, after_ms: u64) {
        self.health().pause.rest(now, after_ms);
    }

    /// An attempt is over; says what is worth telling.
    pub fn ended(&self, now: Millis, call: Call) -> Option<News> {
        let mut health = self.health();
        match call.signal {
            Signal::Works => health.is_failing = false,
            Signal::Fails => health.is_failing = true,
            Signal::Rest { after_ms } => {
                health.is_failing = true;
                health.pause.rest(now, after_ms.unwrap_or(PAUSE_MS_DEFAULT));
            }
            Signal::Nothing => health.breaker.put_back(1),
        }
        health.breaker.ended(now, call)
    }
}

impl Hosts {
    pub fn new(concurrency_max: usize) -> Self {
        Self { concurrency_max, known: Mutex::default() }
    }

    /// The way to a host. Kept as long as someone is on it or it does not work.
    pub fn way(&self, host: &Host, now: Millis) -> Arc<Way> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(way) = known.ways.get(host) {
            return Arc::clone(way);
        }
        if known.ways.len() >= known.forget_at {
            let is_crowded = known.ways.len() >= FAILING_MAX;
            known
                .ways
                .retain(|_, way| Arc::strong_count(way) > 1 || (!is_crowded && way.health().is_failing));
            known.forget_at = FORGET_AT.max(known.ways.len() * 2);
        }
        let way = Arc::new(Way::new(self.concurrency_max, now));
        known.ways.insert(host.clone(), Arc::clone(&way));
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::limits::BREAKER_CALLS_MIN;

    const NOW: Millis = Millis(1_000_000);

    fn host(number: usize) -> Host {
        Host::Name(format!("{number}.example"))
    }

    fn call(way: &Way, signal: Signal) -> Option<News> {
        way.ended(NOW, Call { began: NOW, signal })
    }

    #[test]
    fn hosts_in_use_are_kept_and_others_forgotten() {
        let hosts = Hosts::new(2);
        let held = hosts.way(&host(0), NOW);
        call(&hosts.way(&host(1), NOW), Signal::Rest { after_ms: Some(5_000) });
        for number in 2..10 * FORGET_AT {
            drop(hosts.way(&host(number), NOW));
        }
        assert!(Arc::ptr_eq(&held, &hosts.way(&host(0), NOW)));
        assert_eq!(hosts.way(&host(1), NOW).enter(NOW), Err(5_000), "its rest is remembered");
        assert!(hosts.known.lock().expect("no test panics here").ways.len() <= FORGET_AT);
    }

    #[test]
    fn a_host_that_does_not_answer_is_left_alone_and_no_other() {
        let hosts = Hosts::new(2);
        let (dead, alive) = (hosts.way(&host(0), NOW), hosts.way(&host(1), NOW));
        let mut news = None;
        for _ in 0..BREAKER_CALLS_MIN {
            assert_eq!(dead.enter(NOW), Ok(()));
            news = call(&dead, Signal::Fails);
        }
        assert!(matches!(news, Some(News::Opened { .. })), "{news:?}");
        assert!(dead.enter(NOW).is_err());
        assert_eq!(alive.enter(NOW), Ok(()));
    }
}
