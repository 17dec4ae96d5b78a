//! One path for every request: name it, find its route, authenticate, authorise, read it, handle it, count and log it.
//!
//! Comes from: `server`'s connections. Decides: which handler, and whether it may run. Goes to: `v1/*`.
//! What must never happen: a secret, a body or a user's id in a log line. Routes are logged by name, not by path.

use crate::app::App;
use crate::auth;
use crate::bodies::BodyHolder;
use crate::body::{self, UnreadBody};
use crate::call::{Call, Query};
use crate::callbacks::Arrival;
use crate::hosted::Visit;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Body as RouteBody, Handle, Handling, Route};
use crate::routes::ROUTES;
use crate::well_formed;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use axum::routing::on;
use fantail_rules::ids::{FrontNo, TenantId};
use fantail_rules::limits::BODY_BYTES_MAX;
use fantail_rules::ulid::Ulid;
use fantail_wire::code::Code;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::{debug, info};

/// Marks a request of a connection that came when all places were taken: only probes are answered.
#[derive(Clone, Copy, Debug)]
pub struct ProbesOnly;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_MAX: usize = 64;

pub fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for (index, route) in ROUTES.iter().enumerate() {
        let app = app.clone();
        let handler = move |request: Request| serve(app.clone(), index, request);
        router = router.route(route.path, on(route.method.filter(), handler));
    }
    let (no_route, no_method) = (app.clone(), app);
    router
        .fallback(move |request: Request| refuse(no_route.clone(), Code::RouteNotFound, request))
        .method_not_allowed_fallback(move |request: Request| {
            refuse(no_method.clone(), Code::MethodNotAllowed, request)
        })
}

async fn serve(app: Arc<App>, index: usize, request: Request) -> Response {
    let began_us = app.clock.micros();
    let _under_way = app.telemetry.begin();
    let route = &ROUTES[index];
    let request_id = request_id(&app, request.headers());
    let (reply, code) = match dispatch(&app, route, request, &request_id).await {
        Ok(reply) => (reply, None),
        Err(problem) => {
            let code = problem.code;
            app.telemetry.problem(code);
            (problem.into_reply(&request_id), Some(code.text()))
        }
    };
    let elapsed_us = app.clock.micros().saturating_sub(began_us);
    let elapsed = Duration::from_micros(elapsed_us);
    let status = reply.status.as_u16();
    app.telemetry.answered(index, status, elapsed);
    if code.is_some() || elapsed > app.settings.slow_request {
        info!(request_id, route = route.id, status, code, elapsed_us, "answered");
    } else {
        debug!(request_id, route = route.id, status, elapsed_us, "answered");
    }
    finish(reply, &request_id)
}

async fn dispatch(
    app: &Arc<App>,
    route: &'static Route,
    request: Request,
    request_id: &str,
) -> Result<Reply, Problem> {
    let (mut parts, body) = request.into_parts();
    well_formed::require(&parts)?;
    let unread = UnreadBody::new(app, &mut parts, body);
    if parts.extensions.get::<ProbesOnly>().is_some() && !route.is_probe() {
        return Err(Problem::new(Code::TooManyConnections, "only probes are answered now").retry_after_s(1));
    }
    if let Handle::Open(handler) = route.handle {
        let query = Query::read(parts.uri.query(), route.query)?;
        return handler(app, &query, &path_params(&mut parts, route).await?);
    }
    let node = app.node()?;
    if let Handle::Hosted(handler) = route.handle {
        let params = path_params(&mut parts, route).await?;
        let token = params.into_iter().next().map(|(_, token)| token).unwrap_or_default();
        let (node, headers) = (node.clone(), parts.headers);
        return handler(Visit { node, token, headers }, unread).await;
    }
    if let Handle::Callback(handler) = route.handle {
        let params = path_params(&mut parts, route).await?;
        let path_and_query = parts.uri.path_and_query().map_or("", |path| path.as_str()).to_owned();
        let (app, node, headers) = (app.clone(), node.clone(), parts.headers);
        return handler(Arrival { app, node, params, path_and_query, headers }, unread).await;
    }
    let caller = auth::authenticate(app, node, &parts.headers)?;
    let node = node.acting_as(caller.actor());
    let params = path_params(&mut parts, route).await?;
    let mut call = Call {
        app: app.clone(),
        node,
        request_id: request_id.to_owned(),
        caller,
        headers: parts.headers,
        params,
        query: Query::default(),
        body: Bytes::new(),
        held: None,
        is_run: false,
        stream: Mutex::new(None),
    };
    let authorised = authorise(route, &call)?;
    call.query = Query::read(parts.uri.query(), route.query)?;
    if !matches!(route.body, RouteBody::None) {
        body::require_plain(&call.headers)?;
    }
    let holder = authorised.holder();
    if matches!(route.body, RouteBody::Lines) {
        let (body, claim) = unread.into_stream(holder)?;
        (call.stream, call.held) = (Mutex::new(Some(body)), Some(claim));
    } else {
        let body = unread.read(holder, BODY_BYTES_MAX).await?;
        (call.body, call.held) = (body.bytes, Some(body.claim));
    }
    let is_conditional =
        [header::IF_MATCH, header::IF_NONE_MATCH].iter().any(|name| call.headers.contains_key(name));
    let handled = match authorised {
        Authorised::Tenant(tenant, handler) => handler(tenant, call).await,
        Authorised::Server(handler) => handler(call).await,
    };
    handled.map_err(|problem| if is_conditional { problem } else { problem.without_condition() })
}

/// A handler together with the right to run it.
enum Authorised {
    Tenant(TenantId, fn(TenantId, Call) -> Handling),
    Server(fn(Call) -> Handling),
}

impl Authorised {
    /// Who answers for the body.
    fn holder(&self) -> BodyHolder {
        match self {
            Self::Tenant(tenant, _) => BodyHolder::Tenant(*tenant),
            Self::Server(_) => BodyHolder::Server,
        }
    }
}

fn authorise(route: &Route, call: &Call) -> Result<Authorised, Problem> {
    let caller = &call.caller;
    match route.handle {
        Handle::Scoped(scope, handler) => {
            let tenant = auth::tenant_with(&call.node, &call.headers, caller, scope)?;
            Ok(Authorised::Tenant(tenant, handler))
        }
        Handle::TenantAdmin(handler) => {
            let tenant = auth::tenant_to_administer(&call.node, caller, call.param("slug"))?;
            Ok(Authorised::Tenant(tenant, handler))
        }
        Handle::ServerAdmin(handler) => {
            auth::require_server(caller)?;
            Ok(Authorised::Server(handler))
        }
        Handle::Open(_) | Handle::Hosted(_) | Handle::Callback(_) => {
            unreachable!("open routes and pages were answered before anyone was authenticated")
        }
    }
}

async fn path_params(parts: &mut Parts, route: &Route) -> Result<Vec<(String, String)>, Problem> {
    if route.path_params().next().is_none() {
        return Ok(Vec::new());
    }
    match RawPathParams::from_request_parts(parts, &()).await {
        Ok(params) => Ok(params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()),
        Err(_) => Err(Problem::field("/path", "not valid UTF-8 after percent-decoding")),
    }
}

/// Answers what no route answers.
async fn refuse(app: Arc<App>, code: Code, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let request_id = request_id(&app, &parts.headers);
    let detail = match code {
        Code::MethodNotAllowed => "see the Allow header for the methods of this path",
        _ => "see /openapi.json for all paths",
    };
    let problem = well_formed::require(&parts).err().unwrap_or_else(|| Problem::new(code, detail));
    app.telemetry.problem(problem.code);
    debug!(request_id, code = problem.code.text(), "answered");
    finish(problem.into_reply(&request_id), &request_id)
}

fn finish(reply: Reply, request_id: &str) -> Response {
    let mut response = reply.into_response();
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The caller's id for this request if it has a plain one, else a fresh one.
fn request_id(app: &App, headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    match given {
        Some(id) if is_request_id(id) => id.to_owned(),
        Some(_) | None => Ulid::new(app.clock.wall(), FrontNo(0), app.entropy.random_u128()).to_string(),
    }
}

fn is_request_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':');
    (1..=REQUEST_ID_MAX).contains(&id.len()) && id.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_request_ids_are_taken_over() {
        for good in ["a", "7f3c-1", "00-4bf92f3577b34da6-01", "a.b:c_d"] {
            assert!(is_request_id(good), "{good}");
        }
        for bad in ["", "a b", "a\"b", "é", "x\ny", &"x".repeat(65)] {
            assert!(!is_request_id(bad), "{bad}");
        }
    }
}
