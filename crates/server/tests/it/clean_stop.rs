//! A deploy: SIGTERM while deliveries wait for their provider. Nothing is sent twice, nothing ends unconfirmed.

use crate::deliveries::{Post, metric, notification, register, send, status};
use crate::server::Server;
use crate::world::{eventually, put_user};
use serde_json::json;

/// Users and rounds, and those of a long run: with four lanes, 1,000 sends are in flight at each stop.
const SHORT: (usize, usize) = (50, 3);
const LONG_USERS: usize = 250;
/// Each class has its own policy for what is unknown.
const PRIORITIES: [&str; 4] = ["critical", "high", "normal", "low"];

fn users(count: usize) -> Vec<String> {
    (0..count).map(|no| format!("user{no}")).collect()
}

/// Sends to everybody in each lane, and waits until all of it is with the provider, which takes its time to answer.
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
        register(&mut server.client(), user, "phone", &format!("stub:slow=700/{user}"));
    }
    let mut ids = Vec::new();
    for round in 0..rounds {
        ids.extend(fill(&post, &server, &users, round));
        server.stop();
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
    server.stop();
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
