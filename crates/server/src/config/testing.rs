//! The switch for test doubles: the environment variable `FANTAIL_TESTING=1`.
//!
//! Invariant: without the switch, no test setting has an effect; each one that is set is refused by name.
//! Invariant: with the switch, the server listens on loopback only.

use super::{ConfigError, Layers, ListenerSettings, SETTINGS};

/// Switches test doubles on. There is no flag and no key in the file for it.
pub const SWITCH: &str = "FANTAIL_TESTING";

/// Any value except 0 and 1 is refused, so that a typing error does not go unnoticed.
pub fn read_switch(environment: &dyn Fn(&str) -> Option<String>) -> Result<bool, ConfigError> {
    match environment(SWITCH).as_deref() {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(_) => Err(ConfigError::Switch),
    }
}

impl Layers {
    pub(super) fn check_testing(&self, listeners: &[ListenerSettings]) -> Result<(), ConfigError> {
        if self.testing {
            let mut addresses = listeners.iter().map(|listener| listener.address);
            return match addresses.find(|address| !address.ip().is_loopback()) {
                None => Ok(()),
                Some(listen) => Err(ConfigError::TestingInPublic { listen }),
            };
        }
        for setting in SETTINGS.iter().filter(|setting| setting.testing) {
            let (_, source) = self.get(setting.key);
            if source != "default" {
                return Err(ConfigError::TestSetting { key: setting.key, source_name: source.to_owned() });
            }
        }
        Ok(())
    }
}
