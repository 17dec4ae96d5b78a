//! A tenant is deleted while everything of it is under way: nothing of it is answered, sent or found afterwards, and other tenants
//! notice nothing.

use crate::deliveries::{Post, counts, metric, notification, register, send};
use crate::outages::titled;
use crate::server::{Server, fantail, run};
use crate::world::{
    ALL_SCOPES, bare, eventually, expect, follow, in_ms, key_of, put_user, refused, tenant_with_key,
};
use fantail_node::ports::Points;
use fantail_server::client::Client;
use serde_json::{Value, json};

/// What must not be found. The words are in no file of ours.
const CANARIES: [&str; 6] = [
    "canary-tenant-user-81c2",
    "Canary Tenant Name 20bd",
    "canary-tenant-mail-5ea0",
    "canary-tenant-token-f731",
    "canary tenant content 6c18",
    "canary-tenant-secret-94d5",
];
const USER: &str = CANARIES[0];
const NAME: &str = CANARIES[1];
const MAIL: &str = CANARIES[2];
const TOKEN: &str = CANARIES[3];
const CONTENT: &str = CANARIES[4];
const SECRET: &str = CANARIES[5];

fn delete(admin: &mut Client, slug: &str) -> Value {
    expect(bare(admin, "DELETE", &format!("/api/v1/tenants/{slug}?confirm={slug}")), 202)
}

fn eventually_over(admin: &mut Client, slug: &str) {
    eventually("nothing is left of the tenant", || {
        let response = admin.get(&format!("/api/v1/tenants/{slug}")).expect("an answer");
        assert!(matches!(response.status, 200 | 404), "{}", response.text());
        (response.status == 404).then_some(())
    });
}

fn always_quiet() -> Value {
    json!({"quietHours": {"enabled": true, "start": "12:00", "end": "12:00", "timezone": "Asia/Tokyo"}})
}

/// A user with something in every store, and what is only the tenant's. Something waits, and something is scheduled.
fn plant(client: &mut Client) {
    let profile = json!({"attributes": {"name": NAME}, "email": format!("ok/{MAIL}@stub.test")});
    expect(client.json("PUT", &format!("/api/v1/users/{USER}"), &profile), 201);
    register(client, USER, "phone", &format!("stub:ok/{TOKEN}"));
    follow(client, USER, "ann");
    let account = json!({"kind": "smtp", "settings": {"host": "mail.example.com", "fromAddress": "a@example.com"},
        "credentials": {"username": "u", "password": SECRET}, "enabled": false});
    let made = client.json("PUT", "/api/v1/providers/mail", &account).expect("an answer");
    assert!(matches!(made.status, 200 | 201), "{}", made.text());
    expect(client.json("PUT", "/api/v1/segments/all", &json!({"filter": r#"reachable("push")"#})), 201);
    let category = client.json("PUT", "/api/v1/categories/news", &json!({})).expect("an answer");
    assert!(matches!(category.status, 200 | 201), "{}", category.text());
    let said = send(client, &titled("n1", &[USER], "push", CONTENT));
    counts(client, &said, &json!({"sent": 1}));
    expect(client.json("PATCH", &format!("/api/v1/users/{USER}/preferences"), &always_quiet()), 200);
    let waiting = send(client, &titled("n2", &[USER], "push", CONTENT));
    counts(client, &waiting, &json!({"deferred": 1}));
    let mut later = titled("n3", &[USER], "push", CONTENT);
    later["options"] = json!({"scheduledAt": in_ms(3_600_000)});
    send(client, &later);
}

/// Another tenant with a user who gets pushes.
fn neighbour(server: &Server) -> Client {
    let mut client = server.client();
    put_user(&mut client, "bob");
    register(&mut client, "bob", "phone", "stub:ok/bob");
    client
}

#[test]
fn nothing_of_a_deleted_tenant_is_answered_sent_or_found() {
    let post = Post::new();
    let server = post.start(&[]);
    let (mut admin, mut bob) = (server.admin(), neighbour(&server));
    let key = tenant_with_key(&mut admin, "shop", ALL_SCOPES);
    let mut shop = server.with_key(&key);
    plant(&mut shop);
    let link = expect(shop.post(&format!("/api/v1/users/{USER}/preference-links"), &json!({})), 201);
    let arrived = post.lines().len();

    for query in ["", "?confirm=", "?confirm=shops"] {
        let problem =
            refused(bare(&mut admin, "DELETE", &format!("/api/v1/tenants/shop{query}")), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], "/confirm", "{query}");
    }
    refused(bare(&mut shop, "DELETE", "/api/v1/tenants/shop?confirm=shop"), "FORBIDDEN");
    refused(bare(&mut admin, "DELETE", "/api/v1/tenants/none?confirm=none"), "UNKNOWN_TENANT");
    let begun = delete(&mut admin, "shop");
    assert!(begun["deletion"]["requestedAt"].is_string(), "{begun}");

    // At once, for everybody: refused by name while the keys are known, and as a key of nobody after that.
    for path in [format!("/api/v1/users/{USER}"), "/api/v1/notifications/n1/status".to_owned()] {
        let code = shop.get(&path).expect("an answer").json()["code"].clone();
        assert!(code == "TENANT_DELETING" || code == "UNAUTHENTICATED", "{path}: {code}");
    }
    let code =
        shop.post("/api/v1/notifications", &notification("n4", &[USER], json!({}))).expect("an answer");
    assert!(matches!(code.status, 401 | 409), "{}", code.text());
    let page = link["url"].as_str().expect("a URL").split_once("/u/").expect("a page").1.to_owned();
    assert_eq!(server.anonymous().get(&format!("/u/{page}")).expect("an answer").status, 404);

    eventually_over(&mut admin, "shop");
    refused(shop.get(&format!("/api/v1/users/{USER}")), "UNAUTHENTICATED");
    let listed = expect(admin.get("/api/v1/tenants"), 200).to_string();
    assert!(!listed.contains("shop"), "{listed}");
    assert_eq!(metric(&mut admin, "fantail_tenants_deleting", ""), 0);
    assert!(metric(&mut admin, "fantail_deleted_tenant_rows_total", "") > 10);
    eventually("the server's chain tells of it", || {
        let log = expect(admin.get("/api/v1/audit/server?limit=1000"), 200).to_string();
        (log.contains("\"tenant.delete\"") && log.contains("\"tenant.deleted\"")).then_some(())
    });

    // Others go on, and the slug is somebody else's now.
    let said = send(&mut bob, &notification("b1", &["bob"], json!({})));
    counts(&mut bob, &said, &json!({"sent": 1}));
    let mut fresh = server.with_key(&tenant_with_key(&mut admin, "shop", ALL_SCOPES));
    refused(fresh.get(&format!("/api/v1/users/{USER}")), "USER_NOT_FOUND");
    put_user(&mut fresh, USER);
    refused(fresh.get("/api/v1/notifications/n1/status"), "EVENT_NOT_FOUND");
    expect(bare(&mut fresh, "DELETE", &format!("/api/v1/users/{USER}")), 204);
    assert_eq!(post.lines().len(), arrived + 1, "only bob's: {:?}", post.lines());

    expect(bare(&mut admin, "POST", "/api/v1/backups"), 201);
    let data = server.data.to_str().expect("a path").to_owned();
    server.stop();
    let texts = post.directory.path("texts");
    std::fs::write(&texts, CANARIES.join("\n")).expect("a file");
    let said = run(&["scan", "--data", &data, "--file", texts.to_str().expect("a path")]);
    assert!(said.contains("0 hits of 6 texts"), "{said}");
    run(&["audit", "verify", "--data", &data]);
    run(&["check", "--data", &data]);
    // What is replayed is gone, too.
    let server = post.start(&[]);
    counts(&mut server.client(), "b1", &json!({"sent": 1}));
}

#[test]
fn a_deletion_goes_on_after_a_crash_at_every_point() {
    let post = Post::new();
    let points = Points::OF_DELETIONS;
    {
        let server = post.start(&[]);
        let (mut admin, _) = (server.admin(), neighbour(&server));
        for no in 0..points.len() {
            let mut shop = server.with_key(&tenant_with_key(&mut admin, &format!("shop-{no}"), ALL_SCOPES));
            plant(&mut shop);
        }
        server.stop();
    }
    let arrived = post.lines().len();
    for (no, point) in points.iter().enumerate() {
        let slug = format!("shop-{no}");
        let die_at = format!("{point}:1");
        let mut server = post.start(&[("FANTAIL_DELIVERY_DIE_AT", &die_at)]);
        // It dies before it answers, or after.
        drop(bare(&mut server.admin(), "DELETE", &format!("/api/v1/tenants/{slug}?confirm={slug}")));
        assert!(!server.wait(), "it died at {die_at}");
        let server = post.start(&[]);
        let mut admin = server.admin();
        eventually_over(&mut admin, &slug);
        let mut bob = server.client();
        let said = send(&mut bob, &notification(&format!("b{no}"), &["bob"], json!({})));
        counts(&mut bob, &said, &json!({"sent": 1}));
        server.kill();
    }
    assert_eq!(post.lines().len(), arrived + points.len(), "only bob's: {:?}", post.lines());
    let server = post.start(&[]);
    let data = server.data.to_str().expect("a path").to_owned();
    eventually("the server's chain tells of each end once", || {
        let log = expect(server.admin().get("/api/v1/audit/server?limit=1000"), 200).to_string();
        let count = |action: &str| log.matches(&format!("\"{action}\"")).count();
        let both = [count("tenant.delete"), count("tenant.deleted")];
        assert!(both.iter().all(|count| *count <= points.len()), "{both:?}");
        (both == [points.len(), points.len()]).then_some(())
    });
    server.stop();
    let found = fantail().args(["scan", "--data", &data]).args(CANARIES).output().expect("the binary runs");
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stdout));
    run(&["audit", "verify", "--data", &data]);
    run(&["check", "--data", &data]);
}

/// Requests that were let in before and come late leave nothing behind.
#[test]
fn requests_beside_a_deletion_leave_nothing_behind() {
    let post = Post::new();
    let server = post.start(&[]);
    let (mut admin, mut bob) = (server.admin(), neighbour(&server));
    expect(admin.post("/api/v1/tenants", &json!({"slug": "shop"})), 201);
    let key = key_of(&mut admin, "shop", ALL_SCOPES);
    let mut shop = server.with_key(&key);
    put_user(&mut shop, USER);
    register(&mut shop, USER, "phone", &format!("stub:ok/{TOKEN}"));
    std::thread::scope(|scope| {
        for no in 0..4 {
            let mut client = server.with_key(&key);
            scope.spawn(move || {
                for round in 0..1_000 {
                    let body = notification(&format!("n{no}-{round}"), &[USER], json!({}));
                    let response = client.post("/api/v1/notifications", &body).expect("an answer");
                    if response.status != 202 {
                        return;
                    }
                }
            });
        }
        eventually("something was sent", || (!post.lines().is_empty()).then_some(()));
        delete(&mut admin, "shop");
    });
    eventually_over(&mut admin, "shop");
    let said = send(&mut bob, &notification("b1", &["bob"], json!({})));
    counts(&mut bob, &said, &json!({"sent": 1}));
    let data = server.data.to_str().expect("a path").to_owned();
    server.stop();
    let arrived = post.lines();
    let server = post.start(&[]);
    counts(&mut server.client(), "b1", &json!({"sent": 1}));
    assert_eq!(post.lines(), arrived, "nothing is sent after a start");
    server.stop();
    run(&["check", "--data", &data]);
}
