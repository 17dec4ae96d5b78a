//! One message as an HTTP request: the content is the body, and three headers sign it. A template's webhook says the body
//! and its media type itself; all other content is sent as the JSON it is.
//! A collapse key, where there is one, is a header of its own.
//!
//! What must never happen: a different `webhook-id` on another attempt of the same delivery, or a body that differs from
//! what was signed.

use super::endpoint::Endpoint;
use super::limits::REFERENCE_BYTES_MAX;
use super::signature::{ID, SIGNATURE, TIMESTAMP, sign};
use fantail_rules::ids::Millis;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request};
use serde_json::Value;
use std::sync::Arc;

pub type Body = Full<Bytes>;

/// A later message with the same key takes the place of an earlier one.
const COLLAPSE_KEY: &str = "fantail-collapse-key";
const TEMPLATE_BEGINS: &[u8] = br#"{"contentType":"#;
const AGENT: &str = concat!("Fantail/", env!("CARGO_PKG_VERSION"));

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PayloadError {
    /// A full stop separates the parts of what is signed, so it cannot be inside of one.
    #[error("the reference is not 1 to {REFERENCE_BYTES_MAX} visible ASCII characters without a full stop")]
    BadReference,
}

/// `now` is the wall time: receivers compare it with their own.
pub fn request(
    endpoint: &Endpoint,
    reference: &str,
    collapse_key: Option<&str>,
    content: &Arc<[u8]>,
    now: Millis,
) -> Result<Request<Body>, PayloadError> {
    let is_plain = (1..=REFERENCE_BYTES_MAX).contains(&reference.len())
        && reference.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.');
    if !is_plain {
        return Err(PayloadError::BadReference);
    }
    let WebhookBody { bytes: body, media_type } = WebhookBody::of(content);
    let timestamp_s = now.0 / 1_000;
    let signature = sign(endpoint.secrets_at(timestamp_s), reference, timestamp_s, &body);
    let visible = |text: &str| HeaderValue::from_str(text).expect("it was made of visible ASCII characters");

    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = endpoint.url().path.clone().into();
    let headers = request.headers_mut();
    headers.insert(HOST, visible(&endpoint.url().origin.authority()));
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    for (name, value) in endpoint.headers() {
        headers.insert(name, value.clone());
    }
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(ID, visible(reference));
    if let Some(key) = collapse_key.and_then(|key| HeaderValue::from_str(key).ok()) {
        headers.insert(COLLAPSE_KEY, key);
    }
    headers.insert(TIMESTAMP, HeaderValue::from(timestamp_s));
    headers.insert(SIGNATURE, visible(&signature));
    Ok(request)
}

/// What is sent, and as what.
struct WebhookBody {
    bytes: Bytes,
    media_type: HeaderValue,
}

impl WebhookBody {
    /// What a template renders for a webhook is `{"contentType":"…","body":"…"}`, with its fields in this order. No other
    /// content begins so.
    fn of(content: &Arc<[u8]>) -> Self {
        Self::of_template(content).unwrap_or_else(|| Self {
            bytes: Bytes::from_owner(Arc::clone(content)),
            media_type: HeaderValue::from_static("application/json"),
        })
    }

    fn of_template(content: &[u8]) -> Option<Self> {
        if !content.starts_with(TEMPLATE_BEGINS) {
            return None;
        }
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(content) else { return None };
        match (fields.remove("contentType"), fields.remove("body")) {
            (Some(Value::String(media_type)), Some(Value::String(body))) => {
                Some(Self { bytes: body.into(), media_type: HeaderValue::from_str(&media_type).ok()? })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::signature::{Secret, verify};

    fn endpoint() -> Endpoint {
        let secret = Secret::from_bytes(&[3; 24]).expect("a secret");
        let headers = [("authorization", "Bearer t"), ("accept", "application/json")];
        Endpoint::new("https://example.org:8443/a?b=c", vec![secret], &headers).expect("an endpoint")
    }

    #[test]
    fn a_request_says_who_where_and_when() {
        let content: Arc<[u8]> = Arc::from(&b"{}"[..]);
        let now = Millis(1_700_000_000_999);
        let request = request(&endpoint(), "ref-1", Some("order-42"), &content, now).expect("a request");
        let header = |name: &str| request.headers()[name].to_str().expect("text").to_owned();
        assert_eq!(request.method(), Method::POST);
        assert_eq!(request.uri(), "/a?b=c");
        assert_eq!(header("host"), "example.org:8443");
        assert_eq!(header("webhook-id"), "ref-1");
        assert_eq!(header("webhook-timestamp"), "1700000000");
        assert_eq!(header("fantail-collapse-key"), "order-42");
        assert_eq!(header("authorization"), "Bearer t");
        assert_eq!(header("accept"), "application/json");
        assert_eq!(header("content-type"), "application/json");
        assert_eq!(
            verify(endpoint().secrets_at(0).next().expect("a secret"), request.headers(), b"{}", now),
            Ok(())
        );
    }

    // fixes: torture 5
    #[tokio::test]
    async fn a_template_says_body_and_media_type_itself() {
        use http_body_util::BodyExt;
        let now = Millis(1_700_000_000_999);
        for (content, body, media_type) in [
            (
                r#"{"contentType":"application/json","body":"{\"id\": 7}"}"#,
                r#"{"id": 7}"#,
                "application/json",
            ),
            (r#"{"contentType":"text/csv; charset=utf-8","body":"a,b"}"#, "a,b", "text/csv; charset=utf-8"),
            (r#"{"title":"t","body":"b"}"#, r#"{"title":"t","body":"b"}"#, "application/json"),
            (r#"{"contentType":"x","body":1}"#, r#"{"contentType":"x","body":1}"#, "application/json"),
        ] {
            let content: Arc<[u8]> = Arc::from(content.as_bytes());
            let request = request(&endpoint(), "ref-1", None, &content, now).expect("a request");
            assert_eq!(request.headers()["content-type"], media_type);
            let (head, sent) = request.into_parts();
            let sent = sent.collect().await.expect("a body").to_bytes();
            assert_eq!(sent, body);
            let secret = endpoint();
            let secret = secret.secrets_at(0).next().expect("a secret");
            assert_eq!(verify(secret, &head.headers, &sent, now), Ok(()), "what is sent is signed");
        }
    }

    #[test]
    fn a_reference_that_cannot_be_signed_is_refused() {
        let content: Arc<[u8]> = Arc::from(&b"{}"[..]);
        for reference in ["", "a.b", "a b", "a\nb", "ä", &"a".repeat(129)] {
            let refused = request(&endpoint(), reference, None, &content, Millis(0)).map(|_| ());
            assert_eq!(refused, Err(PayloadError::BadReference), "{reference}");
        }
    }
}
