//! Recurring schedules through the binary: by a time zone and by everybody's own, across crashes and stops.

use crate::deliveries::{Post, metric, register};
use crate::moved_clock::{start_at, try_start_at};
use crate::respect::eventually_stands;
use crate::server::Server;
use crate::world::{bare, eventually, expect, key_of, put_user, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};

const MORNING: &str = "/api/v1/schedules/morning";

fn person(client: &mut Client, user: &str, zone: &str) {
    put_user(client, user);
    register(client, user, "phone", &format!("stub:ok/{user}"));
    expect(client.json("PUT", &format!("/api/v1/users/{user}"), &json!({"timezone": zone})), 200);
}

fn every(cron: &str, zone: &str, users: &[&str], title: &str) -> Value {
    let recipients: Vec<Value> = users.iter().map(|user| json!({"userId": user})).collect();
    json!({"cron": cron, "timezone": zone, "notification": {
        "content": {"title": title}, "recipients": recipients, "channels": ["push"]}})
}

/// The event of the run at this time, once it was issued.
fn issued(client: &mut Client, path: &str, at: &str) -> String {
    eventually(&format!("the run at {at} is issued"), || {
        let last = expect(client.get(path), 200)["lastRun"].clone();
        (last["at"] == at).then(|| last["eventId"].as_str().expect("an event").to_owned())
    })
}

fn runs(client: &mut Client, result: &str) -> u64 {
    metric(client, "fantail_schedule_runs_total", &format!("result=\"{result}\""))
}

// proves: SCH-02, API-04
#[test]
fn a_schedule_runs_at_its_local_hour_across_a_change_of_clocks() {
    let post = Post::new();
    // Summer time ends on the 25th.
    let (server, mut clock) = start_at(&post, "2026-10-24T12:00:00Z", &[]);
    let mut client = server.client();
    person(&mut client, "ann", "Europe/Vienna");
    let body = every("30 8 * * *", "Europe/Vienna", &["ann"], "Good morning");
    let made = expect(client.json("PUT", MORNING, &body), 201);
    assert_eq!(made["nextRuns"][0], "2026-10-25T07:30:00.000Z");
    assert_eq!(made["nextRuns"].as_array().map(Vec::len), Some(5));
    assert_eq!(
        (&made["version"], &made["notification"]["content"]["title"]),
        (&json!(1), &json!("Good morning"))
    );
    clock.move_to("2026-10-25T07:29:00Z");
    assert_eq!(expect(client.get(MORNING), 200)["lastRun"], Value::Null);
    clock.move_to("2026-10-25T07:30:00Z");
    let first = issued(&mut client, MORNING, "2026-10-25T07:30:00.000Z");
    eventually_stands(&mut client, &first, "ann", "sent");
    // Paused over one run, and changed by whoever saw it last.
    let paused = expect(client.json("PATCH", MORNING, &json!({"paused": true})), 200);
    assert_eq!((&paused["version"], &paused["nextRuns"]), (&json!(2), &json!([])));
    let mut stale = server.client().with_header("if-match", "\"1\"");
    refused(stale.json("PATCH", MORNING, &json!({"paused": false})), "VERSION_CONFLICT");
    clock.move_to("2026-10-26T08:00:00Z");
    let mut fresh = server.client().with_header("if-match", "\"2\"");
    let new_words = json!({"paused": false, "notification": {"content": {"title": "Hello again"}}});
    let resumed = expect(fresh.json("PATCH", MORNING, &new_words), 200);
    assert_eq!(
        resumed["nextRuns"][0], "2026-10-27T07:30:00.000Z",
        "what passed meanwhile is not made up for"
    );
    clock.move_to("2026-10-27T07:30:00Z");
    let second = issued(&mut client, MORNING, "2026-10-27T07:30:00.000Z");
    eventually_stands(&mut client, &second, "ann", "sent");
    let lines = post.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("Good morning") && lines[1].contains("Hello again"), "{lines:?}");
    let listed = expect(client.get("/api/v1/schedules"), 200);
    assert_eq!(listed["schedules"][0]["nextRun"], "2026-10-28T07:30:00.000Z");
    expect(bare(&mut client, "DELETE", MORNING), 204);
    refused(client.get(MORNING), "SCHEDULE_NOT_FOUND");
    clock.move_to("2026-10-28T09:00:00Z");
    assert_eq!(runs(&mut client, "issued"), 2);
    server.stop();
}

// proves: SCH-02, DED-04
#[test]
fn what_was_missed_is_made_up_for_once_and_not_too_late() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T07:00:00Z", &[]);
    let mut client = server.client();
    person(&mut client, "ann", "UTC");
    expect(client.json("PUT", MORNING, &every("0 8 * * *", "UTC", &["ann"], "Daily")), 201);
    expect(
        client.json("PUT", "/api/v1/schedules/often", &every("*/15 * * * *", "UTC", &["ann"], "Often")),
        201,
    );
    clock.move_to("2026-06-10T07:14:00Z");
    server.kill();

    // Three days later, twenty minutes after eight: one run of each, the latest.
    let (server, _clock) = start_at(&post, "2026-06-13T08:20:00Z", &[]);
    let mut client = server.client();
    let daily = issued(&mut client, MORNING, "2026-06-13T08:00:00.000Z");
    let often = issued(&mut client, "/api/v1/schedules/often", "2026-06-13T08:15:00.000Z");
    for id in [&daily, &often] {
        eventually_stands(&mut client, id, "ann", "sent");
    }
    assert_eq!(post.lines().len(), 2);
    server.kill();

    // Killed again and again after a run: it is not issued twice.
    for time in ["2026-06-13T08:20:10Z", "2026-06-13T08:20:20Z"] {
        let (server, _clock) = start_at(&post, time, &[]);
        issued(&mut server.client(), MORNING, "2026-06-13T08:00:00.000Z");
        server.kill();
    }
    // Two hours late is too late.
    let (server, mut clock) = start_at(&post, "2026-06-14T10:01:00Z", &[]);
    let mut client = server.client();
    eventually("tomorrow's is waited for", || {
        let shown = expect(client.get(MORNING), 200);
        (shown["nextRuns"][0] == "2026-06-15T08:00:00.000Z").then_some(())
    });
    let shown = expect(client.get(MORNING), 200);
    assert_eq!(shown["lastRun"]["at"], "2026-06-13T08:00:00.000Z", "yesterday's was the last");
    assert_eq!(runs(&mut client, "left_out"), 1);
    clock.move_to("2026-06-15T08:00:00Z");
    issued(&mut client, MORNING, "2026-06-15T08:00:00.000Z");
    assert!(post.arrived().values().all(|copies| *copies == 1), "once each");
    server.stop();
}

// proves: SCH-02, DED-04
#[test]
fn a_run_is_issued_once_also_if_the_server_dies_over_it() {
    let post = Post::new();
    let (server, _clock) = start_at(&post, "2026-06-10T07:00:00Z", &[]);
    let mut client = server.client();
    person(&mut client, "ann", "UTC");
    expect(client.json("PUT", MORNING, &every("0 8 * * *", "UTC", &["ann"], "Daily")), 201);
    server.kill();
    // Before it is issued, and between that and writing it down.
    for (time, point) in
        [("2026-06-10T08:00:00Z", "schedule.due:1"), ("2026-06-10T08:00:10Z", "schedule.issued:1")]
    {
        if let Ok((mut server, _)) = try_start_at(&post, time, &[("FANTAIL_DELIVERY_DIE_AT", point)]) {
            assert!(!server.wait(), "it dies at {point}");
        }
    }
    let (server, mut clock) = start_at(&post, "2026-06-10T08:00:20Z", &[]);
    let mut client = server.client();
    let id = issued(&mut client, MORNING, "2026-06-10T08:00:00.000Z");
    eventually_stands(&mut client, &id, "ann", "sent");
    clock.move_to("2026-06-10T09:00:00Z");
    assert_eq!(post.arrived().values().copied().collect::<Vec<_>>(), [1], "once");
    let named = expect(client.get("/api/v1/notifications/morning@2026-06-10T08:00:00.000Z/status"), 200);
    assert_eq!(named["eventId"], id.as_str(), "a run has a name");
    server.stop();
}

// proves: SCH-01, SCH-02
#[test]
fn everybody_has_a_run_at_their_own_hour() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T12:00:00Z", &[]);
    let mut client = server.client();
    person(&mut client, "ann", "Asia/Tokyo");
    person(&mut client, "bob", "America/New_York");
    let body = every("0 9 * * thu", "recipient", &["ann", "bob"], "Thursday");
    let made = expect(client.json("PUT", MORNING, &body), 201);
    assert_eq!(made["nextRuns"][0], "2026-06-10T19:00:00.000Z", "nine o'clock in Kiritimati");
    clock.move_to("2026-06-10T19:00:00Z");
    let id = issued(&mut client, MORNING, "2026-06-10T19:00:00.000Z");
    for (user, due) in [("ann", "2026-06-11T00:00:00.000Z"), ("bob", "2026-06-11T13:00:00.000Z")] {
        let (inputs, _) = eventually_stands(&mut client, &id, user, "deferred");
        assert_eq!((&inputs["code"], &inputs["dueAt"]), (&json!("local_time"), &json!(due)), "{user}");
    }
    server.kill();
    let (server, mut clock) = start_at(&post, "2026-06-11T00:00:00Z", &[]);
    let mut client = server.client();
    eventually_stands(&mut client, &id, "ann", "sent");
    clock.move_to("2026-06-11T13:00:00Z");
    eventually_stands(&mut client, &id, "bob", "sent");
    assert_eq!(expect(client.get(MORNING), 200)["nextRuns"][0], "2026-06-17T19:00:00.000Z");
    assert_eq!(post.arrived().values().copied().collect::<Vec<_>>(), [1, 1], "once each");
    server.stop();
}

// proves: SCH-02, BLK-01
#[test]
fn a_schedule_sends_to_a_segment_as_it_is_then() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T07:00:00Z", &[]);
    let mut client = server.client();
    person(&mut client, "ann", "UTC");
    expect(client.json("PUT", "/api/v1/segments/all", &json!({"filter": "everyone"})), 201);
    let body = json!({"cron": "0 8 * * *", "bulk": {"recipientQuery": {"segment": "all"},
        "channels": ["push"], "content": {"title": "To all"}}});
    expect(client.json("PUT", MORNING, &body), 201);
    person(&mut client, "bob", "UTC");
    clock.move_to("2026-06-10T08:00:00Z");
    let id = issued(&mut client, MORNING, "2026-06-10T08:00:00.000Z");
    for user in ["ann", "bob"] {
        eventually_stands(&mut client, &id, user, "sent");
    }
    // What cannot be sent is told, and the next run is waited for.
    expect(bare(&mut client, "DELETE", "/api/v1/segments/all"), 204);
    clock.move_to("2026-06-11T08:00:00Z");
    eventually("the run is refused", || {
        let last = expect(client.get(MORNING), 200)["lastRun"].clone();
        (last["refused"] == "SEGMENT_NOT_FOUND").then_some(())
    });
    assert_eq!((runs(&mut client, "issued"), runs(&mut client, "refused")), (1, 1));
    server.stop();
}

// proves: SCH-02, API-03
#[test]
fn schedules_that_make_no_sense_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    let good = || every("0 9 * * mon", "UTC", &["ann"], "Hello");
    let with = |path: &str, value: Value| {
        let mut body = good();
        let (parent, key) = path.rsplit_once('/').expect("a pointer");
        body.pointer_mut(parent).expect("a parent")[key] = value;
        body
    };
    for (path, value, pointer) in [
        ("/cron", json!("0 9 * *"), "/cron"),
        ("/cron", json!("0 25 * * *"), "/cron"),
        ("/cron", json!("0 0 30 2 *"), "/cron"),
        ("/cron", json!("*/4 * * * *"), "/cron"),
        ("/timezone", json!("Vienna"), "/timezone"),
        ("/startsAt", json!("soon"), "/startsAt"),
        ("/notification/notificationId", json!("n"), "/notification/notificationId"),
        (
            "/notification/options",
            json!({"scheduledAt": "2030-01-01T00:00:00Z"}),
            "/notification/options/scheduledAt",
        ),
        (
            "/notification/options",
            json!({"sendAtLocal": "2030-01-01T00:00"}),
            "/notification/options/sendAtLocal",
        ),
        ("/notification/content", json!({"title": ""}), "/notification/content/title"),
        (
            "/bulk",
            json!({"recipientQuery": {"segment": "all"}, "channels": ["push"], "content": {"title": "x"}}),
            "/notification",
        ),
    ] {
        let problem = refused(client.json("PUT", MORNING, &with(path, value.clone())), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{path} {value}");
    }
    let nobody = with("/notification/recipients", json!([{"userId": "nobody"}]));
    let problem = refused(client.json("PUT", MORNING, &nobody), "INVALID_RECIPIENT");
    assert_eq!(problem["errors"][0]["pointer"], "/notification/recipients/0/userId");
    let mut local = good();
    local["timezone"] = json!("recipient");
    local["notification"]["channels"] = json!(["inApp"]);
    let problem = refused(client.json("PUT", MORNING, &local), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/notification/channels");
    refused(client.get(MORNING), "SCHEDULE_NOT_FOUND");
    refused(client.json("PATCH", MORNING, &json!({"paused": true})), "SCHEDULE_NOT_FOUND");
    server.stop();
}

/// Its category becomes critical behind the back of its author; then its author's key is revoked.
// fixes: security L1
#[test]
fn a_run_may_do_what_the_author_of_its_schedule_may() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T07:00:00Z", &[]);
    let (mut admin, mut client) = (server.admin(), server.client());
    person(&mut client, "ann", "UTC");
    let scopes = ["notifications:read", "notifications:write", "categories:write"];
    let plain_key = key_of(&mut admin, "default", &scopes);
    let mut plain = server.with_key(&plain_key);
    let mut promo = every("0 8 * * *", "UTC", &["ann"], "Promo");
    promo["notification"]["category"] = json!("promo");
    let made = expect(plain.json("PUT", MORNING, &promo), 201);
    let plain_id = plain_key.split('_').nth(1).expect("an id");
    assert_eq!(made["runsAs"], plain_id);
    assert_eq!(expect(client.get("/api/v1/schedules"), 200)["schedules"][0]["runsAs"], plain_id);

    let critical = json!({"priority": "critical"});
    refused(plain.json("PUT", "/api/v1/categories/promo", &critical), "FORBIDDEN");
    expect(client.json("PUT", "/api/v1/categories/promo", &critical), 201);
    let refusal = |client: &mut Client, at: &str| {
        eventually(&format!("the run at {at} is refused"), || {
            let last = expect(client.get(MORNING), 200)["lastRun"].clone();
            (last["at"] == at).then(|| last["refused"].clone())
        })
    };
    clock.move_to("2026-06-10T08:00:00Z");
    assert_eq!(refusal(&mut client, "2026-06-10T08:00:00.000Z"), "FORBIDDEN");
    assert_eq!(runs(&mut client, "refused"), 1);

    // Whoever writes it again answers for it.
    let taken_over = expect(client.json("PATCH", MORNING, &json!({})), 200);
    assert_ne!(taken_over["runsAs"], plain_id);
    clock.move_to("2026-06-11T08:00:00Z");
    let event = issued(&mut client, MORNING, "2026-06-11T08:00:00.000Z");
    eventually_stands(&mut client, &event, "ann", "sent");

    let mut fresh = server.client().with_header("if-match", "*");
    expect(fresh.json("PUT", "/api/v1/categories/promo", &json!({"priority": "normal"})), 200);
    let taken_back = expect(plain.json("PATCH", MORNING, &json!({})), 200);
    assert_eq!(taken_back["runsAs"], plain_id);
    clock.move_to("2026-06-12T08:00:00Z");
    issued(&mut client, MORNING, "2026-06-12T08:00:00.000Z");
    expect(bare(&mut admin, "DELETE", &format!("/api/v1/tenants/default/keys/{plain_id}")), 204);
    clock.move_to("2026-06-13T08:00:00Z");
    assert_eq!(refusal(&mut client, "2026-06-13T08:00:00.000Z"), "UNAUTHENTICATED");
    assert_eq!(post.lines().len(), 2, "{:?}", post.lines());
    let adopted = expect(admin_of_default(&server).json("PATCH", MORNING, &json!({})), 200);
    assert_eq!(adopted["runsAs"], "admin");
    clock.move_to("2026-06-14T08:00:00Z");
    issued(&mut client, MORNING, "2026-06-14T08:00:00.000Z");
    server.stop();
}

fn admin_of_default(server: &Server) -> Client {
    server.admin().with_header("fantail-tenant", "default")
}

/// Five at once are more than the tenant may have sent in this second: the run waits, as a request would have to.
// fixes: security L1
#[test]
fn runs_are_charged_to_the_tenant() {
    let post = Post::new();
    let rate = [("FANTAIL_PRODUCER_TENANT_PER_SECOND", "1"), ("FANTAIL_PRODUCER_TENANT_BURST", "10")];
    let (server, mut clock) = start_at(&post, "2026-06-10T07:00:00Z", &rate);
    let mut client = server.client();
    let users = ["ann", "bob", "cid", "dan", "eve"];
    for (user, time) in users.iter().zip(["07:01", "07:02", "07:03", "07:04", "07:05"]) {
        person(&mut client, user, "UTC");
        clock.move_to(&format!("2026-06-10T{time}:00Z"));
    }
    expect(client.json("PUT", MORNING, &every("0 8 * * *", "UTC", &users, "Daily")), 201);
    clock.move_to("2026-06-10T07:59:59Z");
    let body = json!({"content": {"title": "Hi"}, "recipients": [{"userId": "ann"}], "channels": ["push"]});
    let sent =
        (0..20).take_while(|_| client.post("/api/v1/notifications", &body).expect("an answer").status == 202);
    assert_eq!(sent.count(), 10, "the tenant has used up what it may");
    let limited = || metric(&mut server.client(), "fantail_producer_limited_total", "");
    let before = limited();
    clock.move_to("2026-06-10T08:00:00Z");
    eventually("the run is put off", || (limited() > before).then_some(()));
    assert_eq!(expect(client.get(MORNING), 200)["lastRun"], Value::Null);
    clock.move_to("2026-06-10T08:05:00Z");
    issued(&mut client, MORNING, "2026-06-10T08:00:00.000Z");
    server.stop();
}
