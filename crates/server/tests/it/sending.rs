//! What a producer may ask of a notification beside its content: later, not at all, in place of another, in confidence.

use crate::deliveries::{Post, explain, notification, register, send, status};
use crate::server::Server;
use crate::world::{bare, eventually, expect, follow, ids, in_ms, inbox, put_user, refused};
use fantail_server::client::{Client, Request};
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
    expect(bare(&mut client, "POST", "/api/v1/notifications/late/cancel"), 200);
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
    assert_eq!(answer, json!({"cancelled": 2, "tooLate": 1, "deliveriesSent": 1, "pending": false}));
    eventually("it is called off", || {
        (status(&mut client, &deferred)["channels"][0]["counts"] == json!({"cancelled": 1})).then_some(())
    });
    assert_eq!(status(&mut client, &later)["status"], "done");
    assert_eq!(status(&mut client, &other)["status"], "scheduled", "another key");
    assert_eq!(expect(client.post(CANCEL, &body), 200), answer, "asked again, the same answer");
    let nothing = expect(client.post(CANCEL, &json!({"cancellationKey": "nobody's"})), 200);
    assert_eq!(nothing, json!({"cancelled": 0, "tooLate": 0, "deliveriesSent": 0, "pending": false}));
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

/// An event to the followers of star.
fn event(id: &str, options: Value) -> Value {
    json!({
        "specversion": "1.0", "id": id, "source": "/test", "type": "post",
        "data": {"audience": {"followersOf": "star"}, "content": {"title": format!("Post {id}")},
                 "channels": ["push"], "options": options},
    })
}

// proves: SCH-01, SCH-02, DEL-19, PSH-06, PSH-08, API-02
#[test]
fn events_to_a_list_have_the_same_options() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    for user in ["ann", "bob"] {
        put_user(&mut client, user);
        follow(&mut client, user, "star");
        register(&mut client, user, "phone", &format!("stub:ok/{user}"));
    }
    let options = json!({"scheduledAt": in_ms(1_500), "collapseKey": "star-1", "sensitive": true, "ttl": 60});
    let soon = event("soon", options);
    let accepted = expect(client.post("/api/v1/events", &soon), 202);
    assert_eq!(accepted["status"], "scheduled");
    let id = accepted["eventId"].as_str().expect("an id").to_owned();
    let again = client.post("/api/v1/events", &soon).expect("an answer");
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    refused(client.post("/api/v1/events", &event("soon", json!({}))), "DUPLICATE_NOTIFICATION");
    let key = |id: &str| event(id, json!({"scheduledAt": in_ms(HOUR_MS), "cancellationKey": "launch"}));
    let batch = json!([key("late-1"), key("late-2")]);
    let late = expect(client.post("/api/v1/events", &batch), 202);
    let late = late["events"][0]["eventId"].as_str().expect("an id").to_owned();
    assert_eq!(status(&mut client, &late)["status"], "scheduled");
    let answer = expect(client.post(CANCEL, &json!({"cancellationKey": "launch"})), 200);
    assert_eq!(answer, json!({"cancelled": 2, "tooLate": 0, "deliveriesSent": 0, "pending": false}));
    eventually_is(&mut client, &id, "done");
    let arrived = std::fs::read_to_string(&post.arrivals).expect("arrivals");
    assert_eq!(arrived.lines().count(), 2, "each follower once: {arrived}");
    for line in arrived.lines() {
        assert!(line.contains(" 1 star-1 ") && line.contains("You have a new notification"), "{line}");
    }
    assert!(!arrived.contains("Post soon"), "{arrived}");
    for user in ["ann", "bob"] {
        let page = inbox(&mut client, user, "");
        assert_eq!(ids(&page), std::slice::from_ref(&id), "what was called off is not there");
        assert_eq!(page["notifications"][0]["content"]["title"], "Post soon", "in the inbox it is told");
    }
    for (wrong, place) in [
        (json!({"scheduledAt": in_ms(367 * 24 * HOUR_MS)}), "/data/options/scheduledAt"),
        (json!({"ttl": 1}), "/data/options/ttl"),
        (json!({"colour": "red"}), "/data/options/colour"),
    ] {
        let problem = refused(client.post("/api/v1/events", &event("wrong", wrong)), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], place);
    }
}

/// Sends and waits for the end; tells the deliveries.
fn told(client: &mut Client, id: &str, recipients: Value) -> Vec<Value> {
    let body = json!({"notificationId": id, "content": {"title": "Hello"}, "recipients": recipients});
    let id = send(client, &body);
    let done = eventually_is(client, &id, "done");
    done["deliveries"].as_array().expect("deliveries").clone()
}

fn one(delivery: &Value) -> (&str, &str, &str, &str) {
    let text = |field: &str| delivery[field].as_str().unwrap_or_default();
    (text("userId"), text("address"), text("state"), text("code"))
}

// proves: API-03, API-04, TRK-01, TEN-06
#[test]
fn an_address_alone_is_enough_and_belongs_to_its_owner() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    let profile = json!({"email": "ok/bob@stub.test"});
    expect(client.json("PUT", "/api/v1/users/bob", &profile), 201);
    let new = told(&mut client, "n1", json!([{"email": "ok/New@stub.test"}]));
    assert_eq!(new.iter().map(one).collect::<Vec<_>>(), [("", "o***@stub.test", "sent", "")]);
    let phone = told(&mut client, "n2", json!([{"phone": "+999 1234 5678"}]));
    assert_eq!(phone.iter().map(one).collect::<Vec<_>>(), [("", "+99***78", "sent", "")]);
    let bob = told(&mut client, "n3", json!([{"email": "OK/Bob@STUB.test"}]));
    assert_eq!(bob.iter().map(one).collect::<Vec<_>>(), [("bob", "", "sent", "")], "it is bob's");
    let again =
        told(&mut client, "n4", json!([{"email": "ok/new@stub.test"}, {"email": "ok/other@stub.test"}]));
    assert!(again.len() == 2 && again.iter().all(|delivery| delivery["state"] == "sent"), "{again:?}");
    assert_eq!(post.arrived().len(), 5);
    let path = "/api/v1/notifications/n1/explain?email=ok/new@stub.test";
    let told_text = expect(client.get(path), 200)["text"].as_str().expect("a text").to_owned();
    assert!(told_text.contains("the provider took it") && !told_text.contains("new@"), "{told_text}");
    refused(client.get("/api/v1/notifications/n1/explain?email=nobody@stub.test"), "USER_NOT_FOUND");
    refused(client.get("/api/v1/users/%01email%01ok/notifications"), "INVALID_REQUEST");

    expect(
        client.json("PUT", "/api/v1/suppressions/email/ok@stub.test", &json!({"reason": "complaint"})),
        200,
    );
    let unwanted = told(&mut client, "n5", json!([{"email": "ok@stub.test"}]));
    assert_eq!(
        one(&unwanted[0]),
        ("", "o***@stub.test", "suppressed", "address_suppressed"),
        "never written to"
    );

    expect(client.json("PUT", "/api/v1/users/carol", &json!({"email": "ok/new@stub.test"})), 201);
    eventually("the address is carol's", || {
        let user = expect(client.get("/api/v1/users/carol"), 200);
        (user["channels"][0]["status"] == "active").then_some(())
    });
    let carol = told(&mut client, "n6", json!([{"email": "ok/new@stub.test"}]));
    assert_eq!(one(&carol[0]), ("carol", "", "sent", ""));

    for (recipients, channels, code, pointer) in [
        (
            json!([{"userId": "bob"}, {"email": "nope"}]),
            json!([]),
            "INVALID_RECIPIENT",
            "/recipients/1/email",
        ),
        (
            json!([{"userId": "bob"}, {"email": "ok/bob@stub.test"}]),
            json!([]),
            "INVALID_RECIPIENT",
            "/recipients/1",
        ),
        (json!([{"email": "ok/bob@stub.test"}]), json!(["push"]), "INVALID_RECIPIENT", "/recipients/0"),
        (json!([{"email": "ok/bob@stub.test"}]), json!(["email", "inApp"]), "INVALID_REQUEST", "/channels"),
        (json!([{}]), json!([]), "INVALID_REQUEST", "/recipients/0"),
    ] {
        let body = json!({"content": {"title": "x"}, "recipients": recipients, "channels": channels});
        let problem = refused(client.post("/api/v1/notifications", &body), code);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let stored = std::fs::read_dir(server.data.join("journal")).expect("a journal");
    for file in stored {
        let bytes = std::fs::read(file.expect("a file").path()).expect("its bytes");
        assert!(!bytes.windows(9).any(|window| window == b"stub.test"), "addresses are sealed");
    }
}

// proves: DEL-16, API-01, BLK-11
#[test]
fn a_lane_that_is_full_says_so_and_others_go_on() {
    let post = Post::new();
    let server = post.start(&[("FANTAIL_DELIVERY_QUEUE_MAX", "3")]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:503");
    let mut number = 0;
    let full = eventually("the lane is full", || {
        number += 1;
        let body = notification(&format!("n{number}"), &["ann"], json!({}));
        let response = client.post("/api/v1/notifications", &body).expect("an answer");
        (response.status != 202).then_some(response)
    });
    assert!(full.header("retry-after").is_some_and(|text| text.parse::<u64>().is_ok_and(|wait| wait > 0)));
    refused(Ok(full), "QUEUE_FULL");
    let other = notification("other", &["ann"], json!({"priority": "high"}));
    expect(client.post("/api/v1/notifications", &other), 202);
    let inbox_only = notification("inbox", &["ann"], json!({"channels": ["inApp"]}));
    expect(client.post("/api/v1/notifications", &inbox_only), 202);
}

// proves: TPL-01, TPL-04, TPL-02
#[test]
fn an_event_by_template_is_rendered_once_and_frozen() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    follow(&mut client, "ann", "star");
    register(&mut client, "ann", "phone", "stub:ok");
    let template = |word: &str, title: &str| {
        json!({
            "id": "post", "category": "message", "defaultLocale": "en",
            "schema": {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}},
            "channels": {
                "push": {"title": format!("{word} {{{{ title }}}}"), "body": "Tap to read"},
                "inApp": {"title": title},
            },
        })
    };
    let path = "/api/v1/templates/post";
    expect(client.json("PUT", path, &template("New:", "{{ title }} is out")), 201);
    let event = |id: &str, more: Value| {
        let mut event = json!({
            "specversion": "1.0", "id": id, "source": "/test", "type": "post",
            "data": {"audience": {"followersOf": "star"}, "templateId": "post", "variables": {"title": "Gardens"}},
        });
        event["data"]
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        event
    };
    let first = crate::world::post(&mut client, &event("e1", json!({})));
    eventually_is(&mut client, &first, "done");
    let arrived = std::fs::read_to_string(&post.arrivals).expect("arrivals");
    assert!(arrived.contains("{\"title\":\"New: Gardens\",\"body\":\"Tap to read\"}"), "{arrived}");
    let page = inbox(&mut client, "ann", "");
    assert_eq!(page["notifications"][0]["content"]["title"], "Gardens is out", "{page}");
    assert_eq!(
        (&page["notifications"][0]["category"], &page["notifications"][0]["priority"]),
        (&json!("message"), &json!("high")),
        "what the template says"
    );
    // The template changes; what was accepted does not, and neither does its answer.
    let changed = template("Changed:", "Changed");
    let headers = [("content-type", "application/json"), ("if-match", "\"1\"")];
    let body = changed.to_string();
    expect(client.send(&Request { method: "PUT", path, headers: &headers, body: body.as_bytes() }), 200);
    let again = client.post("/api/v1/events", &event("e1", json!({}))).expect("an answer");
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let old = json!({"templateVersion": 1, "channels": ["push"], "category": "posts"});
    let batch = json!([event("e2", old), event("e3", json!({}))]);
    let accepted = expect(client.post("/api/v1/events", &batch), 202);
    for result in accepted["events"].as_array().expect("results") {
        eventually_is(&mut client, result["eventId"].as_str().expect("an id"), "done");
    }
    let arrived = std::fs::read_to_string(&post.arrivals).expect("arrivals");
    assert_eq!(arrived.matches("New: Gardens").count(), 2, "version 1 was asked for: {arrived}");
    assert_eq!(arrived.matches("Changed: Gardens").count(), 1, "{arrived}");
    refused(client.post("/api/v1/events", &event("e4", json!({"templateId": "none"}))), "TEMPLATE_NOT_FOUND");
    refused(client.post("/api/v1/events", &event("e4", json!({"variables": {}}))), "INVALID_VARIABLES");
    refused(client.post("/api/v1/events", &event("e4", json!({"channels": ["sms"]}))), "INVALID_TEMPLATE");
    refused(
        client.post("/api/v1/events", &event("e4", json!({"content": {"title": "x"}}))),
        "INVALID_REQUEST",
    );
    let personal = template("Hi", "Hello {{ user.id }}, {{ title }}");
    let headers = [("content-type", "application/json"), ("if-match", "\"2\"")];
    let body = personal.to_string();
    expect(client.send(&Request { method: "PUT", path, headers: &headers, body: body.as_bytes() }), 200);
    refused(client.post("/api/v1/events", &event("e4", json!({}))), "INVALID_TEMPLATE");
}

fn reached(delivery: &Value) -> (&str, &str, &str) {
    let (user, address, state, _) = one(delivery);
    (user, address, state)
}

// proves: GDP-01, TEN-06
#[test]
fn whoever_has_no_name_is_deleted_by_the_address() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    let stranger = json!([{"email": "ok/stranger@stub.test"}]);
    let first = told(&mut client, "n1", stranger.clone());
    assert_eq!(reached(&first[0]), ("", "o***@stub.test", "sent"));
    let path = "/api/v1/addresses/email/OK%2Fstranger@stub.test";
    expect(bare(&mut client, "DELETE", path), 204);
    let problem = refused(bare(&mut client, "DELETE", path), "USER_NOT_FOUND");
    assert!(!problem.to_string().contains("stranger"), "{problem}");
    let left = status(&mut client, "n1")["deliveries"][0].clone();
    assert_eq!(reached(&left), ("", "", "sent"), "what was done stays, to whom is gone");
    let again = told(&mut client, "n2", stranger);
    assert_eq!(reached(&again[0]), ("", "o***@stub.test", "sent"), "as if never heard of");
    let named = json!({"email": "ok/named@stub.test"});
    expect(client.json("PUT", "/api/v1/users/ann", &named), 201);
    refused(bare(&mut client, "DELETE", "/api/v1/addresses/email/ok%2Fnamed@stub.test"), "USER_NOT_FOUND");
    refused(bare(&mut client, "DELETE", "/api/v1/addresses/inApp/x"), "INVALID_REQUEST");
}

// proves: API-03, DEV-03
#[test]
fn a_push_token_alone_is_enough_too() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    let consent = json!({"granted": true, "version": "1"});
    let token =
        |token: &str| json!([{"pushToken": {"platform": "android", "token": token, "consent": consent}}]);
    let nobody = told(&mut client, "n1", token("stub:ok/nobody"));
    assert_eq!(reached(&nobody[0]), ("", "stu***dy", "sent"));
    assert_eq!(told(&mut client, "n2", token("stub:ok/nobody")).len(), 1, "known by now");
    let path = "/api/v1/notifications/n2/explain?pushToken=stub:ok%2Fnobody";
    let story = expect(client.get(path), 200);
    assert!(story["text"].as_str().is_some_and(|text| text.contains("the provider took it")), "{story}");
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/anns");
    let owned = told(&mut client, "n3", token("stub:ok/anns"));
    assert_eq!(reached(&owned[0]), ("ann", "", "sent"), "it is ann's");
    register(&mut client, "ann", "tablet", "stub:ok/nobody");
    let both = told(&mut client, "n4", token("stub:ok/nobody"));
    assert_eq!(both.len(), 2, "ann has it now, and both of her devices are told: {both:?}");
    let dead = told(&mut client, "n5", token("stub:dead/gone"));
    assert_eq!(reached(&dead[0]).2, "failed", "{dead:?}");
    for wrong in [json!([{"pushToken": {"platform": "fcm", "token": "t"}}]), token("a b")] {
        let body = json!({"notificationId": "n6", "content": {"title": "Hello"}, "recipients": wrong});
        let problem = client.post("/api/v1/notifications", &body).expect("an answer");
        assert_eq!(problem.status, 422, "{}", problem.text());
    }
}

// proves: API-03
#[test]
fn a_webhook_alone_is_enough_too() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    let webhook =
        json!({"url": "https://127.0.0.1/hook", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"});
    let body = json!({
        "notificationId": "n1", "content": {"title": "Hello"}, "recipients": [{"webhook": webhook}],
    });
    let id = send(&mut client, &body);
    // The channel has it, and does not call into the house.
    let delivery = eventually("it was tried", || {
        let delivery = status(&mut client, &id)["deliveries"][0].clone();
        (!delivery["code"].is_null()).then_some(delivery)
    });
    assert_eq!(
        (&delivery["address"], &delivery["channel"]),
        (&json!("https://127.0.0.1/***"), &json!("webhook"))
    );
    assert_eq!(delivery["endpoint"], 1, "it has an endpoint: {delivery}");
    assert_eq!(delivery["code"], "forbidden_target", "{delivery}");
}

/// Whoever may only write events does not take the names of notifications, and the other way round.
// fixes: security L11
#[test]
fn events_and_notifications_have_names_of_their_own() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    let event = |source: &str, id: &str| {
        json!({"specversion": "1.0", "id": id, "source": source, "type": "post.created",
               "data": {"audience": {"users": ["ann"]}, "category": "posts", "content": {"title": "Post"}}})
    };
    let notification = |id: &str| json!({"notificationId": id, "content": {"title": "Hi"}, "recipients": [{"userId": "ann"}], "channels": ["push"]});
    let taken = expect(client.post("/api/v1/events", &event("notification", "order-1")), 202);
    let sent = expect(client.post("/api/v1/notifications", &notification("order-1")), 202);
    assert_ne!(taken["eventId"], sent["eventId"]);
    let sent = expect(client.post("/api/v1/notifications", &notification("order-2")), 202);
    let taken = client.post("/api/v1/events", &event("notification", "order-2")).expect("an answer");
    assert_eq!((taken.status, taken.header("idempotent-replayed")), (202, None), "{}", taken.text());
    assert_ne!(taken.json()["eventId"], sent["eventId"]);
}
