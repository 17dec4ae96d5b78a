//! Where a webhook goes, as it is stored: URL, secrets, extra headers.
//!
//! ```text
//! version 1 = 1 | fields: tag 1 | length 2 (big endian) | bytes
//! tag 1: URL, once     tag 2: shared secret     tag 3: header, `name:value`, 0 to 16     tag 4: private key
//! tag 5: previous secret = until 8 (seconds, big endian) | tag 2 or 4 | bytes, newest first
//!
//! {"url": …, "secret": "whsec_… or whsk_…", "previousSecret": …, "previousUntil": seconds}     as producers register it
//! ```
//! Secrets together are 1 to 4. Previous ones sign as well until their time is over, so that a receiver can change. Version
//! 0770009 wrote one of them at most.
//!
//! The numbers are frozen. What is read is checked as strictly as what is registered: a URL that a later version would
//! refuse is refused although it is stored. What must never happen: an extra header that changes how the message is
//! framed, routed or believed.

use super::limits::{
    ENDPOINT_BYTES_MAX, HEADER_NAME_BYTES_MAX, HEADER_VALUE_BYTES_MAX, HEADERS_MAX, SECRETS_MAX,
};
use super::signature::{Secret, SecretError};
use super::url::{Url, UrlError};
use hyper::header::{HeaderName, HeaderValue};
use serde_json::Value;

const VERSION: u8 = 1;
const URL: u8 = 1;
const SECRET: u8 = 2;
const HEADER: u8 = 3;
const PRIVATE: u8 = 4;
const PREVIOUS: u8 = 5;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    url: Url,
    secrets: Vec<Secret>,
    /// The newest first.
    previous: Vec<Previous>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// A secret that was replaced and that some receivers still check with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Previous {
    pub secret: Secret,
    /// Seconds since 1970: from then on it signs nothing.
    pub until_s: u64,
}

/// Every one is the mistake of whoever registered the endpoint, except `Unreadable`, which is ours.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EndpointError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("an endpoint has 1 to {SECRETS_MAX} secrets, not {count}")]
    SecretCount { count: usize },
    #[error("a previous secret needs the time in seconds until which it signs")]
    PreviousWithoutEnd,
    #[error("an endpoint has at most {HEADERS_MAX} extra headers")]
    TooManyHeaders,
    #[error("`{name}` is no header name, or longer than {HEADER_NAME_BYTES_MAX} bytes")]
    BadHeaderName { name: String },
    #[error("the header {name} is ours to set")]
    ReservedHeader { name: String },
    #[error("the header {name} is given twice")]
    RepeatedHeader { name: String },
    #[error("the value of {name} is not plain ASCII, or longer than {HEADER_VALUE_BYTES_MAX} bytes")]
    BadHeaderValue { name: String },
    #[error("an endpoint has at most {ENDPOINT_BYTES_MAX} bytes")]
    TooLarge,
    #[error("these bytes are no endpoint")]
    Unreadable,
}

impl Endpoint {
    /// Checks everything but policy: whether the target may be connected to depends on the settings and is decided
    /// when a message is sent.
    pub fn new(url: &str, secrets: Vec<Secret>, headers: &[(&str, &str)]) -> Result<Self, EndpointError> {
        if !(1..=SECRETS_MAX).contains(&secrets.len()) {
            return Err(EndpointError::SecretCount { count: secrets.len() });
        }
        if headers.len() > HEADERS_MAX {
            return Err(EndpointError::TooManyHeaders);
        }
        let mut endpoint = Self {
            url: Url::parse(url)?,
            secrets,
            previous: Vec::new(),
            headers: Vec::with_capacity(headers.len()),
        };
        for (name, value) in headers {
            let header = extra_header(name, value)?;
            if endpoint.headers.iter().any(|(other, _)| *other == header.0) {
                return Err(EndpointError::RepeatedHeader { name: header.0.to_string() });
            }
            endpoint.headers.push(header);
        }
        if endpoint.encode().len() > ENDPOINT_BYTES_MAX {
            return Err(EndpointError::TooLarge);
        }
        Ok(endpoint)
    }

    /// The same, with a secret that still signs for a time.
    pub fn with_previous(mut self, previous: Previous) -> Result<Self, EndpointError> {
        let count = self.secrets.len() + self.previous.len() + 1;
        if count > SECRETS_MAX {
            return Err(EndpointError::SecretCount { count });
        }
        self.previous.push(previous);
        if self.encode().len() > ENDPOINT_BYTES_MAX {
            return Err(EndpointError::TooLarge);
        }
        Ok(self)
    }

    /// The same place with another secret. All secrets of before sign too until `until_s`, or until the earlier time that
    /// they have; refused if that makes too many of them.
    pub fn rotated(self, secret: Secret, now_s: u64, until_s: u64) -> Result<Self, EndpointError> {
        let replaced = self.secrets.into_iter().map(|secret| Previous { secret, until_s });
        let before =
            self.previous.into_iter().map(|one| Previous { until_s: one.until_s.min(until_s), ..one });
        let previous: Vec<Previous> = replaced.chain(before).filter(|one| now_s < one.until_s).collect();
        let endpoint = Self { secrets: vec![secret], previous: Vec::new(), ..self };
        previous.into_iter().try_fold(endpoint, Self::with_previous)
    }

    /// When the first of the secrets that were replaced stops to sign.
    #[must_use]
    pub fn first_end_s(&self, now_s: u64) -> Option<u64> {
        self.previous.iter().map(|previous| previous.until_s).filter(|until_s| now_s < *until_s).min()
    }

    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Those that sign at this time.
    pub fn secrets_at(&self, now_s: u64) -> impl Iterator<Item = &Secret> {
        let previous = self.previous.iter().filter(move |previous| now_s < previous.until_s);
        self.secrets.iter().chain(previous.map(|previous| &previous.secret))
    }

    #[must_use]
    pub fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        push(&mut bytes, URL, self.url.to_string().as_bytes());
        for secret in &self.secrets {
            push(&mut bytes, tag(secret), secret.bytes());
        }
        for Previous { secret, until_s } in &self.previous {
            push(
                &mut bytes,
                PREVIOUS,
                &[&until_s.to_be_bytes(), &[tag(secret)][..], secret.bytes()].concat(),
            );
        }
        for (name, value) in &self.headers {
            push(&mut bytes, HEADER, &[name.as_str().as_bytes(), b":", value.as_bytes()].concat());
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, EndpointError> {
        if bytes.len() > ENDPOINT_BYTES_MAX {
            return Err(EndpointError::TooLarge);
        }
        if bytes.starts_with(b"{") {
            return Self::of_json(bytes);
        }
        let mut rest = bytes.strip_prefix(&[VERSION]).ok_or(EndpointError::Unreadable)?;
        let (mut url, mut secrets, mut headers, mut replaced) = (None, Vec::new(), Vec::new(), Vec::new());
        while !rest.is_empty() {
            let (tag, field, after) = take(rest).ok_or(EndpointError::Unreadable)?;
            match tag {
                URL if url.is_none() => url = Some(text(field)?),
                SECRET | PRIVATE => secrets.push(secret(tag, field)?),
                PREVIOUS => replaced.push(previous(field)?),
                HEADER => headers.push(text(field)?.split_once(':').ok_or(EndpointError::Unreadable)?),
                _ => return Err(EndpointError::Unreadable),
            }
            rest = after;
        }
        let endpoint = Self::new(url.ok_or(EndpointError::Unreadable)?, secrets, &headers)?;
        replaced.into_iter().try_fold(endpoint, Self::with_previous)
    }

    fn of_json(bytes: &[u8]) -> Result<Self, EndpointError> {
        let registered: Value = serde_json::from_slice(bytes).map_err(|_| EndpointError::Unreadable)?;
        let url = registered["url"].as_str().ok_or(EndpointError::Unreadable)?;
        let secrets: Result<Vec<Secret>, SecretError> =
            registered["secret"].as_str().into_iter().map(Secret::parse).collect();
        let endpoint = Self::new(url, secrets?, &[])?;
        let Some(previous) = registered["previousSecret"].as_str() else { return Ok(endpoint) };
        let until_s = registered["previousUntil"].as_u64().ok_or(EndpointError::PreviousWithoutEnd)?;
        endpoint.with_previous(Previous { secret: Secret::parse(previous)?, until_s })
    }
}

fn tag(secret: &Secret) -> u8 {
    match secret {
        Secret::Shared(_) => SECRET,
        Secret::Private(_) => PRIVATE,
    }
}

fn secret(tag: u8, bytes: &[u8]) -> Result<Secret, EndpointError> {
    match tag {
        SECRET => Ok(Secret::from_bytes(bytes)?),
        PRIVATE => Ok(Secret::from_private(bytes)?),
        _ => Err(EndpointError::Unreadable),
    }
}

fn previous(field: &[u8]) -> Result<Previous, EndpointError> {
    let (until, rest) = field.split_first_chunk().ok_or(EndpointError::Unreadable)?;
    let (tag, bytes) = rest.split_first().ok_or(EndpointError::Unreadable)?;
    Ok(Previous { secret: secret(*tag, bytes)?, until_s: u64::from_be_bytes(*until) })
}

fn push(bytes: &mut Vec<u8>, tag: u8, field: &[u8]) {
    let length = u16::try_from(field.len()).expect("URL, secrets and headers are limited to less");
    bytes.push(tag);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(field);
}

fn take(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, high, low], rest) = bytes.split_first_chunk()?;
    let (field, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
    Some((tag, field, rest))
}

fn text(field: &[u8]) -> Result<&str, EndpointError> {
    std::str::from_utf8(field).map_err(|_| EndpointError::Unreadable)
}

fn extra_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), EndpointError> {
    let bad_name =
        || EndpointError::BadHeaderName { name: name.chars().take(HEADER_NAME_BYTES_MAX).collect() };
    if name.len() > HEADER_NAME_BYTES_MAX {
        return Err(bad_name());
    }
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad_name())?;
    if is_reserved(parsed.as_str()) {
        return Err(EndpointError::ReservedHeader { name: parsed.to_string() });
    }
    let bad_value = || EndpointError::BadHeaderValue { name: parsed.to_string() };
    let is_plain = value.len() <= HEADER_VALUE_BYTES_MAX
        && value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
        && value.trim() == value;
    if !is_plain {
        return Err(bad_value());
    }
    let mut value = HeaderValue::from_str(value).map_err(|_| bad_value())?;
    // It may be a token; its Debug shows nothing then.
    value.set_sensitive(true);
    Ok((parsed, value))
}

/// Lower case. Framing and hop-by-hop headers, what names the sender or says where a request came from, and our own.
const RESERVED: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-real-ip",
];
const RESERVED_PREFIXES: &[&str] = &["webhook-", "x-forwarded-", "x-http-method", "sec-"];

fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOOK: &str = "https://example.org/hook?a=b";

    fn secret(byte: u8) -> Secret {
        Secret::from_bytes(&[byte; 24]).expect("a secret")
    }

    fn check(headers: &[(&str, &str)], expected: EndpointError) {
        assert_eq!(Endpoint::new(HOOK, vec![secret(1)], headers), Err(expected));
    }

    #[test]
    fn version_one_stays_readable() {
        let headers = [("authorization", "Bearer x:y"), ("x-team", "")];
        let endpoint = Endpoint::new("https://a.b/c", vec![secret(b'S')], &headers).expect("an endpoint");
        let mut fixture = b"\x01\x01\x00\x0dhttps://a.b/c\x02\x00\x18".to_vec();
        fixture.extend([b'S'; 24]);
        fixture.extend(b"\x03\x00\x18authorization:Bearer x:y\x03\x00\x07x-team:");
        assert_eq!(endpoint.encode(), fixture);
        assert_eq!(Endpoint::decode(&fixture), Ok(endpoint));
    }

    #[test]
    fn what_producers_register_is_readable() {
        let whole = format!(r#"{{"url":"{HOOK}","secret":"{}"}}"#, secret(3).reveal());
        assert_eq!(Endpoint::decode(whole.as_bytes()), Endpoint::new(HOOK, vec![secret(3)], &[]));
        let unsigned = format!(r#"{{"url":"{HOOK}","secret":null}}"#);
        for (text, expected) in [
            (unsigned.as_str(), EndpointError::SecretCount { count: 0 }),
            (r#"{"secret":"whsec_x"}"#, EndpointError::Unreadable),
            (r#"{"url":"https://a.b","secret":"x"}"#, EndpointError::Secret(SecretError::NoPrefix)),
            ("{", EndpointError::Unreadable),
        ] {
            assert_eq!(Endpoint::decode(text.as_bytes()), Err(expected), "{text}");
        }
    }

    fn private(byte: u8) -> Secret {
        Secret::from_private(&[byte; 32]).expect("a key")
    }

    // proves: WHK-01
    #[test]
    fn a_replaced_secret_signs_until_its_time_is_over() {
        let (new, old) = (private(1), secret(2));
        let text = format!(
            r#"{{"url":"{HOOK}","secret":"{}","previousSecret":"{}","previousUntil":1000}}"#,
            new.reveal(),
            old.reveal()
        );
        let endpoint = Endpoint::decode(text.as_bytes()).expect("an endpoint");
        for (now_s, expected) in [(0, vec![&new, &old]), (999, vec![&new, &old]), (1_000, vec![&new])] {
            assert_eq!(endpoint.secrets_at(now_s).collect::<Vec<_>>(), expected, "{now_s}");
        }
        assert_eq!(Endpoint::decode(&endpoint.encode()), Ok(endpoint));
        let endless = text.replace(r#","previousUntil":1000"#, "");
        assert_eq!(Endpoint::decode(endless.as_bytes()), Err(EndpointError::PreviousWithoutEnd));
        let full = Endpoint::new(HOOK, vec![secret(1); 4], &[]).expect("an endpoint");
        let previous = Previous { secret: secret(2), until_s: 1 };
        assert_eq!(full.with_previous(previous), Err(EndpointError::SecretCount { count: 5 }));
    }

    // fixes: usability B2
    #[test]
    fn every_replaced_secret_signs_until_its_own_time() {
        let endpoint = Endpoint::new(HOOK, vec![secret(1)], &[]).expect("an endpoint");
        let endpoint =
            endpoint.rotated(secret(2), 0, 100).expect("room").rotated(secret(3), 10, 110).expect("room");
        let signing =
            |endpoint: &Endpoint, now_s| -> Vec<Secret> { endpoint.secrets_at(now_s).cloned().collect() };
        for (now_s, expected) in [(10, &[3, 2, 1][..]), (99, &[3, 2, 1]), (100, &[3, 2]), (110, &[3])] {
            assert_eq!(
                signing(&endpoint, now_s),
                expected.iter().map(|byte| secret(*byte)).collect::<Vec<_>>()
            );
        }
        assert_eq!(Endpoint::decode(&endpoint.encode()), Ok(endpoint.clone()));
        let full = endpoint.rotated(secret(4), 20, 120).expect("room");
        assert_eq!(full.first_end_s(20), Some(100));
        let refused = full.clone().rotated(secret(5), 30, 130);
        assert_eq!(
            refused,
            Err(EndpointError::SecretCount { count: 5 }),
            "none that may be in use is dropped"
        );
        let later = full.clone().rotated(secret(5), 100, 200).expect("one has ended");
        assert_eq!(signing(&later, 100), [5, 4, 3, 2].map(secret));
        let at_once = full.rotated(secret(5), 30, 30).expect("all others have ended");
        assert_eq!((signing(&at_once, 30), at_once.first_end_s(30)), (vec![secret(5)], None));
    }

    #[test]
    fn private_keys_and_previous_secrets_have_their_bytes() {
        let endpoint = Endpoint::new("https://a.b/c", vec![private(b'K')], &[]).expect("an endpoint");
        let endpoint = endpoint.with_previous(Previous { secret: secret(b'S'), until_s: 258 }).expect("room");
        let fixture = [
            &b"\x01\x01\x00\x0dhttps://a.b/c\x04\x00\x20"[..],
            &[b'K'; 32],
            b"\x05\x00\x21\x00\x00\x00\x00\x00\x00\x01\x02\x02",
            &[b'S'; 24],
        ]
        .concat();
        assert_eq!(endpoint.encode(), fixture);
        assert_eq!(Endpoint::decode(&fixture), Ok(endpoint));
    }

    #[test]
    fn headers_that_frame_route_or_vouch_are_refused() {
        for name in [
            "host",
            "Host",
            "content-length",
            "Transfer-Encoding",
            "connection",
            "keep-alive",
            "te",
            "trailer",
            "upgrade",
            "proxy-authorization",
            "expect",
            "webhook-id",
            "Webhook-Signature",
            "webhook-anything",
            "x-forwarded-for",
            "forwarded",
            "content-type",
            "user-agent",
            "x-http-method-override",
        ] {
            check(&[(name, "x")], EndpointError::ReservedHeader { name: name.to_ascii_lowercase() });
        }
        for name in ["", "a b", "a:", "a\r\n", "ä", "a\0"] {
            check(&[(name, "x")], EndpointError::BadHeaderName { name: name.into() });
        }
        for value in ["a\r\nb: c", "a\nb", "a\0", "ä", "\t", " a", "a ", &"a".repeat(4_097)] {
            check(&[("x-a", value)], EndpointError::BadHeaderValue { name: "x-a".into() });
        }
        check(&[("x-a", "1"), ("X-A", "2")], EndpointError::RepeatedHeader { name: "x-a".into() });
        check(&[("x", "1"); 17], EndpointError::TooManyHeaders);
    }

    #[test]
    fn an_endpoint_is_small_and_has_secrets() {
        let count = |count| Endpoint::new(HOOK, vec![secret(1); count], &[]);
        assert_eq!(count(0), Err(EndpointError::SecretCount { count: 0 }));
        assert!(count(4).is_ok());
        assert_eq!(count(5), Err(EndpointError::SecretCount { count: 5 }));
        let long = "a".repeat(4_000);
        let many = [("x-1", &*long), ("x-2", &*long), ("x-3", &*long), ("x-4", &*long), ("x-5", &*long)];
        check(&many, EndpointError::TooLarge);
    }

    #[test]
    fn debug_shows_no_secret_and_no_header_value() {
        let endpoint =
            Endpoint::new(HOOK, vec![secret(b'S')], &[("x-token", "canary")]).expect("an endpoint");
        let shown = format!("{endpoint:?}");
        assert!(!shown.contains("canary") && !shown.contains("SSS") && !shown.contains("83, 83"), "{shown}");
    }

    #[test]
    fn damaged_bytes_are_no_endpoint() {
        let bytes = Endpoint::new(HOOK, vec![secret(1)], &[]).expect("an endpoint").encode();
        for length in 0..bytes.len() {
            assert!(Endpoint::decode(&bytes[..length]).is_err(), "cut to {length}");
        }
        for (at, byte) in [(0, 2), (1, 9), (1, 2), (2, 255)] {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            assert!(Endpoint::decode(&damaged).is_err(), "byte {at}");
        }
        let twice = [&bytes[..], &bytes[1..]].concat();
        assert_eq!(Endpoint::decode(&twice), Err(EndpointError::Unreadable));
    }

    proptest! {
        #[test]
        fn endpoints_round_trip(
            path in "/[a-z0-9]{0,40}",
            secrets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 24..=64), 1..=4),
            headers in proptest::collection::btree_map("x-[a-z]{1,8}", "[!-~]{0,40}", 0..8),
        ) {
            let secrets = secrets.iter().map(|bytes| Secret::from_bytes(bytes).expect("a secret")).collect();
            let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (&**n, &**v)).collect();
            let headers: Vec<_> = headers.into_iter().filter(|(name, _)| !is_reserved(name)).collect();
            let endpoint = Endpoint::new(&format!("https://a.b{path}"), secrets, &headers).expect("an endpoint");
            prop_assert_eq!(Endpoint::decode(&endpoint.encode()), Ok(endpoint));
        }

        #[test]
        fn decoding_never_panics(bytes: Vec<u8>) {
            if let Ok(endpoint) = Endpoint::decode(&bytes) {
                prop_assert!(endpoint.encode().len() <= ENDPOINT_BYTES_MAX);
            }
        }
    }
}
