//! Where the connections and the credentials of an account go, as its settings say it.
//!
//! Each kind of account takes its settings apart field by field to list them, so a new setting is either listed or said to lead
//! nowhere. Two rules stand on the list: what the operator's policy forbids is refused before anything is stored, and stored
//! credentials do not follow to a new place.

use crate::fields::{Base, SettingsError};
use fantail_outbound::policy::{Destination, Policy, Service};
use fantail_outbound::url::Host;
use std::net::SocketAddr;

/// One setting that says where something goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountTarget {
    /// A JSON pointer into the settings, or into the credentials.
    pub pointer: &'static str,
    /// What it says, with the default if it says nothing. Compared, never shown.
    value: String,
    /// What is connected to, with the pointer of the setting that says so; `None` if it only changes who is trusted there.
    connection: Option<(&'static str, Destination)>,
}

impl AccountTarget {
    /// A setting that changes who gets the credentials, but not where connections go.
    pub fn value(pointer: &'static str, value: impl Into<String>) -> Self {
        Self { pointer, value: value.into(), connection: None }
    }

    /// A service over HTTP.
    pub fn base(pointer: &'static str, base: &Base, connect_to: Option<SocketAddr>) -> Self {
        let named = Destination {
            host: Host::of(&base.host),
            port: base.port,
            is_plain: !base.is_tls,
            service: Service::Web,
        };
        let scheme = if base.is_tls { "https" } else { "http" };
        let value = format!("{scheme}://{}{}", base.authority(), base.path);
        Self::new(pointer, value, named, connect_to)
    }

    /// A destination that the settings name, unless they connect elsewhere.
    pub fn new(
        pointer: &'static str,
        value: impl Into<String>,
        named: Destination,
        connect_to: Option<SocketAddr>,
    ) -> Self {
        let connection = match connect_to {
            Some(address) => ("/settings/connectTo", at(&named, address)),
            None => (pointer, named),
        };
        Self { pointer, value: value.into(), connection: Some(connection) }
    }

    /// An address that is connected to whatever the names say.
    pub fn connect_to(pointer: &'static str, address: Option<SocketAddr>, is_plain: bool) -> Self {
        let value = address.map_or_else(String::new, |address| address.to_string());
        let destination = |address: SocketAddr| Destination {
            host: Host::Address(address.ip()),
            port: address.port(),
            is_plain,
            service: Service::Web,
        };
        Self { pointer, value, connection: address.map(|address| (pointer, destination(address))) }
    }

    /// What is connected to.
    #[must_use]
    pub fn destination(&self) -> Option<&Destination> {
        self.connection.as_ref().map(|(_, destination)| destination)
    }
}

fn at(named: &Destination, address: SocketAddr) -> Destination {
    Destination { host: Host::Address(address.ip()), port: address.port(), ..named.clone() }
}

/// Refuses what the policy can never allow, at the setting that says so.
pub fn judge(targets: &[AccountTarget], policy: &Policy) -> Result<(), SettingsError> {
    for (pointer, destination) in targets.iter().filter_map(|target| target.connection.as_ref()) {
        policy.judge(destination).map_err(|forbidden| SettingsError::new(*pointer, forbidden.to_string()))?;
    }
    Ok(())
}

/// The settings that send credentials elsewhere than before.
#[must_use]
pub fn moved(before: &[AccountTarget], after: &[AccountTarget]) -> Vec<&'static str> {
    let is_known = |target: &&AccountTarget| {
        before.iter().any(|known| (known.pointer, &known.value) == (target.pointer, &target.value))
    };
    after.iter().filter(|target| !is_known(target)).map(|target| target.pointer).collect()
}
