//! Where the server key comes from: the data directory, a secret, or a command that unwraps it.

use super::{ConfigError, Layers};
use crate::server_key::{ServerKey, ServerKeySource};
use std::time::Duration;

/// A program and what it is called with. Longer ones are a mistake.
const ARGUMENTS_MAX: usize = 64;

impl Layers {
    pub(super) fn server_key(&self) -> Result<ServerKeySource, ConfigError> {
        let (text, command) = (self.get("keyring.server_key"), self.get("keyring.server_key_command"));
        let arguments = self.arguments("keyring.server_key_command")?;
        let time = self.key_command_time()?;
        match (text.0, arguments.is_empty()) {
            ("", true) => Ok(ServerKeySource::DataDirectory),
            ("", false) => Ok(ServerKeySource::Command { arguments, time }),
            (key, true) => {
                let key = ServerKey::parse(key.as_bytes())
                    .map_err(|rule| self.invalid("keyring.server_key", &rule.to_string()))?;
                Ok(ServerKeySource::Given { key, setting: self.name_of_secret("keyring.server_key") })
            }
            (_, false) => {
                let (name, other) = (self.name_of_secret("keyring.server_key"), "keyring.server_key_command");
                let names = format!("{name} ({}) and {other} ({})", text.1, command.1);
                Err(ConfigError::TwoSources { names })
            }
        }
    }

    pub(super) fn key_command_time(&self) -> Result<Duration, ConfigError> {
        Ok(Duration::from_secs(self.number("keyring.command_timeout_s", 1, 600)?))
    }

    /// The setting that says what a secret is: itself, or its twin.
    fn name_of_secret(&self, key: &'static str) -> String {
        let is_of_file = self.get(key).1.starts_with("contents of ");
        if is_of_file { format!("{key}_file") } else { key.to_owned() }
    }

    /// A program with its arguments, as a list of texts in JSON.
    fn arguments(&self, key: &'static str) -> Result<Vec<String>, ConfigError> {
        let rule = "must be a list of texts, like [\"program\", \"argument\"]";
        let text = self.get(key).0;
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let arguments: Vec<String> = serde_json::from_str(text).map_err(|_| self.invalid(key, rule))?;
        let is_one = arguments.len() <= ARGUMENTS_MAX
            && arguments.first().is_none_or(|program| !program.is_empty())
            && !arguments.iter().any(|argument| argument.contains('\0'));
        if is_one { Ok(arguments) } else { Err(self.invalid(key, rule)) }
    }
}
