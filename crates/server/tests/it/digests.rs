//! Many things told as one: likes become a digest, whoever posts them and whatever dies meanwhile.

use crate::deliveries::{Post, metric, register};
use crate::moved_clock::{start_at, try_start_at};
use crate::respect::eventually_stands;
use crate::server::Server;
use crate::world::{eventually, expect, put_user, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

fn like(id: usize, actor: &str) -> Value {
    json!({
        "specversion": "1.0", "id": format!("like-{id}"), "source": "/test", "type": "post.liked", "actor": actor,
        "data": {
            "audience": {"users": ["ann"]}, "category": "like", "channels": ["push"],
            "content": {"title": format!("{actor} likes your post")},
        },
    })
}

fn ann(server: &Server) -> Client {
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    client
}

/// What arrived, without what its provider added; a line that is there twice counts once.
pub fn contents(post: &Post) -> Vec<(String, Value)> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for line in post.lines() {
        let mut fields = line.splitn(4, ' ');
        let reference = fields.next().expect("a reference").to_owned();
        let collapse = fields.nth(1).expect("a collapse key").to_owned();
        let content = serde_json::from_str(fields.next().expect("a content")).expect("JSON");
        if seen.insert(reference) {
            found.push((collapse, content));
        }
    }
    found
}

fn posted(client: &mut Client, event: &Value) -> String {
    let accepted = expect(client.post("/api/v1/events", event), 202);
    accepted["eventId"].as_str().expect("an id").to_owned()
}

// proves: AGG-01, AGG-04, AGG-05, AGG-06
// fixes: usability B9, torture 9
#[test]
fn likes_of_five_minutes_become_one_digest() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T12:00:00Z", &[]);
    let mut client = ann(&server);
    let ids: Vec<String> = ["bob", "cleo", "dan", "eve", "cleo"]
        .iter()
        .enumerate()
        .map(|(no, actor)| posted(&mut client, &like(no, actor)))
        .collect();
    eventually_stands(&mut client, &ids[0], "ann", "sent");
    let (inputs, text) = eventually_stands(&mut client, &ids[4], "ann", "deferred");
    assert_eq!(inputs["code"], "digest_window");
    let due = inputs["dueAt"].as_str().expect("a time");
    assert!(due.starts_with("2026-06-10T12:05:00."), "{due}");
    assert!(text.contains(&format!("together with others at {due}")), "{text}");
    clock.move_to("2026-06-10T12:05:01Z");
    let (inputs, text) = eventually_stands(&mut client, &ids[4], "ann", "digested");
    let digest = inputs["code"].as_str().expect("the id of the digest").to_owned();
    assert!(text.contains(&format!("as part of the digest {digest}")), "{text}");
    let arrived = eventually("the digest arrives", || Some(contents(&post)).filter(|all| all.len() == 2));
    let (collapse, content) = &arrived[1];
    assert!(collapse.starts_with("digest-"), "{collapse}");
    assert_eq!(content["title"], "cleo and 2 others");
    let told = &content["digest"];
    assert_eq!((&told["count"], &told["actors"]), (&json!(4), &json!(["cleo", "eve", "dan"])));
    let newest_first: Vec<&String> = ids[1..].iter().rev().collect();
    assert_eq!(told["eventIds"], json!(newest_first));
    let (inputs, text) = eventually_stands(&mut client, &digest, "ann", "sent");
    assert_eq!(inputs["code"], "", "{text}");
    assert!(text.contains(&format!("written as the digest {digest} of 4 events")), "{text}");
    let status = expect(client.get(&format!("/api/v1/notifications/{digest}/status?limit=10")), 200);
    assert_eq!((&status["status"], &status["category"]), (&json!("done"), &json!("like")));
    assert_eq!(status["channels"][0]["counts"], json!({"sent": 1}));
    assert_eq!(
        (&status["deliveries"][0]["userId"], &status["deliveries"][0]["state"]),
        (&json!("ann"), &json!("sent"))
    );
    let trace = expect(client.get(&format!("/api/v1/notifications/{digest}/trace?user=ann")), 200);
    assert_eq!(trace["spans"][0]["name"], "digest");
    refused(client.get("/api/v1/notifications/01M7ZZZZZZZZZZZZZZZZZZZZZZ/status"), "EVENT_NOT_FOUND");
    assert_eq!(metric(&mut client, "fantail_digests_total", ""), 1);
    assert_eq!(metric(&mut client, "fantail_digest_items_total", ""), 4);

    // One more is no digest.
    let alone: Vec<String> = (5..7).map(|no| posted(&mut client, &like(no, "finn"))).collect();
    eventually_stands(&mut client, &alone[1], "ann", "deferred");
    clock.move_to("2026-06-10T12:15:00Z");
    eventually_stands(&mut client, &alone[1], "ann", "sent");
    assert_eq!(contents(&post).len(), 4, "two digests and leaders before, two alone");
    server.stop();
}

const LIKES: usize = 500;
const PRODUCERS: usize = 4;

/// Producers post all likes, each until it is taken; the server is killed when so many are.
fn post_all(server: &Server, kill_after: Option<usize>) {
    let (next, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..PRODUCERS {
            scope.spawn(|| {
                let mut client = server.client();
                loop {
                    let no = next.fetch_add(1, Ordering::Relaxed);
                    if no >= LIKES || kill_after.is_some_and(|most| taken.load(Ordering::Relaxed) >= most) {
                        return;
                    }
                    let answer = client.post("/api/v1/events", &like(no, &format!("fan{no}")));
                    let Ok(answer) = answer else { return };
                    assert_eq!(answer.status, 202, "{}", answer.text());
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
}

// proves: RL-02, AGG-01, AGG-05, DED-04
#[test]
fn five_hundred_likes_in_a_minute_are_one_digest_also_if_the_server_dies() {
    let post = Post::new();
    let (server, _) = start_at(&post, "2026-06-10T12:00:00Z", &[]);
    ann(&server);
    post_all(&server, Some(LIKES / 2));
    server.kill();

    // Producers who had no answer, and those who had one, post again.
    let (server, _) = start_at(&post, "2026-06-10T12:00:40Z", &[]);
    post_all(&server, None);
    let mut client = server.client();
    eventually("all of them wait but the first", || {
        let waiting = metric(&mut client, "fantail_deliveries", "state=\"deferred\"");
        (waiting == LIKES as u64 - 1).then_some(())
    });
    server.kill();

    // The window is over: it dies while it folds, and again before the digest is written.
    for (time, point) in
        [("2026-06-10T12:05:10Z", "digest.folding:3"), ("2026-06-10T12:05:20Z", "digest.written:1")]
    {
        // It may die before it has said that it is ready.
        if let Ok((mut server, _)) = try_start_at(&post, time, &[("FANTAIL_DELIVERY_DIE_AT", point)]) {
            assert!(!server.wait(), "it dies at {point}");
        }
    }
    let (server, _) = start_at(&post, "2026-06-10T12:05:30Z", &[]);
    let mut client = server.client();
    eventually("everything is told", || {
        let mut of = |state: &str| metric(&mut client, "fantail_deliveries", &format!("state=\"{state}\""));
        (of("digested") == LIKES as u64 - 1 && of("sent") == 2).then_some(())
    });
    let arrived = contents(&post);
    assert_eq!(arrived.len(), 2, "the first like and one digest");
    let told = &arrived[1].1["digest"];
    assert_eq!((&told["count"], &told["others"]), (&json!(LIKES - 1), &json!(LIKES - 1 - 3)));
    assert_eq!(metric(&mut client, "fantail_delivery_imbalance", ""), 0);
    server.stop();
}
