//! Segments and bulk sends, over the API.

use crate::deliveries::Post;
use crate::server::{Server, run};
use crate::world::{bare, eventually, expect, in_ms, put_user, refused};
use fantail_server::client::{Client, Request};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub fn put_segment(client: &mut Client, name: &str, filter: &str) -> Value {
    let response = client.json("PUT", &format!("/api/v1/segments/{name}"), &json!({"filter": filter}));
    let response = response.expect("an answer");
    assert!(matches!(response.status, 200 | 201), "{}", response.text());
    response.json()
}

fn count(client: &mut Client, name: &str) -> u64 {
    let counted = expect(client.get(&format!("/api/v1/segments/{name}/count")), 200);
    assert_eq!(counted["exact"], true);
    counted["members"].as_u64().expect("a number")
}

pub fn upload(
    client: &mut Client,
    name: &str,
    kind: &str,
    body: &str,
) -> std::io::Result<fantail_server::client::Response> {
    let path = format!("/api/v1/segments/{name}/members");
    client.send(&Request {
        method: "PUT",
        path: &path,
        headers: &[("content-type", kind)],
        body: body.as_bytes(),
    })
}

// proves: BLK-07
// fixes: usability C8
#[test]
fn segments_choose_by_what_is_known_and_by_lists() {
    let server = Server::start();
    let mut client = server.client();
    for (at, user) in ["ann", "bob", "cat", "dan"].into_iter().enumerate() {
        let body = json!({"attributes": {"plan": if at < 2 { "pro" } else { "free" }, "age": 20 + at},
            "locale": "de-AT", "timezone": "Europe/Vienna"});
        let response = client.json("PUT", &format!("/api/v1/users/{user}"), &body).expect("an answer");
        assert_eq!(response.status, 201, "{}", response.text());
    }
    let mail = json!({"attributes": {"plan": "free", "age": 23}, "locale": "de-AT", "timezone": "Europe/Vienna",
        "email": "dan@example.com"});
    expect(client.json("PUT", "/api/v1/users/dan", &mail), 200);
    expect(bare(&mut client, "PUT", "/api/v1/topics/news/subscribers/bob"), 204);
    let off = json!({"channels": {"email": {"enabled": false}}, "categories": {"likes": {"enabled": false}}});
    expect(client.json("PATCH", "/api/v1/users/cat/preferences", &off), 200);
    for (filter, members) in [
        ("everyone", 4),
        (r#"attributes.plan == "pro""#, 2),
        (r#"attributes.plan == "pro" and attributes.age > 20"#, 1),
        (r#"topic("news") or attributes.age >= 23"#, 2),
        (r#"language == "de" and timezone == "Europe/Vienna" and createdAt > ago(1h)"#, 4),
        (r#"not enabled("email")"#, 1),
        (r#"wants("likes")"#, 3),
        // Dan has a mail address, which is no device.
        (r#"reachable("push") or lastSeenAt != null"#, 0),
    ] {
        put_segment(&mut client, "some", filter);
        assert_eq!(count(&mut client, "some"), members, "{filter}");
    }
    let problem =
        refused(client.json("PUT", "/api/v1/segments/some", &json!({"filter": "age > 3"})), "INVALID_FILTER");
    assert!(
        problem["detail"].as_str().is_some_and(|detail| detail.starts_with("at character 1:")),
        "{problem}"
    );
    // A list is the segment's as a whole, or not at all.
    refused(upload(&mut client, "vips", "text/csv", "ann\n"), "SEGMENT_NOT_FOUND");
    expect(client.json("PUT", "/api/v1/segments/vips", &json!({"description": "by hand"})), 201);
    assert_eq!(count(&mut client, "vips"), 0, "without a condition and a list it is nobody's");
    refused(upload(&mut client, "vips", "application/json", "[]"), "UNSUPPORTED_MEDIA_TYPE");
    refused(upload(&mut client, "vips", "application/x-ndjson", "\"ann\"\n{}\n"), "INVALID_REQUEST");
    assert_eq!(count(&mut client, "vips"), 0);
    let lines = "\"ann\"\n{\"userId\":\"cat\"}\n\"nobody\"\n\"ann\"\n";
    let done = expect(upload(&mut client, "vips", "application/x-ndjson", lines), 200);
    assert_eq!(
        (&done["lines"], &done["unknown"], &done["segment"]["list"]["members"]),
        (&json!(4), &json!(1), &json!(2))
    );
    assert_eq!(count(&mut client, "vips"), 2);
    put_segment(&mut client, "vips", r#"attributes.plan == "free""#);
    assert_eq!(count(&mut client, "vips"), 1, "both must hold");
    expect(upload(&mut client, "vips", "text/csv; charset=utf-8", "userId,x\ndan,1\n"), 200);
    assert_eq!(count(&mut client, "vips"), 1, "another list takes its place");
    let all = expect(client.get("/api/v1/segments?limit=1"), 200);
    assert_eq!(all["segments"][0]["name"], "some");
    let cursor = all["nextCursor"].as_str().expect("there is more").to_owned();
    let rest = expect(client.get(&format!("/api/v1/segments?limit=1&cursor={cursor}")), 200);
    assert_eq!(rest["segments"][0]["name"], "vips");
    // All of it survives.
    let directory = server.kill().expect("the directory is the server's own");
    let server = Server::start_in(&directory.path("data"), &[], &[]);
    let mut client = server.client();
    put_user(&mut client, "eve");
    assert_eq!((count(&mut client, "vips"), count(&mut client, "some")), (1, 0));
    expect(bare(&mut client, "DELETE", "/api/v1/segments/vips"), 204);
    refused(client.get("/api/v1/segments/vips"), "SEGMENT_NOT_FOUND");
    refused(bare(&mut client, "DELETE", "/api/v1/segments/vips"), "SEGMENT_NOT_FOUND");
}

pub fn bulk(client: &mut Client, body: &Value) -> String {
    let accepted = expect(client.post("/api/v1/notifications/bulk", body), 202);
    accepted["eventId"].as_str().expect("an id").to_owned()
}

pub fn bulk_status(client: &mut Client, id: &str) -> Value {
    expect(client.get(&format!("/api/v1/notifications/bulk/{id}")), 200)
}

pub fn eventually_is(client: &mut Client, id: &str, status: &str) -> Value {
    eventually(&format!("the bulk send is {status}"), || {
        let found = bulk_status(client, id);
        (found["status"] == status).then_some(found)
    })
}

/// Users with a device each, all but every tenth of whom agreed to push.
pub fn crowd(client: &mut Client, users: std::ops::Range<usize>) {
    for user in users {
        put_user(client, &format!("u{user}"));
        let consent = json!({"granted": user % 10 != 0, "version": "1"});
        let body = json!({"userId": format!("u{user}"), "deviceId": "phone", "platform": "android",
            "token": format!("stub:ok/u{user}"), "consent": consent});
        let response = client.post("/api/v1/devices", &body).expect("an answer");
        assert!(matches!(response.status, 200 | 201), "{}", response.text());
    }
}

pub fn message(segment: &str, more: Value) -> Value {
    let mut body =
        json!({"recipientQuery": {"segment": segment}, "channels": ["push"], "content": {"title": "Sale"}});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

/// How many deliveries one crash may leave ambiguous on a channel, as the server says when it starts.
fn bound(server: &Server) -> u64 {
    let log = server.log();
    let line =
        log.lines().find(|line| line.contains("ambiguous after a crash")).expect("it is said at start");
    let number = line.split("per_channel=").nth(1).expect("a number");
    number.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
}

/// The state of every delivery, page by page: each user once.
fn standings(client: &mut Client, id: &str) -> BTreeMap<String, String> {
    let (mut found, mut query) = (BTreeMap::new(), "?limit=500".to_owned());
    loop {
        let page = expect(client.get(&format!("/api/v1/notifications/{id}/status{query}")), 200);
        for one in page["deliveries"].as_array().expect("deliveries") {
            let text = |field: &str| one[field].as_str().expect("a text").to_owned();
            assert_eq!(found.insert(text("userId"), text("state")), None, "once: {one}");
        }
        let Some(cursor) = page["nextCursor"].as_str() else { return found };
        query = format!("?limit=500&cursor={cursor}");
    }
}

// fixes: usability §3.1, usability §3.27
#[test]
fn a_bulk_send_knows_its_name_and_its_users_before_it_begins() {
    let server = Server::start();
    let mut client = server.client();
    crowd(&mut client, 0..12);
    put_segment(&mut client, "all", "everyone");
    let later = json!({"notificationId": "sale", "options": {"scheduledAt": in_ms(3_600_000)}});
    let id = bulk(&mut client, &message("all", later));
    for key in [id.as_str(), "sale"] {
        let found = bulk_status(&mut client, key);
        assert_eq!((&found["status"], &found["users"]), (&json!("scheduled"), &json!(12)), "{found}");
        assert_eq!((&found["eventId"], &found["notificationId"]), (&json!(id), &json!("sale")));
    }
    let listed = expect(client.get("/api/v1/notifications/bulk"), 200);
    assert_eq!(listed["bulks"][0]["notificationId"], "sale");
    let now = bulk(&mut client, &message("all", json!({"notificationId": "now"})));
    assert_eq!(bulk_status(&mut client, &now)["users"], 12);
}

// proves: BLK-01, BLK-03, BLK-05, BLK-06
/// The same at five million: `fantail-bench --only bulk`.
#[test]
fn a_bulk_send_killed_ten_times_has_no_gap_and_no_repeat() {
    const USERS: usize = 1_200;
    const KILLS: usize = 10;
    let post = Post::new();
    let (id, bound) = {
        let server = post.start(&[]);
        let mut client = server.client();
        crowd(&mut client, 0..USERS);
        put_segment(&mut client, "all", "everyone");
        eventually("every device can be used", || {
            let estimate =
                expect(client.post("/api/v1/notifications/bulk/estimate", &message("all", json!({}))), 200);
            assert_eq!(estimate["audience"], USERS);
            (estimate["channels"]["push"]["recipients"] == USERS * 9 / 10).then_some(())
        });
        let body = message("all", json!({"notificationId": "sale", "ratePerSecond": 400}));
        let id = bulk(&mut client, &body);
        assert_eq!(bulk(&mut client, &body), id, "the same again");
        put_user(&mut client, "late");
        let bound = bound(&server);
        server.kill();
        (id, bound)
    };
    for kill in 1..KILLS {
        let server = post.start(&[]);
        let mut client = server.client();
        // Spread over the walk, and somewhere in the steps around.
        let before = bulk_status(&mut client, &id)["lookedAt"].as_u64().expect("a number");
        let far_enough = before.max((USERS * kill / KILLS) as u64);
        eventually("it goes on", || {
            let found = bulk_status(&mut client, &id);
            (found["lookedAt"].as_u64() > Some(far_enough) || found["status"] == "done").then_some(())
        });
        server.kill();
    }
    let server = post.start(&[]);
    let mut client = server.client();
    let done = eventually_is(&mut client, &id, "done");
    assert_eq!((&done["users"], &done["lookedAt"]), (&json!(USERS), &json!(USERS)), "{done}");
    let members = USERS * 9 / 10;
    assert_eq!(done["members"], members, "whoever came later is not in it: {done}");
    assert_eq!(done["skipped"], json!({"no_consent": USERS / 10}), "{done}");
    let states = standings(&mut client, &id);
    let ended = |state: &str| states.values().filter(|found| *found == state).count();
    assert_eq!((states.len(), ended("sent") + ended("unconfirmed")), (members, members), "{done}");
    server.stop();
    let arrived = post.arrived();
    assert!(arrived.values().all(|copies| *copies == 1), "nobody is told twice");
    assert!(arrived.len() >= ended("sent"), "whatever counts as sent arrived");
    let unseen = members - arrived.len();
    assert!(unseen <= ended("unconfirmed"), "whoever was not told is listed: {unseen} of {done}");
    let bound = bound * KILLS as u64;
    assert!(ended("unconfirmed") as u64 <= bound, "no more than what was said: {done}");
    run(&["check", "--data", post.directory.path("data").to_str().expect("a path")]);
}

// proves: BLK-05, BLK-11
#[test]
fn a_bulk_send_is_paused_paced_and_called_off() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    crowd(&mut client, 1..10);
    put_segment(&mut client, "all", r#"reachable("push")"#);
    eventually("every device can be used", || (count(&mut client, "all") == 9).then_some(()));
    let id = bulk(&mut client, &message("all", json!({"spreadOverMinutes": 60})));
    let steer = |client: &mut Client, word: &str, status: u16| {
        expect(bare(client, "POST", &format!("/api/v1/notifications/bulk/{id}/{word}")), status)
    };
    assert_eq!(steer(&mut client, "pause", 200)["segment"], "all");
    eventually_is(&mut client, &id, "paused");
    let faster = json!({"ratePerSecond": 1_000});
    expect(client.json("PATCH", &format!("/api/v1/notifications/bulk/{id}"), &faster), 200);
    assert_eq!(eventually_is(&mut client, &id, "paused")["status"], "paused");
    steer(&mut client, "resume", 200);
    let done = eventually_is(&mut client, &id, "done");
    assert_eq!((&done["members"], &done["channels"][0]["counts"]["sent"]), (&json!(9), &json!(9)), "{done}");
    // Called off, it passes nobody else.
    let id = bulk(&mut client, &message("all", json!({"spreadOverMinutes": 60})));
    let steer = |client: &mut Client, word: &str| {
        bare(client, "POST", &format!("/api/v1/notifications/bulk/{id}/{word}"))
    };
    expect(steer(&mut client, "cancel"), 200);
    let ended = eventually("its work is closed", || {
        let found = bulk_status(&mut client, &id);
        (found["status"] == "cancelled" && found["channels"][0]["done"] == true).then_some(found)
    });
    assert!(ended["members"].as_u64() < Some(9), "{ended}");
    refused(steer(&mut client, "resume"), "BULK_ENDED");
    refused(client.get("/api/v1/notifications/bulk/nothing"), "EVENT_NOT_FOUND");
    for (bad, pointer) in [
        (message("all", json!({"ratePerSecond": 1, "spreadOverMinutes": 1})), "/spreadOverMinutes"),
        (message("all", json!({"channels": []})), "/channels"),
        (message("all", json!({"offPeak": {"start": "25:00", "end": "06:00"}})), "/offPeak/start"),
        (message("", json!({})), "/recipientQuery/segment"),
    ] {
        let problem = refused(client.post("/api/v1/notifications/bulk", &bad), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    refused(client.post("/api/v1/notifications/bulk", &message("none", json!({}))), "SEGMENT_NOT_FOUND");
}
