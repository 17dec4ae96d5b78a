//! Firebase Cloud Messaging, HTTP v1, with Google's token endpoint beside it.
//!
//! A project has 600,000 messages a minute unless the fault profile says otherwise; its minute begins with its first
//! message, not with the clock's.

pub mod errors;

mod message;

mod oauth;

mod topics;

use crate::emulator::{Answer, Call, ControlCall, ControlReply, Emulator, Reply};
use crate::faults::Profile;
use crate::faults::profile::Quota;
use crate::ids;
use crate::jwt;
use crate::record::{Arrival, Channel, Contents, Ticket, hex, sha256};
use crate::world::World;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::http::StatusCode;
use message::{Refusal, Target};
use oauth::{Account, Denied, Oauth};
use serde_json::{Value, json};
use topics::{Ask, Topics};

pub const NAME: &str = "fcm";
const HOSTS: &[&str] = &["fcm.googleapis.com", "oauth2.googleapis.com", "iid.googleapis.com"];
/// A target that begins so has the outcome that follows: `sandbox-unregistered`, `sandbox-quota-7`.
pub const MAGIC: &str = "sandbox-";
/// Where senders put what they repeat when they send again.
const ID_KEYS: &[&str] = &["fantail.reference", "reference", "id"];
const QUOTA: Quota = Quota { count: 600_000, window_ms: 60_000 };

pub struct Fcm {
    world: World,
    oauth: Oauth,
    topics: Topics,
}

struct Push {
    project: String,
    body: Bytes,
}

impl Contents for Push {
    fn show(&self) -> Value {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        json!({"project": self.project, "payload": body["message"], "bytes": self.body.len()})
    }

    fn bytes(&self) -> usize {
        self.body.len() + 100
    }
}

/// What a magic target does besides refusing.
const LOSSES: &[&str] = &["black-hole", "lose-connection", "lose-answer"];

/// The outcome that a target asks for.
fn magic(target: &str) -> Option<&'static str> {
    let rest = target.strip_prefix(MAGIC)?;
    let named =
        |kind: &&&str| rest == **kind || rest.strip_prefix(**kind).is_some_and(|rest| rest.starts_with('-'));
    errors::KINDS.iter().chain(LOSSES).find(named).copied()
}

impl Fcm {
    #[must_use]
    pub fn new(world: World) -> Self {
        world.faults().set(NAME, Profile { quota: Some(QUOTA), ..Profile::default() });
        Self { world, oauth: Oauth::default(), topics: Topics::default() }
    }

    fn handle(&self, call: &Call) -> Answer {
        let parts: Vec<&str> = call.path.trim_start_matches('/').split('/').collect();
        match (call.method.as_str(), &parts[..]) {
            ("POST", ["token"]) => self.oauth.exchange(call).into(),
            ("POST", ["v1", "projects", project, "messages:send"]) => self.send(project, call),
            (
                "POST" | "DELETE" | "GET",
                ["v1", "projects", project, "registrations", registration, rest @ ..],
            ) => {
                if let Err(reply) = self.authorize(project, call) {
                    return reply.into();
                }
                self.subscription(project, registration, rest, call).into()
            }
            ("POST", ["iid", batch @ ("v1:batchAdd" | "v1:batchRemove")]) => {
                match self.oauth.project(call.header("authorization"), call.now_ms) {
                    Ok(project) => {
                        let project = project.unwrap_or_default();
                        self.topics.batch(&project, &call.body, *batch == "v1:batchAdd").into()
                    }
                    Err(_) => refused("unauthenticated").into(),
                }
            }
            _ => errors::not_found().into(),
        }
    }

    fn authorize(&self, project: &str, call: &Call) -> Result<(), Reply> {
        let kind = match self.oauth.authorize(call.header("authorization"), project, call.now_ms) {
            Ok(()) => return Ok(()),
            Err(Denied::Unauthenticated) => "unauthenticated",
            Err(Denied::OtherProject) => "permission-denied",
        };
        Err(refused(kind))
    }

    fn subscription(&self, project: &str, registration: &str, rest: &[&str], call: &Call) -> Reply {
        let ask = |topic| Ask { project, registration, topic, query: &call.query };
        if let Some(kind) = magic(registration) {
            return errors::reply(kind, None).unwrap_or_else(errors::not_found);
        }
        match (call.method.as_str(), rest) {
            ("POST", ["topicSubscriptions"]) => self.topics.subscribe(&ask(None)),
            ("DELETE", ["topicSubscriptions", topic]) => self.topics.unsubscribe(&ask(Some(topic))),
            ("GET", ["topicSubscriptions"]) => {
                let names = self.topics.list(project, registration);
                Reply::json(StatusCode::OK, &json!({"topicSubscriptions": names}))
            }
            _ => errors::not_found(),
        }
    }

    fn send(&self, project: &str, call: &Call) -> Answer {
        if let Err(reply) = self.authorize(project, call) {
            return reply.into();
        }
        let Ok(body) = serde_json::from_slice::<Value>(&call.body) else {
            return errors::violated("message", "the body is no JSON").into();
        };
        let target = match message::check(&body) {
            Ok(target) => target,
            Err(refusal) => {
                let reply = match refusal {
                    Refusal::Field(field, description) => errors::violated(field, description),
                    Refusal::TooBig => refused("too-big"),
                };
                return reply
                    .arrival(self.arrive(project, call, &body, None, Some("INVALID_ARGUMENT")))
                    .into();
            }
        };
        match magic(&target.value) {
            None => {}
            Some("black-hole") => return Answer::Silence,
            Some("lose-connection") => {
                self.arrive(project, call, &body, Some(&target), None);
                return Answer::CloseConnection;
            }
            Some("lose-answer") => {
                self.arrive(project, call, &body, Some(&target), None);
                return Answer::Silence;
            }
            Some(kind) => {
                let ticket = self.arrive(project, call, &body, Some(&target), Some(kind));
                return refused(kind).arrival(ticket).into();
            }
        }
        if body["validate_only"] == true {
            let name = format!("projects/{project}/messages/fake_message_id");
            return Reply::json(StatusCode::OK, &json!({"name": name})).into();
        }
        let name =
            format!("projects/{project}/messages/0:{}%{}", call.now_ms * 1_000, hex(&ids::bytes::<8>()));
        let ticket = self.arrive(project, call, &body, Some(&target), None);
        Reply::json(StatusCode::OK, &json!({"name": name})).arrival(ticket).into()
    }

    fn arrive(
        &self,
        project: &str,
        call: &Call,
        body: &Value,
        target: Option<&Target>,
        refused: Option<&str>,
    ) -> Ticket {
        let data = &body["message"]["data"];
        let id = ID_KEYS.iter().find_map(|key| data.get(*key).and_then(Value::as_str));
        self.world.arrived(Arrival {
            emulator: NAME,
            channel: Channel::Push,
            id: id.map_or_else(ids::uuid, str::to_owned),
            recipient: target.map(Target::recipient).unwrap_or_default(),
            sha256: sha256(&call.body),
            at_ms: call.now_ms,
            connection: call.connection.number,
            refused: refused.map(str::to_owned),
            contents: Box::new(Push { project: project.to_owned(), body: call.body.clone() }),
        })
    }

    /// `PUT /fcm/accounts/{email}`, `POST /fcm/revoke`
    fn desk(&self, ask: &ControlCall) -> Option<ControlReply> {
        let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
        let text = |field: &str| ask.body.get(field).and_then(Value::as_str);
        match (ask.method.as_str(), &path[..]) {
            ("PUT", ["accounts", email]) => {
                let public = text("publicKey").and_then(jwt::public_key);
                let (Some(project), Some(public)) = (text("project"), public) else {
                    return Some(ControlReply::bad("an account has a project and a publicKey (PEM)"));
                };
                Some(match self.oauth.register(email, Account { project: project.to_owned(), public }) {
                    true => ControlReply::ok(json!({"account": email})),
                    false => ControlReply::bad("no more accounts can be registered"),
                })
            }
            ("POST", ["revoke"]) => {
                self.oauth.revoke_tokens();
                Some(ControlReply::ok(json!({})))
            }
            _ => None,
        }
    }
}

fn refused(kind: &str) -> Reply {
    errors::reply(kind, None).unwrap_or_else(errors::not_found)
}

impl Emulator for Fcm {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hosts(&self) -> &'static [&'static str] {
        HOSTS
    }

    fn answer<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(async move { self.handle(call) })
    }

    fn fault(&self, kind: &str, _call: &Call, retry_after_ms: Option<u64>) -> Option<Reply> {
        errors::reply(kind, retry_after_ms)
    }

    fn fault_kinds(&self) -> Vec<&'static str> {
        errors::KINDS.to_vec()
    }

    /// Each project has its own; asking for access tokens uses none.
    fn quota_key(&self, call: &Call) -> Option<String> {
        let project = call.path.strip_prefix("/v1/projects/")?.strip_suffix("/messages:send")?;
        Some(project.to_owned())
    }

    fn control<'a>(&'a self, ask: &'a ControlCall) -> BoxFuture<'a, Option<ControlReply>> {
        Box::pin(async move { self.desk(ask) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_targets_name_their_outcome() {
        for (target, expected) in [
            ("sandbox-unregistered", Some("unregistered")),
            ("sandbox-quota-42", Some("quota")),
            ("sandbox-lose-answer", Some("lose-answer")),
            ("sandbox-unregisteredx", None),
            ("sandbox-", None),
            ("dGVzdA:APA91b", None),
        ] {
            assert_eq!(magic(target), expected, "{target}");
        }
    }
}
