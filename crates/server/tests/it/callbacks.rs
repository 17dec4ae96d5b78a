//! What comes back from providers: reports of mail servers, events of SES, callbacks of Twilio; and every service that pushes.

use crate::audit::entries;
use crate::deliveries::{counts, counts_of, metric, notification, send, status};
use crate::providers::{LOCAL_PROVIDERS, World, put};
use crate::server::Server;
use crate::world::{ALL_SCOPES, bare, eventually, expect, key_of, put_user, refused, tenant_with_key};
use fantail_channels::twilio::signature::{ALGORITHMS, sign};
use fantail_server::client::{Client, Request, Response};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;

const SID: &str = "AC00000000000000000000000000000001";
const NUMBER: &str = "+436601234567";
const SENDER: &str = "+15005550006";

fn callback(server: &Server, account: &str) -> String {
    format!("http://{}/callbacks/default/{account}", server.address)
}

fn mail_to(client: &mut Client, id: &str, address: &str) -> String {
    let body = json!({"notificationId": id, "channels": ["email"], "content": {"title": "Hi", "body": "Ann"},
                      "recipients": [{"email": address}]});
    send(client, &body)
}

/// Waits for why nothing more goes to an address.
fn suppressed(client: &mut Client, channel: &str, address: &str) -> String {
    eventually("the address is left alone", || {
        let path = format!("/api/v1/suppressions/{channel}/{}", address.replace('+', "%2B"));
        let found = client.get(&path).expect("an answer");
        (found.status == 200).then(|| found.json()["reason"].as_str().unwrap_or_default().to_owned())
    })
}

// proves: EML-02, EML-07, TRK-02, TRK-03
#[test]
fn reports_of_mail_servers_end_what_they_are_about() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    let made = put(&mut client, "mail", &world.smtp());
    let url = json!({"url": made["callbackUrl"]});
    expect(world.viewer().json("PUT", "/smtp/reports", &url), 200);
    let id = mail_to(&mut client, "gone", "sandbox-bounce@example.com");
    assert_eq!(suppressed(&mut client, "email", "sandbox-bounce@example.com"), "hardBounce");
    let found = status(&mut client, &id);
    assert_eq!(counts_of(&found, "email")["failed"], 1, "{found}");
    mail_to(&mut client, "spam", "sandbox-complaint@example.com");
    assert_eq!(suppressed(&mut client, "email", "sandbox-complaint@example.com"), "complaint");
    let full = mail_to(&mut client, "full", "sandbox-soft-bounce@example.com");
    eventually("a full mailbox ends the mail alone", || {
        let found = status(&mut client, &full);
        (counts_of(&found, "email")["failed"] == 1).then_some(())
    });
    let path = "/api/v1/suppressions/email/sandbox-soft-bounce@example.com";
    refused(client.get(path), "SUPPRESSION_NOT_FOUND");
}

/// Only what Amazon signed, and only about topics that the account names.
// proves: EML-02, TRK-03
#[test]
fn events_of_ses_are_believed_if_amazon_signed_them() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    let mut viewer = world.viewer();
    let topic = expect(viewer.post("/sns/topics", &json!({"region": "eu-west-1", "name": "mails"})), 200);
    let topic = topic["id"].as_str().expect("a topic").to_owned();
    expect(viewer.json("PUT", "/ses/events", &json!({"topic": topic})), 200);
    let account = json!({
        "kind": "ses",
        "settings": {"fromAddress": "news@example.com", "region": "eu-west-1", "configurationSet": "events",
                     "eventTopics": [topic], "connectTo": world.sandbox.shared().to_string(),
                     "caPem": world.sandbox.ca_pem()},
        "credentials": {"accessKeyId": "AKIDSANDBOX", "secretAccessKey": "sandbox-secret"},
    });
    put(&mut client, "ses", &account);
    let subscription = json!({"topic": topic, "url": callback(&server, "ses")});
    expect(viewer.post("/sns/subscriptions", &subscription), 200);
    eventually("the subscription is confirmed", || {
        let topics = expect(viewer.get("/sns/topics"), 200);
        (topics[0]["subscriptions"][0]["confirmed"] == true).then_some(())
    });
    let well = mail_to(&mut client, "well", "success@simulator.amazonses.com");
    eventually("it was delivered", || {
        let found = status(&mut client, &well);
        (counts_of(&found, "email")["delivered"] == 1).then_some(())
    });
    mail_to(&mut client, "gone", "bounce@simulator.amazonses.com");
    assert_eq!(suppressed(&mut client, "email", "bounce@simulator.amazonses.com"), "hardBounce");
    let forged = json!({"Type": "Notification", "MessageId": "1", "TopicArn": topic, "Message": "{}",
                        "Timestamp": "2026-11-16T08:00:00.000Z", "SignatureVersion": "2", "Signature": "AAAA",
                        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem"});
    let path = "/callbacks/default/ses";
    let answer = server.anonymous().post(path, &forged).expect("an answer");
    assert!(matches!(answer.status, 403 | 503), "{}", answer.text());
    refused(server.anonymous().post("/callbacks/default/nobody", &forged), "CALLBACK_REFUSED");
}

fn twilio(world: &World) -> Value {
    json!({
        "kind": "twilio",
        "settings": {"accountSid": SID, "senders": [{"from": SENDER, "kind": "longCode", "perSecond": 100}],
                     "connectTo": world.own("twilio"), "caPem": world.sandbox.ca_pem()},
        "credentials": {"authToken": "token-of-the-account"},
    })
}

// proves: SMS-01, SMS-03, TRK-02, TRK-05
#[test]
fn texts_are_delivered_and_stop_is_heard() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    put(&mut client, "texts", &twilio(&world));
    let text = |id: &str| {
        json!({"notificationId": id, "channels": ["sms"], "content": {"title": "Hi", "body": "Your code is 1234"},
               "recipients": [{"phone": NUMBER}]})
    };
    let id = send(&mut client, &text("first"));
    eventually("Twilio calls back", || {
        let found = status(&mut client, &id);
        (counts_of(&found, "sms")["delivered"] == 1).then_some(())
    });
    let arrived = world.messages("channel=sms");
    assert_eq!((arrived.len(), &arrived[0]["recipient"]), (1, &json!(NUMBER)));
    let forged = Request {
        method: "POST",
        path: "/callbacks/default/texts",
        headers: &[("content-type", "application/x-www-form-urlencoded"), ("x-twilio-signature", "AAAA")],
        body: b"From=%2B436601234567&To=%2B15005550006&Body=STOP",
    };
    refused(server.anonymous().send(&forged), "CALLBACK_REFUSED");
    let mut said = json!({"from": NUMBER, "to": SENDER, "body": "Stop", "account": SID, "url": callback(&server, "texts")});
    let told = expect(world.viewer().post("/twilio/inbound", &said), 200);
    assert_eq!(told["told"], 200, "{told}");
    assert_eq!(suppressed(&mut client, "sms", NUMBER), "stop");
    said["body"] = json!("start");
    expect(world.viewer().post("/twilio/inbound", &said), 200);
    let path = format!("/api/v1/suppressions/sms/{}", NUMBER.replace('+', "%2B"));
    refused(client.get(&path), "SUPPRESSION_NOT_FOUND");
    let id = send(&mut client, &text("again"));
    eventually("it arrives again", || {
        let found = status(&mut client, &id);
        (counts_of(&found, "sms")["delivered"] == 1).then_some(())
    });
}

/// An Android phone, one that has an installation id, and a browser.
// proves: PSH-02, PSH-09, DEV-01
#[test]
fn every_service_pushes() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    let key = expect(server.client().get("/api/v1/providers"), 200);
    assert_eq!(key["providers"], json!([]));
    let browser = json!({
        "kind": "webPush",
        "settings": {"subject": "mailto:push@example.com", "connectTo": world.own("webpush"),
                     "caPem": world.sandbox.ca_pem()},
    });
    let made = put(&mut client, "browsers", &browser);
    let key = made["applicationServerKey"].as_str().expect("the key that pages need").to_owned();
    let subscribe = json!({"applicationServerKey": key, "service": "mozilla"});
    let made = world.viewer().post("/webpush/subscriptions", &subscribe).expect("an answer");
    assert!(matches!(made.status, 200 | 201), "{}", made.text());
    let subscription = made.json();
    put_user(&mut client, "ann");
    let consent = json!({"granted": true, "version": "1"});
    let device = json!({"userId": "ann", "deviceId": "laptop", "platform": "web", "consent": consent,
                        "subscription": {"endpoint": subscription["endpoint"], "keys": subscription["keys"]}});
    let response = client.post("/api/v1/devices", &device).expect("an answer");
    assert_eq!(response.status, 201, "{}", response.text());
    eventually("the browser can be used", || {
        let devices = expect(client.get("/api/v1/devices?userId=ann"), 200);
        (devices["devices"][0]["status"] == "active").then_some(())
    });
    let id = send(
        &mut client,
        &notification("web", &["ann"], json!({"content": {"title": "Hello", "body": "Ann"}})),
    );
    counts(&mut client, &id, &json!({"sent": 1}));
    let arrived = world.messages("channel=push");
    assert_eq!(arrived.len(), 1);
    let shown = expect(world.viewer().get(&format!("/messages/{}", arrived[0]["no"])), 200);
    assert!(shown.to_string().contains("Hello"), "it was opened with the browser's keys: {shown}");
    assert_eq!(shown["refused"], Value::Null, "{shown}");
}

/// Without an account of one's own: mail, texts and all pushes can be tried as they will be.
// proves: PSH-02, EML-06, SMS-01
// fixes: security M4, proved M4
#[test]
fn the_sandbox_takes_every_channel() {
    let server = Server::start();
    let line = server.banner.iter().find(|line| line.contains("nothing leaves")).expect("the banner says so");
    let control = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address");
    let mut client = server.client();
    let consent = json!({"granted": true, "version": "1"});
    let push = |platform: &str, token: &str| json!({"pushToken": {"platform": platform, "token": token, "consent": consent}});
    for (id, channel, recipient) in [
        ("mail", "email", json!({"email": "ann@example.com"})),
        ("text", "sms", json!({"phone": NUMBER})),
        ("iphone", "push", push("ios", "80ab0000000000000000000000000000000000000000000000000000000000aa")),
        ("android", "push", push("android", "a-token-of-fcm")),
    ] {
        let body = json!({"notificationId": id, "channels": [channel], "content": {"title": "Hi", "body": "Ann"},
                          "recipients": [recipient]});
        let sent = send(&mut client, &body);
        eventually(id, || {
            let found = status(&mut client, &sent);
            let counts = counts_of(&found, channel);
            (counts["sent"] == 1 || counts["delivered"] == 1).then_some(())
        });
    }
    // Whose machine it is does not matter: the messages are for the holder of the key.
    assert_eq!(Client::to(control).get("/messages").expect("an answer").status, 401);
    let mut viewer = Client::to(control).with_key(&server.key("sandbox.key"));
    let page = expect(viewer.get("/messages"), 200);
    let foreign = Request {
        method: "GET",
        path: "/messages",
        headers: &[("origin", "http://evil.example")],
        body: b"",
    };
    assert_eq!(viewer.send(&foreign).expect("an answer").status, 403);
    let posted = Request {
        method: "POST",
        path: "/clock",
        headers: &[("content-type", "text/plain")],
        body: b"{\"advanceMs\":1}",
    };
    assert_eq!(viewer.send(&posted).expect("an answer").status, 415);
    let emulators: Vec<&Value> =
        page["messages"].as_array().expect("messages").iter().map(|one| &one["emulator"]).collect();
    assert_eq!(emulators, ["smtp", "twilio", "apns", "fcm"]);
}

/// A callback of Twilio, as whoever knows this token signs it.
fn signed_text(server: &Server, account: &str, token: &str, fields: &[(&str, &str)]) -> Response {
    let parameters: Vec<(String, String)> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let (_, algorithm) = ALGORITHMS[0];
    let signature = sign(token, algorithm, &callback(server, account), &parameters);
    let encoded = |text: &str| text.replace('+', "%2B").replace(' ', "+");
    let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let body = body.join("&");
    let request = Request {
        method: "POST",
        path: &format!("/callbacks/default/{account}"),
        headers: &[("content-type", "application/x-www-form-urlencoded"), ("x-twilio-signature", &signature)],
        body: body.as_bytes(),
    };
    server.anonymous().send(&request).expect("an answer")
}

/// The actors of an action, in order.
fn actors(client: &mut Client, action: &str, count: usize) -> Vec<String> {
    eventually("the audit log has it", || {
        let found: Vec<String> = entries(client, "")
            .iter()
            .filter(|entry| entry["fact"]["action"] == action)
            .map(|entry| entry["fact"]["actor"].as_str().unwrap_or_default().to_owned())
            .collect();
        (found.len() == count).then_some(found)
    })
}

/// Whoever knew the sandbox's secret could suppress any number of a tenant that goes live later.
// fixes: security M2, proved M2
#[test]
fn nobody_knows_the_secret_of_the_sandbox() {
    let server = Server::start();
    let mut client = server.client();
    let body = json!({"channels": ["sms"], "content": {"title": "Hi", "body": "Ann"}, "recipients": [{"phone": NUMBER}]});
    let id = send(&mut client, &body);
    eventually("the sandbox is there", || {
        let found = status(&mut client, &id);
        let counts = counts_of(&found, "sms");
        (counts["sent"] == 1 || counts["delivered"] == 1).then_some(())
    });
    let stop = [("From", NUMBER), ("To", SENDER), ("Body", "STOP"), ("MessageSid", "SM1")];
    for token in ["sandbox", "", "token"] {
        let answer = signed_text(&server, "sandbox-twilio", token, &stop);
        assert_eq!((answer.status, &answer.json()["code"]), (403, &json!("CALLBACK_REFUSED")), "{token}");
    }
    let path = format!("/api/v1/suppressions/sms/{}", NUMBER.replace('+', "%2B"));
    refused(client.get(&path), "SUPPRESSION_NOT_FOUND");
}

// fixes: security M2, proved M2, usability B8
#[test]
fn a_stranger_cannot_tell_which_accounts_there_are() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    put(&mut client, "texts", &twilio(&world));
    put(&mut client, "mail", &world.smtp());
    put(&mut client, "ios", &world.apns());
    let ses = json!({
        "kind": "ses",
        "settings": {"fromAddress": "news@example.com", "region": "eu-west-1",
                     "eventTopics": ["arn:aws:sns:eu-west-1:1:mail"]},
        "credentials": {"accessKeyId": "AKIDSANDBOX", "secretAccessKey": "sandbox-secret"},
    });
    put(&mut client, "ses", &ses);
    let paths = [
        "/callbacks/default/texts",
        "/callbacks/default/mail",
        "/callbacks/default/ses",
        "/callbacks/default/ios",
        "/callbacks/default/nobody",
        "/callbacks/default/sandbox-twilio",
        "/callbacks/nowhere/texts",
        "/callbacks/twilio/texts/0123456789abcdef",
        "/callbacks/twilio/nobody/0123456789abcdef",
    ];
    let envelope = br#"{"Type":"Notification","MessageId":"1","TopicArn":"arn:aws:sns:eu-west-1:2:mail","Message":"{}"}"#;
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a [u8]);
    let cases: [Case<'_>; 7] = [
        (&[], "", b"x"),
        (&[], "?k=0123456789abcdef0123456789abcdef", b"From: a@b.example\r\n\r\nx"),
        (&[("content-type", "message/rfc822")], "", b"From: a@b.example\r\n\r\nx"),
        (
            &[("x-twilio-signature", "AAAA"), ("content-type", "application/x-www-form-urlencoded")],
            "",
            b"Body=STOP",
        ),
        (&[("x-amz-sns-message-type", "Notification")], "", envelope),
        (&[("x-amz-sns-message-type", "Notification")], "", b"no JSON"),
        (&[("authorization", "Bearer nonsense")], "", b"x"),
    ];
    let mut seen: Option<Value> = None;
    for (headers, query, body) in cases {
        for path in paths {
            let request = Request { method: "POST", path: &format!("{path}{query}"), headers, body };
            let answer = server.anonymous().send(&request).expect("an answer");
            let mut problem = answer.json();
            problem.as_object_mut().expect("a problem").remove("requestId");
            let same = seen.get_or_insert_with(|| problem.clone());
            assert_eq!((answer.status, &problem), (403, &*same), "{path}{query} {headers:?}");
            assert_eq!(problem["code"], "CALLBACK_REFUSED");
        }
    }
    let counted = metric(&mut client, "fantail_access_refused_total", "reason=\"not_proven\"");
    assert!(counted >= (cases.len() * paths.len()) as u64, "{counted}");
}

/// The newest report that a mail server has sent back.
fn report(world: &World, count: usize) -> String {
    eventually("the mail server reports", || {
        let reports = expect(world.viewer().get("/smtp/reports"), 200);
        let reports = reports.as_array().expect("a list").clone();
        (reports.len() == count).then(|| reports[count - 1]["mail"].as_str().expect("a mail").to_owned())
    })
}

/// What strangers send is held and counted for an account that does not exist, too: otherwise the ones that exist would be the
/// ones that are out of room.
// fixes: security P10, security M2, proved M2, usability B8
#[test]
fn a_full_house_does_not_tell_which_accounts_there_are() {
    let (world, server) = World::with_server();
    put(&mut server.client(), "texts", &twilio(&world));
    let head = "POST /callbacks/default/texts HTTP/1.1\r\nHost: a\r\nX-Twilio-Signature: AAAA\r\n\
                Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1048576\r\n\r\n";
    // Bodies that never end: each holds a mebibyte, and all callers without a key together have 64.
    let most = vec![b'a'; (1 << 20) - 1];
    let mut begun = Vec::new();
    let mut take_room = || {
        let mut stream = TcpStream::connect(&server.address).expect("a connection");
        stream.write_all(head.as_bytes()).expect("a head");
        // It may be refused before all of it is written.
        drop(stream.write_all(&most));
        begun.push(stream);
    };
    let status_of = |account: &str| {
        let headers =
            &[("x-twilio-signature", "AAAA"), ("content-type", "application/x-www-form-urlencoded")];
        let path = format!("/callbacks/default/{account}");
        let body = vec![b'a'; 1 << 19];
        let request = Request { method: "POST", path: &path, headers, body: &body };
        server.anonymous().send(&request).map(|answer| answer.status).ok()
    };
    // Bodies that meet at the end of the room may all be refused, and leave some of it: another one comes then.
    eventually("there is no room left, for any account", || {
        take_room();
        ["texts", "nobody"].iter().all(|account| status_of(account) == Some(503)).then_some(())
    });
    drop(begun);
    for account in ["texts", "nobody"] {
        eventually("there is room again", || (status_of(account) == Some(403)).then_some(()));
    }
}

/// Both addresses are believed for as long as the tenant said, and the first one never again.
// fixes: security P14
#[test]
fn the_address_of_reports_is_replaced_without_a_report_lost() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    let made = put(&mut client, "mail", &world.smtp());
    mail_to(&mut client, "gone", "sandbox-bounce@example.com");
    let mail = report(&world, 1);
    let path_of = |account: &Value| {
        let url = account["callbackUrl"].as_str().expect("a URL").to_owned();
        url[url.find("/callbacks/").expect("a path")..].to_owned()
    };
    let posted = |server: &Server, path: &str| {
        let headers = &[("content-type", "message/rfc822")];
        let request = Request { method: "POST", path, headers, body: mail.as_bytes() };
        server.anonymous().send(&request).expect("an answer").status
    };
    let rotate =
        |client: &mut Client, body: Value| expect(client.post("/api/v1/providers/mail/rotate", &body), 200);
    let second = rotate(&mut client, json!({}));
    assert!(second["formerCallbackUrlUntil"].is_string(), "{second}");
    assert_eq!(second["version"], made["version"], "nothing else has changed");
    let third = rotate(&mut client, json!({"keepSeconds": 3_600}));
    let paths = [&made, &second, &third].map(path_of);
    assert_eq!(BTreeSet::from(paths.clone()).len(), 3);
    for path in &paths {
        assert_eq!(posted(&server, path), 200, "{path}");
    }
    let directory = server.kill().expect("it has a directory of its own");
    let server = Server::start_in(&directory.path("data"), &[], &[LOCAL_PROVIDERS]);
    let mut client = server.client();
    assert_eq!(paths.each_ref().map(|path| posted(&server, path)), [200, 200, 200], "after a restart, too");
    let fourth = path_of(&rotate(&mut client, json!({"keepSeconds": 0})));
    assert_eq!(paths.each_ref().map(|path| posted(&server, path)), [403, 403, 403]);
    assert_eq!(posted(&server, &fourth), 200);
    expect(bare(&mut client, "DELETE", "/api/v1/providers/mail"), 204);
    let again = path_of(&put(&mut client, "mail", &world.smtp()));
    assert_eq!((posted(&server, &fourth), posted(&server, &again)), (403, 200));
    let path = "/api/v1/providers/mail/rotate";
    refused(client.post("/api/v1/providers/nobody/rotate", &json!({})), "PROVIDER_NOT_FOUND");
    put(&mut client, "ios", &world.apns());
    let problem = refused(client.post("/api/v1/providers/ios/rotate", &json!({})), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/provider");
    let problem = refused(client.post(path, &json!({"keepSeconds": 30 * 86_400 + 1})), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/keepSeconds");
    for _ in 0..4 {
        rotate(&mut client, json!({}));
    }
    refused(client.post(path, &json!({})), "LIMIT_REACHED");
    let said = actors(&mut client, "provider.rotate", 7);
    assert!(said.iter().all(|actor| actor != "system"), "{said:?}");
}

/// What is in every mail proves nothing: a report also has to know the address, or to come with a key.
// fixes: security M9
#[test]
fn reports_are_believed_at_the_address_with_the_secret_or_with_a_key() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    let made = put(&mut client, "mail", &world.smtp());
    let other = put(
        &mut client,
        "other",
        &json!({"order": 9, "kind": "smtp", "credentials": {},
        "settings": {"fromAddress": "a@example.com", "host": "localhost", "security": "none", "connectTo": world.own("smtp")}}),
    );
    assert_eq!(expect(client.get("/api/v1/providers/mail"), 200)["callbackUrl"], made["callbackUrl"]);
    let path_of = |account: &Value| {
        let url = account["callbackUrl"].as_str().expect("a URL").to_owned();
        url[url.find("/callbacks/").expect("a path")..].to_owned()
    };
    let (path, elsewhere) = (path_of(&made), path_of(&other));
    let secret_elsewhere = elsewhere.split_once('?').expect("a secret").1;
    mail_to(&mut client, "gone", "sandbox-bounce@example.com");
    let mail = report(&world, 1);
    let posted = |path: &str, key: Option<&str>, mail: &str| {
        let client = server.anonymous();
        let mut client = match key {
            Some(key) => client.with_key(key),
            None => client,
        };
        let headers = &[("content-type", "message/rfc822")];
        client
            .send(&Request { method: "POST", path, headers, body: mail.as_bytes() })
            .expect("an answer")
            .status
    };
    let mut admin = server.admin();
    let reader = key_of(&mut admin, "default", &["notifications:read", "notifications:write"]);
    let stranger = tenant_with_key(&mut admin, "acme", ALL_SCOPES);
    for (path, key) in [
        ("/callbacks/default/mail".to_owned(), None),
        (format!("/callbacks/default/mail?{secret_elsewhere}"), None),
        (path[..path.len() - 1].to_owned(), None),
        ("/callbacks/default/mail".to_owned(), Some(&reader)),
        ("/callbacks/default/mail".to_owned(), Some(&stranger)),
    ] {
        assert_eq!(posted(&path, key.map(String::as_str), &mail), 403, "{path}");
    }
    refused(client.get("/api/v1/suppressions/email/sandbox-bounce@example.com"), "SUPPRESSION_NOT_FOUND");
    assert_eq!(posted(&path, None, &mail), 200);
    assert_eq!(suppressed(&mut client, "email", "sandbox-bounce@example.com"), "hardBounce");

    let receiver = key_of(&mut admin, "default", &["receipts:write"]);
    mail_to(&mut client, "spam", "sandbox-complaint@example.com");
    assert_eq!(posted("/callbacks/default/mail", Some(&receiver), &report(&world, 2)), 200);
    assert_eq!(suppressed(&mut client, "email", "sandbox-complaint@example.com"), "complaint");
    let key_id = receiver.split('_').nth(1).expect("an id").to_owned();
    assert_eq!(actors(&mut client, "address.suppress", 2), ["provider:mail".to_owned(), key_id]);
}

/// The reference of a text in a report about a mail.
// fixes: security M9
#[test]
fn reports_of_mails_speak_of_mails_only() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    let made = put(&mut client, "mail", &world.smtp());
    put(&mut client, "texts", &twilio(&world));
    let url = made["callbackUrl"].as_str().expect("a URL");
    let path = &url[url.find("/callbacks/").expect("a path")..];
    let body = json!({"notificationId": "text", "channels": ["sms"], "content": {"title": "Hi", "body": "Ann"},
                      "recipients": [{"phone": NUMBER}]});
    let text = send(&mut client, &body);
    eventually("it is delivered", || {
        let found = status(&mut client, &text);
        (counts_of(&found, "sms")["delivered"] == 1).then_some(())
    });
    let sms = world.messages("channel=sms")[0]["id"].as_str().expect("a reference").to_owned();
    mail_to(&mut client, "gone", "sandbox-bounce@example.com");
    let mail = report(&world, 1);
    let email = world.messages("channel=email")[0]["id"].as_str().expect("a reference").to_owned();
    let email = email.trim_matches(['<', '>']).split('@').next().expect("a reference").to_owned();
    assert!(mail.contains(&email), "{email} in {mail}");
    let headers = &[("content-type", "message/rfc822")];
    let forged = mail.replace(&email, &sms);
    let request = Request { method: "POST", path, headers, body: forged.as_bytes() };
    assert_eq!(server.anonymous().send(&request).expect("an answer").status, 200, "it is passed over");
    let found = status(&mut client, &text);
    assert_eq!(counts_of(&found, "sms")["delivered"], 1, "{found}");
    let number = format!("/api/v1/suppressions/sms/{}", NUMBER.replace('+', "%2B"));
    refused(client.get(&number), "SUPPRESSION_NOT_FOUND");
}

/// A "yes" to a question, a START against what the tenant says, and a START that somebody has kept.
// fixes: security M3, proved M3
#[test]
fn start_takes_back_a_stop_and_nothing_else() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    put(&mut client, "texts", &twilio(&world));
    let path = format!("/api/v1/suppressions/sms/{}", NUMBER.replace('+', "%2B"));
    let hears = |id: &str, body: &str, kind: Option<&str>| {
        let mut fields = vec![("From", NUMBER), ("To", SENDER), ("Body", body), ("MessageSid", id)];
        fields.extend(kind.map(|kind| ("OptOutType", kind)));
        let answer = signed_text(&server, "texts", "token-of-the-account", &fields);
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    for reason in ["manual", "complaint", "hardBounce"] {
        expect(client.json("PUT", &path, &json!({"reason": reason})), 200);
        for (id, body) in
            [("start", "START"), ("yes", "YES"), ("unstop", "unstop"), ("stop", "STOP"), ("again", "START")]
        {
            hears(&format!("{reason}-{id}"), body, None);
            assert_eq!(expect(client.get(&path), 200)["reason"], reason, "{body}");
        }
        expect(bare(&mut client, "DELETE", &path), 204);
    }
    hears("1", "STOP", None);
    assert_eq!(suppressed(&mut client, "sms", NUMBER), "stop");
    hears("2", "YES", None);
    assert_eq!(suppressed(&mut client, "sms", NUMBER), "stop");
    hears("3", "YES", Some("START"));
    refused(client.get(&path), "SUPPRESSION_NOT_FOUND");
    hears("4", "STOP", None);
    // Twilio signs no time: these were sent before, word by word.
    hears("3", "YES", Some("START"));
    assert_eq!(suppressed(&mut client, "sms", NUMBER), "stop");
    hears("5", "START", None);
    refused(client.get(&path), "SUPPRESSION_NOT_FOUND");
    hears("4", "STOP", None);
    refused(client.get(&path), "SUPPRESSION_NOT_FOUND");
    let of_provider = actors(&mut client, "address.unsuppress", 5);
    assert_eq!(of_provider.iter().filter(|actor| *actor == "provider:texts").count(), 2, "{of_provider:?}");
}
