//! A receiver of webhooks. Takes everything that is posted to it and shows it; what is posted to a path with a registered
//! secret has to be signed as Standard Webhooks describes, or is refused with 401.
//!
//! ```text
//! /status/503      is answered so, for every path that begins like that
//! PUT /webhook/secrets    {"path": "/orders", "secret": "whsec_… or whpk_…"}     null forgets it
//! ```

mod signature;

use crate::emulator::{Answer, Call, ControlCall, ControlReply, Emulator, Reply};
use crate::record::{Arrival, Channel, Contents, sha256};
use crate::world::World;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use signature::Key;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

pub const NAME: &str = "webhook";
const SECRETS_MAX: usize = 10_000;

pub struct Webhook {
    world: World,
    /// By path.
    secrets: Mutex<BTreeMap<String, Key>>,
}

/// A message as it came.
struct Hook {
    path: String,
    headers: HeaderMap,
    body: Bytes,
    /// `null` if nothing could be checked.
    is_signed: Option<bool>,
}

impl Contents for Hook {
    fn show(&self) -> Value {
        let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes));
        let headers: Map<String, Value> =
            self.headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect();
        let body = serde_json::from_slice(&self.body).unwrap_or_else(|_| text(&self.body));
        json!({"path": self.path, "headers": headers, "body": body, "verified": self.is_signed})
    }

    fn bytes(&self) -> usize {
        self.body.len() + 2_000
    }
}

impl Webhook {
    #[must_use]
    pub fn new(world: World) -> Self {
        Self { world, secrets: Mutex::default() }
    }

    fn take(&self, call: &Call) -> Reply {
        if call.method != "POST" {
            return Reply::new(StatusCode::METHOD_NOT_ALLOWED);
        }
        let is_signed = {
            let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
            secrets.get(&call.path).map(|key| key.verifies(&call.headers, &call.body, call.now_ms))
        };
        let wanted = call.path.strip_prefix("/status/").and_then(|rest| rest.split('/').next());
        let wanted = wanted
            .and_then(|status| status.parse().ok())
            .and_then(|status| StatusCode::from_u16(status).ok());
        let status = match (is_signed, wanted) {
            (Some(false), _) => StatusCode::UNAUTHORIZED,
            (_, Some(wanted)) => wanted,
            (Some(true) | None, None) => StatusCode::OK,
        };
        let refused = if status.is_success() { None } else { Some(status.as_str().to_owned()) };
        let ticket = self.world.arrived(Arrival {
            emulator: NAME,
            channel: Channel::Webhook,
            id: call.header("webhook-id").unwrap_or_default().to_owned(),
            recipient: call.path.clone(),
            sha256: sha256(&call.body),
            at_ms: call.now_ms,
            connection: call.connection.number,
            refused,
            contents: Box::new(Hook {
                path: call.path.clone(),
                headers: call.headers.clone(),
                body: call.body.clone(),
                is_signed,
            }),
        });
        Reply::new(status).arrival(ticket)
    }

    fn register(&self, body: &Value) -> ControlReply {
        let Some(path) = body["path"].as_str() else { return ControlReply::bad("path is missing") };
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        match &body["secret"] {
            Value::Null => {
                secrets.remove(path);
            }
            secret => {
                let Some(key) = secret.as_str().and_then(Key::parse) else {
                    return ControlReply::bad("the secret is not whsec_ or whpk_ and base64");
                };
                if secrets.len() >= SECRETS_MAX {
                    return ControlReply::bad("there are too many secrets");
                }
                secrets.insert(path.to_owned(), key);
            }
        }
        ControlReply::ok(json!({"path": path}))
    }
}

impl Emulator for Webhook {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hosts(&self) -> &'static [&'static str] {
        &["hooks.fantail.test"]
    }

    fn answer<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(self.take(call).into()))
    }

    fn fault(&self, kind: &str, _call: &Call, retry_after_ms: Option<u64>) -> Option<Reply> {
        if kind != "quota" {
            return None;
        }
        let seconds = retry_after_ms.unwrap_or_default().div_ceil(1_000);
        Some(Reply::new(StatusCode::TOO_MANY_REQUESTS).with("retry-after", &seconds.to_string()))
    }

    fn message_id(&self, call: &Call) -> Option<String> {
        call.header("webhook-id").map(str::to_owned)
    }

    fn control<'a>(&'a self, ask: &'a ControlCall) -> BoxFuture<'a, Option<ControlReply>> {
        let is_secrets = ask.method == "PUT" && ask.path == ["secrets"];
        Box::pin(std::future::ready(is_secrets.then(|| self.register(&ask.body))))
    }
}
