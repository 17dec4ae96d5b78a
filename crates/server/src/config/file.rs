//! The configuration file: TOML, read as text values under dotted keys. Keys that no setting has are refused.

use super::{ConfigError, Setting};
use std::collections::BTreeMap;
use std::path::Path;

/// Dotted key → value and file.
type FileValues = BTreeMap<String, (String, String)>;

/// Every value of the file under its dotted key, with the name of the file.
pub fn read(path: &Path) -> Result<FileValues, ConfigError> {
    let file = path.to_owned();
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::Unreadable { file: file.clone(), reason: error.to_string() })?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| ConfigError::NotToml {
        file: file.clone(),
        reason: error.to_string(),
    })?;
    let mut values = BTreeMap::new();
    flatten(&table, "", &mut values, path)?;
    Ok(values)
}

fn flatten(table: &toml::Table, prefix: &str, into: &mut FileValues, path: &Path) -> Result<(), ConfigError> {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let text = match value {
            toml::Value::Table(inner) => {
                flatten(inner, &key, into, path)?;
                continue;
            }
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Array(_) => {
                return Err(ConfigError::WrongKind { file: path.to_owned(), key });
            }
        };
        if Setting::by_key(&key).is_none() {
            return Err(ConfigError::UnknownKey { file: path.to_owned(), key });
        }
        into.insert(key, (text, path.display().to_string()));
    }
    Ok(())
}
