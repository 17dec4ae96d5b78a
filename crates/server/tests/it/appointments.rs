//! Told at a time of each recipient's own day: by name, by list and by address, across crashes and moves.

use crate::deliveries::{Post, notification, register, send};
use crate::moved_clock::start_at;
use crate::respect::eventually_stands;
use crate::world::{event, eventually, expect, follow, ids, inbox, post as posted, put_user, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};

fn lives_in(client: &mut Client, user: &str, zone: &str) {
    expect(client.json("PUT", &format!("/api/v1/users/{user}"), &json!({"timezone": zone})), 200);
}

fn person(client: &mut Client, user: &str, zone: Option<&str>) {
    put_user(client, user);
    register(client, user, "phone", &format!("stub:ok/{user}"));
    if let Some(zone) = zone {
        lives_in(client, user, zone);
    }
}

fn at(id: &str, users: &[&str], options: &Value) -> Value {
    notification(id, users, json!({"channels": ["push"], "options": options}))
}

/// How it stands with one recipient, and when it is looked at again.
fn waits(client: &mut Client, id: &str, user: &str) -> (Value, Value) {
    let (inputs, _) = eventually_stands(client, id, user, "deferred");
    (inputs["code"].clone(), inputs["dueAt"].clone())
}

// fixes: usability P6
#[test]
fn an_estimate_is_about_the_recipients_and_not_about_all_people() {
    let post = Post::new();
    let (server, _clock) = start_at(&post, "2026-06-10T12:00:00Z", &[]);
    let mut client = server.client();
    person(&mut client, "ann", None);
    person(&mut client, "bob", Some("America/New_York"));
    let midnight = json!({"sendAtLocal": "23:59"});
    for (id, users, expected) in
        [("one", &["ann"][..], "2026-06-10T23:59"), ("two", &["ann", "bob"][..], "2026-06-11T03:59")]
    {
        let accepted = expect(client.post("/api/v1/notifications", &at(id, users, &midnight)), 202);
        let estimate = accepted["estimatedDelivery"].as_str().expect("a time");
        assert!(estimate.starts_with(expected), "{estimate}");
    }
    server.stop();
}

// proves: SCH-01, TRK-06
#[test]
fn christmas_comes_by_every_recipients_clock_and_once() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-12-24T03:00:00Z", &[]);
    let mut client = server.client();
    person(&mut client, "ann", Some("Asia/Tokyo"));
    person(&mut client, "bob", Some("America/New_York"));
    person(&mut client, "cleo", None);
    let wish = json!({"sendAtLocal": "2026-12-24T18:00", "ttl": 3_600, "cancellationKey": "christmas"});
    let body = at("xmas", &["ann", "bob", "cleo"], &wish);
    let accepted = expect(client.post("/api/v1/notifications", &body), 202);
    assert_eq!(accepted["status"], "scheduled", "nowhere on earth is it six o'clock yet");
    let id = accepted["eventId"].as_str().expect("an id").to_owned();
    clock.move_to("2026-12-24T04:00:00Z");
    for (user, due) in [("ann", "09:00"), ("bob", "23:00"), ("cleo", "18:00")] {
        let due = format!("2026-12-24T{due}:00.000Z");
        assert_eq!(waits(&mut client, &id, user), (json!("local_time"), json!(due)), "{user}");
        assert_eq!(ids(&inbox(&mut client, user, "")), Vec::<String>::new());
    }
    let (_, text) = eventually_stands(&mut client, &id, "ann", "deferred");
    assert!(text.contains("when the recipient's clock shows 2026-12-24T18:00"), "{text}");
    assert!(text.contains("the user's clock does not show the time yet"), "{text}");
    server.kill();

    let (server, mut clock) = start_at(&post, "2026-12-24T08:59:00Z", &[]);
    let mut client = server.client();
    waits(&mut client, &id, "ann");
    clock.move_to("2026-12-24T09:00:00Z");
    eventually_stands(&mut client, &id, "ann", "sent");
    lives_in(&mut client, "bob", "Europe/Berlin");
    eventually("it moves with bob", || {
        let (_, due) = waits(&mut client, &id, "bob");
        (due == "2026-12-24T17:00:00.000Z").then_some(())
    });
    clock.move_to("2026-12-24T17:00:00Z");
    eventually_stands(&mut client, &id, "bob", "sent");
    waits(&mut client, &id, "cleo");
    let called =
        expect(client.post("/api/v1/notifications/cancel", &json!({"cancellationKey": "christmas"})), 200);
    assert_eq!(called, json!({"cancelled": 1, "tooLate": 0, "deliveriesSent": 2, "pending": false}));
    clock.move_to("2026-12-24T18:00:00Z");
    eventually_stands(&mut client, &id, "cleo", "cancelled");
    let again =
        expect(client.post("/api/v1/notifications/cancel", &json!({"cancellationKey": "christmas"})), 200);
    assert_eq!(again["deliveriesSent"], 2);
    assert_eq!(post.arrived().values().copied().collect::<Vec<_>>(), [1, 1], "once each");
    server.stop();
}

// proves: SCH-01, SCH-02
#[test]
fn followers_and_addresses_wait_for_their_hours() {
    let post = Post::new();
    // A Wednesday, 14:00 in Vienna.
    let (server, mut clock) = start_at(&post, "2026-06-10T12:00:00Z", &[]);
    let mut client = server.client();
    person(&mut client, "ann", Some("Europe/Vienna"));
    person(&mut client, "bob", Some("America/New_York"));
    follow(&mut client, "ann", "star");
    follow(&mut client, "bob", "star");
    let mut to_fans = event("e1", &json!({"followersOf": "star"}));
    to_fans["data"]["channels"] = json!(["push"]);
    to_fans["data"]["options"] = json!({"offPeak": {"start": "01:00", "end": "05:00"}});
    let fans = posted(&mut client, &to_fans);
    assert_eq!(waits(&mut client, &fans, "ann"), (json!("off_peak"), json!("2026-06-10T23:00:00.000Z")));
    assert_eq!(waits(&mut client, &fans, "bob"), (json!("off_peak"), json!("2026-06-11T05:00:00.000Z")));
    let weekend = json!({"offPeak": {"start": "09:00", "end": "10:00", "days": ["sat", "sun"]}});
    let id = send(&mut client, &at("n1", &["ann"], &weekend));
    assert_eq!(waits(&mut client, &id, "ann"), (json!("off_peak"), json!("2026-06-13T07:00:00.000Z")));
    let mut by_mail = at("n2", &[], &json!({"sendAtLocal": "18:00"}));
    by_mail["channels"] = json!(["email"]);
    by_mail["recipients"] = json!([{"email": "ok/dan@stub.test"}]);
    let mail = send(&mut client, &by_mail);
    clock.move_to("2026-06-10T17:59:00Z");
    assert_eq!(post.lines().len(), 0, "an address has UTC");
    clock.move_to("2026-06-10T18:00:00Z");
    eventually("the mail has left", || (post.lines().len() == 1).then_some(()));
    eventually("the mail is written down", || {
        let shown = expect(client.get(&format!("/api/v1/notifications/{mail}/status")), 200);
        (shown["status"] == "done").then_some(())
    });
    clock.move_to("2026-06-10T23:00:00Z");
    eventually_stands(&mut client, &fans, "ann", "sent");
    waits(&mut client, &fans, "bob");
    clock.move_to("2026-06-11T05:00:00Z");
    eventually_stands(&mut client, &fans, "bob", "sent");
    // A day to live, from the first of its hours on.
    clock.move_to("2026-06-13T07:00:00Z");
    eventually_stands(&mut client, &id, "ann", "sent");
    assert!(post.arrived().values().all(|copies| *copies == 1));
    assert_eq!(post.arrived().len(), 4);
    server.stop();
}

// proves: SCH-01, API-03
#[test]
fn wishes_that_contradict_each_other_are_refused() {
    let post = Post::new();
    let (server, _clock) = start_at(&post, "2026-06-10T12:00:00Z", &[]);
    let mut client = server.client();
    person(&mut client, "ann", None);
    let hours = json!({"start": "01:00", "end": "05:00"});
    let instant = "2026-06-11T12:00:00Z";
    for (options, pointer) in [
        (json!({"sendAtLocal": "18:00", "scheduledAt": instant}), "/options/sendAtLocal"),
        (json!({"offPeak": hours, "scheduledAt": instant}), "/options/offPeak"),
        (json!({"offPeak": hours, "sendAtLocal": "18:00"}), "/options/offPeak"),
        (json!({"sendAtLocal": "2026-02-30T18:00"}), "/options/sendAtLocal"),
    ] {
        let problem =
            refused(client.post("/api/v1/notifications", &at("n", &["ann"], &options)), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{options}");
    }
    for channels in [json!(["push", "inApp"]), json!([])] {
        let mut body = at("n", &["ann"], &json!({"sendAtLocal": "18:00"}));
        body["channels"] = channels.clone();
        let problem = refused(client.post("/api/v1/notifications", &body), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], "/channels", "{channels}");
        let mut body = event("e", &json!({"users": ["ann"]}));
        body["data"]["options"] = json!({"offPeak": hours});
        body["data"]["channels"] = channels;
        let problem = refused(client.post("/api/v1/events", &body), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], "/data/channels");
    }
    server.stop();
}
