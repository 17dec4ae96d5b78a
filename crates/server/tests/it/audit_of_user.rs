//! The audit log of one user: found by a name that the log does not contain, page by page, beside the other filters.

use crate::audit::entries;
use crate::deliveries::{Post, counts, notification, register, send};
use crate::server::Server;
use crate::world::{
    ALL_SCOPES, bare, event, eventually, expect, follow, post, put_user, refused, tenant_with_key,
};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How many entries of each kind are about a user.
fn kinds(client: &mut Client, query: &str) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for entry in entries(client, query) {
        *kinds.entry(entry["kind"].as_str().expect("a kind").to_owned()).or_default() += 1;
    }
    kinds
}

/// Waits until so many entries of these kinds are about a user, and no others.
fn eventually_about(client: &mut Client, query: &str, expected: &[(&str, usize)]) {
    let expected: BTreeMap<String, usize> =
        expected.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
    eventually(&format!("{query} finds {expected:?}"), || (kinds(client, query) == expected).then_some(()));
}

fn ids(entries: &[Value]) -> Vec<(String, u64)> {
    let id = |entry: &Value| {
        let partition = entry["partition"].as_str().expect("a partition").to_owned();
        (partition, entry["sequence"].as_u64().expect("a number"))
    };
    entries.iter().map(id).collect()
}

fn put_all(client: &mut Client, users: &[String]) {
    let batch: Vec<Value> = users.iter().map(|user| json!({"userId": user})).collect();
    expect(client.post("/api/v1/users/batch", &json!({"users": batch})), 200);
}

/// A span that begins later has the later entries, and only them.
fn check_span(client: &mut Client, whole: &[Value]) {
    let times = whole.iter().map(|entry| entry["at"].as_str().expect("a time"));
    // The first ones may be of one instant.
    let later = times.clone().find(|at| Some(*at) > times.clone().next()).expect("not all at once");
    let rest = entries(client, &format!("user=ann&from={later}"));
    assert_eq!(ids(&rest).last(), ids(whole).last());
    assert!(rest.len() < whole.len() && rest.iter().all(|entry| entry["at"].as_str() >= Some(later)));
}

/// Page by page, nothing twice and nothing left out; a cursor is good for its own user.
fn check_pages(client: &mut Client, whole: &[Value]) {
    let page = expect(client.get("/api/v1/audit?user=ann&limit=1"), 200);
    assert_eq!((page["entries"].as_array().map(Vec::len), &page["closed"]), (Some(1), &json!(0)));
    let cursor = page["nextCursor"].as_str().expect("there is more").to_owned();
    refused(client.get(&format!("/api/v1/audit?user=bob&cursor={cursor}")), "INVALID_REQUEST");
    refused(client.get(&format!("/api/v1/audit?cursor={cursor}")), "INVALID_REQUEST");
    let (mut paged, mut cursor) = (page["entries"].as_array().expect("entries").clone(), Some(cursor));
    while let Some(next) = cursor {
        let page = expect(client.get(&format!("/api/v1/audit?user=ann&limit=1&cursor={next}")), 200);
        paged.extend(page["entries"].as_array().expect("entries").clone());
        cursor = page["nextCursor"].as_str().map(str::to_owned);
    }
    assert_eq!(ids(&paged), ids(whole));
}

/// Another tenant has nobody of this name in its log, and a name has a form.
fn check_others(server: &Server, client: &mut Client) {
    let other = tenant_with_key(&mut server.admin(), "acme", ALL_SCOPES);
    let mut other = server.with_key(&other);
    put_user(&mut other, "ann");
    assert!(entries(&mut other, "user=ann").is_empty());
    refused(client.get("/api/v1/audit?user="), "INVALID_REQUEST");
}

// proves: AUD-04, GDP-01, TEN-01
#[test]
fn one_user_is_found_among_many_and_gone_with_the_key() {
    let house = Post::new();
    let server = house.start(&[("FANTAIL_AUDIT_CHECKPOINT_S", "1")]);
    let mut client = server.client();
    let crowd: Vec<String> = (0..300).map(|no| format!("u{no}")).collect();
    put_all(&mut client, &crowd);
    for user in ["ann", "bob"] {
        put_user(&mut client, user);
        follow(&mut client, user, "star");
    }
    register(&mut client, "ann", "phone", "stub:ok/ann");
    register(&mut client, "bob", "phone", "stub:malformed");
    // Named among so many that their openings take several entries; alone; and as one of a list, of which none are kept.
    let mut all: Vec<&str> = crowd.iter().map(String::as_str).collect();
    all.extend(["ann", "bob"]);
    let to_all = send(&mut client, &notification("all", &all, json!({"channels": ["inApp"]})));
    let alone = send(&mut client, &notification("alone", &["ann"], json!({})));
    let poison = send(&mut client, &notification("poison", &["bob"], json!({})));
    let mut listed = event("e1", &json!({"followersOf": "star"}));
    listed["data"]["channels"] = json!(["push"]);
    let listed = post(&mut client, &listed);
    counts(&mut client, &alone, &json!({"sent": 1}));
    counts(&mut client, &poison, &json!({"dead": 1}));

    eventually_about(
        &mut client,
        "user=ann",
        &[("consent", 1), ("endpoint", 2), ("parcel", 3), ("outcome", 2)],
    );
    eventually_about(
        &mut client,
        "user=bob",
        &[("consent", 1), ("endpoint", 2), ("parcel", 3), ("outcome", 2), ("deadLettered", 2)],
    );
    eventually_about(&mut client, "user=u7", &[("parcel", 1)]);
    // Beside the other filters.
    eventually_about(&mut client, &format!("user=ann&notification={to_all}"), &[("parcel", 1)]);
    eventually_about(&mut client, "user=ann&notification=alone", &[("parcel", 1), ("outcome", 1)]);
    eventually_about(
        &mut client,
        &format!("user=ann&notification={listed}"),
        &[("parcel", 1), ("outcome", 1)],
    );
    eventually_about(&mut client, &format!("user=ann&notification={poison}"), &[]);
    eventually_about(&mut client, "user=ann&to=2020-01-01T00:00:00Z", &[]);
    eventually_about(&mut client, "user=ann&from=2999-01-01T00:00:00Z", &[]);
    let whole = entries(&mut client, "user=ann");
    check_span(&mut client, &whole);
    check_pages(&mut client, &whole);

    check_others(&server, &mut client);

    // Once the key is destroyed, only the erasure is left, for whoever knows the id; the others stay who they were.
    expect(bare(&mut client, "DELETE", "/api/v1/users/ann"), 204);
    eventually_about(&mut client, "user=ann", &[("erased", 1)]);
    put_user(&mut client, "ann");
    eventually_about(&mut client, "user=ann", &[("erased", 1)]);
    eventually_about(
        &mut client,
        "user=bob&notification=poison",
        &[("parcel", 1), ("outcome", 1), ("deadLettered", 1)],
    );
    eventually_about(&mut client, &format!("user=u7&notification={to_all}"), &[("parcel", 1)]);
    assert_eq!(entries(&mut client, "user=nobody").len(), 0);
}

// proves: AUD-04
#[test]
fn one_page_opens_so_many_entries_and_says_where_to_go_on() {
    let house = Post::new();
    let server = house.start(&[("FANTAIL_STORAGE_SHARDS", "1")]);
    let mut client = server.client();
    for user in ["ann", "bob"] {
        put_user(&mut client, user);
    }
    for no in 0..70 {
        send(&mut client, &notification(&format!("n{no}"), &["bob"], json!({"channels": ["inApp"]})));
    }
    send(&mut client, &notification("last", &["ann"], json!({"channels": ["inApp"]})));
    eventually_about(&mut client, "user=ann", &[("parcel", 1)]);
    let page = expect(client.get("/api/v1/audit?user=ann&limit=1000"), 200);
    assert_eq!(page["entries"], json!([]), "it is behind what one page opens");
    assert!(page["nextCursor"].is_string());
    eventually_about(&mut client, "user=bob", &[("parcel", 70)]);
}
