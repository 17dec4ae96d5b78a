//! Amazon SES, version 2 of the API: sending (simple, raw, bulk), the account's quota, the suppression list, and events through
//! the topics of SNS.
//!
//! Requests have to be signed by a key of the sandbox (`AKIDSANDBOX`, `sandbox-secret`, or one that was added). A recipient
//! `sandbox-NAME@…` makes SES answer with that error; the addresses of Amazon's own simulator do what they do there.

mod account;

mod send;

mod bulk;

mod template;

mod events;

mod errors;

use crate::emulator::{Answer, Call, ControlCall, ControlReply, Emulator, Reply};
use crate::sigv4::Keys;
use crate::sns::{Topics, rfc3339};
use crate::world::World;
use account::{Account, Suppressed};
use futures_util::future::BoxFuture;
use hyper::http::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub const NAME: &str = "ses";
const HOSTS: &[&str] = &["email.*.amazonaws.com"];
/// A mail of 40 MB, encoded and quoted.
const BODY_BYTES_MAX: usize = 60 << 20;

pub struct Ses {
    world: World,
    keys: Arc<Keys>,
    topics: Arc<Topics>,
    account: Mutex<Account>,
}

impl Ses {
    #[must_use]
    pub fn new(world: World, topics: Arc<Topics>, keys: Arc<Keys>) -> Self {
        Self { world, keys, topics, account: Mutex::new(Account::default()) }
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, call: &Call) -> Answer {
        if let Err(denied) = self.keys.check(call, NAME) {
            return errors::named(denied.code(), "the request was not signed by a key of the sandbox").into();
        }
        let path: Vec<&str> = call.path.trim_start_matches('/').split('/').collect();
        let Ok(body) = serde_json::from_slice::<Value>(if call.body.is_empty() { b"{}" } else { &call.body })
        else {
            return errors::named("BadRequestException", "the body is no JSON").into();
        };
        match (call.method.as_str(), &path[..]) {
            ("GET", ["v2", "email", "account"]) => self.account().show(call.now_ms).into(),
            ("POST", ["v2", "email", "outbound-emails"]) => self.send_one(call, &body),
            ("POST", ["v2", "email", "outbound-bulk-emails"]) => self.send_bulk(call, &body),
            (_, ["v2", "email", "suppression", "addresses", rest @ ..]) => {
                self.suppression(call, rest, &body).into()
            }
            _ => errors::named("NotFoundException", "the sandbox does not know this path").into(),
        }
    }

    /// `GetSuppressedDestination` and its neighbours.
    fn suppression(&self, call: &Call, rest: &[&str], body: &Value) -> Reply {
        let address =
            rest.first().map(|part| percent_decode_str(part).decode_utf8_lossy().to_ascii_lowercase());
        let show = |address: &str, one: &Suppressed| json!({"EmailAddress": address, "Reason": one.reason, "LastUpdateTime": one.at_ms as f64 / 1_000.0});
        let mut account = self.account();
        match (call.method.as_str(), address) {
            ("PUT", None) => {
                let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                let (address, reason) = (text("EmailAddress").to_ascii_lowercase(), text("Reason"));
                if !address.contains('@') || !matches!(reason.as_str(), "BOUNCE" | "COMPLAINT") {
                    return errors::named("BadRequestException", "an EmailAddress, and BOUNCE or COMPLAINT");
                }
                account.suppress(&address, &reason, call.now_ms);
                Reply::json(StatusCode::OK, &json!({}))
            }
            ("GET", None) => {
                let all: Vec<Value> =
                    account.suppressed.iter().map(|(address, one)| show(address, one)).collect();
                Reply::json(StatusCode::OK, &json!({"SuppressedDestinationSummaries": all}))
            }
            ("GET", Some(address)) => match account.suppressed.get(&address) {
                Some(one) => {
                    Reply::json(StatusCode::OK, &json!({"SuppressedDestination": show(&address, one)}))
                }
                None => errors::named("NotFoundException", "the address is not on the list"),
            },
            ("DELETE", Some(address)) => match account.suppressed.remove(&address) {
                Some(_) => Reply::json(StatusCode::OK, &json!({})),
                None => errors::named("NotFoundException", "the address is not on the list"),
            },
            _ => errors::named("NotFoundException", "the sandbox does not know this path"),
        }
    }

    /// `PUT /ses/keys/{id}`, `PUT /ses/account`, `PUT /ses/identities`, `PUT /ses/events`
    fn desk(&self, ask: &ControlCall) -> Option<ControlReply> {
        let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
        let text = |name: &str| ask.body.get(name).and_then(Value::as_str);
        match (ask.method.as_str(), &path[..]) {
            ("PUT", ["keys", id]) => {
                let Some(secret) = text("secret") else {
                    return Some(ControlReply::bad("a key has a secret"));
                };
                self.keys.add(id, secret);
            }
            ("PUT", ["account"]) => {
                if let Err(reason) = self.account().set(&ask.body) {
                    return Some(ControlReply::bad(reason));
                }
            }
            ("PUT", ["identities"]) => {
                let list = ask.body.get("verified").and_then(Value::as_array);
                let names = list
                    .map(|list| list.iter().filter_map(Value::as_str).map(str::to_ascii_lowercase).collect());
                self.account().verified = names;
            }
            ("PUT", ["events"]) => self.account().topic = text("topic").map(str::to_owned),
            _ => return None,
        }
        Some(ControlReply::ok(json!({})))
    }

    /// Tells the topic, if one was set.
    fn publish(&self, event: &Value) {
        let topic = self.account().topic.clone();
        if let Some(topic) = topic {
            self.topics.publish(&topic, &event.to_string(), Some("Amazon SES Email Event Notification"));
        }
    }

    fn time(&self) -> String {
        rfc3339(self.world.now_ms(NAME))
    }
}

impl Emulator for Ses {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hosts(&self) -> &'static [&'static str] {
        HOSTS
    }

    fn body_bytes_max(&self) -> usize {
        BODY_BYTES_MAX
    }

    fn answer<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(async move { self.handle(call) })
    }

    /// Kinds are the names of SES's own errors.
    fn fault(&self, kind: &str, _call: &Call, _retry_after_ms: Option<u64>) -> Option<Reply> {
        match kind {
            "quota" => Some(errors::named("TooManyRequestsException", "Maximum sending rate exceeded.")),
            _ => errors::known(kind).map(|kind| errors::named(kind, "a fault of the sandbox")),
        }
    }

    fn control<'a>(&'a self, ask: &'a ControlCall) -> BoxFuture<'a, Option<ControlReply>> {
        Box::pin(async move { self.desk(ask) })
    }
}
