//! Killed at every named point between a request and its outcome: nothing is lost, nothing ends without a state, and a
//! copy too many is one that the policy allows and the ledger counts.

use crate::audit::entries;
use crate::deliveries::{Post, notification, register, status};
use crate::server::run;
use crate::world::{eventually, expect, put_user};
use fantail_node::ports::Points;
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const ROUNDS_DEFAULT: u64 = 2;
/// Rounds on one data directory: a start takes longer the more there is in it.
const ROUNDS_OF_A_HOUSE: u64 = 5;
const CLASSES: [(&str, &str); 3] = [("critical", "critical"), ("normal", "transactional"), ("low", "bulk")];
const HOUSES_AT_ONCE: usize = 4;
/// Requests to a server that is to die; it must have died by then.
const REQUESTS_MAX: usize = 4_000;
/// All that was acknowledged is followed to its end, so there is no more of it than a crash in full swing needs.
const REQUESTS_IN_A_ROW: usize = 32;

/// Asks until the server is gone. Returns the request that was not answered, if it died in the middle of one.
fn send_until_dead(
    client: &mut Client,
    number: &mut u64,
    acknowledged: &mut BTreeMap<String, &'static str>,
) -> Option<Value> {
    for asked in 1..=REQUESTS_MAX {
        let (priority, class) = CLASSES[(*number % 3) as usize];
        let body = notification(&format!("n{number}"), &["ann", "bob"], json!({"priority": priority}));
        *number += 1;
        match client.post("/api/v1/notifications", &body) {
            Ok(response) => {
                assert_eq!(response.status, 202, "{}", response.text());
                let id = response.json()["eventId"].as_str().expect("an id").to_owned();
                acknowledged.insert(id, class);
            }
            Err(_) => return Some(body),
        }
        if asked % REQUESTS_IN_A_ROW == 0 && eventually_audited(client).is_none() {
            return None;
        }
    }
    panic!("it lives")
}

/// Waits until the audit log, which comes to its points a few times a second, has everything; `None` if it never will.
pub fn eventually_audited(client: &mut Client) -> Option<()> {
    eventually("the audit log has caught up, or nobody answers", || {
        let Ok(metrics) = client.get("/metrics") else { return Some(None) };
        metrics.text().contains("fantail_audit_derived_lag_records 0\n").then_some(Some(()))
    })
}

/// Dies at every point in every round, and asks again for what got no answer.
fn crash(
    post: &Post,
    rounds: Range<u64>,
    number: &mut u64,
    acknowledged: &mut BTreeMap<String, &'static str>,
) {
    for round in rounds {
        for point in Points::ALL {
            let die_at = format!("{point}:{}", 2 + round % 7);
            // What waits from before may bring it to the point while it starts.
            let Ok(mut server) = post.try_start(&[("FANTAIL_DELIVERY_DIE_AT", &die_at)]) else { continue };
            let cut_off = send_until_dead(&mut server.client(), number, acknowledged);
            assert!(!server.wait(), "it died at {die_at}");
            let server = post.start(&[]);
            // Whoever got no answer asks again.
            if let Some(body) = cut_off {
                let accepted = expect(server.client().post("/api/v1/notifications", &body), 202);
                let id = accepted["eventId"].as_str().expect("an id").to_owned();
                let is_its = |class: &&(&str, &str)| body["priority"] == class.0;
                acknowledged.insert(id, CLASSES.iter().find(is_its).expect("a class").1);
            }
            server.kill();
        }
        // No server of a round lives until a sync point, so each start replays all that came since the last one.
        post.start(&[]).stop();
    }
}

// proves: DED-01, DED-03, DED-04, DEL-14, AUD-01
#[test]
fn a_crash_at_any_point_leaves_every_delivery_accounted_for() {
    let rounds = std::env::var("FANTAIL_DELIVERY_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: u64 = rounds.unwrap_or(ROUNDS_DEFAULT);
    // Most of the time a house waits for the disk or for evidence, so several are crashed side by side.
    let next = AtomicU64::new(0);
    let crash_houses = || {
        loop {
            let first = next.fetch_add(ROUNDS_OF_A_HOUSE, Ordering::Relaxed);
            if first >= rounds {
                return;
            }
            check(first..rounds.min(first + ROUNDS_OF_A_HOUSE));
        }
    };
    thread::scope(|scope| (0..HOUSES_AT_ONCE).for_each(|_| drop(scope.spawn(crash_houses))));
}

/// Crashes a new house through these rounds, and follows everything that was acknowledged to its end.
fn check(rounds: Range<u64>) {
    let post = Post::new();
    let (mut acknowledged, mut number) = (BTreeMap::new(), 0);
    {
        let server = post.start(&[]);
        let mut client = server.client();
        for user in ["ann", "bob"] {
            put_user(&mut client, user);
            register(&mut client, user, "phone", &format!("stub:ok/{user}"));
        }
        server.stop();
    }
    crash(&post, rounds.clone(), &mut number, &mut acknowledged);
    let server = post.start(&[]);
    let mut client = server.client();
    let (mut sent, mut unconfirmed, mut resent) = (0, 0, 0);
    for (id, class) in &acknowledged {
        let found = eventually("every delivery ends", || {
            let found = status(&mut client, id);
            (found["channels"][0]["done"] == true).then_some(found)
        });
        for delivery in found["deliveries"].as_array().expect("deliveries") {
            let attempts = delivery["attempts"].as_u64().expect("a number");
            match delivery["state"].as_str().expect("a state") {
                "sent" => sent += 1,
                "unconfirmed" => unconfirmed += 1,
                other => panic!("{class} ended {other}: {found}"),
            }
            assert!(*class != "bulk" || attempts == 1, "bulk is never sent twice: {found}");
            resent += attempts - 1;
        }
        assert_eq!(found["deliveries"].as_array().expect("deliveries").len(), 2, "{found}");
    }
    told_once(&mut client, acknowledged.keys());
    server.stop();
    sound(&post);
    let arrived = post.arrived();
    let extra: u64 = arrived.values().map(|copies| copies - 1).sum();
    let (points, notifications) = (Points::ALL.len(), acknowledged.len());
    writeln!(
        std::io::stderr(),
        "rounds {rounds:?} of {points} points: {notifications} notifications, {sent} deliveries sent, {unconfirmed} \
         unconfirmed, {resent} resent, {extra} copies too many"
    )
    .expect("stderr can be written to");
    assert!(extra <= resent, "{extra} copies too many, {resent} were resent on purpose");
    assert!(arrived.len() as u64 >= sent, "whatever counts as sent arrived: {} of {sent}", arrived.len());
}

/// The audit log was fed all the while, and told each of them once.
fn told_once<'a>(client: &mut Client, mut acknowledged: impl Iterator<Item = &'a String>) {
    eventually_audited(client).expect("an answer");
    let told = entries(client, "");
    let mut accepted: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in told.iter().filter(|entry| entry["kind"] == "accepted") {
        *accepted.entry(entry["fact"]["eventId"].as_str().expect("an id")).or_default() += 1;
    }
    assert!(acknowledged.all(|id| accepted.get(id.as_str()) == Some(&1)), "told once: {accepted:?}");
}

/// Neither the audit log nor the books have a fault.
fn sound(post: &Post) {
    let data = post.directory.path("data");
    let data = data.to_str().expect("a path");
    run(&["audit", "verify", "--data", data]);
    run(&["check", "--data", data]);
}
