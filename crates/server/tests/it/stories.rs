//! `fantail explain` reads as a story: what happened, in its order, and where it stands.

use crate::deliveries::{Post, explain, notification, register, send};
use crate::server::{Server, run};
use crate::world::{eventually, expect, put_user};
use fantail_server::client::Client;
use serde_json::json;
use std::time::Duration;

/// Stories that are asked for before an end counts as never.
const STORIES_MAX: usize = 10_000;

/// What the command line prints.
fn printed(server: &Server, id: &str, user: &str) -> String {
    let data = server.data.to_str().expect("a path");
    run(&["explain", id, user, "--server", &server.address, "--data", data])
}

/// Waits until the story says `end`, then checks that it has these phrases in this order.
fn check(server: &Server, id: &str, user: &str, phrases: &[&str]) {
    let end = phrases.last().expect("a story has an end");
    let (mut client, mut last) = (server.client(), String::new());
    for _ in 0..STORIES_MAX {
        last = explain(&mut client, id, user);
        if last.contains(end) {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    assert!(last.contains(end), "never came to {end:?}:\n{last}");
    let told = printed(server, id, user);
    let mut rest = told.as_str();
    for phrase in phrases {
        let Some((_, behind)) = rest.split_once(phrase) else { panic!("{phrase:?} is not next in\n{told}") };
        rest = behind;
    }
    for clumsy in ["1 retries", "after 0", "()", "  :", "1970-"] {
        assert!(!told.contains(clumsy), "{clumsy:?} in\n{told}");
    }
}

fn eventually_active(client: &mut Client, user: &str) {
    eventually(&format!("{user} can be written to"), || {
        let found = expect(client.get(&format!("/api/v1/users/{user}")), 200);
        (found["channels"][0]["status"] == "active").then_some(())
    });
}

// proves: TRK-01, TRK-05, TRK-06
#[test]
fn each_end_of_a_delivery_reads_as_a_story() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    let story = [
        ("delivered", "stub:ok", "normal"),
        ("retried", "stub:fail-first=1", "normal"),
        ("refused", "stub:malformed", "normal"),
        ("unsure", "stub:timeout/unsure", "low"),
        ("again", "stub:timeout/again", "critical"),
    ];
    put_user(&mut client, "suppressed");
    send(&mut client, &notification("suppressed", &["suppressed"], json!({})));
    for (user, token, priority) in story {
        put_user(&mut client, user);
        register(&mut client, user, "phone", token);
        send(&mut client, &notification(user, &[user], json!({"priority": priority})));
    }
    // Evidence about a mail is awaited for ten minutes, so this one stays as it is.
    let profile = json!({"email": "timeout/waiting@stub.test"});
    expect(client.json("PUT", "/api/v1/users/waiting", &profile), 201);
    eventually_active(&mut client, "waiting");
    send(&mut client, &notification("waiting", &["waiting"], json!({"channels": ["email"]})));
    let begin = ["accepted as", "lane, category", "taken as arrival", "in the inbox of", "planned"];
    let told = |user: &str, end: &[&str]| check(&server, user, user, &[&begin[..], end].concat());
    told("delivered", &["the provider took it", "sent: the provider has it, without a retry"]);
    told("suppressed", &["no endpoint", "suppressed (no_endpoint): nothing was sent"]);
    told("retried", &["not taken, to be tried again (500)", "the provider took it", "has it, after 1 retry"]);
    told("refused", &["given up, now a dead letter (malformed)", "without a retry: redrive or drop it"]);
    let awaited =
        ["may or may not have been sent (timeout)", "evidence is awaited until", "policy for transactional"];
    told("waiting", &awaited);
    told("unsure", &["may or may not have been sent", "unconfirmed: perhaps sent, and not sent again"]);
    told(
        "again",
        &[
            "may or may not have been sent",
            "unconfirmed: perhaps sent, after 1 resend, and not sent any more",
        ],
    );
}
