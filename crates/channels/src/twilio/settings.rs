//! What an operator chooses about a Twilio account: which senders it has, where each of them reaches, and how fast.
//!
//! What must never happen: a secret among the settings, or in a log: secrets are read apart and show nothing of themselves.

use super::limits::{
    CA_PEM_BYTES_MAX, CONCURRENCY_MAX, PER_SECOND_MAX, PREFIXES_MAX, SECRET_BYTES_MAX, SENDERS_MAX,
    WEBHOOK_KEYS_MAX,
};
use crate::webhook::url::{Scheme, Url};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

pub const ENDPOINT: &str = "https://api.twilio.com";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The name of this account here: callbacks come in under it.
    pub account: String,
    /// `AC…`: the account there.
    pub account_sid: String,
    pub senders: Vec<Sender>,
    /// Whether Twilio is asked to tell what became of a message.
    pub status_callback: bool,
    /// Whether typographic characters are made plain where that makes a message GSM-7.
    pub smart_encoding: bool,
    /// Requests under way. Twilio limits them per account and answers 20429 above.
    pub concurrency: usize,
    pub endpoint: Url,
    pub connect_to: Option<SocketAddr>,
    pub ca_pem: String,
}

/// Who a message is from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sender {
    pub identity: Identity,
    pub kind: Kind,
    /// Beginnings of the numbers that it reaches, with the plus sign. Empty: all.
    pub prefixes: Vec<String>,
    /// Segments in a second.
    pub per_second: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Identity {
    /// A number, a short code or a name.
    From(String),
    /// `MG…`: a pool of numbers that Twilio chooses from.
    MessagingService(String),
}

/// In the order in which they are preferred where several reach a number: what carriers let through soonest comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    ShortCode,
    MessagingService,
    TollFree,
    /// A long code that is registered for application traffic in the US.
    TenDlc,
    LongCode,
    /// A name. Nobody can answer it, so nobody can say STOP to it.
    Alphanumeric,
}

/// Name and segments per second of each kind. Carriers grant more or less: `perSecond` says what was granted.
pub const KINDS: &[(Kind, &str, u32)] = &[
    (Kind::ShortCode, "shortCode", 100),
    (Kind::MessagingService, "messagingService", 1),
    (Kind::TollFree, "tollFree", 3),
    (Kind::TenDlc, "tenDlc", 12),
    (Kind::LongCode, "longCode", 1),
    (Kind::Alphanumeric, "alphanumeric", 10),
];

/// Which field is wrong, as a JSON pointer, and why. Never says what was there.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct SettingsError {
    pub field: String,
    pub reason: &'static str,
}

/// What proves who we are, and that callbacks are theirs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets {
    /// Signs callbacks; also a password, if there is no API key.
    pub auth_token: Option<String>,
    pub api_key: Option<ApiKey>,
    /// Secrets of SharedKeys by their ids, for the newer signatures of callbacks.
    pub webhook_keys: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub sid: String,
    pub secret: String,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secrets")
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ApiKey")
    }
}

impl Settings {
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let fields = object(value, "")?;
        known(
            fields,
            "",
            &[
                "account",
                "accountSid",
                "senders",
                "statusCallback",
                "smartEncoding",
                "concurrency",
                "endpoint",
                "connectTo",
                "caPem",
            ],
        )?;
        let account = required(fields, "", "account")?;
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if !(1..=64).contains(&account.len()) || !account.bytes().all(is_name) {
            return wrong(
                "/account",
                "must have 1 to 64 lower case letters, digits, hyphens and underscores",
            );
        }
        let account_sid = required(fields, "", "accountSid")?;
        sid(account_sid, "AC", "/accountSid")?;
        let endpoint = Url::parse(text(fields, "", "endpoint")?.unwrap_or(ENDPOINT))
            .or_else(|_| wrong("/endpoint", "must be an http or https URL"))?;
        if endpoint.path != "/" {
            return wrong("/endpoint", "must not have a path");
        }
        let connect_to = text(fields, "", "connectTo")?.map(str::parse).transpose();
        let connect_to = connect_to.or_else(|_| wrong("/connectTo", "must be an address and port"))?;
        if endpoint.origin.scheme == Scheme::Http
            && connect_to.is_none_or(|address: SocketAddr| !address.ip().is_loopback())
        {
            return wrong("/endpoint", "plain http goes to this machine only, with connectTo");
        }
        let ca_pem = text(fields, "", "caPem")?.unwrap_or_default();
        if ca_pem.len() > CA_PEM_BYTES_MAX {
            return wrong("/caPem", "is too long");
        }
        Ok(Self {
            account: account.to_owned(),
            account_sid: account_sid.to_owned(),
            senders: senders(fields)?,
            status_callback: flag(fields, "statusCallback", true)?,
            smart_encoding: flag(fields, "smartEncoding", false)?,
            concurrency: whole(fields, "", "concurrency", CONCURRENCY_MAX)?
                .map_or(32, |number| number as usize),
            endpoint,
            connect_to,
            ca_pem: ca_pem.to_owned(),
        })
    }
}

impl Secrets {
    /// `{"authToken", "apiKeySid", "apiKeySecret", "webhookKeys": {id: secret}}`: a token, an API key, or both.
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let fields = object(value, "")?;
        known(fields, "", &["authToken", "apiKeySid", "apiKeySecret", "webhookKeys"])?;
        let secret = |name: &str| -> Result<Option<String>, SettingsError> {
            let Some(text) = text(fields, "", name)? else { return Ok(None) };
            is_secret(text, &format!("/{name}"))?;
            Ok(Some(text.to_owned()))
        };
        let auth_token = secret("authToken")?;
        let api_key = match (secret("apiKeySid")?, secret("apiKeySecret")?) {
            (Some(sid_text), Some(secret)) => {
                sid(&sid_text, "SK", "/apiKeySid")?;
                Some(ApiKey { sid: sid_text, secret })
            }
            (None, None) => None,
            (Some(_), None) => return wrong("/apiKeySecret", "goes together with apiKeySid"),
            (None, Some(_)) => return wrong("/apiKeySid", "goes together with apiKeySecret"),
        };
        if auth_token.is_none() && api_key.is_none() {
            return wrong("/authToken", "a token or an API key is needed");
        }
        let mut webhook_keys = BTreeMap::new();
        if let Some(keys) = fields.get("webhookKeys") {
            let keys = object(keys, "/webhookKeys")?;
            if keys.len() > WEBHOOK_KEYS_MAX {
                return wrong("/webhookKeys", "has too many");
            }
            for id in keys.keys() {
                let secret = required(keys, "/webhookKeys", id)?;
                is_secret(secret, &format!("/webhookKeys/{id}"))?;
                webhook_keys.insert(id.clone(), secret.to_owned());
            }
        }
        Ok(Self { auth_token, api_key, webhook_keys })
    }
}

fn senders(fields: &Map<String, Value>) -> Result<Vec<Sender>, SettingsError> {
    let Some(Value::Array(list)) = fields.get("senders") else {
        return wrong("/senders", "must be a list");
    };
    if !(1..=SENDERS_MAX).contains(&list.len()) {
        return wrong("/senders", "must have 1 to 64");
    }
    list.iter().enumerate().map(|(index, value)| sender(value, &format!("/senders/{index}"))).collect()
}

fn sender(value: &Value, at: &str) -> Result<Sender, SettingsError> {
    let fields = object(value, at)?;
    known(fields, at, &["from", "messagingServiceSid", "kind", "prefixes", "perSecond"])?;
    let kind = text(fields, at, "kind")?.map(|name| {
        let found = KINDS.iter().find(|(_, known, _)| *known == name);
        found.map_or_else(|| wrong(&format!("{at}/kind"), "is no kind of sender"), |(kind, _, _)| Ok(*kind))
    });
    let kind = kind.transpose()?;
    let (identity, kind) = match (text(fields, at, "from")?, text(fields, at, "messagingServiceSid")?) {
        (Some(from), None) => {
            let kind = kind.unwrap_or_else(|| kind_of(from));
            is_from(from, kind, &format!("{at}/from"))?;
            (Identity::From(from.to_owned()), kind)
        }
        (None, Some(service)) => {
            sid(service, "MG", &format!("{at}/messagingServiceSid"))?;
            (Identity::MessagingService(service.to_owned()), kind.unwrap_or(Kind::MessagingService))
        }
        (Some(_), Some(_)) | (None, None) => return wrong(at, "has either from or messagingServiceSid"),
    };
    let usual = KINDS.iter().find(|(other, _, _)| *other == kind).map_or(1, |(_, _, per_second)| *per_second);
    let per_second = whole(fields, at, "perSecond", PER_SECOND_MAX)?.unwrap_or(usual);
    let prefixes = prefixes(fields, at)?;
    if kind == Kind::ShortCode && prefixes.is_empty() && matches!(identity, Identity::From(_)) {
        return wrong(&format!("{at}/prefixes"), "a short code works in one country: say which");
    }
    Ok(Sender { identity, kind, prefixes, per_second })
}

fn kind_of(from: &str) -> Kind {
    match from.strip_prefix('+') {
        Some(_) => Kind::LongCode,
        None if from.bytes().all(|byte| byte.is_ascii_digit()) => Kind::ShortCode,
        None => Kind::Alphanumeric,
    }
}

fn is_from(from: &str, kind: Kind, at: &str) -> Result<(), SettingsError> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (fits, reason) = match kind {
        Kind::ShortCode => ((3..=8).contains(&from.len()) && digits(from), "a short code has 3 to 8 digits"),
        Kind::TollFree | Kind::TenDlc | Kind::LongCode => {
            let number = from.strip_prefix('+').unwrap_or_default();
            ((7..=15).contains(&number.len()) && digits(number), "must be a number like +12025550123")
        }
        Kind::Alphanumeric => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b" -_&+.".contains(&byte);
            let has_letter = from.bytes().any(|byte| byte.is_ascii_alphabetic());
            let fits = (1..=11).contains(&from.len()) && from.bytes().all(plain) && has_letter;
            (fits, "a name has 1 to 11 letters, digits, spaces and - _ & + . and at least one letter")
        }
        Kind::MessagingService => (false, "a messaging service is named by messagingServiceSid"),
    };
    if fits { Ok(()) } else { wrong(at, reason) }
}

fn prefixes(fields: &Map<String, Value>, at: &str) -> Result<Vec<String>, SettingsError> {
    let at = format!("{at}/prefixes");
    let list = match fields.get("prefixes") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= PREFIXES_MAX => list,
        Some(_) => return wrong(&at, "must be a list of at most 300"),
    };
    let read = |value: &Value| {
        let digits = value.as_str().and_then(|text| text.strip_prefix('+')).unwrap_or_default();
        let fits = (1..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        if fits {
            Ok(format!("+{digits}"))
        } else {
            wrong(&at, "each is the beginning of a number, like +43")
        }
    };
    list.iter().map(read).collect()
}

fn wrong<T>(field: &str, reason: &'static str) -> Result<T, SettingsError> {
    Err(SettingsError { field: field.to_owned(), reason })
}

fn object<'a>(value: &'a Value, at: &str) -> Result<&'a Map<String, Value>, SettingsError> {
    value.as_object().map_or_else(|| wrong(at, "must be an object"), Ok)
}

fn known(fields: &Map<String, Value>, at: &str, names: &[&str]) -> Result<(), SettingsError> {
    match fields.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => wrong(&format!("{at}/{name}"), "is not known"),
        None => Ok(()),
    }
}

fn text<'a>(fields: &'a Map<String, Value>, at: &str, name: &str) -> Result<Option<&'a str>, SettingsError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => wrong(&format!("{at}/{name}"), "must be a text"),
    }
}

fn required<'a>(fields: &'a Map<String, Value>, at: &str, name: &str) -> Result<&'a str, SettingsError> {
    text(fields, at, name)?.map_or_else(|| wrong(&format!("{at}/{name}"), "is missing"), Ok)
}

fn flag(fields: &Map<String, Value>, name: &str, otherwise: bool) -> Result<bool, SettingsError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(otherwise),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => wrong(&format!("/{name}"), "must be true or false"),
    }
}

fn whole(fields: &Map<String, Value>, at: &str, name: &str, most: u32) -> Result<Option<u32>, SettingsError> {
    let value = match fields.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    match number.filter(|number| (1..=most).contains(number)) {
        Some(number) => Ok(Some(number)),
        None => wrong(&format!("{at}/{name}"), "must be a whole number from 1 on, and not too large"),
    }
}

fn sid(text: &str, prefix: &str, at: &str) -> Result<(), SettingsError> {
    let digits = text.strip_prefix(prefix).unwrap_or_default();
    if digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(());
    }
    wrong(at, "must be a SID: two letters of its kind and 32 hexadecimal digits")
}

fn is_secret(text: &str, at: &str) -> Result<(), SettingsError> {
    let fits =
        (1..=SECRET_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Ok(()) } else { wrong(at, "must be visible ASCII characters") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SID: &str = "AC00000000000000000000000000000001";
    const SERVICE: &str = "MG00000000000000000000000000000001";
    const KEY: &str = "SK00000000000000000000000000000001";

    fn whole_settings() -> Value {
        json!({
            "account": "main",
            "accountSid": SID,
            "senders": [
                {"from": "+12025550100"},
                {"from": "12345", "prefixes": ["+1"]},
                {"from": "+18005550100", "kind": "tollFree"},
                {"from": "+12025550101", "kind": "tenDlc", "perSecond": 75},
                {"from": "Fantail", "prefixes": ["+43", "+49"]},
                {"messagingServiceSid": SERVICE, "perSecond": 200},
            ],
        })
    }

    // proves: SMS-01, SMS-04
    #[test]
    fn settings_are_read_and_have_defaults() {
        let settings = Settings::read(&whole_settings()).expect("good settings");
        let kinds: Vec<(Kind, u32)> =
            settings.senders.iter().map(|sender| (sender.kind, sender.per_second)).collect();
        let expected = [
            (Kind::LongCode, 1),
            (Kind::ShortCode, 100),
            (Kind::TollFree, 3),
            (Kind::TenDlc, 75),
            (Kind::Alphanumeric, 10),
            (Kind::MessagingService, 200),
        ];
        assert_eq!(kinds, expected);
        assert!(settings.status_callback && !settings.smart_encoding);
        assert_eq!(settings.endpoint.to_string(), "https://api.twilio.com/");
    }

    #[test]
    fn mistakes_are_named_by_their_field() {
        for (pointer, value, field) in [
            ("/account", json!("Main"), "/account"),
            ("/account", json!(null), "/account"),
            ("/accountSid", json!("AC1"), "/accountSid"),
            ("/senders", json!([]), "/senders"),
            ("/senders", json!({}), "/senders"),
            ("/senders/0/from", json!("12025550100"), "/senders/0/from"),
            ("/senders/0/kind", json!("pigeon"), "/senders/0/kind"),
            ("/senders/0/messagingServiceSid", json!(SERVICE), "/senders/0"),
            ("/senders/1/prefixes", json!([]), "/senders/1/prefixes"),
            ("/senders/1/prefixes", json!(["1"]), "/senders/1/prefixes"),
            ("/senders/3/perSecond", json!(0), "/senders/3/perSecond"),
            ("/senders/3/perSecond", json!(1.5), "/senders/3/perSecond"),
            ("/senders/4/from", json!("FantailNotifies"), "/senders/4/from"),
            ("/senders/5/messagingServiceSid", json!(SID), "/senders/5/messagingServiceSid"),
            ("/senders/5/color", json!("red"), "/senders/5/color"),
            ("/authToken", json!("x"), "/authToken"),
            ("/smartEncoding", json!("yes"), "/smartEncoding"),
            ("/concurrency", json!(0), "/concurrency"),
            ("/endpoint", json!("https://api.twilio.com/x"), "/endpoint"),
            ("/endpoint", json!("http://api.twilio.com"), "/endpoint"),
            ("/connectTo", json!("localhost"), "/connectTo"),
            ("/caPem", json!(1), "/caPem"),
        ] {
            let mut settings = whole_settings();
            let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
            let place = settings.pointer_mut(parent).expect("a place");
            place.as_object_mut().expect("an object").insert(name.to_owned(), value);
            let error = Settings::read(&settings).map(|_| ()).expect_err(pointer);
            assert_eq!(error.field, field, "{pointer}");
        }
    }

    #[test]
    fn secrets_are_whole_and_never_shown() {
        for (secrets, expected) in [
            (json!({"authToken": "canary"}), Ok(())),
            (json!({"apiKeySid": KEY, "apiKeySecret": "canary"}), Ok(())),
            (json!({"authToken": "canary", "webhookKeys": {"k1": "canary"}}), Ok(())),
            (json!({}), Err("/authToken")),
            (json!({"apiKeySid": KEY}), Err("/apiKeySecret")),
            (json!({"apiKeySid": "SK1", "apiKeySecret": "canary"}), Err("/apiKeySid")),
            (json!({"authToken": "a b"}), Err("/authToken")),
            (json!({"authToken": "a", "webhookKeys": {"k1": 1}}), Err("/webhookKeys/k1")),
            (json!({"token": "a"}), Err("/token")),
        ] {
            let read = Secrets::read(&secrets);
            assert!(!format!("{read:?}").contains("canary"), "{read:?}");
            let field = read.map(|_| ()).map_err(|error| error.field);
            assert_eq!(field, expected.map_err(str::to_owned), "{secrets}");
        }
    }
}
