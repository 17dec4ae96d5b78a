//! What producers may ask for, and how fast.

use crate::server::Server;
use crate::world::{event, expect, key_of, put_user, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};

const SENDER: &[&str] = &["events:write", "notifications:write", "users:write"];

fn notification(id: &str, users: &[&str]) -> Value {
    let recipients: Vec<Value> = users.iter().map(|user| json!({"userId": user})).collect();
    json!({"notificationId": id, "content": {"title": "Hello"}, "recipients": recipients})
}

/// A refusal that says when to come back.
fn too_fast(client: &mut Client, path: &str, body: &Value) -> u64 {
    let response = client.post(path, body).expect("an answer");
    let wait = response.header("retry-after").and_then(|text| text.parse().ok()).expect("when to come back");
    refused(Ok(response), "RATE_LIMITED");
    wait
}

// proves: RL-05, API-03
#[test]
fn a_tenant_has_a_rate_that_its_own_keys_cannot_change() {
    let server = Server::start();
    let (mut admin, mut own) = (server.admin(), server.client());
    ["ann", "bob", "cleo"].iter().for_each(|user| put_user(&mut own, user));
    let tenant = "/api/v1/tenants/default";
    let limit = json!({"rateLimit": {"perSecond": 1, "burst": 4}});
    refused(own.json("PATCH", tenant, &limit), "FORBIDDEN");
    let changed = expect(admin.json("PATCH", tenant, &limit), 200);
    assert_eq!(changed["rateLimit"], limit["rateLimit"]);
    let path = "/api/v1/notifications";
    // Far more than the burst: let in once, then an hour has to pass.
    let many: Vec<Value> =
        (0..100).map(|no| event(&format!("e{no}"), &json!({"users": ["ann", "bob", "cleo"]}))).collect();
    expect(own.post("/api/v1/events", &json!(many)), 202);
    let wait = too_fast(&mut own, path, &notification("n", &["ann"]));
    assert!(wait > 1, "the debt has to be paid: {wait} s");
    too_fast(&mut own, "/api/v1/events", &event("one", &json!({"followersOf": "ann"})));
    too_fast(&mut own, "/api/v1/events", &json!([event("two", &json!({"topic": "t"}))]));
    put_user(&mut own, "dan");
    let metrics = server.anonymous().get("/metrics").expect("an answer").text();
    assert!(metrics.contains("fantail_producer_limited_total{tenant=\"default\"} 3"), "{metrics}");
    expect(admin.json("PATCH", tenant, &json!({"rateLimit": {"perSecond": 0}})), 200);
    expect(own.post(path, &notification("n", &["ann"])), 202);
}

// fixes: security M8
#[test]
fn imports_are_charged_and_hold_up_no_sends() {
    let server = Server::start_with(
        &[],
        &[("FANTAIL_PRODUCER_TENANT_PER_SECOND", "1"), ("FANTAIL_PRODUCER_TENANT_BURST", "2")],
    );
    let mut own = server.client();
    let users: Vec<Value> = (0..1_000).map(|no| json!({"userId": format!("u{no}")})).collect();
    expect(own.post("/api/v1/users/batch", &json!({"users": users})), 200);
    assert!(too_fast(&mut own, "/api/v1/users/batch", &json!({"users": users})) > 1, "a debt of 100 seconds");
    let follows = json!({"follows": [{"user": "u1", "actor": "u2"}]});
    too_fast(&mut own, "/api/v1/follows/batch", &follows);
    expect(own.post("/api/v1/notifications", &notification("n", &["u1"])), 202);
}

// proves: RL-05
#[test]
fn a_key_has_a_rate_of_its_own_and_the_server_has_a_default() {
    let server = Server::start_with(
        &[],
        &[("FANTAIL_PRODUCER_KEY_PER_SECOND", "1"), ("FANTAIL_PRODUCER_KEY_BURST", "2")],
    );
    let mut admin = server.admin();
    put_user(&mut server.client(), "ann");
    let path = "/api/v1/notifications";
    let mut plain = server.with_key(&key_of(&mut admin, "default", SENDER));
    let many: Vec<Value> = (0..100).map(|no| event(&format!("e{no}"), &json!({"topic": "t"}))).collect();
    expect(plain.post("/api/v1/events", &json!(many)), 202);
    too_fast(&mut plain, path, &notification("n", &["ann"]));
    let body = json!({"scopes": SENDER, "rateLimit": {"perSecond": 0}});
    let free = expect(admin.post("/api/v1/tenants/default/keys", &body), 201);
    assert_eq!(free["rateLimit"], json!({"perSecond": 0}));
    let mut free = server.with_key(free["key"].as_str().expect("a key"));
    for no in 0..20 {
        expect(free.post(path, &notification(&format!("n{no}"), &["ann"])), 202);
    }
    let wrong = json!({"scopes": SENDER, "rateLimit": {"perSecond": 5, "burst": 0}});
    refused(admin.post("/api/v1/tenants/default/keys", &wrong), "INVALID_REQUEST");
}

// proves: DEL-18, PRI-03, API-05
#[test]
fn only_keys_with_the_scope_send_what_is_critical() {
    let server = Server::start();
    let mut admin = server.admin();
    let mut own = server.client();
    put_user(&mut own, "ann");
    let template = json!({
        "id": "code",
        "defaultLocale": "en",
        "category": "security",
        "channels": {"inApp": {"title": "Code"}},
    });
    expect(own.json("PUT", "/api/v1/templates/code", &template), 201);
    let mut plain = server.with_key(&key_of(&mut admin, "default", SENDER));
    let mut scoped = server.with_key(&key_of(&mut admin, "default", &[SENDER, &["send:critical"]].concat()));
    let send = |id: &str, more: Value| {
        let mut body = notification(id, &["ann"]);
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let mut rendered = send("t", json!({"templateId": "code"}));
    rendered.as_object_mut().expect("an object").remove("content");
    let path = "/api/v1/notifications";
    for body in
        [send("p", json!({"priority": "critical"})), send("c", json!({"category": "transaction"})), rendered]
    {
        let problem = refused(plain.post(path, &body), "FORBIDDEN");
        assert!(problem["detail"].as_str().is_some_and(|text| text.contains("send:critical")), "{problem}");
        expect(scoped.post(path, &body), 202);
    }
    expect(plain.post(path, &send("d", json!({"category": "transaction", "priority": "high"}))), 202);
    let mut event = event("e", &json!({"users": ["ann"]}));
    event["data"]["category"] = json!("security");
    refused(plain.post("/api/v1/events", &event), "FORBIDDEN");
    refused(plain.post("/api/v1/events", &json!([event])), "FORBIDDEN");
    expect(scoped.post("/api/v1/events", &event), 202);
}
