//! Apple's push service over HTTP/2: one stream until a provider token was good, then a thousand; every reason that Apple
//! documents; GOAWAY with a reason inside.
//!
//! A success is HEADERS alone, an error is one DATA frame: clients that parse every DATA frame as JSON rely on it.

mod broadcast;

pub mod credential;

pub mod reasons;

mod registry;

mod request;

use crate::emulator::{Answer, Call, ControlCall, ControlReply, Emulator, Reply, Streams};
use crate::ids;
use crate::jwt;
use crate::record::{Arrival, Channel, Contents, Ticket, sha256};
use crate::world::World;
use broadcast::{Channels, Outcome};
use bytes::Bytes;
use credential::{Credentials, Key};
use futures_util::future::BoxFuture;
use hyper::http::{HeaderMap, StatusCode};
use reasons::Magic;
use registry::{Device, Environment, Refusal, Registry};
use serde_json::{Map, Value, json};

pub const NAME: &str = "apns";
const HOSTS: &[&str] = &[
    "api.push.apple.com",
    "api.sandbox.push.apple.com",
    "api.development.push.apple.com",
    "api-manage-broadcast.push.apple.com",
    "api-manage-broadcast.sandbox.push.apple.com",
];

pub struct Apns {
    world: World,
    credentials: Credentials,
    registry: Registry,
    channels: Channels,
}

/// A push as it came.
struct Push {
    host: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Contents for Push {
    fn show(&self) -> Value {
        let shown = |name: &str| name.starts_with("apns-");
        let headers: Map<String, Value> = self
            .headers
            .iter()
            .filter(|(name, _)| shown(name.as_str()))
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into()))
            .collect();
        let payload: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        json!({"host": self.host, "headers": headers, "payload": payload, "bytes": self.body.len()})
    }

    fn bytes(&self) -> usize {
        self.body.len() + 1_000
    }
}

/// What a check comes to.
enum Verdict {
    Taken(Answer),
    Refused(Reply),
    Unanswered,
}

impl Apns {
    #[must_use]
    pub fn new(world: World) -> Self {
        Self {
            world,
            credentials: Credentials::default(),
            registry: Registry::default(),
            channels: Channels::default(),
        }
    }

    fn handle(&self, call: &Call) -> Answer {
        let id = call.header("apns-id").filter(|id| ids::is_uuid(id)).map_or_else(ids::uuid, str::to_owned);
        if let Some(path) = broadcast::Path::read(&call.path) {
            return self.broadcast(path, call);
        }
        let verdict = match self.check(call, &id) {
            Ok(verdict) => verdict,
            Err(reason) => Verdict::Refused(refused(reason)),
        };
        match verdict {
            Verdict::Unanswered => Answer::Silence,
            Verdict::Taken(answer) => answer,
            Verdict::Refused(reply) => {
                let reason = serde_json::from_slice::<Value>(&reply.body).unwrap_or_default();
                let reason = reason["reason"].as_str().unwrap_or_default();
                let token = call.path.rsplit('/').next().unwrap_or_default();
                let ticket = self.arrive(call, &id, token, Some(reason));
                reply.with("apns-id", &id).arrival(ticket).into()
            }
        }
    }

    fn check(&self, call: &Call, id: &str) -> Result<Verdict, &'static str> {
        let token = request::device(call.method.as_str(), &call.path)?;
        let shown =
            self.credentials.check(call.connection.number, call.header("authorization"), call.now_ms)?;
        call.connection.prove();
        let topic = request::headers(&call.headers)?;
        let is_allowed = |allowed: &String| topic == allowed || topic.starts_with(&format!("{allowed}."));
        if !shown.topics.is_empty() && !shown.topics.iter().any(is_allowed) {
            return Err("TopicDisallowed");
        }
        request::payload(&call.headers, &call.body)?;
        if !request::is_device_token(token) {
            return Err("BadDeviceToken");
        }
        match reasons::magic(token) {
            None => {}
            Some(Magic::Reason(reason)) => return Err(reason),
            Some(Magic::DeadNow) => return Ok(Verdict::Refused(reasons::gone("Unregistered", call.now_ms))),
            Some(Magic::ExpiredNow) => {
                return Ok(Verdict::Refused(reasons::gone("ExpiredToken", call.now_ms)));
            }
            Some(Magic::DeadLongAgo) => {
                return Ok(Verdict::Refused(reasons::gone("Unregistered", reasons::LONG_AGO_MS)));
            }
            Some(Magic::BlackHole) => return Ok(Verdict::Unanswered),
            Some(Magic::LoseConnection) => {
                self.arrive(call, id, token, None);
                return Ok(Verdict::Taken(Answer::CloseConnection));
            }
            Some(Magic::LoseAnswer) => {
                self.arrive(call, id, token, None);
                return Ok(Verdict::Taken(Answer::Silence));
            }
        }
        let environment = Environment::of_host(&call.host);
        match self.registry.check(token, topic, environment) {
            Err(Refusal::Reason(reason)) => return Err(reason),
            Err(Refusal::Gone { reason, since_ms }) => {
                let since_ms = if since_ms == 0 { call.now_ms } else { since_ms };
                return Ok(Verdict::Refused(reasons::gone(reason, since_ms)));
            }
            Ok(()) => {}
        }
        let mut reply = Reply::new(StatusCode::OK).with("apns-id", id);
        if environment == Some(Environment::Sandbox) {
            reply = reply.with("apns-unique-id", &ids::uuid());
        }
        let ticket = self.arrive(call, id, token, None);
        Ok(Verdict::Taken(reply.arrival(ticket).into()))
    }

    fn broadcast(&self, path: broadcast::Path<'_>, call: &Call) -> Answer {
        let request = call.header("apns-request-id").filter(|id| ids::is_uuid(id));
        let request = request.map_or_else(ids::uuid, str::to_owned);
        let authorization = call.header("authorization");
        let checked = self.credentials.check(call.connection.number, authorization, call.now_ms);
        if let Err(reason) = checked {
            return refused(reason).with("apns-request-id", &request).into();
        }
        call.connection.prove();
        match self.channels.answer(path, call) {
            Outcome::Answer(reply) => reply.with("apns-request-id", &request).into(),
            Outcome::Taken { channel } => {
                let ticket = self.arrive(call, &request, &channel, None);
                Reply::new(StatusCode::OK).with("apns-request-id", &request).arrival(ticket).into()
            }
        }
    }

    fn arrive(&self, call: &Call, id: &str, recipient: &str, reason: Option<&str>) -> Ticket {
        self.world.arrived(Arrival {
            emulator: NAME,
            channel: Channel::Push,
            id: id.to_owned(),
            recipient: recipient.to_owned(),
            sha256: sha256(&call.body),
            at_ms: call.now_ms,
            connection: call.connection.number,
            refused: reason.map(str::to_owned),
            contents: Box::new(Push {
                host: call.host.clone(),
                headers: call.headers.clone(),
                body: call.body.clone(),
            }),
        })
    }

    /// `PUT|DELETE /apns/keys/{kid}`, `PUT|DELETE /apns/tokens/{token}`, `PUT /apns/strict`
    fn desk(&self, ask: &ControlCall) -> Option<ControlReply> {
        let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
        let text = |field: &str| ask.body.get(field).and_then(Value::as_str);
        let reply = match (ask.method.as_str(), &path[..]) {
            ("PUT", ["keys", kid]) => {
                let (Some(team), Some(public)) = (text("team"), text("publicKey").and_then(jwt::public_key))
                else {
                    return Some(ControlReply::bad(
                        "a key has a team and a publicKey (PEM, or base64url of the point)",
                    ));
                };
                let topics = ask.body.get("topics").and_then(Value::as_array).into_iter().flatten();
                let topics = topics.filter_map(Value::as_str).map(str::to_owned).collect();
                match self.credentials.keys.register(kid, Key { team: team.to_owned(), public, topics }) {
                    true => ControlReply::ok(json!({"kid": kid})),
                    false => ControlReply::bad("no more keys can be registered"),
                }
            }
            ("DELETE", ["keys", kid]) => {
                ControlReply::ok(json!({"revoked": self.credentials.keys.revoke(kid)}))
            }
            ("PUT", ["tokens", token]) => match Device::read(&ask.body, ask.now_ms) {
                Ok(device) if self.registry.register(token, device.clone()) => {
                    ControlReply::ok(json!({"token": token}))
                }
                Ok(_) => ControlReply::bad("no more tokens can be registered"),
                Err(reason) => ControlReply::bad(reason),
            },
            ("DELETE", ["tokens", token]) => ControlReply::ok(json!({"known": self.registry.forget(token)})),
            ("PUT", ["strict"]) => {
                let is_strict = ask.body.get("strict").and_then(Value::as_bool).unwrap_or(true);
                self.registry.set_strict(is_strict);
                ControlReply::ok(json!({"strict": is_strict}))
            }
            _ => return None,
        };
        Some(reply)
    }
}

fn refused(reason: &str) -> Reply {
    reasons::reply(reason).unwrap_or(Reply::new(StatusCode::INTERNAL_SERVER_ERROR))
}

impl Emulator for Apns {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hosts(&self) -> &'static [&'static str] {
        HOSTS
    }

    fn streams(&self) -> Streams {
        Streams { first: 1, proven: 1_000 }
    }

    /// Apple speaks HTTP/2 only.
    fn answer<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            if call.is_http2 {
                self.handle(call)
            } else {
                Reply::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED).into()
            }
        })
    }

    fn fault_kinds(&self) -> Vec<&'static str> {
        reasons::REASONS.iter().map(|(reason, _)| *reason).chain(["quota"]).collect()
    }

    fn fault(&self, kind: &str, call: &Call, _retry_after_ms: Option<u64>) -> Option<Reply> {
        let kind = if kind == "quota" { "TooManyRequests" } else { kind };
        let id = call.header("apns-id").map_or_else(ids::uuid, str::to_owned);
        let reply = match kind {
            "Unregistered" | "ExpiredToken" => reasons::gone(kind, call.now_ms),
            _ => reasons::reply(kind)?,
        };
        Some(reply.with("apns-id", &id))
    }

    fn message_id(&self, call: &Call) -> Option<String> {
        call.header("apns-id").map(str::to_owned)
    }

    /// Apple's limit is one per device.
    fn quota_key(&self, call: &Call) -> Option<String> {
        Some(call.path.clone())
    }

    fn go_away_reason(&self, now_ms: u64) -> Bytes {
        json!({"reason": "Shutdown", "timestamp": now_ms}).to_string().into()
    }

    fn closed(&self, connection: u64) {
        self.credentials.forget(connection);
    }

    fn control<'a>(&'a self, ask: &'a ControlCall) -> BoxFuture<'a, Option<ControlReply>> {
        Box::pin(async move { self.desk(ask) })
    }
}
