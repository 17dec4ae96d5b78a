//! Fallback chains through the whole house: with a clock that the test moves, and a stub that writes down what arrives.

use crate::deliveries::{Post, metric, notification, register, send};
use crate::moved_clock::{MovedClock, start_at};
use crate::respect::patch;
use crate::server::Server;
use crate::world::{eventually, expect, follow, post_by, put_user};
use fantail_server::client::Client;
use serde_json::{Value, json};

const NOON: &str = "2026-06-10T12:00:00Z";

fn chain(client: &mut Client, steps: &Value) {
    expect(client.json("PUT", "/api/v1/categories/alarm", &json!({"fallback": steps})), 201);
}

/// Half an hour, since the clock runs while a test does.
fn sms_if_silent() -> Value {
    json!([{"channel": "sms", "when": "noReceipt", "afterSeconds": 1800}])
}

/// Somebody with a phone that is pushed to, and its number.
fn person(client: &mut Client, name: &str, token: &str, number: &str) {
    put_user(client, name);
    register(client, name, "phone", token);
    let active = |client: &mut Client| metric(client, "fantail_endpoint_changes_total", "\"active\"");
    let before = active(client);
    expect(client.json("PUT", &format!("/api/v1/users/{name}"), &json!({"phone": number})), 200);
    eventually("the number can be used", || (active(client) > before).then_some(()));
}

fn alarm(client: &mut Client, id: &str, user: &str, channels: &[&str]) -> String {
    send(client, &notification(id, &[user], json!({"category": "alarm", "channels": channels})))
}

/// What a delivery by a channel came to, once it has this state, and the story as it is told then.
fn stands(client: &mut Client, id: &str, user: &str, channel: &str, state: &str) -> (Value, String) {
    eventually(&format!("{id} by {channel} is {state}"), || {
        let story = expect(client.get(&format!("/api/v1/notifications/{id}/explain?user={user}")), 200);
        let steps = story["steps"].as_array().expect("steps").clone();
        let of = |step: &&Value| step["step"] == "state" && step["channel"] == channel;
        let last = steps.iter().rfind(of)?;
        let is_so = last["inputs"]["state"] == state;
        is_so.then(|| (last["inputs"].clone(), story["text"].as_str().expect("a text").to_owned()))
    })
}

/// References of what arrived, in its order.
fn arrived(post: &Post) -> Vec<String> {
    post.lines().iter().map(|line| line.split(' ').next().expect("a reference").to_owned()).collect()
}

fn receipt(client: &mut Client, reference: &str, status: &str) {
    let body = json!({"receipts": [{"reference": reference, "status": status}]});
    assert_eq!(expect(client.post("/api/v1/receipts", &body), 200)["changed"], 1);
}

fn house(post: &Post, steps: &Value) -> (Server, MovedClock, Client) {
    let (server, clock) = start_at(post, NOON, &[]);
    let mut client = server.client();
    chain(&mut client, steps);
    person(&mut client, "ann", "stub:ok/ann", "+99912345601");
    (server, clock, client)
}

// proves: DEL-17, TRK-06, OBS-03
// fixes: usability P7
#[test]
fn push_without_a_receipt_becomes_one_message_after_its_time() {
    let post = Post::new();
    let (server, mut clock, mut client) = house(&post, &sms_if_silent());
    let id = alarm(&mut client, "n1", "ann", &["push", "sms"]);
    stands(&mut client, &id, "ann", "push", "sent");
    let (inputs, text) = stands(&mut client, &id, "ann", "sms", "deferred");
    assert_eq!(inputs["code"], "fallback_waiting");
    let listed = expect(client.get(&format!("/api/v1/notifications/{id}/status?limit=10")), 200);
    let of_sms = listed["deliveries"].as_array().expect("a list").iter().find(|one| one["channel"] == "sms");
    assert_eq!(of_sms.expect("it waits")["attempts"], 0, "nothing was tried");
    assert!(text.contains("sms: a fallback, if nobody says within 1800 s that push arrived"), "{text}");
    assert!(text.contains("unless the user is reached by then"), "{text}");
    clock.move_to("2026-06-10T12:25:00Z");
    stands(&mut client, &id, "ann", "sms", "deferred");
    assert_eq!(arrived(&post).len(), 1, "it has some minutes left");
    clock.move_to("2026-06-10T12:35:00Z");
    let (_, text) = stands(&mut client, &id, "ann", "sms", "sent");
    for part in ["push was accepted at 2026-06-10T12:00:00", "nobody said by 2026-06-10T12:35:0", ", so sms"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Whatever is said later, and however late it is, there is no second one.
    receipt(&mut client, &arrived(&post)[0], "delivered");
    clock.move_to("2026-06-10T15:00:00Z");
    let other = alarm(&mut client, "n2", "ann", &["push", "sms"]);
    stands(&mut client, &other, "ann", "push", "sent");
    assert_eq!(arrived(&post).len(), 3, "two pushes and a message");
    assert_eq!(metric(&mut client, "fantail_fallbacks_total", "because=\"fallback_no_receipt\""), 1);
    server.stop();
}

// proves: DEL-17
// fixes: usability P7
#[test]
fn a_receipt_or_a_look_in_time_spares_the_user() {
    let post = Post::new();
    let (server, mut clock, mut client) = house(&post, &sms_if_silent());
    let told = alarm(&mut client, "n1", "ann", &["push", "sms"]);
    stands(&mut client, &told, "ann", "sms", "deferred");
    stands(&mut client, &told, "ann", "push", "sent");
    let read = alarm(&mut client, "n2", "ann", &["inApp", "push", "sms"]);
    stands(&mut client, &read, "ann", "sms", "deferred");
    stands(&mut client, &read, "ann", "push", "sent");
    clock.move_to("2026-06-10T12:25:00Z");
    receipt(&mut client, &arrived(&post)[0], "delivered");
    let (inputs, text) = stands(&mut client, &told, "ann", "sms", "suppressed");
    assert_eq!(inputs["code"], "fallback_arrived");
    assert!(text.contains("not needed (fallback_arrived): it arrived by push"), "{text}");
    expect(client.post("/api/v1/users/ann/notifications/read", &json!({"ids": [read]})), 200);
    let (inputs, _) = stands(&mut client, &read, "ann", "sms", "suppressed");
    assert_eq!(inputs["code"], "fallback_seen", "at once");
    clock.move_to("2026-06-10T12:40:00Z");
    stands(&mut client, &read, "ann", "sms", "suppressed");
    assert_eq!(arrived(&post).len(), 2, "the pushes, and nothing else");
    assert_eq!(metric(&mut client, "fantail_fallbacks_total", "result=\"not_needed\""), 2);
    server.stop();
}

// proves: DEL-17, DEL-18
#[test]
fn what_push_cannot_reach_is_told_by_the_next_channel_at_once() {
    let post = Post::new();
    let failed = json!([{"channel": "sms", "when": "failed"}]);
    let (server, _clock, mut client) = house(&post, &failed);
    person(&mut client, "bob", "stub:dead/bob", "+99912345602");
    let id = alarm(&mut client, "n1", "bob", &["push", "sms"]);
    let (_, text) = stands(&mut client, &id, "bob", "sms", "sent");
    assert!(text.contains("push did not reach the user (failed: "), "{text}");
    // Without consent push is not used, however critical; the next channel is.
    let withdrawn = json!({"granted": false, "version": "1", "source": "settings"});
    expect(client.json("PUT", "/api/v1/users/ann/consents/push", &withdrawn), 200);
    let mut body = notification("n2", &["ann"], json!({"category": "alarm", "channels": ["push", "sms"]}));
    body["priority"] = json!("critical");
    let id = send(&mut client, &body);
    let (_, text) = stands(&mut client, &id, "ann", "sms", "sent");
    assert!(text.contains("push did not reach the user (suppressed: no_consent), so sms"), "{text}");
    assert_eq!(arrived(&post).len(), 2, "the messages, and no push");
    server.stop();
}

// proves: DEL-17, QH-01
#[test]
fn push_that_waits_for_the_morning_causes_no_message_at_night() {
    let post = Post::new();
    let (server, mut clock, mut client) = house(&post, &sms_if_silent());
    let night = json!({"enabled": true, "start": "11:00", "end": "13:00", "timezone": "UTC"});
    patch(&mut client, "ann", &json!({"quietHours": night}));
    let id = alarm(&mut client, "n1", "ann", &["push", "sms"]);
    stands(&mut client, &id, "ann", "push", "deferred");
    stands(&mut client, &id, "ann", "sms", "deferred");
    clock.move_to("2026-06-10T12:59:00Z");
    let (inputs, text) = stands(&mut client, &id, "ann", "sms", "deferred");
    assert_eq!(inputs["code"], "fallback_waiting");
    assert!(text.contains("to hear what becomes of push"), "{text}");
    clock.move_to("2026-06-10T13:00:00Z");
    stands(&mut client, &id, "ann", "push", "sent");
    stands(&mut client, &id, "ann", "sms", "deferred");
    assert_eq!(arrived(&post).len(), 1, "it has half an hour from then on");
    clock.move_to("2026-06-10T13:35:00Z");
    stands(&mut client, &id, "ann", "sms", "sent");
    server.stop();
}

// proves: DEL-17, DED-04
#[test]
fn a_chain_survives_a_crash_and_goes_on_once() {
    let post = Post::new();
    let (server, _, mut client) = house(&post, &sms_if_silent());
    person(&mut client, "bob", "stub:ok/bob", "+99912345602");
    let silent = alarm(&mut client, "n1", "ann", &["push", "sms"]);
    stands(&mut client, &silent, "ann", "push", "sent");
    stands(&mut client, &silent, "ann", "sms", "deferred");
    let told = alarm(&mut client, "n2", "bob", &["push", "sms"]);
    stands(&mut client, &told, "bob", "push", "sent");
    stands(&mut client, &told, "bob", "sms", "deferred");
    receipt(&mut client, &arrived(&post)[1], "delivered");
    // A policy that is changed now changes nothing about what was accepted.
    let mut editor = server.client().with_header("if-match", "\"1\"");
    expect(editor.json("PUT", "/api/v1/categories/alarm", &json!({"fallback": []})), 200);
    server.kill();

    let (server, mut clock) = start_at(&post, "2026-06-10T12:20:00Z", &[]);
    let mut client = server.client();
    stands(&mut client, &silent, "ann", "sms", "deferred");
    stands(&mut client, &told, "bob", "sms", "suppressed");
    clock.move_to("2026-06-10T12:35:00Z");
    stands(&mut client, &silent, "ann", "sms", "sent");
    server.kill();
    let (server, _clock) = start_at(&post, "2026-06-10T13:05:00Z", &[]);
    stands(&mut server.client(), &silent, "ann", "sms", "sent");
    assert_eq!(arrived(&post).len(), 3, "two pushes and one message");
    server.stop();
}

// proves: DEL-17
#[test]
fn followers_are_told_each_by_what_reaches_them() {
    let post = Post::new();
    let (server, mut clock, mut client) = house(&post, &sms_if_silent());
    person(&mut client, "cleo", "stub:dead/cleo", "+99912345603");
    for name in ["ann", "cleo"] {
        follow(&mut client, name, "zoe");
    }
    let mut event = post_by("zoe", "e1");
    event["data"]["category"] = json!("alarm");
    event["data"]["channels"] = json!(["push", "sms"]);
    let accepted = expect(client.post("/api/v1/events", &event), 202);
    let id = accepted["eventId"].as_str().expect("an id").to_owned();
    stands(&mut client, &id, "cleo", "sms", "sent");
    stands(&mut client, &id, "ann", "push", "sent");
    stands(&mut client, &id, "ann", "sms", "deferred");
    assert_eq!(arrived(&post).len(), 2);
    clock.move_to("2026-06-10T12:35:00Z");
    stands(&mut client, &id, "ann", "sms", "sent");
    assert_eq!(arrived(&post).len(), 3);
    server.stop();
}
