//! What an operator chooses about APNs: keys, which apps and environments they serve; and as secrets their `.p8` files.
//!
//! ```json
//! {"teamId": "9XYZ", "keyId": "ABC1", "topic": "com.example.app", "environment": "both", "sound": "default"}
//! {"p8": "-----BEGIN PRIVATE KEY-----…"}
//! ```
//! or, since keys may be for some apps or one environment only, `"keys": [{"teamId": …, "keyId": …, "topics": […]}]` and
//! `{"keys": {"ABC1": "-----BEGIN…"}}`.
//!
//! What must never happen: a key in a log, or a key without its file that is found out by a message.

use crate::fields::{Base, Fields, PEM_BYTES_MAX, SettingsError};
use crate::targets::AccountTarget;
use fantail_outbound::jwt::Signer;
use fantail_rules::push_address::Environment;
use serde_json::Value;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

const PRODUCTION: &str = "https://api.push.apple.com";
const SANDBOX: &str = "https://api.sandbox.push.apple.com";
const ID_BYTES_MAX: usize = 32;
const TOPIC_BYTES_MAX: usize = 255;
const SOUND_BYTES_MAX: usize = 64;
const KEY_BYTES_MAX: usize = 4_096;
/// Apple gives a team 200 keys for some topics in each environment, and 400 topics to each.
const KEYS_MAX: usize = 400;
const TOPICS_MAX: usize = 400;
const CONNECTIONS_MAX: u64 = 64;
const CONNECTIONS_DEFAULT: usize = 8;
/// Apple answers in milliseconds.
const ANSWER_MS_DEFAULT: u64 = 15_000;
const ANSWER_MS: std::ops::RangeInclusive<u64> = 100..=60_000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    pub keys: Vec<Key>,
    /// The app of addresses that name none.
    pub topic: Option<String>,
    pub production: Base,
    pub sandbox: Base,
    /// Connect here, whatever the names say: emulators.
    pub connect_to: Option<SocketAddr>,
    /// Certificates in PEM, trusted beside the public ones.
    pub ca_pem: Vec<u8>,
    /// Of notifications that name none; without one they come silently.
    pub sound: Option<String>,
    /// To each environment with each key.
    pub connections_max: usize,
    /// An answer that takes longer is lost.
    pub answer_ms_max: u64,
}

/// One key, and what it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    pub team_id: String,
    pub key_id: String,
    pub environments: Environments,
    /// Empty: every app of the team.
    pub topics: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Environments {
    Production,
    Sandbox,
    Both,
}

impl Environments {
    #[must_use]
    pub fn has(self, environment: Environment) -> bool {
        match (self, environment) {
            (Self::Both, _)
            | (Self::Production, Environment::Production)
            | (Self::Sandbox, Environment::Sandbox) => true,
            (Self::Production, Environment::Sandbox) | (Self::Sandbox, Environment::Production) => false,
        }
    }
}

impl Settings {
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::of(value)?;
        let topic = topic(&mut fields)?;
        let mut keys = Vec::new();
        match fields.list("keys", KEYS_MAX)? {
            None => keys.push(read_key(&mut fields)?),
            Some(items) => {
                for (number, item) in items.iter().enumerate() {
                    let mut fields = Fields::at(format!("{}/{number}", fields.pointer("keys")), item)?;
                    keys.push(read_key(&mut fields)?);
                    fields.end()?;
                }
            }
        }
        if keys.is_empty() {
            return Err(fields.wrong("keys", "must have at least one entry"));
        }
        let endpoint = base(&mut fields, "endpoint")?;
        let sandbox = base(&mut fields, "sandboxEndpoint")?;
        let connections_max = fields.number("connections", 1..=CONNECTIONS_MAX)?;
        let settings = Self {
            keys,
            topic,
            sandbox: sandbox.or_else(|| endpoint.clone()).map_or_else(|| fixed(SANDBOX), Ok)?,
            production: endpoint.map_or_else(|| fixed(PRODUCTION), Ok)?,
            connect_to: fields.socket("connectTo")?,
            ca_pem: fields.text("caPem", PEM_BYTES_MAX)?.unwrap_or_default().as_bytes().to_vec(),
            sound: fields.text("sound", SOUND_BYTES_MAX)?.map(str::to_owned),
            connections_max: connections_max
                .and_then(|number| usize::try_from(number).ok())
                .unwrap_or(CONNECTIONS_DEFAULT),
            answer_ms_max: fields.number("timeoutMs", ANSWER_MS)?.unwrap_or(ANSWER_MS_DEFAULT),
        };
        fields.end()?;
        Ok(settings)
    }

    /// Where connections and tokens go.
    #[must_use]
    pub fn targets(&self) -> Vec<AccountTarget> {
        // Every field is named, so that a new one is either listed below or leads nowhere.
        let Self {
            production,
            sandbox,
            connect_to,
            ca_pem,
            keys: _,
            topic: _,
            sound: _,
            connections_max: _,
            answer_ms_max: _,
        } = self;
        vec![
            AccountTarget::base("/settings/endpoint", production, *connect_to),
            AccountTarget::base("/settings/sandboxEndpoint", sandbox, *connect_to),
            AccountTarget::connect_to("/settings/connectTo", *connect_to, false),
            AccountTarget::value("/settings/caPem", String::from_utf8_lossy(ca_pem)),
        ]
    }

    #[must_use]
    pub fn endpoint(&self, environment: Environment) -> &Base {
        match environment {
            Environment::Production => &self.production,
            Environment::Sandbox => &self.sandbox,
        }
    }
}

/// Fields of a key, which stand in the settings themselves if there is only one.
fn read_key(fields: &mut Fields<'_>) -> Result<Key, SettingsError> {
    let team_id = id(fields, "teamId")?;
    let key_id = id(fields, "keyId")?;
    let environments = match fields.text("environment", ID_BYTES_MAX)? {
        None | Some("both") => Environments::Both,
        Some("production") => Environments::Production,
        Some("sandbox") => Environments::Sandbox,
        Some(_) => return Err(fields.wrong("environment", "must be production, sandbox or both")),
    };
    let mut topics = Vec::new();
    for (number, topic) in fields.list("topics", TOPICS_MAX)?.into_iter().flatten().enumerate() {
        let place = format!("{}/{number}", fields.pointer("topics"));
        let wrong = |reason: &str| SettingsError::new(place.clone(), reason);
        let topic = topic.as_str().ok_or_else(|| wrong("must be a string"))?;
        check_topic(topic).map_err(wrong)?;
        topics.push(topic.to_owned());
    }
    Ok(Key { team_id, key_id, environments, topics })
}

fn id(fields: &mut Fields<'_>, name: &'static str) -> Result<String, SettingsError> {
    let text = fields.required_text(name, ID_BYTES_MAX)?;
    match text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => Ok(text.to_owned()),
        false => Err(fields.wrong(name, "must be letters and digits, as Apple shows it")),
    }
}

fn topic(fields: &mut Fields<'_>) -> Result<Option<String>, SettingsError> {
    let Some(topic) = fields.text("topic", TOPIC_BYTES_MAX)? else { return Ok(None) };
    check_topic(topic).map_err(|reason| fields.wrong("topic", reason))?;
    Ok(Some(topic.to_owned()))
}

/// It becomes a header.
pub fn check_topic(topic: &str) -> Result<(), &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let fits = (1..=TOPIC_BYTES_MAX).contains(&topic.len()) && topic.bytes().all(is_plain);
    if fits { Ok(()) } else { Err("is no bundle id") }
}

fn base(fields: &mut Fields<'_>, name: &'static str) -> Result<Option<Base>, SettingsError> {
    let base = fields.base(name)?;
    if base.as_ref().is_some_and(|base| !base.is_tls) {
        return Err(fields.wrong(name, "must begin with https://: APNs has no other protocol"));
    }
    Ok(base)
}

fn fixed(url: &str) -> Result<Base, SettingsError> {
    Base::parse(url).map_err(|reason| SettingsError::new("/endpoint", reason))
}

/// The `.p8` files, by the id of their key. Never shown.
#[derive(Clone)]
pub struct Secrets {
    /// For keys that have no file of their own.
    only: Option<Arc<Signer>>,
    keys: Vec<(String, Arc<Signer>)>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Secrets({} keys)", self.keys.len() + usize::from(self.only.is_some()))
    }
}

impl Secrets {
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::of(value)?;
        let signer = |place: String, pem: &str| {
            let read = Signer::es256_pem(pem.as_bytes()).map(Arc::new);
            read.map_err(|error| SettingsError::new(place, error.to_string()))
        };
        let only = fields.text("p8", KEY_BYTES_MAX)?.map(|pem| signer("/p8".to_owned(), pem)).transpose()?;
        let mut keys = Vec::new();
        if let Some(value) = fields.value("keys") {
            let files = value.as_object().ok_or_else(|| fields.wrong("keys", "must be an object"))?;
            for (id, pem) in files {
                let place = format!("{}/{id}", fields.pointer("keys"));
                let wrong = || SettingsError::new(place.clone(), "must be the text of a .p8 file");
                let pem = pem.as_str().filter(|pem| pem.len() <= KEY_BYTES_MAX).ok_or_else(wrong)?;
                keys.push((id.clone(), signer(place.clone(), pem)?));
            }
        }
        if only.is_none() && keys.is_empty() {
            return Err(fields.wrong("p8", "is missing"));
        }
        fields.end()?;
        Ok(Self { only, keys })
    }

    pub(super) fn signer(&self, key_id: &str) -> Option<&Arc<Signer>> {
        let own = self.keys.iter().find(|(id, _)| id == key_id).map(|(_, signer)| signer);
        own.or(self.only.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(value: &Value) -> String {
        Settings::read(value).expect_err("a mistake").to_string()
    }

    #[test]
    fn one_key_stands_in_the_settings_themselves() {
        let value = json!({"teamId": "TEAM", "keyId": "KEY1", "topic": "com.example.app"});
        let settings = Settings::read(&value).expect("good settings");
        let key = Key {
            team_id: "TEAM".to_owned(),
            key_id: "KEY1".to_owned(),
            environments: Environments::Both,
            topics: Vec::new(),
        };
        assert_eq!(settings.keys, [key]);
        assert_eq!(settings.endpoint(Environment::Production).host, "api.push.apple.com");
        assert_eq!(settings.endpoint(Environment::Sandbox).host, "api.sandbox.push.apple.com");
    }

    #[test]
    fn several_keys_say_what_they_are_for() {
        let keys = json!([
            {"teamId": "TEAM", "keyId": "A", "environment": "sandbox"},
            {"teamId": "TEAM", "keyId": "B", "environment": "production", "topics": ["com.a", "com.b"]},
        ]);
        let settings = Settings::read(&json!({"keys": keys, "endpoint": "https://localhost:9443"}));
        let settings = settings.expect("good settings");
        assert_eq!(settings.keys[1].topics, ["com.a", "com.b"]);
        assert!(!settings.keys[0].environments.has(Environment::Production));
        assert_eq!(settings.endpoint(Environment::Sandbox).port, 9_443);
    }

    #[test]
    fn mistakes_are_placed() {
        let good = json!({"teamId": "TEAM", "keyId": "KEY1"});
        for (name, value, expected) in [
            ("teamId", json!("a b"), "/teamId: must be letters and digits, as Apple shows it"),
            ("keyId", Value::Null, "/keyId: is missing"),
            ("environment", json!("staging"), "/environment: must be production, sandbox or both"),
            ("topic", json!("com.example app"), "/topic: is no bundle id"),
            ("topics", json!(["x", "y/z"]), "/topics/1: is no bundle id"),
            ("keys", json!([]), "/keys: must have at least one entry"),
            ("keys", json!([{"teamId": "T"}]), "/keys/0/keyId: is missing"),
            (
                "endpoint",
                json!("http://localhost"),
                "/endpoint: must begin with https://: APNs has no other protocol",
            ),
            ("connections", json!(0), "/connections: must be a whole number from 1 to 64"),
            ("colour", json!("red"), "/colour: is not a known field"),
        ] {
            let mut value_of = good.clone();
            value_of[name] = value;
            assert_eq!(said(&value_of), expected);
        }
    }

    #[test]
    fn secrets_are_keys_and_never_shown() {
        let made = rcgen::KeyPair::generate().expect("a key").serialize_pem();
        let secrets = Secrets::read(&json!({"keys": {"A": made}})).expect("a good key");
        assert!(secrets.signer("A").is_some());
        assert!(secrets.signer("B").is_none());
        assert_eq!(format!("{secrets:?}"), "Secrets(1 keys)");
        let only = Secrets::read(&json!({"p8": made})).expect("a good key");
        assert!(only.signer("B").is_some());
        for (value, expected) in [
            (json!({}), "/p8: is missing"),
            (json!({"p8": "no key"}), "/p8: the key is not a private key in PEM"),
            (json!({"keys": {"A": 1}}), "/keys/A: must be the text of a .p8 file"),
        ] {
            assert_eq!(Secrets::read(&value).expect_err("a mistake").to_string(), expected);
        }
    }
}
