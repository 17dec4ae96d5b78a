//! Bodies: read within limits, parsed straight into their shapes. Where serde says what is wrong, a second pass finds
//! out where, so that good requests do not pay for it.

use crate::objects::Objects;
use crate::pointer;
use crate::problem::Problem;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use fantail_rules::limits::{BODY_BYTES_MAX, JSON_DEPTH_MAX};
use fantail_wire::code::Code;
use fantail_wire::nesting;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_path_to_error::Segment;
use std::io;
use std::time::Duration;

/// Reads a whole body, at most `BODY_BYTES_MAX`, within `timeout`.
pub async fn read(body: Body, timeout: Duration) -> Result<Bytes, Problem> {
    read_at_most(body, BODY_BYTES_MAX, timeout).await
}

pub async fn read_at_most(body: Body, bytes_max: usize, timeout: Duration) -> Result<Bytes, Problem> {
    let announced = body.size_hint().lower();
    if announced > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    match tokio::time::timeout(timeout, Limited::new(body, bytes_max).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(bytes_max)),
        Ok(Err(error)) => Err(broken(&*error)),
        Err(_) => Err(Problem::new(Code::RequestTimeout, "the body did not arrive in time")),
    }
}

/// The problem for a body whose transport failed: broken chunks, or an early end.
pub fn broken(error: &(dyn std::error::Error + 'static)) -> Problem {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut kinds = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    if kinds.any(|kind| matches!(kind, io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)) {
        return Problem::new(Code::MalformedRequest, "the chunks of the body cannot be read");
    }
    Problem::new(Code::RequestTimeout, "the body ended before it was complete")
}

/// Refuses a body that would have to be decompressed first.
pub fn require_plain(headers: &HeaderMap) -> Result<(), Problem> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    if codings.all(|coding| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    Err(Problem::new(Code::UnsupportedMediaType, "send the body without Content-Encoding"))
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::new(Code::BodyTooLarge, format!("bodies have at most {bytes_max} bytes here"))
}

/// `type/subtype` in lower case, without parameters.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default();
    Some(essence.trim().to_ascii_lowercase())
}

/// Refuses a body that says to be in another encoding than UTF-8.
pub fn require_utf8(headers: &HeaderMap) -> Result<(), Problem> {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let parameters = value.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let charset = parameters.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    let Some((_, charset)) = charset else { return Ok(()) };
    let charset = charset.trim().trim_matches('"').to_ascii_lowercase();
    // ASCII is UTF-8, too.
    if matches!(charset.as_str(), "utf-8" | "utf8" | "us-ascii" | "ascii") {
        return Ok(());
    }
    Err(Problem::new(
        Code::UnsupportedMediaType,
        "bodies are UTF-8: leave out `charset`, or send `charset=utf-8`",
    ))
}

pub fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    require_utf8(headers)?;
    match media_type(headers) {
        Some(kind) if kind == "application/json" || kind == "application/merge-patch+json" => Ok(()),
        Some(_) | None => {
            Err(Problem::new(Code::UnsupportedMediaType, "send `Content-Type: application/json`"))
        }
    }
}

/// Parses a body into its shape.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    refuse_deep(body)?;
    let mut json = serde_json::Deserializer::from_slice(body);
    match T::deserialize(Objects(&mut json)).and_then(|value| json.end().map(|()| value)) {
        Ok(value) => Ok(value),
        Err(error) => Err(explain::<T>(body, &error)),
    }
}

/// Reads a shape from a document, as `parse` does.
pub fn from_document<T: DeserializeOwned>(document: Value) -> Result<T, serde_json::Error> {
    T::deserialize(Objects(document))
}

/// What is wrong, and where: first whether it is JSON at all, then which field.
fn explain<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> Problem {
    let Ok(text) = std::str::from_utf8(body) else {
        return Problem::new(Code::InvalidJson, "not UTF-8");
    };
    if let Err(syntax) = serde_json::from_str::<IgnoredAny>(text) {
        return Problem::new(Code::InvalidJson, format!("not JSON: {}", bounded(&syntax.to_string())));
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    match serde_path_to_error::deserialize::<_, T>(Objects(&mut json)) {
        Err(located) => located_fault(&located),
        Ok(_) => Problem::field("", bounded(&error.to_string())),
    }
}

fn located_fault(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let mut pointer = String::new();
    for segment in error.path() {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => pointer.push_str(&format!("/{}", pointer::escape(key))),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let message = error.inner().to_string();
    // serde names the field only in its message; the place after "at line" is already in the pointer.
    let detail = message.rsplit_once(" at line ").map_or(message.as_str(), |(detail, _)| detail);
    if let Some(field) = missing_field(detail) {
        pointer.push_str(&format!("/{}", pointer::escape(field)));
    }
    Problem::field(pointer, bounded(detail))
}

/// The field that a message of serde says is missing. Unknown and repeated ones are in the path already.
fn missing_field(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("missing field `")?;
    rest.split_once('`').map(|(field, _)| field)
}

/// Messages may quote what the caller sent.
fn bounded(message: &str) -> String {
    message.chars().take(300).collect()
}

const _: () = assert!(JSON_DEPTH_MAX == nesting::JSON_DEPTH_MAX);

/// Refuses nesting beyond `JSON_DEPTH_MAX` before anything recursive sees it.
fn refuse_deep(body: &[u8]) -> Result<(), Problem> {
    if nesting::is_deeper_than(JSON_DEPTH_MAX, body) {
        let detail = format!("JSON nests at most {JSON_DEPTH_MAX} levels deep");
        return Err(Problem::new(Code::InvalidJson, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_wire::event::{Audience, CloudEvent};
    use fantail_wire::list::FollowsBatch;

    fn check<T: DeserializeOwned>(body: &str, code: Code, pointer: &str) {
        let problem = parse::<T>(body.as_bytes()).err().unwrap_or_else(|| panic!("{body} was accepted"));
        assert_eq!(problem.code, code, "{body}: {}", problem.detail);
        let found = problem.errors.first().map_or("", |error| error.pointer.as_str());
        assert_eq!(found, pointer, "{body}: {:?}", problem.errors);
    }

    // proves: API-03
    #[test]
    fn faults_are_located() {
        check::<FollowsBatch>("", Code::InvalidJson, "");
        check::<FollowsBatch>("{", Code::InvalidJson, "");
        check::<FollowsBatch>("{}", Code::InvalidRequest, "/follows");
        check::<FollowsBatch>(r#"{"follows":1}"#, Code::InvalidRequest, "/follows");
        check::<FollowsBatch>(r#"{"follows":[{"user":"a"}]}"#, Code::InvalidRequest, "/follows/0/actor");
        check::<FollowsBatch>(
            r#"{"follows":[{"user":"a","actor":"b"},{"user":1,"actor":"b"}]}"#,
            Code::InvalidRequest,
            "/follows/1/user",
        );
        check::<FollowsBatch>(r#"{"follows":[],"x":1}"#, Code::InvalidRequest, "/x");
        check::<FollowsBatch>(r#"{"follows":[]} {}"#, Code::InvalidJson, "");
        check::<FollowsBatch>(r#"{"x":1} {}"#, Code::InvalidJson, "");
        check::<Audience>("{}", Code::InvalidRequest, "");
        check::<Vec<CloudEvent>>(r#"[{"specversion":"1.0"}]"#, Code::InvalidRequest, "/0/id");
    }

    // fixes: interop small
    #[test]
    fn bodies_in_another_encoding_are_refused() {
        for (media_type, is_taken) in [
            ("application/json", true),
            ("application/json; charset=utf-8", true),
            ("application/json;charset=\"UTF-8\"", true),
            ("application/json; charset=us-ascii", true),
            ("application/json; profile=x", true),
            ("application/json; charset=iso-8859-1", false),
            ("application/json; profile=x; Charset=UTF-16", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, media_type.parse().expect("a header"));
            let found = require_json(&headers).map_err(|problem| problem.code);
            assert_eq!(
                found,
                if is_taken { Ok(()) } else { Err(Code::UnsupportedMediaType) },
                "{media_type}"
            );
        }
    }

    // fixes: usability C2
    #[test]
    fn arrays_are_no_objects() {
        check::<FollowsBatch>("[[]]", Code::InvalidRequest, "");
        check::<FollowsBatch>(r#"{"follows":[["a","b"]]}"#, Code::InvalidRequest, "/follows/0");
        check::<Vec<CloudEvent>>(r#"[["1.0","a","b","c"]]"#, Code::InvalidRequest, "/0");
        check::<Audience>(r#"{"users":{"0":"a"}}"#, Code::InvalidRequest, "/users");
        assert!(from_document::<FollowsBatch>(serde_json::json!([[]])).is_err());
        assert!(from_document::<FollowsBatch>(serde_json::json!({"follows": []})).is_ok());
    }

    // fixes: usability C5
    #[test]
    fn compressed_bodies_are_refused() {
        let check = |codings: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for coding in codings {
                headers.append(header::CONTENT_ENCODING, coding.parse().expect("a header"));
            }
            require_plain(&headers).err().map(|problem| problem.code)
        };
        assert_eq!(check(&[]), None);
        assert_eq!(check(&["Identity"]), None);
        for compressed in [&["gzip"][..], &["br"], &["identity", "gzip"], &["identity, gzip"], &[""]] {
            assert_eq!(check(compressed), Some(Code::UnsupportedMediaType), "{compressed:?}");
        }
    }

    // fixes: usability C6
    #[test]
    fn bad_chunks_are_told_from_a_body_that_ended_early() {
        let code = |kind: io::ErrorKind| broken(&axum::Error::new(io::Error::from(kind))).code;
        assert_eq!(code(io::ErrorKind::InvalidInput), Code::MalformedRequest);
        assert_eq!(code(io::ErrorKind::UnexpectedEof), Code::RequestTimeout);
    }

    #[test]
    fn deep_nesting_is_refused_and_brackets_in_text_are_not() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(refuse_deep(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
        assert!(refuse_deep(nested(JSON_DEPTH_MAX + 1).as_bytes()).is_err());
        let text = format!("\"{}\\\"{}\"", "[".repeat(100), "{".repeat(100));
        assert!(refuse_deep(text.as_bytes()).is_ok());
    }
}
