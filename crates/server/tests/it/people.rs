//! Users, follows and topics.

use crate::server::Server;
use crate::world::{
    bare, event, eventually, eventually_has, expect, follow, ids, inbox, post, post_by, put_user, refused,
    unread,
};
use fantail_rules::limits::BATCH_ITEMS_MAX;
use fantail_server::client::{Client, Request};
use serde_json::{Value, json};
use std::thread;

// proves: API-04
#[test]
fn users_are_made_read_replaced_and_deleted() {
    let server = Server::start();
    let mut client = server.client();
    let made = expect(client.json("PUT", "/api/v1/users/bob", &json!({"attributes": {"plan": "pro"}})), 201);
    assert_eq!((&made["userId"], &made["attributes"]), (&json!("bob"), &json!({"plan": "pro"})));
    let again = expect(client.json("PUT", "/api/v1/users/bob", &json!({"attributes": {"age": 7}})), 200);
    assert_eq!(again["attributes"], json!({"age": 7}), "attributes are replaced");
    assert_eq!(again["createdAt"], made["createdAt"]);
    assert_eq!(expect(client.get("/api/v1/users/bob"), 200), again);
    refused(client.json("PUT", "/api/v1/users/bob", &json!({"attributs": {}})), "INVALID_REQUEST");
    let large = json!({"attributes": {"x": "y".repeat(9_000)}});
    let problem = refused(client.json("PUT", "/api/v1/users/bob", &large), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/attributes");
    expect(bare(&mut client, "DELETE", "/api/v1/users/bob"), 204);
    refused(client.get("/api/v1/users/bob"), "USER_NOT_FOUND");
    refused(bare(&mut client, "DELETE", "/api/v1/users/bob"), "USER_NOT_FOUND");
}

// fixes: usability §3.3
#[test]
fn a_user_is_not_wiped_and_is_changed_in_parts() {
    let server = Server::start();
    let mut client = server.client();
    let path = "/api/v1/users/bob";
    let profile = json!({"attributes": {"plan": "pro", "age": 7}, "email": "bob@example.com", "locale": "de-AT",
        "timezone": "Europe/Vienna", "phone": "+436601234567"});
    expect(client.json("PUT", path, &profile), 201);
    let without_channels = |mut user: Value| {
        user.as_object_mut().expect("an object").remove("channels");
        user
    };
    let before = without_channels(expect(client.get(path), 200));
    expect(bare(&mut client, "PUT", path), 200);
    assert_eq!(
        without_channels(expect(client.get(path), 200)),
        before,
        "a PUT without a body leaves what is there"
    );
    let patch = json!({"attributes": {"plan": null, "city": "Graz"}, "phone": null, "locale": "en"});
    let changed = expect(client.json("PATCH", path, &patch), 200);
    assert_eq!(changed["attributes"], json!({"age": 7, "city": "Graz"}));
    let shown = ["email", "phone", "locale", "timezone"].map(|field| changed[field].clone());
    assert_eq!(shown, [json!("bob@example.com"), Value::Null, json!("en"), json!("Europe/Vienna")]);
    for (wrong, pointer) in [
        (json!({"locale": 7}), "/locale"),
        (json!({"timezone": "Mars/Base"}), "/timezone"),
        (json!({"attributes": {"x": "y".repeat(9_000)}}), "/attributes"),
        (json!({"attributs": {}}), "/attributs"),
    ] {
        let problem = refused(client.json("PATCH", path, &wrong), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{wrong}");
    }
    expect(client.json("PUT", path, &json!({})), 200);
    assert_eq!(expect(client.get(path), 200)["email"], Value::Null, "a PUT with a body replaces");
    refused(client.json("PATCH", "/api/v1/users/nobody", &json!({})), "USER_NOT_FOUND");
}

/// What cannot be stored is refused as a whole, by every way to write a user.
// fixes: usability P1
#[test]
fn an_address_without_a_place_is_refused_and_nothing_is_changed() {
    let server = Server::start();
    let mut client = server.client();
    let path = "/api/v1/users/bob";
    expect(client.json("PUT", path, &json!({"attributes": {"plan": "pro"}})), 201);
    for no in 0..20 {
        let device = json!({"userId": "bob", "deviceId": format!("d{no}"), "platform": "android",
            "token": format!("stub:ok/bob-{no}")});
        expect(client.post("/api/v1/devices", &device), 201);
    }
    let profile = |user: &mut Value| {
        user.as_object_mut().expect("an object").remove("channels");
        user.clone()
    };
    let before = profile(&mut expect(client.get(path), 200));
    let change = json!({"phone": "+436601234567", "locale": "de", "attributes": {"plan": "free"}});
    refused(client.json("PATCH", path, &change), "LIMIT_REACHED");
    let problem = refused(client.json("PUT", path, &change), "LIMIT_REACHED");
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("20")), "{problem}");
    let batch = json!({"users": [
        {"userId": "bob", "phone": "+436601234567", "locale": "de"},
        {"userId": "cay", "phone": "+436601234568"},
    ]});
    let answer = expect(client.post("/api/v1/users/batch", &batch), 200);
    assert_eq!((&answer["created"], &answer["updated"]), (&json!(1), &json!(0)));
    let error = &answer["errors"][0];
    assert_eq!((&error["index"], &error["code"]), (&json!(0), &json!("LIMIT_REACHED")));
    assert_eq!(profile(&mut expect(client.get(path), 200)), before);
    // What needs no place is stored, and a place that is given back is enough.
    expect(client.json("PATCH", path, &json!({"locale": "fr"})), 200);
    expect(bare(&mut client, "DELETE", "/api/v1/devices/bob/d7"), 204);
    assert_eq!(expect(client.json("PATCH", path, &change), 200)["phone"], "+436601234567");
}

// fixes: usability §3.3
#[test]
fn of_two_who_change_a_user_the_second_is_told() {
    let server = Server::start();
    let mut client = server.client();
    let path = "/api/v1/users/bob";
    let mut change = |method: &str, condition: Option<(&str, &str)>, body: Value| {
        let json = ("content-type", "application/json");
        let headers: Vec<(&str, &str)> = [json].into_iter().chain(condition).collect();
        let body = body.to_string();
        client.send(&Request { method, path, headers: &headers, body: body.as_bytes() }).expect("an answer")
    };
    let absent = Some(("if-none-match", "*"));
    assert_eq!(change("PUT", absent, json!({"locale": "de"})).status, 201);
    assert_eq!(change("PUT", absent, json!({"locale": "fr"})).status, 412);
    let read = change("PATCH", None, json!({}));
    let tag = read.header("etag").expect("a version").to_owned();
    assert_eq!(change("PATCH", Some(("if-match", &tag)), json!({"locale": "en"})).status, 200);
    let late = change("PATCH", Some(("if-match", &tag)), json!({"locale": "it"}));
    assert_eq!((late.status, late.json()["code"].as_str()), (412, Some("VERSION_CONFLICT")));
    let now = late.header("etag").expect("the version in force").to_owned();
    assert_eq!(change("PUT", Some(("if-match", &now)), json!({"locale": "it"})).json()["locale"], "it");
}

/// Each patch says something else, so all of it is there in the end.
#[test]
fn patches_of_a_user_at_once_are_all_merged() {
    let server = Server::start();
    put_user(&mut server.client(), "bob");
    thread::scope(|scope| {
        for worker in 0..8 {
            let mut client = server.client();
            scope.spawn(move || {
                for no in 0..5 {
                    let patch = json!({"attributes": {format!("a{worker}-{no}"): no}});
                    expect(client.json("PATCH", "/api/v1/users/bob", &patch), 200);
                }
            });
        }
    });
    let user = expect(server.client().get("/api/v1/users/bob"), 200);
    assert_eq!(user["attributes"].as_object().map(serde_json::Map::len), Some(40));
}

// fixes: usability C14
#[test]
fn new_names_are_seen_and_what_exists_is_found() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    let at = |problem: Value| problem["errors"][0]["pointer"].as_str().expect("a pointer").to_owned();
    let template =
        json!({"id": "a", "category": "c", "defaultLocale": "en", "channels": {"sms": {"body": "x"}}});
    for name in [".", "..", "%20", "a%E2%80%AEb", "a%E2%80%8Bb", "%EF%BB%BFa", "bob%20"] {
        for (path, body, pointer) in [
            (format!("/api/v1/users/{name}"), json!({}), "/user"),
            (format!("/api/v1/topics/{name}/subscribers/bob"), json!({}), "/topic"),
            (format!("/api/v1/templates/{name}"), template.clone(), "/template"),
            (format!("/api/v1/segments/{name}"), json!({"filter": "everyone"}), "/segment"),
            (format!("/api/v1/categories/{name}"), json!({}), "/category"),
        ] {
            let problem = refused(client.json("PUT", &path, &body), "INVALID_REQUEST");
            assert_eq!(at(problem), pointer, "{path}");
        }
        // What may have such a name from before is looked for.
        refused(client.get(&format!("/api/v1/users/{name}")), "USER_NOT_FOUND");
        refused(bare(&mut client, "DELETE", &format!("/api/v1/users/{name}")), "USER_NOT_FOUND");
    }
    // An actor may have posted before, and has no row that says so: it is mentioned and followed whatever it is called.
    for actor in ["a%E2%80%8Bb", "bob%20"] {
        follow(&mut client, "bob", actor);
    }
    let hidden = "a\u{202e}b";
    let device = json!({"userId": "bob", "deviceId": hidden, "platform": "ios", "token": "stub:1"});
    assert_eq!(at(refused(client.post("/api/v1/devices", &device), "INVALID_REQUEST")), "/deviceId");
    let users = json!({"users": [{"userId": "ann"}, {"userId": hidden}]});
    assert_eq!(at(refused(client.post("/api/v1/users/batch", &users), "INVALID_REQUEST")), "/users/1/userId");
    let send =
        json!({"notificationId": hidden, "content": {"title": "x"}, "recipients": [{"userId": "bob"}]});
    assert_eq!(
        at(refused(client.post("/api/v1/notifications", &send), "INVALID_REQUEST")),
        "/notificationId"
    );
    refused(client.post("/api/v1/events", &event(hidden, &json!({"users": ["bob"]}))), "INVALID_REQUEST");
    let made = json!({"slug": "acme", "name": hidden});
    assert_eq!(at(refused(server.admin().post("/api/v1/tenants", &made), "INVALID_REQUEST")), "/name");
}

#[test]
fn ids_may_be_anything_printable() {
    let server = Server::start();
    let mut client = server.client();
    for (path, id) in [
        ("a%2Fb", "a/b"),
        ("%C3%84nn%20%26%20co", "Änn & co"),
        ("urn:user:1", "urn:user:1"),
        ("%25", "%"),
        ("...", "..."),
        ("%62atch", "batch"),
    ] {
        put_user(&mut client, path);
        assert_eq!(expect(client.get(&format!("/api/v1/users/{path}")), 200)["userId"], id);
        let sent = post(&mut client, &event(id, &json!({"users": [id]})));
        eventually_has(&mut client, path, &[sent]);
    }
    for path in ["a%0Ab", "%00", &"x".repeat(257), "%FF"] {
        refused(bare(&mut client, "PUT", &format!("/api/v1/users/{path}")), "INVALID_REQUEST");
    }
}

#[test]
fn user_batches_count_what_they_did() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "u0");
    let users: Vec<Value> = (0..BATCH_ITEMS_MAX).map(|no| json!({"userId": format!("u{no}")})).collect();
    let answer = expect(client.post("/api/v1/users/batch", &json!({"users": users})), 200);
    assert_eq!((&answer["created"], &answer["updated"]), (&json!(BATCH_ITEMS_MAX - 1), &json!(1)));
    let more: Vec<Value> = users.into_iter().chain([json!({"userId": "one-more"})]).collect();
    refused(client.post("/api/v1/users/batch", &json!({"users": more})), "INVALID_REQUEST");
    let problem = refused(
        client.post("/api/v1/users/batch", &json!({"users": [{"userId": "ok"}, {"userId": ""}]})),
        "INVALID_REQUEST",
    );
    assert_eq!(problem["errors"][0]["pointer"], "/users/1/userId");
    refused(client.get("/api/v1/users/ok"), "USER_NOT_FOUND");
}

// proves: API-04
#[test]
fn follows_are_made_counted_listed_and_ended() {
    let server = Server::start();
    let mut client = server.client();
    refused(bare(&mut client, "PUT", "/api/v1/users/bob/follows/ann"), "USER_NOT_FOUND");
    put_user(&mut client, "bob");
    for actor in ["ann", "zoe", "ann"] {
        follow(&mut client, "bob", actor);
    }
    assert_eq!(expect(client.get("/api/v1/users/bob/follows/ann"), 200)["following"], true);
    assert_eq!(expect(client.get("/api/v1/users/bob/follows/max"), 200)["following"], false);
    let follows = expect(client.get("/api/v1/users/bob/follows"), 200);
    let mut names: Vec<_> = follows["follows"].as_array().expect("names").iter().map(Value::as_str).collect();
    names.sort_unstable();
    assert_eq!((names, &follows["count"]), (vec![Some("ann"), Some("zoe")], &json!(2)));
    let first = post(&mut client, &post_by("ann", "1"));
    eventually_has(&mut client, "bob", std::slice::from_ref(&first));
    for _ in 0..2 {
        expect(bare(&mut client, "DELETE", "/api/v1/users/bob/follows/ann"), 204);
    }
    let second = post(&mut client, &post_by("ann", "2"));
    let third = post(&mut client, &post_by("zoe", "3"));
    eventually_has(&mut client, "bob", &[third, first]);
    assert!(second.len() == 26);
    assert_eq!(expect(client.get("/api/v1/users/ann/followers"), 200)["count"], 0);
}

#[test]
fn follow_batches_count_changes_and_name_failures() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    put_user(&mut client, "max");
    let edges = json!({"follows": [
        {"user": "bob", "actor": "ann"}, {"user": "max", "actor": "ann"}, {"user": "nobody", "actor": "ann"},
        {"user": "bob", "actor": "ann"},
    ]});
    let answer = expect(client.post("/api/v1/follows/batch", &edges), 200);
    assert_eq!((&answer["changed"], &answer["unchanged"]), (&json!(2), &json!(1)));
    assert_eq!(answer["errors"][0]["index"], 2);
    assert_eq!(answer["errors"][0]["code"], "USER_NOT_FOUND");
    let answer = expect(client.post("/api/v1/follows/batch-delete", &edges), 200);
    assert_eq!((&answer["changed"], &answer["unchanged"]), (&json!(2), &json!(1)));
    let bad = json!({"follows": [{"user": "bob", "actor": ""}]});
    let problem = refused(client.post("/api/v1/follows/batch", &bad), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/follows/0/actor");
}

/// Walks a list page by page.
fn walk(client: &mut Client, path: &str, field: &str, limit: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = expect(client.get(&format!("{path}?limit={limit}{cursor}")), 200);
        let found = page[field].as_array().expect("names");
        assert!(found.len() <= limit);
        names.extend(found.iter().map(|name| name.as_str().expect("a name").to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return names,
        }
    }
}

// proves: API-04
#[test]
fn lists_are_paged_completely() {
    let server = Server::start();
    let mut client = server.client();
    let names: Vec<String> = (0..57).map(|no| format!("fan-{no:02}")).collect();
    let users: Vec<Value> = names.iter().map(|name| json!({"userId": name})).collect();
    expect(client.post("/api/v1/users/batch", &json!({"users": users})), 200);
    let follows: Vec<Value> = names.iter().map(|name| json!({"user": name, "actor": "star"})).collect();
    expect(client.post("/api/v1/follows/batch", &json!({"follows": follows})), 200);
    expect(client.post("/api/v1/topics/news/subscribers/batch", &json!({"users": names})), 200);
    let actors: Vec<Value> = (0..23).map(|no| json!({"user": "fan-00", "actor": format!("a{no}")})).collect();
    expect(client.post("/api/v1/follows/batch", &json!({"follows": actors})), 200);
    for limit in [1, 10, 57, 1_000] {
        let mut followers = walk(&mut client, "/api/v1/users/star/followers", "followers", limit);
        followers.sort();
        assert_eq!(followers, names, "followers by {limit}");
        let mut subscribers = walk(&mut client, "/api/v1/topics/news/subscribers", "subscribers", limit);
        subscribers.sort();
        assert_eq!(subscribers, names, "subscribers by {limit}");
        assert_eq!(walk(&mut client, "/api/v1/users/fan-00/follows", "follows", limit).len(), 24);
    }
    assert_eq!(expect(client.get("/api/v1/users/star/followers?limit=1"), 200)["count"], 57);
    assert_eq!(expect(client.get("/api/v1/users/fan-00/follows?limit=1"), 200)["count"], 24);
    let page = expect(client.get("/api/v1/users/star/followers?limit=5"), 200);
    let cursor = page["nextCursor"].as_str().expect("more");
    let elsewhere = format!("/api/v1/topics/news/subscribers?cursor={cursor}");
    for path in [elsewhere.as_str(), "/api/v1/users/star/followers?cursor=x"] {
        let problem = refused(client.get(path), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], "/cursor");
    }
    for query in ["limit=0", "limit=1001", "limit=x", "lmit=1"] {
        refused(client.get(&format!("/api/v1/users/star/followers?{query}")), "INVALID_REQUEST");
    }
}

// proves: FAN-06
#[test]
fn topics_reach_their_subscribers_only() {
    let server = Server::start();
    let mut client = server.client();
    for user in ["bob", "max", "zoe"] {
        put_user(&mut client, user);
    }
    let answer = expect(
        client.post("/api/v1/topics/news/subscribers/batch", &json!({"users": ["bob", "max", "nobody"]})),
        200,
    );
    assert_eq!((&answer["changed"], &answer["errors"][0]["index"]), (&json!(2), &json!(2)));
    let first = post(&mut client, &event("1", &json!({"topic": "news"})));
    eventually_has(&mut client, "bob", std::slice::from_ref(&first));
    expect(bare(&mut client, "DELETE", "/api/v1/topics/news/subscribers/bob"), 204);
    let answer =
        expect(client.post("/api/v1/topics/news/subscribers/batch-delete", &json!({"users": ["zoe"]})), 200);
    assert_eq!(answer["unchanged"], 1);
    let second = post(&mut client, &event("2", &json!({"topic": "news"})));
    eventually_has(&mut client, "max", &[second, first.clone()]);
    eventually_has(&mut client, "bob", &[first]);
    assert_eq!(unread(&mut client, "zoe"), (0, 0));
    // A topic and an actor of one name are two lists.
    follow(&mut client, "zoe", "news");
    let third = post(&mut client, &event("3", &json!({"topic": "news"})));
    let fourth = post(&mut client, &post_by("news", "4"));
    eventually_has(&mut client, "zoe", std::slice::from_ref(&fourth));
    assert_ne!(third, fourth);
}

#[test]
fn a_deleted_user_starts_anew() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    follow(&mut client, "bob", "ann");
    let first = post(&mut client, &post_by("ann", "1"));
    eventually_has(&mut client, "bob", &[first]);
    expect(bare(&mut client, "DELETE", "/api/v1/users/bob"), 204);
    refused(client.get("/api/v1/users/bob/notifications"), "USER_NOT_FOUND");
    put_user(&mut client, "bob");
    eventually_has(&mut client, "bob", &[]);
    assert_eq!(unread(&mut client, "bob"), (0, 0));
    assert_eq!(expect(client.get("/api/v1/users/bob/follows"), 200)["count"], 0);
}

#[test]
fn a_deleted_author_leaves_pages_that_were_read_before() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    put_user(&mut client, "bob");
    follow(&mut client, "bob", "ann");
    let first = post(&mut client, &post_by("ann", "1"));
    eventually_has(&mut client, "bob", std::slice::from_ref(&first));
    assert_eq!(inbox(&mut client, "bob", "")["notifications"][0]["actor"], "ann");
    expect(bare(&mut client, "DELETE", "/api/v1/users/ann"), 204);
    eventually("the author's name is gone", || {
        let page = inbox(&mut client, "bob", "");
        page["notifications"][0].get("actor").is_none_or(Value::is_null).then_some(())
    });
    assert_eq!(ids(&inbox(&mut client, "bob", "")), [first], "what was posted stays");
}
