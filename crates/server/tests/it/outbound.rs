//! Where a server connects for its tenants: what the operator allows, and nothing that a tenant says about it.

use crate::deliveries::Post;
use crate::providers::{LOCAL_PROVIDERS, World, put};
use crate::server::Server;
use crate::world::{ALL_SCOPES, bare, expect, refused, tenant_with_key};
use serde_json::{Value, json};
use std::net::TcpListener;

/// One account of each kind that leads to a host on this machine or in the house, as a tenant may try it.
fn attempts() -> Vec<(&'static str, Value, &'static str)> {
    let sid = format!("AC{}", "0".repeat(32));
    let smtp = |host: &str| {
        json!({"kind": "smtp", "settings": {"host": host, "port": 25, "security": "none", "fromAddress": "a@example.com"},
               "credentials": {}})
    };
    let ses = |endpoint: &str| {
        json!({"kind": "ses", "settings": {"region": "eu-west-1", "endpoint": endpoint, "fromAddress": "a@example.com"},
               "credentials": {"accessKeyId": "AKID", "secretAccessKey": "x"}})
    };
    let twilio = |connect_to: &str| {
        json!({"kind": "twilio", "settings": {"accountSid": sid, "senders": [{"from": "+12025550100"}],
                                              "endpoint": "http://localhost:19997", "connectTo": connect_to},
               "credentials": {"authToken": "x".repeat(32)}})
    };
    let browsers = |name: &str, value: Value| {
        let mut settings = json!({"subject": "mailto:a@example.com"});
        settings[name] = value;
        json!({"kind": "webPush", "settings": settings})
    };
    vec![
        ("/settings/host", smtp("127.0.0.1"), "outbound.allow = \"127.0.0.1:25\""),
        ("/settings/host", smtp("localhost"), "outbound.allow = \"localhost:25\""),
        ("/settings/host", smtp("10.1.2.3"), "outbound.allow = \"10.1.2.3:25\""),
        ("/settings/host", smtp("relay.example.com"), "outbound.allow = \"relay.example.com:25\""),
        ("/settings/host", smtp("169.254.169.254"), "no setting allows"),
        ("/settings/endpoint", ses("http://127.0.0.1:19997/"), "outbound.allow = \"127.0.0.1:19997\""),
        ("/settings/endpoint", ses("https://[::1]:8443/"), "outbound.allow = \"[::1]:8443\""),
        ("/settings/connectTo", twilio("127.0.0.1:19997"), "outbound.allow = \"127.0.0.1:19997\""),
        (
            "/settings/connectTo",
            browsers("connectTo", json!("10.0.0.1:443")),
            "outbound.allow = \"10.0.0.1:443\"",
        ),
        (
            "/settings/privateNetworks",
            browsers("privateNetworks", json!(["127.0.0.0/8"])),
            "not a known field",
        ),
        ("/settings/privateHosts", browsers("privateHosts", json!(["localhost"])), "not a known field"),
        ("/settings/ports", browsers("ports", json!([19_997])), "not a known field"),
        ("/settings/httpAllowed", browsers("httpAllowed", json!(true)), "not a known field"),
    ]
}

// fixes: security H2, usability A2
#[test]
fn a_tenant_opens_no_network_for_itself() {
    let server = Server::start();
    let mut client = server.client();
    for (pointer, account, reason) in attempts() {
        let problem = refused(client.json("PUT", "/api/v1/providers/scan", &account), "INVALID_REQUEST");
        let error = &problem["errors"][0];
        assert_eq!(error["pointer"], pointer, "{account}: {problem}");
        assert!(
            error["detail"].as_str().is_some_and(|detail| detail.contains(reason)),
            "{account}: {problem}"
        );
    }
    refused(client.get("/api/v1/providers/scan"), "PROVIDER_NOT_FOUND");
}

/// What an operator stops allowing is not connected to by accounts that are there already, and a test of them says why.
// fixes: security H2
#[test]
fn a_test_of_a_forbidden_account_connects_to_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let target = listener.local_addr().expect("a bound port").to_string();
    let account = json!({
        "kind": "smtp", "credentials": {},
        "settings": {"fromAddress": "a@example.com", "host": "localhost", "security": "none", "connectTo": target},
    });
    let house = Post::new();
    let server = house.start(&[("FANTAIL_OUTBOUND_ALLOW", &target)]);
    put(&mut server.client(), "relay", &account);
    server.stop();
    let server = house.start(&[]);
    let mut client = server.client();
    let tested = expect(bare(&mut client, "POST", "/api/v1/providers/relay/test"), 200);
    let hop = &tested["hops"][0];
    assert_eq!((&tested["ok"], &hop["ok"]), (&json!(false), &json!(false)), "{tested}");
    let detail = hop["detail"].as_str().expect("why");
    assert!(
        detail.contains("forbidden") && detail.contains(&format!("outbound.allow = \"{target}\"")),
        "{detail}"
    );
    let shown = expect(client.get("/api/v1/providers/relay"), 200);
    assert_eq!(shown["standing"]["usable"], false, "{shown}");
    assert!(listener.accept().is_err(), "nothing came");
}

/// Settings may be changed by a key whose owner never knew the credentials.
// fixes: security H3
#[test]
fn credentials_do_not_follow_to_another_place() {
    let (world, server) = World::with_server();
    let mut client = server.client();
    let path = "/api/v1/providers/mail";
    let with = |change: &dyn Fn(&mut Value)| {
        let mut settings = world.smtp()["settings"].clone();
        change(&mut settings);
        json!({"kind": "smtp", "settings": settings})
    };
    let mut first = with(&|_| ());
    first["credentials"] = json!({"username": "u", "password": "hunter2"});
    put(&mut client, "mail", &first);
    type Change = fn(&mut Value);
    let moves: [(&str, Change); 5] = [
        ("/settings/host", |settings| settings["host"] = json!("smtp.evil.example")),
        ("/settings/port", |settings| settings["port"] = json!(2525)),
        ("/settings/security", |settings| settings["security"] = json!("starttls")),
        ("/settings/connectTo", |settings| settings["connectTo"] = json!("127.0.0.1:2525")),
        ("/settings/host", |settings| {
            *settings = json!({"fromAddress": "news@example.com", "host": "mx.evil.example"})
        }),
    ];
    for (pointer, change) in moves {
        let moved = with(&change);
        let problem = refused(client.json("PUT", path, &moved), "INVALID_REQUEST");
        let error = &problem["errors"][0];
        assert_eq!(error["pointer"], "/credentials", "{moved}: {problem}");
        assert!(
            error["detail"].as_str().is_some_and(|detail| detail.contains(pointer)),
            "{moved}: {problem}"
        );
    }
    // What does not change where they go needs none.
    put(&mut client, "mail", &with(&|settings| settings["fromName"] = json!("Shop")));
    let mut moved = with(&|settings| settings["port"] = json!(2525));
    moved["credentials"] = json!({"username": "u", "password": "other"});
    put(&mut client, "mail", &moved);
    assert!(!server.log().contains("hunter2"));
}

/// Those of HTTP, each with what changes where its credentials go.
// fixes: security H3
#[test]
fn credentials_of_every_kind_stay_where_they_were_given_for() {
    let server = Server::start_with(&[], &[LOCAL_PROVIDERS]);
    let mut client = server.client();
    let sid = |last: char| format!("AC{}{last}", "0".repeat(31));
    let twilio = json!({
        "kind": "twilio", "credentials": {"authToken": "x"},
        "settings": {"accountSid": sid('1'), "senders": [{"from": "+12025550100"}]},
    });
    let ses = json!({
        "kind": "ses", "credentials": {"accessKeyId": "AKID", "secretAccessKey": "x"},
        "settings": {"region": "eu-west-1", "fromAddress": "a@example.com"},
    });
    let (pem, elsewhere) = (json!(certificate()), json!("https://api.evil.example"));
    let accounts = [
        (
            "twilio",
            twilio,
            vec![("accountSid", json!(sid('2'))), ("endpoint", elsewhere.clone()), ("caPem", pem.clone())],
        ),
        (
            "ses",
            ses,
            vec![
                ("region", json!("us-east-1")),
                ("endpoint", elsewhere),
                ("caPem", pem),
                ("connectTo", json!("127.0.0.1:9")),
            ],
        ),
    ];
    for (id, account, changes) in accounts {
        put(&mut client, id, &account);
        for (name, value) in changes {
            let mut moved = account.clone();
            moved["settings"][name] = value;
            moved.as_object_mut().expect("an object").remove("credentials");
            let problem =
                refused(client.json("PUT", &format!("/api/v1/providers/{id}"), &moved), "INVALID_REQUEST");
            assert_eq!(problem["errors"][0]["pointer"], "/credentials", "{id} {name}: {problem}");
        }
    }
}

fn certificate() -> String {
    rcgen::generate_simple_self_signed(vec!["evil.example".to_owned()]).expect("a certificate").cert.pem()
}

/// A fault in the credentials is placed there.
// fixes: usability 2.5
#[test]
fn a_fault_is_placed_where_it_stands() {
    let server = Server::start();
    let mut client = server.client();
    let apns = |credentials: Value| json!({"kind": "apns", "settings": {"teamId": "TEAM", "keyId": "KEY1", "topic": "a.b"}, "credentials": credentials});
    let fcm = json!({"kind": "fcm", "settings": {"projectId": "p"},
                     "credentials": {"serviceAccount": {"client_email": "a", "private_key": "no key"}}});
    for (account, pointer) in [
        (apns(json!({})), "/credentials/p8"),
        (fcm, "/credentials/serviceAccount/private_key"),
        (
            json!({"kind": "smtp", "settings": {"fromAddress": "a@example.com"}, "credentials": {}}),
            "/settings/host",
        ),
        (json!({"kind": "apns", "settings": {"teamId": "TEAM"}}), "/credentials"),
    ] {
        let problem = refused(client.json("PUT", "/api/v1/providers/one", &account), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
}

/// What one tenant changes opens no account of another.
// fixes: security L12
#[test]
fn a_change_of_one_tenants_account_opens_no_other() {
    let server = Server::start_with(&[], &[LOCAL_PROVIDERS]);
    let key = tenant_with_key(&mut server.admin(), "other", ALL_SCOPES);
    let (mut mine, mut theirs) = (server.client(), server.with_key(&key));
    let relay = |name: &str| {
        json!({"kind": "smtp", "credentials": {}, "settings": {"fromAddress": "a@example.com", "fromName": name,
               "host": "localhost", "security": "none", "connectTo": "127.0.0.1:9"}})
    };
    put(&mut theirs, "theirs", &relay("B"));
    for name in ["A", "C", "D"] {
        put(&mut mine, "mine", &relay(name));
    }
    let log = server.log();
    let opened = |id: &str| log.matches(&format!("provider=\"{id}\"")).count();
    assert_eq!((opened("mine"), opened("theirs")), (3, 1), "{log}");
}
