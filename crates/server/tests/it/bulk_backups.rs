//! Backups that are made while a bulk send runs, of a directory with very many users, deliveries and audit entries: each is
//! restored, starts, finishes the send and answers as the server does that it was made of.
//!
//! `FANTAIL_BACKUP_USERS=1000000` for the full size: five backups, and more than two million audit entries that one bulk send
//! makes. A parcel of a thousand deliveries is one entry; a mail address that turns out to be dead is two: the endpoint and the
//! suppression. So every mail address is dead.

use crate::bulk::{bulk, message, put_segment};
use crate::deliveries::{Post, counts_of, metric, notification, send, status};
use crate::server::{Directory, Server, run};
use crate::world::{eventually, expect, unread};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const USERS: usize = 3_000;
const USERS_OF_A_BATCH: usize = 1_000;
const BACKUPS: usize = 2;
const BACKUPS_OF_FULL_SIZE: usize = 5;
/// Users whose inboxes are compared.
const SAMPLES: usize = 200;
const RATE_MAX: usize = 1_000_000;
/// At its rate the second bulk send takes about three hours, or a second per user if that is shorter: it never ends while backups
/// are made.
const SLOW_SECONDS: usize = 10_000;
/// Entries that one dead mail address makes.
const ENTRIES_OF_A_USER: u64 = 2;
/// Recipients of one of the sends beside the backups.
const BESIDE: usize = 50;

fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("stdout can be written");
}

/// Prints the time of each part, since the full size takes long.
struct Parts(Instant);

impl Parts {
    fn end(&mut self, name: &str) {
        let began = std::mem::replace(&mut self.0, Instant::now());
        say(&format!("{name}: {:.1} s", (self.0 - began).as_secs_f64()));
    }
}

/// Makes users with a mail address and a number each.
fn people(client: &mut Client, count: usize) {
    let user = |no: usize| json!({"userId": format!("u{no}"), "email": format!("dead/u{no}@stub.test"), "phone": format!("+999{no:09}")});
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
    let ended = |channel: &str| {
        let counts = counts_of(done, channel);
        let of = |state: &str| counts[state].as_u64().unwrap_or_default();
        [of("sent") + of("unconfirmed"), of("suppressed")]
    };
    json!({"users": done["users"], "members": done["members"], "entries": done["entries"], "skipped": done["skipped"],
           "mails": ended("email"), "messages": ended("sms")})
}

/// What is asked of the first server and of each that was made of a backup.
fn answers(client: &mut Client, users: usize, ids: &[String]) -> Value {
    let first = until_done(client, &ids[0]);
    let second = until_done(client, &ids[1]);
    // The first ones also get what is sent beside the backups.
    let sampled = (BESIDE..users).step_by((users / SAMPLES).max(1));
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

/// Verifies everything, and gives the number of audit entries.
fn verified(data: &Path) -> u64 {
    let data = data.to_str().expect("a path");
    run(&["journal", "verify", "--data", data]);
    run(&["check", "--data", data]);
    let said = run(&["audit", "verify", "--data", data]);
    let entries = said.split(' ').next().and_then(|number| number.parse().ok());
    entries.unwrap_or_else(|| panic!("it begins with the number of entries: {said}"))
}

fn faster(client: &mut Client, id: &str) {
    let path = format!("/api/v1/notifications/bulk/{id}");
    expect(client.json("PATCH", &path, &json!({"ratePerSecond": RATE_MAX})), 200);
}

/// Sends to named users, one notification after the other, so that backups are made under load.
fn send_beside(server: &Server, users: usize, is_over: &AtomicBool) -> usize {
    let mut client = server.client();
    let names: Vec<String> = (0..users.min(BESIDE)).map(|no| format!("u{no}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut no = 0;
    while !is_over.load(Ordering::Relaxed) {
        let body = notification(&format!("beside-{no}"), &names, json!({"channels": ["sms"]}));
        let id = send(&mut client, &body);
        eventually("it is sent", || (status(&mut client, &id)["channels"][0]["done"] == true).then_some(()));
        no += 1;
    }
    no
}

/// Says that it is over, also if a backup fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Makes backups while the second bulk send goes on and other sends come in.
fn back_up(server: &Server, id: &str, copies: &[PathBuf], users: usize) {
    let mut client = server.client();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| send_beside(server, users, &is_over));
        let over = Over(&is_over);
        for copy in copies {
            let before = progress(&state(&mut client, id));
            until_it_is(&mut client, "it goes on", |client| {
                let now = progress(&state(client, id));
                (now, (now > before).then_some(()))
            });
            let [copy, data] = [copy, &server.data].map(|path| path.to_str().expect("a path"));
            run(&["backup", copy, "--server", &server.address, "--data", data]);
        }
        drop(over);
        say(&format!("{} sends beside the backups", beside.join().expect("all were sent")));
    });
    let found = state(&mut client, id);
    assert_eq!(found["status"], "running", "it ran as long as backups were made: {found}");
}

// fixes: torture 1
#[test]
fn backups_made_during_a_bulk_send_start_finish_it_and_answer_alike() {
    let given = std::env::var("FANTAIL_BACKUP_USERS").ok().and_then(|text| text.parse().ok());
    let (users, backups) = (given.unwrap_or(USERS), given.map_or(BACKUPS, |_| BACKUPS_OF_FULL_SIZE));
    let (post, elsewhere) = (Post::new(), Directory::new());
    let server = post.start(&[]);
    let (mut client, key) = (server.client(), server.key("default.key"));
    let mut parts = Parts(Instant::now());
    people(&mut client, users);
    put_segment(&mut client, "all", "everyone");
    parts.end("import");
    let body = |name: &str, rate: usize| {
        message(
            "all",
            json!({"notificationId": name, "channels": ["email", "sms", "inApp"], "ratePerSecond": rate}),
        )
    };
    let before = audit_entries(&mut client);
    let first = bulk(&mut client, &body("first", RATE_MAX));
    until_done(&mut client, &first);
    let of_one_send = ENTRIES_OF_A_USER * users as u64;
    // Addresses are suppressed one after the other, behind the answers of the provider.
    let after = until_it_is(&mut client, "the audit log has all that the bulk send did", |client| {
        let entries = metric(client, "fantail_audit_entries_total", "");
        (entries, (entries - before >= of_one_send).then_some(entries))
    });
    parts.end("first bulk send");
    say(&format!("{before} audit entries before a bulk send to {users} users, {after} after it"));
    let second = bulk(&mut client, &body("second", (users / SLOW_SECONDS).max(1)));
    let ids = [first, second];
    let copies: Vec<PathBuf> = (0..backups).map(|no| elsewhere.path(&format!("copy-{no}"))).collect();
    back_up(&server, &ids[1], &copies, users);
    parts.end("backups");
    faster(&mut client, &ids[1]);
    let expected = answers(&mut client, users, &ids);
    audit_entries(&mut client);
    parts.end("second bulk send");
    server.stop();
    verified(&post.directory.path("data"));
    parts.end("verified");
    let data = elsewhere.path("restored");
    for (no, copy) in copies.iter().enumerate() {
        let [copy_path, data_path] = [copy, &data].map(|path| path.to_str().expect("a path"));
        run(&["restore", copy_path, "--data", data_path, "--active"]);
        let entries = verified(&data);
        assert!(entries >= of_one_send, "{entries} audit entries of {users} users in backup {no}");
        parts.end("restored and verified");
        let restored = Server::start_in(&data, &[], &[]);
        parts.end("started");
        let mut client = restored.with_key(&key);
        faster(&mut client, &ids[1]);
        assert_eq!(answers(&mut client, users, &ids), expected, "backup {no}");
        audit_entries(&mut client);
        restored.stop();
        parts.end("finished");
        verified(&data);
        for done in [copy, &data] {
            std::fs::remove_dir_all(done).expect("it is there");
        }
        parts.end("verified again");
        say(&format!("backup {no}: {entries} audit entries, answers equal"));
    }
    say(&format!("{backups} backups of {users} users, made during a bulk send: answers equal"));
}
