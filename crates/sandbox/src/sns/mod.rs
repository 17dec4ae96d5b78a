//! Amazon SNS, as far as events of mail need it: topics, HTTP subscriptions that have to be confirmed, and signed messages. The
//! API is the query API: forms in, XML out.

mod topics;

pub use topics::{Topics, rfc3339};

use crate::emulator::{Answer, Call, ControlCall, ControlReply, Emulator, Reply};
use crate::ids;
use crate::sigv4::Keys;
use futures_util::future::BoxFuture;
use hyper::http::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const NAME: &str = "sns";
const HOSTS: &[&str] = &["sns.*.amazonaws.com"];

pub struct Sns {
    topics: Arc<Topics>,
    keys: Arc<Keys>,
}

impl Sns {
    #[must_use]
    pub fn new(topics: Arc<Topics>, keys: Arc<Keys>) -> Self {
        Self { topics, keys }
    }

    fn handle(&self, call: &Call) -> Reply {
        if let Some(serial) = call.path.strip_prefix("/SimpleNotificationService-") {
            let pem = serial.strip_suffix(".pem").and_then(|serial| self.topics.certificate(serial));
            return match pem {
                Some(pem) => {
                    Reply::new(StatusCode::OK).with("content-type", "application/x-pem-file").body(pem)
                }
                None => Reply::new(StatusCode::NOT_FOUND),
            };
        }
        let mut form = pairs(&call.query);
        form.extend(pairs(&String::from_utf8_lossy(&call.body)));
        let field = |name: &str| form.get(name).map(String::as_str);
        let action = field("Action").unwrap_or_default();
        // What a subscriber visits is not signed; the token is what counts.
        if action != "ConfirmSubscription"
            && let Err(denied) = self.keys.check(call, NAME)
        {
            return error(
                StatusCode::FORBIDDEN,
                denied.code(),
                "the request was not signed by a key of the sandbox",
            );
        }
        let region =
            call.host.split('.').nth(1).filter(|_| call.host.starts_with("sns.")).unwrap_or("us-east-1");
        let done = match action {
            "CreateTopic" => {
                self.topics.create(region, field("Name").unwrap_or_default()).map(|arn| ("TopicArn", arn))
            }
            "Subscribe" => {
                let (topic, url) =
                    (field("TopicArn").unwrap_or_default(), field("Endpoint").unwrap_or_default());
                if !matches!(field("Protocol"), Some("http" | "https")) {
                    return error(
                        StatusCode::BAD_REQUEST,
                        "InvalidParameter",
                        "only http and https are spoken here",
                    );
                }
                self.topics
                    .subscribe(topic, url)
                    .map(|_| ("SubscriptionArn", "pending confirmation".to_owned()))
            }
            "ConfirmSubscription" => {
                let (topic, token) =
                    (field("TopicArn").unwrap_or_default(), field("Token").unwrap_or_default());
                self.topics.confirm(topic, token).map(|arn| ("SubscriptionArn", arn))
            }
            "Publish" => {
                let (topic, message) =
                    (field("TopicArn").unwrap_or_default(), field("Message").unwrap_or_default());
                self.topics.publish(topic, message, field("Subject")).map(|id| ("MessageId", id))
            }
            _ => {
                return error(
                    StatusCode::BAD_REQUEST,
                    "InvalidAction",
                    "the sandbox does not know this action",
                );
            }
        };
        match done {
            Some((name, value)) => result(action, name, &value),
            None => error(StatusCode::NOT_FOUND, "NotFound", "there is no such topic, name or token"),
        }
    }

    /// `GET /sns/topics`; `POST /sns/topics`, `/sns/subscriptions`, `/sns/messages`
    fn desk(&self, ask: &ControlCall) -> Option<ControlReply> {
        let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
        let text = |name: &str| ask.body.get(name).and_then(Value::as_str).unwrap_or_default();
        let done = match (ask.method.as_str(), &path[..]) {
            ("GET", ["topics"]) => return Some(ControlReply::ok(self.topics.list())),
            ("POST", ["topics"]) => self.topics.create(text("region"), text("name")),
            ("POST", ["subscriptions"]) => self.topics.subscribe(text("topic"), text("url")),
            ("POST", ["messages"]) => {
                let subject = ask.body.get("subject").and_then(Value::as_str);
                self.topics.publish(text("topic"), text("message"), subject)
            }
            _ => return None,
        };
        Some(match done {
            Some(id) => ControlReply::ok(json!({"id": id})),
            None => ControlReply::bad("there is no such topic, or its name is not allowed"),
        })
    }
}

fn pairs(form: &str) -> BTreeMap<String, String> {
    let read = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pair = |part: &str| part.split_once('=').map(|(name, value)| (read(name), read(value)));
    form.split('&').filter_map(pair).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn result(action: &str, name: &str, value: &str) -> Reply {
    let xml = format!(
        "<{action}Response xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><{action}Result><{name}>{}</{name}>\
         </{action}Result><ResponseMetadata><RequestId>{}</RequestId></ResponseMetadata></{action}Response>",
        escaped(value),
        ids::uuid()
    );
    Reply::new(StatusCode::OK).with("content-type", "text/xml").body(xml)
}

fn error(status: StatusCode, code: &str, message: &str) -> Reply {
    let xml = format!(
        "<ErrorResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><Error><Type>Sender</Type><Code>{code}</Code>\
         <Message>{}</Message></Error><RequestId>{}</RequestId></ErrorResponse>",
        escaped(message),
        ids::uuid()
    );
    Reply::new(status).with("content-type", "text/xml").body(xml)
}

impl Emulator for Sns {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hosts(&self) -> &'static [&'static str] {
        HOSTS
    }

    fn answer<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(async move { self.handle(call).into() })
    }

    fn fault(&self, kind: &str, _call: &Call, _retry_after_ms: Option<u64>) -> Option<Reply> {
        match kind {
            "quota" | "Throttled" => Some(error(StatusCode::TOO_MANY_REQUESTS, "Throttled", "slow down")),
            "InternalError" => Some(error(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "a fault")),
            _ => None,
        }
    }

    fn control<'a>(&'a self, ask: &'a ControlCall) -> BoxFuture<'a, Option<ControlReply>> {
        Box::pin(async move { self.desk(ask) })
    }
}
