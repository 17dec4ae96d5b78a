//! The books balance, and whoever cooks them is found.

use crate::deliveries::{Post, notification, register, send, status};
use crate::server::{fantail, run};
use crate::world::{eventually, put_user};
use fantail_local::store::{LocalStore, StoreOptions};
use fantail_ports::store::{Commit, Store};
use fantail_ports::tables::{Changes, KeyRange, Order};
use fantail_rules::ids::PartitionId;
use serde_json::{Value, json};
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

// proves: DEL-14
#[test]
fn a_tampered_tally_is_found_and_named() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    for user in ["ann", "bob"] {
        put_user(&mut client, user);
        register(&mut client, user, "phone", &format!("stub:ok/{user}"));
    }
    let first = send(&mut client, &notification("n1", &["ann"], json!({})));
    let second = send(&mut client, &notification("n2", &["ann", "bob"], json!({"priority": "high"})));
    for id in [&first, &second] {
        eventually("it is done", || (status(&mut client, id)["channels"][0]["done"] == true).then_some(()));
    }
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
