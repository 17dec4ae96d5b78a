//! What a tenant chooses about Web Push: a contact for push services, and how much messages are padded.
//!
//! ```json
//! {"subject": "mailto:push@example.com", "padTo": 128}
//! ```
//! Where subscriptions may lead is the operator's policy, not the tenant's.
//!
//! What must never happen: a subject that a strict push service refuses when the first message is sent.

use crate::fields::{Fields, PEM_BYTES_MAX, SettingsError};
use crate::targets::AccountTarget;
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
    /// Certificates in PEM, trusted beside the public ones.
    pub ca_pem: Vec<u8>,
}

const SUBJECT_BYTES_MAX: usize = 256;

impl Settings {
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::of(value)?;
        let subject = fields.required_text("subject", SUBJECT_BYTES_MAX)?;
        check_subject(subject).map_err(|reason| fields.wrong("subject", reason))?;
        let pad_to = fields.number("padTo", 0..=super::payload::PLAINTEXT_BYTES_MAX as u64)?.unwrap_or(0);
        let ca_pem = fields.text("caPem", PEM_BYTES_MAX)?.unwrap_or_default().as_bytes().to_vec();
        let connect_to = fields.socket("connectTo")?;
        let settings = Self {
            subject: subject.to_owned(),
            pad_to: usize::try_from(pad_to).unwrap_or(0),
            connect_to,
            ca_pem,
        };
        fields.end()?;
        Ok(settings)
    }

    /// Where connections go beside those that subscriptions name.
    #[must_use]
    pub fn targets(&self) -> Vec<AccountTarget> {
        // Every field is named, so that a new one is either listed below or leads nowhere.
        let Self { connect_to, ca_pem, subject: _, pad_to: _ } = self;
        vec![
            AccountTarget::connect_to("/settings/connectTo", *connect_to, false),
            AccountTarget::value("/settings/caPem", String::from_utf8_lossy(ca_pem)),
        ]
    }
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

    // fixes: security H2
    #[test]
    fn mistakes_are_placed() {
        let with = |name: &str, value: Value| {
            let mut settings = json!({"subject": "mailto:push@example.com"});
            settings[name] = value;
            Settings::read(&settings).map(|_| ()).map_err(|error| error.field)
        };
        assert_eq!(with("padTo", json!(128)), Ok(()));
        for (name, value) in [
            ("padTo", json!(3_994)),
            ("ports", json!([6443])),
            ("privateNetworks", json!(["10.0.0.0/8"])),
            ("privateHosts", json!(["localhost"])),
            ("httpAllowed", json!(true)),
            ("connectTo", json!("here")),
            ("other", json!(1)),
        ] {
            assert_eq!(with(name, value), Err(format!("/{name}")));
        }
    }
}
