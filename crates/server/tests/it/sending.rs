//! What a producer may ask of a notification beside its content: later, not at all, in place of another, in confidence.

use crate::deliveries::{Post, explain, notification, register, send, status};
use crate::world::{bare, eventually, expect, ids, in_ms, inbox, put_user, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};

const HOUR_MS: u64 = 3_600_000;
const CANCEL: &str = "/api/v1/notifications/cancel";

fn with(options: Value) -> Value {
    json!({"options": options, "channels": ["push", "inApp"]})
}

/// Waits for a phase, and tells what the status then is.
fn eventually_is(client: &mut Client, id: &str, phase: &str) -> Value {
    eventually(phase, || Some(status(client, id)).filter(|found| found["status"] == phase))
}

// proves: SCH-01, DEL-19, DED-04
#[test]
fn what_is_scheduled_waits_survives_a_crash_and_fires_once() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok");
    let late = in_ms(HOUR_MS);
    let body = notification("late", &["ann"], with(json!({"scheduledAt": late, "ttl": 60})));
    let accepted = expect(client.post("/api/v1/notifications", &body), 202);
    assert_eq!(accepted["status"], "scheduled");
    assert!(accepted["estimatedDelivery"].as_str().expect("a time") >= late.as_str(), "{accepted}");
    let soon = in_ms(1_500);
    let soon_id = send(&mut client, &notification("soon", &["ann"], with(json!({"scheduledAt": soon}))));
    let past = with(json!({"scheduledAt": "2020-01-01T00:00:00Z"}));
    let past_id = send(&mut client, &notification("past", &["ann"], past));
    eventually_is(&mut client, &past_id, "done");
    drop(client);
    server.kill();
    let server = post.start(&[]);
    let mut client = server.client();
    let fired = eventually_is(&mut client, &soon_id, "done");
    assert_eq!(fired["scheduledAt"], soon);
    assert_eq!(ids(&inbox(&mut client, "ann", "")), [soon_id.clone(), past_id]);
    assert_eq!(post.arrived().len(), 2);
    assert!(post.arrived().values().all(|copies| *copies == 1), "each of them once");
    let found = status(&mut client, "late");
    assert_eq!((&found["status"], &found["scheduledAt"]), (&json!("scheduled"), &json!(late)));
    let told = explain(&mut client, "late", "ann");
    assert!(told.contains(&format!("scheduled for {late}")) && told.contains("waits for its time"), "{told}");
    expect(bare(&mut client, "POST", "/api/v1/notifications/late/cancel"), 204);
    let found = status(&mut client, "late");
    assert_eq!((&found["status"], &found["cancelled"]), (&json!("done"), &json!(true)));
    for wrong in [json!({"scheduledAt": in_ms(367 * 24 * HOUR_MS)}), json!({"collapseKey": "a b"})] {
        let body = notification("wrong", &["ann"], json!({"options": wrong}));
        refused(client.post("/api/v1/notifications", &body), "INVALID_REQUEST");
    }
    let other = notification("soon", &["ann"], with(json!({"scheduledAt": late})));
    refused(client.post("/api/v1/notifications", &other), "DUPLICATE_NOTIFICATION");
}

// proves: SCH-02
#[test]
fn a_key_calls_off_what_is_not_too_late() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    for (user, token) in [("ann", "stub:ok"), ("bob", "stub:503")] {
        put_user(&mut client, user);
        register(&mut client, user, "phone", token);
    }
    let options = json!({"options": {"cancellationKey": "order 42"}});
    let sent = send(&mut client, &notification("sent", &["ann"], options.clone()));
    eventually_is(&mut client, &sent, "done");
    let deferred = send(&mut client, &notification("deferred", &["bob"], options));
    eventually("it is deferred", || {
        (status(&mut client, &deferred)["channels"][0]["counts"]["deferred"] == 1).then_some(())
    });
    let later = json!({"options": {"cancellationKey": "order 42", "scheduledAt": in_ms(HOUR_MS)}});
    let later = send(&mut client, &notification("later", &["ann"], later));
    let other = json!({"options": {"cancellationKey": "order 43", "scheduledAt": in_ms(HOUR_MS)}});
    let other = send(&mut client, &notification("other", &["ann"], other));
    let body = json!({"cancellationKey": "order 42"});
    let answer = expect(client.post(CANCEL, &body), 200);
    assert_eq!(answer, json!({"cancelled": 2, "tooLate": 1, "deliveriesSent": 1}));
    eventually("it is called off", || {
        (status(&mut client, &deferred)["channels"][0]["counts"] == json!({"cancelled": 1})).then_some(())
    });
    assert_eq!(status(&mut client, &later)["status"], "done");
    assert_eq!(status(&mut client, &other)["status"], "scheduled", "another key");
    assert_eq!(expect(client.post(CANCEL, &body), 200), answer, "asked again, the same answer");
    let nothing = expect(client.post(CANCEL, &json!({"cancellationKey": "nobody's"})), 200);
    assert_eq!(nothing, json!({"cancelled": 0, "tooLate": 0, "deliveriesSent": 0}));
    refused(client.post(CANCEL, &json!({"cancellationKey": ""})), "INVALID_REQUEST");
    assert_eq!(post.arrived().len(), 1);
}

// proves: PSH-06, PSH-08, DEL-19
#[test]
fn channels_carry_the_collapse_key_and_nothing_that_is_sensitive() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok");
    let secret = json!({
        "content": {"title": "Your test result", "body": "negative"},
        "recipients": [{"userId": "ann", "content": {"title": "Ann, your test result"}}],
        "options": {"collapseKey": "result-7", "sensitive": true},
        "channels": ["push", "inApp"],
    });
    let id = send(&mut client, &notification("n1", &["ann"], secret));
    eventually_is(&mut client, &id, "done");
    let arrived = std::fs::read_to_string(&post.arrivals).expect("arrivals");
    let [reference, attempt, collapse, content] = arrived.trim_end().splitn(4, ' ').collect::<Vec<_>>()[..]
    else {
        panic!("{arrived}")
    };
    assert_eq!((reference.is_empty(), attempt, collapse), (false, "1", "result-7"));
    assert!(content.contains("You have a new notification") && !content.contains("result"), "{content}");
    let page = inbox(&mut client, "ann", "");
    assert_eq!(page["notifications"][0]["content"]["title"], "Ann, your test result", "{page}");
    let told = explain(&mut client, &id, "ann");
    assert!(told.contains("collapse key result-7") && told.contains("sensitive: channels"), "{told}");
    let plain = send(&mut client, &notification("n2", &["ann"], json!({})));
    eventually_is(&mut client, &plain, "done");
    let arrived = std::fs::read_to_string(&post.arrivals).expect("arrivals");
    assert!(arrived.lines().any(|line| line.ends_with("1 - {\"title\":\"Hello\"}")), "{arrived}");
}
