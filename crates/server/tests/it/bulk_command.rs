//! Bulk sends from the command line, and as a list; and lists that a scheduled one still needs.

use crate::bulk::{bulk, crowd, eventually_is, message, put_segment, upload};
use crate::deliveries::Post;
use crate::moved_clock::start_at;
use crate::server::{Server, fantail, run};
use crate::world::{eventually, expect, in_ms, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};

fn said(server: &Server, args: &[&str]) -> String {
    let data = server.data.to_str().expect("a path");
    let mut all = vec!["bulk"];
    all.extend_from_slice(args);
    all.extend(["--server", &server.address, "--data", data]);
    run(&all)
}

fn listed(client: &mut Client, query: &str) -> Vec<String> {
    let page = expect(client.get(&format!("/api/v1/notifications/bulk{query}")), 200);
    let ids = page["bulks"].as_array().expect("bulk sends").iter().map(|one| one["eventId"].as_str());
    ids.map(|id| id.expect("an id").to_owned()).collect()
}

// proves: BLK-05, BLK-07
#[test]
fn bulk_sends_are_made_watched_and_steered_from_the_command_line() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    crowd(&mut client, 1..10);
    put_segment(&mut client, "all", r#"reachable("push")"#);
    let create = ["create", "--segment", "all", "--channel", "push", "--title", "Sale"];
    eventually("every device can be used", || {
        let estimate = said(&server, &[&create[..], &["--estimate"]].concat());
        estimate.starts_with("9 of 9 users are chosen\npush: 9 would be told").then_some(())
    });
    let paced = [&create[..], &["--id", "first", "--over-minutes", "60"]].concat();
    assert!(said(&server, &paced).starts_with("first is accepted: "));
    assert!(said(&server, &paced).starts_with("first was accepted before: "));
    assert!(said(&server, &["pause", "first"]).contains(" all: "));
    eventually("it is paused", || {
        said(&server, &["list", "--status", "paused"]).contains("paused").then_some(())
    });
    let metrics = client.get("/metrics").expect("an answer").text();
    assert!(metrics.contains("fantail_bulk_jobs{state=\"paused\"} 1\n"), "{metrics}");
    said(&server, &["rate", "first", "--per-second", "1000"]);
    said(&server, &["resume", "first"]);
    let watched = said(&server, &["watch", "first"]);
    let end = "done, 9 of 9 users, 9 members; push: 9 sent\n";
    assert!(watched.ends_with(end), "lines for a pipe: {watched}");
    assert!(client.get("/metrics").expect("an answer").text().contains("fantail_bulk_members_total 9\n"));

    let file = post.directory.path("request.json");
    let request = message("all", json!({"notificationId": "second", "spreadOverMinutes": 60}));
    std::fs::write(&file, request.to_string()).expect("a file");
    let file = file.to_str().expect("a path");
    let accepted: Value =
        serde_json::from_str(&said(&server, &["create", "--file", file, "--json"])).expect("JSON");
    assert_eq!(accepted["notificationId"], "second");
    said(&server, &["cancel", "second"]);
    let watched = said(&server, &["watch", "second", "--json"]);
    let last: Value = serde_json::from_str(watched.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["status"], &last["eventId"]), (&json!("cancelled"), &accepted["eventId"]));

    let mut failed = fantail();
    failed.args(["bulk", "watch", "nothing", "--server", &server.address, "--data"]).arg(&server.data);
    let failed = failed.output().expect("the binary runs");
    assert!(!failed.status.success());
    assert!(String::from_utf8_lossy(&failed.stderr).contains("EVENT_NOT_FOUND"));
}

// proves: BLK-05
#[test]
fn bulk_sends_are_listed_newest_first() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    crowd(&mut client, 1..4);
    put_segment(&mut client, "all", "everyone");
    let mut sent: Vec<String> = (0..5).map(|_| bulk(&mut client, &message("all", json!({})))).collect();
    sent.iter().for_each(|id| drop(eventually_is(&mut client, id, "done")));
    let due = json!({"options": {"scheduledAt": "2090-01-01T00:00:00Z"}});
    // A year ahead is too far; what is due later than all others is the newest.
    refused(client.post("/api/v1/notifications/bulk", &message("all", due)), "INVALID_REQUEST");
    let tomorrow = json!({"options": {"scheduledAt": in_ms(86_400_000)}});
    let scheduled = bulk(&mut client, &message("all", tomorrow));
    assert_eq!(listed(&mut client, "?status=scheduled"), [scheduled.as_str()]);
    sent.push(scheduled);
    sent.reverse();
    assert_eq!(listed(&mut client, ""), sent);
    assert_eq!(listed(&mut client, "?status=done"), sent[1..]);
    assert_eq!(listed(&mut client, "?status=paused"), [""; 0]);
    // Page by page it is the same.
    let (mut all, mut query) = (Vec::new(), "?limit=2&status=done".to_owned());
    let first = loop {
        let page = expect(client.get(&format!("/api/v1/notifications/bulk{query}")), 200);
        all.extend(listed(&mut client, &query));
        let cursor = page["nextCursor"].as_str().map(str::to_owned);
        let Some(cursor) = cursor else { break query };
        query = format!("?limit=2&status=done&cursor={cursor}");
    };
    assert_eq!(all, sent[1..]);
    // A cursor belongs to what it was given for.
    refused(
        client.get(&format!("/api/v1/notifications/bulk{}", first.replace("done", "paused"))),
        "INVALID_REQUEST",
    );
    refused(client.get("/api/v1/notifications/bulk?status=lost"), "INVALID_REQUEST");
}

// proves: BLK-07
#[test]
fn a_scheduled_bulk_send_keeps_the_list_it_was_asked_for_with() {
    const SHARDS: usize = 4;
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T20:00:00Z", &[]);
    let mut client = server.client();
    // So many that every shard has some.
    crowd(&mut client, 1..80);
    expect(client.json("PUT", "/api/v1/segments/vips", &json!({})), 201);
    let lines = |users: std::ops::Range<usize>| users.map(|user| format!("u{user}\n")).collect::<String>();
    // One list that nothing will need, the one that is asked for, and another one in its place.
    expect(upload(&mut client, "vips", "text/csv", &lines(1..80)), 200);
    expect(upload(&mut client, "vips", "text/csv", &lines(1..10)), 200);
    let due = json!({"options": {"scheduledAt": "2026-06-14T20:00:00Z"}});
    let id = bulk(&mut client, &message("vips", due));
    expect(upload(&mut client, "vips", "text/csv", "u11\n"), 200);
    clock.move_to("2026-06-12T20:00:00Z");
    eventually("what nothing needs is gone from every shard", || {
        let dropped = server.log().matches("an uploaded list that nothing needs was dropped").count();
        (dropped >= SHARDS).then_some(())
    });
    clock.move_to("2026-06-14T20:00:01Z");
    let done = eventually_is(&mut client, &id, "done");
    assert_eq!(done["members"], 9, "{done}");
}
