//! Limits of addresses, and the proxies in front.

use super::{ConfigError, Layers};
use fantail_api::address_limits::AddressSettings;
use fantail_api::client_address::AddressRules;

/// More than any peer asks for.
const PER_SECOND_MAX: u32 = 1_000_000;
const PER_MINUTE_MAX: u32 = 1_000_000;

impl Layers {
    pub(super) fn addresses(&self) -> Result<AddressSettings, ConfigError> {
        let named =
            self.get("http.trusted_proxies").0.split(',').map(str::trim).filter(|one| !one.is_empty());
        let wrong = "must be networks like 10.0.0.0/8, separated by commas";
        let trusted_proxies: Result<_, _> = named.map(str::parse).collect();
        Ok(AddressSettings {
            rules: AddressRules {
                trusted_proxies: trusted_proxies.map_err(|_| self.invalid("http.trusted_proxies", wrong))?,
                limits_loopback: self.flag("http.limit_loopback")?,
            },
            requests_per_second: self.number("http.requests_per_address", 0, PER_SECOND_MAX)?,
            failed_logins_per_minute: self.number("http.failed_logins_per_address", 0, PER_MINUTE_MAX)?,
        })
    }
}
