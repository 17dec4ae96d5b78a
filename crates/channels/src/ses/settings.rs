//! Which region, and as whom. The endpoint can be another one: emulators, or a private endpoint of the operator's network.

use super::envelope::SnsHost;
use super::limits::TOPICS_MAX;
use crate::email::{Sender, SenderSecrets};
use crate::fields::{Base, Fields, NAME_BYTES_MAX, SettingsError};
use crate::targets::AccountTarget;
use fantail_outbound::sigv4::Credentials;
use serde_json::Value;
use std::fmt;
use std::net::SocketAddr;

#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    pub sender: Sender,
    pub region: String,
    pub endpoint: Base,
    /// Connect here instead of looking the name up: emulators on this machine.
    pub connect_to: Option<SocketAddr>,
    /// Certificates in PEM, trusted beside the public ones.
    pub ca_pem: Option<String>,
    /// Which of the account's configuration sets publishes events about our mails.
    pub configuration_set: Option<String>,
    /// Topics of SNS whose messages are believed.
    pub event_topics: Vec<String>,
    /// Send no more than this per second, whatever the account allows.
    pub rate_max: Option<f64>,
    /// Many mails in one call. SES puts them together then.
    pub bulk: bool,
}

/// Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets {
    pub sender: SenderSecrets,
    pub credentials: Credentials,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secrets(hidden)")
    }
}

const CA_BYTES_MAX: usize = 256 * 1_024;
const TOKEN_BYTES_MAX: usize = 4_096;
const RATE_MAX: f64 = 100_000.0;

impl Settings {
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::of(value)?;
        let sender = Sender::read(&mut fields)?;
        let region = fields.required_line("region", NAME_BYTES_MAX)?;
        let is_region = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !region.bytes().all(is_region) {
            return Err(fields.wrong("region", "must be a region like eu-west-1"));
        }
        let own = |host| Base { is_tls: true, host, port: 443, path: String::new() };
        let endpoint =
            fields.base("endpoint")?.unwrap_or_else(|| own(format!("email.{region}.amazonaws.com")));
        if !endpoint.path.is_empty() {
            return Err(fields.wrong("endpoint", "must not have a path"));
        }
        let configuration_set = fields.line("configurationSet", 64)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if configuration_set.is_some_and(|name| !name.bytes().all(is_name)) {
            return Err(fields.wrong("configurationSet", "must be letters, digits, _ and -"));
        }
        let rate_max = match fields.value("rateMax") {
            None => None,
            Some(value) => match value.as_f64().filter(|rate| (0.2..=RATE_MAX).contains(rate)) {
                Some(rate) => Some(rate),
                None => return Err(fields.wrong("rateMax", "must be 0.2 to 100000 per second")),
            },
        };
        let bulk = fields.flag("bulk")?.unwrap_or(false);
        if bulk && sender.dkim.is_some() {
            return Err(fields
                .wrong("bulk", "cannot go with dkim: SES writes these mails, so only SES can sign them"));
        }
        let settings = Self {
            sender,
            region: region.to_owned(),
            endpoint,
            connect_to: fields.socket("connectTo")?,
            ca_pem: fields.text("caPem", CA_BYTES_MAX)?.map(str::to_owned),
            configuration_set: configuration_set.map(str::to_owned),
            event_topics: topics(&mut fields)?,
            rate_max,
            bulk,
        };
        fields.end()?;
        Ok(settings)
    }

    /// Where connections and signed requests go.
    #[must_use]
    pub fn targets(&self) -> Vec<AccountTarget> {
        // Every field is named, so that a new one is either listed below or leads nowhere.
        let Self {
            region,
            endpoint,
            connect_to,
            ca_pem,
            sender: _,
            configuration_set: _,
            // Their messages name hosts of SNS, which are judged when they are called.
            event_topics: _,
            rate_max: _,
            bulk: _,
        } = self;
        vec![
            AccountTarget::value("/settings/region", region),
            AccountTarget::base("/settings/endpoint", endpoint, *connect_to),
            AccountTarget::connect_to("/settings/connectTo", *connect_to, !endpoint.is_tls),
            AccountTarget::value("/settings/caPem", ca_pem.as_deref().unwrap_or_default()),
        ]
    }
}

fn topics(fields: &mut Fields<'_>) -> Result<Vec<String>, SettingsError> {
    let Some(value) = fields.value("eventTopics") else { return Ok(Vec::new()) };
    let wrong = || {
        fields.wrong(
            "eventTopics",
            format!("must be up to {TOPICS_MAX} texts like arn:aws:sns:eu-west-1:1:mail"),
        )
    };
    let list = value.as_array().filter(|list| list.len() <= TOPICS_MAX).ok_or_else(wrong)?;
    let topic = |value: &Value| match value.as_str() {
        Some(text) if SnsHost::of_topic(text).is_some() && text.len() <= ARN_BYTES_MAX => Ok(text.to_owned()),
        Some(_) | None => Err(wrong()),
    };
    list.iter().map(topic).collect()
}

const ARN_BYTES_MAX: usize = 400;

impl Secrets {
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::of(value)?;
        let credentials = Credentials {
            access_key_id: fields.required_line("accessKeyId", NAME_BYTES_MAX)?.to_owned(),
            secret_access_key: fields.required_line("secretAccessKey", NAME_BYTES_MAX)?.to_owned(),
            session_token: fields.line("sessionToken", TOKEN_BYTES_MAX)?.map(str::to_owned),
        };
        let sender = SenderSecrets::read(&mut fields)?;
        fields.end()?;
        Ok(Self { sender, credentials })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(name: &str, value: Value) -> Result<Settings, String> {
        let mut settings = json!({"fromAddress": "news@shop.example", "region": "eu-west-1"});
        settings[name] = value;
        Settings::read(&settings).map_err(|error| error.to_string())
    }

    #[test]
    fn the_endpoint_is_that_of_the_region() {
        let endpoint = with("tracking", false.into()).expect("settings").endpoint;
        assert_eq!(endpoint.authority(), "email.eu-west-1.amazonaws.com");
        let endpoint = with("endpoint", "http://127.0.0.1:4566".into()).expect("settings").endpoint;
        assert_eq!((endpoint.is_tls, endpoint.authority().as_str()), (false, "127.0.0.1:4566"));
    }

    #[test]
    fn mistakes_are_named() {
        for (name, value, expected) in [
            ("region", json!("EU"), "/region: must be a region like eu-west-1"),
            ("region", Value::Null, "/region: is missing"),
            (
                "endpoint",
                json!("http://ses.example"),
                "/endpoint: must be https unless it is on this machine",
            ),
            ("endpoint", json!("https://a/b"), "/endpoint: must not have a path"),
            ("connectTo", json!("x"), "/connectTo: must be an address with a port"),
            ("configurationSet", json!("a b"), "/configurationSet: must be letters, digits, _ and -"),
            (
                "eventTopics",
                json!(["mail"]),
                "/eventTopics: must be up to 100 texts like arn:aws:sns:eu-west-1:1:mail",
            ),
            ("rateMax", json!(0), "/rateMax: must be 0.2 to 100000 per second"),
            ("bulk", json!("yes"), "/bulk: must be true or false"),
        ] {
            assert_eq!(with(name, value.clone()).expect_err("a mistake"), expected, "{name} {value}");
        }
    }

    #[test]
    fn bulk_is_asked_for_and_signs_nothing() {
        assert!(!with("tracking", false.into()).expect("settings").bulk);
        assert!(with("bulk", true.into()).expect("settings").bulk);
        let both = json!({
            "fromAddress": "a@b.example", "region": "eu-west-1", "bulk": true,
            "dkim": {"domain": "b.example", "rsaSelector": "s1"},
        });
        assert_eq!(Settings::read(&both).expect_err("refused").field, "/bulk");
    }

    #[test]
    fn secrets_are_hidden() {
        let secrets =
            Secrets::read(&json!({"accessKeyId": "AKIA", "secretAccessKey": "s"})).expect("secrets");
        assert_eq!(format!("{secrets:?}"), "Secrets(hidden)");
        let error = Secrets::read(&json!({"accessKeyId": "AKIA"})).expect_err("a mistake");
        assert_eq!(error.to_string(), "/secretAccessKey: is missing");
    }
}
