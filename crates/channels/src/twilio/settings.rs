//! What an operator chooses about a Twilio account: which senders it has, where each of them reaches, and how fast.
//!
//! What must never happen: a secret among the settings, or in a log: secrets are read apart and show nothing of themselves.

use super::limits::{
    CONCURRENCY_MAX, PER_SECOND_MAX, PREFIXES_MAX, SECRET_BYTES_MAX, SENDERS_MAX, WEBHOOK_KEYS_MAX,
};
use crate::fields::{Fields, NAME_BYTES_MAX, PEM_BYTES_MAX, SettingsError, URL_BYTES_MAX};
use crate::targets::AccountTarget;
use crate::webhook::url::{Scheme, Url};
use fantail_outbound::policy::Destination;
use serde_json::Value;
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
        let mut fields = Fields::of(value)?;
        let account = fields.required_line("account", NAME_BYTES_MAX)?;
        let is_name =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        if account.len() > 64 || !account.bytes().all(is_name) {
            let reason = "must have 1 to 64 lower case letters, digits, hyphens and underscores";
            return Err(fields.wrong("account", reason));
        }
        let account_sid = sid(&mut fields, "accountSid", "AC")?;
        let account_sid = account_sid.ok_or_else(|| fields.wrong("accountSid", "is missing"))?;
        let connect_to = fields.socket("connectTo")?;
        let settings = Self {
            account: account.to_owned(),
            account_sid,
            senders: senders(&mut fields)?,
            status_callback: fields.flag("statusCallback")?.unwrap_or(true),
            smart_encoding: fields.flag("smartEncoding")?.unwrap_or(false),
            concurrency: fields
                .number("concurrency", 1..=CONCURRENCY_MAX)?
                .map_or(32, |number| number as usize),
            endpoint: endpoint(&mut fields, connect_to)?,
            connect_to,
            ca_pem: fields.text("caPem", PEM_BYTES_MAX)?.unwrap_or_default().to_owned(),
        };
        fields.end()?;
        Ok(settings)
    }

    /// Where connections and the account's token go.
    #[must_use]
    pub fn targets(&self) -> Vec<AccountTarget> {
        // Every field is named, so that a new one is either listed below or leads nowhere.
        let Self {
            account_sid,
            endpoint,
            connect_to,
            ca_pem,
            account: _,
            senders: _,
            status_callback: _,
            smart_encoding: _,
            concurrency: _,
        } = self;
        let named = Destination::web(&endpoint.origin);
        let is_plain = named.is_plain;
        vec![
            AccountTarget::value("/settings/accountSid", account_sid),
            AccountTarget::new("/settings/endpoint", endpoint.to_string(), named, *connect_to),
            AccountTarget::connect_to("/settings/connectTo", *connect_to, is_plain),
            AccountTarget::value("/settings/caPem", ca_pem),
        ]
    }
}

impl Secrets {
    /// `{"authToken", "apiKeySid", "apiKeySecret", "webhookKeys": {id: secret}}`: a token, an API key, or both.
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::of(value)?;
        let auth_token = secret(&mut fields, "authToken")?;
        let api_key = match (sid(&mut fields, "apiKeySid", "SK")?, secret(&mut fields, "apiKeySecret")?) {
            (Some(sid), Some(secret)) => Some(ApiKey { sid, secret }),
            (None, None) => None,
            (Some(_), None) => return Err(fields.wrong("apiKeySecret", "goes together with apiKeySid")),
            (None, Some(_)) => return Err(fields.wrong("apiKeySid", "goes together with apiKeySecret")),
        };
        let mut webhook_keys = BTreeMap::new();
        if let Some(keys) = fields.value("webhookKeys") {
            let keys = keys.as_object().ok_or_else(|| fields.wrong("webhookKeys", "must be an object"))?;
            if keys.len() > WEBHOOK_KEYS_MAX {
                return Err(fields.wrong("webhookKeys", "has too many"));
            }
            for (id, secret) in keys {
                let wrong = || SettingsError::new(format!("/webhookKeys/{id}"), NO_SECRET);
                let secret = secret.as_str().filter(|secret| is_secret(secret)).ok_or_else(wrong)?;
                webhook_keys.insert(id.clone(), secret.to_owned());
            }
        }
        let is_empty = auth_token.is_none() && api_key.is_none();
        let missing = fields.wrong("authToken", "a token or an API key is needed");
        fields.end()?;
        if is_empty { Err(missing) } else { Ok(Self { auth_token, api_key, webhook_keys }) }
    }
}

/// Plain http would show credentials to the network.
fn endpoint(fields: &mut Fields<'_>, connect_to: Option<SocketAddr>) -> Result<Url, SettingsError> {
    let text = fields.line("endpoint", URL_BYTES_MAX)?.unwrap_or(ENDPOINT);
    let endpoint = Url::parse(text).map_err(|_| fields.wrong("endpoint", "must be an http or https URL"))?;
    if endpoint.path != "/" {
        return Err(fields.wrong("endpoint", "must not have a path"));
    }
    let is_here = connect_to.is_some_and(|address| address.ip().is_loopback());
    if endpoint.origin.scheme == Scheme::Http && !is_here {
        return Err(fields.wrong("endpoint", "plain http goes to this machine only, with connectTo"));
    }
    Ok(endpoint)
}

fn senders(fields: &mut Fields<'_>) -> Result<Vec<Sender>, SettingsError> {
    let list = fields.list("senders", SENDERS_MAX)?.unwrap_or_default();
    if list.is_empty() {
        return Err(fields.wrong("senders", "must have one at least"));
    }
    list.iter().enumerate().map(|(index, value)| sender(format!("/senders/{index}"), value)).collect()
}

fn sender(place: String, value: &Value) -> Result<Sender, SettingsError> {
    let mut fields = Fields::at(place.clone(), value)?;
    let kind = match fields.line("kind", NAME_BYTES_MAX)? {
        None => None,
        Some(name) => match KINDS.iter().find(|(_, known, _)| *known == name) {
            Some((kind, _, _)) => Some(*kind),
            None => return Err(fields.wrong("kind", "is no kind of sender")),
        },
    };
    let from = fields.line("from", NAME_BYTES_MAX)?;
    let (identity, kind) = match (from, sid(&mut fields, "messagingServiceSid", "MG")?) {
        (Some(from), None) => {
            let kind = kind.unwrap_or_else(|| kind_of(from));
            is_from(from, kind).map_err(|reason| fields.wrong("from", reason))?;
            (Identity::From(from.to_owned()), kind)
        }
        (None, Some(service)) => {
            (Identity::MessagingService(service), kind.unwrap_or(Kind::MessagingService))
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(SettingsError::new(place, "has either from or messagingServiceSid"));
        }
    };
    let usual = KINDS.iter().find(|(other, _, _)| *other == kind).map_or(1, |(_, _, per_second)| *per_second);
    let per_second = fields.number("perSecond", 1..=PER_SECOND_MAX)?;
    let per_second = per_second.and_then(|number| u32::try_from(number).ok()).unwrap_or(usual);
    let prefixes = prefixes(&mut fields)?;
    if kind == Kind::ShortCode && prefixes.is_empty() && matches!(identity, Identity::From(_)) {
        return Err(fields.wrong("prefixes", "a short code works in one country: say which"));
    }
    fields.end()?;
    Ok(Sender { identity, kind, prefixes, per_second })
}

fn kind_of(from: &str) -> Kind {
    match from.strip_prefix('+') {
        Some(_) => Kind::LongCode,
        None if from.bytes().all(|byte| byte.is_ascii_digit()) => Kind::ShortCode,
        None => Kind::Alphanumeric,
    }
}

fn is_from(from: &str, kind: Kind) -> Result<(), &'static str> {
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
    if fits { Ok(()) } else { Err(reason) }
}

fn prefixes(fields: &mut Fields<'_>) -> Result<Vec<String>, SettingsError> {
    let list = fields.list("prefixes", PREFIXES_MAX)?.unwrap_or_default();
    let read = |value: &Value| {
        let digits = value.as_str().and_then(|text| text.strip_prefix('+')).unwrap_or_default();
        let fits = (1..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        let wrong = || fields.wrong("prefixes", "each is the beginning of a number, like +43");
        fits.then(|| format!("+{digits}")).ok_or_else(wrong)
    };
    list.iter().map(read).collect()
}

/// The name of something there: two letters of its kind and 32 digits.
fn sid(fields: &mut Fields<'_>, name: &'static str, prefix: &str) -> Result<Option<String>, SettingsError> {
    let Some(text) = fields.line(name, NAME_BYTES_MAX)? else { return Ok(None) };
    let digits = text.strip_prefix(prefix).unwrap_or_default();
    if digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(Some(text.to_owned()));
    }
    Err(fields.wrong(name, "must be a SID: two letters of its kind and 32 hexadecimal digits"))
}

fn secret(fields: &mut Fields<'_>, name: &'static str) -> Result<Option<String>, SettingsError> {
    match fields.text(name, SECRET_BYTES_MAX)? {
        None => Ok(None),
        Some(text) if is_secret(text) => Ok(Some(text.to_owned())),
        Some(_) => Err(fields.wrong(name, NO_SECRET)),
    }
}

const NO_SECRET: &str = "must be visible ASCII characters";

fn is_secret(text: &str) -> bool {
    (1..=SECRET_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
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
