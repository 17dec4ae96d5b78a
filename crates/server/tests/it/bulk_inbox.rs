//! Those whom a segment chooses, in their inboxes: bulk sends, and events that name a segment as their audience.

use crate::bulk::{bulk, crowd, eventually_is, message, put_segment};
use crate::deliveries::Post;
use crate::world::{bare, event, eventually, eventually_has, expect, inbox, post, put_user, refused, unread};
use serde_json::json;

// proves: BLK-03, BLK-06
#[test]
fn a_bulk_send_is_shown_in_inboxes_as_it_passes() {
    let house = Post::new();
    let id = {
        let server = house.start(&[]);
        let mut client = server.client();
        crowd(&mut client, 1..10);
        put_user(&mut client, "no-device");
        put_segment(&mut client, "all", "everyone");
        let off = json!({"globalEnabled": false});
        expect(client.json("PATCH", "/api/v1/users/u3/preferences", &off), 200);
        eventually("every device can be used", || {
            let body = message("all", json!({"channels": ["inApp", "push"]}));
            let estimate = expect(client.post("/api/v1/notifications/bulk/estimate", &body), 200);
            let shown = &estimate["channels"]["inApp"];
            assert_eq!((&shown["recipients"], &shown["suppressed"]), (&json!(9), &json!({"global_off": 1})));
            (estimate["channels"]["push"]["recipients"] == 8).then_some(())
        });
        let body = message("all", json!({"channels": ["inApp", "push"], "ratePerSecond": 20}));
        let id = bulk(&mut client, &body);
        // In the middle, perhaps.
        server.kill();
        id
    };
    let server = house.start(&[]);
    let mut client = server.client();
    let done = eventually_is(&mut client, &id, "done");
    assert_eq!((&done["members"], &done["entries"]), (&json!(9), &json!(9)), "{done}");
    assert_eq!(done["skipped"], json!({"global_off": 1}), "{done}");
    for user in ["u1", "u9", "no-device"] {
        let page = inbox(&mut client, user, "");
        assert_eq!(page["notifications"].as_array().map(Vec::len), Some(1), "{user}: {page}");
        assert_eq!(page["notifications"][0]["eventId"], *id);
        assert_eq!(unread(&mut client, user), (1, 1));
    }
    assert_eq!(inbox(&mut client, "u3", "")["notifications"], json!([]), "wants nothing at all");
    // One of them is marked by its id, and all of it is taken back.
    expect(client.post("/api/v1/users/u1/notifications/read", &json!({"ids": [id]})), 200);
    assert_eq!(unread(&mut client, "u1").0, 0);
    expect(bare(&mut client, "DELETE", &format!("/api/v1/events/{id}")), 204);
    eventually("it is gone from every inbox", || {
        let is_gone = |user: &&str| inbox(&mut client, user, "")["notifications"] == json!([]);
        ["u1", "u9"].iter().all(is_gone).then_some(())
    });
    assert_eq!((unread(&mut client, "u1"), unread(&mut client, "u9")), ((0, 0), (0, 0)));
}

// proves: FAN-06
#[test]
fn an_event_may_name_a_segment_as_its_audience() {
    let house = Post::new();
    let server = house.start(&[]);
    let mut client = server.client();
    for (user, plan) in [("ann", "pro"), ("bob", "free"), ("cat", "pro")] {
        let body = json!({"attributes": {"plan": plan}});
        let response = client.json("PUT", &format!("/api/v1/users/{user}"), &body).expect("an answer");
        assert_eq!(response.status, 201, "{}", response.text());
    }
    put_segment(&mut client, "pros", r#"attributes.plan == "pro""#);
    let said = event("for-pros", &json!({"segment": "pros"}));
    let id = post(&mut client, &said);
    assert_eq!(post(&mut client, &said), id, "the same again");
    for user in ["ann", "cat"] {
        eventually_has(&mut client, user, std::slice::from_ref(&id));
    }
    let walk = eventually_is(&mut client, &id, "done");
    assert_eq!(
        (&walk["segment"], &walk["members"], &walk["entries"]),
        (&json!("pros"), &json!(2), &json!(2))
    );
    assert_eq!(inbox(&mut client, "bob", "")["notifications"], json!([]));
    // What comes later is in the order of what each user has.
    let second = post(&mut client, &event("again", &json!({"segment": "pros"})));
    eventually_has(&mut client, "ann", &[second, id.clone()]);
    // A repeat is one, even if the segment is gone by now; something new is not.
    expect(bare(&mut client, "DELETE", "/api/v1/segments/pros"), 204);
    assert_eq!(post(&mut client, &said), id);
    let fresh = event("fresh", &json!({"segment": "pros"}));
    refused(client.post("/api/v1/events", &fresh), "SEGMENT_NOT_FOUND");
    let both = event("both", &json!({"segment": "pros", "topic": "news"}));
    refused(client.post("/api/v1/events", &both), "INVALID_REQUEST");
}
