//! How each host is doing for each tenant: attempts under way, whether it wants a rest, whether it answers at all.
//!
//! Invariant: a host that is slow or gone takes nothing from the others. What one tenant's URLs at a host answer rests that
//! host for this tenant alone; tenants share nothing but the places of a host, of which one tenant never has all.

use super::url::Host;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::PAUSE_MS_DEFAULT;
use fantail_rules::pacing::{Breaker, Call, CallTime, News, Pause, Signal, Slots};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// Hosts without attempts are forgotten when there are so many, then whenever their number has doubled.
const FORGET_AT: usize = 1_024;
/// Those that did not answer the last time are remembered longer, up to so many.
const FAILING_MAX: usize = 16 * FORGET_AT;
/// A host has places for so many tenants that use all of theirs: a service that many tenants send to is a large one.
const TENANTS_AT_ONCE: usize = 4;

pub struct Hosts {
    concurrency_max: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    gates: BTreeMap<(Host, TenantId), Arc<HostGate>>,
    forget_at: usize,
}

/// What decides whether an attempt of one tenant at one host may begin.
pub struct HostGate {
    /// Attempts of this tenant that may be under way.
    pub own: Arc<Semaphore>,
    /// Attempts of all tenants that may be.
    pub shared: Arc<Semaphore>,
    places: u64,
    health: Mutex<Health>,
}

struct Health {
    breaker: Breaker,
    pause: Pause,
    is_failing: bool,
    call_time: CallTime,
    /// Messages that wait for a place.
    waiting: u64,
    slots: Slots,
}

impl HostGate {
    pub fn new(concurrency_max: usize, now: Millis) -> Self {
        let shared = Arc::new(Semaphore::new(concurrency_max.saturating_mul(TENANTS_AT_ONCE)));
        Self::beside(concurrency_max, now, shared)
    }

    fn beside(concurrency_max: usize, now: Millis, shared: Arc<Semaphore>) -> Self {
        let health = Health {
            breaker: Breaker::new(now),
            pause: Pause::default(),
            is_failing: false,
            call_time: CallTime::default(),
            waiting: 0,
            slots: Slots::default(),
        };
        let own = Arc::new(Semaphore::new(concurrency_max));
        Self { own, shared, places: concurrency_max.max(1) as u64, health: Mutex::new(health) }
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place until then, if one becomes free in time. `Err`: after how long it is worth coming back.
    pub fn line_up(self: &Arc<Self>, now: Millis, until: Millis) -> Result<Queued, u64> {
        let mut health = self.health();
        let interval_us = self.interval_us(&health, now);
        let freed = until.since(now).saturating_mul(1_000).checked_div(interval_us);
        // As long as it is not known how long attempts take, all wait.
        let freed = freed.filter(|_| health.call_time.is_known()).unwrap_or(u64::MAX);
        if health.waiting >= freed.saturating_add(self.own.available_permits() as u64) {
            let room_at = now.plus(health.waiting.saturating_mul(interval_us) / 1_000);
            return Err(health.slots.book(now, room_at, interval_us));
        }
        health.waiting += 1;
        Ok(Queued { gate: Arc::clone(self) })
    }

    /// No place became free in time: after how long it is worth coming back.
    pub fn book(&self, now: Millis) -> u64 {
        let mut health = self.health();
        let interval_us = self.interval_us(&health, now);
        health.slots.book(now, now, interval_us)
    }

    /// The time between two attempts when all places are in use; 0 while nothing is known.
    fn interval_us(&self, health: &Health, now: Millis) -> u64 {
        health.call_time.micros(now) / self.places
    }

    /// Before an attempt. `Err`: how long it rests.
    pub fn enter(self: &Arc<Self>, now: Millis) -> Result<HostAttempt, u64> {
        let mut health = self.health();
        if let Some(until) = health.pause.until(now) {
            return Err(until.since(now));
        }
        if health.breaker.take(now, 1) == 1 {
            health.call_time.began(now, 1);
            return Ok(HostAttempt { gate: Some(Arc::clone(self)), began: now });
        }
        // Probes are under way: their answers are known in a while.
        let ready_at = health.breaker.ready_at().unwrap_or(now).max(now.plus(PAUSE_MS_DEFAULT));
        Err(ready_at.since(now))
    }

    /// Left alone for so long, whatever single attempts said.
    pub fn rest(&self, now: Millis, after_ms: u64) {
        self.health().pause.rest(now, after_ms);
    }

    /// An attempt is over; returns what is worth a line in the log.
    fn ended(&self, now: Millis, call: Call) -> Option<News> {
        let mut health = self.health();
        match call.signal {
            Signal::Works => health.is_failing = false,
            Signal::Fails => health.is_failing = true,
            Signal::Rest { after_ms } => {
                health.is_failing = true;
                health.pause.rest(now, after_ms.unwrap_or(PAUSE_MS_DEFAULT));
            }
            // The breaker takes its probe back below.
            Signal::Nothing => {}
        }
        match call.signal {
            Signal::Nothing => health.call_time.put_back(1),
            Signal::Works | Signal::Rest { .. } | Signal::Fails => health.call_time.ended(now, call.began),
        }
        health.breaker.ended(now, call)
    }
}

/// An attempt that has begun. One that is dropped, as by a panic of its client, says nothing about its host: its probe is
/// left to others.
pub struct HostAttempt {
    /// Until it has ended.
    gate: Option<Arc<HostGate>>,
    began: Millis,
}

impl HostAttempt {
    /// Returns what is worth a line in the log.
    pub fn ended(mut self, now: Millis, signal: Signal) -> Option<News> {
        self.gate.take()?.ended(now, Call { began: self.began, signal })
    }
}

impl Drop for HostAttempt {
    fn drop(&mut self) {
        if let Some(gate) = self.gate.take() {
            gate.ended(self.began, Call { began: self.began, signal: Signal::Nothing });
        }
    }
}

/// A message that waits for a place. It leaves the line when this is dropped.
pub struct Queued {
    gate: Arc<HostGate>,
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut health = self.gate.health();
        health.waiting = health.waiting.saturating_sub(1);
    }
}

impl Hosts {
    pub fn new(concurrency_max: usize) -> Self {
        Self { concurrency_max, known: Mutex::default() }
    }

    /// The gate of a tenant at a host. Kept as long as it is in use or the host does not work.
    pub fn gate(&self, host: &Host, tenant: TenantId, now: Millis) -> Arc<HostGate> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (host.clone(), tenant);
        if let Some(gate) = known.gates.get(&key) {
            return Arc::clone(gate);
        }
        if known.gates.len() >= known.forget_at {
            let is_crowded = known.gates.len() >= FAILING_MAX;
            known
                .gates
                .retain(|_, gate| Arc::strong_count(gate) > 1 || (!is_crowded && gate.health().is_failing));
            known.forget_at = FORGET_AT.max(known.gates.len() * 2);
        }
        let of_host = known.gates.range((host.clone(), TenantId(0))..=(host.clone(), TenantId(u32::MAX)));
        let gate = match of_host.map(|(_, gate)| gate).next() {
            Some(other) => HostGate::beside(self.concurrency_max, now, Arc::clone(&other.shared)),
            None => HostGate::new(self.concurrency_max, now),
        };
        let gate = Arc::new(gate);
        known.gates.insert(key, Arc::clone(&gate));
        gate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::limits::{BREAKER_CALLS_MIN, BREAKER_OPEN_MS_MIN, BREAKER_PROBES};

    const NOW: Millis = Millis(1_000_000);
    const TENANT: TenantId = TenantId(1);
    const OTHER: TenantId = TenantId(2);

    fn host(number: usize) -> Host {
        Host::Name(format!("{number}.example"))
    }

    fn call(gate: &HostGate, signal: Signal) -> Option<News> {
        gate.ended(NOW, Call { began: NOW, signal })
    }

    #[test]
    fn hosts_in_use_are_kept_and_others_forgotten() {
        let hosts = Hosts::new(2);
        let held = hosts.gate(&host(0), TENANT, NOW);
        call(&hosts.gate(&host(1), TENANT, NOW), Signal::Rest { after_ms: Some(5_000) });
        for number in 2..10 * FORGET_AT {
            drop(hosts.gate(&host(number), TENANT, NOW));
        }
        assert!(Arc::ptr_eq(&held, &hosts.gate(&host(0), TENANT, NOW)));
        assert_eq!(hosts.gate(&host(1), TENANT, NOW).enter(NOW).err(), Some(5_000), "its rest is remembered");
        assert!(hosts.known.lock().expect("no test panics here").gates.len() <= FORGET_AT);
    }

    #[test]
    fn a_host_that_does_not_answer_is_left_alone_and_no_other() {
        let hosts = Hosts::new(2);
        let (dead, alive) = (hosts.gate(&host(0), TENANT, NOW), hosts.gate(&host(1), TENANT, NOW));
        let mut news = None;
        for _ in 0..BREAKER_CALLS_MIN {
            news = dead.enter(NOW).expect("it is not known yet").ended(NOW, Signal::Fails);
        }
        assert!(matches!(news, Some(News::Opened { .. })), "{news:?}");
        assert!(dead.enter(NOW).is_err());
        assert!(alive.enter(NOW).is_ok());
    }

    /// As when a client panics: nothing ends the attempts that it had begun.
    #[test]
    fn probes_that_are_dropped_are_left_to_others() {
        let gate = Hosts::new(2).gate(&host(0), TENANT, NOW);
        for _ in 0..BREAKER_CALLS_MIN {
            call(&gate, Signal::Fails);
        }
        assert!(gate.enter(NOW).is_err());
        let later = NOW.plus(BREAKER_OPEN_MS_MIN);
        for probe in 0..2 * BREAKER_PROBES {
            let entered = gate.enter(later);
            assert!(entered.is_ok(), "probe {probe}");
            drop(entered);
        }
        let mut probes: Vec<_> = (0..BREAKER_PROBES).map(|_| gate.enter(later).expect("a probe")).collect();
        assert!(gate.enter(later).is_err());
        drop(probes.pop());
        probes.push(gate.enter(later).expect("the one that was dropped"));
        assert!(gate.enter(later).is_err(), "and no other");
    }

    // fixes: security L3
    #[test]
    fn one_tenants_answers_rest_a_shared_host_for_no_other_tenant() {
        let hosts = Hosts::new(2);
        let (loud, quiet) = (hosts.gate(&host(0), TENANT, NOW), hosts.gate(&host(0), OTHER, NOW));
        call(&loud, Signal::Rest { after_ms: Some(3_600_000) });
        assert_eq!(loud.enter(NOW).err(), Some(3_600_000));
        assert!(quiet.enter(NOW).is_ok());
        for _ in 0..BREAKER_CALLS_MIN {
            call(&hosts.gate(&host(1), TENANT, NOW), Signal::Fails);
        }
        assert!(hosts.gate(&host(1), TENANT, NOW).enter(NOW).is_err());
        assert!(hosts.gate(&host(1), OTHER, NOW).enter(NOW).is_ok(), "the breaker is the tenant's own");
        assert_eq!(call(&hosts.gate(&host(1), OTHER, NOW), Signal::Works), None);
    }

    // fixes: security L3
    #[test]
    fn tenants_share_the_places_of_a_host_and_none_has_them_all() {
        let hosts = Hosts::new(2);
        let (loud, quiet) = (hosts.gate(&host(0), TENANT, NOW), hosts.gate(&host(0), OTHER, NOW));
        assert!(Arc::ptr_eq(&loud.shared, &quiet.shared));
        assert!(!Arc::ptr_eq(&loud.shared, &hosts.gate(&host(1), OTHER, NOW).shared));
        assert_eq!((loud.own.available_permits(), loud.shared.available_permits()), (2, 2 * TENANTS_AT_ONCE));
    }

    /// What one shipment after another finds at a host that is slow: a channel that cannot ask for places in advance.
    // fixes: interop F1
    #[test]
    fn slots_of_a_host_follow_one_another_at_its_own_rate() {
        let gate = Arc::new(HostGate::new(8, Millis(0)));
        let mut now = Millis(0);
        for _ in 0..50 {
            let attempt = gate.enter(now).expect("it works");
            now = now.plus(400);
            attempt.ended(now, Signal::Works);
        }
        let until = now.plus(2_000);
        let queued: Vec<_> = (0..160).map(|_| gate.line_up(now, until)).collect();
        let waiting = queued.iter().filter(|one| one.is_ok()).count();
        assert_eq!(waiting, 8 + 40, "eight begin, and one every 50 ms");
        let waits: Vec<u64> = queued.iter().filter_map(|one| one.as_ref().err().copied()).collect();
        assert_eq!((waits[0], waits.len()), (48 * 50 - 1_000, 112), "a second before the first slot");
        assert!(waits.windows(2).all(|pair| pair[1] == pair[0] + 50), "{waits:?}");
    }
}
