//! A burst far above the limit of an account, through a whole server and a provider's own protocol. Judged by what the provider
//! had under way when each message arrived, never by time.

use crate::deliveries::{counts, notification, send};
use crate::providers::{World, put};
use crate::world::{eventually, expect, post, post_by, put_user, unread};
use fantail_sandbox::faults::Profile;
use fantail_sandbox::faults::profile::Latency;
use fantail_server::client::Client;
use serde_json::{Value, json};

const USERS: usize = 1_000;
const AT_ONCE: usize = 100;
const PLACES: u32 = 50;

fn people_with_phones(client: &mut Client, count: usize) -> Vec<String> {
    let users: Vec<String> = (0..count).map(|no| format!("u{no}")).collect();
    for (no, user) in users.iter().enumerate() {
        put_user(client, user);
        let body = json!({"userId": user, "deviceId": "phone", "platform": "ios", "token": format!("{no:064x}"),
                          "consent": {"granted": true, "version": "1"}});
        let response = client.post("/api/v1/devices", &body).expect("an answer");
        assert!(matches!(response.status, 200 | 201), "{}", response.text());
    }
    users
}

/// How many the provider had under way when each message arrived.
fn under_way(world: &World) -> Vec<u32> {
    world
        .sandbox
        .world()
        .record()
        .read(|rows, _| rows.iter().filter(|row| row.emulator == "apns").map(|row| row.under_way).collect())
}

/// One post of an author above the threshold: a pointer for the inboxes, and for each device a message that waits for its turn.
// proves: FAN-10
#[test]
fn the_pushes_of_a_celebrity_leave_at_the_pace_of_the_account_and_none_is_dropped() {
    const FANS: usize = 300;
    const PLACES: u32 = 20;
    let (world, server) = World::with_server();
    let mut client = server.client();
    expect(server.admin().json("PATCH", "/api/v1/tenants/default", &json!({"celebrityThreshold": 100})), 200);
    let mut account = world.apns();
    account["concurrency"] = PLACES.into();
    put(&mut client, "ios", &account);
    let fans = people_with_phones(&mut client, FANS);
    let follows: Vec<Value> = fans.iter().map(|fan| json!({"user": fan, "actor": "star"})).collect();
    expect(client.post("/api/v1/follows/batch", &json!({"follows": follows})), 200);
    // Whether it is a pointer follows from sizes that shards tell; the pushes are the same either way.
    let latency = Latency::Fixed { ms: 50 };
    world.sandbox.set_faults("apns", Profile { latency, ..Profile::default() });
    let mut event = post_by("star", "e1");
    event["data"]["channels"] = json!(["push"]);
    let id = post(&mut client, &event);
    counts(&mut client, &id, &json!({"sent": FANS}));
    let under_way = under_way(&world);
    assert_eq!(under_way.len(), FANS, "once each");
    assert_eq!(under_way.iter().max(), Some(&PLACES), "all places and no more");
    eventually("the inbox shows it", || (unread(&mut client, &fans[FANS - 1]).0 == 1).then_some(()));
}

/// 1,000 devices in ten requests: the provider has as many under way as the account allows, from the beginning to the end.
// proves: DEL-04
// fixes: interop F1
#[test]
fn a_burst_keeps_all_places_of_its_account_in_use() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    let mut account = world.apns();
    account["concurrency"] = PLACES.into();
    put(&mut client, "ios", &account);
    let users = people_with_phones(&mut client, USERS);
    let latency = Latency::Fixed { ms: 300 };
    world.sandbox.set_faults("apns", Profile { latency, ..Profile::default() });
    let ids: Vec<String> = users
        .chunks(AT_ONCE)
        .enumerate()
        .map(|(no, users)| {
            let users: Vec<&str> = users.iter().map(String::as_str).collect();
            send(&mut client, &notification(&format!("n{no}"), &users, json!({})))
        })
        .collect();
    for id in &ids {
        counts(&mut client, id, &json!({"sent": AT_ONCE}));
    }
    let under_way = under_way(&world);
    assert_eq!(under_way.len(), USERS, "once each");
    assert_eq!(under_way.iter().max(), Some(&PLACES), "all places and no more");
    // Answers come in waves: in each of them all places are in use again.
    for (first, wave) in under_way.windows(3 * PLACES as usize).enumerate() {
        let most = wave.iter().max().expect("a wave");
        assert!(most * 10 >= PLACES * 9, "only {most} of {PLACES} places from message {first} on");
    }
}
