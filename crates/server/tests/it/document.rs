//! The OpenAPI document against the server that serves it: every example of a request is accepted, and what goes one beyond a
//! bound of a schema is refused.

use crate::server::Server;
use crate::world::{ALL_SCOPES, eventually, expect, inbox, key_of};
use fantail_server::client::{Client, Request, Response};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What others need, in this order. Webhooks and accounts go before anything is sent: nothing leaves this machine.
const FIRST: &[&str] = &[
    "createWebhook",
    "rotateWebhook",
    "replayWebhook",
    "putProvider",
    "putUser",
    "putUsers",
    "patchUser",
    "registerDevice",
    "putTemplate",
    "putSegment",
    "putSegmentMembers",
    "sendNotification",
    "createBulk",
    "putSchedule",
    "makePreferenceLink",
];
/// What takes something away that others need.
const LAST: &[&str] = &["changeTenant", "eraseUser"];
/// What changes something that there must be.
const NEED_A_CONDITION: &[&str] = &["activateTemplate", "switchTemplate"];
const FORM: &str = "application/x-www-form-urlencoded";
const BOUNDARY: &str = "fields";

/// A server, and the names of what its examples are about.
struct Described {
    server: Server,
    document: Value,
    params: BTreeMap<&'static str, String>,
}

/// An example with where it goes.
struct Sample<'a> {
    id: &'a str,
    method: String,
    path: String,
    media: &'a str,
    schema: &'a Value,
    body: &'a Value,
}

impl Described {
    fn start() -> Self {
        let server = Server::start();
        let document = expect(server.anonymous().get("/openapi.json"), 200);
        let names = [
            ("user", "ann"),
            ("actor", "ann"),
            ("topic", "gardens"),
            ("device", "bobs-phone"),
            ("notification", "order-42-shipped"),
            ("bulk", "spring-sale"),
            ("template", "order-shipped"),
            ("segment", "vips"),
            ("schedule", "morning"),
            ("category", "likes"),
            ("provider", "mail"),
            ("channel", "email"),
            ("address", "zoe@example.com"),
            ("slug", "default"),
        ];
        let params = names.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        let this = Self { server, document, params };
        for user in ["ann", "bob"] {
            let path = format!("/api/v1/users/{user}");
            let made = this.keyed().send(&Request { method: "PUT", path: &path, headers: &[], body: &[] });
            assert_eq!(made.expect("an answer").status, 201);
        }
        this
    }

    /// With every scope.
    fn keyed(&self) -> Client {
        self.server.client()
    }

    fn samples(&self) -> Vec<Sample<'_>> {
        let mut samples = Vec::new();
        for (path, methods) in self.document["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("operations") {
                for (media, content) in operation["requestBody"]["content"].as_object().into_iter().flatten()
                {
                    samples.push(Sample {
                        id: operation["operationId"].as_str().expect("an id"),
                        method: method.to_ascii_uppercase(),
                        path: path.clone(),
                        media,
                        schema: &content["schema"],
                        body: &content["example"],
                    });
                }
            }
        }
        samples.sort_by_key(|sample| {
            let first = FIRST.iter().position(|id| *id == sample.id);
            let last = LAST.iter().position(|id| *id == sample.id);
            (last.map_or(0, |place| place + 1), first.unwrap_or(FIRST.len()))
        });
        samples
    }

    fn path_of(&self, sample: &Sample<'_>) -> String {
        let mut path = sample.path.clone();
        for (name, value) in &self.params {
            path = path.replace(&format!("{{{name}}}"), value);
        }
        assert!(!path.contains('{'), "{path}: a parameter has no value");
        path
    }

    fn send(&self, sample: &Sample<'_>, body: &[u8]) -> Response {
        let path = self.path_of(sample);
        let media = match sample.media {
            "multipart/form-data" => format!("multipart/form-data; boundary={BOUNDARY}"),
            media => media.to_owned(),
        };
        let mut headers = vec![("content-type", media.as_str())];
        // What exists is replaced whatever its version is.
        let is_there = || self.keyed().get(&path).is_ok_and(|found| found.status == 200);
        if NEED_A_CONDITION.contains(&sample.id) || (sample.method == "PUT" && is_there()) {
            headers.push(("if-match", "*"));
        }
        let operation = &self.document["paths"][&sample.path][sample.method.to_ascii_lowercase()];
        let mut client = match operation["security"][0]["key"][0].as_str() {
            None => self.server.anonymous(),
            Some("admin" | "server admin") => self.server.admin(),
            Some(_) => self.keyed(),
        };
        client
            .send(&Request { method: &sample.method, path: &path, headers: &headers, body })
            .unwrap_or_else(|error| panic!("{}: {error}", sample.id))
    }

    /// Remembers what later samples name.
    fn learn(&mut self, id: &str, answer: &Value) {
        match id {
            "createWebhook" => {
                let webhook = answer["webhook"]["webhookId"].as_str().expect("an id");
                self.params.insert("webhook", webhook.to_owned());
            }
            "makePreferenceLink" => {
                let url = answer["url"].as_str().expect("a link");
                let token = url.rsplit('/').next().expect("a token");
                self.params.insert("token", token.to_owned());
            }
            // Nothing leaves this machine.
            "replayWebhook" => self.delete(&format!("/api/v1/webhooks/{}", self.params["webhook"])),
            "putProvider" => self.delete("/api/v1/providers/mail"),
            "sendNotification" => eventually("the notification is in the inbox", || {
                let page = inbox(&mut self.keyed(), "ann", "");
                let shown = page["notifications"].as_array().expect("a page");
                shown.iter().any(|one| one["notificationId"] == "order-42-shipped").then_some(())
            }),
            _ => {}
        }
    }

    fn delete(&self, path: &str) {
        let headers = [("if-match", "*")];
        let gone = self.keyed().send(&Request { method: "DELETE", path, headers: &headers, body: &[] });
        assert_eq!(gone.expect("an answer").status, 204, "{path}");
    }
}

/// An example as it goes over the wire.
fn encoded(sample: &Sample<'_>) -> Vec<u8> {
    match (sample.media, sample.body) {
        (FORM, Value::Object(fields)) => {
            let field =
                |(name, value): (&String, &Value)| format!("{name}={}", value.as_str().expect("a text"));
            fields.iter().map(field).collect::<Vec<_>>().join("&").into_bytes()
        }
        ("multipart/form-data", Value::Object(fields)) => {
            let part = |(name, value): (&String, &Value)| {
                let value = value.as_str().expect("a text");
                format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
            };
            let parts: String = fields.iter().map(part).collect();
            format!("{parts}--{BOUNDARY}--\r\n").into_bytes()
        }
        ("application/x-ndjson" | "text/csv", Value::String(lines)) => lines.clone().into_bytes(),
        (_, body) => body.to_string().into_bytes(),
    }
}

// proves: API-04
// fixes: usability B4
#[test]
fn every_example_of_a_request_is_accepted() {
    let mut described = Described::start();
    let (mut sent, mut failed) = (BTreeSet::new(), Vec::new());
    let document = described.document.clone();
    let ids: Vec<(String, String)> =
        described.samples().iter().map(|one| (one.id.to_owned(), one.media.to_owned())).collect();
    for (id, media) in ids {
        let answer = {
            let samples = described.samples();
            let sample = samples.iter().find(|one| one.id == id && one.media == media).expect("the sample");
            assert!(!sample.body.is_null(), "{id} has an example of {media}");
            described.send(sample, &encoded(sample))
        };
        if answer.status >= 400 {
            failed.push(format!("{id} {media}: {} {}", answer.status, answer.text()));
        } else {
            described.learn(&id, &answer.json());
        }
        sent.insert(id);
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let takes_a_body = |operation: &&Value| !operation["requestBody"].is_null();
    let operations = document["paths"].as_object().expect("paths").values();
    let operations = operations.flat_map(|path| path.as_object().expect("operations").values());
    assert_eq!(sent.len(), operations.filter(takes_a_body).count());
}

/// One place of a body that is one beyond what its schema says.
struct Beyond {
    pointer: String,
    body: Value,
}

/// Every bound of a schema, exceeded one at a time in an example.
fn beyond(document: &Value, schema: &Value, example: &Value) -> Vec<Beyond> {
    let mut found = Vec::new();
    explore(document, schema, example, "", &mut |pointer, value| {
        let mut body = example.clone();
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        match body.pointer_mut(parent) {
            Some(Value::Object(fields)) => drop(fields.insert(name.to_owned(), value)),
            Some(Value::Array(items)) => items[name.parse::<usize>().expect("a place")] = value,
            _ => return,
        }
        found.push(Beyond { pointer, body });
    });
    found
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(path) => document.pointer(&path[1..]).expect("it leads somewhere"),
        None => schema,
    }
}

/// Fields that exclude each other: beside one of them another is refused for being there.
fn choices(schema: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    for keyword in ["if", "then", "else", "not"] {
        let branch = &schema[keyword];
        if !branch.is_object() {
            continue;
        }
        found.extend(branch["required"].as_array().into_iter().flatten().filter_map(Value::as_str));
        let properties = branch["properties"].as_object().into_iter().flatten();
        found.extend(properties.filter(|(_, said)| said["type"] == "null").map(|(name, _)| name.as_str()));
        found.extend(choices(branch));
        for one in branch["anyOf"].as_array().into_iter().flatten() {
            found.extend(one["required"].as_array().into_iter().flatten().filter_map(Value::as_str));
        }
    }
    found
}

fn explore(document: &Value, schema: &Value, value: &Value, at: &str, add: &mut dyn FnMut(String, Value)) {
    let schema = resolved(document, schema);
    // An optional object is an alternative to nothing.
    let alternatives = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| schema[keyword].as_array());
    alternatives.flatten().for_each(|one| explore(document, one, value, at, add));
    let chosen = choices(schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}/{name}");
        let rules = resolved(document, property);
        let own = value.get(name);
        if own.is_none() && chosen.contains(&name.as_str()) {
            continue;
        }
        if let Some(most) = rules["maxLength"].as_u64() {
            add(at.clone(), json!("a".repeat(usize::try_from(most).expect("it fits") + 1)));
        }
        if let Some(most) = rules["maximum"].as_u64().filter(|most| *most < u64::MAX) {
            add(at.clone(), json!(most + 1));
        }
        if let Some(least) = rules["minimum"].as_u64().filter(|least| *least > 0) {
            add(at.clone(), json!(least - 1));
        }
        if let (Some(most), Some(first)) = (rules["maxItems"].as_u64(), own.and_then(|list| list.get(0))) {
            let count = usize::try_from(most).expect("it fits") + 1;
            add(at.clone(), Value::Array(vec![first.clone(); count]));
        }
        if rules["minItems"].as_u64().is_some_and(|least| least > 0) {
            add(at.clone(), json!([]));
        }
        if let Some(own) = own {
            explore(document, rules, own, &at, add);
            if let Some(first) = own.get(0) {
                explore(document, &rules["items"], first, &format!("{at}/0"), add);
            }
        }
    }
}

// fixes: usability §2.4
#[test]
fn one_beyond_a_bound_is_refused_and_named() {
    let mut described = Described::start();
    let document = described.document.clone();
    let ids: Vec<String> = described.samples().iter().map(|one| one.id.to_owned()).collect();
    let mut done = BTreeSet::new();
    let (mut tried, mut failed) = (0, Vec::new());
    for id in ids {
        let is_json = |one: &&Sample<'_>| one.id == id && one.media == "application/json";
        if !done.insert(id.clone()) {
            continue;
        }
        let answer = {
            let samples = described.samples();
            let Some(sample) = samples.iter().find(is_json) else { continue };
            for Beyond { pointer, body } in beyond(&document, sample.schema, sample.body) {
                let answer = described.send(sample, body.to_string().as_bytes());
                let problem = answer.json();
                let names = |error: &Value| {
                    let named = error["pointer"].as_str().unwrap_or_default();
                    !named.is_empty() && (pointer.starts_with(named) || named.starts_with(&pointer))
                };
                let is_named = problem["errors"].as_array().is_some_and(|errors| errors.iter().any(names));
                if answer.status != 422 || !is_named {
                    failed.push(format!("{id} {pointer}: {} {}", answer.status, answer.text()));
                }
                tried += 1;
            }
            described.send(sample, &encoded(sample))
        };
        if answer.status < 400 {
            described.learn(&id, &answer.json());
        }
    }
    assert!(failed.is_empty(), "{} of {tried}:\n{}", failed.len(), failed.join("\n"));
    assert!(tried > 150, "{tried} bounds");
}

// fixes: security H1, usability A1
#[test]
fn a_key_that_only_registers_devices_speaks_for_nobody() {
    let server = Server::start();
    let mut client = server.client();
    expect(client.json("PUT", "/api/v1/users/bob", &json!({})), 201);
    let mut admin = server.admin();
    let app = key_of(&mut admin, "default", &["devices:write"]);
    let both = key_of(&mut admin, "default", &["devices:write", "users:write"]);
    let (mut app, mut both) = (server.with_key(&app), server.with_key(&both));
    let phone = |more: Value| {
        let mut body =
            json!({"userId": "bob", "deviceId": "phone", "platform": "android", "token": "stub:ok/bob"});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let consent = json!({"consent": {"granted": true, "version": "1"}});
    let webhook = json!({"userId": "bob", "deviceId": "hook", "kind": "webhook", "url": "https://hooks.test/bob",
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"});
    for (body, what) in [(phone(consent.clone()), "a consent"), (webhook.clone(), "a webhook")] {
        let refused = crate::world::refused(app.post("/api/v1/devices", &body), "FORBIDDEN");
        let detail = refused["detail"].as_str().expect("a detail");
        assert!(detail.contains(what) && detail.contains("users:write"), "{detail}");
    }
    let known = expect(client.get("/api/v1/devices?userId=bob"), 200);
    assert_eq!(known["devices"], json!([]), "nothing was registered");
    expect(app.post("/api/v1/devices", &phone(json!({}))), 201);
    let gone =
        app.send(&Request { method: "DELETE", path: "/api/v1/devices/bob/phone", headers: &[], body: &[] });
    assert_eq!(gone.expect("an answer").status, 204, "what it registers it may unregister");
    expect(both.post("/api/v1/devices", &phone(consent)), 201);
    assert!(ALL_SCOPES.contains(&"devices:write") && ALL_SCOPES.contains(&"users:write"));
}
