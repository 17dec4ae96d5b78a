//! Places and times of connections.

use super::{ConfigError, Layers};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Http {
    pub connections_max: usize,
    /// `None`: no limit.
    pub connections_per_address: Option<usize>,
    pub header_timeout: Duration,
    pub idle_timeout: Duration,
    pub write_timeout: Duration,
    pub body_timeout: Duration,
    pub drain: Duration,
    pub slow: Duration,
}

impl Layers {
    pub(super) fn http(&self) -> Result<Http, ConfigError> {
        let seconds = |key, most| self.number::<u64>(key, 1, most).map(Duration::from_secs);
        let per_address = self.number("http.connections_per_address", 0, 1_000_000)?;
        Ok(Http {
            connections_max: self.number("http.connections_max", 1, 1_000_000)?,
            connections_per_address: (per_address > 0).then_some(per_address),
            header_timeout: seconds("http.header_timeout_s", 600)?,
            idle_timeout: seconds("http.idle_timeout_s", 3_600)?,
            write_timeout: seconds("http.write_timeout_s", 3_600)?,
            body_timeout: seconds("http.body_timeout_s", 3_600)?,
            drain: seconds("http.drain_s", 600)?,
            slow: Duration::from_millis(self.number("http.slow_ms", 1, 3_600_000)?),
        })
    }
}
