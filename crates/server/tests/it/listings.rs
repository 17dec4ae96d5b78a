//! Pages over all users, topics, suppressions, erasures and notifications of a tenant.

use crate::deliveries::{Post, counts, notification, register, send};
use crate::server::{Server, run};
use crate::world::{
    ALL_SCOPES, bare, event, eventually, expect, follow, in_ms, post, put_user, refused, tenant_with_key,
};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The entries of a page, and the path of the next one.
fn page(client: &mut Client, path: &str, field: &str) -> (Vec<Value>, Option<String>) {
    let answer = expect(client.get(path), 200);
    let entries = answer[field].as_array().expect("entries").clone();
    let stem = path.split("&cursor=").next().expect("a path");
    (entries, answer["nextCursor"].as_str().map(|cursor| format!("{stem}&cursor={cursor}")))
}

/// All entries behind a path, page by page.
fn all(client: &mut Client, path: &str, field: &str) -> Vec<Value> {
    let (mut entries, mut next) = page(client, path, field);
    while let Some(path) = next {
        let (more, after) = page(client, &path, field);
        entries.extend(more);
        next = after;
    }
    entries
}

fn texts(entries: &[Value], field: &str) -> Vec<String> {
    entries.iter().map(|one| one[field].as_str().unwrap_or_default().to_owned()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn once(names: Vec<String>) -> BTreeSet<String> {
    let count = names.len();
    let names: BTreeSet<String> = names.into_iter().collect();
    assert_eq!(names.len(), count, "each is shown once");
    names
}

// fixes: usability §3.21
#[test]
fn users_are_listed_each_once_and_found_by_address() {
    let server = Server::start();
    let mut client = server.client();
    let users: Vec<Value> = (0..250).map(|no| json!({"userId": format!("u{no}")})).collect();
    expect(client.post("/api/v1/users/batch", &json!({"users": users})), 200);
    let ann = json!({"email": "Ann@example.com", "phone": "+436601234567", "attributes": {"plan": "pro"}});
    expect(client.json("PUT", "/api/v1/users/ann", &ann), 201);
    for no in (0..250).step_by(10) {
        expect(bare(&mut client, "DELETE", &format!("/api/v1/users/u{no}")), 204);
    }
    // Somebody without a name, who is no user of the tenant's.
    let body = json!({"notificationId": "n1", "content": {"title": "Hello"}, "channels": ["email"],
        "recipients": [{"email": "ok/stranger@stub.test"}]});
    expect(client.post("/api/v1/notifications", &body), 202);
    let found = all(&mut client, "/api/v1/users?limit=40", "users");
    assert_eq!(once(texts(&found, "userId")).len(), 226);
    eventually("she is listed as she is read, once her addresses are in use", || {
        let found = all(&mut client, "/api/v1/users?limit=100", "users");
        let read = expect(client.get("/api/v1/users/ann"), 200);
        found.contains(&read).then_some(())
    });
    for query in ["email=ann%40EXAMPLE.com", "phone=%2B43%20660%20123%204567"] {
        let path = format!("/api/v1/users?{query}");
        eventually("the address is hers", || {
            (texts(&page(&mut client, &path, "users").0, "userId") == ["ann"]).then_some(())
        });
    }
    for nobody in ["nobody%40example.com", "ok%2Fstranger%40stub.test"] {
        assert_eq!(page(&mut client, &format!("/api/v1/users?email={nobody}"), "users"), (Vec::new(), None));
    }
    for (wrong, pointer) in [
        ("email=x%40example.com&phone=%2B436601234567", "/phone"),
        ("email=nonsense", "/email"),
        ("limit=1001", "/limit"),
        ("cursor=nonsense", "/cursor"),
        ("name=ann", "/name"),
    ] {
        let problem = refused(client.get(&format!("/api/v1/users?{wrong}")), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{wrong}");
    }
}

/// A cursor is a place in one order, of one tenant, for one set of filters; it is good after a crash.
// proves: INB-12, TEN-01
// fixes: usability §3.21
#[test]
fn cursors_belong_to_their_tenant_and_filters_and_survive_a_crash() {
    let server = Server::start();
    let mut client = server.client();
    let mut other = server.with_key(&tenant_with_key(&mut server.admin(), "acme", ALL_SCOPES));
    let users: Vec<Value> = (0..60).map(|no| json!({"userId": format!("u{no}")})).collect();
    for client in [&mut client, &mut other] {
        expect(client.post("/api/v1/users/batch", &json!({"users": users})), 200);
        for no in 0..8 {
            let topic = format!("/api/v1/topics/t{no}/subscribers/u{no}");
            expect(bare(client, "PUT", &topic), 204);
            expect(bare(client, "PUT", &format!("/api/v1/suppressions/email/u{no}%40example.com")), 200);
            send(client, &notification(&format!("n{no}"), &["u1"], json!({"channels": ["inApp"]})));
        }
        for no in 50..58 {
            expect(client.post("/api/v1/erasures", &json!({"userId": format!("u{no}")})), 202);
        }
    }
    let listings = [
        ("/api/v1/users?limit=7", "users", "/api/v1/users?email=u1%40example.com", 52),
        ("/api/v1/topics?limit=3", "topics", "/api/v1/topics?user=u1", 8),
        ("/api/v1/suppressions?limit=3", "suppressions", "/api/v1/suppressions?reason=manual", 8),
        ("/api/v1/erasures?limit=3", "erasures", "/api/v1/erasures?from=2020-01-01T00:00:00Z", 8),
        ("/api/v1/notifications?limit=3", "notifications", "/api/v1/notifications?category=general", 8),
    ];
    let mut begun = Vec::new();
    for (path, field, filtered, count) in listings {
        let (first, next) = page(&mut client, path, field);
        let next = next.expect("there are more");
        let cursor = next.split("cursor=").nth(1).expect("a cursor").to_owned();
        let own = all(&mut other, path, field);
        assert_eq!(own.len(), count, "{path} of the other tenant");
        for (client, path) in [(&mut other, &next), (&mut client, &format!("{filtered}&cursor={cursor}"))] {
            let problem = refused(client.get(path), "INVALID_REQUEST");
            assert_eq!(problem["errors"][0]["pointer"], "/cursor", "{path}");
        }
        begun.push((first, next, field, count));
    }
    let directory = server.kill().expect("its directory");
    let server = Server::start_in(&directory.path("data"), &[], &[]);
    let mut client = server.client();
    for (first, next, field, count) in begun {
        let rest = all(&mut client, &next, field);
        assert_eq!(first.len() + rest.len(), count, "{field}");
        assert!(first.iter().all(|one| !rest.contains(one)), "{field}: each once");
    }
}

// fixes: usability §3.21
#[test]
fn topics_are_listed_with_their_subscribers() {
    let server = Server::start();
    let mut client = server.client();
    for user in ["ann", "bob", "cem", "dora", "eve"] {
        put_user(&mut client, user);
        follow(&mut client, user, "star");
    }
    let subscribe = |client: &mut Client, topic: &str, users: &[&str]| {
        let path = format!("/api/v1/topics/{topic}/subscribers/batch");
        expect(client.post(&path, &json!({"users": users})), 200);
    };
    subscribe(&mut client, "news", &["ann", "bob", "cem", "dora", "eve"]);
    subscribe(&mut client, "caf%C3%A9", &["ann"]);
    subscribe(&mut client, "empty", &["bob"]);
    expect(bare(&mut client, "DELETE", "/api/v1/topics/empty/subscribers/bob"), 204);
    let found = all(&mut client, "/api/v1/topics?limit=1", "topics");
    assert_eq!(once(texts(&found, "topic")), set(&["café", "news"]), "neither actors nor what is empty");
    let news = found.iter().find(|topic| topic["topic"] == "news").expect("it is listed");
    assert_eq!(news["subscriberCount"], 5, "in all shards");
    for (user, expected) in [("ann", &["café", "news"][..]), ("bob", &["news"])] {
        let found = all(&mut client, &format!("/api/v1/topics?user={user}&limit=1"), "topics");
        assert_eq!(once(texts(&found, "topic")), set(expected), "{user}");
        assert!(found.iter().all(|topic| topic["topic"] != "news" || topic["subscriberCount"] == 5));
    }
    refused(client.get("/api/v1/topics?user=nobody"), "USER_NOT_FOUND");
}

// proves: GDP-01
// fixes: usability §3.21
#[test]
fn suppressions_are_listed_and_forget_the_address_with_its_user() {
    let server = Server::start();
    let mut client = server.client();
    expect(client.json("PUT", "/api/v1/users/ann", &json!({"email": "ann@example.com"})), 201);
    register(&mut client, "ann", "phone", "stub:ok/secret-token");
    let put = |client: &mut Client, path: &str, reason: &str| {
        let response = client.json("PUT", path, &json!({"reason": reason})).expect("an answer");
        assert!(matches!(response.status, 200 | 202), "{}", response.text());
    };
    let (mail, nobodys) =
        ("/api/v1/suppressions/email/ann%40example.com", "/api/v1/suppressions/sms/%2B436601234500");
    put(&mut client, mail, "complaint");
    put(&mut client, nobodys, "stop");
    put(&mut client, "/api/v1/suppressions/push/stub%3Aok%2Fsecret-token", "manual");
    let by_reason = |client: &mut Client, reason: &str| {
        let path = format!("/api/v1/suppressions?reason={reason}&limit=2");
        let mut found = all(client, &path, "suppressions");
        assert_eq!(found.len(), 1, "{reason}");
        found.remove(0)
    };
    let complaint = eventually("it is known whose it is", || {
        Some(by_reason(&mut client, "complaint")).filter(|one| one["userId"].is_string())
    });
    let single = expect(client.get(mail), 200);
    for (field, value) in [("channel", "email"), ("address", "ann@example.com"), ("userId", "ann")] {
        assert_eq!(complaint[field], value, "{complaint}");
    }
    assert_eq!((&complaint["addressHash"], &complaint["since"]), (&single["addressHash"], &single["since"]));
    let stop = by_reason(&mut client, "stop");
    assert_eq!(stop["addressHash"], expect(client.get(nobodys), 200)["addressHash"]);
    assert_eq!((&stop["address"], &stop["channel"]), (&Value::Null, &Value::Null), "nobody has it");
    let token = by_reason(&mut client, "manual");
    assert_eq!((&token["channel"], &token["userId"]), (&json!("push"), &json!("ann")));
    let everything = expect(client.get("/api/v1/suppressions"), 200).to_string();
    assert!(!everything.contains("secret-token"), "tokens are never shown: {everything}");
    assert_eq!(all(&mut client, "/api/v1/suppressions?limit=1", "suppressions").len(), 3);
    let problem = refused(client.get("/api/v1/suppressions?reason=boredom"), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/reason");
    // The entry outlives its user, and nothing in it names the user.
    expect(client.post("/api/v1/erasures", &json!({"userId": "ann"})), 202);
    let kept = by_reason(&mut client, "complaint");
    assert_eq!(kept["addressHash"], complaint["addressHash"]);
    let everything = expect(client.get("/api/v1/suppressions"), 200).to_string();
    assert!(!everything.contains("ann@") && !everything.contains("\"ann\""), "{everything}");
    expect(bare(&mut client, "DELETE", mail), 204);
    assert_eq!(all(&mut client, "/api/v1/suppressions?limit=1", "suppressions").len(), 2);
}

// fixes: usability §3.20, usability §3.21
#[test]
fn erasures_are_listed_and_found_by_the_erased_user() {
    let server = Server::start();
    let mut client = server.client();
    let mut begun = Vec::new();
    for no in 0..12 {
        let user = format!("u{no}");
        put_user(&mut client, &user);
        let erasure = expect(client.post("/api/v1/erasures", &json!({"userId": user})), 202);
        begun.push(erasure["erasureId"].as_str().expect("an id").to_owned());
    }
    let expected: Vec<&String> = begun.iter().rev().collect();
    let found = all(&mut client, "/api/v1/erasures?limit=5", "erasures");
    let mut listed = texts(&found, "erasureId");
    // Ids of one millisecond are in no order of ours.
    assert!(listed.is_sorted_by(|newer, older| newer > older), "{listed:?}");
    listed.sort_unstable();
    let mut sorted: Vec<String> = expected.into_iter().cloned().collect();
    sorted.sort_unstable();
    assert_eq!(listed, sorted);
    for (no, id) in begun.iter().enumerate() {
        let (of_user, next) = page(&mut client, &format!("/api/v1/erasures?user=u{no}"), "erasures");
        assert_eq!((texts(&of_user, "erasureId"), next), (vec![id.clone()], None));
        assert_eq!(of_user[0]["requestedAt"].as_str().map(str::len), Some("2026-01-01T00:00:00.000Z".len()));
    }
    for (span, count) in [
        (format!("to={}", in_ms(3_600_000)), 12),
        (format!("from={}", in_ms(3_600_000)), 0),
        ("to=2020-01-01T00:00:00Z".to_owned(), 0),
        ("from=2030-01-01T00:00:00Z&to=2020-01-01T00:00:00Z".to_owned(), 0),
        ("from=2020-01-01T00:00:00Z&to=2999-12-31T00:00:00Z".to_owned(), 12),
    ] {
        let found = all(&mut client, &format!("/api/v1/erasures?limit=5&{span}"), "erasures");
        assert_eq!(found.len(), count, "{span}");
    }
    assert_eq!(page(&mut client, "/api/v1/erasures?user=nobody", "erasures"), (Vec::new(), None));
    let problem = refused(client.get("/api/v1/erasures?from=yesterday"), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/from");
}

/// Two users with a phone each.
fn put_ann_and_bob(client: &mut Client) {
    for user in ["ann", "bob"] {
        put_user(client, user);
        register(client, user, "phone", &format!("stub:ok/{user}"));
    }
}

/// Sent notifications and events, the newest first, as their statuses say.
// fixes: usability §3.21
#[test]
fn notifications_are_listed_the_newest_first() {
    let stub = Post::new();
    let server = stub.start(&[]);
    let mut client = server.client();
    put_ann_and_bob(&mut client);
    follow(&mut client, "bob", "star");
    let first = send(&mut client, &notification("n1", &["ann"], json!({"category": "orders"})));
    let both = send(&mut client, &notification("n2", &["ann", "bob"], json!({})));
    let mut posted = event("e1", &json!({"followersOf": "star"}));
    posted["actor"] = json!("star");
    posted["data"]["channels"] = json!(["push"]);
    let listed = post(&mut client, &posted);
    let mut later = notification("n3", &["bob"], json!({"channels": ["inApp"]}));
    later["options"] = json!({"scheduledAt": in_ms(3_600_000)});
    let scheduled = send(&mut client, &later);
    let path = "/api/v1/notifications?limit=2";
    let done = eventually("all but one are done", || {
        let found = all(&mut client, path, "notifications");
        let statuses = texts(&found, "status");
        (statuses == ["scheduled", "done", "done", "done"]).then_some(found)
    });
    assert_eq!(texts(&done, "eventId"), [&scheduled, &listed, &both, &first].map(Clone::clone));
    assert_eq!(texts(&done, "notificationId"), ["n3", "", "n2", "n1"]);
    assert_eq!(texts(&done, "type"), ["notification", "post.created", "notification", "notification"]);
    assert!(done[0]["scheduledAt"].is_string() && done[1]["scheduledAt"].is_null(), "{done:?}");
    assert_eq!(done[2]["recipientCount"], 2);
    for (one, id) in done.iter().zip([&scheduled, &listed, &both, &first]) {
        let status = expect(client.get(&format!("/api/v1/notifications/{id}/status")), 200);
        for field in
            ["status", "createdAt", "category", "cancelled", "retracted", "recipientCount", "channels"]
        {
            assert_eq!(one[field], status[field], "{field} of {one}");
        }
    }
    for (filter, expected) in [
        ("category=orders", vec![&first]),
        ("user=ann", vec![&both, &first]),
        ("user=bob", vec![&listed, &both]),
        ("user=bob&category=orders", vec![]),
        ("to=2020-01-01T00:00:00Z", vec![]),
        ("from=2030-01-01T00:00:00Z&to=2020-01-01T00:00:00Z", vec![]),
        ("from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z", vec![]),
    ] {
        let found = all(&mut client, &format!("/api/v1/notifications?limit=1&{filter}"), "notifications");
        let expected: Vec<String> = expected.into_iter().cloned().collect();
        assert_eq!(texts(&found, "eventId"), expected, "{filter}");
    }
    let ahead = format!("/api/v1/notifications?limit=9&from={}", in_ms(60_000));
    let waiting = texts(&all(&mut client, &ahead, "notifications"), "eventId");
    assert_eq!(waiting, std::slice::from_ref(&scheduled));
    let cancelled = bare(&mut client, "POST", &format!("/api/v1/notifications/{scheduled}/cancel"));
    assert!(matches!(cancelled.expect("an answer").status, 200 | 202));
    assert!(matches!(
        bare(&mut client, "DELETE", &format!("/api/v1/events/{listed}")).expect("an answer").status,
        202 | 204
    ));
    let found = all(&mut client, path, "notifications");
    assert_eq!((&found[0]["cancelled"], &found[1]["retracted"]), (&json!(true), &json!(true)), "{found:?}");
    refused(client.get("/api/v1/notifications?user=nobody"), "USER_NOT_FOUND");
    let problem = refused(client.get("/api/v1/notifications?limit=101"), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/limit");
    // What is erased is still counted and names nobody.
    expect(client.post("/api/v1/erasures", &json!({"userId": "ann"})), 202);
    refused(client.get("/api/v1/notifications?user=ann"), "USER_NOT_FOUND");
    assert_eq!(all(&mut client, path, "notifications").len(), 4);
}

#[test]
fn the_command_line_prints_lists() {
    let stub = Post::new();
    let server = stub.start(&[]);
    let mut client = server.client();
    put_ann_and_bob(&mut client);
    for no in 0..4 {
        let body = notification(&format!("n{no}"), &["ann", "bob"], json!({"category": "orders"}));
        let id = send(&mut client, &body);
        counts(&mut client, &id, &json!({"sent": 2}));
    }
    let told = |args: &[&str]| {
        let data = server.data.to_str().expect("a path");
        run(&[&["list"], args, &["--server", &server.address, "--data", data]].concat())
    };
    let lines = told(&["notifications", "--limit", "3"]);
    let first = lines.lines().next().expect("a line");
    assert_eq!((lines.lines().count(), first.ends_with("orders  n3  push: 2 sent")), (3, true), "{lines}");
    let lines = told(&["notifications", "--user", "ann", "--category", "orders", "--json"]);
    let names = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    assert_eq!(texts(&names.collect::<Vec<_>>(), "notificationId"), ["n3", "n2", "n1", "n0"]);
    assert_eq!(
        once(told(&["users"]).lines().map(str::to_owned).collect()),
        set(&["ann  push: active", "bob  push: active"])
    );
    assert!(told(&["users", "--email", "nobody@example.com"]).is_empty());
    expect(bare(&mut client, "PUT", "/api/v1/topics/news/subscribers/bob"), 204);
    assert_eq!(told(&["topics", "--user", "bob"]), "news  1\n");
    expect(bare(&mut client, "PUT", "/api/v1/suppressions/email/bob%40example.com"), 200);
    assert!(
        told(&["suppressions"]).contains("  manual  ")
            && told(&["suppressions", "--reason", "stop"]).is_empty()
    );
    expect(client.post("/api/v1/erasures", &json!({"userId": "ann"})), 202);
    assert!(told(&["erasures", "--user", "ann", "--from", "2020-01-01T00:00:00Z"]).starts_with("01"));
}
