//! Words for tests: events, users, pages, and waiting for what becomes visible after its 202.

use fantail_api::time;
use fantail_rules::ids::Millis;
use fantail_server::client::{Client, Request, Response};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Requests sent before something eventual counts as never.
const ATTEMPTS_MAX: usize = 20_000;

pub fn post_by(actor: &str, id: &str) -> Value {
    event(id, &json!({"followersOf": actor}))
}

pub fn event(id: &str, audience: &Value) -> Value {
    json!({
        "specversion": "1.0", "id": id, "source": "/test", "type": "post.created",
        "data": {"audience": audience, "category": "posts", "content": {"title": format!("Post {id}")}},
    })
}

/// Asserts the status and gives the body.
pub fn expect(response: std::io::Result<Response>, status: u16) -> Value {
    let response = response.expect("an answer");
    assert_eq!(response.status, status, "{}", response.text());
    response.json()
}

/// Asserts a problem document with this code.
pub fn refused(response: std::io::Result<Response>, code: &str) -> Value {
    let response = response.expect("an answer");
    let problem = response.json();
    assert_eq!(problem["code"], code, "{}", response.text());
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
    assert_eq!(problem["status"], response.status);
    assert_eq!(response.header("x-request-id"), problem["requestId"].as_str());
    assert!(problem["type"].as_str().is_some_and(|kind| kind.starts_with("/errors/")));
    problem
}

pub fn bare(client: &mut Client, method: &str, path: &str) -> std::io::Result<Response> {
    client.send(&Request { method, path, headers: &[], body: &[] })
}

pub fn put_user(client: &mut Client, user: &str) {
    let response = bare(client, "PUT", &format!("/api/v1/users/{user}")).expect("an answer");
    assert!(matches!(response.status, 200 | 201), "{}", response.text());
}

pub fn follow(client: &mut Client, user: &str, actor: &str) {
    expect(bare(client, "PUT", &format!("/api/v1/users/{user}/follows/{actor}")), 204);
}

/// Posts and gives the event's id.
pub fn post(client: &mut Client, event: &Value) -> String {
    let accepted = expect(client.post("/api/v1/events", event), 202);
    accepted["eventId"].as_str().expect("an id").to_owned()
}

pub fn inbox(client: &mut Client, user: &str, query: &str) -> Value {
    expect(client.get(&format!("/api/v1/users/{user}/notifications?{query}")), 200)
}

pub fn ids(page: &Value) -> Vec<String> {
    let notifications = page["notifications"].as_array().expect("a page");
    let id = |notification: &Value| notification["eventId"].as_str().expect("an id").to_owned();
    notifications.iter().map(id).collect()
}

/// Asks until `what` gives something. Another process cannot signal us, so after some eager attempts this lets go of
/// the processor in between, for the sake of the server.
pub fn eventually<T>(name: &str, mut what: impl FnMut() -> Option<T>) -> T {
    for attempt in 0..ATTEMPTS_MAX {
        if let Some(found) = what() {
            return found;
        }
        if attempt > 20 {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
    panic!("never happened: {name}")
}

/// Waits until the inbox holds exactly these, newest first.
pub fn eventually_has(client: &mut Client, user: &str, wanted: &[String]) {
    eventually(&format!("{user} has {} notifications", wanted.len()), || {
        (ids(&inbox(client, user, "state=all")) == wanted).then_some(())
    });
}

pub fn unread(client: &mut Client, user: &str) -> (u64, u64) {
    let counts = expect(client.get(&format!("/api/v1/users/{user}/unread")), 200);
    (counts["unread"].as_u64().expect("a number"), counts["unseen"].as_u64().expect("a number"))
}

/// The time so many milliseconds from now, as text.
pub fn in_ms(ahead: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    time::text(Millis(u64::try_from(now).expect("fits") + ahead))
}

/// A tenant and a key with these scopes.
pub fn tenant_with_key(admin: &mut Client, slug: &str, scopes: &[&str]) -> String {
    expect(admin.post("/api/v1/tenants", &json!({"slug": slug})), 201);
    key_of(admin, slug, scopes)
}

pub fn key_of(admin: &mut Client, slug: &str, scopes: &[&str]) -> String {
    let made = expect(admin.post(&format!("/api/v1/tenants/{slug}/keys"), &json!({"scopes": scopes})), 201);
    made["key"].as_str().expect("a key").to_owned()
}

pub const ALL_SCOPES: &[&str] = &[
    "events:write",
    "notifications:write",
    "send:critical",
    "notifications:read",
    "inbox:read",
    "inbox:write",
    "users:read",
    "users:write",
    "devices:write",
    "audit:read",
    "webhooks:write",
    "providers:write",
    "receipts:write",
    "templates:read",
    "templates:write",
    "categories:read",
    "categories:write",
    "admin",
];
