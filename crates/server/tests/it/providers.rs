//! Accounts with providers: what leaves through them, over the providers' own protocols, and what comes back.

use crate::deliveries::{counts, explain, notification, register, send, status};
use crate::server::Server;
use crate::world::{bare, eventually, expect, put_user, refused, tenant_with_key};
use fantail_sandbox::{Options, Running, Sandbox};
use fantail_server::client::{Client, Request};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tokio::runtime::Runtime;

const TOKEN: &str = "80ab00000000000000000000000000000000000000000000000000000000005f";
const P8: &str = "-----BEGIN PRIVATE KEY-----\n\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2\n\
    OF/2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r\n\
    1RTwjmYSi9R/zpBnuQ4EiMnCqfMPWiZqB4QdbAd0E7oH50VpuZ1P087G\n\
    -----END PRIVATE KEY-----\n";

/// Every port of this machine: emulators choose theirs when they start.
pub const LOCAL_PROVIDERS: (&str, &str) = ("FANTAIL_OUTBOUND_ALLOW", "127.0.0.1:*");

/// The providers, in this process, so that a test can break them and judge what arrived.
pub struct World {
    pub sandbox: Running,
    /// Keeps it going.
    _runtime: Runtime,
}

impl World {
    pub fn new() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let sandbox = runtime.block_on(Sandbox::start(Options::default())).expect("a sandbox");
        Self { sandbox, _runtime: runtime }
    }

    /// With a server whose operator lets accounts connect to it.
    pub fn with_server() -> (Self, Server) {
        (Self::new(), Server::start_with(&[], &[LOCAL_PROVIDERS]))
    }

    pub fn viewer(&self) -> Client {
        Client::to(&self.sandbox.control().to_string())
    }

    pub fn own(&self, emulator: &str) -> String {
        self.sandbox.own(emulator).expect("an emulator").to_string()
    }

    pub fn apns(&self) -> Value {
        apns_account(&self.own("apns"), &self.sandbox.ca_pem())
    }

    pub fn smtp(&self) -> Value {
        smtp_account(&self.own("smtp"))
    }

    pub fn messages(&self, query: &str) -> Vec<Value> {
        let page = expect(self.viewer().get(&format!("/messages?{query}")), 200);
        page["messages"].as_array().expect("messages").clone()
    }
}

/// An account with the APNs of a sandbox.
pub fn apns_account(connect_to: &str, ca_pem: &str) -> Value {
    json!({
        "kind": "apns",
        "settings": {"teamId": "TEAM000001", "keyId": "KEY0000001", "topic": "com.example.app", "connectTo": connect_to,
                     "caPem": ca_pem},
        "credentials": {"p8": P8},
    })
}

/// An account with the mail server of a sandbox.
pub fn smtp_account(connect_to: &str) -> Value {
    json!({
        "kind": "smtp",
        "settings": {"fromAddress": "news@example.com", "fromName": "News", "host": "localhost", "security": "none",
                     "connectTo": connect_to, "tracking": true},
        "credentials": {},
    })
}

pub fn put(client: &mut Client, id: &str, account: &Value) -> Value {
    let response = client.json("PUT", &format!("/api/v1/providers/{id}"), account).expect("an answer");
    assert!(matches!(response.status, 200 | 201), "{}", response.text());
    response.json()
}

/// Registers an iPhone with a consent.
fn phone(client: &mut Client, user: &str, token: &str) {
    put_user(client, user);
    let body = json!({"userId": user, "deviceId": "phone", "platform": "ios", "token": token,
                      "consent": {"granted": true, "version": "1"}});
    let response = client.post("/api/v1/devices", &body).expect("an answer");
    assert!(matches!(response.status, 200 | 201), "{}", response.text());
    eventually("the phone can be used", || {
        let devices = expect(client.get(&format!("/api/v1/devices?userId={user}")), 200);
        (devices["devices"][0]["status"] == "active").then_some(())
    });
}

fn files(directory: &Path, found: &mut Vec<u8>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.extend(fs::read(&path).unwrap_or_default());
        }
    }
}

// proves: PSH-01, PSH-02
#[test]
fn a_tenant_without_accounts_sends_to_the_sandbox_and_nothing_leaves() {
    let server = Server::start();
    let said = server.banner.iter().find(|line| line.contains("nothing leaves this machine")).cloned();
    let said = said.expect("the banner says so");
    let control = said.split("http://").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address");
    let mut client = server.client();
    phone(&mut client, "ann", TOKEN);
    let id = send(
        &mut client,
        &notification("first", &["ann"], json!({"content": {"title": "Hello", "body": "Ann"}})),
    );
    counts(&mut client, &id, &json!({"sent": 1}));
    let mut viewer = Client::to(control).with_key(&server.key("sandbox.key"));
    let page = expect(viewer.get("/messages?channel=push"), 200);
    let messages = page["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 1, "{page}");
    assert_eq!((&messages[0]["emulator"], &messages[0]["recipient"]), (&json!("apns"), &json!(TOKEN)));
    let told = explain(&mut client, &id, "ann");
    assert!(told.contains("sent"), "{told}");
}

/// One account is enough: whoever has one means it.
// proves: TEN-05
#[test]
fn the_first_account_ends_the_sandbox_for_its_tenant() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    put(&mut client, "mail", &world.smtp());
    phone(&mut client, "ann", TOKEN);
    let id = send(&mut client, &notification("push", &["ann"], json!({})));
    let found = eventually("it fails", || {
        let found = status(&mut client, &id);
        found.to_string().contains("no_provider").then_some(found)
    });
    assert!(!found.to_string().contains("sandbox"), "{found}");
}

/// Nothing is "sent" to the sandbox by mistake, not after a restart either.
// fixes: security M4, proved M4
#[test]
fn the_sandbox_does_not_come_back_with_the_last_account_gone() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    let listed = |client: &mut Client| expect(client.get("/api/v1/providers"), 200);
    assert_eq!(listed(&mut client), json!({"providers": [], "sandbox": true}));
    put(&mut client, "mail", &world.smtp());
    assert_eq!(listed(&mut client)["sandbox"], false);
    expect(bare(&mut client, "DELETE", "/api/v1/providers/mail"), 204);
    let fails = |client: &mut Client, name: &str| {
        let body = json!({"notificationId": name, "channels": ["email"], "content": {"title": "Hi", "body": "Ann"},
                          "recipients": [{"email": "ann@example.com"}]});
        let id = send(client, &body);
        eventually("it fails", || status(client, &id).to_string().contains("no_provider").then_some(()));
        assert_eq!(listed(client), json!({"providers": [], "sandbox": false}));
    };
    fails(&mut client, "before");
    assert!(server.log().contains("the last account is gone"), "{}", server.log());
    let (data, _directory) = (server.data.clone(), server.stop());
    let server = Server::start_in(&data, &[], &[]);
    fails(&mut server.client(), "after");
    let viewer = server.banner.iter().find(|line| line.contains("sandbox")).expect("it is there for others");
    let control = viewer.split("http://").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address");
    let mut viewer = Client::to(control).with_key(&server.key("sandbox.key"));
    assert_eq!(expect(viewer.get("/messages"), 200)["arrived"], 0);
}

// proves: TEN-05
#[test]
fn credentials_are_sealed_rotated_while_they_are_used_and_never_shown() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    let made = put(&mut client, "ios", &world.apns());
    assert_eq!((&made["version"], &made["channel"]), (&json!(1), &json!("push")));
    phone(&mut client, "ann", TOKEN);
    let id = send(&mut client, &notification("one", &["ann"], json!({})));
    counts(&mut client, &id, &json!({"sent": 1}));
    // Other settings, the same credentials, and no restart.
    let mut changed = world.apns();
    changed.as_object_mut().expect("an object").remove("credentials");
    changed["settings"]["sound"] = json!("default");
    changed["perSecond"] = json!(500);
    assert_eq!(put(&mut client, "ios", &changed)["version"], 2);
    let id = send(&mut client, &notification("two", &["ann"], json!({})));
    counts(&mut client, &id, &json!({"sent": 1}));
    let sounds: Vec<Value> = world
        .messages("channel=push")
        .iter()
        .map(|one| {
            let path = format!("/messages/{}", one["no"]);
            expect(world.viewer().get(&path), 200)["content"]["payload"]["aps"]["sound"].clone()
        })
        .collect();
    assert_eq!(sounds, [Value::Null, json!("default")]);
    let shown = expect(client.get("/api/v1/providers/ios"), 200);
    assert_eq!(shown["standing"]["usable"], true, "{shown}");
    for text in [shown.to_string(), expect(client.get("/api/v1/providers"), 200).to_string(), server.log()] {
        assert!(!text.contains("MIGHAgEAMBMG"), "a key is shown");
    }
    let mut all = Vec::new();
    files(&server.data, &mut all);
    let text = String::from_utf8_lossy(&all);
    assert!(
        text.contains("KEY0000001") && !text.contains("MIGHAgEAMBMG"),
        "settings are plain, keys are not"
    );
}

/// What only Apple's devices know, from a template to the device.
// proves: TPL-01, PSH-01, PSH-11
#[test]
fn a_template_says_what_only_phones_show() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    put(&mut client, "ios", &world.apns());
    phone(&mut client, "ann", TOKEN);
    let mut template = json!({
        "id": "shipped", "category": "orders", "defaultLocale": "en",
        "schema": {"type": "object", "properties": {"order": {"type": "string"}}},
        "channels": {"push": {"title": "On its way", "subtitle": "Order {{ order }}", "badge": 3, "sound": "ping.caf",
                              "category": "ORDER", "threadId": "orders"}},
    });
    let path = "/api/v1/templates/shipped";
    for (field, value, code) in [
        ("subtitle", json!("{{ other }}"), "unknownVariable"),
        ("sound", json!("{{ order }}"), "invalidName"),
    ] {
        let mut wrong = template.clone();
        wrong["channels"]["push"][field] = value;
        let problem = refused(client.json("PUT", path, &wrong), "INVALID_TEMPLATE");
        let place = json!(format!("/channels/push/{field}"));
        assert_eq!((&problem["errors"][0]["pointer"], &problem["errors"][0]["code"]), (&place, &json!(code)));
    }
    for (channel, badge) in [("push", json!(-1)), ("inApp", json!(1))] {
        let mut wrong = template.clone();
        wrong["channels"][channel] = json!({"title": "x", "badge": badge});
        let problem = refused(client.json("PUT", path, &wrong), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], format!("/channels/{channel}/badge"), "{problem}");
    }
    template["translations"] = json!({"de": {"push": {"subtitle": "Bestellung {{ order }}"}}});
    expect(client.json("PUT", path, &template), 201);
    let ask = json!({"channel": "push", "locale": "de", "variables": {"order": "A-42"}});
    let shown = expect(client.post(&format!("{path}/preview"), &ask), 200);
    assert_eq!(
        (&shown["content"]["subtitle"], &shown["content"]["badge"]),
        (&json!("Bestellung A-42"), &json!(3))
    );
    let sent = json!({
        "notificationId": "one", "templateId": "shipped", "variables": {"order": "A-42"}, "channels": ["push"],
        "recipients": [{"userId": "ann"}],
    });
    let id = send(&mut client, &sent);
    counts(&mut client, &id, &json!({"sent": 1}));
    let messages = world.messages("channel=push");
    let arrived = expect(world.viewer().get(&format!("/messages/{}", messages[0]["no"])), 200);
    let expected = json!({
        "alert": {"title": "On its way", "subtitle": "Order A-42"}, "badge": 3, "sound": "ping.caf",
        "category": "ORDER", "thread-id": "orders",
    });
    assert_eq!(arrived["content"]["payload"]["aps"], expected, "{arrived}");
}

#[test]
fn accounts_that_cannot_be_used_are_refused_with_a_reason() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    let path = "/api/v1/providers/ios";
    let with = |change: &dyn Fn(&mut Value)| {
        let mut account = world.apns();
        change(&mut account);
        account
    };
    let none = with(&|account| drop(account.as_object_mut().expect("an object").remove("credentials")));
    for wrong in [
        none,
        with(&|account| account["credentials"] = json!({"p8": "no key"})),
        with(&|account| account["settings"] = json!({"teamId": "T"})),
        with(&|account| account["settings"]["unknown"] = json!(1)),
        with(&|account| account["perSecond"] = json!(0)),
    ] {
        refused(client.json("PUT", path, &wrong), "INVALID_REQUEST");
    }
    refused(client.get(path), "PROVIDER_NOT_FOUND");
    put(&mut client, "ios", &world.apns());
    let other = json!({"kind": "smtp", "settings": world.smtp()["settings"], "credentials": {}});
    refused(client.json("PUT", path, &other), "INVALID_REQUEST");
    let tested = expect(bare(&mut client, "POST", "/api/v1/providers/ios/test"), 200);
    assert_eq!(tested["ok"], true, "{tested}");
    let nowhere = with(&|account| account["settings"]["connectTo"] = json!("127.0.0.1:1"));
    put(&mut client, "ios", &nowhere);
    let tested = expect(bare(&mut client, "POST", "/api/v1/providers/ios/test"), 200);
    assert_eq!(tested["ok"], false, "{tested}");
    expect(bare(&mut client, "DELETE", path), 204);
    refused(bare(&mut client, "DELETE", path), "PROVIDER_NOT_FOUND");
    let other = tenant_with_key(&mut server.admin(), "other", &["users:write"]);
    refused(server.with_key(&other).get("/api/v1/providers"), "FORBIDDEN");
}

/// What Apple says about a token is believed, but for one that was registered since.
// proves: DEV-02, DEV-04, DEL-13
#[test]
fn a_dead_token_retires_its_device() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    put(&mut client, "ios", &world.apns());
    let dead = format!("dead0410{}", &TOKEN[8..]);
    let old = format!("dead0411{}", &TOKEN[8..]);
    for (user, token, expected) in [("ann", &dead, "dead"), ("bob", &old, "active")] {
        phone(&mut client, user, token);
        send(&mut client, &notification(user, &[user], json!({})));
        eventually("the answer is known", || {
            let found = expect(client.get(&format!("/api/v1/devices?userId={user}")), 200);
            (found["devices"][0]["status"] == expected
                && world.messages("channel=push").iter().any(|one| one["recipient"] == **token))
            .then_some(())
        });
    }
}

/// A provider that answers nothing holds up nobody else, and what was meant for it is not lost.
// proves: DEL-04, DEL-16, RL-04
#[test]
fn a_provider_that_falls_silent_holds_up_no_other() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    put(&mut client, "ios", &world.apns());
    put(&mut client, "mail", &world.smtp());
    phone(&mut client, "ann", TOKEN);
    expect(client.json("PUT", "/api/v1/users/ann", &json!({"email": "ann@example.com"})), 200);
    expect(world.viewer().json("PUT", "/faults/apns", &json!({"blackHole": 1.0})), 200);
    for no in 0..20 {
        send(&mut client, &notification(&format!("push{no}"), &["ann"], json!({})));
    }
    for no in 0..20 {
        let mail = json!({"channels": ["email"], "content": {"title": "Hi", "body": "Ann"}});
        let id = send(&mut client, &notification(&format!("mail{no}"), &["ann"], mail));
        eventually("mail leaves", || {
            let found = status(&mut client, &id);
            (found["status"] == "done").then_some(())
        });
    }
    assert_eq!(world.messages("channel=email").len(), 20);
}

// proves: EML-03, EML-04, TRK-01, TRK-03
// fixes: security L13
#[test]
fn mails_are_opened_clicked_and_left() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    put(&mut client, "mail", &world.smtp());
    expect(client.json("PUT", "/api/v1/users/ann", &json!({"email": "ann@example.com"})), 201);
    let html = "<p>Hi <a href=\"https://example.com/offer?a=1&amp;b=ü\">look</a></p>";
    let template = json!({"id": "offer", "name": "Offer", "defaultLocale": "en", "category": "news", "channels": {"email": {"subject": "Hi", "html": html, "text": "Hi"}}});
    expect(client.json("PUT", "/api/v1/templates/offer", &template), 201);
    let body = json!({"notificationId": "mail", "channels": ["email"], "category": "news", "templateId": "offer",
                      "recipients": [{"userId": "ann"}]});
    let id = send(&mut client, &body);
    let mail = eventually("it arrives", || {
        let found = world.messages("channel=email");
        let no = found.first()?["no"].clone();
        Some(expect(world.viewer().get(&format!("/messages/{no}")), 200))
    });
    let text = mail.to_string();
    let link = |mark: &str| {
        let begin = text.find(mark).unwrap_or_else(|| panic!("{mark} in {text}"));
        let rest = &text[begin..];
        rest[..rest.find(['"', '>', '\\', ' ']).expect("an end")].to_owned()
    };
    let mut reader = server.anonymous();
    let picture = reader.get(&link("/t/o/")).expect("an answer");
    assert_eq!((picture.status, picture.header("content-type")), (200, Some("image/gif")));
    eventually("the look is known", || status(&mut client, &id).to_string().contains("opened").then_some(()));
    let click = link("/t/c/");
    let led = reader.get(&click).expect("an answer");
    assert_eq!((led.status, led.header("location")), (302, Some("https://example.com/offer?a=1&b=%C3%BC")));
    let forged = format!("{}0000000000000", &click[..click.rfind('/').expect("a seal") + 1]);
    refused(reader.get(&forged), "CALLBACK_REFUSED");
    eventually("the click is known", || {
        status(&mut client, &id).to_string().contains("clicked").then_some(())
    });
    let out = link("/u/");
    let one_click = Request {
        method: "POST",
        path: &out,
        headers: &[("content-type", "application/x-www-form-urlencoded")],
        body: b"List-Unsubscribe=One-Click",
    };
    assert_eq!(reader.send(&one_click).expect("an answer").status, 200);
    let wants = expect(client.get("/api/v1/users/ann/preferences"), 200);
    assert!(wants.to_string().contains("news"), "{wants}");
}

/// Tokens of the stub go to the stub, whatever accounts there are.
#[test]
fn the_stub_stays_beside_accounts() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    put(&mut client, "ios", &world.apns());
    put_user(&mut client, "ann");
    register(&mut client, "ann", "test", "stub:ok");
    let id = send(&mut client, &notification("stub", &["ann"], json!({})));
    counts(&mut client, &id, &json!({"sent": 1}));
    assert!(world.messages("").is_empty());
}
