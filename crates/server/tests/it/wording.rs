//! What refusals say: where, and what is wanted there, in words that need no source code.

use crate::deliveries::notification;
use crate::server::Server;
use crate::world::{expect, put_user, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};

const NO_TYPES: &[&str] = &["u8", "u16", "u32", "u64", "struct ", "enum ", "variant", "serde", "Option"];

/// Asserts the code, the place and the words of a refusal.
fn check(
    client: &mut Client,
    (method, path): (&str, &str),
    body: &Value,
    code: &str,
    expected: (&str, &str),
) {
    let problem = refused(client.json(method, path, body), code);
    let error = &problem["errors"][0];
    let found = (error["pointer"].as_str().unwrap_or("none"), error["detail"].as_str().unwrap_or("none"));
    assert_eq!(found, expected, "{method} {path} {body}");
    let text = problem.to_string();
    assert!(NO_TYPES.iter().all(|word| !text.contains(word)), "{text}");
}

// fixes: usability §3.15, usability §3.16
#[test]
fn fields_say_what_they_want() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    let send = ("POST", "/api/v1/notifications");
    let to = |recipient: Value| json!({"content": {"title": "x"}, "recipients": [recipient]});
    let number = "must be a whole number that is not negative, not -1";
    let late = notification("n", &["ann"], json!({"options": {"ttl": -1}}));
    check(&mut client, send, &late, "INVALID_REQUEST", ("/options/ttl", number));
    let two = to(json!({"userId": "ann", "email": "ann@example.com"}));
    let one = "needs exactly one of userId, email, phone, webhook and pushToken, not several";
    check(&mut client, send, &two, "INVALID_REQUEST", ("/recipients/0", one));
    let none = "needs one of userId, email, phone, webhook and pushToken";
    check(&mut client, send, &to(json!({})), "INVALID_REQUEST", ("/recipients/0", none));
    let both = notification("n", &["ann"], json!({"templateId": "t"}));
    let either = "give either content or templateId, not both";
    check(&mut client, send, &both, "INVALID_REQUEST", ("/content", either));
    let nothing = json!({"recipients": [{"userId": "ann"}]});
    let needed = "either content or templateId is required";
    check(&mut client, send, &nothing, "INVALID_REQUEST", ("/content", needed));
    let event = json!({"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": []});
    let object = "must be an object, not an array";
    check(&mut client, ("POST", "/api/v1/events"), &event, "INVALID_REQUEST", ("/data", object));
    let patch = ("PATCH", "/api/v1/users/ann/preferences");
    let often = json!({"channels": {"push": {"frequency": {"maxPerHour": 70_000}}}});
    let most = "must be a whole number from 0 to 65535, not 70000";
    let place = "/channels/push/frequency/maxPerHour";
    check(&mut client, patch, &often, "INVALID_REQUEST", (place, most));
    let path = "/api/v1/notifications/n/explain?user=ann&email=ann%40example.com";
    expect(client.post("/api/v1/notifications", &notification("n", &["ann"], json!({}))), 202);
    let problem = refused(client.get(path), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/email");
    assert!(problem["errors"][0]["detail"].as_str().is_some_and(|text| text.contains("exactly one of")));
}

// fixes: usability §3.10
#[test]
fn an_unknown_scope_is_answered_with_all_of_them() {
    let server = Server::start();
    let body = json!({"scopes": ["everything"]});
    let problem = refused(server.admin().post("/api/v1/tenants/default/keys", &body), "INVALID_REQUEST");
    let detail = problem["errors"][0]["detail"].as_str().expect("a detail");
    for scope in crate::world::ALL_SCOPES {
        assert!(detail.contains(scope), "{detail}");
    }
    assert_eq!(problem["errors"][0]["pointer"], "/scopes/0");
}

// fixes: usability §3.9
#[test]
fn a_conflict_says_that_the_condition_is_missing() {
    let server = Server::start();
    let mut client = server.client();
    expect(client.json("PUT", "/api/v1/categories/likes", &json!({})), 201);
    let other = json!({"overflow": "digest"});
    let problem = refused(client.json("PUT", "/api/v1/categories/likes", &other), "VERSION_CONFLICT");
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(detail.contains("If-Match is missing") && detail.contains("If-Match: \"1\""), "{detail}");
    assert_eq!(problem["errors"][0]["pointer"], "/If-Match");
}

// fixes: usability §3.14
#[test]
fn a_name_that_is_taken_is_called_a_name() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    expect(client.post("/api/v1/notifications", &notification("n1", &["ann"], json!({}))), 202);
    let other = notification("n1", &["ann"], json!({"content": {"title": "Other"}}));
    let problem = refused(client.post("/api/v1/notifications", &other), "DUPLICATE_NOTIFICATION");
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(detail.contains("this id was used") && !detail.contains("source"), "{detail}");
}

// fixes: usability §3.7
#[test]
fn a_template_without_a_value_names_the_variable() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    let template = json!({"id": "hello", "category": "c", "defaultLocale": "en",
        "channels": {"sms": {"body": "Hello {{ user.attributes.firstName }}"}}});
    expect(client.json("PUT", "/api/v1/templates/hello", &template), 201);
    let body = json!({"templateId": "hello", "recipients": [{"userId": "ann"}]});
    let problem = refused(client.post("/api/v1/notifications", &body), "RENDER_FAILED");
    let text = problem.to_string();
    assert!(text.contains("`user.attributes.firstName` has no value"), "{text}");
}
