//! What an operator chooses about webhooks. The defaults allow https to public addresses and nothing else.
//!
//! What must never happen: a setting that switches the address filter off as a whole. Private targets are named one by
//! one, as networks or as hosts.

use super::address::Network;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Plain http sends content and signature in the clear. For receivers inside the house.
    pub http_allowed: bool,
    pub ports: PortRule,
    /// Addresses that are connected to although they are not public.
    pub private_networks: Vec<Network>,
    /// Names that may have private addresses: `hooks.internal`, or `.internal` for all below. Never makes a link-local
    /// or otherwise special address reachable; only a network does.
    pub private_hosts: Vec<String>,
    /// Certificates in PEM, trusted beside the public ones.
    pub extra_roots_pem: Vec<u8>,
    /// For each address: TCP and TLS together; also for looking up a name.
    pub connect_timeout_ms: u64,
    /// From the first step of an attempt to the status. Standard Webhooks wants 15 to 30 s.
    pub total_timeout_ms: u64,
    /// Attempts under way in one shipment.
    pub shipment_concurrency_max: usize,
    /// Attempts under way to one host, so that a receiver is not trampled and a slow one does not take all the room.
    pub host_concurrency_max: usize,
    /// Attempts under way altogether: each holds a file descriptor.
    pub concurrency_max: usize,
    /// Connections that wait for their next message, altogether; for one host `host_concurrency_max` is the limit.
    pub idle_connections_max: usize,
    /// Below the shortest common limit of servers (5 s): a connection that its server closes while a message is being
    /// written makes an attempt of which nobody knows whether it arrived.
    pub idle_ms_max: u64,
    pub body_bytes_max: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortRule {
    Only(Vec<u16>),
    Any,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("{setting} must be at least 1")]
    Zero { setting: &'static str },
    #[error("connecting may take {connect_ms} ms, longer than everything together, {total_ms} ms")]
    ConnectBeyondTotal { connect_ms: u64, total_ms: u64 },
    #[error("`{host}` in private_hosts is no host name")]
    BadPrivateHost { host: String },
    #[error(
        "any port, plain http and private targets together make every service inside reachable: limit the ports"
    )]
    TooOpen,
    #[error("extra_roots_pem holds no usable certificate: {cause}")]
    BadRoots { cause: String },
    #[error("TLS cannot be set up: {cause}")]
    Tls { cause: String },
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            http_allowed: false,
            ports: PortRule::Only(vec![443, 8443]),
            private_networks: Vec::new(),
            private_hosts: Vec::new(),
            extra_roots_pem: Vec::new(),
            connect_timeout_ms: 5_000,
            total_timeout_ms: 15_000,
            shipment_concurrency_max: 64,
            host_concurrency_max: 8,
            concurrency_max: 512,
            idle_connections_max: 256,
            idle_ms_max: 4_000,
            body_bytes_max: 1_048_576,
        }
    }
}

impl Settings {
    /// Said at start, so that a mistake does not wait for the first message.
    pub fn check(&self) -> Result<(), SettingsError> {
        for (setting, is_zero) in [
            ("connect_timeout_ms", self.connect_timeout_ms == 0),
            ("total_timeout_ms", self.total_timeout_ms == 0),
            ("shipment_concurrency_max", self.shipment_concurrency_max == 0),
            ("host_concurrency_max", self.host_concurrency_max == 0),
            ("concurrency_max", self.concurrency_max == 0),
            ("body_bytes_max", self.body_bytes_max == 0),
        ] {
            if is_zero {
                return Err(SettingsError::Zero { setting });
            }
        }
        if self.connect_timeout_ms > self.total_timeout_ms {
            let (connect_ms, total_ms) = (self.connect_timeout_ms, self.total_timeout_ms);
            return Err(SettingsError::ConnectBeyondTotal { connect_ms, total_ms });
        }
        if let Some(host) = self.private_hosts.iter().find(|host| !is_host_rule(host)) {
            return Err(SettingsError::BadPrivateHost { host: host.clone() });
        }
        let is_private = !self.private_networks.is_empty() || !self.private_hosts.is_empty();
        if self.ports == PortRule::Any && self.http_allowed && is_private {
            return Err(SettingsError::TooOpen);
        }
        self.extra_roots().map(|_| ())
    }

    pub(super) fn extra_roots(&self) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
        let bad = |cause: String| SettingsError::BadRoots { cause };
        let roots: Vec<_> = CertificateDer::pem_slice_iter(&self.extra_roots_pem)
            .collect::<Result<_, _>>()
            .map_err(|error| bad(error.to_string()))?;
        if roots.is_empty() && !self.extra_roots_pem.is_empty() {
            return Err(bad("no certificate found".into()));
        }
        Ok(roots)
    }
}

fn is_host_rule(rule: &str) -> bool {
    let name = rule.strip_prefix('.').unwrap_or(rule);
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && !name.ends_with('.') && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Settings), expected: Result<(), SettingsError>) {
        let mut settings = Settings::default();
        change(&mut settings);
        assert_eq!(settings.check(), expected, "{settings:?}");
    }

    #[test]
    fn mistakes_are_said_at_start() {
        check(|_| (), Ok(()));
        check(
            |settings| settings.host_concurrency_max = 0,
            Err(SettingsError::Zero { setting: "host_concurrency_max" }),
        );
        check(
            |settings| settings.connect_timeout_ms = 20_000,
            Err(SettingsError::ConnectBeyondTotal { connect_ms: 20_000, total_ms: 15_000 }),
        );
        check(|settings| settings.private_hosts = vec!["a.b".into(), ".internal".into()], Ok(()));
        for host in ["", ".", "..a", "A.b", "a b", "a.", "*.a"] {
            check(
                |settings| settings.private_hosts = vec![host.into()],
                Err(SettingsError::BadPrivateHost { host: host.into() }),
            );
        }
        check(
            |settings| settings.extra_roots_pem = b"no certificate".to_vec(),
            Err(SettingsError::BadRoots { cause: "no certificate found".into() }),
        );
    }

    #[test]
    fn settings_that_open_everything_together_are_refused() {
        let open = |settings: &mut Settings| {
            settings.http_allowed = true;
            settings.ports = PortRule::Any;
            settings.private_hosts = vec![".internal".into()];
        };
        check(open, Err(SettingsError::TooOpen));
        check(
            |settings| {
                open(settings);
                settings.ports = PortRule::Only(vec![8080]);
            },
            Ok(()),
        );
        check(
            |settings| {
                open(settings);
                settings.private_hosts.clear();
            },
            Ok(()),
        );
    }
}
