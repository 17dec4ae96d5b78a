//! What users want, over the API: preferences, consents and quiet hours, and what becomes of what is sent.

use crate::deliveries::{Post, register, send};
use crate::outages::titled;
use crate::server::Server;
use crate::world::{bare, eventually, expect, put_user, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};

pub fn patch(client: &mut Client, user: &str, body: &Value) -> Value {
    expect(client.json("PATCH", &format!("/api/v1/users/{user}/preferences"), body), 200)
}

fn consent(client: &mut Client, user: &str, channel: &str, granted: bool) -> Value {
    let body = json!({"granted": granted, "version": "2026-01", "source": "settings"});
    expect(client.json("PUT", &format!("/api/v1/users/{user}/consents/{channel}"), &body), 200)
}

/// State and code of the only delivery of a notification, once it has this state.
pub fn eventually_stands(client: &mut Client, id: &str, user: &str, state: &str) -> (Value, String) {
    eventually(&format!("{id} is {state}"), || {
        let story = expect(client.get(&format!("/api/v1/notifications/{id}/explain?user={user}")), 200);
        let steps = story["steps"].as_array().expect("steps").clone();
        let last = steps.iter().rfind(|step| step["step"] == "state")?;
        (last["inputs"]["state"] == state)
            .then(|| (last["inputs"].clone(), story["text"].as_str().expect("a text").to_owned()))
    })
}

// proves: PRF-06, QH-06, API-04
#[test]
fn preferences_are_patched_by_whoever_saw_them_last() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    let path = "/api/v1/users/ann/preferences";
    refused(client.get("/api/v1/users/bob/preferences"), "USER_NOT_FOUND");
    assert_eq!(expect(client.get(path), 200), json!({"userId": "ann", "version": 0}));
    let night = json!({"enabled": true, "start": "22:00", "end": "07:00", "timezone": "Europe/Vienna"});
    let first =
        patch(&mut client, "ann", &json!({"quietHours": night, "channels": {"sms": {"enabled": false}}}));
    assert_eq!((&first["version"], &first["quietHours"]), (&json!(1), &night));
    let second = patch(&mut client, "ann", &json!({"quietHours": {"days": ["sat"]}, "globalEnabled": true}));
    assert_eq!((&second["version"], &second["quietHours"]["start"]), (&json!(2), &json!("22:00")));
    assert_eq!(second["channels"], json!({"sms": {"enabled": false}}));
    let response = client.get(path).expect("an answer");
    assert_eq!(response.header("etag"), Some("\"2\""));
    let mut stale = server.client().with_header("if-match", "\"1\"");
    let late = stale.json("PATCH", path, &json!({"quietHours": null})).expect("an answer");
    assert_eq!(late.header("etag"), Some("\"2\""), "what is there now");
    refused(Ok(late), "VERSION_CONFLICT");
    let mut fresh = server.client().with_header("if-match", "\"2\"");
    let third = expect(fresh.json("PATCH", path, &json!({"quietHours": null})), 200);
    assert_eq!((&third["version"], &third["quietHours"]), (&json!(3), &Value::Null));
    for bad in [
        json!({"quietHours": {"enabled": true, "start": "25:00", "end": "07:00"}}),
        json!({"quietHours": {"enabled": true, "start": "22:00", "end": "07:00", "timezone": "Vienna"}}),
        json!({"channels": {"fax": {"enabled": true}}}),
        json!({"colour": "blue"}),
    ] {
        refused(client.json("PATCH", path, &bad), "INVALID_REQUEST");
    }
    consent(&mut client, "ann", "push", true);
    let history = expect(client.get(&format!("{path}/history?limit=3")), 200);
    let changes = history["changes"].as_array().expect("changes");
    let told: Vec<(&Value, &Value)> = changes.iter().map(|one| (&one["version"], &one["kind"])).collect();
    assert_eq!(
        told,
        [(&json!(4), &json!("opt_in")), (&json!(3), &json!("update")), (&json!(2), &json!("update"))]
    );
    assert_eq!(changes[0]["newConsent"]["version"], "2026-01");
    let cursor = history["nextCursor"].as_str().expect("there is more");
    let rest = expect(client.get(&format!("{path}/history?limit=3&cursor={cursor}")), 200);
    assert_eq!(rest["changes"][0]["kind"], "opt_out", "sms was switched off");
    assert_eq!(rest["changes"][0]["oldPreferences"], json!({}));
    // All of it survives, and goes with its user.
    let directory = server.kill().expect("the directory is the server's own");
    let server = Server::start_in(&directory.path("data"), &[], &[]);
    let mut client = server.client();
    assert_eq!(expect(client.get(path), 200)["version"], 4);
    expect(bare(&mut client, "DELETE", "/api/v1/users/ann"), 204);
    put_user(&mut client, "ann");
    assert_eq!(expect(client.get(path), 200)["version"], 0);
}

// proves: PRF-01, PRF-03, PRF-04, PRF-07, PRF-08, DEL-18, TRK-06
#[test]
fn nothing_is_sent_that_a_user_does_not_want() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    let mut number = 0;
    let mut outcome = |client: &mut Client, priority: &str, state: &str| {
        number += 1;
        let mut body = titled(&format!("n{number}"), &["ann"], "push", "Hello");
        body["priority"] = json!(priority);
        body["category"] = json!("likes");
        let id = send(client, &body);
        eventually_stands(client, &id, "ann", state)
    };
    outcome(&mut client, "normal", "sent");
    consent(&mut client, "ann", "push", false);
    for priority in ["normal", "critical"] {
        let (inputs, text) = outcome(&mut client, priority, "suppressed");
        assert_eq!(inputs["code"], "no_consent");
        assert!(text.contains("has not agreed to this channel"), "{text}");
    }
    consent(&mut client, "ann", "push", true);
    outcome(&mut client, "normal", "sent");
    for (wanted, code) in [
        (json!({"globalEnabled": false}), "global_off"),
        (json!({"globalEnabled": null, "categories": {"likes": {"enabled": false}}}), "category_off"),
        (json!({"categories": {"likes": {"enabled": true, "channels": ["email"]}}}), "category_channel_off"),
        (json!({"categories": null, "channels": {"push": {"enabled": false}}}), "channel_off"),
    ] {
        patch(&mut client, "ann", &wanted);
        assert_eq!(outcome(&mut client, "normal", "suppressed").0["code"], code);
        outcome(&mut client, "critical", "sent");
    }
    patch(&mut client, "ann", &json!({"channels": null}));
    outcome(&mut client, "normal", "sent");
}

// proves: QH-01, QH-03, QH-04, QH-05
#[test]
fn what_comes_in_quiet_hours_waits() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    let mut waiting = Vec::new();
    // A window of a whole day holds whenever the test runs.
    let always = |zone: Value| json!({"quietHours": {"enabled": true, "start": "12:00", "end": "12:00", "timezone": zone}});
    for (number, zone, code) in
        [(1, json!("Asia/Tokyo"), "quiet_hours"), (2, Value::Null, "quiet_hours_no_zone")]
    {
        patch(&mut client, "ann", &always(zone));
        let id = send(&mut client, &titled(&format!("n{number}"), &["ann"], "push", "Hello"));
        let (inputs, text) = eventually_stands(&mut client, &id, "ann", "deferred");
        assert_eq!(inputs["code"], code);
        waiting.push(id);
        assert!(inputs["dueAt"].is_string() && text.contains("quiet hours"), "{text}");
        let mut urgent = titled(&format!("c{number}"), &["ann"], "push", "Fire");
        urgent["priority"] = json!("critical");
        let id = send(&mut client, &urgent);
        eventually_stands(&mut client, &id, "ann", "sent");
    }
    assert_eq!(post.lines().len(), 2, "only what is critical has arrived");
    patch(&mut client, "ann", &json!({"quietHours": null}));
    for id in waiting {
        eventually_stands(&mut client, &id, "ann", "sent");
    }
    assert!(post.arrived().values().all(|copies| *copies == 1), "once each");
}

/// So many patches of one document at the same time, each from a connection of its own.
fn patch_at_once(server: &Server, path: &str, bodies: Vec<Value>) {
    let together = std::sync::Barrier::new(bodies.len());
    std::thread::scope(|scope| {
        let patches: Vec<_> = bodies
            .into_iter()
            .map(|body| {
                let (mut client, together) = (server.client(), &together);
                scope.spawn(move || {
                    together.wait();
                    let answer = client.json("PATCH", path, &body).expect("an answer");
                    (answer.status, answer.text())
                })
            })
            .collect();
        for patch in patches {
            let (status, text) = patch.join().expect("an answer");
            assert_eq!(status, 200, "{path}: {text}");
        }
    });
}

// fixes: usability B3
#[test]
fn forty_merge_patches_at_once_are_all_merged() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    let categories = || -> Vec<Value> {
        (0..40).map(|no| json!({"categories": {format!("c{no}"): {"enabled": true}}})).collect()
    };
    for path in ["/api/v1/users/ann/preferences", "/api/v1/preferences/defaults"] {
        patch_at_once(&server, path, categories());
        let merged = expect(client.get(path), 200);
        assert_eq!(merged["categories"].as_object().map(|all| all.len()), Some(40), "{path}");
    }
    let path = "/api/v1/schedules/daily";
    let body = json!({"cron": "0 8 * * *", "timezone": "UTC", "notification": {
        "content": {"title": "Good morning"}, "recipients": [{"userId": "ann"}], "channels": ["push"]}});
    expect(client.json("PUT", path, &body), 201);
    patch_at_once(&server, path, (0..40).map(|no| json!({"cron": format!("{no} 8 * * *")})).collect());
    assert_eq!(expect(client.get(path), 200)["version"], json!(41), "each patch was made once");
}
