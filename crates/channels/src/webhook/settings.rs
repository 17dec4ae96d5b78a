//! What an operator chooses about webhooks: times, limits and certificates. Where they may go is the policy's business.

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

#[derive(Clone, Debug)]
pub struct Settings {
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

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("{setting} must be at least 1")]
    Zero { setting: &'static str },
    #[error("connecting may take {connect_ms} ms, longer than everything together, {total_ms} ms")]
    ConnectBeyondTotal { connect_ms: u64, total_ms: u64 },
    #[error("extra_roots_pem holds no usable certificate: {cause}")]
    BadRoots { cause: String },
    #[error("TLS cannot be set up: {cause}")]
    Tls { cause: String },
}

impl Default for Settings {
    fn default() -> Self {
        Self {
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
        check(
            |settings| settings.extra_roots_pem = b"no certificate".to_vec(),
            Err(SettingsError::BadRoots { cause: "no certificate found".into() }),
        );
    }
}
