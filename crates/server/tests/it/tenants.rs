//! Tenants: apart in everything, changed at run time.

use crate::server::Server;
use crate::world::{
    ALL_SCOPES, bare, eventually, eventually_has, expect, follow, inbox, post, post_by, put_user, refused,
    tenant_with_key, unread,
};
use serde_json::json;

// proves: TEN-01
#[test]
fn two_tenants_with_the_same_ids_share_nothing() {
    let server = Server::start();
    let mut admin = server.admin();
    let mut acme = server.with_key(&tenant_with_key(&mut admin, "acme", ALL_SCOPES));
    let mut globex = server.with_key(&tenant_with_key(&mut admin, "globex", ALL_SCOPES));
    for client in [&mut acme, &mut globex] {
        put_user(client, "bob");
        follow(client, "bob", "ann");
    }
    let first = post(&mut acme, &post_by("ann", "1"));
    eventually_has(&mut acme, "bob", std::slice::from_ref(&first));
    assert_eq!(unread(&mut globex, "bob"), (0, 0));
    // The same source and id is another event in another tenant, and no conflict.
    let mut other = post_by("ann", "1");
    other["data"]["content"]["title"] = json!("Not the same");
    let second = post(&mut globex, &other);
    assert_ne!(first, second);
    eventually_has(&mut globex, "bob", std::slice::from_ref(&second));
    eventually_has(&mut acme, "bob", std::slice::from_ref(&first));
    refused(bare(&mut globex, "DELETE", &format!("/api/v1/events/{first}")), "EVENT_NOT_FOUND");
    expect(bare(&mut globex, "DELETE", "/api/v1/users/bob"), 204);
    assert_eq!(inbox(&mut acme, "bob", "")["unread"], 1);
}

// proves: API-04
#[test]
fn tenants_are_made_listed_and_changed() {
    let server = Server::start();
    let mut admin = server.admin();
    let made = expect(admin.post("/api/v1/tenants", &json!({"slug": "acme", "name": "Acme Inc."})), 201);
    assert_eq!((&made["slug"], &made["name"]), (&json!("acme"), &json!("Acme Inc.")));
    assert_eq!((&made["celebrityThreshold"], &made["retentionDays"]), (&json!(10_000), &json!(90)));
    refused(admin.post("/api/v1/tenants", &json!({"slug": "acme"})), "TENANT_EXISTS");
    for slug in ["", "Acme", "a b", "-a", "a/b"] {
        let problem = refused(admin.post("/api/v1/tenants", &json!({"slug": slug})), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], "/slug", "{slug}");
    }
    let change = json!({"celebrityThreshold": 100, "retentionDays": 7});
    let changed = expect(admin.json("PATCH", "/api/v1/tenants/acme", &change), 200);
    assert_eq!((&changed["celebrityThreshold"], &changed["retentionDays"]), (&json!(100), &json!(7)));
    assert_eq!(changed["name"], "Acme Inc.", "what is left out stays");
    for (change, pointer) in [
        (json!({"celebrityThreshold": 99}), "/celebrityThreshold"),
        (json!({"retentionDays": 0}), "/retentionDays"),
        (json!({"retentionDays": 3_651}), "/retentionDays"),
        (json!({"slug": "x"}), "/slug"),
    ] {
        let problem = refused(admin.json("PATCH", "/api/v1/tenants/acme", &change), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], pointer);
    }
    let tenants = expect(admin.get("/api/v1/tenants"), 200);
    let slugs: Vec<_> = tenants["tenants"].as_array().expect("a list").iter().map(|t| &t["slug"]).collect();
    assert_eq!(slugs, ["default", "acme"]);
    refused(admin.get("/api/v1/tenants/nowhere"), "UNKNOWN_TENANT");
}

#[test]
fn a_tenants_admin_key_administers_its_own_tenant() {
    let server = Server::start();
    let mut admin = server.admin();
    let mut acme = server.with_key(&tenant_with_key(&mut admin, "acme", &["admin"]));
    expect(acme.get("/api/v1/tenants/acme"), 200);
    expect(acme.post("/api/v1/tenants/acme/keys", &json!({"scopes": ["inbox:read"]})), 201);
    refused(acme.get("/api/v1/tenants/default"), "UNKNOWN_TENANT");
    refused(acme.post("/api/v1/tenants/default/keys", &json!({"scopes": ["admin"]})), "UNKNOWN_TENANT");
    refused(acme.get("/api/v1/tenants"), "FORBIDDEN");
    refused(acme.post("/api/v1/tenants", &json!({"slug": "mine"})), "FORBIDDEN");
    let problem =
        refused(acme.post("/api/v1/tenants/acme/keys", &json!({"scopes": ["root"]})), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/scopes/0");
    refused(acme.post("/api/v1/tenants/acme/keys", &json!({"scopes": []})), "INVALID_REQUEST");
}

// proves: FAN-01, FAN-02
#[test]
fn crossing_the_threshold_shows_every_post_once_in_order() {
    let server = Server::start();
    let mut client = server.client();
    let change = json!({"celebrityThreshold": 100});
    expect(server.admin().json("PATCH", "/api/v1/tenants/default", &change), 200);
    let names: Vec<String> = (0..200).map(|no| format!("fan-{no}")).collect();
    let users: Vec<_> = names.iter().map(|name| json!({"userId": name})).collect();
    expect(client.post("/api/v1/users/batch", &json!({"users": users})), 200);
    let edges = |range: std::ops::Range<usize>| {
        let edge = |name: &String| json!({"user": name, "actor": "star"});
        json!({"follows": names[range].iter().map(edge).collect::<Vec<_>>()})
    };
    expect(client.post("/api/v1/follows/batch", &edges(0..50)), 200);
    let mut posted = Vec::new();
    let mut post_one = |client: &mut fantail_server::client::Client| {
        posted.insert(0, post(client, &post_by("star", &format!("p{}", posted.len()))));
        posted.clone()
    };
    for _ in 0..3 {
        post_one(&mut client);
    }
    // Up: far above the threshold.
    expect(client.post("/api/v1/follows/batch", &edges(50..200)), 200);
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected = post_one(&mut client);
    }
    eventually_has(&mut client, "fan-0", &expected);
    // A shard takes in its own time: whoever leaves before that has not got them.
    eventually("the last fan has them too", || (unread(&mut client, "fan-199").0 >= 5).then_some(()));
    // Down again: everyone but the first ten leaves.
    expect(client.post("/api/v1/follows/batch-delete", &edges(10..200)), 200);
    for _ in 0..3 {
        expected = post_one(&mut client);
    }
    eventually_has(&mut client, "fan-0", &expected);
    eventually_has(&mut client, "fan-9", &expected);
    assert_eq!(unread(&mut client, "fan-0"), (11, 11));
    // Those who left keep what came while they followed, and get nothing later. The first three posts may have been
    // taken by their shard on either side of the follow.
    let left = inbox(&mut client, "fan-199", "state=all");
    assert!(left["unread"].as_u64().is_some_and(|unread| (5..=8).contains(&unread)), "{left}");
}
