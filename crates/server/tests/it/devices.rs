//! Devices, the addresses of profiles, and what may not be sent to.

use crate::deliveries::{self, Post, counts_of, notification, send};
use crate::server::Server;
use crate::world::{ALL_SCOPES, bare, eventually, expect, key_of, put_user, refused, tenant_with_key};
use fantail_server::client::Client;
use serde_json::{Value, json};

fn phone(user: &str, device: &str, token: &str) -> Value {
    json!({"userId": user, "deviceId": device, "platform": "android", "token": token})
}

fn register(client: &mut Client, body: &Value) -> Value {
    let response = client.post("/api/v1/devices", body).expect("an answer");
    assert!(matches!(response.status, 200 | 201), "{}", response.text());
    response.json()
}

fn devices(client: &mut Client, user: &str) -> Vec<Value> {
    let answer = expect(client.get(&format!("/api/v1/devices?userId={user}")), 200);
    answer["devices"].as_array().expect("devices").clone()
}

fn status(client: &mut Client, user: &str, device: &str) -> Option<String> {
    let found = devices(client, user).into_iter().find(|one| one["deviceId"] == device)?;
    found["status"].as_str().map(str::to_owned)
}

fn eventually_is(client: &mut Client, user: &str, device: &str, wanted: &str) {
    eventually(&format!("{device} of {user} is {wanted}"), || {
        (status(client, user, device).as_deref() == Some(wanted)).then_some(())
    });
}

/// How each channel of a user stands.
fn channels(client: &mut Client, user: &str) -> Vec<(String, String)> {
    let user = expect(client.get(&format!("/api/v1/users/{user}")), 200);
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let channels = user["channels"].as_array().expect("channels").iter();
    channels.map(|one| (text(&one["channel"]), text(&one["status"]))).collect()
}

fn eventually_reached(client: &mut Client, user: &str, wanted: &[(&str, &str)]) {
    let wanted: Vec<_> = wanted.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    eventually(&format!("{user} has {wanted:?}"), || (channels(client, user) == wanted).then_some(()));
}

// proves: DEV-01, DEV-02, API-04
#[test]
fn a_device_is_registered_refreshed_and_forgotten() {
    let server = Server::start();
    let mut client = server.client();
    refused(client.post("/api/v1/devices", &phone("bob", "phone", "stub:1")), "USER_NOT_FOUND");
    put_user(&mut client, "bob");
    let mut body = phone("bob", "phone", "stub:1");
    body["appVersion"] = json!("4.2.0");
    let made = expect(client.post("/api/v1/devices", &body), 201);
    assert_eq!(made["deviceId"], "phone");
    eventually_is(&mut client, "bob", "phone", "active");
    let shown = devices(&mut client, "bob").remove(0);
    assert_eq!((&shown["kind"], &shown["platform"]), (&json!("push"), &json!("android")));
    assert_eq!(shown["appVersion"], "4.2.0");
    assert!(!shown.to_string().contains("stub:1"), "tokens are not shown again");
    assert_eq!(expect(client.post("/api/v1/devices", &body), 200)["status"], "active");
    assert_eq!(devices(&mut client, "bob").remove(0), shown, "a refresh within seven days changes nothing");
    body["appVersion"] = json!("4.3.0");
    expect(client.post("/api/v1/devices", &body), 200);
    assert_eq!(devices(&mut client, "bob")[0]["appVersion"], "4.3.0");
    expect(client.post("/api/v1/devices", &phone("bob", "phone", "stub:2")), 200);
    eventually_is(&mut client, "bob", "phone", "active");
    assert_eq!(devices(&mut client, "bob").len(), 1, "a new token retires the old");
    let mut hook =
        json!({"userId": "bob", "deviceId": "hook", "kind": "webhook", "url": "https://example.com/b"});
    let problem = refused(client.post("/api/v1/devices", &hook), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/secret", "it could never be called");
    hook["secret"] = json!("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    assert_eq!(expect(client.post("/api/v1/devices", &hook), 201)["deviceId"], "hook");
    eventually_reached(&mut client, "bob", &[("push", "active"), ("webhook", "active")]);
    expect(bare(&mut client, "DELETE", "/api/v1/devices/bob/phone"), 204);
    refused(bare(&mut client, "DELETE", "/api/v1/devices/bob/phone"), "DEVICE_NOT_FOUND");
    refused(bare(&mut client, "DELETE", "/api/v1/devices/ann/phone"), "USER_NOT_FOUND");
    assert_eq!(status(&mut client, "bob", "phone"), None);
}

#[test]
fn registrations_that_make_no_sense_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    let check = |client: &mut Client, body: Value, pointer: &str| {
        let problem = refused(client.post("/api/v1/devices", &body), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    };
    check(&mut client, json!({"userId": "bob", "deviceId": "d"}), "/token");
    check(&mut client, phone("bob", "d", "a\nb"), "/token");
    check(&mut client, phone("bob", "", "t"), "/deviceId");
    check(&mut client, json!({"userId": "bob", "deviceId": "d", "token": "t"}), "/platform");
    check(
        &mut client,
        json!({"userId": "bob", "deviceId": "d", "kind": "webhook", "url": "nowhere"}),
        "/url",
    );
    check(&mut client, json!({"userId": "bob", "deviceId": "d", "kind": "fax"}), "/kind");
    refused(client.get("/api/v1/devices"), "INVALID_REQUEST");
    for no in 0..20 {
        register(&mut client, &phone("bob", &format!("d{no}"), &format!("stub:{no}")));
    }
    eventually_is(&mut client, "bob", "d19", "active");
    refused(client.post("/api/v1/devices", &phone("bob", "d20", "stub:20")), "LIMIT_REACHED");
}

// proves: DEV-03
/// A phone is handed round: users of all shards register its token, one after the other, and some at the same time.
#[test]
fn a_token_is_one_users_at_a_time() {
    let server = Server::start();
    let mut client = server.client();
    let users: Vec<String> = (0..12).map(|no| format!("u{no}")).collect();
    users.iter().for_each(|user| put_user(&mut client, user));
    for (no, user) in users.iter().enumerate() {
        register(&mut client, &phone(user, "phone", "stub:shared"));
        eventually_is(&mut client, user, "phone", "active");
        for other in &users[..no] {
            assert_eq!(status(&mut client, other, "phone").as_deref(), Some("released"), "{other}");
        }
    }
    std::thread::scope(|scope| {
        for user in &users {
            let server = &server;
            scope.spawn(move || register(&mut server.client(), &phone(user, "phone", "stub:shared")));
        }
    });
    let owners = eventually("nobody waits any more", || {
        let found: Vec<_> = users.iter().filter_map(|user| status(&mut client, user, "phone")).collect();
        (!found.iter().any(|status| status == "pending")).then_some(found)
    });
    assert_eq!(owners.iter().filter(|status| *status == "active").count(), 1, "{owners:?}");
    assert_eq!(owners.len(), users.len());
}

// proves: DEV-03, GDP-01
#[test]
fn a_deleted_user_gives_its_addresses_back() {
    let server = Server::start();
    let mut client = server.client();
    for user in ["ann", "bob"] {
        put_user(&mut client, user);
    }
    register(&mut client, &phone("ann", "phone", "stub:1"));
    eventually_is(&mut client, "ann", "phone", "active");
    expect(bare(&mut client, "DELETE", "/api/v1/users/ann"), 204);
    register(&mut client, &phone("bob", "phone", "stub:1"));
    eventually_is(&mut client, "bob", "phone", "active");
    put_user(&mut client, "ann");
    assert_eq!(devices(&mut client, "ann"), Vec::<Value>::new(), "who comes back is another one");
}

/// kill -9 at any moment of a hand-over: after the start it is finished.
// proves: DEV-03
#[test]
fn a_hand_over_survives_a_crash() {
    let mut directory = None;
    for round in 0..4 {
        let server = match &directory {
            None => Server::start(),
            Some(directory) => {
                let directory: &crate::server::Directory = directory;
                Server::start_in(&directory.path("data"), &[], &[])
            }
        };
        let mut client = server.client();
        let (from, to) = (format!("from{round}"), format!("to{round}"));
        put_user(&mut client, &from);
        put_user(&mut client, &to);
        register(&mut client, &phone(&from, "phone", "stub:1"));
        if round % 2 == 0 {
            eventually_is(&mut client, &from, "phone", "active");
        }
        register(&mut client, &phone(&to, "phone", "stub:1"));
        let kept = server.kill();
        directory = directory.or(kept);
        let data = directory.as_ref().expect("the first server made it").path("data");
        let server = Server::start_in(&data, &[], &[]);
        let mut client = server.client();
        eventually("it is settled", || {
            // Three answers of different moments: only if the first user has it before and after, both have it at once.
            let found = [&from, &to, &from]
                .map(|user| status(&mut client, user, "phone").expect("it was acknowledged"));
            assert!(found.iter().any(|status| status != "active"), "{found:?}");
            let now = &found[1..];
            let active = now.iter().filter(|status| *status == "active").count();
            (active == 1 && !now.iter().any(|status| status == "pending")).then_some(())
        });
        server.stop();
    }
}

// proves: DEV-01, DEV-03
#[test]
fn profiles_have_addresses() {
    let server = Server::start();
    let mut client = server.client();
    let profile = json!({"email": "Ann@Example.COM", "phone": "+43 660 123-4567", "locale": "de-AT",
        "timezone": "Europe/Vienna", "attributes": {"plan": "pro"}});
    let made = expect(client.json("PUT", "/api/v1/users/ann", &profile), 201);
    assert_eq!((&made["email"], &made["phone"]), (&json!("Ann@example.com"), &json!("+436601234567")));
    assert_eq!((&made["locale"], &made["timezone"]), (&json!("de-AT"), &json!("Europe/Vienna")));
    assert_eq!(made["attributes"], json!({"plan": "pro"}));
    eventually_reached(&mut client, "ann", &[("email", "active"), ("sms", "active")]);
    assert_eq!(devices(&mut client, "ann"), Vec::<Value>::new(), "they are not devices");
    let batch = json!({"users": [{"userId": "bob", "email": "ANN@example.com"}, {"userId": "eve"}]});
    assert_eq!(expect(client.post("/api/v1/users/batch", &batch), 200)["created"], 2);
    eventually_reached(&mut client, "bob", &[("email", "active")]);
    assert_eq!(channels(&mut client, "ann")[0], ("email".to_owned(), "released".to_owned()));
    let bare_user = expect(client.json("PUT", "/api/v1/users/ann", &json!({})), 200);
    assert_eq!((&bare_user["email"], &bare_user["channels"]), (&Value::Null, &json!([])));
    for (field, wrong) in [
        ("email", "ann@example.com\r\nBcc: all@example.com"),
        ("email", "ann"),
        ("phone", "0660123456"),
        ("locale", "german"),
        ("timezone", "Vienna Time"),
    ] {
        let problem =
            refused(client.json("PUT", "/api/v1/users/ann", &json!({field: wrong})), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], format!("/{field}"));
    }
}

/// Its former user's reads and export show nothing of it, and a patch of something else takes it back from nobody.
// fixes: security P5
#[test]
fn an_address_that_another_user_has_is_not_shown_or_taken_back_in_passing() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    for (user, other, address) in
        [("ann", "bob", "ok/moved@stub.test"), ("cay", "dan", "dead/gone@stub.test")]
    {
        let (path, others) = (format!("/api/v1/users/{user}"), format!("/api/v1/users/{other}"));
        expect(client.json("PUT", &path, &json!({"email": address})), 201);
        eventually_reached(&mut client, user, &[("email", "active")]);
        if user == "cay" {
            let body = notification("n1", &[user], json!({"channels": ["email"]}));
            expect(client.post("/api/v1/notifications", &body), 202);
            eventually_reached(&mut client, user, &[("email", "dead")]);
            assert_eq!(expect(client.get(&path), 200)["email"], address, "nobody else has it");
        }
        let status = channels(&mut client, user)[0].1.clone();
        expect(client.json("PUT", &others, &json!({"email": address})), 201);
        eventually_reached(&mut client, other, &[("email", "active")]);
        let status = if status == "dead" { "dead" } else { "released" };
        eventually_reached(&mut client, user, &[("email", status)]);
        let patched = expect(client.json("PATCH", &path, &json!({"attributes": {"plan": "pro"}})), 200);
        let read = expect(client.get(&path), 200);
        let exported = client.get(&format!("{path}/export")).expect("an answer").text();
        for shown in [patched.to_string(), read.to_string(), exported] {
            assert!(shown.contains("\"plan\"") && !shown.contains(address), "{shown}");
        }
        assert_eq!(channels(&mut client, user), [("email".to_owned(), status.to_owned())]);
        assert_eq!(channels(&mut client, other), [("email".to_owned(), "active".to_owned())]);
        // Whoever says it takes it back.
        assert_eq!(expect(client.json("PATCH", &path, &json!({"email": address})), 200)["email"], address);
        eventually_reached(&mut client, user, &[("email", "active")]);
        eventually_reached(&mut client, other, &[("email", "released")]);
    }
}

// proves: EML-02
#[test]
fn nothing_is_sent_to_suppressed_addresses() {
    let server = Server::start();
    let mut client = server.client();
    let path = "/api/v1/suppressions/email/ann%40example.com";
    refused(client.get(path), "SUPPRESSION_NOT_FOUND");
    expect(client.json("PUT", "/api/v1/users/ann", &json!({"email": "ann@example.com"})), 201);
    eventually_reached(&mut client, "ann", &[("email", "active")]);
    let put = expect(client.json("PUT", path, &json!({"reason": "hardBounce"})), 200);
    assert_eq!((&put["reason"], &put["address"]), (&json!("hardBounce"), &json!("ann@example.com")));
    eventually_reached(&mut client, "ann", &[("email", "suppressed")]);
    let upper = "/api/v1/suppressions/email/ANN@example.com";
    assert_eq!(expect(client.get(upper), 200)["reason"], "hardBounce", "case does not matter");
    expect(client.json("PUT", "/api/v1/users/bob", &json!({"email": "ann@example.com"})), 201);
    eventually_reached(&mut client, "bob", &[("email", "suppressed")]);
    expect(bare(&mut client, "DELETE", path), 204);
    eventually_reached(&mut client, "bob", &[("email", "active")]);
    refused(bare(&mut client, "DELETE", path), "SUPPRESSION_NOT_FOUND");
    refused(client.get("/api/v1/suppressions/fax/x"), "INVALID_REQUEST");
    refused(client.get("/api/v1/suppressions/email/x"), "INVALID_REQUEST");
}

// proves: DEV-05, TEN-01
#[test]
fn a_key_for_apps_registers_and_nothing_else() {
    let server = Server::start();
    let mut admin = server.admin();
    let mut full = server.with_key(&tenant_with_key(&mut admin, "acme", ALL_SCOPES));
    let mut app = server.with_key(&key_of(&mut admin, "acme", &["devices:write"]));
    put_user(&mut full, "bob");
    register(&mut app, &phone("bob", "phone", "stub:1"));
    eventually_is(&mut full, "bob", "phone", "active");
    refused(app.get("/api/v1/devices?userId=bob"), "FORBIDDEN");
    refused(app.get("/api/v1/users/bob"), "FORBIDDEN");

    let mut other = server.with_key(&tenant_with_key(&mut admin, "globex", ALL_SCOPES));
    put_user(&mut other, "bob");
    register(&mut other, &phone("bob", "phone", "stub:1"));
    eventually_is(&mut other, "bob", "phone", "active");
    assert_eq!(status(&mut full, "bob", "phone").as_deref(), Some("active"), "tenants share no addresses");
    let metrics = full.get("/metrics").expect("an answer").text();
    assert!(metrics.contains("fantail_endpoint_changes_total{status=\"active\"} 2"), "{metrics}");
    expect(bare(&mut app, "DELETE", "/api/v1/devices/bob/phone"), 204);
}

// fixes: proved N2, interop F4
/// The directory is asked for the addresses after the answers: what is sent at once waits for it.
#[test]
fn what_is_sent_right_after_a_registration_arrives() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    let names: Vec<String> = (0..200).map(|no| format!("u{no}")).collect();
    let users: Vec<Value> =
        names.iter().map(|name| json!({"userId": name, "email": format!("ok/{name}@stub.test")})).collect();
    let recipients: Vec<Value> = names.iter().map(|name| json!({"userId": name})).collect();
    let mail = json!({
        "notificationId": "mail", "content": {"title": "Hello"}, "recipients": recipients, "channels": ["email"],
    });
    expect(client.post("/api/v1/users/batch", &json!({"users": users})), 200);
    let mails = send(&mut client, &mail);
    let mut pushes = Vec::new();
    for name in &names[..40] {
        let consent = json!({"granted": true, "version": "1"});
        let token = format!("stub:ok/{name}");
        let device = json!({"userId": name, "deviceId": "phone", "platform": "android", "token": token, "consent": consent});
        expect(client.post("/api/v1/devices", &device), 201);
        pushes.push(send(&mut client, &notification(name, &[name], json!({"priority": "critical"}))));
    }
    eventually("all mails are sent", || {
        let found = deliveries::status(&mut client, &mails);
        assert_eq!(counts_of(&found, "email")["suppressed"], Value::Null, "{found}");
        (counts_of(&found, "email")["sent"] == 200).then_some(())
    });
    for push in pushes {
        eventually("the push is sent", || {
            let found = deliveries::status(&mut client, &push);
            assert_eq!(counts_of(&found, "push")["suppressed"], Value::Null, "{found}");
            (counts_of(&found, "push")["sent"] == 1).then_some(())
        });
    }
    server.stop();
}
