//! The viewer and control API.

use crate::client::{control, start};
use fantail_sandbox::record::{Arrival, Channel, sha256};
use serde_json::json;

fn arrival(id: &str, recipient: &str) -> Arrival {
    Arrival {
        emulator: "apns",
        channel: Channel::Push,
        id: id.to_owned(),
        recipient: recipient.to_owned(),
        sha256: sha256(b"content"),
        at_ms: 5,
        connection: 1,
        refused: None,
        contents: Box::new(json!({"payload": {"aps": {}}})),
    }
}

#[tokio::test]
async fn messages_are_listed_shown_judged_and_deleted() {
    let running = start().await;
    for no in 0..5 {
        running.world().arrived(arrival(&format!("m{no}"), if no == 3 { "x" } else { "y z" }));
    }
    for (path, expected) in [
        ("/messages", vec!["m0", "m1", "m2", "m3", "m4"]),
        ("/messages?channel=push&limit=2", vec!["m0", "m1"]),
        ("/messages?after=3", vec!["m3", "m4"]),
        ("/messages?recipient=y%20z&after=2", vec!["m2", "m4"]),
        ("/messages?channel=sms", vec![]),
    ] {
        let (status, page) = control(&running, "GET", path, &json!(null)).await;
        assert_eq!(status, 200);
        let ids: Vec<&str> =
            page["messages"].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str()).collect();
        assert_eq!(ids, expected, "{path}");
    }
    let (_, shown) = control(&running, "GET", "/messages/1", &json!(null)).await;
    assert_eq!(shown["content"], json!({"payload": {"aps": {}}}));
    let sends = json!([{"id": "m0"}, {"id": "m3", "recipient": "x"}, {"id": "m9"}, "m4"]);
    let (_, verdict) = control(&running, "POST", "/judge", &sends).await;
    assert_eq!((&verdict["unique"], &verdict["missingCount"]), (&json!(3), &json!(1)));
    assert_eq!((&verdict["missing"][0]["id"], &verdict["unexpectedCount"]), (&json!("m9"), &json!(2)));
    assert_eq!(control(&running, "DELETE", "/messages", &json!(null)).await.0, 200);
    assert_eq!(control(&running, "GET", "/messages/1", &json!(null)).await.0, 404);
}

#[tokio::test]
async fn what_is_wrong_is_a_problem_document() {
    let running = start().await;
    for (method, path, body, status) in [
        ("GET", "/messages?channel=fax", json!(null), 400),
        ("GET", "/messages?colour=red", json!(null), 400),
        ("GET", "/messages/abc", json!(null), 404),
        ("GET", "/faults/nobody", json!(null), 404),
        ("PUT", "/faults/apns", json!({"sead": 1}), 400),
        ("PUT", "/faults/apns", json!({"errors": {"ServiceUnavailible": 0.1}}), 400),
        ("POST", "/judge", json!("no list"), 400),
        ("POST", "/judge", json!([1]), 400),
        ("POST", "/clock", json!({}), 400),
        ("GET", "/apns/nothing", json!(null), 404),
    ] {
        let (found, problem) = control(&running, method, path, &body).await;
        assert_eq!(found.as_u16(), status, "{method} {path}");
        assert_eq!(problem["status"], status, "{method} {path}");
    }
}

#[tokio::test]
async fn faults_are_read_back_as_they_were_set() {
    let running = start().await;
    let profile = json!({"seed": 4, "errors": {"ServiceUnavailable": 0.5}, "goAwayEvery": 10});
    let (status, set) = control(&running, "PUT", "/faults/apns", &profile).await;
    assert_eq!(status, 200);
    let (_, read) = control(&running, "GET", "/faults/apns", &json!(null)).await;
    assert_eq!(set, read);
    assert_eq!((&read["seed"], &read["goAwayEvery"]), (&json!(4), &json!(10)));
    let (_, help) = control(&running, "GET", "/", &json!(null)).await;
    assert!(help["emulators"].as_array().is_some_and(|names| names.contains(&json!("apns"))));
}
