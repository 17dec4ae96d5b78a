//! Which bucket, and where it is served: `s3://bucket/prefix`, at AWS or at an endpoint of one's own.

use hyper::http::Uri;

/// Where objects go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Location {
    pub bucket: String,
    /// In front of every key; empty, or with a slash at its end.
    pub prefix: String,
    pub region: String,
    pub host: String,
    pub port: u16,
    pub is_tls: bool,
    /// In front of every path: where the host does not name the bucket.
    pub path_prefix: String,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LocationError {
    #[error("write it like s3://bucket/prefix")]
    NotALocation,
    #[error("a bucket has 3 to 63 lower case letters, digits, dots and hyphens")]
    BadBucket,
    #[error("a prefix has up to 512 letters, digits and - _ . / only")]
    BadPrefix,
    #[error("the region is no name like eu-central-1")]
    BadRegion,
    #[error("the endpoint is no URL like https://storage.example.com:9000")]
    BadEndpoint,
}

impl Location {
    /// `endpoint` is for what is not AWS: then the bucket is the first part of the path.
    pub fn read(location: &str, region: &str, endpoint: Option<&str>) -> Result<Self, LocationError> {
        let rest = location.strip_prefix("s3://").ok_or(LocationError::NotALocation)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let in_bucket =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(in_bucket) {
            return Err(LocationError::BadBucket);
        }
        let in_prefix = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        let prefix = prefix.trim_matches('/');
        let has_dots = prefix.split('/').any(|part| part == "." || part == "..");
        if prefix.len() > 512 || !prefix.bytes().all(in_prefix) || has_dots || prefix.contains("//") {
            return Err(LocationError::BadPrefix);
        }
        let in_region = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=32).contains(&region.len()) || !region.bytes().all(in_region) {
            return Err(LocationError::BadRegion);
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let (bucket, region) = (bucket.to_owned(), region.to_owned());
        let Some(endpoint) = endpoint else {
            let host = format!("{bucket}.s3.{region}.amazonaws.com");
            let (port, is_tls, path_prefix) = (443, true, String::new());
            return Ok(Self { bucket, prefix, region, host, port, is_tls, path_prefix });
        };
        let uri: Uri = endpoint.parse().map_err(|_| LocationError::BadEndpoint)?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(LocationError::BadEndpoint),
        };
        let host = uri.host().ok_or(LocationError::BadEndpoint)?.to_owned();
        if uri.path() != "/" || uri.query().is_some() {
            return Err(LocationError::BadEndpoint);
        }
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let path_prefix = format!("/{bucket}");
        Ok(Self { bucket, prefix, region, host, port, is_tls, path_prefix })
    }

    /// As the `host` header has it.
    #[must_use]
    pub fn authority(&self) -> String {
        match (self.port, self.is_tls) {
            (443, true) | (80, false) => self.host.clone(),
            (port, _) => format!("{}:{port}", self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(location: &str, endpoint: Option<&str>, expected: Result<&str, LocationError>) {
        let read = Location::read(location, "eu-central-1", endpoint);
        let shown = read.map(|found| format!("{} {} {}", found.authority(), found.path_prefix, found.prefix));
        assert_eq!(shown, expected.map(str::to_owned), "{location} {endpoint:?}");
    }

    #[test]
    fn locations_are_read_and_mistakes_named() {
        check("s3://audit-log/a/b", None, Ok("audit-log.s3.eu-central-1.amazonaws.com  a/b/"));
        check("s3://audit-log", None, Ok("audit-log.s3.eu-central-1.amazonaws.com  "));
        check("s3://audit-log/a/", Some("http://127.0.0.1:5000"), Ok("127.0.0.1:5000 /audit-log a/"));
        check("s3://audit-log", Some("https://minio.example.com"), Ok("minio.example.com /audit-log "));
        check("/tmp/x", None, Err(LocationError::NotALocation));
        check("s3://ab", None, Err(LocationError::BadBucket));
        check("s3://Audit", None, Err(LocationError::BadBucket));
        check("s3://audit-log/a b", None, Err(LocationError::BadPrefix));
        check("s3://audit-log/../b", None, Err(LocationError::BadPrefix));
        for endpoint in ["127.0.0.1:5000", "ftp://a", "http://a/b", "http://a?b"] {
            check("s3://audit-log", Some(endpoint), Err(LocationError::BadEndpoint));
        }
        assert_eq!(Location::read("s3://audit-log", "EU", None), Err(LocationError::BadRegion));
    }
}
