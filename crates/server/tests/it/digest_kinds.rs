//! Digests by the calendar, by the weather and by the cap, and in a tenant's own words: through the binary, on a clock that the
//! test moves.

use crate::deliveries::{Post, register};
use crate::digests::contents;
use crate::moved_clock::start_at;
use crate::respect::{eventually_stands, patch};
use crate::server::Server;
use crate::world::{eventually, expect, put_user};
use fantail_server::client::{Client, Request};
use serde_json::{Value, json};

/// Ann, who lives in Vienna.
fn ann(server: &Server) -> Client {
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    expect(client.json("PUT", "/api/v1/users/ann", &json!({"timezone": "Europe/Vienna"})), 200);
    client
}

fn policy(client: &mut Client, category: &str, policy: &Value) {
    expect(client.json("PUT", &format!("/api/v1/categories/{category}"), policy), 201);
}

/// Something of a category that somebody did.
fn posted(client: &mut Client, id: usize, category: &str, actor: &str) -> String {
    let event = json!({
        "specversion": "1.0", "id": format!("{category}-{id}"), "source": "/test", "type": "done", "actor": actor,
        "data": {"audience": {"users": ["ann"]}, "category": category, "channels": ["push"],
            "content": {"title": format!("{category} {id} by {actor}")}},
    });
    let accepted = expect(client.post("/api/v1/events", &event), 202);
    accepted["eventId"].as_str().expect("an id").to_owned()
}

/// Waits in a window, as its story says.
fn waits(client: &mut Client, id: &str) {
    let (inputs, text) = eventually_stands(client, id, "ann", "deferred");
    assert_eq!(inputs["code"], "digest_window");
    assert!(text.contains("waits to be sent together with others"), "{text}");
}

/// Which digest told of it, as its story says.
fn digest_of(client: &mut Client, id: &str) -> String {
    let (inputs, text) = eventually_stands(client, id, "ann", "digested");
    let digest = inputs["code"].as_str().expect("the id of the digest").to_owned();
    assert!(text.contains(&format!("told as part of the digest {digest}")), "{text}");
    digest
}

fn arrived(post: &Post, count: usize) -> Vec<Value> {
    let found = eventually(&format!("{count} messages arrive"), || {
        Some(contents(post)).filter(|all| all.len() >= count)
    });
    assert_eq!(found.len(), count, "{found:?}");
    found.into_iter().map(|(_, content)| content).collect()
}

// proves: AGG-01, AGG-05
#[test]
fn once_a_day_and_once_a_week_come_at_the_local_hour_across_a_change_of_clocks() {
    let post = Post::new();
    // A Saturday. Summer time ends in the night: eight o'clock is 06:00 in UTC today, and 07:00 from tomorrow on.
    let (server, mut clock) = start_at(&post, "2026-10-24T12:00:00Z", &[]);
    let mut client = ann(&server);
    let wants = |frequency: &str| json!({"enabled": true, "frequency": frequency});
    let categories = json!({"news": wants("daily_digest"), "sport": wants("weekly_digest")});
    patch(&mut client, "ann", &json!({"categories": categories}));
    let news: Vec<String> = (0..3).map(|no| posted(&mut client, no, "news", "bob")).collect();
    let sport: Vec<String> = (0..2).map(|no| posted(&mut client, no, "sport", "cleo")).collect();
    for id in news.iter().chain(&sport) {
        waits(&mut client, id);
    }
    clock.move_to("2026-10-25T06:59:00Z");
    waits(&mut client, &news[0]);
    server.kill();

    let (server, mut clock) = start_at(&post, "2026-10-25T06:59:00Z", &[]);
    let mut client = server.client();
    waits(&mut client, &news[0]);
    assert_eq!(post.lines().len(), 0, "it is 07:59 in Vienna");
    clock.move_to("2026-10-25T07:00:00Z");
    let daily = digest_of(&mut client, &news[0]);
    assert_eq!(digest_of(&mut client, &news[2]), daily);
    let told = arrived(&post, 1);
    assert_eq!((&told[0]["digest"]["count"], &told[0]["digest"]["category"]), (&json!(3), &json!("news")));
    waits(&mut client, &sport[0]);
    clock.move_to("2026-10-26T06:59:00Z");
    waits(&mut client, &sport[1]);
    clock.move_to("2026-10-26T07:00:00Z");
    digest_of(&mut client, &sport[1]);
    let told = arrived(&post, 2);
    assert_eq!((&told[1]["digest"]["count"], &told[1]["digest"]["category"]), (&json!(2), &json!("sport")));
    server.stop();
}

// proves: AGG-02, RL-02
#[test]
fn a_storm_becomes_a_digest_and_passes() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T12:00:00Z", &[]);
    let mut client = ann(&server);
    policy(&mut client, "ping", &json!({"storm": {"windowSeconds": 60, "threshold": 4}}));
    let ids: Vec<String> = (0..9)
        .map(|no| {
            let id = posted(&mut client, no, "ping", &format!("fan{no}"));
            // In their order: what comes is counted when it is looked at.
            eventually("it is looked at", || {
                let story = expect(client.get(&format!("/api/v1/notifications/{id}/explain?user=ann")), 200);
                let steps = story["steps"].as_array().expect("steps").clone();
                let last = steps.iter().rfind(|step| step["step"] == "state")?["inputs"]["state"].clone();
                (last == "sent" || last == "deferred").then_some(())
            });
            id
        })
        .collect();
    // Three as they came; the fourth makes it a storm, whose window lets its first one through.
    for id in &ids[..4] {
        eventually_stands(&mut client, id, "ann", "sent");
    }
    for id in &ids[4..] {
        waits(&mut client, id);
    }
    clock.move_to("2026-06-10T12:05:01Z");
    let digest = digest_of(&mut client, &ids[4]);
    assert_eq!(digest_of(&mut client, &ids[8]), digest);
    let told = arrived(&post, 5);
    assert_eq!(told[4]["digest"]["count"], 5);
    // It has passed.
    let calm = posted(&mut client, 99, "ping", "bob");
    eventually_stands(&mut client, &calm, "ann", "sent");
    server.stop();
}

// proves: AGG-04, TPL-01
#[test]
fn a_digest_is_told_in_the_tenants_own_words() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T12:00:00Z", &[]);
    let mut client = ann(&server);
    let template = json!({
        "id": "digest-like", "name": "Likes", "category": "like", "defaultLocale": "en",
        "schema": {"type": "object", "properties": {
            "count": {"type": "integer"}, "others": {"type": "integer"}, "headline": {"type": "string"},
            "category": {"type": "string"},
            "actors": {"type": "array", "items": {"type": "string"}},
            "eventIds": {"type": "array", "items": {"type": "string"}}}},
        "channels": {"push": {"title": "{{ headline }} like it", "body": "{{ count }} hearts, {{ actors[0] }} last"}},
    });
    let headers = [("content-type", "application/json"), ("if-none-match", "*")];
    let body = template.to_string();
    let request = Request {
        method: "PUT",
        path: "/api/v1/templates/digest-like",
        headers: &headers,
        body: body.as_bytes(),
    };
    let made = client.send(&request).expect("an answer");
    assert_eq!(made.status, 201, "{}", made.text());
    let ids: Vec<String> = (0..4).map(|no| posted(&mut client, no, "like", &format!("fan{no}"))).collect();
    waits(&mut client, &ids[3]);
    clock.move_to("2026-06-10T12:05:01Z");
    let digest = digest_of(&mut client, &ids[3]);
    assert_eq!(digest_of(&mut client, &ids[1]), digest);
    let told = arrived(&post, 2);
    assert_eq!(told[1]["title"], "fan3 and 2 others like it");
    assert_eq!(told[1]["body"], "3 hearts, fan3 last");
    server.stop();
}

// proves: RL-01, AGG-01, DEL-21
#[test]
fn what_is_too_much_for_an_hour_is_told_as_one_in_the_next() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T12:10:00Z", &[]);
    let mut client = ann(&server);
    policy(
        &mut client,
        "ping",
        &json!({"overflow": "digest", "storm": {"windowSeconds": 60, "threshold": 0}}),
    );
    patch(&mut client, "ann", &json!({"channels": {"push": {"frequency": {"maxPerHour": 2}}}}));
    let ids: Vec<String> = (0..5)
        .map(|no| {
            let id = posted(&mut client, no, "ping", &format!("fan{no}"));
            eventually_stands(&mut client, &id, "ann", if no < 2 { "sent" } else { "deferred" });
            id
        })
        .collect();
    waits(&mut client, &ids[4]);
    clock.move_to("2026-06-10T12:59:00Z");
    waits(&mut client, &ids[2]);
    clock.move_to("2026-06-10T13:00:00Z");
    let digest = digest_of(&mut client, &ids[2]);
    assert_eq!(digest_of(&mut client, &ids[4]), digest);
    let told = arrived(&post, 3);
    assert_eq!((&told[2]["digest"]["count"], &told[2]["title"]), (&json!(3), &json!("fan4 and 2 others")));
    server.stop();
}
