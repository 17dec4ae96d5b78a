//! A deploy: SIGTERM while deliveries wait for their provider. Nothing is sent twice, nothing ends unconfirmed.

use crate::deliveries::{Post, metric, notification, register, send, status};
use crate::server::Server;
use crate::world::{eventually, put_user};
use fantail_server::client::Client;
use serde_json::json;
use std::io::Write;

/// Users and rounds, and those of a long run: with four lanes, 1,000 sends are in flight at each stop.
const SHORT: (usize, usize) = (50, 3);
const LONG_USERS: usize = 250;
/// Each class has its own policy for what is unknown.
const PRIORITIES: [&str; 4] = ["critical", "high", "normal", "low"];
/// The provider answers after this time: longer than all sends of a round take to begin, shorter than `delivery.drain_s`.
const ANSWER_MS: u64 = 5_000;

fn users(count: usize) -> Vec<String> {
    (0..count).map(|no| format!("user{no}")).collect()
}

/// Sends to all users in each lane, and waits until the provider has every message. It answers later.
fn fill(post: &Post, server: &Server, users: &[String], round: usize) -> Vec<String> {
    let mut client = server.client();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let before = post.lines().len();
    let one = |priority: &&str| {
        let id = format!("{priority}{round}");
        send(&mut client, &notification(&id, &users, json!({"priority": priority})))
    };
    let ids: Vec<String> = PRIORITIES.iter().map(one).collect();
    eventually("all are with the provider", || {
        (post.lines().len() == before + users.len() * PRIORITIES.len()).then_some(())
    });
    ids
}

/// Deliveries without an answer of the provider, by the statuses of their notifications.
fn under_way(client: &mut Client, ids: &[String]) -> u64 {
    let sending = |id: &String| {
        let found = status(client, id);
        found["channels"][0]["counts"]["sending"].as_u64().unwrap_or_default()
    };
    ids.iter().map(sending).sum()
}

// fixes: correctness A5, torture 3
#[test]
fn a_clean_stop_under_load_sends_nothing_twice_and_leaves_nothing_unconfirmed() {
    let stops = std::env::var("FANTAIL_CLEAN_STOPS").ok().and_then(|text| text.parse().ok());
    let (count, rounds) = stops.map_or(SHORT, |stops| (LONG_USERS, stops));
    let users = users(count);
    let post = Post::new();
    let mut server = post.start(&[]);
    for user in &users {
        put_user(&mut server.client(), user);
        register(&mut server.client(), user, "phone", &format!("stub:slow={ANSWER_MS}/{user}"));
    }
    let all = (count * PRIORITIES.len()) as u64;
    let (mut ids, mut least) = (Vec::new(), u64::MAX);
    for round in 0..rounds {
        let sent = fill(&post, &server, &users, round);
        least = least.min(under_way(&mut server.client(), &sent));
        server.signal("TERM");
        assert_eq!(least, all, "round {round}: all sends are under way when the server is asked to stop");
        assert!(server.wait(), "a clean stop: {}", server.log());
        ids.extend(sent);
        server = post.start(&[]);
    }
    let mut client = server.client();
    for id in &ids {
        let found = eventually("every delivery ends", || {
            let found = status(&mut client, id);
            (found["channels"][0]["done"] == true).then_some(found)
        });
        for delivery in found["deliveries"].as_array().expect("deliveries") {
            assert_eq!((&delivery["state"], &delivery["attempts"]), (&json!("sent"), &json!(1)), "{found}");
        }
    }
    let arrived = post.arrived();
    assert_eq!(arrived.len(), count * PRIORITIES.len() * rounds);
    assert!(arrived.values().all(|copies| *copies == 1), "{arrived:?}");
    assert_eq!(metric(&mut client, "fantail_delivery_ambiguous_total", ""), 0);
    assert!(!server.log().contains("still under way"), "the time to drain was enough: {}", server.log());
    server.stop();
    let mut out = std::io::stdout();
    writeln!(out, "{rounds} clean stops with at least {least} sends in flight: 0 copies, 0 unconfirmed")
        .expect("stdout can be written");
}

// fixes: correctness A5
#[test]
fn a_second_signal_ends_the_waiting() {
    let post = Post::new();
    let mut server = post.start(&[("FANTAIL_DELIVERY_DRAIN_S", "3600")]);
    put_user(&mut server.client(), "ann");
    register(&mut server.client(), "ann", "phone", "stub:slow=3000000/ann");
    send(&mut server.client(), &notification("n1", &["ann"], json!({})));
    eventually("it is with the provider", || (post.lines().len() == 1).then_some(()));
    server.signal("TERM");
    eventually("it waits", || server.log().contains("stopping").then_some(()));
    server.signal("TERM");
    assert!(server.wait(), "{}", server.log());
    assert!(server.log().contains("asked to stop again"), "{}", server.log());
}
