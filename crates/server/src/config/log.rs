//! Settings of the log: how lines look, and which are written.

use super::{ConfigError, Layers, LogFormat};

impl Layers {
    pub(super) fn log_format(&self) -> Result<LogFormat, ConfigError> {
        match self.get("log.format").0 {
            "compact" => Ok(LogFormat::Compact),
            "json" => Ok(LogFormat::Json),
            _ => Err(self.invalid("log.format", "must be compact or json")),
        }
    }

    pub(super) fn log_level(&self) -> Result<tracing::Level, ConfigError> {
        self.parse("log.level", "must be error, warn, info, debug or trace")
    }
}
