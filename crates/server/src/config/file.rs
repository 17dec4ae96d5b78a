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
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let (line, column) = place_of(&text, error.span().map_or(0, |span| span.start));
        ConfigError::NotToml { file: file.clone(), line, column }
    })?;
    let mut values = BTreeMap::new();
    flatten(&table, "", &mut values, path)?;
    Ok(values)
}

/// Line and column of a byte, from 1.
fn place_of(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
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
            toml::Value::Array(items) if Setting::by_key(&key).is_some_and(|setting| setting.list) => {
                let wrong = || ConfigError::WrongKind { file: path.to_owned(), key: key.clone() };
                list_text(items).ok_or_else(wrong)?
            }
            toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Array(_) => {
                return Err(ConfigError::WrongKind { file: path.to_owned(), key });
            }
        };
        if !Setting::is_key(&key) {
            return Err(ConfigError::UnknownKey { file: path.to_owned(), key });
        }
        into.insert(key, (text, path.display().to_string()));
    }
    Ok(())
}

/// A list of texts as the environment has it, in JSON.
fn list_text(items: &[toml::Value]) -> Option<String> {
    let texts: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
    serde_json::to_string(&texts?).ok()
}
