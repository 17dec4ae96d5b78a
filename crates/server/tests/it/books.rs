//! The books balance, and whoever cooks them is found.

use crate::alerts::fires;
use crate::audit::copy;
use crate::deliveries::{Post, metric, notification, register, send, status};
use crate::server::{Server, fantail, run};
use crate::world::{eventually, expect, put_user};
use fantail_local::store::{LocalStore, StoreOptions};
use fantail_ports::store::{Commit, Store};
use fantail_ports::tables::{Changes, KeyRange, Order};
use fantail_rules::ids::PartitionId;
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

/// The family of the tallies of events, and the place of `sent` among the states in such a row.
const TALLIES: u8 = 57;
const SENT: usize = 2;

/// One delivery more was sent than was sent.
fn tamper(data: &Path) {
    let store = LocalStore::open(StoreOptions::new(data.join("tables"))).expect("nobody uses it");
    for (partition, mark) in store.marks() {
        let PartitionId::Shard(_) = partition else { continue };
        let mut changes = Changes::new();
        let range = KeyRange { from: &[TALLIES], to: &[TALLIES + 1] };
        let read = store.read(partition, &mut |view| {
            let visit = &mut |key: &[u8], value: &[u8]| {
                let mut value = value.to_vec();
                value[SENT] += 1;
                changes.insert(key.to_vec(), Some(value));
                ControlFlow::Break(())
            };
            view.tables().scan(range, Order::Ascending, visit).expect("rows");
        });
        read.expect("a state");
        if !changes.is_empty() {
            let through = mark.next();
            store.commit(partition, Commit { through, changes, ..Commit::default() }).expect("room");
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(store.sync()).expect("room");
            return;
        }
    }
    panic!("there is no tally");
}

/// Two notifications, sent.
fn send_two(client: &mut Client) -> (String, String) {
    for user in ["ann", "bob"] {
        put_user(client, user);
        register(client, user, "phone", &format!("stub:ok/{user}"));
    }
    let first = send(client, &notification("n1", &["ann"], json!({})));
    let second = send(client, &notification("n2", &["ann", "bob"], json!({"priority": "high"})));
    for id in [&first, &second] {
        eventually("it is done", || (status(client, id)["channels"][0]["done"] == true).then_some(()));
    }
    (first, second)
}

// proves: DEL-14
// fixes: usability C10
#[test]
fn a_tampered_tally_is_found_and_named() {
    let post = Post::new();
    let server = post.start(&[]);
    let (first, second) = send_two(&mut server.client());
    let metrics = eventually("a shard was recounted", || {
        let metrics = server.anonymous().get("/metrics").expect("an answer").text();
        (!metrics.contains("fantail_delivery_books_checked_total 0\n")).then_some(metrics)
    });
    assert!(metrics.contains("fantail_delivery_imbalance 0\n"), "{metrics}");
    server.stop();
    let data = post.directory.path("data");
    let at = data.to_str().expect("a path");
    let printed = run(&["check", "--data", at]);
    assert!(printed.contains("3 deliveries") && printed.contains("balanced"), "{printed}");
    let told: Value = serde_json::from_str(&run(&["check", "--json", "--data", at])).expect("JSON");
    assert_eq!((&told["balanced"], &told["deliveries"]), (&json!(true), &json!(3)), "{told}");
    assert_eq!(told["events"], 2, "two notifications, to however many users in however many shards: {told}");

    tamper(&data);
    let output = fantail().args(["check", "--data", at]).output().expect("the binary runs");
    let printed = String::from_utf8(output.stdout).expect("text");
    assert!(!output.status.success(), "{printed}");
    assert!(printed.contains("tenant default, event") && printed.contains("NOT BALANCED"), "{printed}");
    let output = fantail().args(["check", "--json", "--data", at]).output().expect("the binary runs");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let [one] = told["imbalances"].as_array().expect("a list").as_slice() else { panic!("{told}") };
    assert!([&first, &second].contains(&&one["eventId"].as_str().expect("an id").to_owned()), "{told}");
    assert_eq!(
        (&one["tenant"], &one["channel"], &one["what"]),
        (&json!("default"), &json!("push"), &json!("sent"))
    );
    let number = |name: &str| one[name].as_u64().expect("a number");
    assert_eq!(number("kept"), number("counted") + 1, "{told}");
}

/// Waits until every shard was recounted so many times since the start.
#[test]
fn a_check_says_that_it_cut_a_torn_sync_point_off() {
    let server = Server::start();
    put_user(&mut server.client(), "ann");
    let data = server.data.clone();
    let _directory = server.stop();
    let rows = std::fs::read_dir(data.join("tables/rows")).expect("the tables are there");
    let logs = rows.map(|entry| entry.expect("an entry").path());
    let newest = logs.filter(|path| path.extension().is_some_and(|end| end == "jnl")).max().expect("a log");
    let mut log = std::fs::OpenOptions::new().append(true).open(&newest).expect("it is there");
    log.write_all(b"torn").expect("room");
    let check = || {
        let output = fantail().args(["check", "--json", "--data"]).arg(&data).output().expect("it runs");
        assert!(output.status.success());
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON, and nothing else");
        String::from_utf8(output.stderr).expect("text")
    };
    let told = check();
    assert!(told.contains("a sync point that was cut off was removed"), "{told}");
    assert!(told.contains(&newest.display().to_string()), "{told}");
    assert_eq!(check(), "", "once");
}

fn recounted(client: &mut Client, times: u64) {
    const SHARDS: u64 = 4;
    eventually("the books were recounted", || {
        (metric(client, "fantail_delivery_books_checked_total", "") >= times * SHARDS).then_some(())
    });
}

/// A server whose tables are not what its journal says raises the alarm by itself; its runbook helps.
// proves: DEL-14, OBS-01
#[test]
fn a_running_server_raises_the_alarm_and_the_runbook_ends_it() {
    let post = Post::new();
    let (data, before) = (post.directory.path("data"), post.directory.path("tables-before"));
    let server = post.start(&[]);
    send_two(&mut server.client());
    server.stop();
    copy(&data.join("tables"), &before);
    // Each shard writes down some more. Tables from before these records are sound, and replayed on; one that is tampered with
    // says that the first of them was folded already.
    let server = post.start(&[]);
    let users: Vec<Value> = (0..64).map(|no| json!({"userId": format!("other{no}")})).collect();
    expect(server.client().post("/api/v1/users/batch", &json!({"users": users})), 200);
    server.stop();
    std::fs::remove_dir_all(data.join("tables")).expect("they are there");
    copy(&before, &data.join("tables"));
    tamper(&data);

    let server = post.start(&[]);
    let mut client = server.client();
    eventually("the alarm is raised", || fires("FantailImbalance", &mut client).then_some(()));
    assert_eq!(metric(&mut client, "fantail_delivery_imbalance", ""), 1);
    let log = server.log();
    let told = log.lines().find(|line| line.contains("tally is not what the ledgers say")).expect("a line");
    assert!(told.contains("sent"), "it says which state: {told}");
    expect(client.get("/readyz?verbose"), 200);
    let late = send(&mut client, &notification("n3", &["bob"], json!({})));
    eventually("it is sent", || (status(&mut client, &late)["channels"][0]["done"] == true).then_some(()));
    server.stop();

    std::fs::remove_dir_all(data.join("tables")).expect("they are there");
    let server = post.start(&[]);
    let mut client = server.client();
    recounted(&mut client, 2);
    assert!(!fires("FantailImbalance", &mut client), "tables that are made anew are what the journal says");
    assert!(post.arrived().values().all(|copies| *copies == 1), "and nothing was sent again");
}
