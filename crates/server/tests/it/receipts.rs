//! What is said about deliveries later, twice and in any order.

use crate::deliveries::{Post, explain, notification, register, send, status};
use crate::world::{bare, eventually, expect, key_of, put_user, refused, tenant_with_key};
use fantail_server::client::Client;
use serde_json::{Value, json};

fn say(client: &mut Client, receipts: &[(&str, &str)]) -> Value {
    let one = |(reference, status): &(&str, &str)| json!({"reference": reference, "status": status});
    let body = json!({"receipts": receipts.iter().map(one).collect::<Vec<_>>()});
    expect(client.post("/api/v1/receipts", &body), 200)
}

// fixes: usability P3, usability P4
#[test]
fn what_suppresses_an_address_is_news_and_keeps_its_reason() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    let id = send(&mut client, &notification("n1", &["ann"], json!({})));
    let reference = eventually("it arrived", || {
        let is_sent = status(&mut client, &id)["deliveries"][0]["state"] == "sent";
        is_sent.then(|| post.arrived().into_keys().next()).flatten()
    });
    let reference = reference.as_str();
    assert_eq!(say(&mut client, &[(reference, "delivered")])["changed"], 1);
    let path = "/api/v1/suppressions/push/stub%3Aok%2Fann";
    // The delivery stays delivered; the address is another matter.
    assert_eq!(say(&mut client, &[(reference, "bounced"), (reference, "bounced")])["changed"], 1);
    assert_eq!(status(&mut client, &id)["deliveries"][0]["state"], "delivered");
    let first = expect(client.get(path), 200);
    assert_eq!(first["reason"], "hardBounce");
    let kept = expect(client.json("PUT", path, &json!({"reason": "manual"})), 200);
    assert_eq!(kept, first, "the answer says what holds");
    assert_eq!(expect(client.json("PUT", path, &json!({"reason": "complaint"})), 200)["reason"], "complaint");
    assert_eq!(say(&mut client, &[(reference, "bounced")])["changed"], 0);
    assert_eq!(expect(client.get(path), 200)["reason"], "complaint");
    eventually("the device is suppressed", || {
        let devices = expect(client.get("/api/v1/devices?userId=ann"), 200);
        (devices["devices"][0]["status"] == "suppressed").then_some(())
    });
    let next = send(&mut client, &notification("n2", &["ann"], json!({})));
    let found = eventually("it is decided", || {
        let found = status(&mut client, &next)["deliveries"][0].clone();
        (found["state"] == "suppressed").then_some(found)
    });
    assert_eq!(found["code"], "address_suppressed");
    let story = explain(&mut client, &next, "ann");
    assert!(
        story.contains("suppressed (address_suppressed): the address is on the suppression list"),
        "{story}"
    );
    expect(bare(&mut client, "DELETE", path), 204);
    let lifted = expect(client.json("PUT", path, &json!({"reason": "manual"})), 200);
    assert_eq!(lifted["reason"], "manual", "after it was lifted any reason is taken");
}

/// What Twilio says of somebody who answered STOP must not outlast a START.
// fixes: usability P3
#[test]
fn a_complaint_about_a_text_message_is_a_stop() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    expect(client.json("PUT", "/api/v1/users/ann", &json!({"phone": "+99912345601"})), 201);
    let id = send(&mut client, &notification("n1", &["ann"], json!({"channels": ["sms"]})));
    let reference = eventually("it arrived", || {
        let is_sent = status(&mut client, &id)["deliveries"][0]["state"] == "sent";
        is_sent.then(|| post.arrived().into_keys().next()).flatten()
    });
    assert_eq!(say(&mut client, &[(reference.as_str(), "complained")])["changed"], 1);
    let path = "/api/v1/suppressions/sms/%2B99912345601";
    assert_eq!(expect(client.get(path), 200)["reason"], "stop");
}

// proves: TRK-02, TRK-03, TRK-05, DED-14, DEL-13
#[test]
fn receipts_change_a_delivery_once_and_only_forward() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    let id = send(&mut client, &notification("n1", &["ann"], json!({})));
    let reference = eventually("it arrived", || {
        let is_sent = status(&mut client, &id)["deliveries"][0]["state"] == "sent";
        is_sent.then(|| post.arrived().into_keys().next()).flatten()
    });
    let (forged, reference) = (format!("{reference}0"), reference.as_str());
    let told =
        say(&mut client, &[(reference, "delivered"), (&forged, "delivered"), (reference, "delivered")]);
    assert_eq!((&told["changed"], &told["unchanged"]), (&json!(1), &json!(1)), "{told}");
    assert_eq!(told["errors"][0]["index"], 1);
    assert_eq!(told["errors"][0]["code"], "DELIVERY_NOT_FOUND");
    for (said, changed, code) in [
        ("failed", 0, Value::Null),
        ("clicked", 1, json!("clicked")),
        ("opened", 0, json!("clicked")),
        ("delivered", 0, json!("clicked")),
    ] {
        assert_eq!(say(&mut client, &[(reference, said)])["changed"], changed, "{said}");
        let found = &status(&mut client, &id)["deliveries"][0];
        assert_eq!((&found["state"], &found["code"]), (&json!("delivered"), &code), "{said}");
    }
    let story = explain(&mut client, &id, "ann");
    assert!(story.contains("it arrived (clicked)"), "{story}");
    // A key for receipts says nothing else, and another tenant's key says nothing about this one.
    let key = key_of(&mut server.admin(), "default", &["receipts:write"]);
    let mut provider = server.with_key(&key);
    assert_eq!(say(&mut provider, &[(reference, "opened")])["unchanged"], 1);
    refused(provider.get(&format!("/api/v1/notifications/{id}/status")), "FORBIDDEN");
    let other = tenant_with_key(&mut server.admin(), "other", &["receipts:write"]);
    let told = say(&mut server.with_key(&other), &[(reference, "bounced")]);
    assert_eq!(told["errors"][0]["code"], "DELIVERY_NOT_FOUND", "{told}");
    // Whoever complains hears no more.
    assert_eq!(say(&mut client, &[(reference, "complained")])["changed"], 1);
    eventually("the address is suppressed", || {
        let devices = expect(client.get("/api/v1/devices?userId=ann"), 200);
        (devices["devices"][0]["status"] == "suppressed").then_some(())
    });
}
