//! Segments and bulk sends, over the API.

use crate::server::Server;
use crate::world::{bare, expect, put_user, refused};
use fantail_server::client::{Client, Request};
use serde_json::{Value, json};

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

fn upload(
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
