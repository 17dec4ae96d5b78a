//! When a bulk send may go on: quiet hours, off-peak windows, the rate of all shards together, and others who come first.

use crate::bulk::{bulk, bulk_status, crowd, eventually_is, message, put_segment};
use crate::deliveries::{Post, metric, notification, register, send, status};
use crate::moved_clock::start_at;
use crate::respect::patch;
use crate::world::{eventually, expect, put_user};
use fantail_api::time;
use fantail_rules::bulk_pace::CATCH_UP_MS;
use fantail_rules::ulid::Ulid;
use fantail_rules::wall::utc_text;
use fantail_server::client::Client;
use serde_json::{Value, json};

/// Counts of a bulk send's first channel, once they are these.
fn eventually_counts(client: &mut Client, id: &str, expected: &Value) {
    eventually(&format!("{id} counts {expected}"), || {
        (bulk_status(client, id)["channels"][0]["counts"] == *expected).then_some(())
    });
}

fn members(client: &mut Client, id: &str) -> u64 {
    bulk_status(client, id)["members"].as_u64().expect("a number")
}

fn two_with_phones(client: &mut Client) {
    for user in ["ann", "bob"] {
        put_user(client, user);
        register(client, user, "phone", &format!("stub:ok/{user}"));
    }
    put_segment(client, "all", r#"reachable("push")"#);
}

// proves: BLK-09
// fixes: contract 3
#[test]
fn a_bulk_send_waits_for_quiet_hours_unless_it_says_otherwise() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T23:00:00Z", &[]);
    let mut client = server.client();
    two_with_phones(&mut client);
    let night = json!({"enabled": true, "start": "22:00", "end": "07:00", "timezone": "UTC"});
    patch(&mut client, "ann", &json!({"quietHours": night}));
    let waiting = bulk(&mut client, &message("all", json!({})));
    let loud = bulk(&mut client, &message("all", json!({"respectQuietHours": false})));
    eventually_counts(&mut client, &loud, &json!({"sent": 2}));
    eventually_counts(&mut client, &waiting, &json!({"sent": 1, "deferred": 1}));
    clock.move_to("2026-06-11T07:00:00Z");
    eventually_counts(&mut client, &waiting, &json!({"sent": 2}));
    assert_eq!(post.arrived().len(), 4, "each once");
    server.stop();
}

// proves: BLK-11, SCH-02
// fixes: contract 3
#[test]
fn a_bulk_send_goes_on_in_its_off_peak_window_only() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T20:00:00Z", &[]);
    let mut client = server.client();
    two_with_phones(&mut client);
    let window = json!({"start": "02:00", "end": "05:00", "timezone": "Europe/Vienna"});
    let off_peak = bulk(&mut client, &message("all", json!({"offPeak": window})));
    // One that may go at once comes later and is done first.
    let at_once = bulk(&mut client, &message("all", json!({})));
    eventually_is(&mut client, &at_once, "done");
    clock.move_to("2026-06-10T23:30:00Z");
    let second = bulk(&mut client, &message("all", json!({})));
    eventually_is(&mut client, &second, "done");
    assert_eq!(members(&mut client, &off_peak), 0, "it is half past one in Vienna");
    clock.move_to("2026-06-11T00:00:00Z");
    eventually_counts(&mut client, &off_peak, &json!({"sent": 2}));
    server.stop();
}

/// Judged by the server's own clock: when each delivery began, against when the bulk send was accepted.
// proves: BLK-04
// fixes: contract 3
#[test]
fn four_shards_keep_one_rate_together() {
    const SHARDS: u64 = 4;
    const RATE: u64 = 4;
    const USERS: u64 = 32;
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T12:00:00Z", &[("FANTAIL_STORAGE_SHARDS", "4")]);
    let mut client = server.client();
    for user in 0..USERS {
        put_user(&mut client, &format!("u{user}"));
        register(&mut client, &format!("u{user}"), "phone", &format!("stub:ok/u{user}"));
    }
    put_segment(&mut client, "all", r#"reachable("push")"#);
    let id = bulk(&mut client, &message("all", json!({"ratePerSecond": RATE})));
    let accepted = Ulid::parse(&id).expect("an id").millis();
    // Time leaps on by a second each, unless it has gone on by itself meanwhile.
    for second in 1..60 {
        let before = members(&mut client, &id);
        if before == USERS {
            break;
        }
        if let Err(refused) = clock.try_move_to(&utc_text(accepted.plus(second * 1_000))) {
            assert!(refused.to_string().starts_with("time does not go back"), "{refused}");
        }
        eventually("it goes on", || (members(&mut client, &id) > before).then_some(()));
    }
    eventually_counts(&mut client, &id, &json!({"sent": USERS}));
    let rows = status(&mut client, &id)["deliveries"].clone();
    let rows = rows.as_array().expect("deliveries");
    let begun_at = |row: &Value| time::parse(row["begunAt"].as_str().expect("a text")).expect("a time").0;
    let mut begun: Vec<u64> = rows.iter().map(begun_at).collect();
    begun.sort_unstable();
    assert_eq!(begun.len() as u64, USERS);
    for (before, at) in (0..).zip(begun) {
        // The first of each shard may go at once, and a moment is made good; each of the others waits its share of a second.
        let earliest =
            accepted.0 + ((before + 1_u64).saturating_sub(SHARDS) * 1_000 / RATE).saturating_sub(CATCH_UP_MS);
        assert!(at >= earliest, "the one after {before} others began {} ms too early", earliest - at);
    }
    server.stop();
}

// proves: BLK-11, OBS-04
// fixes: contract 3
#[test]
fn a_bulk_send_waits_while_others_have_much_before_them() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T12:00:00Z", &[]);
    let mut client = server.client();
    crowd(&mut client, 1..4);
    for user in ["ann", "bob"] {
        let body = json!({"email": format!("ok/{user}@stub.test")});
        expect(client.json("PUT", &format!("/api/v1/users/{user}"), &body), 201);
        register(&mut client, user, "phone", &format!("stub:ok/{user}"));
    }
    put_segment(&mut client, "phones", r#"reachable("push")"#);
    put_segment(&mut client, "mails", r#"reachable("email")"#);
    post.faults("push down\n");
    let queued = r#"channel="push",lane="normal""#;
    for no in 0.. {
        send(&mut client, &notification(&format!("n{no}"), &["ann"], json!({})));
        if no >= 400 && metric(&mut client, "fantail_delivery_queue", queued) >= 128 {
            break;
        }
    }
    let push = bulk(&mut client, &message("phones", json!({})));
    let mail = bulk(&mut client, &message("mails", json!({"channels": ["email"]})));
    eventually_counts(&mut client, &mail, &json!({"sent": 2}));
    assert_eq!(members(&mut client, &push), 0, "what others sent comes first");
    // What waits is seen, when it will be over, and how long it has waited.
    eventually("its end is estimated", || {
        (metric(&mut client, "fantail_delivery_drain_eta_seconds", r#"channel="push""#) > 0).then_some(())
    });
    clock.move_to("2026-06-10T12:03:00Z");
    let age = metric(&mut client, "fantail_delivery_oldest_age_seconds", r#"lane="normal""#);
    assert!(age >= 60, "{age} s");
    assert!(metric(&mut client, "fantail_delivery_queue", queued) > 0);
    post.faults("");
    eventually_is(&mut client, &push, "done");
    server.stop();
}
