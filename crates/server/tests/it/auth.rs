//! Keys: who is let in, and for how long.

use crate::server::Server;
use crate::world::{ALL_SCOPES, bare, eventually, expect, in_ms, key_of, put_user, refused, tenant_with_key};
use serde_json::json;

// proves: API-05
#[test]
fn wrong_keys_are_refused() {
    let server = Server::start();
    let good = server.key("default.key");
    let mut mistyped = good.clone().into_bytes();
    let last = mistyped.len() - 10;
    mistyped[last] = if mistyped[last] == b'a' { b'b' } else { b'a' };
    let mistyped = String::from_utf8(mistyped).expect("ascii");
    for key in ["", "x", "ft_", &mistyped, &format!("{good}x"), &"y".repeat(200)] {
        refused(server.with_key(key).get("/api/v1/users/bob"), "UNAUTHENTICATED");
    }
    let response = server.anonymous().get("/api/v1/users/bob").expect("an answer");
    assert_eq!(response.status, 401);
    assert_eq!(response.header("www-authenticate"), Some("Bearer"));
    let mut basic = server.anonymous().with_header("authorization", &format!("Basic {good}"));
    refused(basic.get("/api/v1/users/bob"), "UNAUTHENTICATED");
    refused(server.client().get("/api/v1/users/bob"), "USER_NOT_FOUND");
}

#[test]
fn revoked_keys_stop_at_once_and_others_go_on() {
    let server = Server::start();
    let mut admin = server.admin();
    let first = tenant_with_key(&mut admin, "acme", &["users:read"]);
    let second = key_of(&mut admin, "acme", &["users:read"]);
    let (mut first_client, mut second_client) = (server.with_key(&first), server.with_key(&second));
    refused(first_client.get("/api/v1/users/bob"), "USER_NOT_FOUND");
    let id = first.split('_').nth(1).expect("an id");
    expect(bare(&mut admin, "DELETE", &format!("/api/v1/tenants/acme/keys/{id}")), 204);
    let problem = refused(first_client.get("/api/v1/users/bob"), "UNAUTHENTICATED");
    assert!(problem["detail"].as_str().is_some_and(|text| text.contains("revoked")));
    refused(second_client.get("/api/v1/users/bob"), "USER_NOT_FOUND");
    refused(bare(&mut admin, "DELETE", "/api/v1/tenants/acme/keys/nobody"), "KEY_NOT_FOUND");
}

#[test]
fn expired_keys_stop_by_themselves() {
    let server = Server::start();
    let mut admin = server.admin();
    tenant_with_key(&mut admin, "acme", &["users:read"]);
    let ask = json!({"scopes": ["users:read"], "expiresAt": in_ms(700)});
    let made = expect(admin.post("/api/v1/tenants/acme/keys", &ask), 201);
    let mut client = server.with_key(made["key"].as_str().expect("a key"));
    refused(client.get("/api/v1/users/bob"), "USER_NOT_FOUND");
    eventually("the key expires", || {
        let response = client.get("/api/v1/users/bob").expect("an answer");
        (response.status == 401).then_some(())
    });
    for at in ["2020-01-01T00:00:00Z", "soon"] {
        let ask = json!({"scopes": ["users:read"], "expiresAt": at});
        let problem = refused(admin.post("/api/v1/tenants/acme/keys", &ask), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], "/expiresAt");
    }
}

#[test]
fn secrets_are_shown_once_and_stored_nowhere() {
    let server = Server::start();
    let mut admin = server.admin();
    let key = tenant_with_key(&mut admin, "acme", ALL_SCOPES);
    let secret = key.split('_').nth(2).expect("a secret").to_owned();
    let keys = admin.get("/api/v1/tenants/acme/keys").expect("an answer").text();
    assert!(keys.contains(key.split('_').nth(1).expect("an id")));
    assert!(!keys.contains(&secret));
    put_user(&mut server.with_key(&key), "bob");
    refused(server.with_key(&key).post("/api/v1/events", &json!({})), "INVALID_REQUEST");
    assert!(!server.log().contains(&secret), "the log has no secret");
    assert!(!server.log().contains("bob"), "the log has no ids of users");
    let data = server.data.clone();
    let directory = server.stop();
    let mut waiting = vec![data];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a directory");
            waiting.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else {
            let bytes = std::fs::read(&path).expect("a file");
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{} holds the secret", path.display());
        }
    }
    drop(directory);
}

#[test]
fn the_admin_key_names_its_tenant() {
    let server = Server::start();
    let mut admin = server.admin();
    let problem = refused(admin.get("/api/v1/users/bob"), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/Fantail-Tenant");
    let mut named = server.admin().with_header("Fantail-Tenant", "default");
    put_user(&mut named, "bob");
    expect(server.client().get("/api/v1/users/bob"), 200);
    let mut nowhere = server.admin().with_header("Fantail-Tenant", "nowhere");
    refused(nowhere.get("/api/v1/users/bob"), "UNKNOWN_TENANT");
}

#[test]
fn a_tenants_key_stays_with_its_tenant() {
    let server = Server::start();
    let key = tenant_with_key(&mut server.admin(), "acme", ALL_SCOPES);
    let mut own = server.with_key(&key).with_header("fantail-tenant", "acme");
    put_user(&mut own, "bob");
    let mut other = server.with_key(&key).with_header("fantail-tenant", "default");
    refused(other.get("/api/v1/users/bob"), "FORBIDDEN");
}

#[test]
fn the_operators_own_admin_key_is_used() {
    let given = "my-very-own-admin-key-of-forty-characters";
    let server = Server::start_with(&[], &[("FANTAIL_ADMIN_KEY", given)]);
    expect(server.with_key(given).get("/api/v1/tenants"), 200);
    assert!(!server.data.join("admin.key").exists(), "it is not written down");
    assert!(!server.banner.iter().any(|line| line.contains(given)));
}
