//! A burst far above the limit of an account, through a whole server and a provider's own protocol. Judged by what the provider
//! had under way when each message arrived, never by time.

use crate::deliveries::{counts, notification, send};
use crate::providers::{World, put};
use crate::world::put_user;
use fantail_sandbox::faults::Profile;
use fantail_sandbox::faults::profile::Latency;
use serde_json::json;

const USERS: usize = 1_000;
const AT_ONCE: usize = 100;
const PLACES: u32 = 50;

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
    let users: Vec<String> = (0..USERS).map(|no| format!("u{no}")).collect();
    for (no, user) in users.iter().enumerate() {
        put_user(&mut client, user);
        let body = json!({"userId": user, "deviceId": "phone", "platform": "ios", "token": format!("{no:064x}"),
                          "consent": {"granted": true, "version": "1"}});
        let response = client.post("/api/v1/devices", &body).expect("an answer");
        assert!(matches!(response.status, 200 | 201), "{}", response.text());
    }
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
    let under_way: Vec<u32> =
        world.sandbox.world().record().read(|rows, _| {
            rows.iter().filter(|row| row.emulator == "apns").map(|row| row.under_way).collect()
        });
    assert_eq!(under_way.len(), USERS, "once each");
    assert_eq!(under_way.iter().max(), Some(&PLACES), "all places and no more");
    // Answers come in waves: in each of them all places are in use again.
    for (first, wave) in under_way.windows(3 * PLACES as usize).enumerate() {
        let most = wave.iter().max().expect("a wave");
        assert!(most * 10 >= PLACES * 9, "only {most} of {PLACES} places from message {first} on");
    }
}
