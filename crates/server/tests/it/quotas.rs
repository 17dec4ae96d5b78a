//! How much a tenant may have: refused at the limit, shown, given back, never asked of what makes room.

use crate::deliveries::Post;
use crate::moved_clock::start_at;
use crate::server::Server;
use crate::world::{ALL_SCOPES, bare, event, eventually, expect, in_ms, put_user, refused, tenant_with_key};
use fantail_server::client::Client;
use serde_json::{Value, json};

const HOUR_MS: u64 = 3_600_000;
const PATH: &str = "/api/v1/tenants/acme";

fn usage(admin: &mut Client, of: &str) -> u64 {
    expect(admin.get(PATH), 200)["usage"][of].as_u64().expect("a number")
}

fn limit(admin: &mut Client, quota: &Value) {
    expect(admin.json("PATCH", PATH, &json!({"quota": quota})), 200);
}

fn phone(user: &str, device: &str) -> Value {
    json!({"userId": user, "deviceId": device, "platform": "android", "token": format!("stub:{user}{device}")})
}

fn later(id: &str) -> Value {
    let options = json!({"scheduledAt": in_ms(HOUR_MS)});
    json!({"notificationId": id, "content": {"title": "Hi"}, "recipients": [{"userId": "ann"}], "options": options})
}

fn schedule() -> Value {
    let send = json!({"content": {"title": "Hi"}, "recipients": [{"userId": "ann"}]});
    json!({"cron": "0 8 * * *", "timezone": "UTC", "notification": send})
}

/// The problem says which limit, and when to come back if that helps.
fn over(response: std::io::Result<fantail_server::client::Response>, says: &str, comes_back: bool) {
    let response = response.expect("an answer");
    assert_eq!(response.header("retry-after").is_some(), comes_back, "{}", response.text());
    let problem = refused(Ok(response), "QUOTA_EXCEEDED");
    assert_eq!((&problem["status"], &problem["type"]), (&json!(409), &json!("/errors/quota-exceeded")));
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(says)), "{problem}");
}

// fixes: security M8
#[test]
fn each_quota_is_refused_at_its_limit_and_deleting_makes_room() {
    let server = Server::start();
    let mut admin = server.admin();
    let mut acme = server.with_key(&tenant_with_key(&mut admin, "acme", ALL_SCOPES));
    limit(&mut admin, &json!({"users": 2, "devices": 1, "schedules": 1, "waiting": 1}));
    let user = |acme: &mut Client, id: &str| acme.json("PUT", &format!("/api/v1/users/{id}"), &json!({}));
    put_user(&mut acme, "ann");
    put_user(&mut acme, "bob");
    over(user(&mut acme, "cleo"), "at most 2 users", false);
    expect(user(&mut acme, "bob"), 200);
    let batch = json!({"users": [{"userId": "ann"}, {"userId": "dan"}]});
    let put = expect(acme.post("/api/v1/users/batch", &batch), 200);
    assert_eq!(put["errors"][0]["code"], "QUOTA_EXCEEDED", "{put}");
    over(acme.post("/api/v1/users/batch", &json!({"users": [{"userId": "dan"}]})), "2 users", false);

    expect(acme.post("/api/v1/devices", &phone("ann", "one")), 201);
    over(acme.post("/api/v1/devices", &phone("bob", "one")), "at most 1 devices", false);
    expect(acme.post("/api/v1/devices", &phone("ann", "one")), 200);
    expect(acme.json("PUT", "/api/v1/schedules/daily", &schedule()), 201);
    over(acme.json("PUT", "/api/v1/schedules/weekly", &schedule()), "at most 1 schedules", false);
    expect(acme.json("PUT", "/api/v1/schedules/daily", &schedule()), 200);
    let send = |acme: &mut Client, body: &Value| acme.post("/api/v1/notifications", body);
    let first = later("first");
    expect(send(&mut acme, &first), 202);
    over(send(&mut acme, &later("second")), "at most 1 scheduled notifications", true);
    expect(send(&mut acme, &first), 202);
    let shown = expect(admin.get(PATH), 200);
    for (resource, count) in [("users", 2), ("devices", 1), ("schedules", 1), ("waiting", 1)] {
        assert_eq!(shown["usage"][resource], count, "{shown}");
    }
    assert_eq!(
        (&shown["quota"]["users"], &shown["quota"]["storedBytes"]),
        (&json!(2), &json!(274_877_906_944_u64))
    );
    let metrics = server.anonymous().get("/metrics").expect("an answer").text();
    for line in [
        r#"fantail_tenant_usage{tenant="acme",resource="users"} 2"#,
        r#"fantail_quota_exceeded_total{tenant="acme",resource="users"} 3"#,
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }

    expect(bare(&mut acme, "POST", "/api/v1/notifications/first/cancel"), 200);
    expect(send(&mut acme, &later("second")), 202);
    expect(bare(&mut acme, "DELETE", "/api/v1/schedules/daily"), 204);
    expect(acme.json("PUT", "/api/v1/schedules/weekly", &schedule()), 201);
    // The device goes with its user.
    expect(bare(&mut acme, "DELETE", "/api/v1/users/ann"), 204);
    assert_eq!(usage(&mut admin, "devices"), 0);
    put_user(&mut acme, "cleo");
    expect(acme.post("/api/v1/devices", &phone("cleo", "one")), 201);
    let erased = json!({"userId": "cleo"});
    expect(acme.post("/api/v1/erasures", &erased), 202);
    assert_eq!((usage(&mut admin, "users"), usage(&mut admin, "devices")), (1, 0));

    refused(acme.json("PATCH", PATH, &json!({"quota": {}})), "FORBIDDEN");
    refused(admin.json("PATCH", PATH, &json!({"quota": {"people": 1}})), "INVALID_REQUEST");
    limit(&mut admin, &json!({}));
    assert_eq!(expect(admin.get(PATH), 200)["quota"]["users"], 200_000_000, "as the server says");
}

// fixes: security M8
#[test]
fn stored_bytes_are_refused_and_what_makes_room_is_not() {
    let server = Server::start();
    let mut admin = server.admin();
    let mut acme = server.with_key(&tenant_with_key(&mut admin, "acme", ALL_SCOPES));
    let mut other = server.client();
    put_user(&mut acme, "ann");
    put_user(&mut other, "ann");
    expect(acme.post("/api/v1/devices", &phone("ann", "one")), 201);
    let full = usage(&mut admin, "storedBytes");
    assert!(full > 0);
    limit(&mut admin, &json!({"storedBytes": full + 5_000}));
    let large = |client: &mut Client, id: &str| {
        let mut event = event(id, &json!({"users": ["ann"]}));
        event["data"]["content"]["body"] = json!("x".repeat(1_500));
        client.post("/api/v1/events", &event)
    };
    let accepted =
        (0..10).take_while(|no| large(&mut acme, &format!("e{no}")).expect("an answer").status == 202);
    let accepted = accepted.count();
    assert!((1..4).contains(&accepted), "{accepted} of 1.5 KB fit into 5 KB");
    over(large(&mut acme, "more"), "stored bytes", false);
    expect(large(&mut acme, "e0"), 202);
    expect(large(&mut other, "more"), 202);
    assert!(usage(&mut admin, "storedBytes") <= full + 5_000);
    // Lowered below what is there: nothing grows any more, and everything that makes room goes on.
    limit(&mut admin, &json!({"storedBytes": 1}));
    over(acme.json("PUT", "/api/v1/users/bob", &json!({})), "at most 1 stored bytes", false);
    put_user(&mut acme, "ann");
    let consent = json!({"granted": false, "version": "1", "source": "app"});
    expect(acme.json("PUT", "/api/v1/users/ann/consents/push", &consent), 200);
    expect(bare(&mut acme, "DELETE", "/api/v1/devices/ann/one"), 204);
    expect(acme.json("PUT", "/api/v1/suppressions/email/ann@example.com", &json!({})), 200);
    expect(bare(&mut acme, "DELETE", "/api/v1/users/ann"), 204);
}

/// A schedule that was accepted while there was room.
#[test]
fn runs_of_schedules_come_to_the_limit_too() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T07:58:00Z", &[]);
    let mut admin = server.admin();
    let mut acme = server.with_key(&tenant_with_key(&mut admin, "acme", ALL_SCOPES));
    put_user(&mut acme, "ann");
    expect(acme.json("PUT", "/api/v1/schedules/daily", &schedule()), 201);
    limit(&mut admin, &json!({"storedBytes": 1}));
    clock.move_to("2026-06-10T08:00:00Z");
    let last = eventually("it ran", || {
        let last = expect(acme.get("/api/v1/schedules/daily"), 200)["lastRun"].clone();
        (!last.is_null()).then_some(last)
    });
    assert_eq!(last["refused"], "QUOTA_EXCEEDED", "{last}");
    let before = usage(&mut admin, "storedBytes");
    limit(&mut admin, &json!({"storedBytes": 1 << 30}));
    clock.move_to("2026-06-11T08:00:00Z");
    eventually("the next one is issued", || {
        let last = expect(acme.get("/api/v1/schedules/daily"), 200)["lastRun"].clone();
        last["eventId"].is_string().then_some(())
    });
    assert!(usage(&mut admin, "storedBytes") > before, "what it stores is counted");
    server.stop();
}

// fixes: security M8
#[test]
fn what_is_counted_is_the_same_after_a_crash() {
    let server = Server::start_with(&[], &[("FANTAIL_QUOTA_USERS", "3"), ("FANTAIL_QUOTA_STORED_MIB", "0")]);
    let mut admin = server.admin();
    let key = tenant_with_key(&mut admin, "acme", ALL_SCOPES);
    let mut acme = server.with_key(&key);
    for user in ["ann", "bob", "cleo"] {
        put_user(&mut acme, user);
    }
    expect(acme.post("/api/v1/devices", &phone("ann", "one")), 201);
    expect(acme.post("/api/v1/notifications", &later("first")), 202);
    let before = expect(admin.get(PATH), 200);
    assert!(before["quota"].get("storedBytes").is_none(), "0 is no limit: {before}");
    let data = server.kill().expect("a directory of its own");
    let server = Server::start_in(&data.path("data"), &[], &[("FANTAIL_QUOTA_USERS", "3")]);
    let after = expect(server.admin().get(PATH), 200);
    assert_eq!(after["usage"], before["usage"]);
    over(server.with_key(&key).json("PUT", "/api/v1/users/dan", &json!({})), "at most 3 users", false);
}
