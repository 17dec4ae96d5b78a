//! How much a user gets at most, over the API, with a clock that the test moves.

use crate::deliveries::{Post, metric, register, send};
use crate::moved_clock::start_at;
use crate::outages::titled;
use crate::respect::{eventually_stands, patch};
use crate::world::{expect, put_user};
use fantail_server::client::Client;
use serde_json::{Value, json};

fn outcome(client: &mut Client, id: &str, priority: &str, state: &str) -> (Value, String) {
    let mut body = titled(id, &["ann"], "push", "Hello");
    body["priority"] = json!(priority);
    let id = send(client, &body);
    eventually_stands(client, &id, "ann", state)
}

fn capped(client: &mut Client, id: &str) {
    let (inputs, text) = outcome(client, id, "normal", "suppressed");
    assert_eq!(inputs["code"], "frequency_capped");
    assert!(text.contains("had enough on this channel"), "{text}");
}

// proves: PRF-02, PRF-04, RL-03, DEL-18
#[test]
fn nobody_gets_more_than_wanted_not_even_after_a_crash() {
    let post = Post::new();
    // 23:10 in Vienna.
    let (server, _clock) = start_at(&post, "2026-06-10T21:10:00Z", &[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    expect(client.json("PUT", "/api/v1/users/ann", &json!({"timezone": "Europe/Vienna"})), 200);
    register(&mut client, "ann", "phone", "stub:ok/ann");
    register(&mut client, "ann", "tablet", "stub:ok/ann-2");
    let wanted = json!({"channels": {"push": {"frequency": {"maxPerHour": 2, "maxPerDay": 3}}}});
    assert_eq!(patch(&mut client, "ann", &wanted)["channels"], wanted["channels"]);
    outcome(&mut client, "n1", "normal", "sent");
    outcome(&mut client, "n2", "critical", "sent");
    capped(&mut client, "n3");
    drop(server.kill());
    let (server, mut clock) = start_at(&post, "2026-06-10T21:20:00Z", &[]);
    let mut client = server.client();
    capped(&mut client, "n4");
    outcome(&mut client, "n5", "critical", "sent");
    // Another hour, and in Vienna another day.
    clock.move_to("2026-06-10T22:00:00Z");
    outcome(&mut client, "n6", "normal", "sent");
    outcome(&mut client, "n7", "low", "sent");
    capped(&mut client, "n8");
    clock.move_to("2026-06-10T23:00:00Z");
    outcome(&mut client, "n9", "normal", "sent");
    capped(&mut client, "n10");
    patch(&mut client, "ann", &json!({"channels": {"push": {"frequency": {"maxPerDay": 4}}}}));
    outcome(&mut client, "n11", "normal", "sent");
    patch(&mut client, "ann", &json!({"channels": null}));
    outcome(&mut client, "n12", "normal", "sent");
    let told = expect(client.get("/api/v1/users/ann/preferences/history?limit=1"), 200);
    let old = &told["changes"][0]["oldPreferences"]["channels"]["push"]["frequency"];
    assert_eq!(*old, json!({"maxPerHour": 2, "maxPerDay": 4}));
    assert!(metric(&mut client, "fantail_delivery_outcomes_total", "frequency_capped") > 0);
}

// proves: RL-01, PRF-02
#[test]
fn tenants_limit_what_comes_at_once() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T10:00:00Z", &[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    let burst = json!({"channels": {"push": {"frequency": {"burst": {"size": 1, "refillSeconds": 600}}}}});
    expect(client.json("PATCH", "/api/v1/preferences/defaults", &burst), 200);
    outcome(&mut client, "n1", "normal", "sent");
    clock.move_to("2026-06-10T10:09:00Z");
    capped(&mut client, "n2");
    clock.move_to("2026-06-10T10:10:01Z");
    outcome(&mut client, "n3", "normal", "sent");
}
