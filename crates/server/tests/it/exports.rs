//! Everything that is kept about one user, given to the user; and what goes by itself when its time is over.

use crate::deliveries::{Post, register, send};
use crate::http::head_of;
use crate::moved_clock::start_at;
use crate::outages::titled;
use crate::server::Server;
use crate::world::{bare, eventually, expect, follow, inbox, key_of, put_user, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;

/// The lines of an export, which says that it is whole.
fn export(client: &mut Client, user: &str) -> Vec<Value> {
    let response = client.get(&format!("/api/v1/users/{user}/export")).expect("an answer");
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/x-ndjson")));
    let text = response.text();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let end = lines.pop().expect("an end");
    assert_eq!(end, json!({"kind": "end", "data": {"lines": lines.len()}}));
    lines
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).map(|line| &line["data"]).collect()
}

// proves: GDP-01
// fixes: usability C13
#[test]
fn a_user_gets_everything_that_is_kept() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    let profile = json!({"attributes": {"name": "Ann"}, "email": "ok/ann@stub.test", "locale": "de"});
    expect(client.json("PUT", "/api/v1/users/ann", &profile), 201);
    register(&mut client, "ann", "phone", "stub:ok/ann");
    put_user(&mut client, "bob");
    follow(&mut client, "ann", "carl");
    expect(bare(&mut client, "PUT", "/api/v1/topics/news/subscribers/ann"), 204);
    let wanted = json!({"categories": {"likes": {"enabled": false}}});
    expect(client.json("PATCH", "/api/v1/users/ann/preferences", &wanted), 200);
    // More than a page of them.
    let mut last = String::new();
    for no in 0..130 {
        last = send(&mut client, &titled(&format!("n{no}"), &["ann", "bob"], "push", &format!("Hello {no}")));
    }
    eventually("all of them were sent", || (post.lines().len() == 130).then_some(()));
    eventually("the last one is answered", || {
        let status = expect(client.get(&format!("/api/v1/notifications/{last}/status?limit=10")), 200);
        status.to_string().contains("\"sent\"").then_some(())
    });
    let lines = export(&mut client, "ann");
    let [profile] = of_kind(&lines, "profile")[..] else { panic!("one profile") };
    assert_eq!((&profile["userId"], &profile["attributes"]["name"]), (&json!("ann"), &json!("Ann")));
    assert_eq!((&profile["email"], &profile["locale"]), (&json!("ok/ann@stub.test"), &json!("de")));
    assert_eq!(of_kind(&lines, "device")[0]["deviceId"], "phone");
    assert_eq!(of_kind(&lines, "preferences")[0]["categories"], wanted["categories"]);
    assert_eq!(of_kind(&lines, "consent")[0]["channel"], "push");
    assert_eq!(of_kind(&lines, "preferenceChange").len(), 2);
    let mut lists: Vec<String> = of_kind(&lines, "follow").iter().map(|one| one.to_string()).collect();
    lists.sort();
    assert_eq!(lists, [r#"{"actor":"carl","isOn":true}"#, r#"{"isOn":true,"topic":"news"}"#]);
    let notifications = of_kind(&lines, "notification");
    assert_eq!((notifications.len(), &notifications[0]["content"]["title"]), (130, &json!("Hello 129")));
    let deliveries = of_kind(&lines, "delivery");
    assert_eq!(deliveries.len(), 130);
    assert!(deliveries.iter().all(|one| one["begunAt"].is_string() && one["begunAt"] == one["beganAt"]));
    assert!(deliveries.iter().all(|one| one["attempts"].as_array().is_some_and(|all| !all.is_empty())));
    assert!(of_kind(&export(&mut client, "bob"), "device").is_empty(), "nothing of others");
    refused(client.get("/api/v1/users/nobody/export"), "USER_NOT_FOUND");
    let mut reader = server.with_key(&key_of(&mut server.admin(), "default", &["users:read", "inbox:read"]));
    refused(reader.get("/api/v1/users/ann/export"), "FORBIDDEN");
}

/// Asks for an export and reads no more than the head of it.
fn begin_export(server: &Server, user: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).expect("the server listens");
    let key = server.key("default.key");
    let head =
        format!("GET /api/v1/users/{user}/export HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("the server reads");
    let head = head_of(&mut stream);
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    stream
}

// fixes: security M8
#[test]
fn a_tenant_reads_so_many_exports_at_a_time() {
    const EXPORTS_AT_ONCE: usize = 8;
    // More than sockets take that nobody reads.
    const NOTIFICATIONS: usize = 400;
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    put_user(&mut client, "bob");
    let content = json!({"title": "Hello", "data": {"text": "x".repeat(30_000)}});
    let recipients = json!([{"userId": "ann"}]);
    for no in 0..NOTIFICATIONS {
        let body = json!({"notificationId": format!("n{no}"), "content": content, "recipients": recipients});
        expect(client.json("POST", "/api/v1/notifications", &body), 202);
    }
    eventually("all of them are in the inbox", || {
        (inbox(&mut client, "ann", "limit=1")["unread"] == NOTIFICATIONS).then_some(())
    });
    let open: Vec<TcpStream> = (0..EXPORTS_AT_ONCE).map(|_| begin_export(&server, "ann")).collect();
    let response = client.get("/api/v1/users/bob/export").expect("an answer");
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
    assert_eq!(response.json()["code"], "QUEUE_FULL");
    drop(open);
    eventually("there is room again", || {
        let response = client.get("/api/v1/users/bob/export").expect("an answer");
        (response.status == 200).then_some(())
    });
    // Each of them ends, and makes room for the next one.
    for _ in 0..2 * EXPORTS_AT_ONCE {
        let lines = export(&mut client, "ann");
        assert_eq!(of_kind(&lines, "notification").len(), NOTIFICATIONS);
    }
}

// proves: GDP-02, INB-05, DED-07
#[test]
fn what_is_past_its_time_goes_by_itself() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-01-01T12:00:00Z", &[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    let id = send(&mut client, &titled("n1", &["ann"], "push", "Hello"));
    let path = format!("/api/v1/notifications/{id}/status?limit=10");
    eventually("it was sent", || {
        expect(client.get(&path), 200).to_string().contains("\"sent\"").then_some(())
    });
    let kept = |client: &mut Client| {
        let lines = export(client, "ann");
        (
            of_kind(&lines, "delivery").len(),
            inbox(client, "ann", "state=all")["notifications"].as_array().map_or(0, Vec::len),
        )
    };
    // A day before the end of the guard everything is there, a day after it the deliveries are gone.
    clock.move_to("2026-01-30T12:00:00Z");
    assert_eq!(kept(&mut client), (1, 1));
    // Rounds of retention are a minute apart.
    let mut minutes = (0..1_440).map(|minute| format!("{:02}:{:02}:30Z", minute / 60, minute % 60));
    eventually("the guard has ended", || {
        clock.move_to(&format!("2026-02-01T{}", minutes.next().expect("less than a day")));
        (kept(&mut client) == (0, 1)).then_some(())
    });
    refused(client.get(&path), "EVENT_NOT_FOUND");
    // And the same for the inbox after 90 days.
    clock.move_to("2026-03-31T12:00:00Z");
    assert_eq!(kept(&mut client), (0, 1));
    eventually("the entry has expired", || {
        clock.move_to(&format!("2026-04-03T{}", minutes.next().expect("less than a day")));
        (kept(&mut client) == (0, 0)).then_some(())
    });
}
