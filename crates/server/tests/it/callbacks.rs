//! What comes back from providers: reports of mail servers, events of SES, callbacks of Twilio; and every service that pushes.

use crate::deliveries::{counts, counts_of, notification, send, status};
use crate::providers::{World, put};
use crate::server::Server;
use crate::world::{eventually, expect, put_user, refused};
use fantail_server::client::{Client, Request};
use serde_json::{Value, json};

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
    put(&mut client, "mail", &world.smtp());
    let url = json!({"url": callback(&server, "mail")});
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
// proves: EML-02, EML-05, TRK-03
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
                        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/x.pem"});
    let path = "/callbacks/default/ses";
    let answer = server.anonymous().post(path, &forged).expect("an answer");
    assert!(matches!(answer.status, 403 | 503), "{}", answer.text());
    refused(server.anonymous().post("/callbacks/default/nobody", &forged), "PROVIDER_NOT_FOUND");
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
    let page = expect(Client::to(control).get("/messages"), 200);
    let emulators: Vec<&Value> =
        page["messages"].as_array().expect("messages").iter().map(|one| &one["emulator"]).collect();
    assert_eq!(emulators, ["smtp", "twilio", "apns", "fcm"]);
}
