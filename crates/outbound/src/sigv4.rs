//! AWS Signature Version 4: what SES, SNS and everything that speaks S3 want to see. Known answers come from botocore.
//!
//! What must never happen: a header of the request that is sent but not signed, a secret in a log, or two forms of one
//! canonical request.
//!
//! ```text
//! canonical = method, path, query, headers, their names, hash of the payload     (each on lines of their own)
//! to sign   = AWS4-HMAC-SHA256, time, day/region/service/aws4_request, hash of canonical
//! key       = HMAC of day, region, service, aws4_request, one under the other, under the secret
//! ```

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign as hmac};
use bytes::Bytes;
use fantail_rules::ids::Millis;
use hyper::Request;
use hyper::http::HeaderMap;
use hyper::http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue};
use std::fmt::{self, Write};
use std::time::{Duration, SystemTime};

/// Who signs. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials(hidden)")
    }
}

/// For whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// `ses`, `sns`, `s3`.
    pub name: String,
    pub region: String,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SignError {
    #[error("{header} does not fit into a header")]
    NotAHeader { header: &'static str },
    #[error("a header that would be signed is not ASCII")]
    NotAscii,
}

/// What a signature is over, as the other side finds it in a request.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    pub method: &'a str,
    /// As they stand in the request line, percent-encoded.
    pub path: &'a str,
    pub query: Option<&'a str>,
    pub headers: &'a HeaderMap,
    /// In lower case and sorted.
    pub names: &'a [&'a str],
    /// Lower-case hexadecimal, or one of the words that S3 allows in its place.
    pub payload_hash: &'a str,
    /// `20261116T083000Z`.
    pub time: &'a str,
}

/// Signs a whole request to this host at this wall time. Every header that is there is signed, so it is the last thing that
/// is done to a request. `host` goes into the request with its port, if that is not the usual one.
pub fn sign(
    request: &mut Request<Bytes>,
    host: &str,
    service: &Service,
    credentials: &Credentials,
    at: Millis,
) -> Result<(), SignError> {
    let time = time(at);
    let payload_hash = hex(digest(&SHA256, request.body()).as_ref());
    let headers = request.headers_mut();
    put(headers, HOST, "host", host)?;
    put(headers, HeaderName::from_static("x-amz-date"), "x-amz-date", &time)?;
    if service.name == "s3" {
        let name = HeaderName::from_static("x-amz-content-sha256");
        put(headers, name, "x-amz-content-sha256", &payload_hash)?;
    }
    if let Some(token) = &credentials.session_token {
        let name = HeaderName::from_static("x-amz-security-token");
        put(headers, name, "the session token", token)?;
    }
    headers.remove(AUTHORIZATION);
    let mut names: Vec<String> = headers.keys().map(|name| name.as_str().to_owned()).collect();
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let signed = Signed {
        method: request.method().as_str(),
        path: request.uri().path(),
        query: request.uri().query(),
        headers: request.headers(),
        names: &names,
        payload_hash: &payload_hash,
        time: &time,
    };
    let signature = signature(&signed, service, &credentials.secret_access_key).ok_or(SignError::NotAscii)?;
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={signature}",
        credentials.access_key_id,
        scope(&time, service),
        names.join(";"),
    );
    put(request.headers_mut(), AUTHORIZATION, "the access key", &authorization)
}

/// Lower-case hexadecimal; `None` if a header is not text.
#[must_use]
pub fn signature(signed: &Signed<'_>, service: &Service, secret: &str) -> Option<String> {
    let canonical = canonical(signed, service.name != "s3")?;
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n{}\n{}\n{}",
        signed.time,
        scope(signed.time, service),
        hex(digest(&SHA256, canonical.as_bytes()).as_ref()),
    );
    let mut key = format!("AWS4{secret}").into_bytes();
    for part in [day(signed.time), &service.region, &service.name, "aws4_request"] {
        key = hmac(&Key::new(HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec();
    }
    Some(hex(hmac(&Key::new(HMAC_SHA256, &key), to_sign.as_bytes()).as_ref()))
}

fn canonical(signed: &Signed<'_>, path_is_encoded_again: bool) -> Option<String> {
    let mut text = format!("{}\n", signed.method);
    if path_is_encoded_again {
        encode(&mut text, signed.path.as_bytes(), b"/");
    } else {
        text.push_str(signed.path);
    }
    text.push('\n');
    text.push_str(&canonical_query(signed.query.unwrap_or_default()));
    text.push('\n');
    for name in signed.names {
        let values: Option<Vec<String>> = signed
            .headers
            .get_all(*name)
            .iter()
            .map(|value| {
                value.to_str().ok().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
            })
            .collect();
        text.push_str(&format!("{name}:{}\n", values?.join(",")));
    }
    text.push_str(&format!("\n{}\n{}", signed.names.join(";"), signed.payload_hash));
    Some(text)
}

/// Sorted by name and value, each in its one encoding.
fn canonical_query(query: &str) -> String {
    let again = |text: &str| {
        let mut encoded = String::new();
        encode(&mut encoded, &percent_decoded(text), b"");
        encoded
    };
    let parts = query.split('&').filter(|part| !part.is_empty());
    let mut pairs: Vec<(String, String)> = parts
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(name, value)| (again(name), again(value)))
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// As AWS writes it: upper-case hexadecimal of everything but letters, digits, `-._~` and what is `kept`.
pub fn encode(text: &mut String, bytes: &[u8], kept: &[u8]) {
    for byte in bytes {
        match byte {
            b'-' | b'.' | b'_' | b'~' => text.push(char::from(*byte)),
            _ if byte.is_ascii_alphanumeric() || kept.contains(byte) => text.push(char::from(*byte)),
            _ => write!(text, "%{byte:02X}").expect("a string takes everything"),
        }
    }
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = if byte.is_some() { &tail[2..] } else { tail };
        bytes.push(byte.unwrap_or(*first));
    }
    bytes
}

fn scope(time: &str, service: &Service) -> String {
    format!("{}/{}/{}/aws4_request", day(time), service.region, service.name)
}

fn day(time: &str) -> &str {
    time.split('T').next().unwrap_or_default()
}

/// `20261116T083000Z`. The HTTP date has the calendar already: `Mon, 16 Nov 2026 08:30:00 GMT`.
#[must_use]
pub fn time(at: Millis) -> String {
    let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(at.0 / 1_000));
    let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = months.find(&date[8..11]).map_or(0, |place| place / 3 + 1);
    let clock: String = date[17..25].chars().filter(|letter| *letter != ':').collect();
    format!("{}{month:02}{}T{clock}Z", &date[12..16], &date[5..7])
}

/// Lower case.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

fn put(
    headers: &mut HeaderMap,
    name: HeaderName,
    header: &'static str,
    value: &str,
) -> Result<(), SignError> {
    let value = HeaderValue::from_str(value).map_err(|_| SignError::NotAHeader { header })?;
    headers.insert(name, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-16 08:30:00.
    const AT: Millis = Millis(1_794_817_800_000);

    fn check(service: (&str, &str), token: Option<&str>, request: Request<&'static str>, expected: &str) {
        let credentials = Credentials {
            access_key_id: "AKIDEXAMPLE".into(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session_token: token.map(str::to_owned),
        };
        let host = request.uri().authority().expect("a host").to_string();
        let mut request = request.map(|body| Bytes::from_static(body.as_bytes()));
        let service = Service { name: service.0.into(), region: service.1.into() };
        sign(&mut request, &host, &service, &credentials, AT).expect("a signature");
        let authorization = request.headers()[AUTHORIZATION].to_str().expect("text");
        let expected = format!("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261116/{expected}");
        assert_eq!(authorization, expected, "{}", request.uri());
        assert_eq!(request.headers()["x-amz-date"], "20261116T083000Z");
    }

    fn ask(method: &str, uri: &str) -> hyper::http::request::Builder {
        Request::builder().method(method).uri(uri)
    }

    #[test]
    fn botocore_would_sign_the_same() {
        check(
            ("ses", "eu-west-1"),
            None,
            ask("POST", "https://email.eu-west-1.amazonaws.com/v2/email/outbound-emails")
                .header("content-type", "application/json")
                .body(r#"{"a":1}"#)
                .expect("a request"),
            "eu-west-1/ses/aws4_request, SignedHeaders=content-type;host;x-amz-date, \
             Signature=f29d0e1d95f56d5eaed8893fa46f8fcd3602c34030e69aecaab1af086f6448c9",
        );
        check(
            ("ses", "eu-west-1"),
            None,
            ask(
                "GET",
                "https://email.eu-west-1.amazonaws.com/v2/email/suppression/addresses/ann%40example.com",
            )
            .body("")
            .expect("a request"),
            "eu-west-1/ses/aws4_request, SignedHeaders=host;x-amz-date, \
             Signature=da769f425ac3671c0e41e2ead7abd08cd4e68ef665f53e80c3b7463c2b209653",
        );
        check(
            ("ses", "us-east-1"),
            Some("TOKEN+1"),
            ask("GET", "http://127.0.0.1:4566/v2/email/account?b=2&a=x%20y&a=%2F")
                .body("")
                .expect("a request"),
            "us-east-1/ses/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token, \
             Signature=eb0a1806d1085ac1bd470d7214d2e3b1dc6726776518459d62fc6257de9be1f0",
        );
    }

    #[test]
    fn s3_has_its_own_rules() {
        check(
            ("s3", "eu-central-1"),
            None,
            ask(
                "PUT",
                "https://bucket.s3.eu-central-1.amazonaws.com/audit/a%20b%2B1.log?partNumber=1&uploadId=x",
            )
            .header("content-type", "application/octet-stream")
            .header("x-amz-object-lock-mode", "COMPLIANCE")
            .body("hello")
            .expect("a request"),
            "eu-central-1/s3/aws4_request, \
             SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-object-lock-mode, \
             Signature=e077a71833b39c15cf6b238542f8c22f46ca9033afdf8843bbebe0930da2e626",
        );
    }

    #[test]
    fn one_query_has_one_form() {
        for (query, expected) in [
            ("", ""),
            ("b&a=1&a=", "a=&a=1&b="),
            ("a=%7e%2f&a=%2F~", "a=~%2F&a=%2F~"),
            ("a=%zz%", "a=%25zz%25"),
            ("a=x+y", "a=x%2By"),
        ] {
            let mut pairs: Vec<&str> = expected.split('&').collect();
            pairs.sort_unstable();
            assert_eq!(canonical_query(query), pairs.join("&"), "{query}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let credentials = Credentials {
            access_key_id: "id".into(),
            secret_access_key: "secret".into(),
            session_token: Some("token".into()),
        };
        assert_eq!(format!("{credentials:?}"), "Credentials(hidden)");
    }
}
