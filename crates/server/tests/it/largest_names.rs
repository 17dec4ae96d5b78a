//! Names as long as the API accepts them, everywhere: stored, derived, shown, audited, and there after a restart.

use crate::audit::entries;
use crate::bulk::upload;
use crate::server::Server;
use crate::world::{eventually, expect, in_ms};
use fantail_server::client::Client;
use serde_json::{Value, json};

const NAME_BYTES_MAX: usize = 256;

/// A name of the largest length, which ends with what it is of.
fn name(bytes: usize, of: &str) -> String {
    format!("{}{of}", "a".repeat(bytes - of.len()))
}

fn longest(of: &str) -> String {
    name(NAME_BYTES_MAX, of)
}

fn put(client: &mut Client, path: &str, body: &Value) {
    let response = client.json("PUT", path, body).expect("an answer");
    assert!((200..300).contains(&response.status), "{path}: {}", response.text());
}

/// Puts one of everything that has a name, and sends to all of it.
fn use_everything(client: &mut Client) {
    let (ann, bob, news) = (longest("-ann"), longest("-bob"), longest("-news"));
    let attributes = json!({"attributes": {"bio": "x".repeat((8 << 10) - 16)}, "email": "ann@example.com"});
    put(client, &format!("/api/v1/users/{ann}"), &attributes);
    put(client, &format!("/api/v1/users/{bob}"), &json!({}));
    put(client, &format!("/api/v1/users/{bob}/follows/{ann}"), &json!({}));
    put(client, &format!("/api/v1/topics/{news}/subscribers/{bob}"), &json!({}));
    for device in ["-one", "-two"] {
        let device = json!({"userId": bob, "deviceId": longest(device), "platform": "android",
            "token": format!("stub:ok/{device}")});
        expect(client.post("/api/v1/devices", &device), 201);
    }
    let category = name(64, "-likes");
    put(client, &format!("/api/v1/categories/{category}"), &json!({"priority": "low"}));
    let wants = json!({"categories": {category.clone(): {"enabled": true}}});
    expect(client.json("PATCH", &format!("/api/v1/users/{bob}/preferences"), &wants), 200);
    // The target in the audit log is the id and a version: longer than any name.
    for id in [name(255, "-t"), longest("-t")] {
        let template = json!({"id": id, "category": category, "defaultLocale": "en",
            "channels": {"push": {"title": "Hello", "body": "You"}}});
        put(client, &format!("/api/v1/templates/{id}"), &template);
    }
    let segment = longest("-all");
    put(client, &format!("/api/v1/segments/{segment}"), &json!({"filter": "everyone"}));
    let listed = upload(client, &segment, "text/csv", &format!("{ann}\n{bob}\n")).expect("an answer");
    assert_eq!(listed.status, 200, "{}", listed.text());
    let account =
        json!({"kind": "smtp", "settings": {"host": "127.0.0.1", "port": 1, "from": "a@example.com"}});
    let answer = client.json("PUT", &format!("/api/v1/providers/{}", longest("-smtp")), &account);
    assert!(answer.expect("an answer").status < 500);
    let every = json!({"cron": "0 8 1 1 *", "notification": {"content": {"title": "Hello"},
        "recipients": [{"userId": bob}], "channels": ["push"]}});
    put(client, &format!("/api/v1/schedules/{}", name(200, "-yearly")), &every);
    let sent = json!({"notificationId": longest("-sent"), "category": category, "channels": ["push", "inApp"],
        "content": {"title": "Hello"}, "recipients": [{"userId": ann}, {"userId": bob}]});
    expect(client.post("/api/v1/notifications", &sent), 202);
    let later = json!({"notificationId": longest("-later"), "content": {"title": "Later"}, "channels": ["push"],
        "recipients": [{"userId": bob}],
        "options": {"scheduledAt": in_ms(3_600_000), "cancellationKey": longest("-key"),
            "collapseKey": name(64, "-collapse")}});
    expect(client.post("/api/v1/notifications", &later), 202);
}

/// All records are derived, and the server serves.
fn eventually_audited(client: &mut Client) {
    eventually("both templates are in the audit log", || {
        let actions = entries(client, "");
        let puts = actions.iter().filter(|entry| entry["fact"]["action"] == "template.put");
        (puts.count() == 2).then_some(())
    });
    let ready = client.get("/readyz?verbose").expect("an answer");
    assert_eq!(ready.status, 200, "{}", ready.text());
    assert_eq!(client.get("/metrics").expect("an answer").status, 200);
}

// fixes: correctness A1
#[test]
fn a_server_serves_and_starts_again_with_every_name_at_its_largest() {
    let server = Server::start();
    let mut client = server.client();
    use_everything(&mut client);
    eventually_audited(&mut client);
    let directory = server.stop().expect("it has a directory of its own");
    let server = Server::start_in(&directory.path("data"), &[], &[]);
    let mut client = server.client();
    eventually_audited(&mut client);
    expect(client.get(&format!("/api/v1/templates/{}", longest("-t"))), 200);
    expect(client.get(&format!("/api/v1/users/{}", longest("-ann"))), 200);
}
