//! One path for every request: name it, find its route, authenticate, authorise, read it, handle it, count and log it.
//!
//! Comes from: `server`'s connections. Decides: which handler, and whether it may run. Goes to: `v1/*`.
//! What must never happen: a secret, a body or a user's id in a log line. Routes are logged by name, not by path.

use crate::access::{AccessFault, Requester};
use crate::app::App;
use crate::auth;
use crate::bodies::BodyHolder;
use crate::body::{self, UnreadBody};
use crate::call::{Call, Query};
use crate::callbacks::Arrival;
use crate::client_address::{Peer, is_forwarded};
use crate::host_rules::HostRules;
use crate::hosted::Visit;
use crate::known_caller::KnownCaller;
use crate::listener_kinds::{ListenerKind, ListenerKinds};
use crate::problem::Problem;
use crate::refusal_lines::RefusedCaller;
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
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::{debug, info};

/// Marks a request of a connection that came when all places were taken: only probes are answered.
#[derive(Clone, Copy, Debug)]
pub struct ProbesOnly;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_MAX: usize = 64;

/// What a listener serves, and by which names it may be called.
#[derive(Clone, Debug)]
pub struct ListenerRules {
    pub kinds: ListenerKinds,
    pub hosts: HostRules,
}

/// Builds the routes that a listener serves.
pub fn router(app: Arc<App>, listener: ListenerRules) -> Router {
    let mut router = Router::new();
    let listener = Arc::new(listener);
    for (index, route) in
        ROUTES.iter().enumerate().filter(|(_, route)| route.listeners.intersects(listener.kinds))
    {
        let (app, listener) = (app.clone(), listener.clone());
        let handler = move |request: Request| serve(app.clone(), listener.clone(), index, request);
        router = router.route(route.path, on(route.method.filter(), handler));
    }
    let (no_route, no_method) = (app.clone(), app);
    router
        .fallback(move |request: Request| refuse(no_route.clone(), Code::RouteNotFound, request))
        .method_not_allowed_fallback(move |request: Request| {
            refuse(no_method.clone(), Code::MethodNotAllowed, request)
        })
}

/// The sender of the request, before its key is read.
fn requester(app: &App, request: &Request) -> Requester {
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(ip)| *ip);
    Requester { client: app.addresses.rules().client(peer, request.headers()), key: None, tenant: None }
}

/// The answer to a request, from any caller.
struct Answered {
    reply: Reply,
    refused: Option<Code>,
}

impl Answered {
    /// Counts what is refused, and remembers it for the audit log if it is because of who asked.
    fn new(app: &App, result: Result<Reply, Problem>, requester: &Requester, request_id: &str) -> Self {
        let problem = match result {
            Ok(reply) => return Self { reply, refused: None },
            Err(problem) => problem,
        };
        let code = problem.code;
        app.telemetry.problem(code);
        if let Some(fault) = problem.fault() {
            app.telemetry.access_refused(fault);
            app.refused.add(requester, app.clock.wall());
        }
        Self { reply: problem.into_reply(request_id), refused: Some(code) }
    }
}

async fn serve(app: Arc<App>, listener: Arc<ListenerRules>, index: usize, request: Request) -> Response {
    let began_us = app.clock.micros();
    let _under_way = app.telemetry.begin();
    let route = &ROUTES[index];
    let request_id = request_id(&app, request.headers());
    let mut requester = requester(&app, &request);
    let result = dispatch(&app, route, &listener, request, &request_id, &mut requester).await;
    let fault = result.as_ref().err().and_then(Problem::fault).map(AccessFault::name);
    let Answered { reply, refused } = Answered::new(&app, result, &requester, &request_id);
    let elapsed_us = app.clock.micros().saturating_sub(began_us);
    let elapsed = Duration::from_micros(elapsed_us);
    let status = reply.status.as_u16();
    app.telemetry.answered(index, status, elapsed);
    let (client, key) = (requester.client.address, &requester.key);
    let code = refused.map(Code::text);
    let is_logged = match refused {
        // It is counted: a line for each would be one more thing to flood.
        Some(Code::AddressRateLimited) => false,
        Some(_) => {
            let caller = requester.tenant.map_or(RefusedCaller::Stranger, |_| RefusedCaller::Tenant);
            app.refusal_lines.is_allowed(caller, app.clock.monotonic())
        }
        None => elapsed > app.settings.slow_request,
    };
    if is_logged {
        info!(request_id, route = route.id, status, code, reason = fault, %client, key, elapsed_us, "answered");
    } else {
        debug!(request_id, route = route.id, status, code, %client, key, elapsed_us, "answered");
    }
    finish(reply, &request_id)
}

async fn dispatch(
    app: &Arc<App>,
    route: &'static Route,
    listener: &ListenerRules,
    request: Request,
    request_id: &str,
    requester: &mut Requester,
) -> Result<Reply, Problem> {
    let (mut parts, body) = request.into_parts();
    well_formed::require(&parts)?;
    let unread = UnreadBody::new(app, &mut parts, body);
    if parts.extensions.get::<ProbesOnly>().is_some() && !route.is_probe() {
        return Err(Problem::new(Code::TooManyConnections, "only probes are answered now").retry_after_s(1));
    }
    if route.is_open_to_strangers() {
        app.addresses.charge_request(requester.client.limited_as, app.clock.monotonic())?;
        return answer_stranger(app, route, listener, requester, parts, unread).await;
    }
    let node = app.node()?;
    let caller = auth::authenticate(app, node, &parts.headers, listener.kinds, requester)?;
    if let Some(known) = parts.extensions.get::<KnownCaller>() {
        known.set();
    }
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

/// Answers callers without a key: open routes, links and signed calls.
async fn answer_stranger(
    app: &Arc<App>,
    route: &'static Route,
    listener: &ListenerRules,
    requester: &Requester,
    mut parts: Parts,
    unread: UnreadBody,
) -> Result<Reply, Problem> {
    if let Handle::Open(handler) = route.handle {
        let query = Query::read(parts.uri.query(), route.query)?;
        let is_of_admin = route.admin_query.iter().any(|name| query.get(name).is_some());
        if is_of_admin && !listener.kinds.contains(ListenerKind::Admin) {
            return Err(Problem::new(Code::RouteNotFound, "this is answered by admin.listen only"));
        }
        if is_of_admin || route.listeners == ListenerKinds::ADMIN {
            listener.hosts.require(&parts)?;
        }
        return handler(app, &query, &path_params(&mut parts, route).await?);
    }
    let node = app.node()?.clone();
    let params = path_params(&mut parts, route).await?;
    match route.handle {
        Handle::Hosted(handler) => {
            let token = params.into_iter().next().map(|(_, token)| token).unwrap_or_default();
            let (headers, saves) = (parts.headers, app.link_saves.clone());
            handler(Visit { node, token, headers, saves }, unread).await
        }
        Handle::Callback(handler) => {
            let path_and_query = parts.uri.path_and_query().map_or("", |path| path.as_str()).to_owned();
            let is_local = requester.client.address.is_loopback() && !is_forwarded(&parts.headers);
            let (charged, limited_as) = (app.clone(), requester.client.limited_as);
            let (app, headers, requester) = (app.clone(), parts.headers, requester.clone());
            let listener = listener.kinds;
            let arrival =
                Arrival { app, node, params, path_and_query, headers, is_local, listener, requester };
            let answered = handler(arrival, unread).await;
            // Whether there is such an account or not, what proves nothing counts as a login that failed.
            if answered.as_ref().is_err_and(|problem| problem.code == Code::CallbackRefused) {
                charged.addresses.charge_failed_login(limited_as, charged.clock.monotonic())?;
            }
            answered
        }
        Handle::Open(_) | Handle::Scoped(..) | Handle::TenantAdmin(_) | Handle::ServerAdmin(_) => {
            unreachable!("what is open was answered, and all else needs a key")
        }
    }
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
    let client = requester(&app, &request).client;
    let (parts, _) = request.into_parts();
    let request_id = request_id(&app, &parts.headers);
    let detail = match code {
        Code::MethodNotAllowed => "see the Allow header for the methods of this path",
        _ => "see /openapi.json for all paths",
    };
    let asked = app.addresses.charge_request(client.limited_as, app.clock.monotonic());
    let problem = asked.and_then(|()| well_formed::require(&parts)).err();
    let problem = problem.unwrap_or_else(|| Problem::new(code, detail));
    app.telemetry.problem(problem.code);
    debug!(request_id, code = problem.code.text(), client = %client.address, "answered");
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
