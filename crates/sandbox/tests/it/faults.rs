//! Fault profiles over sockets: what is lost, refused, late or skewed.

use crate::client::{Http2, ProviderKey, control, start};
use bytes::Bytes;
use fantail_sandbox::Running;
use fantail_sandbox::faults::{self, Deed, Profile, dice};
use fantail_sandbox::judge::Send;
use hyper::http::Request;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const HOST: &str = "api.push.apple.com";

fn id(no: u32) -> String {
    format!("00000000-0000-4000-8000-{no:012x}")
}

fn push(token: &str, no: u32) -> Request<Bytes> {
    Request::post(format!("https://{HOST}/3/device/{}", "ab".repeat(32)))
        .header("authorization", format!("bearer {token}"))
        .header("apns-topic", "com.example.app")
        .header("apns-id", id(no))
        .body(Bytes::from_static(b"{\"aps\":{}}"))
        .expect("a request")
}

async fn set(running: &Running, profile: &Value) {
    let (status, told) = control(running, "PUT", "/faults/apns", profile).await;
    assert_eq!(status, 200, "{told}");
}

/// The statuses of so many pushes, one after the other.
async fn statuses(running: &Running, count: u32) -> Vec<u16> {
    let token = ProviderKey::new().token("TEAM", running.world().clock().now_ms());
    let mut client = Http2::open(running, running.shared(), HOST).await;
    let mut statuses = Vec::new();
    for no in 0..count {
        statuses.push(client.call(push(&token, no)).await.expect("an answer").status.as_u16());
    }
    statuses
}

#[tokio::test]
async fn errors_come_in_their_share_and_the_same_in_every_run() {
    let profile =
        json!({"seed": 11, "errors": {"ServiceUnavailable": 0.2, "TooManyRequests": 0.1, "418": 0.1}});
    let mut runs = Vec::new();
    for _ in 0..2 {
        let running = start().await;
        set(&running, &profile).await;
        let found = statuses(&running, 200).await;
        let mut counts: BTreeMap<u16, u32> = BTreeMap::new();
        for status in &found {
            *counts.entry(*status).or_default() += 1;
        }
        assert!((20..=60).contains(&counts[&503]) && (8..=35).contains(&counts[&429]), "{counts:?}");
        assert!(counts.contains_key(&418), "a kind that nobody knows is a status");
        let taken = (0..200).filter(|no| found[*no as usize] == 200);
        let sends: Vec<Send> = taken.map(|no| Send { id: id(no), recipient: None }).collect();
        assert!(running.judge(&sends).is_exactly_once(), "only what was answered with 200 arrived");
        runs.push(found);
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test]
async fn what_is_lost_arrived_all_the_same() {
    let running = start().await;
    running.set_faults("apns", Profile { lose_connection: 1.0, ..Profile::default() });
    let token = ProviderKey::new().token("TEAM", running.world().clock().now_ms());
    let mut client = Http2::open(&running, running.shared(), HOST).await;
    assert!(client.call(push(&token, 1)).await.is_err());
    let verdict = running.judge(&[Send { id: id(1), recipient: None }]);
    assert_eq!(verdict.unique, 1);
    let (_, shown) = control(&running, "GET", "/messages/1", &json!(null)).await;
    assert_eq!(shown["answered"], false);
}

#[tokio::test]
async fn a_black_hole_takes_nothing_and_others_are_answered() {
    let running = start().await;
    let profile = Profile { black_hole: 0.5, by_message: true, ..Profile::default() };
    // The first attempt of a message has its own luck, which anyone can compute.
    let fate = |no: &u32| faults::fate(&profile, dice::hash(id(*no).as_bytes()).wrapping_add(1)).deed;
    let (lost, taken): (Vec<u32>, Vec<u32>) = (0..20).partition(|no| fate(no) == Deed::BlackHole);
    assert!(lost.len() > 3 && taken.len() > 3, "{lost:?}");
    let token = ProviderKey::new().token("TEAM", running.world().clock().now_ms());
    let mut client = Http2::open(&running, running.shared(), HOST).await;
    assert_eq!(client.call(push(&token, 100)).await.expect("an answer").status, 200);
    running.set_faults("apns", profile.clone());
    let mut unanswered = Vec::new();
    for no in &lost {
        unanswered.push(client.send(push(&token, *no)).await.expect("sent"));
    }
    for no in &taken {
        assert_eq!(client.call(push(&token, *no)).await.expect("an answer").status, 200);
    }
    let sends = taken.iter().copied().chain([100]).map(|no| Send { id: id(no), recipient: None });
    assert!(running.judge(&sends.collect::<Vec<_>>()).is_exactly_once());
    drop(unanswered);
}

#[tokio::test]
async fn a_skewed_clock_makes_tokens_old_or_early() {
    let running = start().await;
    for (skew_ms, status) in [(3_700_000, 403), (-60_000, 403), (1_000, 200)] {
        set(&running, &json!({"clockSkewMs": skew_ms})).await;
        assert_eq!(statuses(&running, 1).await, [status], "{skew_ms}");
    }
}

#[tokio::test]
async fn slow_and_late_answers_are_answers() {
    let running = start().await;
    let latency = json!({"kind": "uniform", "msMin": 0, "msMax": 3});
    set(&running, &json!({"latency": latency, "slowRead": {"share": 0.5, "ms": 2}})).await;
    assert_eq!(statuses(&running, 10).await, [200; 10]);
}
