//! Whether a target may be connected to: first by its URL, then by each address that its name has.
//!
//! What must never happen: an answer that tells a stranger which address a name has inside the house; so the reasons
//! name none.

use super::address::{Network, Reach, reach};
use super::settings::{PortRule, Settings};
use super::url::{Host, Origin, Scheme};
use std::net::IpAddr;

#[derive(Clone, Debug)]
pub struct Policy {
    http_allowed: bool,
    ports: PortRule,
    private_networks: Vec<Network>,
    private_hosts: Vec<String>,
}

/// Why a target may not be connected to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Forbidden {
    #[error("the URL is not https")]
    Http,
    #[error("port {port} is not allowed")]
    Port { port: u16 },
    #[error("the host has no domain")]
    ShortName,
    #[error("the host has no address that is allowed")]
    Address,
}

impl Policy {
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            http_allowed: settings.http_allowed,
            ports: settings.ports.clone(),
            private_networks: settings.private_networks.clone(),
            private_hosts: settings.private_hosts.clone(),
        }
    }

    /// What can be said without resolving a name.
    pub fn judge(&self, origin: &Origin) -> Result<(), Forbidden> {
        if origin.scheme == Scheme::Http && !self.http_allowed {
            return Err(Forbidden::Http);
        }
        let is_port_allowed = match &self.ports {
            PortRule::Any => true,
            PortRule::Only(ports) => ports.contains(&origin.port),
        };
        if !is_port_allowed {
            return Err(Forbidden::Port { port: origin.port });
        }
        match &origin.host {
            Host::Address(address) if !self.allows(&origin.host, *address) => Err(Forbidden::Address),
            // A resolver would look for it inside the house first.
            Host::Name(name) if !name.contains('.') && !self.is_private_host(name) => {
                Err(Forbidden::ShortName)
            }
            Host::Address(_) | Host::Name(_) => Ok(()),
        }
    }

    /// Whether this host may be connected to at this address.
    #[must_use]
    pub fn allows(&self, host: &Host, address: IpAddr) -> bool {
        let is_listed = || self.private_networks.iter().any(|network| network.contains(address));
        let is_named = || match host {
            Host::Name(name) => self.is_private_host(name),
            Host::Address(_) => false,
        };
        match reach(address) {
            Reach::Public => true,
            Reach::Private => is_listed() || is_named(),
            Reach::Special => is_listed(),
        }
    }

    fn is_private_host(&self, name: &str) -> bool {
        self.private_hosts
            .iter()
            .any(|rule| if rule.starts_with('.') { name.ends_with(rule.as_str()) } else { name == rule })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::url::Url;

    fn policy(change: impl FnOnce(&mut Settings)) -> Policy {
        let mut settings = Settings::default();
        change(&mut settings);
        Policy::new(&settings)
    }

    fn check(policy: &Policy, url: &str, expected: Result<(), Forbidden>) {
        let url = Url::parse(url).expect("a URL");
        assert_eq!(policy.judge(&url.origin), expected, "{url}");
    }

    #[test]
    fn by_default_https_to_the_public() {
        let policy = policy(|_| ());
        check(&policy, "https://example.org/", Ok(()));
        check(&policy, "https://example.org:8443/", Ok(()));
        check(&policy, "https://1.1.1.1/", Ok(()));
        check(&policy, "http://example.org/", Err(Forbidden::Http));
        check(&policy, "https://example.org:22/", Err(Forbidden::Port { port: 22 }));
        check(&policy, "https://localhost/", Err(Forbidden::ShortName));
        check(&policy, "https://metadata/", Err(Forbidden::ShortName));
        check(&policy, "https://127.0.0.1/", Err(Forbidden::Address));
        check(&policy, "https://[::1]/", Err(Forbidden::Address));
    }

    #[test]
    fn private_targets_are_named() {
        let policy = policy(|settings| {
            settings.private_networks = vec!["10.1.0.0/16".parse().expect("a network")];
            settings.private_hosts = vec!["hooks".into(), ".corp.example".into()];
        });
        check(&policy, "https://10.1.2.3/", Ok(()));
        check(&policy, "https://10.2.2.3/", Err(Forbidden::Address));
        check(&policy, "https://hooks/", Ok(()));
        check(&policy, "https://other/", Err(Forbidden::ShortName));
        for (host, address, expected) in [
            ("hooks", "192.168.0.1", true),
            ("a.corp.example", "127.0.0.1", true),
            ("corp.example", "127.0.0.1", false),
            ("evilcorp.example", "127.0.0.1", false),
            ("a.corp.example.evil.example", "127.0.0.1", false),
            ("hooks", "169.254.169.254", false),
            ("hooks", "::ffff:10.1.2.3", false),
            ("example.org", "10.1.2.3", true),
            ("example.org", "10.2.2.3", false),
            ("example.org", "8.8.8.8", true),
        ] {
            let allowed = policy.allows(&Host::Name(host.into()), address.parse().expect("an address"));
            assert_eq!(allowed, expected, "{host} {address}");
        }
    }
}
