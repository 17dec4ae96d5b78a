//! Whether a callback comes from Twilio: an HMAC over the URL that it was sent to and what it says.
//!
//! ```text
//! form:  HMAC(secret, url ‖ name ‖ value ‖ …)     by name, values of one name once each and in order
//! else:  HMAC(secret, url), and bodySHA256 in the query is the hash of the body
//! ```
//! The secret is the account's token with SHA-1; with a SharedKey, which a header names, its secret and SHA-256. Twilio may
//! have signed the URL with or without its port. What must never happen: a body that no signature speaks for, or a
//! comparison whose time tells how much was right.

use super::form;
use super::limits::CALLBACK_BYTES_MAX;
use super::settings::Secrets;
use aws_lc_rs::{digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::{BTreeMap, BTreeSet};

pub const SIGNATURE: &str = "x-twilio-signature";
pub const SIGNATURE_SETTINGS: &str = "x-twilio-webhooks-signature-settings";

/// A request as it came in.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// As Twilio was given it: scheme, host and everything behind, before any proxy changed it.
    pub url: &'a str,
    /// Of the header [`SIGNATURE`].
    pub signature: Option<&'a str>,
    /// Of the header [`SIGNATURE_SETTINGS`].
    pub settings: Option<&'a str>,
    pub is_form: bool,
    pub body: &'a [u8],
}

/// Names and values in their order.
pub type Parameters = Vec<(String, String)>;

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Untrusted {
    #[error("there is no signature")]
    NoSignature,
    #[error("the signature names a key or algorithm that is not known")]
    UnknownKey,
    #[error("the body is too large or unreadable")]
    Unreadable,
    #[error("the hash of the body is missing or another one")]
    OtherBody,
    #[error("the signature does not fit")]
    NoMatch,
}

/// The parameters of a form that Twilio signed; none for anything else that it signed.
pub fn validate(request: &Signed<'_>, secrets: &Secrets) -> Result<Parameters, Untrusted> {
    validate_by(request, Some(secrets))
}

/// Refuses the call after the work of [`validate`]: for an account that does not exist.
pub fn refuse_as_slowly(request: &Signed<'_>) -> Untrusted {
    validate_by(request, None).err().unwrap_or(Untrusted::UnknownKey)
}

fn validate_by(request: &Signed<'_>, secrets: Option<&Secrets>) -> Result<Parameters, Untrusted> {
    let signature = request.signature.ok_or(Untrusted::NoSignature)?;
    let signature = STANDARD.decode(signature.trim()).map_err(|_| Untrusted::NoMatch)?;
    let Key { key, is_known } = key(request.settings, secrets);
    if request.body.len() > CALLBACK_BYTES_MAX {
        return Err(Untrusted::Unreadable);
    }
    let parameters = if request.is_form {
        form::read(request.body).ok_or(Untrusted::Unreadable)?
    } else {
        is_body(request)?;
        Parameters::new()
    };
    let said = said(&parameters);
    let fits = [without_port(request.url), with_port(request.url)]
        .iter()
        .any(|url| hmac::verify(&key, format!("{url}{said}").as_bytes(), &signature).is_ok());
    match (is_known, fits) {
        (true, true) => Ok(parameters),
        (true, false) => Err(Untrusted::NoMatch),
        (false, _) => Err(Untrusted::UnknownKey),
    }
}

/// The value of the header for these parameters, as Twilio makes it. `algorithm` is one of [`ALGORITHMS`].
#[must_use]
pub fn sign(secret: &str, algorithm: hmac::Algorithm, url: &str, parameters: &Parameters) -> String {
    let key = hmac::Key::new(algorithm, secret.as_bytes());
    STANDARD.encode(hmac::sign(&key, format!("{url}{}", said(parameters)).as_bytes()))
}

pub const ALGORITHMS: &[(&str, hmac::Algorithm)] =
    &[("HMAC_SHA1", hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY), ("HMAC_SHA256", hmac::HMAC_SHA256)];

struct Key {
    key: hmac::Key,
    is_known: bool,
}

/// `key=<id>,algorithm=<name>`; without it the account's token and SHA-1. One that nobody knows is made up, so that the time
/// does not tell which there are.
fn key(settings: Option<&str>, secrets: Option<&Secrets>) -> Key {
    let part = |wanted: &str| {
        let mut parts = settings.unwrap_or_default().split(',').filter_map(|part| part.split_once('='));
        parts.find(|(name, _)| name.trim() == wanted).map(|(_, value)| value.trim())
    };
    let algorithm = part("algorithm").unwrap_or("HMAC_SHA1");
    let algorithm = ALGORITHMS.iter().find(|(name, _)| name.eq_ignore_ascii_case(algorithm));
    let secret = secrets.and_then(|secrets| match part("key") {
        Some(id) => secrets.webhook_keys.get(id),
        None => secrets.auth_token.as_ref(),
    });
    let is_known = algorithm.is_some() && secret.is_some();
    let algorithm = algorithm.map_or(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, |(_, algorithm)| *algorithm);
    let secret = secret.map_or(&b"the token of no account at all.."[..], |secret| secret.as_bytes());
    Key { key: hmac::Key::new(algorithm, secret), is_known }
}

fn said(parameters: &Parameters) -> String {
    let mut sorted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, value) in parameters {
        sorted.entry(name).or_default().insert(value);
    }
    let each = sorted.iter().flat_map(|(name, values)| values.iter().flat_map(move |value| [*name, *value]));
    each.collect()
}

/// The signature covers the URL only, so the URL must speak for the body.
fn is_body(request: &Signed<'_>) -> Result<(), Untrusted> {
    let query = request.url.split_once('?').map_or("", |(_, query)| query);
    let named = query.split('&').find_map(|part| part.strip_prefix("bodySHA256="));
    let hash = digest::digest(&digest::SHA256, request.body);
    let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    // Not a secret: whoever sent the body can compute it.
    let fits = named.is_some_and(|named| named.eq_ignore_ascii_case(&hash));
    if fits || (named.is_none() && request.body.is_empty()) { Ok(()) } else { Err(Untrusted::OtherBody) }
}

/// Scheme, user and host; port; the rest. Nothing is decoded: what was signed are these very characters.
fn apart(url: &str) -> Option<(&str, &str, &str)> {
    let host_at = url.find("://")? + 3;
    let path_at = url[host_at..].find(['/', '?', '#']).map_or(url.len(), |at| host_at + at);
    let authority = &url[host_at..path_at];
    let from = authority.rfind(['@', ']']).unwrap_or(0);
    let port_at = host_at + authority[from..].find(':').map_or(authority.len(), |at| from + at);
    Some((&url[..port_at], &url[port_at..path_at], &url[path_at..]))
}

fn without_port(url: &str) -> String {
    apart(url).map_or_else(|| url.to_owned(), |(host, _, rest)| format!("{host}{rest}"))
}

fn with_port(url: &str) -> String {
    let Some((host, "", rest)) = apart(url) else { return url.to_owned() };
    let port =
        if url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:")) { 443 } else { 80 };
    format!("{host}:{port}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOKEN: &str = "12345";
    const URL: &str = "https://example.com/callbacks/twilio/main/ref";

    fn secrets() -> Secrets {
        let webhook_keys = [("key1".to_owned(), "shared".to_owned())].into();
        Secrets { auth_token: Some(TOKEN.into()), api_key: None, webhook_keys }
    }

    fn check(
        url: &str,
        settings: Option<&str>,
        form: &str,
        signature: &str,
        expected: Result<(), Untrusted>,
    ) {
        let request =
            Signed { url, signature: Some(signature), settings, is_form: true, body: form.as_bytes() };
        assert_eq!(validate(&request, &secrets()).map(|_| ()), expected, "{url} {form}");
    }

    fn signed(secret: &str, algorithm: &str, url: &str, form: &str) -> String {
        let algorithm = ALGORITHMS.iter().find(|(name, _)| *name == algorithm).expect("known").1;
        sign(secret, algorithm, url, &form::read(form.as_bytes()).expect("a form"))
    }

    #[test]
    fn a_signature_of_twilios_own_documents_fits() {
        // The example that Twilio's documents and client libraries use.
        let url = "https://mycompany.com/myapp.php?foo=1&bar=2";
        let form = "CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212";
        check(url, None, form, "RSOYDt4T1cUTdK1PDd93/VVr8B8=", Ok(()));
        check(
            url,
            None,
            &form.replace("1234&", "1235&"),
            "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
            Err(Untrusted::NoMatch),
        );
    }

    #[test]
    fn the_port_may_be_there_or_not() {
        let bare = "https://example.com/a?b=c";
        for (signed_url, got_url) in [
            (bare, bare),
            (bare, "https://example.com:443/a?b=c"),
            (bare, "https://example.com:8443/a?b=c"),
            ("https://example.com:443/a?b=c", bare),
            ("http://example.com:80/a", "http://example.com/a"),
            ("https://user:p@example.com:443/a", "https://user:p@example.com/a"),
            ("https://[::1]:443/a", "https://[::1]/a"),
        ] {
            check(got_url, None, "a=b", &signed(TOKEN, "HMAC_SHA1", signed_url, "a=b"), Ok(()));
        }
        let other = signed(TOKEN, "HMAC_SHA1", "https://example.org/a?b=c", "a=b");
        check(bare, None, "a=b", &other, Err(Untrusted::NoMatch));
    }

    #[test]
    fn repeated_values_count_once_and_order_does_not_matter() {
        let signature = signed(TOKEN, "HMAC_SHA1", URL, "B=2&A=1&A=0");
        for form in ["A=0&A=1&B=2", "A=1&A=0&A=1&B=2", "B=2&A=1&A=0"] {
            check(URL, None, form, &signature, Ok(()));
        }
        for form in ["A=0&B=2", "A=0&A=1&B=2&C=", "A=1&B=2&A=00"] {
            check(URL, None, form, &signature, Err(Untrusted::NoMatch));
        }
    }

    #[test]
    fn shared_keys_sign_with_sha256() {
        let settings = "key=key1,algorithm=HMAC_SHA256";
        let signature = signed("shared", "HMAC_SHA256", URL, "a=b");
        check(URL, Some(settings), "a=b", &signature, Ok(()));
        check(URL, Some(" algorithm = hmac_sha256 , key = key1 "), "a=b", &signature, Ok(()));
        check(URL, None, "a=b", &signature, Err(Untrusted::NoMatch));
        check(URL, Some("key=key2,algorithm=HMAC_SHA256"), "a=b", &signature, Err(Untrusted::UnknownKey));
        check(URL, Some("key=key1,algorithm=MD5"), "a=b", &signature, Err(Untrusted::UnknownKey));
        let by_token = signed(TOKEN, "HMAC_SHA256", URL, "a=b");
        check(URL, Some(settings), "a=b", &by_token, Err(Untrusted::NoMatch));
    }

    #[test]
    fn other_bodies_need_their_hash_in_the_url() {
        let body = br#"{"a":1}"#;
        let hash = "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862";
        let url = format!("{URL}?bodySHA256={hash}");
        let send = |url: &str, body: &[u8], signature: Option<&str>| {
            let request = Signed { url, signature, settings: None, is_form: false, body };
            validate(&request, &secrets()).map(|parameters| parameters.len())
        };
        let signature = signed(TOKEN, "HMAC_SHA1", &url, "");
        assert_eq!(send(&url, body, Some(&signature)), Ok(0));
        assert_eq!(send(&url, b"{}", Some(&signature)), Err(Untrusted::OtherBody));
        let bare = signed(TOKEN, "HMAC_SHA1", URL, "");
        assert_eq!(send(URL, b"", Some(&bare)), Ok(0));
        assert_eq!(send(URL, body, Some(&bare)), Err(Untrusted::OtherBody), "nothing speaks for the body");
        assert_eq!(send(URL, b"", None), Err(Untrusted::NoSignature));
        assert_eq!(send(URL, b"", Some("!")), Err(Untrusted::NoMatch));
    }

    /// Nothing is known, whatever is signed by whomever.
    // fixes: security P10
    #[test]
    fn an_account_that_does_not_exist_refuses_every_signature() {
        for (settings, secret, algorithm) in [
            (None, TOKEN, "HMAC_SHA1"),
            (None, "the token of no account at all..", "HMAC_SHA1"),
            (Some("key=key1,algorithm=HMAC_SHA256"), "shared", "HMAC_SHA256"),
            (Some("algorithm=HMAC_SHA256"), "the token of no account at all..", "HMAC_SHA256"),
        ] {
            let signature = signed(secret, algorithm, URL, "a=b");
            let signature = Some(signature.as_str());
            let request = Signed { url: URL, signature, settings, is_form: true, body: b"a=b" };
            assert_eq!(refuse_as_slowly(&request), Untrusted::UnknownKey);
        }
    }

    proptest! {
        #[test]
        fn reading_what_strangers_send_never_panics(
            url: String,
            signature: String,
            settings: String,
            is_form: bool,
            body: Vec<u8>,
        ) {
            let request = Signed { url: &url, signature: Some(&signature), settings: Some(&settings), is_form, body: &body };
            prop_assert!(validate(&request, &secrets()).is_err());
        }
    }
}
