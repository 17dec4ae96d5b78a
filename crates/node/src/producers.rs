//! How fast producers may ask: an allowance for every tenant and every key that has a rate.
//!
//! Comes from: the API, before anything is stored. Decides: nothing; `rules::pacing` does. Goes to: the handler, or 429.
//! Kept in memory: a restart forgives. What must never happen: memory that grows with the number of keys that ever were,
//! so what is whole again is forgotten.

use crate::ask::{KeyView, Rate, Refusal};
use crate::core::Core;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::{ALLOWANCES_MAX, IMPORT_ITEMS_PER_COST};
use fantail_rules::pacing::{Allowance, charge};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Rates of tenants and keys that have none of their own. `None`: as fast as they like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Defaults {
    pub tenant: Option<Rate>,
    pub key: Option<Rate>,
}

/// A tenant, or one of its keys, and what it does.
type Producer = (TenantId, Option<String>, Work);

/// What is charged: each has an allowance of its own at the same rate, so that an import holds up no sends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Work {
    Sends,
    Imports,
}

pub struct Producers {
    defaults: Defaults,
    allowances: Mutex<BTreeMap<Producer, (Rate, Allowance)>>,
}

impl Producers {
    #[must_use]
    pub fn new(defaults: Defaults) -> Self {
        Self { defaults, allowances: Mutex::default() }
    }

    fn charge(&self, rates: Vec<(Producer, Rate)>, now: Millis, cost: u32) -> Result<(), Refusal> {
        if rates.is_empty() {
            return Ok(());
        }
        let mut allowances = self.allowances.lock().unwrap_or_else(PoisonError::into_inner);
        if allowances.len() >= ALLOWANCES_MAX {
            allowances.retain(|_, (rate, allowance)| !allowance.is_whole(*rate, now));
        }
        let used = |producer| allowances.get(producer).map(|(_, allowance)| *allowance).unwrap_or_default();
        let mut parts: Vec<_> = rates.iter().map(|(producer, rate)| (*rate, used(producer))).collect();
        let charged = charge(&mut parts, now, cost);
        allowances.extend(rates.into_iter().map(|(producer, _)| producer).zip(parts));
        charged.map_err(|retry_after_ms| Refusal::TooFast { retry_after_ms })
    }
}

/// What so many users, edges or lines of an upload cost: they are stored once and sent nowhere.
#[must_use]
pub fn cost_of_import(items: usize) -> u32 {
    u32::try_from(items.div_ceil(IMPORT_ITEMS_PER_COST)).unwrap_or(u32::MAX)
}

/// Charges a request to its tenant and its key; the server's own key has no limit beside the tenant's.
pub fn spend(
    core: &Core,
    tenant: TenantId,
    key: Option<&KeyView>,
    work: Work,
    cost: u32,
) -> Result<(), Refusal> {
    let control = core.control.now();
    let view = control.tenants.get(&tenant).ok_or(Refusal::UnknownTenant)?;
    let producers = &core.producers;
    let limited = |rate: &Rate| rate.per_second > 0;
    let of_tenant = view.rate.or(producers.defaults.tenant).filter(limited);
    let of_key = key.and_then(|key| key.rate.or(producers.defaults.key)).filter(limited);
    let mut rates = Vec::new();
    rates.extend(of_tenant.map(|rate| ((tenant, None, work), rate)));
    rates.extend(of_key.zip(key).map(|(rate, key)| ((tenant, Some(key.id.clone()), work), rate)));
    producers.charge(rates, core.ports.clock.monotonic(), cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::pacing::retry_after_s;
    use std::collections::BTreeSet;

    fn one(tenant: u32, key: Option<&str>) -> Producer {
        (TenantId(tenant), key.map(str::to_owned), Work::Sends)
    }

    /// Producers that send as fast as they may, and come back when `Retry-After` says so. Returns what was taken of each by
    /// this time.
    fn obey(producers: &[(Vec<(Producer, Rate)>, u32)], until: Millis) -> Vec<u64> {
        let limits = Producers::new(Defaults::default());
        let mut taken = vec![0; producers.len()];
        let mut next: BTreeSet<(Millis, usize)> = (0..producers.len()).map(|no| (Millis(0), no)).collect();
        while let Some((now, no)) = next.pop_first().filter(|(now, _)| *now < until) {
            let (rates, cost) = &producers[no];
            let wait_ms = match limits.charge(rates.clone(), now, *cost) {
                Ok(()) => {
                    taken[no] += u64::from(*cost);
                    0
                }
                Err(Refusal::TooFast { retry_after_ms }) => retry_after_s(retry_after_ms) * 1_000,
                Err(other) => panic!("{other}"),
            };
            next.insert((now.plus(wait_ms), no));
        }
        taken
    }

    // fixes: interop F1
    #[test]
    fn producers_that_obey_get_the_rate_of_their_tenant_and_of_their_keys() {
        let rate = |per_second, burst| Rate { per_second, burst };
        let key = |name| (TenantId(1), Some(String::from(name)), Work::Sends);
        let tenant = || one(1, None);
        for burst in [1, 30, 100] {
            for seconds in [20, 100] {
                let until = Millis(seconds * 1_000);
                // Two keys with no limit but the tenant's; requests of 1 and of 70.
                let alone =
                    |name, cost| (vec![(tenant(), rate(100, burst)), (key(name), rate(100, 100))], cost);
                let taken: u64 = obey(&[alone("a", 1), alone("b", 70)], until).iter().sum();
                assert!(taken >= 90 * seconds, "{taken} in {seconds} s, burst {burst}");
                assert!(taken <= 100 * (seconds + 1) + u64::from(burst) + 70, "{taken} in {seconds} s");
                // One key is slower than the tenant: it has its own rate, the other one what is left.
                let slow = (vec![(tenant(), rate(100, burst)), (key("a"), rate(20, 5))], 1);
                let taken = obey(&[slow, alone("b", 1)], until);
                assert!(taken.iter().sum::<u64>() >= 90 * seconds, "{taken:?} in {seconds} s, burst {burst}");
            }
        }
    }

    /// 100,000 users at once, where ten users cost one: 100 times the burst.
    // fixes: interop F1
    #[test]
    fn an_import_larger_than_the_burst_is_not_refused_for_ever() {
        let import =
            (vec![((TenantId(1), None, Work::Imports), Rate { per_second: 1_000, burst: 100 })], 10_000);
        let taken = obey(&[import], Millis(200_000));
        assert!((180_000..=210_000).contains(&taken[0]), "{taken:?}");
    }

    // fixes: security M8
    #[test]
    fn an_import_is_charged_and_holds_up_no_sends() {
        let producers = Producers::new(Defaults::default());
        let rate = Rate { per_second: 1, burst: 2 };
        let ask = |work, cost| {
            let producer = (TenantId(1), None, work);
            producers.charge(vec![(producer, rate)], Millis(1_000), cost)
        };
        assert_eq!(cost_of_import(10_000), 1_000);
        assert_eq!((cost_of_import(1), cost_of_import(10), cost_of_import(11)), (1, 1, 2));
        assert_eq!(ask(Work::Imports, cost_of_import(10_000)), Ok(()), "a full allowance lets it in");
        assert!(matches!(ask(Work::Imports, 1), Err(Refusal::TooFast { .. })), "the debt has to be paid");
        assert_eq!(ask(Work::Sends, 2), Ok(()));
    }

    // proves: RL-05, TEN-01
    #[test]
    fn producers_do_not_pay_for_each_other() {
        let producers = Producers::new(Defaults::default());
        let rate = Rate { per_second: 1, burst: 2 };
        let ask = |who: &[Producer], now| {
            producers.charge(who.iter().map(|one| (one.clone(), rate)).collect(), Millis(now), 1)
        };
        let both = [one(1, None), one(1, Some("a"))];
        assert_eq!(ask(&both, 0), Ok(()));
        assert_eq!(ask(&[one(1, Some("a"))], 0), Ok(()));
        assert_eq!(ask(&both, 0), Err(Refusal::TooFast { retry_after_ms: 1_000 }), "the key is used up");
        assert_eq!(ask(&[one(1, None), one(1, Some("b"))], 0), Ok(()), "another key of the tenant");
        assert_eq!(ask(&[one(1, None)], 0), Err(Refusal::TooFast { retry_after_ms: 1_000 }), "the tenant is");
        assert_eq!(ask(&[one(2, None)], 0), Ok(()), "another tenant");
        assert_eq!(ask(&[], 0), Ok(()), "no limit");
        assert_eq!(ask(&both, 1_000), Ok(()));
    }

    #[test]
    fn what_is_whole_again_is_forgotten() {
        let producers = Producers::new(Defaults::default());
        let rate = Rate { per_second: 1, burst: 1 };
        for no in 0..ALLOWANCES_MAX {
            let key = one(1, Some(&no.to_string()));
            assert_eq!(producers.charge(vec![(key, rate)], Millis(0), 1), Ok(()));
        }
        assert_eq!(producers.charge(vec![(one(1, None), rate)], Millis(1_000), 1), Ok(()));
        assert_eq!(producers.allowances.lock().expect("nobody panicked").len(), 1);
    }
}
