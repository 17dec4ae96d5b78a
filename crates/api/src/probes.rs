//! What machines ask about the server itself: alive, ready, metrics, the API's description, the error pages.

use crate::app::App;
use crate::call::Query;
use crate::openapi;
use crate::pages;
use crate::problem::Problem;
use crate::reply::{JSON, Reply};
use crate::telemetry::Text;
use axum::body::Bytes;
use fantail_wire::code::Code;
use std::sync::{Mutex, PoisonError};

const DAY_MS: u64 = 86_400_000;

type Params = [(String, String)];

/// The process answers. Nothing else is looked at, so that a sick disk does not lead to a restart loop.
pub fn livez(_: &App, _: &Query, _: &Params) -> Result<Reply, Problem> {
    Ok(Reply::bytes(200, "text/plain; charset=utf-8", "ok\n"))
}

/// Whether traffic should come here.
pub fn readyz(app: &App, query: &Query, _: &Params) -> Result<Reply, Problem> {
    let status = |ready| if ready { 200 } else { 503 };
    if query.get("verbose").is_some() {
        let readiness = app.readiness();
        return Ok(Reply::json(status(readiness.ready), &readiness));
    }
    let ready = app.is_ready();
    let word = if ready { "ready\n" } else { "not ready\n" };
    Ok(Reply::bytes(status(ready), "text/plain; charset=utf-8", word))
}

pub fn metrics(app: &App, _: &Query, _: &Params) -> Result<Reply, Problem> {
    let mut text = Text::default();
    app.telemetry.write(&mut text, app.node().ok());
    app.addresses.write(&mut text);
    app.refusal_lines.write(&mut text);
    text.gauge(
        "fantail_request_body_bytes",
        "Bytes of request bodies that are announced, being read, or held by requests under way",
        app.bodies.taken(),
    );
    if let Some(host) = app.host() {
        host.write_metrics(&mut text);
    }
    Ok(Reply::bytes(200, Text::MEDIA_TYPE, text.into_string()))
}

pub fn describe(app: &App, _: &Query, _: &Params) -> Result<Reply, Problem> {
    /// Made once a day: examples of times that must lie ahead are reckoned from it.
    static DOCUMENT: Mutex<Option<(u64, Bytes)>> = Mutex::new(None);
    let now = app.clock.wall();
    let day = now.0 / DAY_MS;
    let mut kept = DOCUMENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, document)) = kept.as_ref().filter(|(made_on, _)| *made_on == day) {
        return Ok(Reply::bytes(200, JSON, document.clone()));
    }
    let document = openapi::document(app.settings.version, now);
    let document = Bytes::from(serde_json::to_vec_pretty(&document).expect("a JSON value serializes"));
    *kept = Some((day, document.clone()));
    Ok(Reply::bytes(200, JSON, document))
}

/// The page that a problem document's `type` points to.
pub fn error_page(_: &App, _: &Query, params: &Params) -> Result<Reply, Problem> {
    let wanted = params.first().map_or("", |(_, value)| value.as_str());
    let code = Code::ALL.iter().find(|code| code.page() == wanted);
    match code {
        Some(code) => Ok(Reply::bytes(200, "text/markdown; charset=utf-8", pages::of(*code))),
        None => Err(Problem::new(Code::RouteNotFound, "no such error page")),
    }
}
