//! What a tenant says about its categories and about users who say nothing, over the API.

use crate::audit;
use crate::deliveries::{Post, register, send};
use crate::outages::titled;
use crate::respect::{eventually_stands, patch};
use crate::server::Server;
use crate::world::{bare, eventually, expect, put_user, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};

const DEFAULTS: &str = "/api/v1/preferences/defaults";

fn put(client: &mut Client, category: &str, policy: &Value, status: u16) -> Value {
    expect(client.json("PUT", &format!("/api/v1/categories/{category}"), policy), status)
}

// proves: API-04, AUD-03, PRF-06
#[test]
fn policies_are_put_by_whoever_saw_them_last() {
    let server = Server::start();
    let mut client = server.client();
    let path = "/api/v1/categories/likes";
    refused(client.get(path), "CATEGORY_NOT_FOUND");
    assert_eq!(expect(client.get("/api/v1/categories"), 200), json!({"categories": []}));
    let first = put(&mut client, "likes", &json!({"blockedChannels": ["sms"], "priority": "low"}), 201);
    assert_eq!((&first["version"], &first["blockedChannels"]), (&json!(1), &json!(["sms"])));
    let late = client.json("PUT", path, &json!({})).expect("an answer");
    assert_eq!(late.header("etag"), Some("\"1\""), "what is there now");
    refused(Ok(late), "VERSION_CONFLICT");
    let mut fresh = server.client().with_header("if-match", "\"1\"");
    let digest = json!({"digest": {"windowSeconds": 60, "collapseKey": "{{ type }}:{{ object }}"}});
    let second = put(&mut fresh, "likes", &digest, 200);
    assert_eq!((&second["version"], &second["blockedChannels"]), (&json!(2), &Value::Null));
    assert_eq!(client.get(path).expect("an answer").header("etag"), Some("\"2\""));
    refused(
        client.json("PUT", "/api/v1/categories/news", &json!({"digest": {"windowSeconds": 0}})),
        "INVALID_REQUEST",
    );
    refused(client.json("PUT", "/api/v1/categories/news", &json!({"colour": "blue"})), "INVALID_REQUEST");
    refused(bare(&mut fresh, "DELETE", path), "VERSION_CONFLICT");
    expect(bare(&mut client, "DELETE", path), 204);
    refused(bare(&mut client, "DELETE", path), "CATEGORY_NOT_FOUND");

    assert_eq!(expect(client.get(DEFAULTS), 200), json!({"version": 0}));
    let off = json!({"channels": {"email": {"enabled": false}}, "globalEnabled": true});
    let said = expect(client.json("PATCH", DEFAULTS, &off), 200);
    assert_eq!((&said["version"], &said["globalEnabled"]), (&json!(3), &json!(true)));
    let said = expect(client.json("PATCH", DEFAULTS, &json!({"globalEnabled": null})), 200);
    assert_eq!((&said["globalEnabled"], &said["channels"]), (&Value::Null, &off["channels"]));
    refused(fresh.json("PATCH", DEFAULTS, &off), "VERSION_CONFLICT");
    refused(client.json("PATCH", DEFAULTS, &json!({"colour": "blue"})), "INVALID_REQUEST");

    let mut expected = ["category.put", "category.put", "category.delete", "defaults.put", "defaults.put"];
    expected.sort_unstable();
    eventually("the audit log says who did what", || {
        let all = audit::entries(&mut client, "");
        let mut found: Vec<&str> = all.iter().filter_map(|entry| entry["fact"]["action"].as_str()).collect();
        found.retain(|action| action.starts_with("category.") || action.starts_with("defaults."));
        found.sort_unstable();
        (found == expected).then_some(())
    });
}

// proves: PRF-01, PRF-03, DEL-18
#[test]
fn what_a_tenant_says_counts_from_its_answer_on() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    let sent = |client: &mut Client, id: &str, category: &str, state: &str| {
        let mut body = titled(id, &["ann"], "push", "Hello");
        body["category"] = json!(category);
        let id = send(client, &body);
        eventually_stands(client, &id, "ann", state).0["code"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(sent(&mut client, "n1", "news", "sent"), "");
    put(&mut client, "news", &json!({"blockedChannels": ["push"]}), 201);
    assert_eq!(sent(&mut client, "n2", "news", "suppressed"), "channel_blocked");
    put(&mut client, "must", &json!({"mandatoryChannels": ["push"]}), 201);
    patch(&mut client, "ann", &json!({"globalEnabled": false}));
    assert_eq!(sent(&mut client, "n3", "must", "sent"), "");
    assert_eq!(sent(&mut client, "n4", "may", "suppressed"), "global_off");
    patch(&mut client, "ann", &json!({"globalEnabled": null}));
    expect(client.json("PATCH", DEFAULTS, &json!({"channels": {"push": {"enabled": false}}})), 200);
    assert_eq!(sent(&mut client, "n5", "may", "suppressed"), "channel_off");
    patch(&mut client, "ann", &json!({"channels": {"push": {"enabled": true}}}));
    assert_eq!(sent(&mut client, "n6", "may", "sent"), "");
}
