//! A Web Push service and the browsers behind it (RFC 8030, 8291, 8292): it makes subscriptions, holds their private keys,
//! and opens what is sent to them.
//!
//! A message that does not open is answered like any other, because no push service could tell; but it is recorded as
//! refused, so that the judge misses it.

mod browser;

pub mod decrypt;

mod request;

mod vapid;

use crate::emulator::{Answer, Call, ControlCall, ControlReply, Emulator, Reply};
use crate::ids;
use crate::jwt;
use crate::record::{Arrival, Channel, Ticket, sha256};
use crate::world::World;
use browser::{Browsers, Subscription, Waiting, Wish};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::http::StatusCode;
use request::{Refusal, Terms};
use serde_json::{Value, json};
use vapid::{Strictness, VapidError};

pub const NAME: &str = "webpush";
const MOZILLA: &str = "updates.push.services.mozilla.com";
const APPLE: &str = "web.push.apple.com";
const HOSTS: &[&str] = &[MOZILLA, APPLE];
/// Fields of the text in which senders put what they repeat when they send again.
const ID_POINTERS: &[&str] = &["/reference", "/data/fantail.reference", "/id"];
/// An endpoint whose last part begins so has the outcome that follows, without a subscription.
const MAGIC: &str = "sandbox-";
const RETRY_AFTER_MS: u64 = 120_000;

/// Outcomes that a subscription, a magic endpoint or a fault profile can ask for.
pub const KINDS: &[&str] = &[
    "not-found",
    "gone",
    "too-large",
    "quota",
    "unauthorized",
    "forbidden",
    "bad-request",
    "internal",
    "bad-gateway",
    "unavailable",
];
const LOSSES: &[&str] = &["black-hole", "lose-connection", "lose-answer"];

pub struct WebPush {
    world: World,
    browsers: Browsers,
    takes_unknown: bool,
}

impl WebPush {
    /// `takes_unknown`: what goes to endpoints that were not made here is taken unopened.
    #[must_use]
    pub fn new(world: World, takes_unknown: bool) -> Self {
        Self { world, browsers: Browsers::default(), takes_unknown }
    }

    fn handle(&self, call: &Call) -> Answer {
        let id = call.path.rsplit('/').next().unwrap_or_default();
        if call.method != "POST" {
            return Reply::new(StatusCode::METHOD_NOT_ALLOWED).into();
        }
        let service = self.service(call);
        if let Some(kind) = magic(id) {
            return fault_answer(kind, service).unwrap_or(Answer::Silence);
        }
        let subscription = match self.browsers.find(id) {
            None if self.takes_unknown => return self.take_unknown(call).into(),
            None => return refused("not-found", service).into(),
            Some(None) => return refused("gone", service).into(),
            Some(Some(subscription)) => subscription,
        };
        let terms = match self.check(&subscription, call) {
            Ok(terms) => terms,
            Err(reply) => {
                let reason = reply.status.as_u16().to_string();
                let ticket = self.arrive(call, &subscription.endpoint, None, Some(reason), Value::Null);
                return reply.arrival(ticket).into();
            }
        };
        match subscription.outcome.as_deref() {
            None => {}
            Some("lose-connection") => {
                self.take(call, &subscription, &terms);
                return Answer::CloseConnection;
            }
            Some("lose-answer") => {
                self.take(call, &subscription, &terms);
                return Answer::Silence;
            }
            Some(kind) => return fault_answer(kind, service).unwrap_or(Answer::Silence),
        }
        let (message, ticket) = self.take(call, &subscription, &terms);
        Reply::new(StatusCode::CREATED)
            .with("location", &format!("{}/m/{message}", subscription.origin))
            .with("ttl", &terms.ttl_seconds.to_string())
            .arrival(ticket)
            .into()
    }

    /// Whose errors the caller expects: those of the subscription's service, or else of the host.
    fn service(&self, call: &Call) -> Strictness {
        let id = call.path.rsplit('/').next().unwrap_or_default();
        match self.browsers.find(id).flatten() {
            Some(subscription) => subscription.strictness,
            None if call.authority.split(':').next() == Some(APPLE) => Strictness::Apple,
            None => Strictness::Standard,
        }
    }

    fn check(&self, subscription: &Subscription, call: &Call) -> Result<Terms, Reply> {
        let terms = vapid::Terms {
            origin: &subscription.origin,
            bound_to: subscription.bound_to.as_deref(),
            strictness: subscription.strictness,
            now_ms: call.now_ms,
        };
        vapid::check(call.header("authorization"), &terms)
            .map_err(|error| denied(error, subscription.strictness))?;
        let service = subscription.strictness;
        request::check(&call.headers, &call.body).map_err(|refusal| malformed(refusal, service))
    }

    /// For a browser whose keys nobody here has: checked like any other, but sealed for ever.
    fn take_unknown(&self, call: &Call) -> Reply {
        let origin = format!("https://{}", call.authority);
        let strictness = Strictness::Standard;
        let wanted = vapid::Terms { origin: &origin, bound_to: None, strictness, now_ms: call.now_ms };
        if let Err(error) = vapid::check(call.header("authorization"), &wanted) {
            return denied(error, strictness);
        }
        let terms = match request::check(&call.headers, &call.body) {
            Ok(terms) => terms,
            Err(refusal) => return malformed(refusal, strictness),
        };
        let shown = json!({
            "sealed": true, "ttl": terms.ttl_seconds, "urgency": terms.urgency,
            "topic": terms.topic, "bytes": call.body.len(),
        });
        let ticket = self.arrive(call, &format!("{origin}{}", call.path), None, None, shown);
        Reply::new(StatusCode::CREATED)
            .with("location", &format!("{origin}/m/{}", ids::uuid()))
            .with("ttl", &terms.ttl_seconds.to_string())
            .arrival(ticket)
    }

    /// Opens the message, lets it wait for the browser, and records it.
    fn take(&self, call: &Call, subscription: &Subscription, terms: &Terms) -> (String, Ticket) {
        let message = ids::uuid();
        let text = if call.body.is_empty() { Ok(Vec::new()) } else { subscription.keys.open(&call.body) };
        let (text, failure) = match text {
            Ok(text) => (String::from_utf8_lossy(&text).into_owned(), None),
            Err(error) => (String::new(), Some(error.to_string())),
        };
        let payload: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        let id = ID_POINTERS.iter().find_map(|pointer| payload.pointer(pointer).and_then(Value::as_str));
        let id = id.map_or_else(|| message.clone(), str::to_owned);
        let shown = json!({
            "text": text, "payload": payload, "ttl": terms.ttl_seconds,
            "urgency": terms.urgency, "topic": terms.topic, "bytes": call.body.len(),
        });
        let ticket = self.arrive(call, &subscription.endpoint, Some(&id), failure.clone(), shown);
        if failure.is_none() && terms.ttl_seconds > 0 {
            subscription.wait(Waiting {
                message: message.clone(),
                topic: terms.topic.clone(),
                urgency: terms.urgency.clone(),
                expires_ms: call.now_ms + terms.ttl_seconds * 1_000,
                text,
            });
        }
        (message, ticket)
    }

    fn arrive(
        &self,
        call: &Call,
        endpoint: &str,
        id: Option<&str>,
        refused: Option<String>,
        shown: Value,
    ) -> Ticket {
        let content = shown["text"].as_str().map_or(call.body.clone(), |text| Bytes::from(text.to_owned()));
        self.world.arrived(Arrival {
            emulator: NAME,
            channel: Channel::Push,
            id: id.map_or_else(ids::uuid, str::to_owned),
            recipient: endpoint.to_owned(),
            // Of what was said: the same text is never encrypted to the same bytes.
            sha256: sha256(&content),
            at_ms: call.now_ms,
            connection: call.connection.number,
            refused,
            contents: Box::new(shown),
        })
    }

    /// `POST /webpush/subscriptions`, `GET|DELETE /webpush/subscriptions/{id}`
    fn desk(&self, ask: &ControlCall) -> Option<ControlReply> {
        let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
        match (ask.method.as_str(), &path[..]) {
            ("POST", ["subscriptions"]) => Some(match self.wish(&ask.body) {
                Ok(wish) => match self.browsers.subscribe(wish) {
                    Some(made) => ControlReply::Json(StatusCode::CREATED, made.write()),
                    None => ControlReply::bad("no more subscriptions can be made"),
                },
                Err(reason) => ControlReply::bad(reason),
            }),
            ("GET", ["subscriptions", id]) => {
                let subscription = self.browsers.find(id).flatten()?;
                let waiting: Vec<Value> = subscription
                    .waiting(self.world.now_ms(NAME))
                    .into_iter()
                    .map(|one| json!({"message": one.message, "topic": one.topic, "urgency": one.urgency, "text": one.text}))
                    .collect();
                let mut shown = subscription.write();
                shown["waiting"] = waiting.into();
                Some(ControlReply::ok(shown))
            }
            ("DELETE", ["subscriptions", id]) => {
                Some(ControlReply::ok(json!({"ended": self.browsers.end(id)})))
            }
            _ => None,
        }
    }

    /// `{"applicationServerKey": …, "service": "mozilla|apple", "local": true, "outcome": …}`
    fn wish(&self, body: &Value) -> Result<Wish<'static>, &'static str> {
        let text = |field: &str| body.get(field).and_then(Value::as_str);
        let (host, path, strictness) = match text("service").unwrap_or("mozilla") {
            "mozilla" => (MOZILLA, "/wpush/v2/", Strictness::Standard),
            "apple" => (APPLE, "/", Strictness::Apple),
            _ => return Err("service must be mozilla or apple"),
        };
        let bound_to = match text("applicationServerKey") {
            None => None,
            Some(key) => {
                Some(jwt::public_key(key).ok_or("applicationServerKey must be base64url of a point")?)
            }
        };
        let outcome = text("outcome").map(str::to_owned);
        if outcome.as_deref().is_some_and(|outcome| !KINDS.contains(&outcome) && !LOSSES.contains(&outcome)) {
            return Err("outcome is not known");
        }
        let own = self.world.places().and_then(|places| places.own.get(NAME).copied());
        let origin = match (body.get("local").and_then(Value::as_bool), own) {
            (Some(true), Some(own)) => format!("https://localhost:{}", own.port()),
            _ => format!("https://{host}"),
        };
        Ok(Wish { origin, path, bound_to, strictness, outcome })
    }
}

fn fault_answer(kind: &str, service: Strictness) -> Option<Answer> {
    match kind {
        "lose-connection" => Some(Answer::CloseConnection),
        _ => reply(kind, None, service).map(Answer::Reply),
    }
}

fn magic(id: &str) -> Option<&'static str> {
    let rest = id.strip_prefix(MAGIC)?;
    let named =
        |kind: &&&str| rest == **kind || rest.strip_prefix(**kind).is_some_and(|rest| rest.starts_with('-'));
    KINDS.iter().chain(LOSSES).find(named).copied()
}

/// What a service says of an error: Mozilla by the numbers of autopush, Apple by a reason.
struct Fault<'a> {
    status: StatusCode,
    errno: u16,
    reason: &'static str,
    message: &'a str,
}

fn fault<'a>(status: StatusCode, errno: u16, reason: &'static str, message: &'a str) -> Fault<'a> {
    Fault { status, errno, reason, message }
}

fn fault_of_kind(kind: &str) -> Option<Fault<'static>> {
    Some(match kind {
        "not-found" => fault(StatusCode::NOT_FOUND, 102, "BadDeviceToken", "there is no such subscription"),
        "gone" => fault(StatusCode::GONE, 106, "Unregistered", "the subscription ended"),
        "too-large" => {
            let message = "the body is longer than 4096 bytes";
            fault(StatusCode::PAYLOAD_TOO_LARGE, 104, "PayloadTooLarge", message)
        }
        "quota" => fault(StatusCode::TOO_MANY_REQUESTS, 114, "TooManyRequests", "too many messages"),
        "unauthorized" => {
            fault(StatusCode::UNAUTHORIZED, 109, "BadAuthorizationHeader", "the VAPID token is not valid")
        }
        "forbidden" => {
            let message = "the subscription belongs to another key";
            fault(StatusCode::FORBIDDEN, 109, "VapidPkHashMismatch", message)
        }
        "bad-request" => fault(StatusCode::BAD_REQUEST, 110, "BadWebPushRequest", "the request is not valid"),
        "internal" => {
            fault(StatusCode::INTERNAL_SERVER_ERROR, 999, "InternalServerError", "something went wrong")
        }
        "unavailable" => {
            fault(StatusCode::SERVICE_UNAVAILABLE, 202, "ServiceUnavailable", "come again later")
        }
        _ => return None,
    })
}

fn reply(kind: &str, retry_after_ms: Option<u64>, service: Strictness) -> Option<Reply> {
    if kind == "bad-gateway" {
        return Some(Reply::new(StatusCode::BAD_GATEWAY));
    }
    let reply = fault_of_kind(kind)?.reply(service);
    if !matches!(kind, "quota" | "unavailable") {
        return Some(reply);
    }
    let seconds = retry_after_ms.unwrap_or(RETRY_AFTER_MS).div_ceil(1_000).to_string();
    Some(reply.with("retry-after", &seconds))
}

impl Fault<'_> {
    fn reply(&self, service: Strictness) -> Reply {
        let Self { status, errno, reason, message } = *self;
        match service {
            Strictness::Apple => Reply::json(status, &json!({"reason": reason})),
            Strictness::Standard => {
                let (code, error) = (status.as_u16(), status.canonical_reason().unwrap_or_default());
                Reply::json(
                    status,
                    &json!({"code": code, "errno": errno, "error": error, "message": message}),
                )
            }
        }
    }
}

fn refused(kind: &str, service: Strictness) -> Reply {
    reply(kind, None, service).unwrap_or(Reply::new(StatusCode::INTERNAL_SERVER_ERROR))
}

fn malformed(Refusal { status, errno, message }: Refusal, service: Strictness) -> Reply {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    let reason = match errno {
        104 => "PayloadTooLarge",
        111 | 112 => "BadTtl",
        113 => "BadWebPushTopic",
        _ => "BadWebPushRequest",
    };
    fault(status, errno, reason, message).reply(service)
}

fn denied(error: VapidError, service: Strictness) -> Reply {
    let status = match (error, service) {
        (VapidError::OtherKey, _) => StatusCode::FORBIDDEN,
        (VapidError::Missing, _) | (_, Strictness::Standard) => StatusCode::UNAUTHORIZED,
        (_, Strictness::Apple) => StatusCode::FORBIDDEN,
    };
    let reason = if error == VapidError::OtherKey { "VapidPkHashMismatch" } else { "BadJwtToken" };
    fault(status, 109, reason, &error.to_string()).reply(service)
}

impl Emulator for WebPush {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hosts(&self) -> &'static [&'static str] {
        HOSTS
    }

    fn answer<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(async move { self.handle(call) })
    }

    fn fault(&self, kind: &str, call: &Call, retry_after_ms: Option<u64>) -> Option<Reply> {
        reply(kind, retry_after_ms, self.service(call))
    }

    fn fault_kinds(&self) -> Vec<&'static str> {
        KINDS.to_vec()
    }

    fn control<'a>(&'a self, ask: &'a ControlCall) -> BoxFuture<'a, Option<ControlReply>> {
        Box::pin(async move { self.desk(ask) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // fixes: interop small
    #[test]
    fn every_outcome_has_its_answer() {
        for (kind, status) in [
            ("not-found", 404),
            ("gone", 410),
            ("too-large", 413),
            ("quota", 429),
            ("unauthorized", 401),
            ("forbidden", 403),
            ("bad-request", 400),
            ("internal", 500),
            ("bad-gateway", 502),
            ("unavailable", 503),
        ] {
            for service in [Strictness::Standard, Strictness::Apple] {
                let reply = reply(kind, None, service).expect("an answer");
                assert_eq!(reply.status.as_u16(), status, "{kind}");
                let said: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
                let has = |field: &str| !said[field].is_null();
                let (number, reason) = (has("errno"), has("reason"));
                let is_apple = service == Strictness::Apple;
                assert!(kind == "bad-gateway" || (number, reason) == (!is_apple, is_apple), "{kind}: {said}");
            }
            assert_eq!(magic(&format!("sandbox-{kind}-5")), Some(kind));
        }
        assert_eq!(KINDS.len(), 10);
        assert_eq!(magic("sandbox-black-hole"), Some("black-hole"));
        assert_eq!(magic("gone"), None);
    }
}
