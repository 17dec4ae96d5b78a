//! The producer's own id of a notification: shown beside the platform's, and taken wherever that is.

use crate::deliveries::{counts, notification, register, send};
use crate::server::Server;
use crate::world::{event, eventually, eventually_has, expect, ids, inbox, post, put_user, refused, unread};
use fantail_server::client::Request;
use serde_json::{Value, json};

// fixes: usability §3.1, usability §3.18
#[test]
fn both_ids_are_shown_and_taken() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    let id = send(&mut client, &notification("order-1", &["ann"], json!({"channels": ["inApp"]})));
    let other = send(&mut client, &notification("order-2", &["ann"], json!({"channels": ["inApp"]})));
    eventually_has(&mut client, "ann", &[other.clone(), id.clone()]);
    let page = inbox(&mut client, "ann", "");
    let shown = &page["notifications"][1];
    assert_eq!((&shown["eventId"], &shown["notificationId"]), (&json!(id), &json!("order-1")));
    for key in [id.as_str(), "order-1"] {
        let one = expect(client.get(&format!("/api/v1/users/ann/notifications/{key}")), 200);
        assert_eq!(one["eventId"], *id);
        let status = expect(client.get(&format!("/api/v1/notifications/{key}/status")), 200);
        assert_eq!((&status["eventId"], &status["notificationId"]), (&json!(id), &json!("order-1")));
        assert_eq!(status["deliveries"].as_array().map(Vec::len), Some(1), "rows without being asked for");
        for about in ["explain", "trace"] {
            let told = expect(client.get(&format!("/api/v1/notifications/{key}/{about}?user=ann")), 200);
            assert_eq!(
                (&told["eventId"], &told["notificationId"]),
                (&json!(id), &json!("order-1")),
                "{about}"
            );
        }
        for field in ["eventId", "notificationId"] {
            let choice = json!({field: key, "dryRun": true});
            assert_eq!(expect(client.post("/api/v1/deadletters/redrive", &choice), 200)["count"], 0);
        }
        let read = json!({"ids": [key]});
        expect(client.post("/api/v1/users/ann/notifications/read", &read), 200);
        assert_eq!(unread(&mut client, "ann").0, 1);
        expect(client.post("/api/v1/users/ann/notifications/unread", &read), 200);
        let before = json!({"all": true, "before": key});
        expect(client.post("/api/v1/users/ann/notifications/archive", &before), 200);
        assert_eq!(ids(&inbox(&mut client, "ann", "")), std::slice::from_ref(&other));
        expect(client.post("/api/v1/users/ann/notifications/unarchive", &read), 200);
    }
    let both = json!({"eventId": id, "notificationId": "order-1"});
    let problem = refused(client.post("/api/v1/deadletters/redrive", &both), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/notificationId");
    for unknown in ["nothing", "01KG9V7W0R0000000000000001"] {
        let body = json!({"ids": [unknown]});
        refused(client.post("/api/v1/users/ann/notifications/read", &body), "NOTIFICATION_NOT_FOUND");
        refused(client.get(&format!("/api/v1/users/ann/notifications/{unknown}")), "NOTIFICATION_NOT_FOUND");
        refused(client.get(&format!("/api/v1/notifications/{unknown}/status")), "EVENT_NOT_FOUND");
    }
    refused(client.post("/api/v1/deadletters/drop", &json!({"eventId": "nothing"})), "EVENT_NOT_FOUND");
    let path = "/api/v1/users/ann/notifications/order-1";
    let gone = client.send(&Request { method: "DELETE", path, headers: &[], body: &[] });
    assert_eq!(gone.expect("an answer").status, 204);
    let path = "/api/v1/events/order-2";
    let gone = client.send(&Request { method: "DELETE", path, headers: &[], body: &[] });
    assert!(matches!(gone.expect("an answer").status, 202 | 204));
    eventually_has(&mut client, "ann", &[]);
}

/// Producers may name their notifications as we name events.
#[test]
fn a_name_that_looks_like_an_id_is_a_name() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    let name = "01KG9V7W0R0000000000000001";
    let id = send(&mut client, &notification(name, &["ann"], json!({"channels": ["inApp"]})));
    eventually_has(&mut client, "ann", std::slice::from_ref(&id));
    let counts =
        expect(client.post("/api/v1/users/ann/notifications/read", &json!({"ids": [name, id]})), 200);
    assert_eq!(counts["unread"], 0);
    assert_eq!(inbox(&mut client, "ann", "")["notifications"][0]["notificationId"], name);
}

#[test]
fn events_have_no_name_of_a_producer() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    let id = post(&mut client, &event("e1", &json!({"users": ["ann"]})));
    eventually_has(&mut client, "ann", std::slice::from_ref(&id));
    assert_eq!(inbox(&mut client, "ann", "")["notifications"][0]["notificationId"], Value::Null);
    let status = expect(client.get(&format!("/api/v1/notifications/{id}/status")), 200);
    assert_eq!(status["notificationId"], Value::Null);
}

// fixes: usability §3.1
#[test]
fn dead_letters_and_names_survive_a_restart() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:malformed/ann");
    let id = send(&mut client, &notification("d-1", &["ann"], json!({})));
    counts(&mut client, &id, &json!({"dead": 1}));
    let directory = server.kill().expect("its directory");
    let server = Server::start_in(&directory.path("data"), &[], &[]);
    let mut client = server.client();
    let letter = eventually("the dead letter", || {
        let letters = expect(client.get("/api/v1/deadletters"), 200);
        letters["deadLetters"].get(0).cloned()
    });
    assert_eq!((&letter["eventId"], &letter["notificationId"]), (&json!(id), &json!("d-1")));
    let dropped = expect(client.post("/api/v1/deadletters/drop", &json!({"notificationId": "d-1"})), 200);
    assert_eq!(dropped["count"], 1);
}

// fixes: usability §3.17
#[test]
fn what_was_never_tried_has_no_attempts() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    let quiet = json!({"quietHours": {"enabled": true, "start": "00:00", "end": "00:00", "timezone": "UTC"}});
    expect(client.json("PATCH", "/api/v1/users/ann/preferences", &quiet), 200);
    let id = send(&mut client, &notification("night", &["ann"], json!({"channels": ["push"]})));
    counts(&mut client, &id, &json!({"deferred": 1}));
    let status = expect(client.get("/api/v1/notifications/night/status"), 200);
    let delivery = &status["deliveries"][0];
    assert_eq!((&delivery["code"], &delivery["attempts"]), (&json!("quiet_hours"), &json!(0)), "{status}");
}
