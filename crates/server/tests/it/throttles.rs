//! One of a kind for each user, then none for a while: over the API, with a clock that the test moves.

use crate::deliveries::{Post, metric, register, send};
use crate::moved_clock::start_at;
use crate::outages::titled;
use crate::respect::eventually_stands;
use crate::world::{expect, put_user};
use fantail_server::client::Client;
use serde_json::{Value, json};

fn alarm(client: &mut Client, id: &str, door: &str, priority: &str, state: &str) -> (Value, String) {
    let mut body = titled(id, &["ann"], "push", "Somebody is at the door");
    body["category"] = json!("alarm");
    body["priority"] = json!(priority);
    body["content"]["data"] = json!({"door": door});
    let id = send(client, &body);
    eventually_stands(client, &id, "ann", state)
}

fn too_soon(client: &mut Client, id: &str, door: &str) {
    let (inputs, text) = alarm(client, id, door, "normal", "suppressed");
    assert_eq!(inputs["code"], "throttled");
    assert!(text.contains("the user got one of its kind a moment ago"), "{text}");
}

// proves: DEL-18, TRK-06
#[test]
fn one_of_a_kind_is_enough_for_a_while_also_after_a_crash() {
    let post = Post::new();
    let (server, _clock) = start_at(&post, "2026-06-10T12:00:00Z", &[]);
    let mut client = server.client();
    let policy = json!({"throttle": {"perSeconds": 3600, "key": "{{ data.door }}"}});
    expect(client.json("PUT", "/api/v1/categories/alarm", &policy), 201);
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    register(&mut client, "ann", "tablet", "stub:ok/ann-2");
    alarm(&mut client, "n1", "front", "normal", "sent");
    too_soon(&mut client, "n2", "front");
    alarm(&mut client, "n3", "back", "normal", "sent");
    server.kill();

    let (server, mut clock) = start_at(&post, "2026-06-10T12:30:00Z", &[]);
    let mut client = server.client();
    too_soon(&mut client, "n4", "front");
    alarm(&mut client, "n5", "front", "critical", "sent");
    // It counts all the same.
    clock.move_to("2026-06-10T13:10:00Z");
    too_soon(&mut client, "n6", "front");
    alarm(&mut client, "n7", "back", "normal", "sent");
    clock.move_to("2026-06-10T13:40:00Z");
    alarm(&mut client, "n8", "front", "normal", "sent");
    assert_eq!(post.lines().len(), 10, "five of them, to two devices each");
    assert_eq!(metric(&mut client, "fantail_delivery_outcomes_total", "reason=\"throttled\""), 4);
    server.stop();
}
