//! Reads settings out of JSON and says what is wrong with them by name. No value is ever part of an error: it may be a secret.

use super::limits::SETTING_BYTES_MAX;
use fantail_rules::address;
use fantail_rules::channel_kind::ChannelKind;
use serde_json::{Map, Value};

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingsError {
    /// `field` is a path like `/warmUp/target`.
    #[error("{field} {reason}")]
    Field { field: String, reason: String },
    #[error("{field} cannot be used: {reason}")]
    Key { field: &'static str, reason: String },
    #[error("TLS cannot be set up: {reason}")]
    Tls { reason: String },
}

impl SettingsError {
    pub fn field(field: &str, reason: impl Into<String>) -> Self {
        Self::Field { field: format!("/{field}"), reason: reason.into() }
    }
}

/// An object of known fields.
pub struct Fields<'a> {
    object: &'a Map<String, Value>,
    /// Before each name: empty, or `warmUp/`.
    prefix: &'static str,
}

impl<'a> Fields<'a> {
    /// `known` are the names that there may be; a field that nobody reads is a mistake.
    pub fn read(value: &'a Value, prefix: &'static str, known: &[&[&str]]) -> Result<Self, SettingsError> {
        let Value::Object(object) = value else {
            return Err(SettingsError::field(prefix.trim_end_matches('/'), "must be an object"));
        };
        let is_known = |name: &str| known.iter().any(|names| names.contains(&name));
        match object.keys().find(|name| !is_known(name)) {
            // The name of an unknown field is not repeated as it is: somebody may have put a secret there.
            Some(_) => {
                Err(SettingsError::field(prefix.trim_end_matches('/'), "has a field that is not known"))
            }
            None => Ok(Self { object, prefix }),
        }
    }

    pub fn wrong(&self, name: &str, reason: impl Into<String>) -> SettingsError {
        SettingsError::field(&format!("{}{name}", self.prefix), reason)
    }

    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// One line, not empty.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, SettingsError> {
        self.text_of(name, SETTING_BYTES_MAX)
    }

    /// One line of at most so many bytes, not empty.
    pub fn text_of(&self, name: &str, bytes_max: usize) -> Result<Option<&'a str>, SettingsError> {
        let text = self.long_text(name, bytes_max)?;
        if text.is_some_and(|text| text.chars().any(char::is_control)) {
            return Err(self.wrong(name, "must be one line"));
        }
        Ok(text)
    }

    /// Any number of lines: a key or certificates.
    pub fn long_text(&self, name: &str, bytes_max: usize) -> Result<Option<&'a str>, SettingsError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let Value::String(text) = value else { return Err(self.wrong(name, "must be a text")) };
        if text.is_empty() || text.len() > bytes_max {
            return Err(self.wrong(name, format!("must have 1 to {bytes_max} bytes")));
        }
        Ok(Some(text))
    }

    pub fn required(&self, name: &str) -> Result<&'a str, SettingsError> {
        self.text(name)?.ok_or_else(|| self.wrong(name, "is needed"))
    }

    pub fn mailbox(&self, name: &str) -> Result<Option<String>, SettingsError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match address::read(ChannelKind::Email, text) {
            Ok(address) => Ok(Some(address.text)),
            Err(reason) => Err(self.wrong(name, reason)),
        }
    }

    pub fn flag(&self, name: &str) -> Result<bool, SettingsError> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.wrong(name, "must be true or false")),
        }
    }

    pub fn number(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, SettingsError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match value.as_u64().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(name, format!("must be {} to {}", range.start(), range.end()))),
        }
    }

    /// A name as DNS knows it, in lower case.
    pub fn host(&self, name: &str) -> Result<Option<String>, SettingsError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_host = text.bytes().all(is_plain) && !text.starts_with(['.', '-']) && !text.ends_with('.');
        if !is_host {
            return Err(self.wrong(name, "must be the name of a host"));
        }
        Ok(Some(text.to_ascii_lowercase()))
    }
}
