//! A user is erased while everything about it is under way, and nothing of it is found in any file afterwards.

use crate::deliveries::{Post, register, send};
use crate::outages::titled;
use crate::server::{fantail, run};
use crate::world::{bare, eventually, expect, follow, in_ms, put_user, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};

/// What must not be found. The words are in no file of ours.
pub const ID: &str = "canary-id-4fd1";
const NAME: &str = "Canary Name 9c2e";
const MAIL: &str = "ok/canary-mail-77ab@stub.test";
const TOKEN: &str = "stub:ok/canary-token-31fe";
const CONTENT: &str = "canary content 5d90";
const DEVICE: &str = "canary-device-b00c";
pub const CANARIES: [&str; 6] = [ID, NAME, "canary-mail-77ab", "canary-token-31fe", CONTENT, DEVICE];
/// In the clear, as every consent's version: what shows that looking finds.
const PLAIN: &str = "plain-version-20c7";

pub fn erase(client: &mut Client, user: &str) -> String {
    let begun = expect(client.post("/api/v1/erasures", &json!({"userId": user})), 202);
    begun["erasureId"].as_str().expect("an id").to_owned()
}

pub fn completed(client: &mut Client, erasure: &str) -> Value {
    eventually("the erasure is done", || {
        let found = expect(client.get(&format!("/api/v1/erasures/{erasure}")), 200);
        (found["state"] == "completed").then_some(found)
    })
}

/// A user with something in every store.
pub fn plant(client: &mut Client) -> Vec<String> {
    let profile = json!({"attributes": {"name": NAME}, "email": MAIL, "timezone": "Asia/Tokyo"});
    expect(client.json("PUT", &format!("/api/v1/users/{ID}"), &profile), 201);
    register(client, ID, DEVICE, TOKEN);
    put_user(client, "bob");
    register(client, "bob", "phone", "stub:ok/bob");
    let consent = json!({"granted": true, "version": PLAIN, "source": "app"});
    expect(client.json("PUT", &format!("/api/v1/users/{ID}/consents/email"), &consent), 200);
    follow(client, ID, "ann");
    let said = send(client, &personal("n1", &["push", "email"]));
    eventually("it is in the inbox", || {
        let page = expect(client.get(&format!("/api/v1/users/{ID}/notifications")), 200);
        (!page["notifications"].as_array().expect("a page").is_empty()).then_some(())
    });
    stands(client, &said, "sent");
    expect(client.post(&format!("/api/v1/users/{ID}/notifications/read"), &json!({"ids": [said]})), 200);
    // From here on it is quiet for the user: what is sent waits.
    let quiet =
        json!({"quietHours": {"enabled": true, "start": "12:00", "end": "12:00", "timezone": "Asia/Tokyo"}});
    expect(client.json("PATCH", &format!("/api/v1/users/{ID}/preferences"), &quiet), 200);
    let waiting = send(client, &personal("n2", &["push"]));
    stands(client, &waiting, "deferred");
    let mut later = personal("n3", &["push"]);
    later["options"] = json!({"scheduledAt": in_ms(3_600_000)});
    let scheduled = send(client, &later);
    vec![said, waiting, scheduled]
}

fn personal(id: &str, channels: &[&str]) -> Value {
    let mut body = titled(id, &[ID], "push", CONTENT);
    body["channels"] = json!(channels);
    body
}

fn stands(client: &mut Client, id: &str, state: &str) {
    eventually(&format!("{id} is {state}"), || {
        let found = expect(client.get(&format!("/api/v1/notifications/{id}/status?limit=10")), 200);
        found.to_string().contains(&format!("\"{state}\"")).then_some(())
    });
}

/// How often each of an erasure's actions is in the audit log.
fn audited(client: &mut Client, action: &str) -> usize {
    let log = expect(client.get("/api/v1/audit?limit=1000"), 200).to_string();
    log.matches(&format!("\"{action}\"")).count()
}

// proves: GDP-01, GDP-02, AUD-02, AUD-03
#[test]
fn nothing_of_somebody_who_was_erased_is_found_in_any_file() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    let sent = plant(&mut client);
    let link = expect(client.post(&format!("/api/v1/users/{ID}/preference-links"), &json!({})), 201);
    let begun = erase(&mut client, ID);
    // Gone for everybody, at once.
    refused(client.get(&format!("/api/v1/users/{ID}")), "USER_NOT_FOUND");
    refused(client.get(&format!("/api/v1/users/{ID}/preferences")), "USER_NOT_FOUND");
    refused(client.post("/api/v1/erasures", &json!({"userId": ID})), "USER_NOT_FOUND");
    let receipt = completed(&mut client, &begun);
    let removed = &receipt["removed"];
    for (store, least) in [
        ("profile", 1),
        ("devicesAndAddresses", 2),
        ("preferences", 1),
        ("consents", 2),
        ("preferenceHistory", 3),
        ("follows", 1),
        ("marks", 1),
        ("inbox", 2),
        ("pendingDeliveries", 1),
        ("deliveryAttempts", 2),
        ("key", 1),
    ] {
        assert!(removed[store].as_u64().is_some_and(|count| count >= least), "{store}: {receipt}");
    }
    let told = expect(client.get(&format!("/api/v1/notifications/{}/status?limit=10", sent[1])), 200);
    assert!(told.to_string().contains("\"erased\""), "{told}");
    let path = link["url"].as_str().expect("a URL").split_once("/u/").expect("a page").1.to_owned();
    assert_eq!(server.anonymous().get(&format!("/u/{path}")).expect("an answer").status, 404);
    eventually("the audit log has it", || {
        let both = [audited(&mut client, "erasure.begin"), audited(&mut client, "erasure.complete")];
        (both == [1, 1]).then_some(())
    });
    refused(client.get("/api/v1/erasures/01KG9V7W0R0000000000000001"), "ERASURE_NOT_FOUND");
    // Somebody else under the same name starts with nothing.
    put_user(&mut client, ID);
    let fresh = expect(client.get(&format!("/api/v1/users/{ID}/notifications")), 200);
    assert_eq!(fresh["notifications"], json!([]));
    expect(bare(&mut server.admin(), "POST", "/api/v1/backups"), 201);
    let data = server.data.to_str().expect("a path").to_owned();
    server.stop();
    // Every byte of every file: journal, tables, runs, audit, snapshots, backups, keys.
    let texts = post.directory.path("texts");
    std::fs::write(&texts, CANARIES.join("\n")).expect("a file");
    let said = run(&["scan", "--data", &data, "--file", texts.to_str().expect("a path")]);
    assert!(said.contains("0 hits of 6 texts"), "{said}");
    let found = fantail().args(["scan", "--data", &data, PLAIN]).output().expect("the binary runs");
    assert!(!found.status.success(), "what is in the clear is found");
    assert!(String::from_utf8_lossy(&found.stdout).contains("text 1 in "));
    run(&["audit", "verify", "--data", &data]);
    run(&["check", "--data", &data]);
}

// proves: GDP-01, DED-04
#[test]
fn an_erasure_goes_on_after_a_crash() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    let users: Vec<String> = (0..6).map(|no| format!("u{no}")).collect();
    let mut sent = Vec::new();
    for user in &users {
        put_user(&mut client, user);
        register(&mut client, user, "phone", &format!("stub:ok/{user}"));
        let quiet =
            json!({"quietHours": {"enabled": true, "start": "12:00", "end": "12:00", "timezone": "UTC"}});
        expect(client.json("PATCH", &format!("/api/v1/users/{user}/preferences"), &quiet), 200);
        sent.push(send(&mut client, &titled(&format!("n-{user}"), &[user], "push", "Hello")));
        stands(&mut client, sent.last().expect("one was sent"), "deferred");
    }
    server.stop();
    for (user, point) in
        users.iter().zip(["planned:1", "durable:1", "folded:1", "durable:2", "folded:2", "durable:3"])
    {
        let die_at = format!("lead.{point}");
        if let Ok(mut server) = post.try_start(&[("FANTAIL_DELIVERY_DIE_AT", &die_at)]) {
            // It may die before it answers, or after.
            drop(server.client().post("/api/v1/erasures", &json!({"userId": user})));
            assert!(!server.wait(), "it died at {die_at}");
        }
    }
    let server = post.start(&[]);
    let mut client = server.client();
    for user in &users {
        let response = client.post("/api/v1/erasures", &json!({"userId": user})).expect("an answer");
        assert!(matches!(response.status, 202 | 404), "{}", response.text());
    }
    eventually("whatever was begun is done, once", || {
        let both = [audited(&mut client, "erasure.begin"), audited(&mut client, "erasure.complete")];
        (both == [users.len(), users.len()]).then_some(())
    });
    for id in &sent {
        let told = expect(client.get(&format!("/api/v1/notifications/{id}/status?limit=10")), 200);
        assert!(told.to_string().contains("\"erased\""), "{told}");
    }
    assert!(post.lines().is_empty(), "nothing was sent");
    let data = server.data.to_str().expect("a path").to_owned();
    server.stop();
    run(&["audit", "verify", "--data", &data]);
    run(&["check", "--data", &data]);
}
