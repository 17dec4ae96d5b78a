//! Users who do not want to see everything in their inbox, over the API.

use crate::deliveries::{Post, notification, send};
use crate::moved_clock::start_at;
use crate::respect::{eventually_stands, patch};
use crate::world::{event, eventually_has, follow, ids, inbox, post, put_user, refused, unread};
use serde_json::{Value, json};

fn about(id: &str, category: &str) -> Value {
    let mut event = event(id, &json!({"followersOf": "star"}));
    event["data"]["category"] = json!(category);
    event
}

// proves: INB-14, PRF-01, PRF-04, DEL-14
#[test]
fn what_is_off_is_hidden_from_then_on_also_after_a_crash() {
    let house = Post::new();
    let (server, _clock) = start_at(&house, "2026-06-10T21:10:00Z", &[]);
    let mut client = server.client();
    for user in ["ann", "bob"] {
        put_user(&mut client, user);
        follow(&mut client, user, "star");
    }
    let before = post(&mut client, &about("e1", "likes"));
    eventually_has(&mut client, "ann", std::slice::from_ref(&before));
    patch(&mut client, "ann", &json!({"categories": {"likes": {"enabled": false}}}));
    let (hidden, news) = (post(&mut client, &about("e2", "likes")), post(&mut client, &about("e3", "news")));
    eventually_has(&mut client, "bob", &[news.clone(), hidden.clone(), before.clone()]);
    assert_eq!(ids(&inbox(&mut client, "ann", "")), [news.clone(), before.clone()]);
    assert_eq!((unread(&mut client, "ann").0, unread(&mut client, "bob").0), (2, 3));
    refused(client.get(&format!("/api/v1/users/ann/notifications/{hidden}")), "NOTIFICATION_NOT_FOUND");
    patch(&mut client, "ann", &json!({"channels": {"inApp": {"enabled": false}}}));
    let sent = send(&mut client, &notification("n1", &["ann", "bob"], json!({"channels": ["inApp"]})));
    let (inputs, story) = eventually_stands(&mut client, &sent, "ann", "suppressed");
    assert_eq!(inputs["code"], "channel_off", "{story}");
    drop(server.kill());
    let (server, _clock) = start_at(&house, "2026-06-10T22:10:00Z", &[]);
    let mut client = server.client();
    patch(&mut client, "ann", &json!({"channels": null, "categories": null}));
    let after = post(&mut client, &about("e4", "likes"));
    eventually_has(&mut client, "ann", &[after.clone(), news.clone(), before.clone()]);
    eventually_has(&mut client, "bob", &[after, sent, news, hidden, before]);
    assert_eq!((unread(&mut client, "ann").0, unread(&mut client, "bob").0), (3, 5));
}

#[test]
fn what_cannot_be_said_about_the_inbox_is_refused() {
    let house = Post::new();
    let (server, _clock) = start_at(&house, "2026-06-10T21:10:00Z", &[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    let off = json!({"channels": {"inApp": {"enabled": false}}});
    let limited = json!({"channels": {"inApp": {"frequency": {"maxPerHour": 1}}}});
    refused(client.json("PATCH", "/api/v1/preferences/defaults", &off), "INVALID_REQUEST");
    refused(client.json("PATCH", "/api/v1/users/ann/preferences", &limited), "INVALID_REQUEST");
    refused(
        client.json("PUT", "/api/v1/categories/likes", &json!({"blockedChannels": ["inApp"]})),
        "INVALID_REQUEST",
    );
}
