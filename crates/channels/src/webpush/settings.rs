//! What an operator chooses about Web Push: a contact for push services, and which targets besides public ones are allowed.
//!
//! ```json
//! {"subject": "mailto:push@example.com", "padTo": 128}
//! ```
//! What must never happen: a setting that switches the address filter off as a whole, or a subject that a strict push
//! service refuses when the first message is sent.

use crate::fields::{Fields, PEM_BYTES_MAX, SettingsError};
use crate::webhook::address::Network;
use crate::webhook::settings::{PortRule, Settings as Targets};
use serde_json::Value;
use std::net::SocketAddr;

#[derive(Clone, Debug)]
pub struct Settings {
    /// `mailto:` or `https:`: whom a push service asks when something is wrong.
    pub subject: String,
    /// Plaintexts are filled up to a multiple of so many bytes, so that their length says less; 0 and 1 add nothing.
    pub pad_to: usize,
    /// Connect here, whatever subscriptions say: emulators.
    pub connect_to: Option<SocketAddr>,
    /// Which targets may be connected to, as for webhooks.
    pub targets: Targets,
}

const SUBJECT_BYTES_MAX: usize = 256;
const LIST_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 253;

impl Settings {
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::of(value)?;
        let subject = fields.required_text("subject", SUBJECT_BYTES_MAX)?;
        check_subject(subject).map_err(|reason| fields.wrong("subject", reason))?;
        let pad_to = fields.number("padTo", 0..=super::payload::PLAINTEXT_BYTES_MAX as u64)?.unwrap_or(0);
        let mut targets = Targets::default();
        if let Some(ports) = fields.list("ports", LIST_MAX)? {
            let port = |port: &Value| {
                port.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
            };
            let ports = ports.iter().map(port).collect::<Option<Vec<u16>>>();
            targets.ports = PortRule::Only(ports.ok_or_else(|| fields.wrong("ports", "must be ports"))?);
        }
        targets.http_allowed = fields.flag("httpAllowed")?.unwrap_or(false);
        for name in texts(&mut fields, "privateNetworks")? {
            let network: Network =
                name.parse().map_err(|error| fields.wrong("privateNetworks", format!("{error}")))?;
            targets.private_networks.push(network);
        }
        targets.private_hosts = texts(&mut fields, "privateHosts")?.into_iter().map(str::to_owned).collect();
        targets.extra_roots_pem =
            fields.text("caPem", PEM_BYTES_MAX)?.unwrap_or_default().as_bytes().to_vec();
        targets.check().map_err(|error| SettingsError::new("", error.to_string()))?;
        let connect_to = fields.socket("connectTo")?;
        let settings = Self {
            subject: subject.to_owned(),
            pad_to: usize::try_from(pad_to).unwrap_or(0),
            connect_to,
            targets,
        };
        fields.end()?;
        Ok(settings)
    }
}

fn texts<'a>(fields: &mut Fields<'a>, name: &'static str) -> Result<Vec<&'a str>, SettingsError> {
    let items = fields.list(name, LIST_MAX)?.unwrap_or_default();
    let text = |item: &'a Value| item.as_str().filter(|text| (1..=NAME_BYTES_MAX).contains(&text.len()));
    items.iter().map(text).collect::<Option<_>>().ok_or_else(|| fields.wrong(name, "must be a list of names"))
}

/// Apple refuses one without a plausible domain.
fn check_subject(subject: &str) -> Result<(), &'static str> {
    let domain = match (subject.strip_prefix("mailto:"), subject.strip_prefix("https://")) {
        (Some(mailbox), _) => mailbox.split_once('@').map(|(_, domain)| domain),
        (None, Some(rest)) => rest.split(['/', '?', ':']).next(),
        (None, None) => return Err("must begin with mailto: or https://"),
    };
    let is_plain = subject.bytes().all(|byte| byte.is_ascii_graphic());
    let has_domain = domain.is_some_and(|domain| {
        domain.split('.').count() > 1 && domain.split('.').all(|label| !label.is_empty())
    });
    if is_plain && has_domain { Ok(()) } else { Err("must name a mailbox or a page with a domain") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_subject_is_a_mailbox_or_a_page() {
        for subject in ["mailto:push@example.com", "https://example.com", "https://a.example/contact"] {
            assert!(Settings::read(&json!({"subject": subject})).is_ok(), "{subject}");
        }
        for subject in [
            "push@example.com",
            "mailto:push",
            "mailto:a@localhost",
            "http://example.com",
            "https://",
            "mailto:a@b..c",
            "mailto: a@b.c",
        ] {
            let error = Settings::read(&json!({"subject": subject})).map(|_| ()).expect_err("a mistake");
            assert_eq!(error.field, "/subject", "{subject}");
        }
    }

    #[test]
    fn mistakes_are_placed() {
        let with = |name: &str, value: Value| {
            let mut settings = json!({"subject": "mailto:push@example.com"});
            settings[name] = value;
            Settings::read(&settings).map(|_| ()).map_err(|error| error.field)
        };
        assert_eq!(with("padTo", json!(128)), Ok(()));
        assert_eq!(with("privateNetworks", json!(["10.0.0.0/8"])), Ok(()));
        for (name, value) in [
            ("padTo", json!(3_994)),
            ("ports", json!([0])),
            ("privateNetworks", json!(["x"])),
            ("privateHosts", json!([1])),
            ("connectTo", json!("here")),
            ("other", json!(1)),
        ] {
            assert_eq!(with(name, value), Err(format!("/{name}")));
        }
        assert_eq!(with("privateNetworks", json!(["0.0.0.0/0"])), Err("/privateNetworks".to_owned()));
        assert_eq!(with("caPem", json!("no certificate")), Err(String::new()));
    }
}
