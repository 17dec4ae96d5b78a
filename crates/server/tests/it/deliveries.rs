//! Notifications leave the house: through the stub, which writes down what arrives, and are followed to their end.

use crate::server::{Directory, Server, run};
use crate::world::{bare, eventually, expect, follow, put_user, refused};
use fantail_rules::limits::RECIPIENTS_MAX;
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A server whose stub keeps its own record of arrivals.
pub struct Post {
    pub directory: Directory,
    pub arrivals: PathBuf,
    faults: PathBuf,
}

impl Post {
    pub fn new() -> Self {
        let directory = Directory::new();
        let arrivals = directory.path("arrivals");
        let faults = directory.path("faults");
        Self { directory, arrivals, faults }
    }

    /// What is wrong with the stub from now on: lines such as `push down`; nothing if there are none.
    pub fn faults(&self, lines: &str) {
        // Put in its place whole, since the server may read at any moment.
        let draft = self.directory.path("faults.draft");
        std::fs::write(&draft, lines).expect("a file");
        std::fs::rename(&draft, &self.faults).expect("the same directory");
    }

    pub fn start(&self, environment: &[(&str, &str)]) -> Server {
        self.try_start(environment).unwrap_or_else(|banner| panic!("the server did not start: {banner:?}"))
    }

    /// Or what the server said before it died.
    pub fn try_start(&self, environment: &[(&str, &str)]) -> Result<Server, Vec<String>> {
        self.try_start_with(&[], environment)
    }

    pub fn try_start_with(&self, args: &[&str], environment: &[(&str, &str)]) -> Result<Server, Vec<String>> {
        let [arrivals, faults] = [&self.arrivals, &self.faults].map(|file| file.to_str().expect("a path"));
        let mut all =
            vec![("FANTAIL_DELIVERY_STUB_ARRIVALS", arrivals), ("FANTAIL_DELIVERY_STUB_FAULTS", faults)];
        all.extend_from_slice(environment);
        Server::try_start_in(&self.directory.path("data"), args, &all)
    }

    /// Everything that arrived, a line each, in its order.
    pub fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.arrivals).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How often each delivery arrived.
    pub fn arrived(&self) -> BTreeMap<String, u64> {
        let mut copies = BTreeMap::new();
        for line in self.lines() {
            let reference = line.split(' ').next().expect("a reference").to_owned();
            *copies.entry(reference).or_insert(0) += 1;
        }
        copies
    }
}

/// Registers a device that answers as its token says, and waits until it can be used.
pub fn register(client: &mut Client, user: &str, device: &str, token: &str) {
    let consent = json!({"granted": true, "version": "1"});
    let body = json!({"userId": user, "deviceId": device, "platform": "android", "token": token, "consent": consent});
    let response = client.post("/api/v1/devices", &body).expect("an answer");
    assert!(matches!(response.status, 200 | 201), "{}", response.text());
    eventually("the device can be used", || {
        let devices = expect(client.get(&format!("/api/v1/devices?userId={user}")), 200);
        let found = devices["devices"].as_array().expect("devices").iter();
        let mut found = found.filter(|one| one["deviceId"] == device);
        found.any(|one| one["status"] == "active").then_some(())
    });
}

pub fn notification(id: &str, users: &[&str], more: Value) -> Value {
    let recipients: Vec<Value> = users.iter().map(|user| json!({"userId": user})).collect();
    let mut body = json!({
        "notificationId": id, "content": {"title": "Hello"}, "recipients": recipients, "channels": ["push"],
    });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

pub fn send(client: &mut Client, body: &Value) -> String {
    let accepted = expect(client.post("/api/v1/notifications", body), 202);
    accepted["eventId"].as_str().expect("an id").to_owned()
}

pub fn status(client: &mut Client, id: &str) -> Value {
    expect(client.get(&format!("/api/v1/notifications/{id}/status?limit=1000")), 200)
}

/// The counts of push once they are these.
pub fn counts(client: &mut Client, id: &str, expected: &Value) -> Value {
    eventually(&format!("{expected}"), || {
        let found = status(client, id);
        (*counts_of(&found, "push") == *expected).then_some(found)
    })
}

/// What a status says about a channel.
pub fn counts_of<'a>(status: &'a Value, channel: &str) -> &'a Value {
    let mut channels = status["channels"].as_array().expect("channels").iter();
    &channels.find(|one| one["channel"] == channel).expect("the channel was asked for")["counts"]
}

/// A counter or gauge, over all its labels that contain this.
pub fn metric(client: &mut Client, name: &str, label: &str) -> u64 {
    let text = client.get("/metrics").expect("an answer").text();
    let lines = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    let values = lines.filter(|line| line.contains(label)).filter_map(|line| line.rsplit(' ').next());
    values.map(|value| value.parse::<u64>().expect("a whole number")).sum()
}

pub fn explain(client: &mut Client, id: &str, user: &str) -> String {
    let told = expect(client.get(&format!("/api/v1/notifications/{id}/explain?user={user}")), 200);
    told["text"].as_str().expect("a text").to_owned()
}

// fixes: usability C7
#[test]
fn a_name_that_would_be_mistaken_for_something_else_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    let in_app = json!({"channels": ["inApp"]});
    let first = send(&mut client, &notification("n1", &["ann"], in_app.clone()));
    for name in ["bulk", &first] {
        let refused = refused(
            client.post("/api/v1/notifications", &notification(name, &["ann"], in_app.clone())),
            "INVALID_REQUEST",
        );
        assert_eq!(refused["errors"][0]["pointer"], "/notificationId", "{name}");
    }
    // A name that only looks like one of our ids is found.
    let name = "01J00000000000000000000000";
    let second = send(&mut client, &notification(name, &["ann"], in_app));
    assert_eq!(status(&mut client, name)["eventId"], *second);
    assert_eq!(status(&mut client, &second)["eventId"], *second);
}

// proves: DEL-01, DEL-15, DED-01, DED-02, API-01, TRK-01, TRK-06, BLK-10
#[test]
fn every_device_gets_it_exactly_once_and_the_story_is_told() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    for user in ["ann", "bob", "cleo"] {
        put_user(&mut client, user);
        register(&mut client, user, "phone", &format!("stub:ok/{user}-phone"));
        register(&mut client, user, "tablet", &format!("stub:ok/{user}-tablet"));
    }
    put_user(&mut client, "dan");
    let body = notification("n1", &["ann", "bob", "cleo", "dan"], json!({"channels": ["push", "inApp"]}));
    let accepted = expect(client.post("/api/v1/notifications", &body), 202);
    assert_eq!((&accepted["recipientCount"], &accepted["status"]), (&json!(4), &json!("accepted")));
    assert_eq!(accepted["notificationId"], "n1");
    let id = accepted["eventId"].as_str().expect("an id");
    let found = counts(&mut client, id, &json!({"sent": 6, "suppressed": 1}));
    assert_eq!(found["channels"].as_array().expect("channels").len(), 2);
    let arrived = post.arrived();
    assert_eq!((arrived.len(), arrived.values().sum::<u64>()), (6, 6), "one arrival for each delivery");
    let told = explain(&mut client, id, "ann");
    assert!(told.contains("the provider took it") && told.contains("delivered"), "{told}");
    let told = explain(&mut client, "n1", "dan");
    assert!(told.contains("suppressed (no_endpoint)"), "by the producer's name: {told}");
    let printed = run(&[
        "explain",
        id,
        "ann",
        "--server",
        &server.address,
        "--data",
        server.data.to_str().expect("a path"),
    ]);
    assert!(printed.contains("the provider took it"), "{printed}");
    let metrics = server.anonymous().get("/metrics").expect("an answer").text();
    assert!(
        metrics.contains("fantail_delivery_attempts_total{channel=\"push\",outcome=\"accepted\"} 6"),
        "{metrics}"
    );
    for line in [
        "fantail_delivery_outcomes_total{channel=\"push\",state=\"sent\",reason=\"none\"} 6",
        "fantail_delivery_outcomes_total{channel=\"push\",state=\"suppressed\",reason=\"no_endpoint\"} 1",
        "fantail_delivery_ambiguous_total{channel=\"push\",resolved=\"resent\"} 0",
        "fantail_delivery_seconds_count{lane=\"normal\"} 6",
        "fantail_delivery_queue{channel=\"push\",lane=\"normal\"} 0",
        "fantail_delivery_oldest_age_seconds{lane=\"normal\"} 0",
        "fantail_delivery_drain_eta_seconds{channel=\"push\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

// proves: API-02, API-03, DED-08
#[test]
fn a_repeat_is_one_notification_and_strangers_are_named() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    let body = notification("n1", &["ann"], json!({}));
    let id = send(&mut client, &body);
    let again = client.post("/api/v1/notifications", &body).expect("an answer");
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json()["eventId"], json!(id));
    let other = notification("n1", &["ann"], json!({"content": {"title": "Other"}}));
    refused(client.post("/api/v1/notifications", &other), "DUPLICATE_NOTIFICATION");
    let problem = refused(
        client.post("/api/v1/notifications", &notification("n2", &["ann", "eve"], json!({}))),
        "INVALID_RECIPIENT",
    );
    assert!(problem["errors"][0]["detail"].as_str().expect("a detail").contains("eve"));
    for wrong in [
        json!({"recipients": []}),
        json!({"channels": ["pigeon"]}),
        json!({"options": {"ttl": 5}}),
        json!({"recipients": [{"userId": "ann"}, {"userId": "ann"}]}),
        json!({"surprise": 1}),
    ] {
        let body = notification("n3", &["ann"], wrong.clone());
        let response = client.post("/api/v1/notifications", &body).expect("an answer");
        assert!(matches!(response.status, 400 | 422), "{wrong}: {}", response.text());
    }
    refused(client.get("/api/v1/notifications/01ARZ3NDEKTSV4RRFFQ69G5FAV/status"), "EVENT_NOT_FOUND");
    refused(client.get(&format!("/api/v1/notifications/{id}/explain?user=eve")), "USER_NOT_FOUND");
}

// proves: FAN-09, DEL-14
#[test]
fn followers_are_reached_in_parcels_and_the_unreachable_are_counted() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    let users: Vec<Value> = (0..60).map(|no| json!({"userId": format!("u{no}")})).collect();
    expect(client.post("/api/v1/users/batch", &json!({"users": users})), 200);
    for no in 0..60 {
        follow(&mut client, &format!("u{no}"), "star");
    }
    for no in 0..20 {
        register(&mut client, &format!("u{no}"), "phone", &format!("stub:ok/{no}"));
    }
    let event = json!({
        "specversion": "1.0", "id": "e1", "source": "/test", "type": "post",
        "data": {"audience": {"followersOf": "star"}, "content": {"title": "Hi"}, "channels": ["push"]},
    });
    let id = crate::world::post(&mut client, &event);
    let found = counts(&mut client, &id, &json!({"sent": 20}));
    assert_eq!(found["channels"][0]["unreached"], 40);
    assert_eq!(post.arrived().values().sum::<u64>(), 20);
    eventually("done", || (status(&mut client, &id)["channels"][0]["done"] == true).then_some(()));
}

// proves: DEL-05, DEL-06, DEL-07, DEL-08, DEL-13, DEV-04, TRK-05
#[test]
fn failures_end_as_they_should() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    for (user, token) in [
        ("again", "stub:fail-first=1"),
        ("dead", "stub:dead"),
        ("poison", "stub:malformed"),
        ("lost", "stub:lost"),
        ("gone", "stub:unwanted"),
    ] {
        put_user(&mut client, user);
        register(&mut client, user, "phone", token);
    }
    let again = send(&mut client, &notification("again", &["again"], json!({})));
    let dead = send(&mut client, &notification("dead", &["dead"], json!({})));
    let poison = send(&mut client, &notification("poison", &["poison"], json!({})));
    let bulk = send(&mut client, &notification("low", &["lost"], json!({"priority": "low"})));
    counts(&mut client, &dead, &json!({"failed": 1}));
    let devices = expect(client.get("/api/v1/devices?userId=dead"), 200);
    assert_eq!(devices["devices"][0]["status"], "dead", "it is not used again: {devices}");
    let later = send(&mut client, &notification("later", &["dead"], json!({})));
    counts(&mut client, &later, &json!({"suppressed": 1}));
    counts(&mut client, &poison, &json!({"dead": 1}));
    let letters = expect(client.get("/api/v1/deadletters"), 200);
    assert_eq!(letters["deadLetters"][0]["userId"], "poison", "{letters}");
    let choice = json!({"eventId": poison, "dryRun": true});
    assert_eq!(expect(client.post("/api/v1/deadletters/redrive", &choice), 200)["count"], 1);
    let choice = json!({"eventId": poison});
    assert_eq!(expect(client.post("/api/v1/deadletters/redrive", &choice), 200)["count"], 1);
    counts(&mut client, &poison, &json!({"dead": 1}));
    eventually("it died again", || {
        let found = status(&mut client, &poison);
        (found["deliveries"][0]["state"] == "dead").then_some(())
    });
    assert_eq!(expect(client.post("/api/v1/deadletters/drop", &choice), 200)["count"], 1);
    counts(&mut client, &poison, &json!({"cancelled": 1}));
    counts(&mut client, &again, &json!({"sent": 1}));
    let told = explain(&mut client, &again, "again");
    assert!(told.contains("not taken, to be tried again") && told.contains("after 1 retry"), "{told}");
    counts(&mut client, &bulk, &json!({"unconfirmed": 1}));
    let told = explain(&mut client, &bulk, "lost");
    assert!(told.contains("perhaps sent, and not sent again"), "{told}");
    let metrics = server.anonymous().get("/metrics").expect("an answer").text();
    let ambiguous = "fantail_delivery_ambiguous_total{channel=\"push\",resolved=\"unconfirmed\"} 1";
    assert!(metrics.contains(ambiguous), "{metrics}");
}

// proves: DEL-19
#[test]
fn a_cancelled_notification_is_not_tried_again() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:503");
    let id = send(&mut client, &notification("n1", &["ann"], json!({})));
    counts(&mut client, &id, &json!({"deferred": 1}));
    let called = expect(bare(&mut client, "POST", &format!("/api/v1/notifications/{id}/cancel")), 200);
    assert_eq!(called, json!({"cancelled": 1, "tooLate": 0, "deliveriesSent": 0, "pending": false}));
    counts(&mut client, &id, &json!({"cancelled": 1}));
    assert!(status(&mut client, &id)["cancelled"] == true);
}

// proves: BLK-10
// fixes: contract 3
#[test]
fn one_recipient_too_many_is_refused_and_the_most_are_told_each_in_words_of_their_own() {
    let server = Server::start();
    let mut client = server.client();
    let names: Vec<String> = (0..=RECIPIENTS_MAX).map(|no| format!("u{no}")).collect();
    let users: Vec<Value> = names.iter().map(|name| json!({"userId": name})).collect();
    for page in users.chunks(250) {
        let done = client.post("/api/v1/users/batch", &json!({"users": page})).expect("an answer");
        assert_eq!(done.status, 200, "{}", done.text());
    }
    let recipients: Vec<Value> = names
        .iter()
        .map(|name| json!({"userId": name, "content": {"title": format!("Hello {name}")}}))
        .collect();
    let send_to = |recipients: &[Value], id: &str| json!({"notificationId": id, "content": {"title": "Hello"}, "recipients": recipients, "channels": ["inApp"]});
    let problem =
        refused(client.post("/api/v1/notifications", &send_to(&recipients, "many")), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/recipients", "{problem}");
    let most = &recipients[..RECIPIENTS_MAX];
    let accepted = expect(client.post("/api/v1/notifications", &send_to(most, "most")), 202);
    assert_eq!(accepted["recipientCount"], json!(RECIPIENTS_MAX));
    let id = accepted["eventId"].as_str().expect("an id");
    for name in ["u0", "u999"] {
        let path = format!("/api/v1/users/{name}/notifications/{id}");
        let shown = eventually("it is in the inbox", || {
            client.get(&path).ok().filter(|response| response.status == 200).map(|response| response.json())
        });
        assert_eq!(shown["content"]["title"], json!(format!("Hello {name}")));
    }
    assert_eq!(status(&mut client, id)["deliveries"].as_array().map(Vec::len), Some(RECIPIENTS_MAX));
}
