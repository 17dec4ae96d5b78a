//! Bodies: read within limits, parsed straight into their shapes. Where serde says what is wrong, a second pass finds
//! out where, so that good requests do not pay for it.

use crate::app::App;
use crate::bodies::{BodyBudget, BodyClaim, BodyHolder, ConnectionBodies};
use crate::objects::Objects;
use crate::pointer;
use crate::problem::Problem;
use crate::shape_fault::worded;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use fantail_rules::limits::{JSON_DEPTH_MAX, UPLOAD_BYTES_RESERVED};
use fantail_wire::code::Code;
use fantail_wire::nesting;
use http_body_util::BodyExt;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_path_to_error::Segment;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A body of which nothing was read yet, and what its bytes are counted by.
pub struct UnreadBody {
    body: Body,
    /// Bytes at least.
    announced: u64,
    budget: Arc<BodyBudget>,
    connection: Option<Arc<ConnectionBodies>>,
    timeout: Duration,
}

/// A body, and the claim that is held as long as it.
#[derive(Debug)]
pub struct HeldBody {
    pub bytes: Bytes,
    pub claim: BodyClaim,
}

impl UnreadBody {
    pub fn new(app: &App, parts: &mut Parts, body: Body) -> Self {
        let connection = parts.extensions.remove::<Arc<ConnectionBodies>>();
        let (budget, timeout) = (app.bodies.clone(), app.settings.body_timeout);
        Self { announced: body.size_hint().lower(), body, budget, connection, timeout }
    }

    /// Reads all of it, at most `bytes_max` and within the time for bodies. What a caller with a key announces is claimed
    /// before; of all others, what arrives is claimed, so that bodies that never come keep nobody out.
    pub async fn read(self, holder: BodyHolder, bytes_max: usize) -> Result<HeldBody, Problem> {
        let Self { mut body, announced, budget, connection, timeout } = self;
        if announced > bytes_max as u64 {
            return Err(too_large(bytes_max));
        }
        let room = match holder {
            BodyHolder::NoKey => 0,
            BodyHolder::Server | BodyHolder::Tenant(_) => announced,
        };
        let mut claim = BodyClaim::new(budget, holder, connection);
        claim.grow_to(room)?;
        match tokio::time::timeout(timeout, collect(&mut body, &mut claim, room as usize, bytes_max)).await {
            Ok(collected) => collected.map(|bytes| HeldBody { bytes, claim }),
            Err(_) => Err(late()),
        }
    }

    /// For a route that reads it itself, and holds no more of it than is claimed for every upload.
    pub fn into_stream(self, holder: BodyHolder) -> Result<(Body, BodyClaim), Problem> {
        let mut claim = BodyClaim::new(self.budget, holder, self.connection);
        claim.grow_to(UPLOAD_BYTES_RESERVED)?;
        Ok((self.body, claim))
    }
}

/// Claims what goes beyond `claimed` as it comes. A body of one frame is not copied.
async fn collect(
    body: &mut Body,
    claim: &mut BodyClaim,
    claimed: usize,
    bytes_max: usize,
) -> Result<Bytes, Problem> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = whole.len() + data.len();
        if length > bytes_max {
            return Err(too_large(bytes_max));
        }
        if whole.is_empty() && body.is_end_stream() {
            claim.grow_to(length as u64)?;
            return Ok(data);
        }
        if length > whole.capacity() {
            let room = if length <= claimed { claimed } else { length.next_power_of_two() };
            let room = room.min(bytes_max);
            claim.grow_to(room as u64)?;
            whole.reserve_exact(room - whole.len());
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
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

fn late() -> Problem {
    Problem::new(Code::RequestTimeout, "the body did not arrive in time")
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
pub fn from_document<T: DeserializeOwned>(document: Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(Objects(document)).map_err(|error| located_fault(&error))
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
        Ok(_) => Problem::field("", worded(&error.to_string())),
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
    // serde names the field only in its message.
    if let Some(field) = field_in(&message) {
        let place = format!("/{}", pointer::escape(field));
        if !pointer.ends_with(&place) {
            pointer.push_str(&place);
        }
    }
    Problem::field(pointer, worded(&message))
}

/// The field that a message of serde says is missing or repeated. Unknown ones are in the path already.
fn field_in(message: &str) -> Option<&str> {
    let missing = message.strip_prefix("missing field `");
    let rest = missing.or_else(|| message.strip_prefix("duplicate field `"))?;
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
    use crate::bodies::BodyLimits;
    use fantail_rules::ids::TenantId;
    use fantail_wire::event::{Audience, CloudEvent};
    use fantail_wire::list::FollowsBatch;
    use futures_core::Stream;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

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

    /// So many frames of a KiB, and then the end, or nothing.
    struct Frames {
        left: usize,
        ends: bool,
    }

    impl Stream for Frames {
        type Item = Result<Bytes, Infallible>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            match self.left.checked_sub(1) {
                Some(left) => {
                    self.left = left;
                    Poll::Ready(Some(Ok(Bytes::from(vec![b'x'; 1 << 10]))))
                }
                None if self.ends => Poll::Ready(None),
                None => Poll::Pending,
            }
        }
    }

    const TENANT: BodyHolder = BodyHolder::Tenant(TenantId(1));

    fn unread(budget: &Arc<BodyBudget>, left: usize, announced: u64, ends: bool) -> UnreadBody {
        let body = Body::from_stream(Frames { left, ends });
        let timeout = Duration::from_millis(10);
        UnreadBody { body, announced, budget: budget.clone(), connection: None, timeout }
    }

    fn budget(all: u64) -> Arc<BodyBudget> {
        BodyBudget::new(BodyLimits { all, reserved: 0, ..BodyLimits::default() })
    }

    #[tokio::test]
    async fn what_is_held_is_counted_however_it_comes() {
        for (frames, announced, held) in
            [(0, 0, 0), (1, 0, 1 << 10), (1, 1 << 10, 1 << 10), (3, 3 << 10, 3 << 10), (5, 0, 8 << 10)]
        {
            let budget = budget(8 << 10);
            let body = unread(&budget, frames, announced, true).read(TENANT, 1 << 20).await.expect("room");
            assert_eq!((body.bytes.len(), budget.taken()), (frames << 10, held), "{frames} of {announced}");
            drop(body);
            assert_eq!(budget.taken(), 0);
        }
    }

    /// Sixteen strangers announce as much as there is. Two send nothing more, the others a bit; then somebody sends a whole body.
    // fixes: security M7
    #[tokio::test]
    async fn without_a_key_silence_takes_no_room() {
        let budget = budget(32 << 10);
        let read = |frames, ends| {
            let stranger = unread(&budget, frames, 16 << 10, ends);
            Box::pin(stranger.read(BodyHolder::NoKey, 16 << 10))
        };
        let context = &mut Context::from_waker(Waker::noop());
        let mut silent: Vec<_> = (0..16).map(|number| read(usize::from(number > 1), false)).collect();
        assert!(silent.iter_mut().all(|read| read.as_mut().poll(context).is_pending()));
        assert_eq!(budget.taken(), 14 << 10, "what has come is counted");
        let whole = read(16, true).await.expect("room for a body that comes");
        assert_eq!((whole.bytes.len(), budget.taken()), (16 << 10, 30 << 10));
        let refused = read(16, true).await.expect_err("no more of them");
        assert_eq!((refused.code, budget.taken()), (Code::QueueFull, 30 << 10));
        drop((whole, silent));
        assert_eq!(budget.taken(), 0);
    }

    #[tokio::test]
    async fn what_has_no_room_is_refused_and_gives_back_what_it_held() {
        for (frames, announced, ends, bytes_max, code) in [
            // Announced: before anything of it is read.
            (0, 9 << 10, false, 1 << 20, Code::QueueFull),
            (9, 0, false, 1 << 20, Code::QueueFull),
            (9, 0, true, 1 << 20, Code::QueueFull),
            (5, 0, true, 4 << 10, Code::BodyTooLarge),
            (0, 5 << 10, false, 4 << 10, Code::BodyTooLarge),
            // A trickle.
            (2, 0, false, 1 << 20, Code::RequestTimeout),
            (2, 8 << 10, false, 1 << 20, Code::RequestTimeout),
        ] {
            let budget = budget(8 << 10);
            let problem = unread(&budget, frames, announced, ends).read(TENANT, bytes_max).await;
            let problem = problem.expect_err("it is refused");
            assert_eq!((problem.code, budget.taken()), (code, 0), "{frames} of {announced}");
        }
    }

    #[tokio::test]
    async fn a_body_of_one_frame_is_not_copied() {
        let budget = budget(5);
        let frame = Bytes::from_static(b"hello");
        let (body, timeout) = (Body::from(frame.clone()), Duration::from_secs(10));
        let unread = UnreadBody { body, announced: 5, budget, connection: None, timeout };
        let read = unread.read(TENANT, 5).await.expect("room");
        assert_eq!(read.bytes.as_ptr(), frame.as_ptr());
    }

    #[tokio::test]
    async fn an_upload_of_any_length_counts_once() {
        let budget = budget(UPLOAD_BYTES_RESERVED);
        let (body, claim) = unread(&budget, 5_000, 0, true).into_stream(TENANT).expect("room");
        assert!(unread(&budget, 0, 0, true).into_stream(TENANT).is_err(), "there is room for one");
        assert_eq!(body.collect().await.expect("frames").to_bytes().len(), 5_000 << 10);
        drop(claim);
        assert_eq!(budget.taken(), 0);
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
