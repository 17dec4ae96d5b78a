//! Reads settings and secrets of an account out of JSON, and says which field is wrong and why.
//!
//! What must never happen: a field that is passed over because its name was misspelt, or an error that quotes a value: it
//! may be a secret.

use fantail_rules::address;
use fantail_rules::channel_kind::ChannelKind;
use hyper::http::Uri;
use serde_json::{Map, Value};
use std::fmt;
use std::net::SocketAddr;

/// Which field cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct SettingsError {
    /// Where it stands, as a JSON pointer: `/projects/0/weight`. Empty for the whole.
    pub field: String,
    pub reason: String,
}

impl SettingsError {
    #[must_use]
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

impl SettingsError {
    /// The same, of a part that begins here. What stands there already stays.
    #[must_use]
    pub fn below(self, pointer: &str) -> Self {
        Self { field: format!("{pointer}{}", self.field), ..self }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => formatter.write_str(&self.reason),
            field => write!(formatter, "{field}: {}", self.reason),
        }
    }
}

/// An object that is being read. Every field is asked for once; what nobody asked for is an error at the end.
pub struct Fields<'a> {
    place: String,
    object: &'a Map<String, Value>,
    asked: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub fn of(value: &'a Value) -> Result<Self, SettingsError> {
        Self::at(String::new(), value)
    }

    pub fn at(place: String, value: &'a Value) -> Result<Self, SettingsError> {
        match value.as_object() {
            Some(object) => Ok(Self { place, object, asked: Vec::new() }),
            None => Err(SettingsError::new(place, "must be an object")),
        }
    }

    /// The pointer of a field.
    #[must_use]
    pub fn pointer(&self, name: &str) -> String {
        format!("{}/{name}", self.place)
    }

    pub fn wrong(&self, name: &str, reason: impl Into<String>) -> SettingsError {
        SettingsError::new(self.pointer(name), reason)
    }

    /// `null` is as if it were absent.
    pub fn value(&mut self, name: &'static str) -> Option<&'a Value> {
        self.asked.push(name);
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Some text that is not empty, of at most so many bytes.
    pub fn text(&mut self, name: &'static str, bytes_max: usize) -> Result<Option<&'a str>, SettingsError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match value.as_str() {
            Some("") => Err(self.wrong(name, "must not be empty")),
            Some(text) if text.len() > bytes_max => {
                Err(self.wrong(name, format!("must have at most {bytes_max} bytes")))
            }
            Some(text) => Ok(Some(text)),
            None => Err(self.wrong(name, "must be a string")),
        }
    }

    pub fn required_text(&mut self, name: &'static str, bytes_max: usize) -> Result<&'a str, SettingsError> {
        self.text(name, bytes_max)?.ok_or_else(|| self.wrong(name, "is missing"))
    }

    /// Some text of one line.
    pub fn line(&mut self, name: &'static str, bytes_max: usize) -> Result<Option<&'a str>, SettingsError> {
        let text = self.text(name, bytes_max)?;
        if text.is_some_and(|text| text.chars().any(char::is_control)) {
            return Err(self.wrong(name, "must be one line"));
        }
        Ok(text)
    }

    pub fn required_line(&mut self, name: &'static str, bytes_max: usize) -> Result<&'a str, SettingsError> {
        self.line(name, bytes_max)?.ok_or_else(|| self.wrong(name, "is missing"))
    }

    /// A mail address, as it is compared.
    pub fn mailbox(&mut self, name: &'static str) -> Result<Option<String>, SettingsError> {
        let Some(text) = self.line(name, NAME_BYTES_MAX)? else { return Ok(None) };
        match address::read(ChannelKind::Email, text) {
            Ok(address) => Ok(Some(address.text)),
            Err(reason) => Err(self.wrong(name, reason)),
        }
    }

    /// A name as DNS knows it, in lower case.
    pub fn host(&mut self, name: &'static str) -> Result<Option<String>, SettingsError> {
        let Some(text) = self.line(name, NAME_BYTES_MAX)? else { return Ok(None) };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_host = text.bytes().all(is_plain) && !text.starts_with(['.', '-']) && !text.ends_with('.');
        if !is_host {
            return Err(self.wrong(name, "must be the name of a host"));
        }
        Ok(Some(text.to_ascii_lowercase()))
    }

    pub fn number(
        &mut self,
        name: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, SettingsError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match value.as_u64().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (low, high) = range.into_inner();
                Err(self.wrong(name, format!("must be a whole number from {low} to {high}")))
            }
        }
    }

    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, SettingsError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(name, "must be true or false"))
    }

    /// `127.0.0.1:8443`.
    pub fn socket(&mut self, name: &'static str) -> Result<Option<SocketAddr>, SettingsError> {
        let Some(text) = self.text(name, SOCKET_BYTES_MAX)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| self.wrong(name, "must be an address with a port"))
    }

    /// A list of at most so many values.
    pub fn list(
        &mut self,
        name: &'static str,
        items_max: usize,
    ) -> Result<Option<&'a [Value]>, SettingsError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match value.as_array() {
            Some(items) if items.len() <= items_max => Ok(Some(items)),
            Some(_) => Err(self.wrong(name, format!("must have at most {items_max} entries"))),
            None => Err(self.wrong(name, "must be a list")),
        }
    }

    /// The base URL of a service.
    pub fn base(&mut self, name: &'static str) -> Result<Option<Base>, SettingsError> {
        let Some(text) = self.text(name, URL_BYTES_MAX)? else { return Ok(None) };
        Base::parse(text).map(Some).map_err(|reason| self.wrong(name, reason))
    }

    /// Nothing must be left that nobody asked for.
    pub fn end(self) -> Result<(), SettingsError> {
        match self.object.keys().find(|name| !self.asked.contains(&name.as_str())) {
            Some(name) if is_field_name(name) => {
                Err(SettingsError::new(self.pointer(name), "is not a known field"))
            }
            // What does not look like a name is not repeated: somebody may have put a secret there.
            Some(_) => Err(SettingsError::new(self.place, "has a field that is not known")),
            None => Ok(()),
        }
    }
}

fn is_field_name(name: &str) -> bool {
    (1..=FIELD_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphabetic())
}

const FIELD_NAME_BYTES_MAX: usize = 40;
const SOCKET_BYTES_MAX: usize = 64;
/// A name, a mailbox or a host.
pub const NAME_BYTES_MAX: usize = 254;
pub const URL_BYTES_MAX: usize = 2_048;
/// Certificates of a private authority, a few of them.
pub const PEM_BYTES_MAX: usize = 65_536;

/// Where a service is: its scheme, its host and what its paths begin with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Base {
    pub is_tls: bool,
    pub host: String,
    pub port: u16,
    /// Without a slash at its end.
    pub path: String,
}

impl Base {
    /// Plain http is for emulators on this machine and nothing else: it would show credentials to the network.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "must be a URL")?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("must be a URL that begins with https://"),
        };
        let authority = uri.authority().ok_or("must be a URL with a host")?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err("must be a URL without a user and without a query");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let is_here = host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        if !is_tls && !is_here {
            return Err("must be https unless it is on this machine");
        }
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Self { is_tls, host, port, path: uri.path().trim_end_matches('/').to_owned() })
    }

    /// As the `host` header has it.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.is_tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_read_and_mistakes_are_placed() {
        let value = json!({
            "name": "a", "count": 3, "on": true, "at": "127.0.0.1:80", "list": [1], "none": null, "empty": "",
        });
        let mut fields = Fields::of(&value).expect("an object");
        assert_eq!(fields.text("name", 1), Ok(Some("a")));
        assert_eq!(fields.number("count", 1..=3), Ok(Some(3)));
        assert_eq!(fields.flag("on"), Ok(Some(true)));
        assert!(fields.socket("at").is_ok_and(|at| at.is_some()));
        assert!(fields.list("list", 1).is_ok_and(|list| list.is_some()));
        assert_eq!(fields.text("none", 9), Ok(None));
        let said = |error: SettingsError| error.to_string();
        assert_eq!(fields.required_text("missing", 9).map_err(said), Err("/missing: is missing".to_owned()));
        assert_eq!(fields.text("empty", 9).map_err(said), Err("/empty: must not be empty".to_owned()));
        assert_eq!(fields.end(), Ok(()));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let value = json!({"text": 1, "long": "abc", "count": 9, "list": [1, 2], "at": "here", "odd": 1});
        let reason = |read: &dyn Fn(&mut Fields<'_>) -> Result<(), SettingsError>| {
            let mut fields = Fields::at("/a".to_owned(), &value).expect("an object");
            read(&mut fields).expect_err("a mistake").to_string()
        };
        for (said, expected) in [
            (reason(&|fields| fields.text("text", 9).map(drop)), "/a/text: must be a string"),
            (reason(&|fields| fields.text("long", 2).map(drop)), "/a/long: must have at most 2 bytes"),
            (
                reason(&|fields| fields.number("count", 1..=8).map(drop)),
                "/a/count: must be a whole number from 1 to 8",
            ),
            (reason(&|fields| fields.list("list", 1).map(drop)), "/a/list: must have at most 1 entries"),
            (reason(&|fields| fields.flag("list").map(drop)), "/a/list: must be true or false"),
            (reason(&|fields| fields.socket("at").map(drop)), "/a/at: must be an address with a port"),
        ] {
            assert_eq!(said, expected);
        }
        let mut fields = Fields::of(&value).expect("an object");
        for name in ["text", "long", "count", "list", "at"] {
            assert!(fields.value(name).is_some());
        }
        assert_eq!(fields.end(), Err(SettingsError::new("/odd", "is not a known field")));
        let said = Fields::of(&json!([])).err().expect("no object").to_string();
        assert_eq!(said, "must be an object");
    }

    #[test]
    fn names_that_may_be_secrets_are_not_repeated() {
        for (name, expected) in [
            ("color", "/a/color: is not a known field"),
            ("hunter2", "/a: has a field that is not known"),
            ("", "/a: has a field that is not known"),
        ] {
            let value = json!({name: 1});
            let fields = Fields::at("/a".to_owned(), &value).expect("an object");
            assert_eq!(fields.end().expect_err("a mistake").to_string(), expected);
        }
    }

    #[test]
    fn lines_mailboxes_and_hosts_are_read() {
        let value = json!({
            "line": "a b", "lines": "a\nb", "mailbox": "News@Shop.Example", "host": "Smtp.Example", "dot": ".a",
        });
        let mut fields = Fields::of(&value).expect("an object");
        assert_eq!(fields.line("line", 9), Ok(Some("a b")));
        assert_eq!(fields.mailbox("mailbox"), Ok(Some("News@shop.example".to_owned())));
        assert_eq!(fields.host("host"), Ok(Some("smtp.example".to_owned())));
        let said = |error: SettingsError| error.to_string();
        for (read, expected) in [
            (fields.line("lines", 9).map(drop), "/lines: must be one line"),
            (fields.line("line", 2).map(drop), "/line: must have at most 2 bytes"),
            (fields.required_line("none", 9).map(drop), "/none: is missing"),
            (fields.mailbox("line").map(drop), "/line: must be a mail address like ann@example.com"),
            (fields.host("dot").map(drop), "/dot: must be the name of a host"),
        ] {
            assert_eq!(read.map_err(said), Err(expected.to_owned()));
        }
    }

    #[test]
    fn bases_are_https_or_on_this_machine() {
        for (text, authority, path) in [
            ("https://fcm.googleapis.com", "fcm.googleapis.com", ""),
            ("https://Example.org:8443/a/b/", "example.org:8443", "/a/b"),
            ("http://127.0.0.1:9099", "127.0.0.1:9099", ""),
            ("http://localhost/x", "localhost", "/x"),
            ("http://[::1]:80/", "[::1]", ""),
        ] {
            let base = Base::parse(text).expect(text);
            assert_eq!((base.authority().as_str(), base.path.as_str()), (authority, path), "{text}");
        }
        for text in
            ["", "x", "ftp://a", "http://example.org", "https://a@b/", "https://a/?x", "https:///a", "//a"]
        {
            assert!(Base::parse(text).is_err(), "{text}");
        }
    }
}
