//! Who did it: every action of the control plane names the key that asked for it, and what it replaced.

use crate::audit::entries;
use crate::deliveries::{Post, counts, notification, register, send};
use crate::server::Server;
use crate::world::{ALL_SCOPES, bare, event, eventually, expect, key_of, post, put_user};
use fantail_server::client::{Client, Request};
use serde_json::{Value, json};

/// The id inside the text of a key; what follows is the secret.
pub fn id_of(key: &str) -> String {
    key.split('_').nth(1).expect("an id").to_owned()
}

/// What the log says of an action, in order.
fn actions(log: &[Value], action: &str) -> Vec<Value> {
    log.iter().map(|entry| &entry["fact"]).filter(|fact| fact["action"] == action).cloned().collect()
}

/// The facts of a kind.
fn facts(log: &[Value], kind: &str) -> Vec<Value> {
    log.iter().filter(|entry| entry["kind"] == kind).map(|entry| entry["fact"].clone()).collect()
}

/// Waits until the log says this.
fn eventually_said(client: &mut Client, what: &str, is_said: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    eventually(what, || {
        let log = entries(client, "");
        is_said(&log).then_some(log)
    })
}

fn template(server: &Server, key: &str, title: &str, condition: (&str, &str)) {
    let body = json!({
        "id": "order", "category": "orders", "defaultLocale": "en",
        "channels": {"push": {"title": title, "body": "It is on its way"}},
    })
    .to_string();
    let headers = [("content-type", "application/json"), condition];
    let path = "/api/v1/templates/order";
    let request = Request { method: "PUT", path, headers: &headers, body: body.as_bytes() };
    let response = server.with_key(key).send(&request).expect("an answer");
    assert!(matches!(response.status, 200 | 201), "{}", response.text());
}

/// Each goes on where the one before ended; the first one began with nothing, unless it is older than that.
fn check_linked(facts: &[Value]) {
    assert!(facts.len() > 1, "{facts:#?}");
    for pair in facts.windows(2) {
        assert!(pair[1]["before"].is_string(), "{facts:#?}");
        assert_eq!(pair[0]["after"], pair[1]["before"], "{facts:#?}");
    }
}

// proves: AUD-03
#[test]
fn control_plane_actions_name_the_key_and_what_they_replaced() {
    let server = Server::start();
    let mut admin = server.admin();
    let (first, second) =
        (key_of(&mut admin, "default", ALL_SCOPES), key_of(&mut admin, "default", ALL_SCOPES));
    let (one, two) = (id_of(&first), id_of(&second));
    let (mut first_client, mut second_client) = (server.with_key(&first), server.with_key(&second));

    let name = json!({"name": "Renamed"});
    expect(admin.json("PATCH", "/api/v1/tenants/default", &name), 200);
    let name = json!({"name": "Renamed again"});
    expect(first_client.json("PATCH", "/api/v1/tenants/default", &name), 200);
    let spare = key_of(&mut admin, "default", &["inbox:read"]);
    let spare = id_of(&spare);
    expect(bare(&mut second_client, "DELETE", &format!("/api/v1/tenants/default/keys/{spare}")), 204);
    template(&server, &first, "Sent", ("if-none-match", "*"));
    template(&server, &second, "Shipped", ("if-match", "\"1\""));
    expect(bare(&mut first_client, "DELETE", "/api/v1/templates/order"), 204);
    put_user(&mut first_client, "ann");
    let hook = json!({"url": "https://hooks.example.com/fantail"});
    let made = expect(first_client.post("/api/v1/webhooks", &hook), 201);
    let hook = made["webhook"]["webhookId"].as_str().expect("an id").to_owned();
    let since = json!({"since": "2026-01-01T00:00:00Z"});
    let replayed = first_client.post(&format!("/api/v1/webhooks/{hook}/replay"), &since).expect("an answer");
    assert_eq!(replayed.status / 100, 2, "{}", replayed.text());
    expect(bare(&mut second_client, "DELETE", &format!("/api/v1/webhooks/{hook}")), 204);
    let address = "/api/v1/suppressions/email/ann%40example.com";
    expect(first_client.json("PUT", address, &json!({"reason": "manual"})), 200);
    expect(second_client.json("PUT", address, &json!({"reason": "complaint"})), 200);
    expect(bare(&mut first_client, "DELETE", address), 204);

    let log = eventually_said(&mut first_client, "everything is in the log", |log| {
        !actions(log, "address.unsuppress").is_empty() && !actions(log, "webhook.delete").is_empty()
    });
    let actors = |action: &str| -> Vec<String> {
        actions(&log, action).iter().map(|fact| fact["actor"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(actors("tenant.put"), ["system", "admin", &one]);
    assert_eq!(actors("key.put"), ["system", "admin", "admin", "admin"]);
    assert_eq!(actors("key.revoke"), [&*two]);
    assert_eq!(actors("template.put"), [&*one, &*two]);
    assert_eq!(actors("template.delete"), [&*one]);
    assert_eq!(actors("webhook.put"), [&*one]);
    let replayed = actors("webhook.replay");
    assert!(!replayed.is_empty() && replayed.iter().all(|actor| *actor == one), "{replayed:?}");
    assert_eq!(actors("webhook.delete"), [&*two]);
    assert_eq!(actors("address.suppress"), [&*one, &*two]);
    assert_eq!(actors("address.unsuppress"), [&*one]);

    let of = |wanted: &[&str], target: &str| -> Vec<Value> {
        let facts = log.iter().map(|entry| &entry["fact"]);
        let meant = |fact: &&Value| {
            wanted.iter().any(|action| fact["action"] == *action)
                && fact["target"].as_str().is_some_and(|text| text.starts_with(target))
        };
        facts.filter(meant).cloned().collect()
    };
    check_linked(&of(&["tenant.put"], "default"));
    check_linked(&of(&["key.put", "key.revoke"], &spare));
    check_linked(&of(&["template.put", "template.delete"], "order"));
    check_linked(&of(&["webhook.put", "webhook.delete"], &hook));
    check_linked(&of(&["address.suppress", "address.unsuppress"], ""));
    let secrets = [&first, &second].map(|key| key.split('_').nth(2).expect("a secret"));
    let text = serde_json::to_string(&log).expect("text");
    assert!(secrets.iter().all(|secret| !text.contains(secret)), "no secret is in the log");
}

// proves: AUD-03, AUD-04
#[test]
fn what_was_done_about_notifications_and_people_names_the_key() {
    let house = Post::new();
    let server = house.start(&[]);
    let mut admin = server.admin();
    let (first, second) =
        (key_of(&mut admin, "default", ALL_SCOPES), key_of(&mut admin, "default", ALL_SCOPES));
    let (one, two) = (id_of(&first), id_of(&second));
    let (mut first, mut second) = (server.with_key(&first), server.with_key(&second));
    for user in ["ann", "bob"] {
        put_user(&mut first, user);
    }
    register(&mut first, "ann", "phone", "stub:malformed");
    register(&mut first, "bob", "phone", "stub:ok");
    let poison = send(&mut first, &notification("n1", &["ann"], json!({})));
    counts(&mut first, &poison, &json!({"dead": 1}));
    let choice = json!({"eventId": poison});
    expect(second.post("/api/v1/deadletters/redrive", &choice), 200);
    counts(&mut first, &poison, &json!({"dead": 1}));
    eventually("it died again and is dropped", || {
        let dropped = expect(first.post("/api/v1/deadletters/drop", &choice), 200);
        (dropped["count"] == 1).then_some(())
    });
    let later = json!({"options": {"scheduledAt": crate::world::in_ms(3_600_000)}});
    let held = send(&mut second, &notification("n2", &["bob"], later));
    expect(bare(&mut first, "POST", &format!("/api/v1/notifications/{held}/cancel")), 200);
    let posted = post(&mut first, &event("e1", &json!({"users": ["bob"]})));
    expect(bare(&mut second, "DELETE", &format!("/api/v1/events/{posted}")), 204);
    expect(bare(&mut second, "DELETE", "/api/v1/devices/bob/phone"), 204);
    expect(bare(&mut first, "DELETE", "/api/v1/users/ann"), 204);

    let log = eventually_said(&mut first, "everything is in the log", |log| {
        !facts(log, "erased").is_empty()
            && !actions(log, "key.destroy").is_empty()
            && facts(log, "endpoint").iter().any(|fact| fact["status"] == "gone")
    });
    let check = |facts: &[Value], expected: &[&str]| {
        let actors: Vec<&str> = facts.iter().map(|fact| fact["actor"].as_str().expect("a name")).collect();
        assert_eq!(actors, expected, "{facts:#?}");
    };
    let accepted = |id: &str| -> Vec<Value> {
        facts(&log, "accepted").into_iter().filter(|fact| fact["eventId"] == id).collect()
    };
    check(&accepted(&poison), &[&one]);
    check(&accepted(&held), &[&two]);
    check(&facts(&log, "redriven"), &[&two]);
    check(&actions(&log, "deadletter.drop"), &[&one]);
    check(&facts(&log, "cancelled"), &[&one]);
    check(&actions(&log, "event.retract"), &[&two]);
    check(&facts(&log, "erased"), &[&one]);
    check(&actions(&log, "key.destroy"), &["system"]);
    let gone: Vec<Value> =
        facts(&log, "endpoint").into_iter().filter(|fact| fact["status"] == "gone").collect();
    assert!(gone.iter().any(|fact| fact["actor"] == *two), "{gone:#?}");
    let used: Vec<Value> =
        facts(&log, "endpoint").into_iter().filter(|fact| fact["status"] == "active").collect();
    check(&used, &["system", "system"]);
}
