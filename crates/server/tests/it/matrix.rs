//! Every route of the table × who may call it. A new route is tested here without being named.

use crate::server::Server;
use crate::world::{
    ALL_SCOPES, bare, eventually_has, expect, follow, key_of, post, post_by, put_user, refused,
    tenant_with_key,
};
use fantail_api::route::{Handle, Method, Route};
use fantail_api::routes::ROUTES;
use fantail_server::client::{Client, Request, Response};
use serde_json::Value;
use std::collections::BTreeMap;

/// The route's path with these names in it.
pub fn path_of(route: &Route, event: &str, slug: &str) -> String {
    let mut path = route.path.to_owned();
    for (param, value) in [
        ("{user}", "bob"),
        ("{actor}", "ann"),
        ("{topic}", "news"),
        ("{template}", "order-shipped"),
        ("{event}", event),
        ("{notification}", event),
        ("{slug}", slug),
        ("{key}", "000000000000"),
        ("{webhook}", "wh_0"),
        ("{segment}", "vips"),
        ("{schedule}", "morning"),
        ("{bulk}", event),
        ("{page}", "forbidden"),
        ("{device}", "phone"),
        ("{channel}", "email"),
        ("{address}", "bob@example.com"),
        ("{token}", "0123456789"),
        ("{erasure}", NO_EVENT),
        ("{provider}", "ios"),
        ("{tenant}", slug),
        ("{picture}", "0123456789.gif"),
        ("{reference}", "0123456789"),
        ("{url}", "aHR0cHM6Ly9hLmI"),
        ("{seal}", "0123456789abc"),
    ] {
        path = path.replace(param, value);
    }
    // The parameters that are required.
    match (route.query.contains(&"user"), route.query.contains(&"notification")) {
        (true, true) => format!("{path}?user=bob&notification={event}"),
        (true, false) => path + "?user=bob",
        (false, _) => path,
    }
}

const NO_EVENT: &str = "01KG9V7W0R0000000000000001";

/// Sends the example that the OpenAPI document has for this route.
fn send_example(client: &mut Client, route: &Route, path: &str, document: &Value) -> Response {
    let operation = &document["paths"][route.path][route.method.text().to_ascii_lowercase()];
    let example = &operation["requestBody"]["content"]["application/json"]["example"];
    let body = if example.is_null() { String::new() } else { example.to_string() };
    let json = [("content-type", "application/json")];
    let headers: &[(&str, &str)] = if body.is_empty() { &[] } else { &json };
    let request = Request { method: route.method.text(), path, headers, body: body.as_bytes() };
    client.send(&request).expect("an answer")
}

// proves: API-05, TEN-03
#[test]
fn routes_need_their_key_and_their_scope() {
    let server = Server::start();
    let mut admin = server.admin();
    let full = tenant_with_key(&mut admin, "acme", ALL_SCOPES);
    let mut full = server.with_key(&full);
    let mut lacking: BTreeMap<&str, Client> = BTreeMap::new();
    for route in ROUTES {
        let path = path_of(route, NO_EVENT, "acme");
        let needed = match route.handle {
            Handle::Open(_) => {
                let response = bare(&mut server.anonymous(), route.method.text(), &path);
                expect_ok(route, response.expect("an answer"));
                continue;
            }
            Handle::Scoped(scope, _) => Some(scope.text()),
            Handle::TenantAdmin(_) => Some("admin"),
            Handle::ServerAdmin(_) => None,
            // Their key is the link; see `hosted`.
            Handle::Hosted(_) => {
                let response = bare(&mut server.anonymous(), route.method.text(), &path).expect("an answer");
                assert_eq!(response.status, 404, "{}", route.id);
                continue;
            }
            // Theirs is a signature or a seal; see `providers`.
            Handle::Callback(_) => {
                let response = bare(&mut server.anonymous(), route.method.text(), &path).expect("an answer");
                assert!(matches!(response.status, 200 | 403 | 404), "{}: {}", route.id, response.text());
                continue;
            }
        };
        refused(bare(&mut server.anonymous(), route.method.text(), &path), "UNAUTHENTICATED");
        match needed {
            Some(needed) => {
                // A tenant has fewer keys than there are routes.
                let lacking = lacking.entry(needed).or_insert_with(|| {
                    let others: Vec<&str> =
                        ALL_SCOPES.iter().copied().filter(|scope| *scope != needed).collect();
                    server.with_key(&key_of(&mut admin, "acme", &others))
                });
                let problem = refused(bare(lacking, route.method.text(), &path), "FORBIDDEN");
                assert!(problem["detail"].as_str().is_some_and(|text| text.contains(needed)), "{}", route.id);
            }
            None => {
                refused(bare(&mut full, route.method.text(), &path), "FORBIDDEN");
            }
        }
    }
}

fn expect_ok(route: &Route, response: Response) {
    assert_eq!(response.status, 200, "{}", route.id);
}

// proves: API-04
#[test]
fn routes_answer_as_the_document_says() {
    let server = Server::start();
    let mut admin = server.admin();
    let key = tenant_with_key(&mut admin, "acme", ALL_SCOPES);
    let mut client = server.with_key(&key);
    put_user(&mut client, "bob");
    let document = expect(client.get("/openapi.json"), 200);
    // Deletes last, so that the others find something.
    let (deletes, others): (Vec<_>, Vec<_>) = ROUTES.iter().partition(|route| route.method == Method::Delete);
    for route in others.into_iter().chain(deletes) {
        let path = path_of(route, NO_EVENT, "acme");
        let by = if matches!(route.handle, Handle::ServerAdmin(_)) { &mut admin } else { &mut client };
        let response = send_example(by, route, &path, &document);
        let operation = &document["paths"][route.path][route.method.text().to_ascii_lowercase()];
        let described = &operation["responses"][response.status.to_string()];
        assert!(!described.is_null(), "{} answered {}: {}", route.id, response.status, response.text());
        assert!(response.status < 500, "{} answered {}", route.id, response.text());
        if response.status >= 400 && !matches!(route.handle, Handle::Hosted(_)) {
            let code = response.json()["code"].as_str().expect("a code").to_owned();
            let codes = described["description"].as_str().expect("codes");
            assert!(codes.contains(&code), "{} gave {code}, described: {codes}", route.id);
        }
    }
}

// proves: TEN-01
#[test]
fn ids_of_another_tenant_do_not_exist() {
    let server = Server::start();
    let mut admin = server.admin();
    let mut ours = server.with_key(&tenant_with_key(&mut admin, "acme", ALL_SCOPES));
    let mut theirs = server.with_key(&tenant_with_key(&mut admin, "globex", ALL_SCOPES));
    put_user(&mut ours, "bob");
    follow(&mut ours, "bob", "ann");
    let event = post(&mut ours, &post_by("ann", "1"));
    eventually_has(&mut ours, "bob", std::slice::from_ref(&event));
    let document = expect(ours.get("/openapi.json"), 200);
    for route in ROUTES {
        let path = path_of(route, &event, "acme");
        // These make something of the caller's own, or are lists that are empty for the caller.
        let harmless = [
            "putUser",
            "putSuppression",
            "deleteSuppression",
            "listFollowers",
            "listSubscribers",
            "subscribeMany",
            "unsubscribeMany",
            "putTemplate",
            "putCategory",
            "putProvider",
            "putSchedule",
            "putSegment",
            "putSegmentMembers",
            "deleteCategory",
        ];
        let names_something = matches!(route.handle, Handle::Scoped(..)) && route.path.contains('{');
        let administers = matches!(route.handle, Handle::TenantAdmin(_));
        if (names_something && !harmless.contains(&route.id)) || administers {
            let response = send_with_ids(&mut theirs, route, &path, &document, &event);
            assert_eq!(response.status, 404, "{} answered {}", route.id, response.text());
        }
    }
    eventually_has(&mut ours, "bob", &[event]);
    assert_eq!(expect(ours.get("/api/v1/users/bob/follows/ann"), 200)["following"], true);
}

/// As `send_example`, but with an id that exists, in case a check of ids comes before the check of the user.
fn send_with_ids(client: &mut Client, route: &Route, path: &str, document: &Value, event: &str) -> Response {
    let text = document.to_string().replace(NO_EVENT, event).replace("2026-01-31T12", "2027-01-31T12");
    let document: Value = serde_json::from_str(&text).expect("still JSON");
    send_example(client, route, path, &document)
}
