//! Webhooks to the producer: a receiver in this process checks every signature, fails when the test says so, and counts
//! what it was told under which id.

use crate::deliveries::{Post, explain, notification, register, send, status};
use crate::server::Server;
use crate::world::{
    ALL_SCOPES, bare, event, eventually, expect, follow, in_ms, post, put_user, refused, tenant_with_key,
};
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use fantail_local::store::{LocalStore, StoreOptions};
use fantail_ports::store::Store;
use fantail_ports::tables::{KeyRange, Order};
use fantail_rules::ids::Millis;
use fantail_rules::limits::WEBHOOKS_PER_TENANT_MAX;
use fantail_rules::wall::utc_text;
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Loopback is private, and the receiver speaks plain http at a port of its own: one setting allows both.
fn open(receiver: &Receiver) -> Vec<(&str, &str)> {
    vec![("FANTAIL_OUTBOUND_ALLOW", &receiver.target)]
}

#[derive(Default)]
struct Heard {
    /// What signatures are checked with, once it is known: `whsec_…` or `whpk_…`.
    secret: Mutex<String>,
    is_failing: AtomicBool,
    requests: AtomicU64,
    /// What was said under each id, and how often.
    told: Mutex<BTreeMap<String, (Value, u64)>>,
}

pub struct Receiver {
    url: String,
    /// As the operator lists it.
    pub target: String,
    heard: Arc<Heard>,
}

impl Receiver {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let (url, target) = (format!("http://{address}/hooks"), address.to_string());
        let heard: Arc<Heard> = Arc::default();
        let shared = heard.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let heard = shared.clone();
                thread::spawn(move || while heard.serve(&stream).is_some() {});
            }
        });
        Self { url, target, heard }
    }

    /// Makes a webhook that it trusts.
    pub fn hook(&self, client: &mut Client) {
        hook(client, self, &[]);
    }

    /// How many requests came, also such as were refused.
    pub fn requests(&self) -> u64 {
        self.heard.requests.load(Ordering::SeqCst)
    }

    pub fn forget(&self) {
        self.heard.requests.store(0, Ordering::SeqCst);
        self.heard.told.lock().expect("a lock").clear();
    }

    fn trust(&self, secret: &str) {
        *self.heard.secret.lock().expect("a lock") = secret.to_owned();
    }

    fn fail(&self, is_failing: bool) {
        self.heard.is_failing.store(is_failing, Ordering::SeqCst);
    }

    fn told(&self) -> BTreeMap<String, (Value, u64)> {
        self.heard.told.lock().expect("a lock").clone()
    }

    /// The types of all messages, each with the users that they are about.
    pub fn types(&self) -> Vec<String> {
        let told = self.told();
        let mut types: Vec<String> = told
            .values()
            .map(|(body, _)| {
                let user = body["data"]["userId"].as_str().unwrap_or("all");
                format!("{} {user}", body["type"].as_str().expect("a type"))
            })
            .collect();
        types.sort();
        types
    }
}

impl Heard {
    /// One request; `None` when the connection is over.
    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let (mut headers, mut line) = (BTreeMap::new(), String::new());
        loop {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.to_owned()),
                None if line.trim_end().is_empty() => break,
                None => None,
            };
        }
        let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        self.requests.fetch_add(1, Ordering::SeqCst);
        let id = headers.get("webhook-id").expect("an id").clone();
        self.check(&headers, &id, &body);
        let status = if self.is_failing.load(Ordering::SeqCst) {
            "500 Internal Server Error"
        } else {
            let body = serde_json::from_slice(&body).expect("JSON");
            self.told.lock().expect("a lock").entry(id).or_insert((body, 0)).1 += 1;
            "204 No Content"
        };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        (&*stream).write_all(answer.as_bytes()).ok()
    }

    /// As Standard Webhooks says: one of the signatures is by what we trust.
    fn check(&self, headers: &BTreeMap<String, String>, id: &str, body: &[u8]) {
        let signed = [id.as_bytes(), b".", headers["webhook-timestamp"].as_bytes(), b".", body].concat();
        let secret = self.secret.lock().expect("a lock").clone();
        let (kind, key) = secret.split_once('_').expect("a prefix");
        let fits = |signature: &str| match (kind, signature.split_once(',')) {
            ("whsec", Some(("v1", signature))) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, &base64(key));
                hmac::verify(&key, &signed, &base64(signature)).is_ok()
            }
            ("whpk", Some(("v1a", signature))) => {
                let key = UnparsedPublicKey::new(&ED25519, base64(key));
                key.verify(&signed, &base64(signature)).is_ok()
            }
            _ => false,
        };
        let signatures = &headers["webhook-signature"];
        assert!(signatures.split(' ').any(fits), "no signature by what we trust");
    }
}

fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> = text
        .bytes()
        .filter(|byte| *byte != b'=')
        .map(|byte| ALPHABET.iter().position(|known| *known == byte).expect("base64") as u32)
        .collect();
    let mut bytes = Vec::new();
    for chunk in digits.chunks(4) {
        let word = (0..4).fold(0, |word, at| word << 6 | chunk.get(at).copied().unwrap_or(0));
        bytes.extend(&word.to_be_bytes()[1..chunk.len()]);
    }
    bytes
}

/// Makes a webhook that the receiver trusts; gives its id.
fn hook(client: &mut Client, receiver: &Receiver, events: &[&str]) -> String {
    let made = expect(client.post("/api/v1/webhooks", &json!({"url": receiver.url, "events": events})), 201);
    receiver.trust(made["secret"].as_str().expect("a secret"));
    made["webhook"]["webhookId"].as_str().expect("an id").to_owned()
}

fn listed(client: &mut Client) -> Value {
    expect(client.get("/api/v1/webhooks"), 200)["webhooks"][0].clone()
}

// proves: API-06, WHK-01
#[test]
fn each_recipient_is_told_once_and_again_under_the_same_id_when_replayed() {
    let (house, receiver) = (Post::new(), Receiver::start());
    let server = house.start(&open(&receiver));
    let mut client = server.client();
    for user in ["ann", "bob", "zoe"] {
        put_user(&mut client, user);
    }
    register(&mut client, "bob", "phone", "stub:ok");
    register(&mut client, "ann", "phone", "stub:unwanted");
    let before = send(&mut client, &notification("before", &["bob"], json!({})));
    eventually("it is done", || (status(&mut client, &before)["channels"][0]["done"] == true).then_some(()));
    let id = hook(&mut client, &receiver, &[]);
    assert_eq!(listed(&mut client)["enabled"], true);
    assert!(listed(&mut client).get("secret").is_none(), "it was shown once");
    // It fails at first, and the same is told again after a rest.
    receiver.fail(true);
    send(&mut client, &notification("n1", &["ann", "bob", "zoe"], json!({"channels": ["push", "inApp"]})));
    eventually("it was tried", || (receiver.heard.requests.load(Ordering::SeqCst) > 0).then_some(()));
    receiver.fail(false);
    let expected = [
        "notification.delivered ann",
        "notification.delivered bob",
        "notification.delivered zoe",
        "notification.failed ann",
        "notification.sent bob",
        "notification.suppressed zoe",
    ];
    eventually("everybody is told of", || (receiver.types().len() >= 6).then_some(()));
    assert_eq!(receiver.types(), expected, "and nothing of what was before");
    assert!(receiver.told().values().all(|(body, _)| body["data"]["notificationId"] == "n1"));
    // A crash repeats at most what was not written down, under ids that are known.
    server.kill();
    let server = house.start(&open(&receiver));
    let mut client = server.client();
    let ids: Vec<String> = receiver.told().into_keys().collect();
    let before = receiver.heard.requests.load(Ordering::SeqCst);
    let path = format!("/api/v1/webhooks/{id}/replay");
    expect(client.post(&path, &json!({"since": "2020-01-01T00:00:00Z"})), 204);
    eventually("everything is told again", || {
        let told = receiver.told();
        (ids.iter().all(|id| told[id].1 >= 2) && told.len() > ids.len()).then_some(())
    });
    assert!(receiver.heard.requests.load(Ordering::SeqCst) > before);
    assert!(
        receiver.types().contains(&"notification.sent bob".to_owned()),
        "also what was before the webhook"
    );
    refused(client.post(&path, &json!({"since": "yesterday"})), "INVALID_REQUEST");
    expect(bare(&mut client, "DELETE", &format!("/api/v1/webhooks/{id}")), 204);
    refused(bare(&mut client, "DELETE", &format!("/api/v1/webhooks/{id}")), "WEBHOOK_NOT_FOUND");
    refused(client.post(&path, &json!({"since": "2020-01-01T00:00:00Z"})), "WEBHOOK_NOT_FOUND");
}

// fixes: usability §3.19
#[test]
fn a_users_webhook_says_whose_and_of_what_it_is() {
    let (house, receiver) = (Post::new(), Receiver::start());
    let server = house.start(&open(&receiver));
    let mut client = server.client();
    put_user(&mut client, "ann");
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    receiver.trust(secret);
    let hook = json!({"userId": "ann", "deviceId": "hook", "kind": "webhook", "url": receiver.url, "secret": secret});
    expect(client.post("/api/v1/devices", &hook), 201);
    let by_webhook = |more: Value| {
        let mut body = json!({"channels": ["webhook"], "category": "orders"});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let sent = send(&mut client, &notification("w-1", &["ann"], by_webhook(json!({}))));
    let secretly = json!({"options": {"sensitive": true}});
    let sensitive = send(&mut client, &notification("w-2", &["ann"], by_webhook(secretly)));
    eventually("both arrived", || (receiver.told().len() >= 2).then_some(()));
    let told = receiver.told();
    let of = |id: &str| {
        told.values().map(|(body, _)| body).find(|body| body["eventId"] == *id).expect("it arrived")
    };
    let expected = json!({"title": "Hello", "eventId": sent, "notificationId": "w-1", "userId": "ann", "category": "orders"});
    assert_eq!(*of(&sent), expected);
    let shown = of(&sensitive);
    assert_eq!(
        (&shown["userId"], &shown["notificationId"], &shown["category"]),
        (&json!("ann"), &Value::Null, &Value::Null)
    );
}

/// All webhooks that a tenant may have go to a receiver that never answers. Another tenant hears of all its notifications.
#[test]
fn a_receiver_that_hangs_delays_no_other_tenants_webhook() {
    const EACH: usize = 40;
    let hanging = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = hanging.local_addr().expect("a bound port");
    thread::spawn(move || hanging.incoming().collect::<Vec<_>>());
    let (house, receiver) = (Post::new(), Receiver::start());
    let targets = format!("{},{address}", receiver.target);
    let server = house.start(&[("FANTAIL_OUTBOUND_ALLOW", &targets)]);
    let (mut loud, mut admin) = (server.client(), server.admin());
    let mut quiet = server.with_key(&tenant_with_key(&mut admin, "quiet", ALL_SCOPES));
    for no in 0..WEBHOOKS_PER_TENANT_MAX {
        let hook = json!({"url": format!("http://{address}/hooks/{no}")});
        expect(loud.post("/api/v1/webhooks", &hook), 201);
    }
    hook(&mut quiet, &receiver, &[]);
    put_user(&mut loud, "ann");
    put_user(&mut quiet, "ann");
    for no in 0..EACH {
        send(&mut loud, &notification(&format!("loud-{no}"), &["ann"], json!({"channels": ["inApp"]})));
    }
    for no in 0..EACH {
        send(&mut quiet, &notification(&format!("quiet-{no}"), &["ann"], json!({"channels": ["inApp"]})));
    }
    eventually("all of the other tenant is told", || (receiver.told().len() >= EACH).then_some(()));
    assert_eq!(receiver.types(), vec!["notification.delivered ann"; EACH]);
}

// proves: API-06
// fixes: correctness A13, torture 4, interop small
#[test]
fn an_inbox_entry_that_is_hidden_is_told_as_suppressed() {
    let (house, receiver) = (Post::new(), Receiver::start());
    let server = house.start(&open(&receiver));
    let mut client = server.client();
    ["ann", "bob"].iter().for_each(|user| put_user(&mut client, user));
    let off = json!({"channels": {"inApp": {"enabled": false}}});
    expect(client.json("PATCH", "/api/v1/users/ann/preferences", &off), 200);
    hook(&mut client, &receiver, &[]);
    let sent = send(&mut client, &notification("n1", &["ann", "bob"], json!({"channels": ["inApp"]})));
    eventually("both are told of", || (receiver.types().len() >= 2).then_some(()));
    assert_eq!(receiver.types(), ["notification.delivered bob", "notification.suppressed ann"]);
    for (body, _) in receiver.told().values() {
        let (user, state) = (&body["data"]["userId"], &body["data"]["state"]);
        let listed = status(&mut client, &sent)["deliveries"].clone();
        let listed = listed.as_array().expect("deliveries").iter().find(|one| one["userId"] == *user);
        let listed = listed.map(|one| (&one["state"], one["code"].as_str().unwrap_or_default()));
        assert_eq!(listed, Some((state, body["data"]["code"].as_str().expect("a code"))));
        let at = Millis(body["timestamp"].as_u64().expect("a number"));
        assert_eq!(body["time"], utc_text(at));
    }
}

// fixes: usability B5
#[test]
fn what_is_called_off_is_shown_and_told_at_once() {
    let (house, receiver) = (Post::new(), Receiver::start());
    let server = house.start(&open(&receiver));
    let mut client = server.client();
    for user in ["ann", "bob"] {
        put_user(&mut client, user);
        register(&mut client, user, "phone", &format!("stub:ok/{user}"));
    }
    let always =
        json!({"quietHours": {"enabled": true, "start": "12:00", "end": "12:00", "timezone": "UTC"}});
    expect(client.json("PATCH", "/api/v1/users/bob/preferences", &always), 200);
    hook(&mut client, &receiver, &["notification.cancelled"]);
    let call_off = |client: &mut Client, id: &str| {
        expect(bare(client, "POST", &format!("/api/v1/notifications/{id}/cancel")), 200)
    };
    let said = |cancelled, too_late, sent| json!({"cancelled": cancelled, "tooLate": too_late, "deliveriesSent": sent, "pending": false});

    // What waits for quiet hours.
    let waits = send(&mut client, &notification("waits", &["ann", "bob"], json!({})));
    eventually("one is sent and one waits", || {
        let counts = status(&mut client, &waits)["channels"][0]["counts"].clone();
        (counts == json!({"sent": 1, "deferred": 1})).then_some(())
    });
    assert_eq!(call_off(&mut client, &waits), said(1, 0, 1));
    let found = status(&mut client, &waits);
    assert_eq!(found["channels"][0]["counts"], json!({"sent": 1, "cancelled": 1}), "at once: {found}");
    assert_eq!((&found["status"], &found["cancelled"]), (&json!("done"), &json!(true)));
    let text = explain(&mut client, &waits, "bob");
    assert!(text.contains("push, endpoint 1: called off"), "{text}");

    // What is scheduled.
    let later = json!({"options": {"scheduledAt": in_ms(3_600_000)}});
    let held = send(&mut client, &notification("held", &["ann", "bob"], later));
    assert_eq!(call_off(&mut client, &held), said(1, 0, 0));
    let found = status(&mut client, &held);
    assert_eq!(found["channels"][0]["counts"], json!({"cancelled": 2}), "{found}");
    assert_eq!((&found["status"], &found["cancelled"]), (&json!("done"), &json!(true)));
    assert_eq!(found["deliveries"].as_array().map(Vec::len), Some(2));
    let told = explain(&mut client, &held, "ann");
    assert!(told.contains("cancelled: what was not sent stays unsent"), "{told}");

    // What was sent.
    let sent = send(&mut client, &notification("sent", &["ann"], json!({})));
    eventually("it is sent", || (status(&mut client, &sent)["status"] == "done").then_some(()));
    assert_eq!(call_off(&mut client, &sent), said(0, 1, 1));
    assert_eq!(status(&mut client, &sent)["cancelled"], false);

    let expected = ["notification.cancelled ann", "notification.cancelled bob", "notification.cancelled bob"];
    eventually("everybody is told of", || (receiver.types().len() >= 3).then_some(()));
    assert_eq!(receiver.types(), expected);
    server.stop();
}

/// Whoever checks with the old secret goes on, whoever changed goes on too; then only the new one signs.
// proves: WHK-01
// fixes: usability B2
#[test]
fn a_secret_is_replaced_without_a_message_lost() {
    let (house, receiver) = (Post::new(), Receiver::start());
    let server = house.start(&open(&receiver));
    let mut client = server.client();
    put_user(&mut client, "bob");
    register(&mut client, "bob", "phone", "stub:ok");
    let id = hook(&mut client, &receiver, &["notification.sent"]);
    let path = format!("/api/v1/webhooks/{id}/rotate");
    let told = |client: &mut Client, name: &str, count: usize| {
        send(client, &notification(name, &["bob"], json!({})));
        eventually(name, || (receiver.told().len() == count).then_some(()));
    };
    told(&mut client, "first", 1);
    let first = receiver.heard.secret.lock().expect("a lock").clone();
    let rotated = expect(client.post(&path, &json!({})), 200);
    assert_eq!(rotated["webhook"]["webhookId"], *id);
    told(&mut client, "checked with the old one", 2);
    receiver.trust(rotated["secret"].as_str().expect("a secret"));
    told(&mut client, "checked with the new one", 3);
    receiver.trust(&first);
    let again = expect(client.post(&path, &json!({})), 200);
    told(&mut client, "checked with the first one after a second rotation", 4);
    receiver.trust(again["secret"].as_str().expect("a secret"));
    told(&mut client, "checked with the newest one", 5);
    expect(client.post(&path, &json!({})), 200);
    refused(client.post(&path, &json!({})), "LIMIT_REACHED");
    let rotated = expect(client.post(&path, &json!({"signature": "public", "keepSeconds": 0})), 200);
    let public = rotated["secret"].as_str().expect("a key");
    assert!(public.starts_with("whpk_"), "{public}");
    receiver.trust(public);
    told(&mut client, "signed with a key of ours", 6);
    refused(client.post(&path, &json!({"keepSeconds": 2_592_001})), "INVALID_REQUEST");
    refused(client.post("/api/v1/webhooks/wh_0/rotate", &json!({})), "WEBHOOK_NOT_FOUND");
}

// proves: API-06
// fixes: torture 9
#[test]
fn lists_are_told_in_sums_and_only_what_was_asked_for() {
    let (house, receiver) = (Post::new(), Receiver::start());
    let server = house.start(&open(&receiver));
    let mut client = server.client();
    let id = hook(&mut client, &receiver, &["notification.summary"]);
    for user in ["ann", "bob", "zoe"] {
        put_user(&mut client, user);
        follow(&mut client, user, "star");
    }
    register(&mut client, "bob", "phone", "stub:ok");
    let mut posted = event("e1", &json!({"followersOf": "star"}));
    posted["data"]["channels"] = json!(["push"]);
    let posted = post(&mut client, &posted);
    let name = format!("{id}-{posted}-summary-");
    let summaries = || -> Vec<(String, (Value, u64))> {
        receiver.told().into_iter().filter(|(id, _)| id.starts_with(&name)).collect()
    };
    let (first, (summary, _)) = eventually("the summary is told", || summaries().pop());
    assert_eq!(summary["type"], "notification.summary");
    assert_eq!(summary["data"]["channels"][0]["counts"], json!({"sent": 1}));
    assert_eq!(summary["data"]["channels"][0]["unreached"], 2);
    let results = expect(client.get(summary["data"]["results"].as_str().expect("a path")), 200);
    assert_eq!(results["deliveries"][0]["userId"], "bob");
    // Before another message arrives.
    let reference = house.arrived().into_keys().next().expect("a message");
    send(&mut client, &notification("n1", &["bob"], json!({})));
    assert_eq!(receiver.types(), ["notification.summary all"]);
    // Told again, the same sums have the same id, and others another one.
    let replay = json!({"since": "2020-01-01T00:00:00Z"});
    expect(client.post(&format!("/api/v1/webhooks/{id}/replay"), &replay), 204);
    eventually("the same sums are told again", || (receiver.told()[&first].1 >= 2).then_some(()));
    assert_eq!(summaries().len(), 1);
    let receipts = json!({"receipts": [{"reference": reference, "status": "delivered"}]});
    assert_eq!(expect(client.post("/api/v1/receipts", &receipts), 200)["changed"], 1);
    expect(client.post(&format!("/api/v1/webhooks/{id}/replay"), &replay), 204);
    let others = || summaries().into_iter().find(|(id, _)| *id != first);
    let (_, (summary, _)) = eventually("the changed sums are told", others);
    assert_eq!(summary["data"]["channels"][0]["counts"], json!({"delivered": 1}));
    for bad in [json!({"url": "nowhere"}), json!({"url": receiver.url, "events": ["notification.read"]})] {
        refused(client.post("/api/v1/webhooks", &bad), "INVALID_REQUEST");
    }
}

// proves: API-06, WHK-01
#[test]
fn a_receiver_that_fails_for_too_long_is_switched_off_until_it_is_enabled() {
    let receiver = Receiver::start();
    let mut patience = open(&receiver);
    patience.push(("FANTAIL_WEBHOOK_DISABLE_AFTER_S", "1"));
    let server = Server::start_with(&[], &patience);
    let mut client = server.client();
    put_user(&mut client, "bob");
    let id = hook(&mut client, &receiver, &[]);
    receiver.fail(true);
    send(&mut client, &notification("n1", &["bob"], json!({"channels": ["inApp"]})));
    let off = eventually("it is switched off", || {
        let found = listed(&mut client);
        (found["enabled"] == false).then_some(found)
    });
    assert_eq!(off["disabledReason"], "500", "{off}");
    assert!(off["disabledAt"].is_string());
    receiver.fail(false);
    let on = expect(bare(&mut client, "POST", &format!("/api/v1/webhooks/{id}/enable")), 200);
    assert_eq!(on["enabled"], true);
    eventually("it goes on where it stopped", || {
        (receiver.types() == ["notification.delivered bob"]).then_some(())
    });
}

/// What an operator no longer allows is not connected to, and the tenant sees why.
// fixes: usability B6, usability 3.8
#[test]
fn a_webhook_that_is_forbidden_says_so_to_its_tenant() {
    let (house, receiver) = (Post::new(), Receiver::start());
    let server = house.start(&open(&receiver));
    let mut client = server.client();
    put_user(&mut client, "bob");
    hook(&mut client, &receiver, &[]);
    let quiet = listed(&mut client);
    assert!(quiet["failingSince"].is_null() && quiet["lastError"].is_null(), "{quiet}");
    server.stop();
    let server = house.start(&[]);
    let mut client = server.client();
    send(&mut client, &notification("n1", &["bob"], json!({"channels": ["inApp"]})));
    let failing = eventually("it fails", || {
        let found = listed(&mut client);
        (found["lastError"] == "forbidden").then_some(found)
    });
    let detail = failing["lastErrorDetail"].as_str().expect("why");
    let setting = format!("outbound.allow = \"{}\"", receiver.target);
    assert!(detail.contains(&setting), "{detail}");
    for field in ["failingSince", "lastAttemptAt", "nextAttemptAt"] {
        assert!(failing[field].is_string(), "{field} in {failing}");
    }
    assert_eq!(failing["enabled"], true);
    let metrics = server.anonymous().get("/metrics").expect("an answer").text();
    assert!(metrics.contains("fantail_webhook_failures_total{reason=\"forbidden\"}"), "{metrics}");
    assert_eq!(receiver.heard.requests.load(Ordering::SeqCst), 0);
    server.stop();
    // The setting that the refusal named is enough.
    let server = house.start(&[("FANTAIL_OUTBOUND_ALLOW", detail.split('"').nth(1).expect("a value"))]);
    let mut client = server.client();
    eventually("it is told", || (receiver.types() == ["notification.delivered bob"]).then_some(()));
    let well = eventually("it is known to work", || {
        let found = listed(&mut client);
        found["failingSince"].is_null().then_some(found)
    });
    assert!(well["lastError"].is_null() && well["nextAttemptAt"].is_null(), "{well}");
}

/// A URL that no name resolution could make allowed is not taken, of producers and of users.
// fixes: usability B6
#[test]
fn webhooks_that_can_never_work_are_refused_when_they_are_made() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    for (url, reason) in [
        ("http://127.0.0.1:9/x", "outbound.allow = \"127.0.0.1:9\""),
        ("https://localhost/x", "outbound.allow = \"localhost:443\""),
        ("https://[::1]/", "outbound.allow = \"[::1]:443\""),
        ("https://10.0.0.1:8443/", "outbound.allow = \"10.0.0.1:8443\""),
        ("https://169.254.169.254/", "no setting allows"),
        ("https://[::ffff:169.254.169.254]/", "no setting allows"),
        ("http://example.com/hooks", "outbound.allow = \"example.com:80\""),
        ("https://example.com:22/hooks", "outbound.allow = \"example.com:22\""),
        ("https://receiver/hooks", "outbound.allow = \"receiver:443\""),
        ("https://0x7f.1/hooks", "host"),
    ] {
        let device =
            json!({"userId": "bob", "deviceId": "hook", "kind": "webhook", "url": url, "secret": secret});
        for (path, body) in [("/api/v1/webhooks", json!({"url": url})), ("/api/v1/devices", device)] {
            let problem = refused(client.post(path, &body), "INVALID_REQUEST");
            let error = &problem["errors"][0];
            assert_eq!(error["pointer"], "/url", "{path} {url}: {problem}");
            assert!(
                error["detail"].as_str().is_some_and(|detail| detail.contains(reason)),
                "{url}: {problem}"
            );
        }
    }
    expect(client.post("/api/v1/webhooks", &json!({"url": "https://example.com:8443/hooks"})), 201);
}

// proves: API-06, WHK-01
#[test]
fn a_receiver_that_fails_is_not_forgiven_because_the_server_was_killed() {
    let (house, receiver) = (Post::new(), Receiver::start());
    let environment = open(&receiver);
    let server = house.start(&environment);
    let mut client = server.client();
    put_user(&mut client, "bob");
    hook(&mut client, &receiver, &[]);
    receiver.fail(true);
    send(&mut client, &notification("n1", &["bob"], json!({"channels": ["inApp"]})));
    // The second attempt comes two seconds after the first.
    eventually("it has failed twice", || (receiver.heard.requests.load(Ordering::SeqCst) == 2).then_some(()));
    server.kill();
    let impatient = [&environment[..], &[("FANTAIL_WEBHOOK_DISABLE_AFTER_S", "1")]].concat();
    let server = house.start(&impatient);
    let off = eventually("it is switched off", || {
        let found = listed(&mut server.client());
        (found["enabled"] == false).then_some(found)
    });
    assert_eq!(off["disabledReason"], "500", "{off}");
    assert_eq!(receiver.heard.requests.load(Ordering::SeqCst), 3, "once more, and that was enough");
}

/// The family of the places, and where a webhook's id begins in such a key: behind it and the tenant.
const PLACES: u8 = 60;
const ID: usize = 5;

/// Webhooks that the shards of a server that is stopped know the place of.
fn places(data: &Path) -> BTreeSet<String> {
    let store = LocalStore::open(StoreOptions::new(data.join("tables"))).expect("nobody uses it");
    let mut found = BTreeSet::new();
    for partition in store.marks().into_keys() {
        let range = KeyRange { from: &[PLACES], to: &[PLACES + 1] };
        let read = store.read(partition, &mut |view| {
            let visit = &mut |key: &[u8], _: &[u8]| {
                found.insert(String::from_utf8(key[ID..].to_vec()).expect("an id"));
                ControlFlow::Continue(())
            };
            view.tables().scan(range, Order::Ascending, visit).expect("rows");
        });
        read.expect("a state");
    }
    found
}

#[test]
fn nothing_is_left_of_a_webhook_that_was_deleted() {
    let (house, first, second) = (Post::new(), Receiver::start(), Receiver::start());
    let targets = format!("{}, {}", first.target, second.target);
    let server = house.start(&[("FANTAIL_OUTBOUND_ALLOW", &targets)]);
    let mut client = server.client();
    put_user(&mut client, "bob");
    let has_told = |receiver: &Receiver| (!receiver.told().is_empty()).then_some(());
    let gone = hook(&mut client, &first, &[]);
    send(&mut client, &notification("n1", &["bob"], json!({"channels": ["inApp"]})));
    eventually("the first one tells", || has_told(&first));
    let path = format!("/api/v1/webhooks/{gone}");
    assert_eq!(bare(&mut client, "DELETE", &path).expect("an answer").status, 204);
    // Whoever is gone is forgotten before another one begins.
    let kept = hook(&mut client, &second, &[]);
    send(&mut client, &notification("n2", &["bob"], json!({"channels": ["inApp"]})));
    eventually("the second one tells", || has_told(&second));
    server.stop();
    assert_eq!(places(&house.directory.path("data")), BTreeSet::from([kept]));
}

// proves: API-06
// fixes: contract 3
#[test]
fn followers_are_told_of_in_sums_while_some_of_them_wait() {
    let (house, receiver) = (Post::new(), Receiver::start());
    let server = house.start(&open(&receiver));
    let mut client = server.client();
    for user in ["ann", "bob"] {
        put_user(&mut client, user);
        register(&mut client, user, "phone", &format!("stub:ok/{user}"));
        follow(&mut client, user, "zoe");
    }
    let always =
        json!({"quietHours": {"enabled": true, "start": "12:00", "end": "12:00", "timezone": "UTC"}});
    expect(client.json("PATCH", "/api/v1/users/bob/preferences", &always), 200);
    hook(&mut client, &receiver, &["notification.progress", "notification.summary"]);
    let mut posted = event("1", &json!({"followersOf": "zoe"}));
    (posted["actor"], posted["data"]["channels"]) = (json!("zoe"), json!(["push"]));
    let id = post(&mut client, &posted);
    let sums = |kind: &str, counts: &Value| {
        let told = receiver.told();
        let mut bodies = told.values().map(|(body, _)| body);
        bodies.any(|body| {
            let data = &body["data"];
            let channel = &data["channels"][0];
            body["type"] == kind
                && data["eventId"] == *id
                && channel["channel"] == "push"
                && channel["counts"] == *counts
                && channel["done"] == (kind == "notification.summary")
        })
    };
    eventually("its progress is told", || {
        sums("notification.progress", &json!({"sent": 1, "deferred": 1})).then_some(())
    });
    assert!(!sums("notification.summary", &json!({"sent": 1, "deferred": 1})), "it is not over");
    expect(client.json("PATCH", "/api/v1/users/bob/preferences", &json!({"quietHours": null})), 200);
    eventually("its end is told", || sums("notification.summary", &json!({"sent": 2})).then_some(()));
}
