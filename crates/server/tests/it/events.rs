//! Accepting events: their three forms, repeats, refusals, batches, retraction.

use crate::server::Server;
use crate::world::{
    bare, event, eventually, eventually_has, expect, follow, ids, inbox, post, post_by, put_user, refused,
    unread,
};
use fantail_rules::limits::{BODY_BYTES_MAX, EVENTS_PER_REQUEST_MAX, EXPLICIT_USERS_MAX};
use fantail_server::client::Request;
use serde_json::{Value, json};
use std::collections::BTreeSet;

// proves: API-01, FAN-06
#[test]
fn every_form_and_audience_arrives() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    follow(&mut client, "bob", "ann");
    expect(bare(&mut client, "PUT", "/api/v1/topics/news/subscribers/bob"), 204);
    let mut expected = vec![post(&mut client, &post_by("ann", "1"))];
    expected.insert(0, post(&mut client, &event("2", &json!({"users": ["bob"]}))));
    expected.insert(0, post(&mut client, &event("3", &json!({"topic": "news"}))));
    let structured = Request {
        method: "POST",
        path: "/api/v1/events",
        headers: &[("content-type", "application/cloudevents+json; charset=utf-8")],
        body: &post_by("ann", "4").to_string().into_bytes(),
    };
    let accepted = expect(client.send(&structured), 202);
    assert_eq!(accepted["status"], "accepted");
    expected.insert(0, accepted["eventId"].as_str().expect("an id").to_owned());
    let binary = Request {
        method: "POST",
        path: "/api/v1/events",
        headers: &[
            ("content-type", "application/json"),
            ("ce-specversion", "1.0"),
            ("ce-id", "5"),
            ("ce-source", "/caf%C3%A9"),
            ("ce-type", "post.liked"),
            ("ce-actor", "zoe"),
        ],
        body: br#"{"audience":{"users":["bob"]},"category":"likes","content":{"title":"Zoe likes it"}}"#,
    };
    let accepted = expect(client.send(&binary), 202);
    expected.insert(0, accepted["eventId"].as_str().expect("an id").to_owned());
    eventually("all five are there", || (ids(&inbox(&mut client, "bob", "")).len() == 5).then_some(()));
    let page = inbox(&mut client, "bob", "");
    let mut found = ids(&page);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let newest = &page["notifications"].as_array().expect("a page")[0];
    let liked = page["notifications"].as_array().expect("a page").iter().find(|n| n["type"] == "post.liked");
    let liked = liked.expect("the binary one");
    assert_eq!((&liked["category"], &liked["actor"]), (&json!("likes"), &json!("zoe")));
    assert!(newest["createdAt"].as_str().is_some_and(|at| at.len() == 24 && at.ends_with('Z')));
}

// proves: INB-11
#[test]
fn content_comes_back_as_it_was_sent() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    let mut sent = event("1", &json!({"users": ["bob"]}));
    sent["data"]["priority"] = json!("high");
    sent["data"]["content"] = json!({
        "title": "Grüße \u{1F33F}", "body": "two\nlines", "imageUrl": "https://example.com/a.png",
        "data": {"z": 1, "a": {"deep": [true, null, 1.5, "x"]}, "big": 9_007_199_254_740_993_u64},
        "actions": [{"id": "open", "title": "Open", "url": "app://post/1"}, {"id": "hide", "title": "Hide"}],
    });
    let id = post(&mut client, &sent);
    eventually_has(&mut client, "bob", std::slice::from_ref(&id));
    let got = expect(client.get(&format!("/api/v1/users/bob/notifications/{id}")), 200);
    assert_eq!(got["content"], sent["data"]["content"]);
    assert_eq!((&got["priority"], &got["type"]), (&json!("high"), &json!("post.created")));
    assert_eq!(got["category"], "posts");
    assert!(got.get("actor").is_none());
    refused(client.get(&format!("/api/v1/users/nobody/notifications/{id}")), "USER_NOT_FOUND");
    for unknown in ["01KG9V7W0R0000000000000001", "nonsense"] {
        let path = format!("/api/v1/users/bob/notifications/{unknown}");
        refused(client.get(&path), "NOTIFICATION_NOT_FOUND");
    }
}

// proves: API-02, DED-08
#[test]
fn repeats_get_the_first_answer_and_other_content_is_a_conflict() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    follow(&mut client, "bob", "ann");
    let first = client.post("/api/v1/events", &post_by("ann", "1")).expect("an answer");
    assert_eq!((first.status, first.header("idempotent-replayed")), (202, None));
    // Other spacing, other order of fields, explicit defaults, another trace: the same request.
    let same = format!(
        "{{\n \"type\" : \"post.created\", \"traceparent\": \"00-1\", \"actor\":\"ann\", \"data\": {}, \
         \"id\":\"1\", \"source\":\"/test\", \"specversion\":\"1.0\" }}",
        json!({"content": {"title": "Post 1"}, "priority": "normal", "category": "posts",
               "audience": {"followersOf": "ann"}})
    );
    let headers = [("content-type", "application/json")];
    let request =
        Request { method: "POST", path: "/api/v1/events", headers: &headers, body: same.as_bytes() };
    let again = client.send(&request).expect("an answer");
    assert_eq!((again.status, again.header("idempotent-replayed")), (202, Some("true")));
    assert_eq!(again.json()["eventId"], first.json()["eventId"]);
    let mut other = post_by("ann", "1");
    other["data"]["content"]["title"] = json!("Something else");
    refused(client.post("/api/v1/events", &other), "DUPLICATE_NOTIFICATION");
    let mut elsewhere = other.clone();
    elsewhere["source"] = json!("/elsewhere");
    let second = post(&mut client, &elsewhere);
    let first = first.json()["eventId"].as_str().expect("an id").to_owned();
    eventually_has(&mut client, "bob", &[second, first]);
}

// proves: API-02, DED-08
#[test]
fn concurrent_repeats_are_one_event() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    follow(&mut client, "bob", "ann");
    let answers: Vec<(String, bool)> = std::thread::scope(|scope| {
        let sender = || {
            let mut client = server.client();
            (0..25)
                .map(|no| {
                    let event = post_by("ann", &format!("c{no}"));
                    let response = client.post("/api/v1/events", &event).expect("an answer");
                    assert_eq!(response.status, 202, "{}", response.text());
                    let id = response.json()["eventId"].as_str().expect("an id").to_owned();
                    (id, response.header("idempotent-replayed").is_some())
                })
                .collect::<Vec<_>>()
        };
        let senders: Vec<_> = (0..8).map(|_| scope.spawn(sender)).collect();
        senders.into_iter().flat_map(|sender| sender.join().expect("no panic")).collect()
    });
    let distinct: BTreeSet<&String> = answers.iter().map(|(id, _)| id).collect();
    assert_eq!(distinct.len(), 25);
    assert_eq!(answers.iter().filter(|(_, replayed)| !replayed).count(), 25, "one first answer each");
    eventually("all are there", || (unread(&mut client, "bob").0 == 25).then_some(()));
    assert_eq!(ids(&inbox(&mut client, "bob", "")).len(), 25);
}

// proves: API-01
#[test]
fn batches_are_all_checked_first_and_then_answered_one_by_one() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    follow(&mut client, "bob", "ann");
    let mut bad = post_by("ann", "2");
    bad["data"]["content"]["title"] = json!("");
    let problem =
        refused(client.post("/api/v1/events", &json!([post_by("ann", "1"), bad])), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/1/data/content/title");
    let mixed = json!([
        post_by("ann", "1"),
        event("3", &json!({"users": ["nobody"]})),
        post_by("ann", "1"),
        event("4", &json!({"users": ["bob"]})),
    ]);
    let answer = expect(client.post("/api/v1/events", &mixed), 202);
    let results = answer["events"].as_array().expect("results");
    assert_eq!(results.len(), 4);
    assert_eq!((&results[0]["status"], &results[0]["replayed"]), (&json!("accepted"), &json!(false)));
    assert_eq!(
        (&results[1]["status"], &results[1]["code"]),
        (&json!("refused"), &json!("INVALID_RECIPIENT"))
    );
    assert_eq!((&results[2]["replayed"], &results[2]["eventId"]), (&json!(true), &results[0]["eventId"]));
    assert_eq!(results[3]["status"], "accepted");
    eventually("both are there", || (unread(&mut client, "bob").0 == 2).then_some(()));
    let batch: Vec<Value> = (0..EVENTS_PER_REQUEST_MAX).map(|no| post_by("ann", &format!("b{no}"))).collect();
    let body = Value::Array(batch.clone()).to_string();
    let request = Request {
        method: "POST",
        path: "/api/v1/events",
        headers: &[("content-type", "application/cloudevents-batch+json")],
        body: body.as_bytes(),
    };
    let answer = expect(client.send(&request), 202);
    assert_eq!(answer["events"].as_array().map(Vec::len), Some(EVENTS_PER_REQUEST_MAX));
    let total = EVENTS_PER_REQUEST_MAX as u64 + 2;
    eventually("all are there", || (unread(&mut client, "bob").0 == total).then_some(()));
    let too_many: Vec<Value> = batch.into_iter().chain([post_by("ann", "more")]).collect();
    refused(client.post("/api/v1/events", &Value::Array(too_many)), "INVALID_REQUEST");
    refused(client.post("/api/v1/events", &json!([])), "INVALID_REQUEST");
}

// proves: API-03
#[test]
fn recipients_must_exist_and_are_named() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    let problem = refused(
        client.post("/api/v1/events", &event("1", &json!({"users": ["bob", "zoe", "max"]}))),
        "INVALID_RECIPIENT",
    );
    let named = problem["errors"].to_string();
    assert!(named.contains("zoe") && named.contains("max") && !named.contains("bob"), "{named}");
    assert_eq!(unread(&mut client, "bob"), (0, 0), "accepted for no one");
    for user in ["zoe", "max"] {
        put_user(&mut client, user);
    }
    let id = post(&mut client, &event("1", &json!({"users": ["bob", "zoe", "max"]})));
    eventually_has(&mut client, "max", &[id]);
    let many: Vec<String> = (0..=EXPLICIT_USERS_MAX).map(|no| format!("u{no}")).collect();
    refused(client.post("/api/v1/events", &event("2", &json!({"users": many}))), "INVALID_REQUEST");
}

// proves: FAN-12
#[test]
fn retracted_events_disappear_and_unread_stays_exact() {
    let server = Server::start();
    let mut client = server.client();
    expect(server.admin().json("PATCH", "/api/v1/tenants/default", &json!({"celebrityThreshold": 100})), 200);
    let users: Vec<Value> = (0..150).map(|no| json!({"userId": format!("u{no}")})).collect();
    expect(client.post("/api/v1/users/batch", &json!({"users": users})), 200);
    let follows: Vec<Value> = (0..150).map(|no| json!({"user": format!("u{no}"), "actor": "star"})).collect();
    expect(client.post("/api/v1/follows/batch", &json!({"follows": follows})), 200);
    follow(&mut client, "u0", "ann");
    let small = post(&mut client, &post_by("ann", "1"));
    let kept = post(&mut client, &post_by("ann", "2"));
    let large = post(&mut client, &post_by("star", "3"));
    // Two readers of different shards, each of which takes in its own time.
    eventually("all three are there", || (unread(&mut client, "u0").0 == 3).then_some(()));
    eventually("the large one is there too", || (unread(&mut client, "u149").0 == 1).then_some(()));
    for event in [&small, &large] {
        expect(bare(&mut client, "DELETE", &format!("/api/v1/events/{event}")), 204);
    }
    eventually_has(&mut client, "u0", std::slice::from_ref(&kept));
    assert_eq!(unread(&mut client, "u0"), (1, 1));
    eventually("it is gone there too", || (unread(&mut client, "u149") == (0, 0)).then_some(()));
    refused(client.get(&format!("/api/v1/users/u0/notifications/{small}")), "NOTIFICATION_NOT_FOUND");
    for unknown in ["01KG9V7W0R0000000000000001", "nonsense"] {
        refused(bare(&mut client, "DELETE", &format!("/api/v1/events/{unknown}")), "EVENT_NOT_FOUND");
    }
}

// proves: API-03
#[test]
fn invalid_events_say_where() {
    let server = Server::start();
    let mut client = server.client();
    let cases: &[(&str, Value)] = &[
        ("/specversion", json!("0.3")),
        ("/id", json!("")),
        ("/id", json!("x".repeat(257))),
        ("/source", json!(7)),
        ("/data", json!(null)),
        ("/data/audience", json!({"users": ["a"], "topic": "b"})),
        ("/data/audience", json!({})),
        ("/data/colour", json!("red")),
        ("/data/priority", json!("urgent")),
        ("/data/content/title", json!("x".repeat(513))),
        ("/data/content/imageUrl", json!("javascript:alert(1)")),
        ("/data/content/actions", json!([{"id": "a"}])),
        ("/Extension", json!("x")),
    ];
    for (pointer, value) in cases {
        let mut event = post_by("ann", "1");
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        event.pointer_mut(parent).expect("a parent")[key] = value.clone();
        let problem = refused(client.post("/api/v1/events", &event), "INVALID_REQUEST");
        let found = problem["errors"][0]["pointer"].as_str().expect("a pointer");
        assert!(found.starts_with(pointer), "{pointer}: {found}");
    }
    let mut other_actor = post_by("ann", "1");
    other_actor["actor"] = json!("zoe");
    let problem = refused(client.post("/api/v1/events", &other_actor), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/actor");
}

#[test]
fn large_bodies_are_refused_before_they_are_read() {
    let server = Server::start();
    let mut client = server.client();
    let large = vec![b' '; BODY_BYTES_MAX + 1];
    let headers = [("content-type", "application/json")];
    let request = Request { method: "POST", path: "/api/v1/events", headers: &headers, body: &large };
    // The server may close while we still write; then there is no answer to read.
    match client.send(&request) {
        Ok(response) => {
            assert_eq!((response.status, &response.json()["code"]), (413, &json!("BODY_TOO_LARGE")))
        }
        Err(error) => assert!(!matches!(error.kind(), std::io::ErrorKind::InvalidData), "{error}"),
    }
    put_user(&mut server.client(), "bob");
}
