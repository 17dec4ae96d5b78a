//! What an operator sets about the mails of an account, whichever way they leave: who they are from, whether clicks are told
//! of, how they are signed, and since when the sender is known.

use super::dkim;
use super::limits::PEM_BYTES_MAX;
use crate::fields::{Fields, NAME_BYTES_MAX, SettingsError};
use serde_json::Value;
use std::fmt;

/// Who sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sender {
    pub from_address: String,
    pub from_name: Option<String>,
    pub reply_to: Option<String>,
    /// Whether links lead through us and a picture tells of opening. Off unless asked for.
    pub tracking: bool,
    /// A second way out beside the link, for mail programs that know nothing else.
    pub unsubscribe_mailbox: Option<String>,
    /// By which some mailbox providers tell of complaints.
    pub feedback_id: Option<String>,
    pub warm_up: Option<WarmUp>,
    pub dkim: Option<Dkim>,
}

/// A sender that nobody knows yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WarmUp {
    /// Days since 1970 (UTC).
    pub first_day: u64,
    /// What it will send per day when it is warm.
    pub target: u64,
}

/// Where the public keys are to be found: `{selector}._domainkey.{domain}`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dkim {
    pub domain: String,
    pub rsa_selector: Option<String>,
    pub ed25519_selector: Option<String>,
}

/// Never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SenderSecrets {
    pub dkim_rsa_key: Option<String>,
    pub dkim_ed25519_key: Option<String>,
}

impl fmt::Debug for SenderSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SenderSecrets(hidden)")
    }
}

/// More than the whole world gets.
const TARGET_MAX: u64 = 10_000_000_000;

impl Sender {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self, SettingsError> {
        let from_address =
            fields.mailbox("fromAddress")?.ok_or_else(|| fields.wrong("fromAddress", "is missing"))?;
        let feedback_id = fields.line("feedbackId", 127)?;
        if feedback_id.is_some_and(|id| !id.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(fields.wrong("feedbackId", "must be ASCII without spaces"));
        }
        Ok(Self {
            from_address,
            from_name: fields.line("fromName", NAME_BYTES_MAX)?.map(str::to_owned),
            reply_to: fields.mailbox("replyTo")?,
            tracking: fields.flag("tracking")?.unwrap_or(false),
            unsubscribe_mailbox: fields.mailbox("unsubscribeMailbox")?,
            feedback_id: feedback_id.map(str::to_owned),
            warm_up: fields.value("warmUp").map(WarmUp::read).transpose()?,
            dkim: fields.value("dkim").map(Dkim::read).transpose()?,
        })
    }

    /// Of the sender's address.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.from_address.rsplit_once('@').map_or("", |(_, domain)| domain)
    }

    /// Keys to sign with: one of each kind at most, RSA first.
    pub(crate) fn keys(&self, secrets: &SenderSecrets) -> Result<Vec<dkim::Key>, SettingsError> {
        let mut keys = Vec::new();
        let selector = |choose: fn(&Dkim) -> Option<&String>| self.dkim.as_ref().and_then(choose);
        let pairs = [
            (
                selector(|dkim| dkim.rsa_selector.as_ref()),
                &secrets.dkim_rsa_key,
                dkim::Kind::Rsa,
                "/dkimRsaKey",
            ),
            (
                selector(|dkim| dkim.ed25519_selector.as_ref()),
                &secrets.dkim_ed25519_key,
                dkim::Kind::Ed25519,
                "/dkimEd25519Key",
            ),
        ];
        for (selector, pem, kind, field) in pairs {
            let (selector, pem) = match (selector, pem) {
                (None, None) => continue,
                (Some(selector), Some(pem)) => (selector, pem),
                (Some(_), None) => return Err(SettingsError::new(field, "is needed for its selector")),
                (None, Some(_)) => return Err(SettingsError::new(field, "has no selector in /dkim")),
            };
            let domain = self.dkim.as_ref().map_or("", |dkim| dkim.domain.as_str());
            let key = dkim::Key::read(domain, selector, kind, pem.as_bytes());
            keys.push(key.map_err(|error| SettingsError::new(field, format!("cannot be used: {error}")))?);
        }
        Ok(keys)
    }
}

impl SenderSecrets {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self, SettingsError> {
        Ok(Self {
            dkim_rsa_key: fields.text("dkimRsaKey", PEM_BYTES_MAX)?.map(str::to_owned),
            dkim_ed25519_key: fields.text("dkimEd25519Key", PEM_BYTES_MAX)?.map(str::to_owned),
        })
    }
}

impl WarmUp {
    fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::at("/warmUp".to_owned(), value)?;
        let first_day = day_of(fields.required_line("firstDay", NAME_BYTES_MAX)?)
            .ok_or_else(|| fields.wrong("firstDay", "must be a day like 2026-11-16"))?;
        let target = fields.number("target", 1..=TARGET_MAX)?;
        let target = target.ok_or_else(|| fields.wrong("target", "is missing"))?;
        fields.end()?;
        Ok(Self { first_day, target })
    }
}

impl Dkim {
    fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::at("/dkim".to_owned(), value)?;
        let domain = fields.host("domain")?.ok_or_else(|| fields.wrong("domain", "is missing"))?;
        let rsa_selector = fields.host("rsaSelector")?;
        let ed25519_selector = fields.host("ed25519Selector")?;
        if rsa_selector.is_none() && ed25519_selector.is_none() {
            return Err(fields.wrong("rsaSelector", "is missing, or ed25519Selector"));
        }
        fields.end()?;
        Ok(Self { domain, rsa_selector, ed25519_selector })
    }
}

/// Days since 1970 of `2026-11-16`.
pub(crate) fn day_of(text: &str) -> Option<u64> {
    let mut parts = text.split('-');
    let mut number = |length: usize| -> Option<u64> {
        let part = parts.next().filter(|part| part.len() == length)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    if parts.next().is_some() || !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before: u64 = lengths[..month as usize - 1].iter().sum();
    let years: u64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    (1..=lengths[month as usize - 1]).contains(&day).then(|| years + before + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &Value) -> Result<Sender, SettingsError> {
        let mut fields = Fields::of(value)?;
        let sender = Sender::read(&mut fields)?;
        fields.end()?;
        Ok(sender)
    }

    #[test]
    fn settings_are_read() {
        let sender = read(&json!({
            "fromAddress": "news@Shop.Example",
            "fromName": "Shop",
            "tracking": true,
            "warmUp": {"firstDay": "2026-11-16", "target": 5000},
            "dkim": {"domain": "Shop.example", "rsaSelector": "s1"},
        }));
        let sender = sender.expect("settings");
        assert_eq!((sender.from_address.as_str(), sender.domain()), ("news@shop.example", "shop.example"));
        assert_eq!(sender.warm_up, Some(WarmUp { first_day: 20_773, target: 5_000 }));
        assert_eq!(sender.dkim.expect("dkim").domain, "shop.example");
    }

    #[test]
    fn mistakes_are_named() {
        for (value, expected) in [
            (json!([]), "must be an object"),
            (json!({}), "/fromAddress: is missing"),
            (json!({"fromAddress": "a"}), "/fromAddress: must be a mail address like ann@example.com"),
            (json!({"fromAddress": "a@b.example", "hunter2": 1}), "has a field that is not known"),
            (json!({"fromAddress": "a@b.example", "fromName": "a\nb"}), "/fromName: must be one line"),
            (json!({"fromAddress": "a@b.example", "tracking": 1}), "/tracking: must be true or false"),
            (
                json!({"fromAddress": "a@b.example", "feedbackId": "a b"}),
                "/feedbackId: must be ASCII without spaces",
            ),
            (
                json!({"fromAddress": "a@b.example", "dkim": {"domain": "b"}}),
                "/dkim/rsaSelector: is missing, or ed25519Selector",
            ),
            (
                json!({"fromAddress": "a@b.example", "warmUp": {"firstDay": "2026-13-01", "target": 1}}),
                "/warmUp/firstDay: must be a day like 2026-11-16",
            ),
            (
                json!({"fromAddress": "a@b.example", "warmUp": {"firstDay": "2026-01-01"}}),
                "/warmUp/target: is missing",
            ),
        ] {
            assert_eq!(read(&value).expect_err("a mistake").to_string(), expected, "{value}");
        }
    }

    #[test]
    fn days_are_counted() {
        for (text, expected) in [
            ("1970-01-01", Some(0)),
            ("2000-03-01", Some(11_017)),
            ("2024-02-29", Some(19_782)),
            ("2023-02-29", None),
            ("2026-1-1", None),
            ("2026-11-16x", None),
            ("", None),
        ] {
            assert_eq!(day_of(text), expected, "{text}");
        }
    }

    #[test]
    fn keys_need_their_selectors() {
        let mut sender = read(&json!({"fromAddress": "a@b.example"})).expect("settings");
        assert!(sender.keys(&SenderSecrets::default()).expect("no keys").is_empty());
        let secrets = SenderSecrets { dkim_rsa_key: Some("secret".into()), dkim_ed25519_key: None };
        let told = |sender: &Sender| sender.keys(&secrets).expect_err("a mistake").to_string();
        assert_eq!(told(&sender), "/dkimRsaKey: has no selector in /dkim");
        sender.dkim =
            Some(Dkim { domain: "b".into(), rsa_selector: Some("s".into()), ed25519_selector: None });
        assert_eq!(told(&sender), "/dkimRsaKey: cannot be used: the key is not a private key in PEM");
        assert_eq!(format!("{secrets:?}"), "SenderSecrets(hidden)");
    }
}
