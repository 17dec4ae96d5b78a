//! Limits of one address: requests without a key, and failed logins.
//!
//! Input: what the limits of a client are counted by, as `client_address` has found it. Decides: whether it may ask now, and if not, when. Invariant:
//! memory is bounded: of the addresses that asked last so many are remembered, the others begin anew.

use crate::client_address::AddressRules;
use crate::problem::Problem;
use crate::telemetry::{Counter, Text};
use fantail_rules::ids::Millis;
use fantail_rules::limits::ADDRESSES_REMEMBERED_MAX;
use fantail_rules::pacing::{Allowance, Rate, charge, retry_after_s};
use fantail_wire::code::Code;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// A failed login costs so much, and so much comes back in a second as may fail in a minute.
const FAILED_LOGIN_COST: u32 = 60;

/// The operator's settings for addresses.
#[derive(Clone, Debug, Default)]
pub struct AddressSettings {
    pub rules: AddressRules,
    /// Requests without a key in a second; 0: no limit.
    pub requests_per_second: u32,
    /// 0: no limit.
    pub failed_logins_per_minute: u32,
}

#[derive(Debug, Default)]
pub struct AddressLimits {
    settings: AddressSettings,
    used: Mutex<Generations>,
    requests_limited: Counter,
    logins_limited: Counter,
}

/// Requests and failed logins of an address so far.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    requests: Allowance,
    failed_logins: Allowance,
}

/// When the newer one is full it becomes the older one, which is dropped.
#[derive(Debug, Default)]
struct Generations {
    newer: HashMap<IpAddr, Used>,
    older: HashMap<IpAddr, Used>,
}

impl Generations {
    fn used_by(&mut self, address: IpAddr) -> &mut Used {
        if self.newer.len() >= ADDRESSES_REMEMBERED_MAX && !self.newer.contains_key(&address) {
            self.older = std::mem::take(&mut self.newer);
        }
        let known = self.older.remove(&address).unwrap_or_default();
        self.newer.entry(address).or_insert(known)
    }
}

impl AddressLimits {
    #[must_use]
    pub fn new(settings: AddressSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    #[must_use]
    pub fn rules(&self) -> &AddressRules {
        &self.settings.rules
    }

    /// Charges a request without a key.
    pub fn charge_request(&self, limited_as: Option<IpAddr>, now: Millis) -> Result<(), Problem> {
        let per_second = self.settings.requests_per_second;
        let rate = Rate { per_second, burst: per_second.saturating_mul(2) };
        self.charge(limited_as, now, rate, 1, |used| &mut used.requests, true).map_err(|wait_ms| {
            self.requests_limited.add(1);
            refused("this address asks too often without a key", wait_ms)
        })
    }

    /// Charges a login that failed. Refused: so many have failed that it is not even said why.
    pub fn charge_failed_login(&self, limited_as: Option<IpAddr>, now: Millis) -> Result<(), Problem> {
        self.login(limited_as, now, true)
    }

    /// Whether the address may try a key that could be guessed.
    pub fn require_guess_allowed(&self, limited_as: Option<IpAddr>, now: Millis) -> Result<(), Problem> {
        self.login(limited_as, now, false)
    }

    fn login(&self, limited_as: Option<IpAddr>, now: Millis, is_charged: bool) -> Result<(), Problem> {
        let per_minute = self.settings.failed_logins_per_minute;
        let burst = per_minute.saturating_mul(FAILED_LOGIN_COST);
        let rate = Rate { per_second: per_minute, burst };
        let charged =
            self.charge(limited_as, now, rate, FAILED_LOGIN_COST, |used| &mut used.failed_logins, is_charged);
        charged.map_err(|wait_ms| {
            self.logins_limited.add(1);
            refused("too many logins from this address have failed", wait_ms)
        })
    }

    fn charge(
        &self,
        limited_as: Option<IpAddr>,
        now: Millis,
        rate: Rate,
        cost: u32,
        of: fn(&mut Used) -> &mut Allowance,
        is_charged: bool,
    ) -> Result<(), u64> {
        let Some(address) = limited_as.filter(|_| rate.per_second > 0) else {
            return Ok(());
        };
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let allowance = of(used.used_by(address));
        let mut parts = [(rate, *allowance)];
        let charged = charge(&mut parts, now, cost);
        if is_charged {
            *allowance = parts[0].1;
        }
        charged
    }

    pub fn write(&self, text: &mut Text) {
        let name = "fantail_address_limited_total";
        text.family(name, "counter", "Requests refused because of what their address asked before, by limit");
        text.sample(name, &[("limit", "requests")], self.requests_limited.get());
        text.sample(name, &[("limit", "failed_logins")], self.logins_limited.get());
    }
}

fn refused(detail: &'static str, wait_ms: u64) -> Problem {
    Problem::new(Code::AddressRateLimited, detail).retry_after_s(retry_after_s(wait_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn limits() -> AddressLimits {
        let (requests_per_second, failed_logins_per_minute) = (10, 3);
        AddressLimits::new(AddressSettings {
            rules: AddressRules::default(),
            requests_per_second,
            failed_logins_per_minute,
        })
    }

    const PEER: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
    const OTHER: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)));

    // fixes: security M6
    #[test]
    fn an_address_asks_at_its_rate_and_holds_up_no_other() {
        let limits = limits();
        let asked = |peer, at| (0..1_000).filter(|_| limits.charge_request(peer, Millis(at)).is_ok()).count();
        assert_eq!(asked(PEER, 0), 20);
        assert_eq!(asked(OTHER, 0), 20);
        assert_eq!(asked(None, 0), 1_000, "what has no limit has none");
        let later = asked(PEER, 1_000);
        assert!((10..=20).contains(&later), "{later}");
    }

    // fixes: security M12
    #[test]
    fn so_many_logins_fail_in_a_minute() {
        let limits = limits();
        for _ in 0..3 {
            assert!(limits.require_guess_allowed(PEER, Millis(0)).is_ok());
            assert!(limits.charge_failed_login(PEER, Millis(0)).is_ok());
        }
        assert!(limits.require_guess_allowed(PEER, Millis(0)).is_err());
        assert!(limits.charge_failed_login(PEER, Millis(0)).is_err());
        assert!(limits.require_guess_allowed(OTHER, Millis(0)).is_ok());
        assert!(
            limits.charge_failed_login(PEER, Millis(20_000)).is_ok(),
            "a third of a minute gives one back"
        );
        assert!(limits.charge_request(PEER, Millis(20_000)).is_ok(), "requests have their own limit");
    }

    #[test]
    fn zero_is_no_limit() {
        let limits = AddressLimits::default();
        assert!((0..10_000).all(|_| limits.charge_request(PEER, Millis(0)).is_ok()
            && limits.charge_failed_login(PEER, Millis(0)).is_ok()));
    }

    #[test]
    fn addresses_are_forgotten_rather_than_piled_up() {
        let limits = limits();
        for no in 0..3 * ADDRESSES_REMEMBERED_MAX as u32 {
            let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | no));
            assert!(limits.charge_request(Some(address), Millis(0)).is_ok());
        }
        let used = limits.used.lock().expect("no test panicked");
        assert!(used.newer.len() <= ADDRESSES_REMEMBERED_MAX && used.older.len() <= ADDRESSES_REMEMBERED_MAX);
    }
}
