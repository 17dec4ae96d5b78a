//! An answer before it becomes an HTTP response.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;

pub const JSON: &str = "application/json";

pub struct Reply {
    pub status: StatusCode,
    pub body: Bytes,
    /// Written while it is read, instead of `body`.
    stream: Option<Body>,
    headers: HeaderMap,
}

impl Reply {
    pub fn json<T: Serialize>(status: u16, value: &T) -> Self {
        let body = serde_json::to_vec(value).expect("our shapes have string keys and finite numbers");
        Self::bytes(status, JSON, body)
    }

    pub fn bytes(status: u16, media_type: &'static str, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        Self { status: status_of(status), body: body.into(), stream: None, headers }
    }

    pub fn stream(status: u16, media_type: &'static str, stream: Body) -> Self {
        Self { stream: Some(stream), ..Self::bytes(status, media_type, Bytes::new()) }
    }

    pub fn no_content() -> Self {
        let (body, headers) = (Bytes::new(), HeaderMap::new());
        Self { status: StatusCode::NO_CONTENT, body, stream: None, headers }
    }

    /// The same, recorded but not everywhere yet: what it withdraws may still be sent for a moment.
    #[must_use]
    pub fn accepted(self) -> Self {
        Self { status: StatusCode::ACCEPTED, ..self }
    }

    #[must_use]
    pub fn with_type(mut self, media_type: &'static str) -> Self {
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        self
    }

    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// The version of what is shown, as its `ETag`.
    #[must_use]
    pub fn with_version(self, version: u32) -> Self {
        let tag = HeaderValue::from_str(&format!("\"{version}\"")).expect("digits in quotes are a header");
        self.with_header(header::ETAG, tag)
    }

    #[cfg(test)]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn into_response(self) -> Response {
        let mut response = Response::new(self.stream.unwrap_or_else(|| Body::from(self.body)));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

fn status_of(status: u16) -> StatusCode {
    StatusCode::from_u16(status).expect("our statuses are between 100 and 999")
}
