//! What Apple knows about device tokens. One that nobody registered here is as good as any, unless the registry is strict.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

const DEVICES_MAX: usize = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Environment {
    Production,
    Sandbox,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Device {
    /// Since when the app is gone, in milliseconds.
    pub unregistered_ms: Option<u64>,
    pub is_expired: bool,
    pub topic: Option<String>,
    pub environment: Option<Environment>,
}

#[derive(Debug, Default)]
pub struct Registry {
    devices: Mutex<Devices>,
}

#[derive(Debug, Default)]
struct Devices {
    known: HashMap<String, Device>,
    is_strict: bool,
}

/// Why a device gets nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    Reason(&'static str),
    Gone { reason: &'static str, since_ms: u64 },
}

impl Environment {
    /// By the host that was called; `None` if that says nothing.
    #[must_use]
    pub fn of_host(host: &str) -> Option<Self> {
        if !host.ends_with(".push.apple.com") {
            return None;
        }
        let is_sandbox = host.contains("sandbox") || host.contains("development");
        Some(if is_sandbox { Self::Sandbox } else { Self::Production })
    }

    fn read(text: &str) -> Option<Self> {
        match text {
            "production" => Some(Self::Production),
            "sandbox" => Some(Self::Sandbox),
            _ => None,
        }
    }
}

impl Registry {
    /// From now on, tokens that are not registered here are bad ones.
    pub fn set_strict(&self, is_strict: bool) {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner).is_strict = is_strict;
    }

    /// `false` if there is no room.
    pub fn register(&self, token: &str, device: Device) -> bool {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if devices.known.len() >= DEVICES_MAX && !devices.known.contains_key(token) {
            return false;
        }
        devices.known.insert(token.to_ascii_lowercase(), device);
        true
    }

    /// Whether it was known.
    pub fn forget(&self, token: &str) -> bool {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        devices.known.remove(&token.to_ascii_lowercase()).is_some()
    }

    pub fn check(&self, token: &str, topic: &str, environment: Option<Environment>) -> Result<(), Refusal> {
        let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if devices.known.is_empty() && !devices.is_strict {
            return Ok(());
        }
        let Some(device) = devices.known.get(&token.to_ascii_lowercase()) else {
            return if devices.is_strict { Err(Refusal::Reason("BadDeviceToken")) } else { Ok(()) };
        };
        let differs =
            |wanted: Option<Environment>| environment.is_some() && wanted.is_some() && environment != wanted;
        if differs(device.environment) {
            return Err(Refusal::Reason("BadDeviceToken"));
        }
        if device.topic.as_deref().is_some_and(|own| own != topic) {
            return Err(Refusal::Reason("DeviceTokenNotForTopic"));
        }
        if let Some(since_ms) = device.unregistered_ms {
            return Err(Refusal::Gone { reason: "Unregistered", since_ms });
        }
        if device.is_expired { Err(Refusal::Gone { reason: "ExpiredToken", since_ms: 0 }) } else { Ok(()) }
    }
}

impl Device {
    /// `{"state": "active|unregistered|expired", "unregisteredAtMs": …, "topic": …, "environment": …}`
    pub fn read(value: &Value, now_ms: u64) -> Result<Self, &'static str> {
        let text = |field: &str| value.get(field).and_then(Value::as_str);
        let mut device = Self { topic: text("topic").map(str::to_owned), ..Self::default() };
        match text("state").unwrap_or("active") {
            "active" => {}
            "expired" => device.is_expired = true,
            "unregistered" => {
                let at = value.get("unregisteredAtMs").and_then(Value::as_u64);
                device.unregistered_ms = Some(at.unwrap_or(now_ms));
            }
            _ => return Err("state must be active, unregistered or expired"),
        }
        if let Some(environment) = text("environment") {
            let environment = Environment::read(environment);
            device.environment = Some(environment.ok_or("environment must be production or sandbox")?);
        }
        Ok(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_device_is_refused_for_its_own_reason() {
        let registry = Registry::default();
        let both = Some(Environment::Production);
        assert_eq!(registry.check("any", "app", both), Ok(()));
        for (token, value) in [
            ("aa", json!({"topic": "app", "environment": "sandbox"})),
            ("bb", json!({"state": "unregistered", "unregisteredAtMs": 77})),
            ("cc", json!({"state": "expired"})),
        ] {
            assert!(registry.register(token, Device::read(&value, 5).expect("a device")));
        }
        let reason = |reason| Err(Refusal::Reason(reason));
        let gone = |reason, since_ms| Err(Refusal::Gone { reason, since_ms });
        for (token, topic, environment, expected) in [
            ("aa", "app", Some(Environment::Sandbox), Ok(())),
            ("AA", "app", None, Ok(())),
            ("aa", "app", both, reason("BadDeviceToken")),
            ("aa", "app2", None, reason("DeviceTokenNotForTopic")),
            ("bb", "app", both, gone("Unregistered", 77)),
            ("cc", "app", both, gone("ExpiredToken", 0)),
            ("dd", "app", both, Ok(())),
        ] {
            assert_eq!(registry.check(token, topic, environment), expected, "{token}");
        }
        registry.set_strict(true);
        assert_eq!(registry.check("dd", "app", None), reason("BadDeviceToken"));
        assert!(registry.forget("bb") && !registry.forget("bb"));
    }

    #[test]
    fn hosts_tell_the_environment() {
        for (host, expected) in [
            ("api.push.apple.com", Some(Environment::Production)),
            ("api.sandbox.push.apple.com", Some(Environment::Sandbox)),
            ("api.development.push.apple.com", Some(Environment::Sandbox)),
            ("localhost", None),
        ] {
            assert_eq!(Environment::of_host(host), expected);
        }
    }
}
