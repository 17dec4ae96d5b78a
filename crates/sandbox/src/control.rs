//! The viewer and control API: plain HTTP and JSON on 127.0.0.1, problem documents for errors.
//!
//! Whatever the console shows of the sandbox, and whatever a test changes about it, goes through here. Who may ask is decided by
//! `control_guard`.

use crate::control_guard;
use crate::emulator::{ControlCall, ControlReply, Emulator, Raw};
use crate::faults::Profile;
use crate::judge::{self, Send};
use crate::listen;
use crate::record::{Channel, Filter};
use crate::sandbox::go_away;
use crate::world::World;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tracing::debug;

/// A list of sends for the judge may be long: about a million.
const BODY_BYTES_MAX: usize = 128 << 20;
const CONNECTIONS_MAX: usize = 256;
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;

#[derive(Clone)]
pub(crate) struct Desk {
    pub world: World,
    pub http: Arc<Vec<Arc<dyn Emulator>>>,
    pub raw: Arc<Vec<Arc<dyn Raw>>>,
    /// What callers over HTTP have to know, if anything.
    pub viewer_key: Option<Arc<str>>,
}

pub(crate) async fn serve(listener: TcpListener, desk: Desk) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Some((stream, permit)) = listen::accept(&listener, &connections).await {
        let desk = desk.clone();
        tokio::spawn(async move {
            connection(stream, desk).await;
            drop(permit);
        });
    }
}

async fn connection(stream: TcpStream, desk: Desk) {
    let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request, &desk).await) });
    let http = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    if let Err(error) = http.await {
        debug!(%error, "control connection ended");
    }
}

async fn answer(request: Request<Incoming>, desk: &Desk) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    if let Err(refusal) = control_guard::check(&head, desk.viewer_key.as_deref()) {
        return problem(refusal.status(), refusal.detail());
    }
    if head.method == Method::GET && head.uri.path() == "/ca.pem" {
        return respond(StatusCode::OK, "application/x-pem-file", desk.world.authority().pem());
    }
    let body = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return problem(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long"),
    };
    let body = if body.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&body) };
    let Ok(body) = body else { return problem(StatusCode::BAD_REQUEST, "the body is not JSON") };
    let path_and_query = head.uri.path_and_query().map_or("/", |path| path.as_str());
    match desk.ask(head.method, path_and_query, body).await {
        ControlReply::Json(status, value) => respond(status, "application/json", value.to_string()),
        ControlReply::Problem(status, detail) => problem(status, &detail),
    }
}

fn respond(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn problem(status: StatusCode, detail: &str) -> Response<Full<Bytes>> {
    let title = status.canonical_reason().unwrap_or("error");
    let document =
        json!({"type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail});
    respond(status, "application/problem+json", document.to_string())
}

impl Desk {
    pub async fn ask(&self, method: Method, path_and_query: &str, body: Value) -> ControlReply {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        let path = path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
        let query = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (decoded(name), decoded(&value.replace('+', " "))))
            .collect();
        let now_ms = self.world.clock().now_ms();
        self.answer(ControlCall { method, path, query, body, now_ms }).await
    }

    async fn answer(&self, mut ask: ControlCall) -> ControlReply {
        let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
        match (ask.method.as_str(), path.as_slice()) {
            ("GET", []) => ControlReply::ok(self.help()),
            ("GET", ["messages"]) => self.messages(&ask),
            ("DELETE", ["messages"]) => {
                self.world.record().clear();
                ControlReply::ok(json!({}))
            }
            ("GET", ["messages", no]) => {
                let shown = no.parse().ok().and_then(|no| self.world.record().get(no));
                shown.map_or_else(|| not_found("there is no such message any more"), ControlReply::ok)
            }
            ("GET", ["faults", name]) if self.knows(name) => {
                ControlReply::ok(self.world.faults().profile(name).write())
            }
            ("PUT", ["faults", name]) if self.knows(name) => self.set_faults(name, &ask.body),
            ("POST", ["goaway", name]) if self.knows(name) => {
                ControlReply::ok(json!({"connections": go_away(&self.world, &self.http, name)}))
            }
            ("POST", ["clock"]) => match ask.body.get("advanceMs").and_then(Value::as_i64) {
                Some(ms) => {
                    self.world.clock().advance(ms);
                    ControlReply::ok(json!({"nowMs": self.world.clock().now_ms()}))
                }
                None => ControlReply::bad("advanceMs must be a whole number"),
            },
            ("POST", ["judge"]) => self.judge(&ask.body),
            (_, [name, ..]) if self.knows(name) => {
                let name = ask.path.remove(0);
                self.ask_emulator(&name, &ask).await
            }
            _ => not_found("see GET / for what there is"),
        }
    }

    /// A kind of error that nobody would answer with is a mistake: it would test nothing.
    fn set_faults(&self, name: &str, body: &Value) -> ControlReply {
        let profile = match Profile::read(body) {
            Ok(profile) => profile,
            Err(error) => return ControlReply::bad(&error.to_string()),
        };
        let emulator = self.http.iter().find(|emulator| emulator.name() == name);
        let kinds = emulator.map(|emulator| emulator.fault_kinds()).unwrap_or_default();
        let is_known = |kind: &str| {
            kinds.is_empty()
                || kinds.contains(&kind)
                || kind.parse().is_ok_and(|status| (100..=599).contains(&status))
        };
        if let Some(kind) = profile.errors.keys().find(|kind| !is_known(kind)) {
            return ControlReply::bad(&format!(
                "errors.{kind} is none of: {}, or a status",
                kinds.join(", ")
            ));
        }
        self.world.faults().set(name, profile);
        ControlReply::ok(self.world.faults().profile(name).write())
    }

    fn knows(&self, name: &str) -> bool {
        self.names().contains(&name)
    }

    fn names(&self) -> Vec<&'static str> {
        let http = self.http.iter().map(|emulator| emulator.name());
        http.chain(self.raw.iter().map(|emulator| emulator.name())).collect()
    }

    async fn ask_emulator(&self, name: &str, ask: &ControlCall) -> ControlReply {
        let reply = match self.http.iter().find(|emulator| emulator.name() == name) {
            Some(emulator) => emulator.control(ask).await,
            None => match self.raw.iter().find(|emulator| emulator.name() == name) {
                Some(emulator) => emulator.control(ask).await,
                None => None,
            },
        };
        reply.unwrap_or_else(|| not_found("the emulator has no such path"))
    }

    fn messages(&self, ask: &ControlCall) -> ControlReply {
        let mut filter = Filter { limit: PAGE, ..Filter::default() };
        for (name, value) in &ask.query {
            let known = match name.as_str() {
                "channel" => {
                    filter.channel = Channel::ALL.into_iter().find(|channel| channel.name() == value);
                    filter.channel.is_some()
                }
                "emulator" => {
                    filter.emulator = Some(value.clone());
                    self.knows(value)
                }
                "recipient" => {
                    filter.recipient = Some(value.clone());
                    true
                }
                "order" => {
                    filter.is_newest_first = value == "newest";
                    filter.is_newest_first || value == "oldest"
                }
                "after" => value.parse().map(|after| filter.after = after).is_ok(),
                "limit" => value.parse().map(|limit: usize| filter.limit = limit.clamp(1, PAGE_MAX)).is_ok(),
                _ => false,
            };
            if !known {
                return ControlReply::bad(&format!("`{name}` is not known, or its value is not"));
            }
        }
        let messages = self.world.record().list(&filter);
        let has_next = !filter.is_newest_first && messages.len() == filter.limit;
        let next = has_next.then(|| messages[messages.len() - 1]["no"].clone());
        let counts = self.world.record().counts();
        ControlReply::ok(json!({
            "messages": messages,
            "next": next,
            "arrived": counts.arrived,
            "refused": counts.refused,
            "forgotten": counts.forgotten,
            "unrecorded": counts.unrecorded,
        }))
    }

    /// The list itself, or `{"sends": […]}`.
    fn judge(&self, body: &Value) -> ControlReply {
        let Some(listed) = body.as_array().or_else(|| body.get("sends").and_then(Value::as_array)) else {
            return ControlReply::bad("the body must be a list of sends");
        };
        let Some(sends) = listed.iter().map(Send::read).collect::<Option<Vec<Send>>>() else {
            return ControlReply::bad("every send is {\"id\": …, \"recipient\": …}, or an id");
        };
        let verdict = self.world.record().read(|rows, counts| judge::judge(rows, counts, &sends));
        ControlReply::ok(verdict.write())
    }

    fn help(&self) -> Value {
        let places = self.world.places().map(|places| {
            let own: Vec<Value> = places
                .own
                .iter()
                .map(|(name, address)| json!({"emulator": name, "address": address.to_string()}))
                .collect();
            json!({"shared": places.shared.to_string(), "control": places.control.to_string(), "own": own})
        });
        let hosts: Vec<Value> = self
            .http
            .iter()
            .map(|emulator| json!({"emulator": emulator.name(), "hosts": emulator.hosts()}))
            .collect();
        json!({
            "about": "the sandbox of Fantail: nothing leaves this machine",
            "emulators": self.names(),
            "hosts": hosts,
            "places": places,
            "paths": [
                "GET /messages?channel=&emulator=&recipient=&order=&after=&limit=", "GET /messages/{no}",
                "DELETE /messages", "GET /faults/{emulator}", "PUT /faults/{emulator}",
                "POST /goaway/{emulator}", "POST /clock {advanceMs}", "POST /judge [{id, recipient}]",
                "GET /ca.pem",
            ],
        })
    }
}

fn not_found(detail: &str) -> ControlReply {
    ControlReply::Problem(StatusCode::NOT_FOUND, detail.to_owned())
}
