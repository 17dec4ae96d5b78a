//! A copy that was made from a backup: it accepts and reads, and nothing leaves it before it is resumed, whatever becomes due
//! meanwhile and however it is started.

use crate::alerts::fires;
use crate::bulk::{bulk, message, put_segment};
use crate::deliveries::{Post, metric, notification, register, send};
use crate::digests::contents;
use crate::moved_clock::start_at;
use crate::outages::titled;
use crate::respect::{eventually_stands, patch};
use crate::server::{Directory, Server, fantail, run};
use crate::webhooks::Receiver;
use crate::world::{eventually, expect, inbox, put_user};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const EVENING: &str = "2026-06-10T20:00:00Z";
const NEXT_DAY: &str = "2026-06-11T10:00:00Z";
/// What the backup has of everything that can leave, by the title that arrives.
const LEAVES: [&str; 6] = ["Deferred", "Scheduled", "Recurring", "Bulk", "cleo and 1 other", "Bulk later"];

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

fn titles(post: &Post) -> BTreeSet<String> {
    let title = |(_, content): (String, Value)| content["title"].as_str().expect("a title").to_owned();
    contents(post).into_iter().map(title).collect()
}

fn like(id: &str, actor: &str) -> Value {
    json!({
        "specversion": "1.0", "id": id, "source": "/test", "type": "post.liked", "actor": actor,
        "data": {
            "audience": {"users": ["bob"]}, "category": "like", "channels": ["push"],
            "content": {"title": format!("{actor} likes your post")},
        },
    })
}

/// Something of each kind that waits for its time at the next morning. Returns the id of what is too late by then.
fn plant(client: &mut Client, receiver: &Receiver) -> String {
    for user in ["ann", "bob"] {
        put_user(client, user);
        register(client, user, "phone", &format!("stub:ok/{user}"));
    }
    let night = json!({"enabled": true, "start": "22:00", "end": "07:00", "timezone": "Europe/Vienna"});
    patch(client, "ann", &json!({"quietHours": night}));
    let deferred = send(client, &titled("deferred", &["ann"], "push", "Deferred"));
    eventually_stands(client, &deferred, "ann", "deferred");
    let at = |id: &str, title: &str, options: Value| {
        let mut body = titled(id, &["bob"], "push", title);
        body["options"] = options;
        body
    };
    send(
        client,
        &at("scheduled", "Scheduled", json!({"scheduledAt": "2026-06-11T06:00:00Z", "ttl": 86_400})),
    );
    let late = send(client, &at("late", "Late", json!({"scheduledAt": "2026-06-11T06:00:00Z", "ttl": 60})));
    let recurring = json!({"cron": "45 9 * * *", "timezone": "UTC", "notification": {
        "content": {"title": "Recurring"}, "recipients": [{"userId": "bob"}], "channels": ["push"]}});
    expect(client.json("PUT", "/api/v1/schedules/morning", &recurring), 201);
    for (no, actor) in ["ada", "bea", "cleo"].into_iter().enumerate() {
        expect(client.post("/api/v1/events", &like(&format!("like-{no}"), actor)), 202);
    }
    put_segment(client, "all", "everyone");
    for (name, title) in [("bulk", "Bulk"), ("bulk-later", "Bulk later")] {
        let more = json!({"notificationId": name, "content": {"title": title},
            "options": {"scheduledAt": "2026-06-11T06:00:00Z", "ttl": 86_400}});
        bulk(client, &message("all", more));
    }
    receiver.hook(client);
    late
}

fn restore(backup: &Path, post: &Post, more: &[&str]) -> String {
    let data = post.directory.path("data");
    run(&[&["restore", text(backup), "--data", text(&data)], more].concat())
}

fn sending_detail(server: &Server) -> String {
    let report = expect(server.anonymous().get("/readyz?verbose"), 200);
    let mut checks = report["checks"].as_array().expect("checks").iter();
    let sending = checks.find(|check| check["name"] == "sending").expect("a check of what is sent");
    assert_eq!(
        (&report["ready"], &sending["ok"]),
        (&json!(true), &json!(true)),
        "it is no reason to send readers away"
    );
    sending["detail"].as_str().expect("text").to_owned()
}

fn says_that_it_is_paused(server: &Server) {
    let line =
        server.banner.iter().find(|line| line.trim_start().starts_with("paused ")).expect("it is said");
    assert!(line.contains("2026-06-10T20:0") && line.contains("fantail resume"), "{line}");
    assert!(sending_detail(server).starts_with("paused: "));
    let mut admin = server.admin();
    assert_eq!(metric(&mut admin, "fantail_paused", ""), 1);
    assert!(fires("FantailPaused", &mut admin));
    let paused = expect(admin.get("/api/v1/server"), 200)["paused"].clone();
    assert!(paused["backupTakenAt"].as_str().is_some_and(|at| at.starts_with("2026-06-10T20:0")), "{paused}");
    assert!(paused["restoredAt"].is_string(), "{paused}");
}

// fixes: usability §3.24
#[test]
fn nothing_leaves_a_restored_copy_before_it_is_resumed() {
    let (original, receiver, elsewhere) = (Post::new(), Receiver::start(), Directory::new());
    let reach = [("FANTAIL_OUTBOUND_ALLOW", receiver.target.as_str())];
    let (server, _clock) = start_at(&original, EVENING, &reach);
    let mut client = server.client();
    let late = plant(&mut client, &receiver);
    let (backup, data) = (elsewhere.path("backup"), original.directory.path("data"));
    run(&["backup", text(&backup), "--server", &server.address, "--data", text(&data)]);
    server.kill();
    // What a copy tells its producer is only heard from here on, from the paused one: the other may not connect there.
    receiver.forget();

    let paused = Post::new();
    assert!(restore(&backup, &paused, &[]).contains("sends nothing until you run `fantail resume`"));
    let (server, _clock) = start_at(&paused, NEXT_DAY, &reach);
    says_that_it_is_paused(&server);
    let mut client = server.client();
    // It accepts, and readers see it.
    let fresh = notification(
        "fresh",
        &["bob"],
        json!({"channels": ["push", "inApp"], "content": {"title": "Fresh"}}),
    );
    let fresh = send(&mut client, &fresh);
    eventually("it is in the inbox", || {
        inbox(&mut client, "bob", "").to_string().contains("Fresh").then_some(())
    });
    server.kill();
    let (server, mut later) = start_at(&paused, "2026-06-11T10:00:30Z", &reach);
    says_that_it_is_paused(&server);
    later.move_to("2026-06-11T10:30:00Z");

    // Meanwhile a copy that is not paused sends everything.
    let active = Post::new();
    assert!(restore(&backup, &active, &["--active"]).contains("sends at once"));
    let (control, _clock) = start_at(&active, NEXT_DAY, &[]);
    assert!(sending_detail(&control).starts_with("as it comes"));
    eventually("the active copy sends everything", || {
        let found = titles(&active);
        LEAVES.iter().all(|title| found.contains(*title)).then_some(())
    });
    control.stop();
    assert_eq!((paused.lines(), receiver.requests()), (Vec::new(), 0), "nothing has left the paused copy");

    let data = paused.directory.path("data");
    let said = run(&["resume", "--server", &server.address, "--data", text(&data)]);
    assert!(said.contains("the server sends"), "{said}");
    let mut client = server.client();
    eventually("the resumed copy sends everything", || {
        let found = titles(&paused);
        (LEAVES.iter().all(|title| found.contains(*title)) && found.contains("Fresh")).then_some(())
    });
    eventually_stands(&mut client, &fresh, "bob", "sent");
    // Its time to live was over: it met its gates at the resume.
    eventually_stands(&mut client, &late, "bob", "expired");
    eventually("the producer is told", || (!receiver.types().is_empty()).then_some(()));
    assert!(!titles(&paused).contains("Late"));
    is_resumed(&server);
    server.kill();
    let (server, _clock) = start_at(&paused, "2026-06-11T10:31:00Z", &reach);
    is_resumed(&server);
    // Again: nothing changes, and no second trace.
    expect(server.admin().post("/api/v1/server/resume", &json!({})), 200);
    is_resumed(&server);
    server.stop();
}

fn is_resumed(server: &Server) {
    let mut admin = server.admin();
    assert_eq!(expect(admin.get("/api/v1/server"), 200)["paused"], Value::Null);
    assert_eq!(metric(&mut admin, "fantail_paused", ""), 0);
    assert!(sending_detail(server).starts_with("as it comes"));
    eventually("the resume has left one trace", || {
        let log = expect(admin.get("/api/v1/audit/server"), 200).to_string();
        (log.matches("\"server.resume\"").count() == 1).then_some(())
    });
}

#[test]
fn a_backup_is_paused_however_it_is_put_in_place_and_half_of_one_is_refused() {
    let server = Server::start();
    put_user(&mut server.client(), "bob");
    let elsewhere = Directory::new();
    let [backup, data] = ["backup", "data"].map(|name| elsewhere.path(name));
    run(&["backup", text(&backup), "--server", &server.address, "--data", text(&server.data)]);
    server.stop();
    // Copied by hand.
    crate::audit::copy(&backup, &data);
    let copy = Server::start_in(&data, &[], &[]);
    assert_eq!(metric(&mut copy.admin(), "fantail_paused", ""), 1);
    copy.stop();
    let refused = |mark: &str| {
        std::fs::write(data.join("copy.json"), mark).expect("written");
        let output = fantail()
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .output()
            .expect("it runs");
        assert!(!output.status.success(), "{mark}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let error = refused("{\"format\": 1, \"unfinished\": true}");
    assert!(error.contains("was not restored completely"), "{error}");
    // A mark that cannot be read is a mark all the same.
    let error = refused("{\"form");
    assert!(error.contains("copy.json is damaged"), "{error}");
}
