//! Which relay, and as whom. Without TLS only where the operator lists the relay: on the way anyone could read the password.

use super::limits::LOCAL_PART_BYTES_MAX;
use crate::email::{Sender, SenderSecrets};
use crate::fields::{Fields, NAME_BYTES_MAX, SettingsError};
use crate::targets::AccountTarget;
use fantail_outbound::policy::{Destination, Service};
use fantail_outbound::url::Host;
use serde_json::Value;
use std::fmt;
use std::net::SocketAddr;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    pub sender: Sender,
    pub host: String,
    pub port: u16,
    pub security: Security,
    /// Connect here instead of looking the name up: emulators on this machine.
    pub connect_to: Option<SocketAddr>,
    /// Certificates in PEM, trusted beside the public ones.
    pub ca_pem: Option<String>,
    /// By what name we greet.
    pub helo_name: String,
    /// Where reports go: `bounce@example.com` becomes `bounce+REFERENCE@example.com`.
    pub return_path: ReturnPath,
    pub connections_max: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Security {
    /// From the first byte: port 465.
    Tls,
    /// After `STARTTLS`, without which nothing is sent: port 587.
    StartTls,
    /// Only where the policy allows a plain connection.
    None,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReturnPath {
    pub local: String,
    pub domain: String,
}

/// Never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    pub sender: SenderSecrets,
    pub login: Option<Login>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub username: String,
    pub password: String,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secrets(hidden)")
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Login(hidden)")
    }
}

const CONNECTIONS: u64 = 8;
const CONNECTIONS_MAX: u64 = 100;
/// The longest reference that there is, and the sign before it.
const REFERENCE_ROOM: usize = 39;
const CA_BYTES_MAX: usize = 256 * 1_024;

impl Settings {
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::of(value)?;
        let sender = Sender::read(&mut fields)?;
        let host = fields.host("host")?.ok_or_else(|| fields.wrong("host", "is missing"))?;
        let security = match fields.line("security", NAME_BYTES_MAX)? {
            None | Some("starttls") => Security::StartTls,
            Some("tls") => Security::Tls,
            Some("none") => Security::None,
            Some(_) => return Err(fields.wrong("security", "must be starttls, tls or none")),
        };
        let usual = match security {
            Security::Tls => 465,
            Security::StartTls | Security::None => 587,
        };
        let port = fields.number("port", 1..=65_535)?.unwrap_or(usual);
        let connect_to = fields.socket("connectTo")?;
        let helo_name = fields.host("heloName")?.unwrap_or_else(|| sender.domain().to_owned());
        let connections_max = fields.number("connectionsMax", 1..=CONNECTIONS_MAX)?.unwrap_or(CONNECTIONS);
        let settings = Self {
            return_path: return_path(&mut fields, &sender)?,
            sender,
            host,
            port: u16::try_from(port).expect("the range of a port"),
            security,
            connect_to,
            ca_pem: fields.text("caPem", CA_BYTES_MAX)?.map(str::to_owned),
            helo_name,
            connections_max: usize::try_from(connections_max).expect("a small number"),
        };
        fields.end()?;
        Ok(settings)
    }

    /// The relay, or the address that is connected to instead.
    #[must_use]
    pub fn destination(&self) -> Destination {
        let is_plain = self.security == Security::None;
        let (host, port) = match self.connect_to {
            Some(address) => (Host::Address(address.ip()), address.port()),
            None => (Host::of(&self.host), self.port),
        };
        Destination { host, port, is_plain, service: Service::Mail }
    }

    /// Where connections and the password go.
    #[must_use]
    pub fn targets(&self) -> Vec<AccountTarget> {
        // Every field is named, so that a new one is either listed below or leads nowhere.
        let Self {
            host,
            port,
            security,
            connect_to,
            ca_pem,
            sender: _,
            helo_name: _,
            return_path: _,
            connections_max: _,
        } = self;
        let named = Destination { host: Host::of(host), port: *port, ..self.destination() };
        let connect = match connect_to {
            Some(address) => {
                AccountTarget::new("/settings/connectTo", address.to_string(), self.destination(), None)
            }
            None => AccountTarget::value("/settings/connectTo", ""),
        };
        vec![
            AccountTarget::new("/settings/host", host, named, *connect_to),
            AccountTarget::value("/settings/port", port.to_string()),
            AccountTarget::value("/settings/security", format!("{security:?}")),
            connect,
            AccountTarget::value("/settings/caPem", ca_pem.as_deref().unwrap_or_default()),
        ]
    }
}

fn return_path(fields: &mut Fields<'_>, sender: &Sender) -> Result<ReturnPath, SettingsError> {
    let mailbox = fields.mailbox("returnPath")?.unwrap_or_else(|| format!("bounce@{}", sender.domain()));
    let (local, domain) = mailbox.rsplit_once('@').unwrap_or((&mailbox, ""));
    if local.len() + REFERENCE_ROOM > LOCAL_PART_BYTES_MAX {
        let room = LOCAL_PART_BYTES_MAX - REFERENCE_ROOM;
        return Err(fields.wrong("returnPath", format!("may have {room} bytes before the @")));
    }
    Ok(ReturnPath { local: local.to_owned(), domain: domain.to_owned() })
}

impl Secrets {
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::of(value)?;
        let username = fields.line("username", NAME_BYTES_MAX)?;
        let login = match (username, fields.line("password", NAME_BYTES_MAX)?) {
            (None, None) => None,
            (Some(username), Some(password)) => {
                Some(Login { username: username.to_owned(), password: password.to_owned() })
            }
            (Some(_), None) => return Err(fields.wrong("password", "is needed with a user name")),
            (None, Some(_)) => return Err(fields.wrong("username", "is needed with a password")),
        };
        let sender = SenderSecrets::read(&mut fields)?;
        fields.end()?;
        Ok(Self { sender, login })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(change: impl FnOnce(&mut Value)) -> Result<Settings, String> {
        let mut value = json!({"fromAddress": "news@shop.example", "host": "Smtp.Example"});
        change(&mut value);
        Settings::read(&value).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_safe() {
        let settings = with(|_| ()).expect("settings");
        assert_eq!((settings.host.as_str(), settings.port), ("smtp.example", 587));
        assert_eq!((settings.security, settings.helo_name.as_str()), (Security::StartTls, "shop.example"));
        assert_eq!(
            settings.return_path,
            ReturnPath { local: "bounce".into(), domain: "shop.example".into() }
        );
        assert_eq!(with(|value| value["security"] = "tls".into()).expect("settings").port, 465);
    }

    #[test]
    fn mistakes_are_named() {
        let check = |change: fn(&mut Value), expected: &str| {
            assert_eq!(with(change).expect_err("a mistake"), expected);
        };
        check(|value| value["host"] = Value::Null, "/host: is missing");
        check(|value| value["port"] = 0.into(), "/port: must be a whole number from 1 to 65535");
        check(|value| value["security"] = "ssl".into(), "/security: must be starttls, tls or none");
        check(|value| value["connectTo"] = "here".into(), "/connectTo: must be an address with a port");
        check(
            |value| value["returnPath"] = format!("{}@b.example", "b".repeat(26)).into(),
            "/returnPath: may have 25 bytes before the @",
        );
    }

    #[test]
    fn the_address_of_connect_to_is_the_destination() {
        for (connect_to, security, expected) in [
            (None, "starttls", ("smtp.example:587", false)),
            (Some("127.0.0.1:25"), "none", ("127.0.0.1:25", true)),
            (Some("127.0.0.1:25"), "tls", ("127.0.0.1:25", false)),
        ] {
            let settings = with(|value| {
                value["security"] = security.into();
                value["connectTo"] = connect_to.map_or(Value::Null, Value::from);
            });
            let Destination { host, port, is_plain, .. } = settings.expect("settings").destination();
            assert_eq!((format!("{host}:{port}").as_str(), is_plain), expected);
        }
    }

    #[test]
    fn secrets_are_whole_and_hidden() {
        let secrets = Secrets::read(&json!({"username": "u", "password": "hunter2"})).expect("secrets");
        assert_eq!(format!("{secrets:?} {:?}", secrets.login), "Secrets(hidden) Some(Login(hidden))");
        let error = Secrets::read(&json!({"username": "u"})).expect_err("a mistake").to_string();
        assert_eq!(error, "/password: is needed with a user name");
        assert_eq!(Secrets::read(&json!({})).expect("none"), Secrets::default());
    }
}
