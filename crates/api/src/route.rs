//! What a route is. One table of them drives routing, scope checks, metrics, OpenAPI and the tests of every route.

use crate::app::App;
use crate::body::UnreadBody;
use crate::call::{Call, Query};
use crate::callbacks::Arrival;
use crate::hosted::Visit;
use crate::listener_kinds::ListenerKinds;
use crate::openapi::Shape;
use crate::problem::Problem;
use crate::reply::Reply;
use axum::routing::MethodFilter;
use fantail_ports::BoxFuture;
use fantail_rules::ids::TenantId;
use fantail_wire::code::Code;
use fantail_wire::tenant::Scope;

pub type Handling = BoxFuture<'static, Result<Reply, Problem>>;
/// Answers from what is in memory. The last argument holds the path's parameters.
pub type OpenHandler = fn(&App, &Query, &[(String, String)]) -> Result<Reply, Problem>;

/// Who may call a route, and what then runs. A handler for a tenant cannot be reached without one.
#[derive(Clone, Copy)]
pub enum Handle {
    /// Anyone, even while the node is still recovering.
    Open(OpenHandler),
    /// A key with this scope, for its tenant.
    Scoped(Scope, fn(TenantId, Call) -> Handling),
    /// The server's admin key, or a key of the tenant in the path with the scope `admin`.
    TenantAdmin(fn(TenantId, Call) -> Handling),
    /// The server's admin key.
    ServerAdmin(fn(Call) -> Handling),
    /// Whoever has the link in the path.
    Hosted(fn(Visit, UnreadBody) -> Handling),
    /// Whoever proves itself by a signature, or by a seal in the path.
    Callback(fn(Arrival, UnreadBody) -> Handling),
}

impl Handle {
    /// Routes for strangers are public; routes that need a key are not.
    const fn listeners(self) -> ListenerKinds {
        match self {
            Self::Hosted(_) | Self::Callback(_) => ListenerKinds::PUBLIC,
            Self::Open(_) | Self::Scoped(..) | Self::TenantAdmin(_) => ListenerKinds::API_AND_ADMIN,
            Self::ServerAdmin(_) => ListenerKinds::ADMIN,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    #[must_use]
    pub fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }

    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// What a route takes.
#[derive(Clone, Copy)]
pub enum Body {
    None,
    Json(Shape),
    /// CloudEvents in their three forms.
    Events,
    /// Lines of any number, read as they arrive.
    Lines,
    /// A form of a hosted page, in both encodings.
    Form,
}

/// What a route gives when all went well.
#[derive(Clone, Copy)]
pub struct Answer {
    pub status: u16,
    pub media_type: &'static str,
    pub shape: Option<Shape>,
}

/// The hosted page has most: good, not understood, gone, and changed meanwhile.
const ANSWERS_MAX: usize = 4;

#[derive(Clone, Copy)]
pub struct Route {
    /// Name in OpenAPI, logs and metrics; frozen.
    pub id: &'static str,
    pub method: Method,
    pub path: &'static str,
    pub summary: &'static str,
    pub handle: Handle,
    /// Where it is served; elsewhere it does not exist.
    pub listeners: ListenerKinds,
    /// Query parameters that exist on a listener for administration only.
    pub admin_query: &'static [&'static str],
    /// Names of the query parameters it knows.
    pub query: &'static [&'static str],
    /// Those of them that a request cannot leave out.
    pub required_query: &'static [&'static str],
    /// Whether `If-Match` and `If-None-Match` say what the caller believes to be in force.
    pub is_conditional: bool,
    pub body: Body,
    pub answers: [Option<Answer>; ANSWERS_MAX],
    /// Codes beyond those that every route of its kind can give.
    pub codes: &'static [Code],
}

impl Route {
    pub const fn new(
        id: &'static str,
        method: Method,
        path: &'static str,
        summary: &'static str,
        handle: Handle,
    ) -> Self {
        Self {
            id,
            method,
            path,
            summary,
            handle,
            listeners: handle.listeners(),
            admin_query: &[],
            query: &[],
            required_query: &[],
            is_conditional: false,
            body: Body::None,
            answers: [None; ANSWERS_MAX],
            codes: &[],
        }
    }

    pub const fn query(self, query: &'static [&'static str]) -> Self {
        Self { query, ..self }
    }

    /// Serves an open route on other listeners than its kind is served on.
    pub const fn on(self, listeners: ListenerKinds) -> Self {
        Self { listeners, ..self }
    }

    pub const fn admin_query(self, admin_query: &'static [&'static str]) -> Self {
        Self { admin_query, ..self }
    }

    pub const fn needs(self, required_query: &'static [&'static str]) -> Self {
        Self { required_query, ..self }
    }

    pub const fn conditional(self) -> Self {
        Self { is_conditional: true, ..self }
    }

    pub const fn takes(self, shape: Shape) -> Self {
        Self { body: Body::Json(shape), ..self }
    }

    pub const fn takes_events(self) -> Self {
        Self { body: Body::Events, ..self }
    }

    pub const fn takes_lines(self) -> Self {
        Self { body: Body::Lines, ..self }
    }

    pub const fn takes_form(self) -> Self {
        Self { body: Body::Form, ..self }
    }

    pub const fn gives(self, status: u16, shape: Shape) -> Self {
        self.answers_with(Answer { status, media_type: crate::reply::JSON, shape: Some(shape) })
    }

    pub const fn gives_nothing(self, status: u16) -> Self {
        self.answers_with(Answer { status, media_type: "", shape: None })
    }

    pub const fn gives_text(self, status: u16, media_type: &'static str) -> Self {
        self.answers_with(Answer { status, media_type, shape: None })
    }

    pub const fn refuses(self, codes: &'static [Code]) -> Self {
        Self { codes, ..self }
    }

    const fn answers_with(self, answer: Answer) -> Self {
        let (mut answers, mut place) = (self.answers, 0);
        while answers[place].is_some() {
            place += 1;
        }
        answers[place] = Some(answer);
        Self { answers, ..self }
    }

    /// Whether it is answered when all places for connections are taken.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        matches!(self.id, "livez" | "readyz" | "metrics")
    }

    /// Whether it is answered without a key.
    #[must_use]
    pub fn is_open_to_strangers(&self) -> bool {
        matches!(self.handle, Handle::Open(_) | Handle::Hosted(_) | Handle::Callback(_))
    }

    /// Whether the header `Idempotency-Key` names what it sends.
    #[must_use]
    pub fn is_idempotent_by_name(&self) -> bool {
        matches!(self.id, "sendNotification" | "createBulk")
    }

    /// Names of the parameters in the path, in order.
    pub fn path_params(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
    }

    /// Every code this route can give.
    #[must_use]
    pub fn all_codes(&self) -> Vec<Code> {
        let mut codes = self.codes.to_vec();
        codes.extend([Code::MalformedRequest, Code::InvalidRequest, Code::AddressRateLimited]);
        if !self.admin_query.is_empty() {
            codes.push(Code::RouteNotFound);
        }
        if !self.is_probe() {
            codes.push(Code::TooManyConnections);
        }
        match self.handle {
            Handle::Open(_) => {}
            Handle::Hosted(_) | Handle::Callback(_) => codes.extend([Code::NotReady, Code::Internal]),
            Handle::Scoped(..) | Handle::TenantAdmin(_) | Handle::ServerAdmin(_) => {
                codes.extend([Code::Unauthenticated, Code::Forbidden, Code::NotReady, Code::Internal]);
            }
        }
        match self.handle {
            Handle::Scoped(..) | Handle::TenantAdmin(_) => {
                codes.extend([Code::UnknownTenant, Code::TenantDeleting]);
            }
            Handle::Open(_) | Handle::ServerAdmin(_) | Handle::Hosted(_) | Handle::Callback(_) => {}
        }
        match self.body {
            Body::None => {}
            Body::Lines => {
                codes.extend([Code::InvalidRequest, Code::UnsupportedMediaType, Code::RequestTimeout])
            }
            Body::Form => codes.extend([Code::BodyTooLarge, Code::RequestTimeout]),
            Body::Json(_) | Body::Events => codes.extend([
                Code::InvalidJson,
                Code::InvalidRequest,
                Code::BodyTooLarge,
                Code::UnsupportedMediaType,
                Code::RequestTimeout,
            ]),
        }
        if !matches!(self.method, Method::Get) {
            codes.extend([Code::QueueFull, Code::StorageFull, Code::Stopping]);
        }
        codes.sort();
        codes.dedup();
        codes
    }
}
