//! What an emulator is: a provider's name, its hosts, and an answer to every call.
//!
//! The core brings connections, names, faults and the record; an emulator knows the provider's rules and nothing else. One
//! over HTTP is an [`Emulator`], one with a protocol of its own a [`Raw`].

use crate::connection::Connection;
use crate::record::Ticket;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use tokio::net::TcpStream;

pub trait Emulator: Send + Sync {
    /// As it stands in paths, ports and fault profiles: lower case.
    fn name(&self) -> &'static str;

    /// Host names that mean this provider; `*` stands for one label.
    fn hosts(&self) -> &'static [&'static str];

    /// How many streams a client of HTTP/2 may have open.
    fn streams(&self) -> Streams {
        Streams { first: 100, proven: 100 }
    }

    /// A longer body is refused with 413 before anyone sees it.
    fn body_bytes_max(&self) -> usize {
        1 << 20
    }

    fn answer<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Answer>;

    /// The provider's own shape of an error that a fault profile asks for; `quota` is asked for when a quota is used up.
    /// `None` if it has no such kind: then the kind is taken as a status, with an empty body.
    fn fault(&self, kind: &str, call: &Call, retry_after_ms: Option<u64>) -> Option<Reply>;

    /// All kinds that `fault` knows; none if it cannot list them. A profile that asks for another one is refused.
    fn fault_kinds(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// What a repeat of the same message has in common with it, as far as the head of the call shows it.
    fn message_id(&self, _call: &Call) -> Option<String> {
        None
    }

    /// Whose quota a call uses: a project, a sender; `None` if it uses none.
    fn quota_key(&self, _call: &Call) -> Option<String> {
        Some(String::new())
    }

    /// What a connection that goes away says.
    fn go_away_reason(&self, _now_ms: u64) -> Bytes {
        Bytes::new()
    }

    /// A connection ended: what was remembered about it may go.
    fn closed(&self, _connection: u64) {}

    /// Paths of the control API below `/{name}/`; `None` if there is no such path.
    fn control<'a>(&'a self, _ask: &'a ControlCall) -> BoxFuture<'a, Option<ControlReply>> {
        Box::pin(std::future::ready(None))
    }
}

/// An emulator that speaks a protocol of its own on its own port.
pub trait Raw: Send + Sync {
    fn name(&self) -> &'static str;

    fn serve(&self, stream: TcpStream, connection: Arc<Connection>) -> BoxFuture<'_, ()>;

    fn control<'a>(&'a self, _ask: &'a ControlCall) -> BoxFuture<'a, Option<ControlReply>> {
        Box::pin(std::future::ready(None))
    }
}

/// Until the connection is proven (see [`Connection::prove`]), and then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Streams {
    pub first: u32,
    pub proven: u32,
}

/// One request, whole.
pub struct Call {
    pub connection: Arc<Connection>,
    /// The name that the client meant, without port: from the request, otherwise from TLS.
    pub host: String,
    /// With port if one was given, as in `https://HOST` of a URL.
    pub authority: String,
    pub is_tls: bool,
    pub is_http2: bool,
    pub method: Method,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// By the emulator's clock.
    pub now_ms: u64,
}

#[derive(Debug)]
pub enum Answer {
    Reply(Reply),
    /// The reply; then the connection takes no more calls.
    ReplyThenGoAway {
        reply: Reply,
        reason: Bytes,
    },
    /// No reply, and no connection any more.
    CloseConnection,
    /// No reply, for as long as the client waits.
    Silence,
}

/// An empty body is sent as no body at all; any other as exactly one DATA frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
    /// What arrived with the call that this answers.
    pub arrival: Option<Ticket>,
    /// The answer takes so much longer, whatever the profile says.
    pub delay_ms: u64,
}

pub struct ControlCall {
    pub method: Method,
    /// Below the emulator's name.
    pub path: Vec<String>,
    pub query: Vec<(String, String)>,
    /// `Null` if there was none.
    pub body: Value,
    pub now_ms: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub enum ControlReply {
    Json(StatusCode, Value),
    /// Problem document with this status and detail.
    Problem(StatusCode, String),
}

impl Call {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// How often a header came.
    #[must_use]
    pub fn header_count(&self, name: &str) -> usize {
        self.headers.get_all(name).iter().count()
    }
}

impl Reply {
    #[must_use]
    pub fn new(status: StatusCode) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new(), arrival: None, delay_ms: 0 }
    }

    #[must_use]
    pub fn json(status: StatusCode, value: &Value) -> Self {
        Self::new(status).with("content-type", "application/json").body(value.to_string())
    }

    /// What is no header value is left out.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((HeaderName::from_static(name), value));
        }
        self
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    #[must_use]
    pub fn arrival(mut self, ticket: Ticket) -> Self {
        self.arrival = Some(ticket);
        self
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

impl ControlReply {
    #[must_use]
    pub fn ok(value: Value) -> Self {
        Self::Json(StatusCode::OK, value)
    }

    #[must_use]
    pub fn bad(detail: &str) -> Self {
        Self::Problem(StatusCode::BAD_REQUEST, detail.to_owned())
    }
}
