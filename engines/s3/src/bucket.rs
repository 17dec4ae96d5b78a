//! One bucket: objects are put once, locked until a time, and read back.
//!
//! What must never happen: bytes that are believed to be there because they were sent. Whoever puts something asks for it
//! again.

use crate::listing;
pub use crate::listing::Listed;
use crate::location::Location;
use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fantail_outbound::pool::{At, Failure, Pool, Ports, Reply, Target, Timing};
use fantail_outbound::sigv4::{Credentials, Service, encode, sign};
use fantail_outbound::tls;
use fantail_rules::ids::Millis;
use hyper::http::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::{Method, Request};

/// How long a whole object may take: the largest is a segment of 64 MB.
const ANSWER_WITHIN_MS: u64 = 300_000;
const START_WITHIN_MS: u64 = 30_000;
/// Answers are small, so objects are read in pieces.
const PIECE_BYTES: u64 = 1 << 20;
/// A listing has a thousand objects on a page: ten million in all.
const PAGES_MAX: usize = 10_000;

/// What nobody may change or delete before its time, the owner of the bucket included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    pub retain_until: Millis,
}

/// What the storage says about an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    pub bytes: u64,
    /// If it keeps one.
    pub sha256: Option<[u8; 32]>,
    /// Cannot be shortened by anybody.
    pub is_locked: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BucketError {
    #[error("the certificates cannot be used: {cause}")]
    BadTls { cause: String },
    #[error("the storage did not answer: {cause}")]
    Unanswered { cause: String },
    #[error("the storage refused it: {status} {code}")]
    Refused { status: u16, code: String },
    #[error("the storage answered something else than {wanted}")]
    Unreadable { wanted: &'static str },
}

/// Must be used inside a tokio runtime.
pub struct Bucket {
    location: Location,
    credentials: Credentials,
    pool: Pool,
    ports: Ports,
}

impl Bucket {
    pub fn open(
        location: Location,
        credentials: Credentials,
        ca_pem: &[u8],
        ports: Ports,
    ) -> Result<Self, BucketError> {
        let tls = if location.is_tls {
            let config = tls::client(ca_pem, &[b"http/1.1"]);
            Some(config.map_err(|error| BucketError::BadTls { cause: error.to_string() })?)
        } else {
            None
        };
        let target = Target { host: location.host.clone(), port: location.port, at: At::Name, tls };
        let pool = Pool::new(target, ports.clone());
        Ok(Self { location, credentials, pool, ports })
    }

    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Puts an object; the storage checks what it got against the hash.
    pub async fn put(&self, name: &str, bytes: Bytes, lock: Option<Lock>) -> Result<(), BucketError> {
        let mut headers = HeaderMap::new();
        let hash = STANDARD.encode(sha256(&bytes));
        let mut put = |name: &'static str, value: &str| {
            let value = HeaderValue::from_str(value).expect("base64 and dates are visible ASCII");
            headers.insert(HeaderName::from_static(name), value);
        };
        put("content-type", "application/octet-stream");
        put("x-amz-sdk-checksum-algorithm", "SHA256");
        put("x-amz-checksum-sha256", &hash);
        if let Some(lock) = lock {
            put("x-amz-object-lock-mode", "COMPLIANCE");
            put("x-amz-object-lock-retain-until-date", &date(lock.retain_until));
        }
        let reply = self.call(Method::PUT, &self.path(name), "", headers, bytes).await?;
        if reply.status.is_success() { Ok(()) } else { Err(refused(&reply)) }
    }

    /// What is there, or none.
    pub async fn head(&self, name: &str) -> Result<Option<Held>, BucketError> {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-checksum-mode", HeaderValue::from_static("ENABLED"));
        let reply = self.call(Method::HEAD, &self.path(name), "", headers, Bytes::new()).await?;
        match reply.status.as_u16() {
            404 => return Ok(None),
            status if (200..300).contains(&status) => {}
            _ => return Err(refused(&reply)),
        }
        let text = |name: &str| reply.headers.get(name).and_then(|value| value.to_str().ok());
        let bytes = text("content-length").and_then(|length| length.parse().ok());
        let bytes = bytes.ok_or(BucketError::Unreadable { wanted: "a length" })?;
        let sha256 = text("x-amz-checksum-sha256").and_then(|hash| STANDARD.decode(hash).ok());
        let is_locked = text("x-amz-object-lock-mode") == Some("COMPLIANCE");
        Ok(Some(Held { bytes, sha256: sha256.and_then(|hash| hash.try_into().ok()), is_locked }))
    }

    /// The hash of what is there, from reading all of it.
    pub async fn hash(&self, name: &str, bytes: u64) -> Result<[u8; 32], BucketError> {
        let mut context = Context::new(&SHA256);
        let mut from = 0;
        while from < bytes {
            let piece = self.piece(name, from, bytes.min(from + PIECE_BYTES)).await?;
            context.update(&piece);
            from += piece.len() as u64;
        }
        Ok(array(context.finish().as_ref()))
    }

    async fn piece(&self, name: &str, from: u64, to: u64) -> Result<Bytes, BucketError> {
        let mut headers = HeaderMap::new();
        let range = HeaderValue::from_str(&format!("bytes={from}-{}", to - 1)).expect("digits are visible");
        headers.insert("range", range);
        let reply = self.call(Method::GET, &self.path(name), "", headers, Bytes::new()).await?;
        if !reply.status.is_success() {
            return Err(refused(&reply));
        }
        if reply.body.len() as u64 != to - from {
            return Err(BucketError::Unreadable { wanted: "the bytes of the range" });
        }
        Ok(reply.body)
    }

    /// All objects behind the prefix, by their names behind it.
    pub async fn list(&self) -> Result<Vec<Listed>, BucketError> {
        let mut objects = Vec::new();
        let mut next: Option<String> = None;
        let path = format!("{}/", self.location.path_prefix);
        for _ in 0..PAGES_MAX {
            let mut query = String::new();
            if let Some(token) = &next {
                query.push_str("continuation-token=");
                encode(&mut query, token.as_bytes(), b"");
                query.push('&');
            }
            query.push_str("list-type=2&prefix=");
            encode(&mut query, self.location.prefix.as_bytes(), b"");
            let reply = self.call(Method::GET, &path, &query, HeaderMap::new(), Bytes::new()).await?;
            if !reply.status.is_success() {
                return Err(refused(&reply));
            }
            let text = std::str::from_utf8(&reply.body).ok();
            let page = text.and_then(listing::read).ok_or(BucketError::Unreadable { wanted: "a listing" })?;
            let named = page.objects.into_iter().filter_map(|object| {
                let key = object.key.strip_prefix(&self.location.prefix)?.to_owned();
                Some(Listed { key, ..object })
            });
            objects.extend(named);
            match page.next {
                Some(token) => next = Some(token),
                None => return Ok(objects),
            }
        }
        Err(BucketError::Unreadable { wanted: "an end of the listing" })
    }

    fn path(&self, name: &str) -> String {
        let mut path = format!("{}/", self.location.path_prefix);
        encode(&mut path, format!("{}{name}", self.location.prefix).as_bytes(), b"/");
        path
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        query: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Reply, BucketError> {
        let unanswered = |cause: String| BucketError::Unanswered { cause };
        let uri = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri.parse().map_err(|_| unanswered("the name makes no path".to_owned()))?;
        *request.headers_mut() = headers;
        let service = Service { name: "s3".into(), region: self.location.region.clone() };
        let clock = &self.ports.clock;
        sign(&mut request, &self.location.authority(), &service, &self.credentials, clock.wall())
            .map_err(|error| unanswered(error.to_string()))?;
        let start_by = clock.monotonic().plus(START_WITHIN_MS);
        let timing = Timing { start_by, answer_within_ms: ANSWER_WITHIN_MS };
        self.pool.call(request, timing).await.map_err(|failure| match failure {
            Failure::NotSent { message, .. } | Failure::Unknown { message, .. } => unanswered(message),
        })
    }
}

#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    array(aws_lc_rs::digest::digest(&SHA256, bytes).as_ref())
}

fn array(hash: &[u8]) -> [u8; 32] {
    hash.try_into().expect("SHA-256 has 32 bytes")
}

/// `2026-11-16T08:30:00Z`.
fn date(at: Millis) -> String {
    let plain = fantail_outbound::sigv4::time(at);
    let part = |from: usize, to: usize| &plain[from..to];
    format!("{}-{}-{}T{}:{}:{}Z", part(0, 4), part(4, 6), part(6, 8), part(9, 11), part(11, 13), part(13, 15))
}

fn refused(reply: &Reply) -> BucketError {
    let code = std::str::from_utf8(&reply.body).ok().and_then(listing::error_code);
    BucketError::Refused { status: reply.status.as_u16(), code: code.unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_storage_wants_them() {
        assert_eq!(date(Millis(1_794_817_800_000)), "2026-11-16T08:30:00Z");
    }
}
