//! Backups that are made while a bulk send runs, of a directory with very many users, deliveries and audit entries: each is
//! restored, starts, finishes the send and answers as the server does that it was made of.
//!
//! `FANTAIL_BACKUP_USERS=1000000` for the full size: more than two million audit entries, and five backups.

use crate::bulk::{bulk, message, put_segment};
use crate::deliveries::{Post, metric};
use crate::server::{Directory, Server, run};
use crate::world::{eventually, expect, unread};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

const USERS: usize = 3_000;
const USERS_OF_A_BATCH: usize = 1_000;
const BACKUPS: usize = 2;
const BACKUPS_OF_FULL_SIZE: usize = 5;
/// Users whose inboxes are compared.
const SAMPLES: usize = 200;
const RATE_MAX: usize = 1_000_000;

/// Makes users with a mail address and a number each: two endpoints, which the audit log tells of.
fn people(client: &mut Client, count: usize) {
    let user = |no: usize| json!({"userId": format!("u{no}"), "email": format!("ok/u{no}@stub.test"), "phone": format!("+999{no:09}")});
    for first in (0..count).step_by(USERS_OF_A_BATCH) {
        let users: Vec<Value> = (first..count.min(first + USERS_OF_A_BATCH)).map(user).collect();
        expect(client.post("/api/v1/users/batch", &json!({"users": users})), 200);
    }
    until_it_is(client, "all addresses can be used", |client| {
        let active = metric(client, "fantail_endpoint_changes_total", "\"active\"");
        (active, (active >= 2 * count as u64).then_some(()))
    });
}

/// Waits for something that takes as long as it takes, as long as it goes on.
fn until_it_is<T>(
    client: &mut Client,
    name: &str,
    mut look: impl FnMut(&mut Client) -> (u64, Option<T>),
) -> T {
    let mut before = None;
    loop {
        let found = eventually(&format!("{name}, or it goes on from {before:?}"), || {
            let (now, found) = look(client);
            let has_moved = before.replace(now) != Some(now);
            (has_moved || found.is_some()).then_some(found)
        });
        if let Some(found) = found {
            return found;
        }
    }
}

fn state(client: &mut Client, id: &str) -> Value {
    expect(client.get(&format!("/api/v1/notifications/bulk/{id}")), 200)
}

/// How far a bulk send is: users and deliveries that are behind it.
fn progress(found: &Value) -> u64 {
    let counts = found["channels"].as_array().into_iter().flatten().flat_map(|one| {
        let ended = |name: &str| one["counts"][name].as_u64().unwrap_or_default();
        ["sent", "delivered", "unconfirmed", "suppressed", "failed"].map(ended)
    });
    found["lookedAt"].as_u64().unwrap_or_default() + counts.sum::<u64>()
}

fn until_done(client: &mut Client, id: &str) -> Value {
    until_it_is(client, "the bulk send is done", |client| {
        let found = state(client, id);
        let mut channels = found["channels"].as_array().expect("channels").iter();
        let is_done = found["status"] == "done" && channels.all(|one| one["done"] == true);
        (progress(&found), is_done.then_some(found))
    })
}

/// What must not depend on where a send is finished. What a backup caught on its way to the provider ends as unconfirmed.
fn summary(done: &Value) -> Value {
    let mails = done["channels"].as_array().expect("channels").iter().find(|one| one["channel"] == "email");
    let counts = &mails.expect("mails were asked for")["counts"];
    let of = |state: &str| counts[state].as_u64().unwrap_or_default();
    json!({"users": done["users"], "members": done["members"], "entries": done["entries"], "skipped": done["skipped"],
           "ended": of("sent") + of("unconfirmed")})
}

/// What is asked of the first server and of each that was made of a backup.
fn answers(client: &mut Client, users: usize, ids: &[String]) -> Value {
    let first = until_done(client, &ids[0]);
    let second = until_done(client, &ids[1]);
    let sampled = (0..users).step_by((users / SAMPLES).max(1));
    let unread: Vec<(u64, u64)> = sampled.map(|no| unread(client, &format!("u{no}"))).collect();
    json!({"first": first["channels"], "both": [summary(&first), summary(&second)], "unread": unread})
}

fn audit_entries(client: &mut Client) -> u64 {
    until_it_is(client, "the audit log has everything", |client| {
        let lag = metric(client, "fantail_audit_derived_lag_records", "");
        let entries = metric(client, "fantail_audit_entries_total", "");
        (entries, (lag == 0).then_some(entries))
    })
}

fn verified(data: &Path) {
    let data = data.to_str().expect("a path");
    for args in [&["journal", "verify"][..], &["check"], &["audit", "verify"]] {
        run(&[args, &["--data", data]].concat());
    }
}

fn faster(client: &mut Client, id: &str) {
    let path = format!("/api/v1/notifications/bulk/{id}");
    expect(client.json("PATCH", &path, &json!({"ratePerSecond": RATE_MAX})), 200);
}

// fixes: torture 1
#[test]
fn backups_made_during_a_bulk_send_start_finish_it_and_answer_alike() {
    let given = std::env::var("FANTAIL_BACKUP_USERS").ok().and_then(|text| text.parse().ok());
    let (users, backups) = (given.unwrap_or(USERS), given.map_or(BACKUPS, |_| BACKUPS_OF_FULL_SIZE));
    let (post, elsewhere) = (Post::new(), Directory::new());
    let server = post.start(&[]);
    let (mut client, key) = (server.client(), server.key("default.key"));
    people(&mut client, users);
    put_segment(&mut client, "all", "everyone");
    let body = |name: &str, rate: usize| {
        message("all", json!({"notificationId": name, "channels": ["email", "inApp"], "ratePerSecond": rate}))
    };
    let first = bulk(&mut client, &body("first", RATE_MAX));
    until_done(&mut client, &first);
    // So slow that it runs as long as backups are made.
    let second = bulk(&mut client, &body("second", (users / 100).max(1)));
    let ids = [first, second];
    for no in 0..backups {
        let before = progress(&state(&mut client, &ids[1]));
        until_it_is(&mut client, "it goes on", |client| {
            let now = progress(&state(client, &ids[1]));
            (now, (now > before).then_some(()))
        });
        let copy = elsewhere.path(&format!("copy-{no}"));
        let [copy, data] = [&copy, &server.data].map(|path| path.to_str().expect("a path"));
        run(&["backup", copy, "--server", &server.address, "--data", data]);
    }
    let found = state(&mut client, &ids[1]);
    assert_eq!(found["status"], "running", "it ran as long as backups were made: {found}");
    faster(&mut client, &ids[1]);
    let expected = answers(&mut client, users, &ids);
    let entries = audit_entries(&mut client);
    assert!(entries >= 2 * users as u64, "{entries} audit entries for {users} users");
    server.stop();
    verified(&post.directory.path("data"));
    for no in 0..backups {
        let (copy, data) = (elsewhere.path(&format!("copy-{no}")), elsewhere.path(&format!("restored-{no}")));
        run(&["restore", copy.to_str().expect("a path"), "--data", data.to_str().expect("a path")]);
        verified(&data);
        let restored = Server::start_in(&data, &[], &[]);
        let mut client = restored.with_key(&key);
        faster(&mut client, &ids[1]);
        assert_eq!(answers(&mut client, users, &ids), expected, "backup {no}");
        audit_entries(&mut client);
        restored.stop();
        verified(&data);
        for done in [copy, data] {
            std::fs::remove_dir_all(done).expect("it is there");
        }
    }
    let mut out = std::io::stdout();
    writeln!(out, "{backups} backups of {users} users and {entries} audit entries, made during a bulk send: answers equal")
        .expect("stdout can be written");
}
