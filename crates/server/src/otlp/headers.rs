//! Headers that a collector wants to see, mostly a key: `name=value,name=value`, values percent-encoded, as
//! `OTEL_EXPORTER_OTLP_HEADERS` writes them.
//!
//! What must never happen: a value in a log or an error, or one that begins another header.

use percent_encoding::percent_decode_str;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A few keys; each request carries all of it.
const HEADERS_MAX: usize = 16;
const BYTES_MAX: usize = 4_096;
/// What the request itself says.
const RESERVED: [&str; 5] = ["connection", "content-length", "content-type", "host", "transfer-encoding"];

#[derive(Clone, PartialEq, Eq, Default)]
pub struct Headers(Vec<(String, String)>);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum HeadersError {
    #[error("must be like name=value, separated by commas, with values percent-encoded")]
    Malformed,
    #[error("may not name connection, content-length, content-type, host or transfer-encoding")]
    Reserved,
    #[error("may have at most 16 headers and 4096 bytes")]
    TooMany,
}

impl FromStr for Headers {
    type Err = HeadersError;

    fn from_str(text: &str) -> Result<Self, HeadersError> {
        if text.len() > BYTES_MAX {
            return Err(HeadersError::TooMany);
        }
        let mut headers = Vec::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(HeadersError::Malformed)?;
            let name = name.trim().to_ascii_lowercase();
            let value =
                percent_decode_str(value.trim()).decode_utf8().map_err(|_| HeadersError::Malformed)?;
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            let is_plain = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
            if name.is_empty() || !name.bytes().all(is_token) || !is_plain {
                return Err(HeadersError::Malformed);
            }
            if RESERVED.contains(&name.as_str()) {
                return Err(HeadersError::Reserved);
            }
            headers.push((name, value.into_owned()));
        }
        if headers.len() > HEADERS_MAX {
            return Err(HeadersError::TooMany);
        }
        Ok(Self(headers))
    }
}

impl Headers {
    /// As they stand in the head of a request.
    #[must_use]
    pub fn lines(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hidden headers", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: OBS-02
    #[test]
    fn headers_are_read_as_others_write_them() {
        for (text, expected) in [
            ("", Ok("")),
            ("api-key=abc", Ok("api-key: abc\r\n")),
            ("Authorization=Basic%20YTpi, X-Org = 7 ,", Ok("authorization: Basic YTpi\r\nx-org: 7\r\n")),
            ("empty=", Ok("empty: \r\n")),
            ("sum=a=b", Ok("sum: a=b\r\n")),
            ("api-key", Err(HeadersError::Malformed)),
            ("=abc", Err(HeadersError::Malformed)),
            ("a b=c", Err(HeadersError::Malformed)),
            ("a=b%0D%0Ax:%20y", Err(HeadersError::Malformed)),
            ("a=%FF", Err(HeadersError::Malformed)),
            ("Host=elsewhere", Err(HeadersError::Reserved)),
            ("content-length=1", Err(HeadersError::Reserved)),
        ] {
            let found = text.parse::<Headers>().map(|headers| headers.lines());
            assert_eq!(found, expected.map(str::to_owned), "{text:?}");
        }
        let many = (0..17).map(|no| format!("a{no}=b")).collect::<Vec<_>>().join(",");
        assert_eq!(many.parse::<Headers>(), Err(HeadersError::TooMany));
        assert_eq!("a=b".repeat(2_000).parse::<Headers>(), Err(HeadersError::TooMany));
    }

    #[test]
    fn values_are_not_printed() {
        let headers: Headers = "api-key=s3cr3t".parse().expect("headers");
        assert!(!format!("{headers:?}").contains("s3cr3t"));
    }
}
