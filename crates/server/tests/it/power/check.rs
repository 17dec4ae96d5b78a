//! What a server has after a power cut, held against the book.

use super::Recorded;
use super::book::{ACTORS, Asked, Kind, RECIPIENTS, USER_STEPS, is_erased, version};
use crate::audit::entries;
use crate::crash::{READER, all_read, everything};
use crate::crash_deliveries::eventually_audited;
use crate::deliveries::{Post, status};
use crate::server::{Server, run};
use crate::world::{eventually, expect, put_user, unread};
use fantail_server::client::Client;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Panics if anything that was acknowledged before `position` is missing, or anything is there by half.
pub fn check(recorded: &Recorded, post: &Post, server: Server, position: u64) {
    if position < recorded.prepared {
        put_user(&mut server.client(), "new");
    } else {
        assert_eq!(server.key("default.key"), recorded.key, "the key that was shown");
        let mut client = server.client();
        users(recorded, &mut client, position);
        consents(recorded, &mut client, position);
        keys(recorded, &server, position);
        let events = inbox(recorded, &mut client, position);
        let notifications = deliveries(recorded, post, &mut client, position);
        audited(&mut client, events.iter().chain(&notifications));
    }
    server.stop();
    let data = post.directory.path("data");
    let data = data.to_str().expect("a path");
    for args in [&["journal", "verify"][..], &["check"], &["audit", "verify"]] {
        run(&[args, &["--data", data]].concat());
    }
}

/// What is certain, and what was in doubt after it was asked again.
fn settled(recorded: &Recorded, kind: Kind, client: &mut Client, position: u64) -> Vec<String> {
    let (certain, doubtful) = recorded.book.known(kind, position);
    let certain = certain.iter().map(|asked| asked.id.clone());
    certain.chain(doubtful.iter().map(|asked: &Asked| asked.ask.settle(kind, client))).collect()
}

/// How far a user got: its last step, and whether it has a device. `None`: there is no such user.
fn user(client: &mut Client, name: &str) -> Option<(u64, bool)> {
    let found = client.get(&format!("/api/v1/users/{name}")).expect("an answer");
    if found.status == 404 {
        return None;
    }
    let step = found.json()["attributes"]["step"].as_u64();
    let step = step.unwrap_or_else(|| panic!("half a user: {}", found.text()));
    let devices = expect(client.get(&format!("/api/v1/devices?userId={name}")), 200);
    let has_device =
        devices["devices"].as_array().is_some_and(|found| found.iter().any(|one| one["deviceId"] == "phone"));
    Some((step, has_device))
}

/// What a user is after so many of its steps.
fn after(no: usize, steps: usize) -> Option<(u64, bool)> {
    match steps {
        0 => None,
        1 => Some((0, false)),
        2 => Some((1, false)),
        3 => Some((1, true)),
        _ if is_erased(no) => None,
        _ => Some((3, true)),
    }
}

fn users(recorded: &Recorded, client: &mut Client, position: u64) {
    let (certain, doubtful) = recorded.book.known(Kind::Users, position);
    let (certain, sent) = (certain.len(), certain.len() + doubtful.len());
    for no in 0..=sent / USER_STEPS {
        let steps_of = |asked: usize| asked.saturating_sub(no * USER_STEPS).min(USER_STEPS);
        let expected = [after(no, steps_of(certain)), after(no, steps_of(sent))];
        let name = format!("user-{no}");
        // An erasure that was begun goes on behind the start.
        eventually(&format!("{name} is as one of {expected:?}"), || {
            expected.contains(&user(client, &name)).then_some(())
        });
    }
}

fn consents(recorded: &Recorded, client: &mut Client, position: u64) {
    let (certain, doubtful) = recorded.book.known(Kind::Consents, position);
    let path = format!("/api/v1/users/{READER}/preferences/history?limit=1");
    let history = expect(client.get(&path), 200);
    let found = history["changes"][0]["newConsent"]["version"].as_str().map(str::to_owned);
    let of = |count: usize| count.checked_sub(1).map(version);
    let expected = [of(certain.len()), of(certain.len() + doubtful.len())];
    assert!(expected.contains(&found), "the last consent is {found:?}, not one of {expected:?}");
}

fn keys(recorded: &Recorded, server: &Server, position: u64) {
    for asked in recorded.book.known(Kind::Keys, position).0 {
        expect(server.with_key(&asked.id).get(&format!("/api/v1/users/{}", RECIPIENTS[0])), 200);
    }
}

/// The reader's inbox: everything once, in each author's order, with exact counts. Gives the events.
fn inbox(recorded: &Recorded, client: &mut Client, position: u64) -> Vec<String> {
    let posted: Vec<Vec<String>> =
        (0..ACTORS).map(|actor| settled(recorded, Kind::Events(actor), client, position)).collect();
    let expected: BTreeSet<String> = posted.iter().flatten().cloned().collect();
    let shown = eventually("everything acknowledged is shown", || {
        let shown = everything(client);
        (shown.len() >= expected.len()).then_some(shown)
    });
    let distinct: BTreeSet<String> = shown.iter().cloned().collect();
    assert_eq!(shown.len(), distinct.len(), "nothing is shown twice");
    assert_eq!(distinct, expected, "exactly what was acknowledged is shown");
    for posted in &posted {
        let of_actor: Vec<&String> = shown.iter().rev().filter(|id| posted.contains(id)).collect();
        assert_eq!(of_actor, posted.iter().collect::<Vec<_>>(), "an author's order is kept");
    }
    let marked: BTreeSet<String> = settled(recorded, Kind::Marks, client, position)
        .into_iter()
        .filter(|id| expected.contains(id))
        .collect();
    let read = all_read(client);
    assert_eq!(read, marked, "exactly what was marked is read");
    assert_eq!(unread(client, READER).0, (expected.len() - read.len()) as u64, "unread is exact");
    posted.concat()
}

/// Every delivery ends; what arrived twice was counted as a resend, and nothing arrived that nobody knows of.
fn deliveries(recorded: &Recorded, post: &Post, client: &mut Client, position: u64) -> Vec<String> {
    let ids = settled(recorded, Kind::Notifications, client, position);
    let (mut sent, mut open, mut resent) = (0_u64, 0_u64, 0_u64);
    for id in &ids {
        let found = eventually("every delivery ends", || {
            let found = status(client, id);
            (found["channels"][0]["done"] == true).then_some(found)
        });
        let deliveries = found["deliveries"].as_array().expect("deliveries");
        assert_eq!(deliveries.len(), RECIPIENTS.len(), "{found}");
        for delivery in deliveries {
            match delivery["state"].as_str().expect("a state") {
                "sent" => sent += 1,
                "unconfirmed" => open += 1,
                other => panic!("ended {other}: {found}"),
            }
            resent += delivery["attempts"].as_u64().expect("a number") - 1;
        }
    }
    let arrived: BTreeMap<String, u64> = post.arrived();
    let extra: u64 = arrived.values().map(|copies| copies - 1).sum();
    assert!(extra <= resent, "{extra} copies too many, {resent} were resent on purpose");
    let known = arrived.len() as u64;
    assert!((sent..=sent + open).contains(&known), "{known} arrived, {sent} sent and {open} unconfirmed");
    ids
}

/// The audit log says of each that it was accepted, once.
fn audited<'a>(client: &mut Client, mut acknowledged: impl Iterator<Item = &'a String>) {
    eventually_audited(client).expect("an answer");
    let mut accepted: BTreeMap<String, u64> = BTreeMap::new();
    for entry in entries(client, "").iter().filter(|entry: &&Value| entry["kind"] == "accepted") {
        let id = entry["fact"]["eventId"].as_str().expect("an id").to_owned();
        *accepted.entry(id).or_default() += 1;
    }
    assert!(acknowledged.all(|id| accepted.get(id) == Some(&1)), "audited once: {accepted:?}");
}
